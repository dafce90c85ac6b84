"""A whole check: the worker process, started again where an item ends it, on the GPU or on the stand-in."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tkgen.hardware.context import FAILED, WRONG
from tkgen.hardware.private import cleaned
from tkgen.hardware.sections import chosen
from tkgen.hardware.state import Result, State
from tkgen.hardware.worker import DONE, INTERRUPTED, MISSING

LIMIT: Final = 900.0
EMULATED_LIMIT: Final = 7200.0
MOST_ENDS: Final = 40
"""Items that may end the worker before the check gives up: then it is the GPU, and not the items."""
_LINES: Final = 6


@dataclass(frozen=True)
class CheckOptions:
    """The options of a check, as the command line has them."""

    folder: Path
    specs: Path
    only: str = ""
    items: tuple[str, ...] = ()
    sample: int | None = None
    seed: int = 0
    limit: float | None = None
    cxx: str | None = None
    stand_in: str | None = None  # the target that is emulated
    jobs: int = 1

    @property
    def seconds(self) -> float:
        """Seconds that an item may take; the emulator takes longer than a GPU."""
        return self.limit or (LIMIT if self.stand_in is None else EMULATED_LIMIT)

    def command(self) -> list[str]:
        """The command line of the worker."""
        words = [sys.executable, "-P", "-m", "tkgen.hardware.worker", "--folder", str(self.folder)]
        words += ["--only", self.only, "--seed", str(self.seed), "--limit", str(self.seconds)]
        words += ["--specs", str(self.specs)]
        for name, value in (("--sample", self.sample), ("--cxx", self.cxx)):
            words += [name, str(value)] if value is not None else []
        words += [word for item in self.items for word in ("--item", item)]
        return words


def run(options: CheckOptions) -> int:
    """Run all items that have no result; the worker's last exit status.

    An item that ends the worker is kept as failed, with the last lines of what it said, and the rest goes on.

    Raises:
        EmulateError: the stand-in cannot be started.
        KeyboardInterrupt: the check was interrupted; it continues when it is run again.
    """
    state = State(options.folder)
    ends = 0
    while True:
        status = _start(options)
        if status in (DONE, MISSING):
            return status
        if status == INTERRUPTED:
            raise KeyboardInterrupt
        begun = state.begun()
        if begun is None or ends == MOST_ENDS:
            return status
        ends += 1
        state.finish(_failure(state, begun, status))


def _failure(state: State, begun: tuple[str, str], status: int) -> Result:
    section, item = begun
    lines = state.messages.read_text(encoding="utf-8", errors="replace").splitlines()[-_LINES:]
    said = cleaned("\n".join([f"ended the process with status {status}", *lines]))
    return {"section": section, "item": item, "verdict": FAILED, "said": said, "seconds": 0.0}


def _start(options: CheckOptions) -> int:
    """Run the worker to its end; its exit status, negative for a signal or 128 and the signal."""
    package = str(Path(__file__).parents[2])
    environ = dict(os.environ)
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, [package, environ.get("PYTHONPATH")]))
    if options.stand_in is not None:
        from tkgen.emulate import program

        launcher = program.emulated(options.jobs)
        return program.run(options.command(), launcher, options.stand_in, environ)
    process = subprocess.Popen(options.command(), env=environ)
    try:
        return process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise


def absent(options: CheckOptions) -> list[tuple[str, str, str]]:
    """Sections that cannot run for want of a package: the section, the package, how to get it."""
    return [(s.NAME, name, install) for s in chosen(options.only) for name, install in s.missing()]


def is_wrong(results: Sequence[Result]) -> bool:
    """Return True if any item is wrong, or ended the process."""
    return any(result["verdict"] in (WRONG, FAILED) for result in results)
