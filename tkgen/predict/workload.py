"""The subject of a prediction: a compiled kernel, the sizes it runs on and the order of its blocks.

>>> workload = Workload.of(tkgen.load("specs/ping_pong.tk").build(), {"M": 4096, "N": 4096, "K": 4096})
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tkgen.emulate import Arg, Buffer, EmulateError, Outcome, TraceRequest
from tkgen.emulate import launch as emulated
from tkgen.execute.arguments import check_scalars, packed
from tkgen.ir.launch import Launch
from tkgen.ir.tensors import Tensor
from tkgen.ir.types import WAVE_LANES, Program, Side
from tkgen.predict.prediction import PredictError
from tkgen.toolchain.compiler import ToolchainError

if TYPE_CHECKING:
    from tkgen.build import Build


MOST_PIECES = 1 << 22  # blocks, or parts of sums, that a prediction goes through one by one


@dataclass(frozen=True, kw_only=True)
class Launched:
    """A compiled kernel and its launch: `arguments` makes the kernel's arguments, `sizes` are by dimension."""

    name: str
    hsaco: bytes = field(repr=False)
    kernel: str
    waves: int
    blocks: int
    blocks_per_cu: int
    sizes: tuple[tuple[str, int], ...]
    arguments: Callable[[], Sequence[Arg]] = field(repr=False)
    dynamic_lds: int = 0

    def run(self, limit: int, block: int = 0) -> Outcome:
        """A trace of one block's first instructions, `limit` of them. ToolchainError where the emulator has none."""
        try:
            return emulated(
                self.hsaco,
                kernel=self.kernel,
                grid=(self.blocks, 1, 1),
                block=(self.waves * WAVE_LANES, 1, 1),
                lds_bytes=self.dynamic_lds,
                args=self.arguments(),
                blocks=[block],
                budget=limit,
                trace=TraceRequest(limit=limit),
            )
        except EmulateError as error:
            raise ToolchainError(f"{self.name} does not run on the emulator: {error}") from error


def of_launch(build: Build, launch: Launch[Any], held: Mapping[Tensor, Sequence[int]]) -> dict[str, Any]:
    """The fields of `Launched`. Its tensors hold zeros, except for those of which it is known what they have `held`."""

    def arguments() -> Sequence[Arg]:
        try:  # zero pages that are never written cost nothing; one block touches little
            buffers = {t.name: Buffer(np.zeros(launch.bytes(t), np.uint8), t.name) for t in launch.program.arguments}
        except MemoryError as error:
            raise PredictError(f"tensors of these sizes cannot be had here: {error}") from None
        buffers |= {t.name: Buffer(np.array(values, np.int32), t.name) for t, values in held.items()}
        return [packed(launch, buffers, check_scalars(launch.program))]

    return {
        "name": build.spec.name,
        "hsaco": build.hsaco,
        "kernel": build.resources.kernel,
        "waves": build.spec.program.waves,
        "blocks": launch.blocks,
        "blocks_per_cu": build.occupancy.blocks_per_cu,
        "sizes": launch.stated,
        "arguments": arguments,
    }


