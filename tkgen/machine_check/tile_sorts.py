"""Launches of a kernel without K-steps, and blocks of them, that represent all.

A block's instructions depend on its number where its tile hangs over an end alone: along each parallel axis the first
tile, one of the middle and the last one are of different sorts, so a block of each combination is watched. A dimension
known only at run time, of blocks or of a loop, is watched at one element, a tile, a tile and one, and three tiles less
one.

The work of a block along a ragged axis depends on the length of its group. Groups get many lengths, and one block of
each sort is watched, including one without a tile. Where a dimension has no room for all of these lengths, a second
launch begins with the longest one along every axis.

A kernel that decides by its data (`when any`, or a mask of tiles by a number from memory) is watched on zeros. Its
steps under a condition touch no memory and have no barrier (`tkgen.schedule.loops`), so other data give other values
and the same accesses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, cycle, islice, product
from typing import TYPE_CHECKING, Any

from tkgen.execute.arguments import check_scalars
from tkgen.ir.divided import completed, divided, unit
from tkgen.ir.equations import Axis
from tkgen.ir.launch import Launch
from tkgen.machine_check.launches import Watched
from tkgen.targets.model import round_up

if TYPE_CHECKING:
    from tkgen.backends.cdna.spec import Spec


def launches(spec: Spec[Any]) -> Iterator[Watched]:
    """The launches that decide whether the machine code is right."""
    program = spec.program
    tiles: dict[str, set[int]] = {}
    for axis in program.kernel.axes:
        if axis.tile is not None:
            tiles.setdefault(axis.dim.name, set()).add(axis.tile)
    shared, choices = divided(program.kernel), dict[str, list[int]]()
    for dim in program.dims:
        if dim.size is None and dim not in [d.small for d in shared]:
            around = {size for t in tiles.get(dim.name, {1}) for size in (1, t, t + 1, 3 * t - 1)}
            sizes = {round_up(size, unit(dim, shared)) for size in around}
            choices[dim.name] = sorted(sizes, reverse=True)
    for chosen in product(*choices.values()):
        given = completed(program.dims, shared, dict(zip(choices, chosen, strict=True)))
        (launch,) = spec.launch(given).launches
        made = [launch.of_groups(each) for each in some_offsets(launch)] if program.kernel.ragged else [launch]
        for one in made:
            first, *rest = sorts_of_groups(one) if program.kernel.ragged else sorts(one)
            yield Watched(one, one.blocks, first, tuple(rest), (), 0, 0, check_scalars(program))


def some_offsets(launch: Launch[Any]) -> list[dict[str, list[int]]]:
    """Offsets of groups of many kinds: empty ones, those that no tile divides, those of a tile, and longer ones.

    Those of tensors differ, so that a group that is empty along one axis has places along another. Where they do not
    all fit, the second offsets begin with the longest group, which is the same one along all axes.
    """
    mixed, longest = dict[str, list[int]](), dict[str, list[int]]()
    cut = False
    for tensor, axis in launch.program.kernel.offsets.items():
        size, tile = launch.extents[axis.dim.name], axis.tile or 1
        lengths = [0, 1, tile, tile + 1, 3 * tile - 1, 2 * tile, tile - 1]
        if axis.within is not None and axis.within.lengths:
            mixed[tensor.name] = [min(n, size) for n in islice(cycle([size, *lengths]), launch.group_count)]
            longest[tensor.name] = mixed[tensor.name]
            continue
        shift, at = len(mixed), lengths.index(3 * tile - 1)
        wanted = [lengths[(g + shift) % len(lengths)] for g in range(launch.group_count)]
        mixed[tensor.name] = _ends_of(wanted, size)
        longest[tensor.name] = _ends_of([lengths[(g + at) % len(lengths)] for g in range(launch.group_count)], size)
        cut |= at - shift >= launch.group_count or sum(wanted) > size
    return [mixed, longest] if cut else [mixed]


def _ends_of(lengths: Sequence[int], size: int) -> list[int]:
    """Offsets of groups of these lengths, as far as there are places for them."""
    return [min(end, size) for end in accumulate(lengths, initial=0)]


def sorts_of_groups(launch: Launch[Any]) -> tuple[int, ...]:
    """A block of each sort: by the rows of its tile, how long the loop's group, or the block's part of it, is in tiles,
    and what is left of these; and one after all of them, which finds no tile."""
    groups = launch.program.kernel.groups
    assert groups is not None
    along = launch.walked or groups
    divided = {a.part for a in launch.program.kernel.ragged if a.part is not None}
    ends = {a: _ends(launch, a) for a in launch.numbered if a.tile is not None and a != along}
    telling = [a for a in launch.numbered if a == along or a.name in divided or a in ends]
    found: dict[object, int] = {}
    for places in product(*(ends.get(a, range(launch.tiles(a))) for a in telling)):
        number, chosen = 0, dict(zip(telling, places, strict=True))
        for axis in launch.numbered:
            number = number * launch.tiles(axis) + chosen.get(axis, 0)
        own = launch.place(number)
        kind: list[object] = [chosen[a] for a in ends]
        for axis in launch.program.kernel.ragged:
            tile, length = axis.tile or 1, len(launch.groups[axis][own[groups]])
            left = length - own.get(axis, 0) * tile
            if axis.part is not None:
                index = next(a for a in own if a.name == axis.part)
                run = axis.part_length(length, launch.extents[index.dim.name])
                left = min(max(length - own[index] * run, 0), run)
            kind.append((min(-(-left // tile), 3), left % tile != 0))
        found.setdefault(tuple(kind), number)
    return _blocks(launch, (*found.values(), launch.tile_count - 1))


def sorts(launch: Launch[Any]) -> tuple[int, ...]:
    """A block of each combination of first, middle and last tiles along the parallel axes, the first one in front.

    Of a persistent grid it is the block that has such a tile among its own.
    """
    ends = [_ends(launch, a) for a in launch.numbered]
    chosen = (dict(zip(launch.numbered, places, strict=True)) for places in product(*ends))
    return _blocks(launch, map(launch.number, chosen))


def _ends(launch: Launch[Any], axis: Axis) -> Sequence[int]:
    """The first tile along an axis, one of the middle, and the last one."""
    return sorted({0, launch.tiles(axis) // 2, launch.tiles(axis) - 1})


def _blocks(launch: Launch[Any], tiles: Iterable[int]) -> tuple[int, ...]:
    """The blocks that have these tiles, each once."""
    persistent = launch.program.grid.name == "persistent"
    return tuple(dict.fromkeys(tile % launch.blocks if persistent else tile for tile in tiles))
