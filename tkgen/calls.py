"""What a launch of a generated kernel takes: blocks, and its one argument. Torch is not needed for it."""

from __future__ import annotations

from collections.abc import Mapping

from tkgen.emulate.arguments import Buffer, Scalar, Struct
from tkgen.ir.types import Program, Tensor


def read_names(program: Program) -> set[str]:
    """The tensors whose elements the kernel reads."""
    return {o.name for o in program.operands} | {s.tensor.name for s in program.epilogue if s.tensor}


def argument_tensors(program: Program) -> list[Tensor]:
    """The tensors that the kernel takes, in the order of the spec."""
    wanted = read_names(program) | {program.accumulator.tensor.name}
    return [t for t in program.tensors if t.name in wanted]


def packed(
    program: Program, buffers: Mapping[str, Buffer], extents: Mapping[str, int], scalars: Mapping[str, float]
) -> Struct:
    """The kernel's one argument, laid out as the generated `globals` is, over a buffer for every tensor it takes."""
    members: list[Buffer | Scalar] = []
    for tensor in argument_tensors(program):
        members.append(buffers[tensor.name])
        members += [Scalar("u64", extents[d.name]) for d in tensor.dims if d.size is None]
    members += [Scalar("f32", scalars[s.name]) for s in program.scalars]
    members.append(Scalar("u64", 0))  # the stream
    return Struct(members)


def grid(program: Program, extents: Mapping[str, int]) -> tuple[int, int, int]:
    """Blocks to launch."""
    if program.grid.name in ("persistent", "stream_k"):
        return program.grid.count, 1, 1
    rows, cols = (
        -(-extents[d.name] // size) for d, size in zip((program.m, program.n), program.block[:2], strict=True)
    )
    return rows * cols * (program.grid.count if program.grid.name == "split_k" else 1), 1, 1
