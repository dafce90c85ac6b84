"""Code objects that are wrong on purpose: generated C++ with lines replaced, machine code with instructions left out.

And what they are judged by: every block on data, under several orders of the waves, with the referee on.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from tkgen.api import Spec, load
from tkgen.backends.cdna.kittens import include_dir
from tkgen.build import Build
from tkgen.emulate import Buffer, Finding, interleavings, launch
from tkgen.emulate import load as load_code
from tkgen.emulate.disassemble import disassemble
from tkgen.execute.arguments import packed, scalar_values
from tkgen.execute.compare import random_inputs
from tkgen.ir.rounding import TORCH
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.discover import find_compiler
from tkgen.toolchain.metadata import read_resources

BUDGET = 300_000  # instructions of a block; these have a tenth of it
FOLDER = Path(__file__).parent
S_NOP, S_BARRIER, S_WAITCNT = 0xBF800000, 0xBF8A0000, 0xBF8C


def spec_called(name: str) -> Spec:
    """A spec of this folder, proven."""
    return load(FOLDER / f"{name}.tk").check()


def compiled(spec: Spec, source: str | None = None) -> Build:
    """The code object of a spec, or of other C++ in the place of what is generated for it; nobody has watched it."""
    compiler = find_compiler(spec.target)
    text = spec.source.text if source is None else source
    made = compile_device(text, spec.target, compiler, include_dirs=[include_dir()], source_name=f"{spec.name}.cpp")
    assert made.asm is not None and made.hsaco is not None
    resources = next(iter(read_resources(made.hsaco).values()))
    return Build(spec, compiler, made.asm, made.hsaco, resources, None, made.seconds, False)


def with_lines(source: str, lines: Sequence[str], others: Sequence[str]) -> str:
    """`source` with the one place where `lines` follow each other, comments aside, replaced by `others`."""
    have = source.split("\n")
    bare = [line.split("  //")[0].strip() for line in have]
    wanted = [line.strip() for line in lines]
    places = [i for i in range(len(have)) if bare[i : i + len(wanted)] == wanted]
    assert len(places) == 1, f"{len(places)} places have {wanted}"
    return "\n".join([*have[: places[0]], *others, *have[places[0] + len(wanted) :]])


def without_one(build: Build) -> Iterator[tuple[str, Build]]:
    """The code object with one barrier or wait less, each in turn, and what was left out."""
    code = load_code(build.hsaco)
    text = build.hsaco.index(code.code)
    for index in code.program.starts():
        (word,) = struct.unpack_from("<I", code.code, 4 * index)
        if word == S_BARRIER or word >> 16 == S_WAITCNT:
            at = text + 4 * index
            patched = build.hsaco[:at] + struct.pack("<I", S_NOP) + build.hsaco[at + 4 :]
            yield f"{disassemble(code.program, index)} at {4 * index:#x}", replace(build, hsaco=patched)


def exhaustive(build: Build, extents: Mapping[str, int] | None = None, orders: int = 3) -> list[Finding]:
    """Findings of the referee in any block, on data, under several orders; the first findings are enough."""
    program = build.spec.program
    made, values = build.spec.launch(extents), scalar_values(program, {s.name: 1.0 for s in program.scalars})
    inputs = random_inputs(made)
    for order in interleavings(orders):
        out = program.accumulator.tensor
        tensors = {**inputs, out.name: torch.zeros(made.shape(out), dtype=TORCH[out.dtype])}
        found = launch(
            build.hsaco,
            kernel=build.resources.kernel,
            grid=made.grid,
            block=made.block,
            args=[packed(made, {name: Buffer(tensor, name=name) for name, tensor in tensors.items()}, values)],
            policy=order.policy,
            seed=order.seed,
            watch=True,
            poison=True,  # a missing wait shows, and may leave a loop without an end
            budget=BUDGET,
        ).findings
        if found:
            return list(found)
    return []
