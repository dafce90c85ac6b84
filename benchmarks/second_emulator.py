"""Compiled specs on a second emulator: tinygrad's, from a checkout of its repository.

    TKGEN_TINYGRAD=PATH python benchmarks/second_emulator.py specs/rows/elementwise.tk -D "ROWS=8 COLS=1024"

Each code object runs on both with the same arguments, and the bytes of all buffers are compared, and how far numbers
are apart. tinygrad's emulator interprets AMD's pseudo-code and decodes by itself. It compiles each instruction for
the CPU with `clang` (`CC`), and small sizes take minutes. Its memory is that of the process: regions are mapped at
the addresses that they have here. Exit code 1 if bytes differ, 2 if it cannot run a kernel.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tkgen.emulate import Outcome, launch
from tkgen.emulate.code_object import load
from tkgen.emulate.guest import Guest

PAGE = 4096
READ_WRITE, PRIVATE_FIXED = 3, 0x02 | 0x20 | 0x100000  # MAP_PRIVATE, MAP_ANONYMOUS, MAP_FIXED_NOREPLACE


@dataclass
class Difference:
    """A buffer whose bytes differ."""

    name: str
    bytes: int
    of: int
    places: int  # of numbers, the most that their bits are apart, as integers


def mapped(address: int, size: int) -> None:
    """Map zeros at an address of this process. OSError where something is there already."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype, libc.mmap.argtypes = (
        ctypes.c_void_p,
        [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long],
    )
    first, end = address // PAGE * PAGE, -(-(address + size) // PAGE) * PAGE
    if libc.mmap(first, end - first, READ_WRITE, PRIVATE_FIXED, -1, 0) != first:
        raise OSError(ctypes.get_errno(), f"no memory at 0x{first:x}")


def unmapped(address: int, size: int) -> None:
    """The opposite of `mapped`."""
    first, end = address // PAGE * PAGE, -(-(address + size) // PAGE) * PAGE
    ctypes.CDLL(None).munmap(ctypes.c_void_p(first), ctypes.c_size_t(end - first))


def run_there(guest: Guest, grid: tuple[int, int, int], block: tuple[int, int, int], lds: int) -> dict[str, bytes]:
    """The bytes of writable buffers after the launch on tinygrad's emulator."""
    from test.mockgpu.amd.emu import run_asm

    d, record = guest.kernel.descriptor, guest.record
    regions = [(r.base, np.asarray(r.data)) for r in guest.regions if len(r.data)]
    there: list[tuple[int, int]] = []
    try:
        for base, data in regions:
            mapped(base, len(data))
            there.append((base, len(data)))
            ctypes.memmove(base, data.ctypes.data, len(data))
        granules = -(-(d.group_bytes + lds) // 512)
        rsrc2 = d.rsrc2 & ~(0x1FF << 15) | granules << 15
        user = list(record.user_sgprs[: record.user_sgpr_count])
        entry = record.text_base + 4 * record.entry
        run_asm(entry, guest.code.text[1], *grid, *block, 0, rsrc2, record.scratch_bytes, "cdna", user)
        return {
            str(r.buffer.name): ctypes.string_at(r.base, len(r.data))
            for r in guest.regions
            if r.buffer is not None and r.buffer.writable
        }
    finally:
        for base, size in there:
            unmapped(base, size)


class Both:
    """In the place of `launch`: runs the launch on both emulators and keeps what differs."""

    def __init__(self) -> None:
        self.launches = 0
        self.seen: set[tuple[str | bytes, tuple[int, ...]]] = set()
        self.differences: list[Difference] = []

    def __call__(self, code: Any, *, grid: Any, block: Any, args: Sequence[Any], **options: Any) -> Outcome:
        key = (bytes(code) if isinstance(code, bytes) else str(code), tuple(grid))
        if key in self.seen:  # the same kernel under another order of its waves
            return launch(code, grid=grid, block=block, args=args, **options)
        self.seen.add(key)
        loaded = load(code)
        lds = options.get("lds_bytes", 0)
        guest = Guest(loaded, loaded.kernel(options.get("kernel")), args, grid, block, lds, options.get("resident"))
        started = time.time()
        there = run_there(guest, tuple(grid), tuple(block), lds)
        print(f"  {guest.kernel.name}: tinygrad's emulator took {time.time() - started:.0f} s", flush=True)
        outcome = launch(code, grid=grid, block=block, args=args, **options)
        self.launches += 1
        for region in guest.regions:
            if region.buffer is not None and region.buffer.writable:
                ours, theirs = region.buffer.bytes().tobytes(), there[str(region.buffer.name)]
                count = sum(a != b for a, b in zip(ours, theirs, strict=True))
                width = getattr(region.buffer.data, "element_size", lambda: 1)()
                found, wanted = (np.frombuffer(x, dtype=f"i{min(width, 8)}").astype(np.float64) for x in (theirs, ours))
                places = int(np.abs(found - wanted).max(initial=0))
                self.differences.append(Difference(str(region.buffer.name), count, len(ours), places))
        return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("specs", nargs="+", type=Path)
    parser.add_argument("-D", default="", dest="sizes", help="sizes, as tkgen run takes them")
    given = parser.parse_args()
    checkout = os.environ.get("TKGEN_TINYGRAD")
    if not checkout or not (Path(checkout) / "test/mockgpu/amd/emu.py").exists():
        print("TKGEN_TINYGRAD must name a checkout of tinygrad's repository", file=sys.stderr)
        return 2
    found = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if checkout not in found:  # again, with the checkout before the wheel of tinygrad
        paths = os.pathsep.join([checkout, *found])
        return subprocess.run([sys.executable, *sys.argv], env={**os.environ, "PYTHONPATH": paths}).returncode
    from tkgen.cli import main as tkgen
    from tkgen.execute import launch as executed

    status = 0
    for spec in given.specs:
        both = Both()
        executed.emulate_launch = both  # type: ignore[assignment]
        try:
            sys.argv = ["tkgen", "run", str(spec), *(["-D", given.sizes] if given.sizes else [])]
            tkgen()
        except SystemExit:
            pass
        except Exception as error:  # of an emulator that is not ours: whatever it lacks
            print(f"{spec.name}: tinygrad's emulator cannot run it: {error!r}"[:300])
            status = max(status, 2)
            continue
        wrong = [d for d in both.differences if d.bytes]
        total = sum(d.of for d in both.differences)
        most = max((d.places for d in both.differences), default=0)
        differ = f"{sum(d.bytes for d in wrong):,} differ, numbers by {most} in the last place at most"
        print(f"{spec.name}: {both.launches} launches, {total:,} bytes, {differ}")
        status = max(status, int(bool(wrong) or not both.launches))
    return status


if __name__ == "__main__":
    sys.exit(main())
