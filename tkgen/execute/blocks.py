"""Some blocks of a launch at full size: what a kernel does at sizes at which the emulator cannot run all of it.

The tensors have their full sizes, but only the rows and columns that the blocks read hold numbers; everything else
holds NaNs. So a block that reads beyond its part has NaNs in its result, and one that writes beyond it leaves numbers
where none belong.

>>> build = load("specs/eight_wave.tk").build()
>>> run_blocks(build, sample(launched(build.spec))).ok
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from tkgen.emulate import Interleaving
from tkgen.execute.arguments import SizeError, launched, scalar_values
from tkgen.execute.compare import TORCH, UNIT_ROUNDOFF, Inputs, compare, random_inputs, reference
from tkgen.execute.launch import Run, emulate
from tkgen.ir.launch import Launch, Piece
from tkgen.ir.types import Tensor

if TYPE_CHECKING:
    from tkgen.build import Build


WATCHED_STEPS = 1000  # K-steps of one block beyond which it touches more memory than the referee can watch
SAMPLE_STEPS = 1000  # K-steps of a sample: a second or so for a hundred


def watched(launch: Launch, blocks: Sequence[int]) -> bool:
    """Whether the referee can watch these blocks."""
    return all(_steps(launch.work[block]) <= WATCHED_STEPS for block in blocks)


def _steps(mine: Sequence[Piece]) -> int:
    return sum(piece.steps for piece in mine)


def sample(launch: Launch) -> tuple[int, ...]:
    """Blocks worth running where there are many: that of the last corner, the first and one in the middle.

    Blocks that each compute many tiles are long, so there are fewer of them.
    """
    work = launch.work
    busy = [block for block, mine in enumerate(work) if mine]
    corner = max(busy, key=lambda block: max((p.row, p.col, p.last) for p in work[block]))
    chosen = [corner]
    for block in (busy[0], busy[len(busy) // 2]):
        if block not in chosen and sum(_steps(work[b]) for b in (*chosen, block)) <= SAMPLE_STEPS:
            chosen.append(block)
    return tuple(sorted(chosen))


def run_blocks(
    build: Build,
    blocks: Sequence[int],
    *,
    extents: Mapping[str, int] | None = None,
    seed: int = 0,
    kind: Inputs = Inputs.EXACT,
    scalars: Mapping[str, float] | None = None,
    order: Interleaving | None = None,
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
) -> Run:
    """A launch of these blocks alone, compared where they write; what is written elsewhere counts as wrong.

    The referee watches where it can (`watched`).

    Raises:
        SizeError: sizes the kernel cannot do, or a block that the launch does not have.
    """
    program = build.spec.program
    launch = launched(build.spec, extents)
    values = scalar_values(program, scalars)
    if beyond := [b for b in blocks if not 0 <= b < launch.blocks]:
        raise SizeError(f"there is no block {beyond[0]}: the launch has blocks 0..{launch.blocks - 1}")
    mine = [piece for block in dict.fromkeys(blocks) for piece in launch.work[block]]
    inputs = _inputs(launch, mine, seed, kind)
    output, outcome = emulate(
        build, launch, inputs, values, order=order, watch=watched(launch, blocks), workers=workers, blocks=blocks,
        progress=progress,
    )  # fmt: skip
    expected = _expected(launch, mine, inputs, values)
    untouched = output == 0 if program.adds_to_output else output.isnan()
    outside = int((~untouched).sum())
    found, wanted, bounds = [], [], []
    for (row, col), (value, bound) in expected.items():
        at = _tile(launch, row, col)
        outside -= int((~untouched[at]).sum())
        found.append(output[at].flatten())
        wanted.append(value.flatten())
        bounds.append(bound.flatten())
    comparison = compare(torch.cat(found), torch.cat(wanted), torch.cat(bounds))
    return Run(launch.extents, output, replace(comparison, wrong=comparison.wrong + outside), outcome)


def _tile(launch: Launch, row: int, col: int) -> tuple[slice, slice]:
    """The elements of an output tile."""
    (rows, cols, _), (m, n) = launch.program.block, launch.shape(launch.program.accumulator.tensor)
    return slice(row * rows, min((row + 1) * rows, m)), slice(col * cols, min((col + 1) * cols, n))


def _parts(launch: Launch, piece: Piece) -> dict[str, slice]:
    """The part of each dimension that a piece covers."""
    program = launch.program
    rows, cols = _tile(launch, piece.row, piece.col)
    step, k = program.block[2], launch.extents[program.k.name]
    return {
        program.m.name: rows,
        program.n.name: cols,
        program.k.name: slice(piece.first * step, min(piece.last * step, k)),
    }


def _at(tensor: Tensor, parts: Mapping[str, slice]) -> tuple[slice, ...]:
    return tuple(parts[d.name] for d in tensor.dims)


def _inputs(launch: Launch, mine: Sequence[Piece], seed: int, kind: Inputs) -> dict[str, torch.Tensor]:
    """Tensors of full size with random numbers where `mine` reads, NaN elsewhere."""
    program = launch.program
    tensors = {t.name: torch.full(launch.shape(t), torch.nan, dtype=TORCH[t.dtype]) for t in program.reads}
    for number, piece in enumerate(mine):
        parts = _parts(launch, piece)
        whole = dict(launch.extents)  # the panels of a tile over all of K, so that their sums are exact over all of K
        for dim in (program.m, program.n):
            whole[dim.name] = parts[dim.name].stop - parts[dim.name].start
        panels = random_inputs(Launch(program, whole), seed + number, kind)
        for t in program.reads:
            own = tuple(parts[d.name] if d == program.k else slice(None) for d in t.dims)
            tensors[t.name][_at(t, parts)] = panels[t.name][own]
    return tensors


def _expected(
    launch: Launch, mine: Sequence[Piece], inputs: Mapping[str, torch.Tensor], scalars: Mapping[str, float]
) -> dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]]:
    """For each output tile that `mine` writes its elements and their bounds; parts of one tile are added."""
    found: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}
    for piece in mine:
        parts = _parts(launch, piece)
        read = {t.name: inputs[t.name][_at(t, parts)] for t in launch.program.reads}
        value, bound = reference(launch.program, read, scalars)
        if (piece.row, piece.col) in found:
            before, allowed = found[piece.row, piece.col]
            value = value + before
            bound = bound + allowed + UNIT_ROUNDOFF * value.abs()
        found[piece.row, piece.col] = value, bound
    return found
