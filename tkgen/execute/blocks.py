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
from tkgen.execute.compare import Comparison, Inputs, Reference, compare, random_inputs, references
from tkgen.execute.launch import Run, check_blocks, emulate, pieces
from tkgen.ir.equations import Coordinate
from tkgen.ir.launch import Launch, Piece
from tkgen.ir.rounding import UNIT_ROUNDOFF, is_unwritten, unwritten
from tkgen.ir.substitution import Named, substituted
from tkgen.ir.types import Dim, Tensor
from tkgen.schedule.row_form import accesses

if TYPE_CHECKING:
    from tkgen.build import Build


_Tile = tuple[int, int, int]  # row, column, matrix

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
    if not busy:
        return ()
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
    check_blocks(launch, blocks)
    if any(isinstance(op, Coordinate) for op in program.equations.epilogue):
        raise SizeError(f"{program.name}: equations that name coordinates are run whole, with no blocks chosen")
    mine = [piece for block in dict.fromkeys(blocks) for piece in launch.work[block]]
    apart = _apart(launch)
    inputs = _inputs(apart, mine, seed, kind)
    outputs, outcome = emulate(
        build, launch, inputs, values, order=order, watch=watched(launch, blocks), workers=workers, blocks=blocks,
        progress=progress,
    )  # fmt: skip
    expected = _expected(apart, mine, inputs, values)
    comparisons = {
        out.name: _compared(apart, out, outputs[out.name], {p: e[out.name] for p, e in expected.items()})
        for out in apart.program.outputs
    }
    return Run(launch.extents, outputs, comparisons, outcome)


def _apart(launch: Launch) -> Launch:
    """The launch of a program each of whose axes has a dimension of its own, of which a block has a part alone.

    Indices say what a dimension of a tensor is: several axes may run over dimensions of one name. Raises SizeError
    where a tensor is touched along different axes, so that a block has no one part of it.
    """
    program, extents = launch.program, dict(launch.extents)

    def own(name: str, dim: Dim) -> Dim:
        extents[name] = launch.extents[dim.name]
        return replace(dim, name=name)

    axes = {a: replace(a, dim=own(f"{a.dim.name} along {a.name}", a.dim)) for a in program.kernel.axes}
    found: dict[Named, Named] = dict(axes.items())
    for access in (*accesses(program.kernel), *program.kernel.places):
        dims = []
        for n, (dim, index) in enumerate(zip(access.tensor.dims, access.indices, strict=True)):
            straight = index.axis is not None and index.divisor == 1 and index.through is None
            dims.append(axes[index.axis].dim if straight and index.axis else own(f"{access.tensor.name} {n}", dim))
        tensor = replace(access.tensor, dims=tuple(dims))
        if found.setdefault(access.tensor, tensor) != tensor:
            raise SizeError(f"{program.name}: `{access.tensor.name}` is read along several axes: run all blocks")
    made = substituted(program, found)
    return replace(
        launch, program=replace(made, dims=(*made.dims, *(a.dim for a in made.kernel.axes))), extents=extents
    )


def _compared(launch: Launch, out: Tensor, output: torch.Tensor, expected: Mapping[_Tile, Reference]) -> Comparison:
    """An output compared in the tiles that are expected; what is written elsewhere is wrong."""

    def touched(part: torch.Tensor) -> int:
        return int((part != 0).sum()) if launch.program.added else int((~is_unwritten(part)).sum())

    outside = sum(touched(piece) for piece in pieces(output))
    nothing = torch.empty(0, dtype=torch.float64)
    found, wanted, bounds = [output.new_empty(0)], [nothing], [nothing]
    for (row, col, matrix), (value, bound) in expected.items():
        at = _at(launch, out, _parts(launch, Piece(row, col, 0, 0, matrix)))
        outside -= touched(output[at])
        found.append(output[at].flatten())
        wanted.append(value.flatten())
        bounds.append(bound.flatten())
    comparison = compare(torch.cat(found), torch.cat(wanted), torch.cat(bounds))
    return replace(comparison, wrong=comparison.wrong + outside)


