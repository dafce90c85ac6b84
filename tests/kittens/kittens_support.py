"""Support for the tests of the headers: element types in numpy, compiling kernels, running them on the emulator."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tkgen.backends.cdna.kittens import include_dir
from tkgen.emulate import Arg, Buffer, Outcome, Scalar, Struct, TraceRequest, launch
from tkgen.targets import load_target
from tkgen.targets.model import Resources
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.compiler import Compiler
from tkgen.toolchain.isa import Function, parse_asm
from tkgen.toolchain.metadata import read_resources

Array = npt.NDArray[Any]

PRELUDE = """
#include "kittens.cuh"
using namespace kittens;
using ducks::rt_layout::row;
using ducks::rt_layout::col;
using ducks::rt_shape::rt_16x16;
using ducks::rt_shape::rt_32x32;
template <typename T> using dynamic = gl<T, -1, -1, -1, -1>;
#define SHARED extern __shared__ alignment_dummy __shm[]; shared_allocator al((int *)&__shm[0]);
#define KERNEL(name, threads, ...) extern "C" __global__ __launch_bounds__(threads) void name(__VA_ARGS__)
"""


@dataclass(frozen=True)
class Element:
    """An element type: its C++ name and how numpy holds it (bf16 as its 16 bits)."""

    cpp: str
    size: int
    storage: type

    def __str__(self) -> str:
        return self.cpp

    def pack(self, values: Array) -> Array:
        """float32 -> the stored type, rounding to nearest even."""
        values = np.ascontiguousarray(values, dtype=np.float32)
        if self.cpp != "bf16":
            return values.astype(self.storage)
        word = values.view(np.uint32).astype(np.uint64)
        rounded = (word + 0x7FFF + ((word >> 16) & 1)) >> 16
        return np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16)

    def unpack(self, stored: Array) -> Array:
        """The stored type -> float32."""
        if self.cpp != "bf16":
            return stored.astype(np.float32)
        return (stored.astype(np.uint32) << 16).view(np.float32)

    def round(self, values: Array) -> Array:
        """The nearest representable values."""
        return self.unpack(self.pack(values))


BF16 = Element("bf16", 2, np.uint16)
HALF = Element("half", 2, np.float16)
FLOAT = Element("float", 4, np.float32)
ELEMENTS = {element.cpp: element for element in (BF16, HALF, FLOAT)}


@dataclass(frozen=True)
class Compiled:
    """A code object with what is known about its kernels."""

    hsaco: bytes
    functions: dict[str, Function]
    resources: dict[str, Resources]

    def mnemonics(self, kernel: str) -> list[str]:
        return [i.mnemonic for i in self.functions[kernel].instructions]


Build = Callable[..., Compiled]
"""The `build` fixture: `build(source, target="gfx942")`."""


def compile_kernels(source: str, target: str, compiler: Compiler) -> Compiled:
    """Compile PRELUDE and `source` without warnings to kernels free of spills, scratch and flat accesses."""
    result = compile_device(PRELUDE + source, load_target(target), compiler, include_dirs=[include_dir()])
    assert result.hsaco is not None and result.asm is not None
    assert not result.warnings, result.warnings
    resources = read_resources(result.hsaco)
    functions = parse_asm(result.asm)
    for name, used in resources.items():
        assert used.clean, f"{name}: {used}"
        slow = [i.mnemonic for i in functions[name].instructions if re.match("flat_|scratch_", i.mnemonic)]
        assert not slow, f"{name}: {slow}"
    return Compiled(result.hsaco, functions, resources)


def tensor(data: Array, *, writable: bool = True) -> Struct:
    """A gl<T, -1, -1, -1, -1> of an array of at most four dimensions."""
    shape = (1,) * (4 - data.ndim) + data.shape
    return Struct([Buffer(data, writable=writable), *(Scalar("u64", extent) for extent in shape)])


def run(
    compiled: Compiled,
    kernel: str,
    args: Sequence[Arg],
    *,
    threads: int = 64,
    blocks: int = 1,
    lds: int = 65536,
    trace: bool = False,
) -> Outcome:
    """Launch with the referee watching; any finding fails the test."""
    outcome = launch(
        compiled.hsaco,
        kernel=kernel,
        args=args,
        grid=(blocks, 1, 1),
        block=(threads, 1, 1),
        lds_bytes=lds,
        watch=True,
        poison=True,
        trace=TraceRequest() if trace else None,
    )
    assert not outcome.findings, [str(f) for f in outcome.findings]
    assert outcome.completed
    return outcome


def lds_accesses(outcome: Outcome) -> list[tuple[str, list[int | None]]]:
    """(mnemonic, byte address per lane) of every LDS instruction executed; None where a lane was off."""
    trace = outcome.trace
    assert trace is not None
    accesses = []
    for index, lanes in zip(trace.index, trace.lanes, strict=True):
        mnemonic = outcome.program.mnemonic(int(index))
        if mnemonic.startswith("ds_") and lanes >= 0:
            off = np.uint64(2**64 - 1)
            accesses.append((mnemonic, [None if a == off else int(a) for a in trace.addresses[lanes]]))
    return accesses


def numbers(shape: tuple[int, ...], seed: int = 0, limit: int = 100) -> Array:
    """Small integers, exact in every element type, as float32."""
    return np.random.default_rng(seed).integers(-limit, limit + 1, shape).astype(np.float32)
