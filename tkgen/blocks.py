"""Some blocks of a launch at full size: what a kernel does at sizes at which the emulator cannot run all of it.

The tensors have their full sizes, but only the rows and columns that the blocks read hold numbers; everything else
holds NaNs. So a block that reads beyond its part has NaNs in its result, and one that writes beyond it leaves numbers
where none belong.

>>> build = load("specs/eight_wave.tk").build()
>>> run_blocks(build, sample(build.spec.program, sizes(build.spec.program))).ok
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from tkgen.calls import read_names
from tkgen.ir.types import Program, Tensor
from tkgen.numerics import TORCH, UNIT_ROUNDOFF, Inputs, compare, random_inputs, reference
from tkgen.remap import RemapCall, compose
from tkgen.run import Interleaving, Run, SizeError, emulate, grid, scalar_values, sizes

if TYPE_CHECKING:
    from tkgen.build import Build


WATCHED_STEPS = 1000  # K-steps of one block beyond which it touches more memory than the referee can watch
SAMPLE_STEPS = 1000  # K-steps of a sample: a second or so for a hundred


@dataclass(frozen=True)
class Piece:
    """What a block does at a time: K-steps `first` to before `last` of the output tile at (`row`, `col`), in tiles."""

    row: int
    col: int
    first: int
    last: int


def pieces(program: Program, extents: Mapping[str, int]) -> list[list[Piece]]:
    """For each block of a launch the pieces that it computes, in its order."""
    rows, cols, steps = (
        -(-extents[d.name] // size) for d, size in zip((program.m, program.n, program.k), program.block, strict=True)
    )
    tiles = compose([RemapCall(s.name, dict(s.keywords), s.positional) for s in program.remap]).order(rows, cols)
    count = program.grid.count
    match program.grid.name:
        case "persistent":
            return [[Piece(*tile, 0, steps) for tile in tiles[block::count]] for block in range(count)]
        case "split_k":
            part = steps // count
            return [[Piece(*tile, i * part, (i + 1) * part)] for i in range(count) for tile in tiles]
        case "stream_k":
            every = len(tiles) * steps
            run = -(-every // count)
            return [_run_of(tiles, steps, block * run, min((block + 1) * run, every)) for block in range(count)]
    return [[Piece(*tile, 0, steps)] for tile in tiles]


def _run_of(tiles: Sequence[tuple[int, int]], steps: int, at: int, end: int) -> list[Piece]:
    """K-steps `at` to before `end` of all tiles laid end to end."""
    found = []
    while at < end:
        first = at % steps
        last = min(steps, first + end - at)
        found.append(Piece(*tiles[at // steps], first, last))
        at += last - first
    return found


def watched(program: Program, extents: Mapping[str, int], blocks: Sequence[int]) -> bool:
    """Whether the referee can watch these blocks."""
    every = pieces(program, extents)
    return all(_steps(every[block]) <= WATCHED_STEPS for block in blocks)


def _steps(mine: Sequence[Piece]) -> int:
    return sum(piece.last - piece.first for piece in mine)


def sample(program: Program, extents: Mapping[str, int]) -> tuple[int, ...]:
    """Blocks worth running where there are many: that of the last corner, the first and one in the middle.

    Blocks that each compute many tiles are long, so there are fewer of them.
    """
    work = pieces(program, extents)
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
    shape = sizes(program, extents)
    values = scalar_values(program, scalars)
    total = grid(program, shape)[0]
    if beyond := [b for b in blocks if not 0 <= b < total]:
        raise SizeError(f"there is no block {beyond[0]}: the launch has blocks 0..{total - 1}")
    every = pieces(program, shape)
    mine = [piece for block in dict.fromkeys(blocks) for piece in every[block]]
    inputs = _inputs(program, shape, mine, seed, kind)
    output, outcome = emulate(
        build, inputs, shape, values, order=order, watch=watched(program, shape, blocks), workers=workers,
        blocks=blocks, progress=progress,
    )  # fmt: skip
    expected = _expected(program, shape, mine, inputs, values)
    untouched = output == 0 if program.adds_to_output else output.isnan()
    outside = int((~untouched).sum())
    found, wanted, bounds = [], [], []
    for (row, col), (value, bound) in expected.items():
        at = _tile(program, shape, row, col)
        outside -= int((~untouched[at]).sum())
        found.append(output[at].flatten())
        wanted.append(value.flatten())
        bounds.append(bound.flatten())
    comparison = compare(torch.cat(found), torch.cat(wanted), torch.cat(bounds))
    return Run(shape, output, replace(comparison, wrong=comparison.wrong + outside), outcome)


def _tile(program: Program, extents: Mapping[str, int], row: int, col: int) -> tuple[slice, slice]:
    """The elements of an output tile."""
    (rows, cols, _), m, n = program.block, extents[program.m.name], extents[program.n.name]
    return slice(row * rows, min((row + 1) * rows, m)), slice(col * cols, min((col + 1) * cols, n))


def _parts(program: Program, extents: Mapping[str, int], piece: Piece) -> dict[str, slice]:
    """The part of each dimension that a piece covers."""
    rows, cols = _tile(program, extents, piece.row, piece.col)
    step, k = program.block[2], extents[program.k.name]
    return {
        program.m.name: rows,
        program.n.name: cols,
        program.k.name: slice(piece.first * step, min(piece.last * step, k)),
    }


def _at(tensor: Tensor, parts: Mapping[str, slice]) -> tuple[slice, ...]:
    return tuple(parts[d.name] for d in tensor.dims)


def _inputs(
    program: Program, extents: Mapping[str, int], mine: Sequence[Piece], seed: int, kind: Inputs
) -> dict[str, torch.Tensor]:
    """Tensors of full size with random numbers where `mine` reads, NaN elsewhere."""
    read = [t for t in program.tensors if t.name in read_names(program)]
    tensors = {t.name: torch.full([extents[d.name] for d in t.dims], torch.nan, dtype=TORCH[t.dtype]) for t in read}
    for number, piece in enumerate(mine):
        parts = _parts(program, extents, piece)
        whole = dict(extents)  # the panels of a tile over all of K, so that their sums are exact over all of K
        for dim in (program.m, program.n):
            whole[dim.name] = parts[dim.name].stop - parts[dim.name].start
        panels = random_inputs(program, whole, seed + number, kind)
        for t in read:
            own = tuple(parts[d.name] if d == program.k else slice(None) for d in t.dims)
            tensors[t.name][_at(t, parts)] = panels[t.name][own]
    return tensors


def _expected(
    program: Program,
    extents: Mapping[str, int],
    mine: Sequence[Piece],
    inputs: Mapping[str, torch.Tensor],
    scalars: Mapping[str, float],
) -> dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]]:
    """For each output tile that `mine` writes its elements and their bounds; parts of one tile are added."""
    found: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}
    for piece in mine:
        parts = _parts(program, extents, piece)
        read = {t.name: inputs[t.name][_at(t, parts)] for t in program.tensors if t.name in inputs}
        value, bound = reference(program, read, scalars)
        if (piece.row, piece.col) in found:
            before, allowed = found[piece.row, piece.col]
            value = value + before
            bound = bound + allowed + UNIT_ROUNDOFF * value.abs()
        found[piece.row, piece.col] = value, bound
    return found
