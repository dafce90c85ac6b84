"""The process of a check that calls the GPU: runs every item that has no result yet, and keeps each result at once.

A kernel that faults or hangs ends this process alone; `check` notes which item that was and starts another.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from tkgen.diagnostics import SpecError
from tkgen.emulate import EmulateError
from tkgen.hardware.context import WRONG, CheckContext, Section, sampled
from tkgen.hardware.hip import Hip, HipError
from tkgen.hardware.private import cleaned
from tkgen.hardware.progress import SectionProgress
from tkgen.hardware.sections import chosen
from tkgen.hardware.state import FORMAT, Result, State, StateError, tkgen_identity
from tkgen.targets.facts import target_files
from tkgen.toolchain.compiler import ToolchainError

DONE, USAGE, MISSING, INTERRUPTED = 0, 2, 3, 130
_PARENT_DIED = 1  # PR_SET_PDEATHSIG


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the items; the exit status."""
    given = _parsed(arguments)
    state = State(given.folder)
    _end_with_parent()
    with state.locked(), _own_errors(state.messages) as terminal:
        try:
            return _work(given, state, terminal)
        except KeyboardInterrupt:
            return INTERRUPTED
        except StateError as error:
            print(f"error: {error}", file=terminal)
            return USAGE
        except HipError as error:
            print(f"error: {error}", file=terminal)
            if error.install:
                print(f"  to get it: {error.install}", file=terminal)
            return MISSING


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--item", action="append", default=[])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, required=True)
    parser.add_argument("--cxx")
    parser.add_argument("--specs", type=Path, required=True)
    return parser.parse_args(arguments)


def _work(given: argparse.Namespace, state: State, terminal: TextIO) -> int:
    hip = Hip()
    device = hip.device
    if device.target not in target_files():
        known = ", ".join(name for name in target_files() if name.startswith("gfx"))
        raise HipError(f"this GPU is a {device.name} ({device.target}); tkgen has specs for {known}")
    state.start({
        "format": FORMAT, "tkgen": tkgen_identity(), "seed": given.seed, "GPU": device.name, "target": device.target,
        "compute units": device.compute_units, "memory": device.memory_bytes, "HIP": device.runtime,
        "clock": device.clock_mhz, "stand-in": device.stand_in,
    })  # fmt: skip
    context = CheckContext(hip, given.specs, given.seed, given.cxx)
    for section in chosen(given.only):
        if section.missing():
            continue
        names = section.items(context)
        items = [n for n in names if n in given.item] if given.item else sampled(names, given.sample)
        with SectionProgress(terminal, section.TITLE, len(items)) as progress:
            for item in items:
                result = state.result(section.NAME, item)
                if result is None:
                    progress.starts(item)
                    state.begin(section.NAME, item)
                    with _limited(given.limit):
                        result = _done(section, context, item)
                    state.finish(result)
                progress.ended(item, result["verdict"], result["said"])
    return DONE


def _done(section: Section, context: CheckContext, item: str) -> Result:
    """The result of an item; an error that it raises is its result, too."""
    start = time.perf_counter()
    try:
        found = section.run(context, item)
    except (HipError, ToolchainError, EmulateError, SpecError, ValueError, MemoryError) as error:
        found = {"verdict": WRONG, "said": f"{type(error).__name__}: {error}"}
    seconds = round(time.perf_counter() - start, 3)
    clean: Result = json.loads(cleaned_json({"section": section.NAME, "item": item, **found, "seconds": seconds}))
    return clean


def cleaned_json(value: object) -> str:
    """JSON whose texts name no host, user or folder."""

    def clean(one: object, key: str = "") -> object:
        match one:
            case str():
                return one if key in ("section", "item") else cleaned(one)
            case dict():
                return {k: clean(v, k) for k, v in one.items()}
            case list() | tuple():
                return [clean(v) for v in one]
        return one

    return json.dumps(clean(value))


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """End the process where an item takes longer: a kernel that hangs is not to be stopped in another way."""

    def end() -> None:
        print(f"no end after {seconds:g} s", file=sys.stderr, flush=True)
        os._exit(124)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def _own_errors(path: Path) -> Iterator[TextIO]:
    """Send standard error, that of libraries too, to a file; yields the one that there was."""
    terminal = os.fdopen(os.dup(2), "w", buffering=1)
    with path.open("w") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield terminal
        finally:
            sys.stderr.flush()
            os.dup2(terminal.fileno(), 2)
            terminal.close()


def _end_with_parent() -> None:
    """Let Linux end this process when the one that started it is gone."""
    with suppress(OSError, AttributeError):  # another system
        ctypes.CDLL(None).prctl(_PARENT_DIED, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