@dataclass(frozen=True, kw_only=True)
class Workload(Launched):
    """A matrix product C[m, n] over `k`, computed by blocks of `block` elements.

    `products` sums are made at once, for each of `matrices` outputs; no two of these share a factor here, which heads
    of grouped queries do. An element of all left factors together has `left_bits` in memory, one of all right ones
    `right_bits`: weights are narrower than what they are multiplied with. Left factors that are read at affine indices
    have fewer elements than that: the taps of a convolution read each of them `again` times.

    `pieces` gives, in launch order, the block tile that is worked on and the first K-step of the part of K that is
    summed (0 where nothing is split), as (row, column, step); `piece_steps` is the length of that part. A block does
    one piece, or `repeats` of them one after another. `zeroed_bytes` of output are cleared before the launch.
    """

    m: int
    n: int
    k: int
    block: tuple[int, int, int]
    dtype: str
    left_bits: int
    again: float = 1.0
    right_bits: int
    output_bytes: int
    pieces: Sequence[tuple[int, int, int]] = field(repr=False)
    piece_steps: int
    repeats: int
    zeroed_bytes: int
    matrices: int = 1  # of outputs
    factors: int = 1  # of pairs of factors, of which several outputs may take a part each
    products: int = 1

    @property
    def flops(self) -> int:
        """Floating-point operations of the products."""
        return 2 * self.m * self.n * self.k * self.products * self.factors

    @property
    def operand_bytes(self) -> int:
        """Bytes of all factors."""
        left = int(self.m * self.left_bits / self.again)
        return (left + self.n * self.right_bits) * self.k // 8 * self.factors

    @property
    def flops_per_piece(self) -> int:
        """Matrix operations of one piece, whole K-steps."""
        rows, cols, step = self.block
        return 2 * rows * cols * step * self.piece_steps * self.products

    @classmethod
    def of(cls, build: Build, sizes: Mapping[str, int] | None = None) -> Workload:
        """The workload of a build; `sizes` for its dynamic dimensions. PredictError for sizes it cannot do."""
        program = build.spec.program
        try:
            launch: Launch[Program] = build.spec.launch(sizes)
        except ValueError as error:
            raise PredictError(str(error)) from None
        m, n, k = (launch.extents[d.name] for d in (program.m, program.n, program.k))
        if program.ragged:
            m = -(-m // launch.matrices)  # of a group: they are taken to be alike
        if program.ragged_sum and launch.matrices:
            k = -(-k // launch.matrices)
        if not launch.matrices:
            raise PredictError("a batch of no matrices takes no time")
        if launch.all_tiles * launch.parts > MOST_PIECES:
            counts = " x ".join(map(str, (*launch.batch, *launch.tile_grid)))
            raise PredictError(f"{counts} output tiles are more than a prediction looks at, {MOST_PIECES}")

        pieces, piece_steps = _pieces(launch)
        output = sum(t.dtype.bytes for t in program.outputs)
        return cls(
            **of_launch(build, launch, launch.held()),
            m=m,
            n=n,
            k=k,
            matrices=launch.matrices,
            factors=launch.factors,
            products=len(program.products),
            again=_again(launch, m, k),
            left_bits=sum(o.tensor.dtype.bits for o in program.operands if o.side is Side.A),
            right_bits=sum(o.tensor.dtype.bits for o in program.operands if o.side is Side.B),
            block=program.block,
            dtype=program.a.dtype.spelling,
            output_bytes=output,
            pieces=pieces,
            piece_steps=piece_steps,
            repeats=-(-len(pieces) // launch.blocks),
            zeroed_bytes=m * n * output * launch.matrices if program.added else 0,
        )


def _again(launch: Launch[Program], m: int, k: int) -> float:
    """The number of times that the contraction reads an element of left factors at affine indices; 1 of others."""
    views = launch.program.placed.values()
    return max([m * k * launch.factors / max(prod(launch.shape(v.tensor)), 1) for v in views] + [1.0])


def _pieces(launch: Launch[Program]) -> tuple[list[tuple[int, int, int]], int]:
    """Every piece of work in launch order, and the K-steps of one."""
    rows, cols = launch.tile_grid
    number = {apart: n for n, apart in enumerate(dict.fromkeys(map(launch.apart, range(launch.matrices))))}
    places = [(number[launch.apart(i)], launch.first_step(i)) for i in range(launch.matrices)]
    tiles = [(r + i * rows, c + i * cols, at) for i, at in places for r, c in launch.order]
    match launch.program.grid.name:
        case "split_k":
            part = launch.block_steps
            return [(r, c, i * part) for i in range(launch.parts) for r, c, _ in tiles], part
        case "stream_k":  # a run that reaches into the next tile counts for the one it begins in
            run, steps = launch.run_length, launch.steps
            return [(*tiles[at // steps][:2], at % steps) for at in range(0, len(tiles) * steps, run)], run
    return tiles, launch.block_steps
