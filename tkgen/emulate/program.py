"""A HIP program, unchanged, on the emulated GPU: `tkgen emulate -- ./program`.

The program finds our libamdhip64 (`runtime/`) in place of ROCm's, by LD_LIBRARY_PATH. Each process that calls HIP
connects to this one, which runs its kernels (`session`).
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from tkgen.emulate import native
from tkgen.emulate.errors import EmulateError
from tkgen.emulate.findings import Finding, Kind
from tkgen.emulate.launch import TraceRequest, launch
from tkgen.emulate.outcome import Outcome
from tkgen.emulate.session import Launch, Launcher, Result, Session

_RUNTIME: Final = Path(__file__).parent / "runtime"
_VERSIONS: Final = ("", ".4", ".5", ".6", ".7")  # the names by which programs ask for the library, by HIP's version
_SOCKET: Final = "TKGEN_HIP_SOCKET"
DEFAULT_BUDGET: Final = 200_000_000


def library_folder() -> Path:
    """The folder with our libamdhip64 under the names that programs ask for; compiles it on first use."""
    library = native.build(_RUNTIME, (f"-Wl,--version-script={_RUNTIME / 'versions.map'}", "-ldl"))
    folder = library.with_suffix("")
    try:
        folder.mkdir(exist_ok=True)
        for version in _VERSIONS:
            name = folder / f"libamdhip64.so{version}"
            if not name.exists():
                with tempfile.TemporaryDirectory(dir=folder) as made:
                    link = Path(made) / name.name
                    link.symlink_to(library)  # one file, so that a process that asks for two names has one library
                    os.replace(link, name)
    except OSError as error:
        raise EmulateError(f"cannot keep libamdhip64 in {folder}: {error.strerror}; set TKGEN_CACHE") from error
    return folder


class Timer(Protocol):
    """Predicts the times of launches."""

    def request(self, what: Launch) -> TraceRequest | None:
        """The trace that it needs of a launch."""
        ...

    def seconds(self, what: Launch, outcome: Outcome) -> float:
        """The time of a launch, from its run. Raises EmulateError where it cannot tell."""
        ...


def emulated(workers: int = 1, budget: int = DEFAULT_BUDGET, timer: Timer | None = None) -> Launcher:
    """Runs kernels as they are; what one must not do ends the program. With a `timer` launches have predicted times."""

    def run(what: Launch) -> Result:
        outcome = launch(
            what.module.code,
            args=what.args(),
            grid=what.grid,
            block=what.block,
            kernel=what.kernel.name,
            lds_bytes=what.lds_bytes,
            budget=budget,
            workers=workers,
            resident=what.resident(),
            cooperative=what.cooperative,
            trace=timer.request(what) if timer is not None else None,
        )
        faults = [finding for finding in outcome.findings if not _works(finding)]
        stopped = f"{what.kernel.name}: {faults[0]}" if faults else ""
        seconds = timer.seconds(what, outcome) if timer is not None and not stopped else None
        return Result(outcome.printed, stopped, seconds)

    return run


def _works(finding: Finding) -> bool:
    """Return True if the hardware does it: vector accesses that it splits, barriers that some waves have left."""
    if finding.kind is Kind.MISALIGNED:
        return finding.first.access != "updates" and not finding.first.text.startswith("s_")
    return finding.kind is Kind.BARRIER_COUNT


def run(
    command: Sequence[str], launcher: Launcher, target: str | None = None, environ: Mapping[str, str] | None = None
) -> int:
    """Run a program to its end and return its exit status, 128 and the signal where one ended it.

    `target` is the GPU that it finds; None for gfx942, or what it is compiled for where that is another. Raises
    EmulateError where the program or the library cannot be started.
    """
    folder = library_folder()
    with tempfile.TemporaryDirectory(prefix="tkgen-") as place, socket.socket(socket.AF_UNIX) as listening:
        path = str(Path(place) / "socket")
        listening.bind(path)
        listening.listen()
        variables = dict(os.environ if environ is None else environ)
        searched = [str(folder), *filter(None, [variables.get("LD_LIBRARY_PATH")])]
        variables |= {_SOCKET: path, "LD_LIBRARY_PATH": os.pathsep.join(searched)}
        accepting = threading.Thread(target=_accept, args=(listening, target, launcher), daemon=True)
        accepting.start()
        try:
            program = subprocess.Popen(list(command), env=variables)
        except OSError as error:
            raise EmulateError(f"cannot run {command[0]}: {error.strerror}") from error
        try:
            status = program.wait()
        except BaseException:
            program.terminate()
            program.wait()
            raise
        return status if status >= 0 else 128 - status


def _accept(listening: socket.socket, target: str | None, launcher: Launcher) -> None:
    """A session on its own thread for each process that connects."""
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return  # closed: the program has ended

        def serve(connection: socket.socket = connection) -> None:
            with connection:
                Session(connection, target, launcher).serve()

        threading.Thread(target=serve, daemon=True).start()
