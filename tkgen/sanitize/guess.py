"""A launch of a kernel of which nothing is known except its code object: the rule of `tkgen sanitize FOLDER`.

Threads of a block: Triton's `.json` beside the file; else `.reqd_workgroup_size`; else `.max_flat_workgroup_size`, in
place of the compiler's default of 1024 it is 256. A kernel that reads its second thread index gets rows of 64 threads.
Blocks: 4 along each index that the kernel descriptor asks for, of which the first and the last are run. Dynamic LDS:
none, or all that a block can have where the kernel reaches beyond its own.

Arguments: a pointer is memory that has addresses and no contents. A number of 4 or 8 bytes is one of `NUMBERS`, in all
places the same. Of a struct passed by value each 8 bytes are a pointer if the kernel, given pointers everywhere,
accesses that memory; else a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tkgen.emulate import (
    Arg,
    Buffer,
    Bytes,
    CodeObject,
    EmulateError,
    Hollow,
    Kernel,
    Scalar,
    Struct,
    TraceRequest,
)
from tkgen.emulate import launch as emulate
from tkgen.emulate.code_object import Argument
from tkgen.emulate.guest import Dim
from tkgen.sanitize.triton import Compiled

NUMBERS: Final = (256, 64, 1024, 16, 4096, 1)
POINTED: Final = 1 << 32  # bytes of each buffer without contents
ZEROS: Final = 1 << 22  # of each buffer of zeros
_DEFAULT, _THREADS, _ROW, _BLOCKS = 1024, 256, 64, 4
_PROBED: Final = 1 << 18  # instructions of a block
_TRACED: Final = 40_000  # of its first wave
_TRIED: Final = 32  # numbers of structs
_LOW: Final = 1 << 24  # addresses that a number makes where a pointer is meant
_DEAD: Final = np.uint64(2**64 - 1)  # the address of a lane that accesses nothing
_IN_LDS: Final = 4  # of an access in a trace (TkTraceEntry in core/abi.h)


@dataclass(frozen=True)
class Shape:
    """Blocks and threads of a launch; `source` says where the threads are from."""

    grid: Dim
    block: Dim
    source: str

    @property
    def blocks(self) -> tuple[int, ...]:
        """The linear ids of the blocks to run: the first and the last."""
        return tuple(dict.fromkeys((0, self.grid[0] * self.grid[1] * self.grid[2] - 1)))

    def __str__(self) -> str:
        return f"{'x'.join(map(str, self.grid))} blocks of {'x'.join(map(str, self.block))} threads ({self.source})"


def shape_of(kernel: Kernel, compiled: Compiled | None) -> Shape:
    """The launch of a kernel by its metadata and descriptor."""
    wanted = kernel.descriptor.rsrc2 >> 7 & 7
    x, y, z = (_BLOCKS if wanted >> axis & 1 else 1 for axis in range(3))
    required = kernel.metadata.get(".reqd_workgroup_size")
    if compiled is not None:
        return Shape((x, y, z), (compiled.threads, 1, 1), "Triton's metadata")
    if isinstance(required, Sequence) and len(required) == 3:
        a, b, c = map(int, required)
        return Shape((x, y, z), (a, b, c), ".reqd_workgroup_size")
    most, source = kernel.most_threads, ".max_flat_workgroup_size"
    if most == _DEFAULT:
        most, source = _THREADS, "a guess"
    planar = kernel.descriptor.rsrc2 >> 11 & 3 and most > _ROW
    return Shape((x, y, z), (_ROW, most // _ROW, 1) if planar else (most, 1, 1), source)


@dataclass(frozen=True)
class GuessedValues:
    """Arguments: the number in all places, and whether pointers are to zeros instead of memory without contents."""

    number: int
    zeros: bool = False

    def __str__(self) -> str:
        return f"numbers {self.number}{', memory of zeros' if self.zeros else ''}"

    def buffer(self, name: str) -> Buffer:
        """Memory for a pointer."""
        return Buffer(np.zeros(ZEROS, np.uint8) if self.zeros else Hollow(POINTED), name)


Pointers = dict[str, frozenset[int]]  # of structs by name: the offsets of the 8 bytes that are pointers


def arguments(kernel: Kernel, given: GuessedValues, pointers: Pointers) -> list[Arg]:
    """The arguments of a kernel; findings call a pointer in a struct after the struct and its offset."""
    return [_argument(a, given, pointers.get(a.name, frozenset())) for a in kernel.explicit_arguments]


def _argument(a: Argument, given: GuessedValues, pointers: frozenset[int]) -> Arg:
    if a.kind != "by_value":
        return given.buffer(a.name) if a.size == 8 else Bytes(bytes(a.size))
    if a.size <= 8 and not pointers:
        kinds = {8: "u64", 4: "u32", 2: "u16", 1: "u8"}
        most = (1 << 8 * a.size) - 1
        return Scalar(kinds[a.size], min(given.number, most)) if a.size in kinds else Bytes(bytes(a.size))
    fields: list[Arg] = [
        given.buffer(f"{a.name} at {at}") if at in pointers else Scalar("u64", given.number)
        for at in range(0, a.size - 7, 8)
    ]
    fields += [Scalar("u32", given.number)] if a.size % 8 >= 4 else []
    fields += [Bytes(bytes(a.size % 4))] if a.size % 4 else []
    return Struct(fields)


def pointers_of(code: CodeObject, kernel: Kernel, shape: Shape) -> Pointers:
    """The pointers in structs passed by value, from short runs.

    In the first run everything is a pointer. Those whose memory the first wave accesses in its first instructions are
    pointers. If one of its accesses then goes near address 0, or is dropped as it is out of the bounds of a buffer
    resource, another number may be a pointer: each is tried.
    """
    structs = [a for a in kernel.explicit_arguments if a.kind == "by_value" and a.size >= 8]
    everywhere = {a.name: frozenset(range(0, a.size - 7, 8)) for a in structs}
    if not structs:
        return {}
    try:
        found, _ = _accessed(code, kernel, shape, everywhere)
        if _accessed(code, kernel, shape, found)[1]:
            for name, at in [(name, at) for name, offsets in everywhere.items() for at in sorted(offsets)][:_TRIED]:
                if at not in found[name]:
                    more = found | {name: found[name] | {at}}
                    if at in _accessed(code, kernel, shape, more)[0][name]:
                        found = more
    except EmulateError:
        return everywhere
    return found


def _accessed(code: CodeObject, kernel: Kernel, shape: Shape, pointers: Pointers) -> tuple[Pointers, bool]:
    """The pointers whose memory a short run accesses, and whether it accesses memory near address 0, or none."""
    args = arguments(kernel, GuessedValues(NUMBERS[0]), pointers)
    outcome = emulate(
        code, args=args, kernel=kernel.name, grid=shape.grid, block=shape.block, blocks=[0],
        budget=_PROBED, trace=TraceRequest(0, _TRACED),
    )  # fmt: skip
    trace = outcome.trace
    assert trace is not None
    outside = trace.lanes[(trace.lanes >= 0) & (trace.rows["access"] & _IN_LDS == 0)]
    live = np.unique(trace.addresses[outside])
    nowhere = bool((trace.addresses[outside].min(axis=1, initial=_DEAD) == _DEAD).any())
    touched = {
        id(buffer) for base, buffer in trace.buffers
        if np.searchsorted(live, np.uint64(base)) < np.searchsorted(live, np.uint64(base + POINTED))
    }  # fmt: skip
    found = {
        a.name: frozenset(8 * n for n, field in enumerate(arg.fields) if id(field) in touched)
        for a, arg in zip(kernel.explicit_arguments, args, strict=True)
        if isinstance(arg, Struct)
    }
    return {name: found.get(name, frozenset()) for name in pointers}, bool(len(live) and live[0] < _LOW) or nowhere


def described(kernel: Kernel, pointers: Pointers) -> str:
    """The number of pointers and of numbers among the arguments, in words."""
    plain = [a for a in kernel.explicit_arguments if a.kind != "by_value"]
    inside = sum(map(len, pointers.values()))
    words: list[Any] = [f"{len(plain) + inside} pointers"]
    bytes_ = sum(a.size for a in kernel.explicit_arguments if a.kind == "by_value") - 8 * inside
    return ", ".join([*words, *([f"{bytes_} bytes of numbers"] if bytes_ else [])])
