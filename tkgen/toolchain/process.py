"""Running compilers: argument lists only, never a shell; a time limit ends the whole process group."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TIMEOUT_EXIT = 124
"""Exit status reported for a command that ran past its limit, as timeout(1) does."""

NOT_STARTED_EXIT = 127
"""Exit status reported for a command that could not be started, as a shell does."""

# Variables that change what a compiler reads or does behind the command line's back.
_HIDDEN_INPUTS = frozenset(
    {
        "CPATH",
        "C_INCLUDE_PATH",
        "CPLUS_INCLUDE_PATH",
        "OBJC_INCLUDE_PATH",
        "CCC_OVERRIDE_OPTIONS",
        "HIPCC_COMPILE_FLAGS_APPEND",
        "HIPCC_LINK_FLAGS_APPEND",
        "HIPCC_VERBOSE",
        "SOURCE_DATE_EPOCH",
    }
)


@dataclass(frozen=True)
class Completed:
    """The result of a command: its exit status, stdout, stderr (text, undecodable bytes replaced) and wall seconds."""

    command: tuple[str, ...]
    status: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def ok(self) -> bool:
        """True where the command ended with status 0."""
        return self.status == 0


def run_tool(
    command: Sequence[str], *, cwd: Path | None = None, timeout: float = 300.0, environ: Mapping[str, str] | None = None
) -> Completed:
    """Run one command and collect its output. Never raises for what the command does: see `status`.

    The environment is that of this process (or `environ`) less what would change the result unseen, with messages in
    English. `timeout` is in seconds; past it the command and its children are killed and the status is TIMEOUT_EXIT.
    """
    env = {k: v for k, v in (os.environ if environ is None else environ).items() if k not in _HIDDEN_INPUTS}
    env["LC_ALL"] = "C"
    start = time.perf_counter()
    try:
        process = subprocess.Popen(
            list(command),
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in an argument
        return Completed(tuple(command), NOT_STARTED_EXIT, "", f"cannot run {command[0]}: {error}\n", 0.0)
    try:
        out, err = process.communicate(timeout=timeout)
        status = process.returncode
    except subprocess.TimeoutExpired:
        _kill_group(process)
        out, err = process.communicate()
        err += f"\nended after {timeout:g} s: time limit\n".encode()
        status = TIMEOUT_EXIT
    except BaseException:
        _kill_group(process)
        process.wait()
        raise
    text = [part.decode("utf-8", errors="replace") for part in (out, err)]
    return Completed(tuple(command), status, text[0], text[1], time.perf_counter() - start)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()
