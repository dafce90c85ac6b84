"""Sizes worth trying of kernels that any size suits: tiles of each axis, and what hangs over."""

from __future__ import annotations

from collections.abc import Iterator
from math import lcm

from tkgen.ir.divided import completed, divided, unit
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.equations import AxisKind
from tkgen.targets.model import round_up


def around_tiles(program: EquationProgram) -> Iterator[dict[str, int]]:
    """A tile of each dimension that has them, one element, a tile and one, less than three."""
    shared = divided(program.kernel)
    fixed = {dim for d in shared for dim in (d.large, d.small) if not d.dynamic and not d.by_tile}
    follow = {d.small for d in shared if d.dynamic}
    walked = (a for a in program.kernel.axes if a.kind is not AxisKind.WHOLE)
    tiles = {a.dim: a.tile or 1 for a in walked if a.dim not in fixed | follow}
    for size in (lambda t: t, lambda t: 1, lambda t: t + 1, lambda t: max(3 * t - 1, 2)):
        sizes = {dim.name: round_up(size(tile), unit(dim, shared)) for dim, tile in tiles.items()}
        whole = completed(program.dims, shared, sizes)
        yield {dim.name: whole[dim.name] for dim in program.dims if dim in follow or dim.name in sizes}


def tile_units(program: EquationProgram) -> dict[str, int]:
    """Return the smallest size of each dimension that holds whole tiles of all its axes that have tiles."""
    units: dict[str, int] = {}
    for axis in program.kernel.axes:
        if axis.kind is not AxisKind.WHOLE:
            units[axis.dim.name] = lcm(units.get(axis.dim.name, 1), axis.tile or 1)
    return units