def _parts(launch: Launch, piece: Piece) -> dict[str, slice]:
    """The part of each dimension that a piece covers."""
    program = launch.program
    parts = {}
    for dim, size, first, end in (
        (program.m, program.block[0], piece.row, piece.row + 1),
        (program.n, program.block[1], piece.col, piece.col + 1),
        (program.k, program.block[2], piece.first, piece.last),
    ):
        parts[dim.name] = slice(first * size, min(end * size, launch.extents[dim.name]))
    if program.ragged:
        rows, height = launch.groups[piece.matrix], program.block[0]
        begin = rows.start + piece.row * height
        parts[program.m.name] = slice(begin, min(begin + height, rows.stop))
    if program.ragged_sum:
        own = launch.groups[piece.matrix]
        parts[program.k.name] = slice(own.start, own.stop)
    indices = launch.indices(piece.matrix)
    for view in program.equations.views:
        for dim, index in zip(view.tensor.dims, view.access.indices, strict=True):
            if index.axis is not None and index.axis.name in indices:
                at = indices[index.axis.name] // index.divisor
                parts[dim.name] = slice(at, at + 1)
    tiles = {program.equations.rows.name: piece.row, program.equations.cols.name: piece.col}
    scales = [a for s in program.equations.sums for a in s.beside]
    for access in (*(s.target for s in program.equations.stores), *scales):
        for dim, index in zip(access.tensor.dims, access.indices, strict=True):
            if index.axis is not None and not index.extends and index.axis != program.equations.contraction:
                name = index.axis.name
                at = indices[name] // index.divisor if name in indices else tiles[name]
                parts[dim.name] = slice(at, at + 1)
    return parts


def _at(launch: Launch, tensor: Tensor, parts: Mapping[str, slice]) -> tuple[slice, ...]:
    """A part of a tensor: all of it along dimensions that are not divided."""
    found = [parts.get(d.name, slice(0, launch.extents[d.name])) for d in tensor.dims]
    if tensor.dtype.packed:
        found[-1] = slice(*map(tensor.dtype.sized, (found[-1].start, found[-1].stop)))
    return tuple(found)


def _inputs(launch: Launch, mine: Sequence[Piece], seed: int, kind: Inputs) -> dict[str, torch.Tensor]:
    """Tensors of full size with random numbers where `mine` reads, NaN elsewhere."""
    program = launch.program
    read = [t for t in program.reads if t != program.offsets]
    tensors = {t.name: unwritten(launch.shape(t), t.dtype) for t in read}
    if program.offsets:
        tensors[program.offsets.name] = torch.tensor(launch.offset_values, dtype=torch.int32)
    for number, piece in enumerate(mine):
        parts = _parts(launch, piece)
        # The panels of a tile over all of K, so that their sums are exact over all of K.
        sizes = {name: part.stop - part.start for name, part in parts.items() if name != program.k.name}
        whole = dict(launch.extents) | sizes
        panels = random_inputs(Launch(program, whole), seed + number, kind)
        for t in read:
            own = _at(Launch(program, whole), t, {n: p for n, p in parts.items() if n == program.k.name})
            tensors[t.name][_at(launch, t, parts)] = panels[t.name][own]
    return tensors


def _expected(
    launch: Launch, mine: Sequence[Piece], inputs: Mapping[str, torch.Tensor], scalars: Mapping[str, float]
) -> dict[_Tile, dict[str, Reference]]:
    """For each output tile that `mine` writes what each output is there; parts of one tile are added."""
    found: dict[_Tile, dict[str, Reference]] = {}
    for piece in mine:
        parts = _parts(launch, piece)
        read = {t.name: inputs[t.name][_at(launch, t, parts)] for t in launch.program.reads}
        tile = piece.row, piece.col, piece.matrix
        extents = {name: max(part.stop - part.start, 0) for name, part in parts.items()}
        if offsets := launch.program.offsets:  # the tile is a group of its own
            length = extents[launch.program.held[offsets].name]
            read[offsets.name] = torch.tensor([0, length], dtype=torch.int32)
        for name, (value, bound) in references(launch.program, read, scalars, extents=extents).items():
            if name in found.setdefault(tile, {}):
                before, allowed = found[tile][name]
                value = value + before
                bound = bound + allowed + UNIT_ROUNDOFF * value.abs()
            found[tile][name] = value, bound
    return found
