"""The command line: parses arguments, calls one function per command, renders. Nothing is computed here.

Exit codes: 0 all is well, 1 a spec is wrong (or its numbers are), 2 the command line is, 3 the toolchain failed.
Heavy modules are imported by the command that needs them, so that `tkgen --help` is quick.
"""

from __future__ import annotations

import gc
import os
from typing import Annotated

import typer

from tkgen.cli import building, hardware, inspecting, looking, project, running, tuning, verifying
from tkgen.cli.common import OK, Commands, say

app = typer.Typer(
    name="tkgen",
    cls=Commands,
    help="Compile short specs of tiled GPU kernels to proven ThunderKittens C++ and machine code; run it without a "
    "GPU.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for group in (
    building,
    inspecting,
    looking,
    running,
    verifying,
    tuning,
    hardware,
    project,
):  # the order of `tkgen --help`
    app.add_typer(group.commands)


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        from tkgen import __version__

        say(f"tkgen {__version__}")
        raise typer.Exit(OK)


def main() -> None:
    """The console entry point: whatever goes wrong, a message and an exit code, never a traceback."""
    # Threads of torch that wait for work sleep: on a busy machine those that spin made `run` five times as slow.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    gc.set_threshold(100_000)  # few values of a command are cycles, and looking for them took a fifth of `check`
    try:
        app()
    except BrokenPipeError:
        os._exit(OK)


if __name__ == "__main__":
    main()
