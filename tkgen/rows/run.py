"""Run a built kernel of rows on the emulator, all blocks or some, and compare it with what its equations mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, repeat
from math import prod

import torch

from tkgen.emulate import Interleaving
from tkgen.execute.arguments import check_scalars
from tkgen.execute.compare import (
    Comparison,
    Inputs,
    Reference,
    compare,
    compared,
    random_lengths,
    random_offsets,
    random_places,
)
from tkgen.execute.kept import kept
from tkgen.execute.launch import Run, check_blocks, check_memory, emulate, pieces
from tkgen.ir.equations import (
    Axis,
    AxisKind,
    Constant,
    Coordinate,
    Extent,
    Kernel,
    Kind,
    Loop,
    Map,
    Op,
    Value,
    When,
    walk,
    writes,
)
from tkgen.ir.meaning import evaluate
from tkgen.ir.rounding import UNIT_ROUNDOFF, normal, rounded, unwritten
from tkgen.ir.substitution import Named, substituted
from tkgen.ir.types import DType, Tensor
from tkgen.rows.build import RowBuild
from tkgen.rows.launch import RowLaunch, row_launch
from tkgen.rows.pages import laid_out
from tkgen.rows.watch import sorts
from tkgen.schedule.row_form import accesses
from tkgen.schedule.row_steps import meets
from tkgen.schedule.rows import RowMap

PAGE_BYTES, WATCHED_PAGES = 1024, 40_000  # of memory that the referee can watch, and how many: `core/referee.h`


@dataclass(frozen=True)
class RowRun(Run):
    """One emulated launch of a kernel of rows."""

    launch: RowLaunch


def random_inputs(launch: RowLaunch, seed: int = 0, kind: Inputs = Inputs.EXACT) -> dict[str, torch.Tensor]:
    """A tensor for everything that the kernel reads: eighths from -4 to 4, or normally distributed; no subnormals."""
    generator, kernel = torch.Generator().manual_seed(seed), launch.program.kernel

    def made(tensor: Tensor) -> torch.Tensor:
        shape, dim = launch.shape(tensor), kernel.held.get(tensor)
        if dim is None:
            return _random(shape, tensor.dtype, kind, generator)
        if (axis := kernel.offsets.get(tensor)) is not None:
            drawn = random_lengths if axis.within is not None and axis.within.lengths else random_offsets
            return drawn(shape[0], launch.extents[dim.name], generator)
        return random_places(shape, launch.extents[dim.name], generator)

    return {t.name: made(t) for t in kernel.inputs}


def _inputs_of(launch: RowLaunch, blocks: Sequence[int], seed: int, kind: Inputs) -> dict[str, torch.Tensor]:
    """Tensors of full size with random numbers where these blocks read, NaN elsewhere."""
    inputs, held = launch.program.kernel.inputs, launch.program.kernel.held
    found = {t.name: unwritten(launch.shape(t), t.dtype) for t in inputs}
    generator = torch.Generator().manual_seed(seed)
    for tensor in inputs:
        ragged = launch.program.kernel.offsets.get(tensor)
        if ragged is not None:  # all blocks look for their groups in it
            found[tensor.name] = torch.tensor(launch.offset_values(ragged), dtype=torch.int32)
            continue
        for block in blocks:
            box = part_of(launch, tensor, block)
            shape = list(found[tensor.name][box].shape)
            if tensor in held:
                found[tensor.name][box] = random_places(shape, launch.extents[held[tensor].name], generator)
            else:
                found[tensor.name][box] = _random(shape, tensor.dtype, kind, generator)
    return found


def _random(shape: list[int], dtype: DType, kind: Inputs, generator: torch.Generator) -> torch.Tensor:
    if kind is Inputs.EXACT:
        eighths = torch.randint(-32, 33, shape, generator=generator).float()
        return rounded(eighths if dtype.whole else eighths / 8, dtype)
    return normal(shape, dtype, generator)


def sample(launch: RowLaunch) -> tuple[int, ...]:
    """Blocks worth running where there are many: of each sort one, the last one at least."""
    return tuple(sorted({sorts(launch)[0], launch.blocks // 2, launch.blocks - 1}))


def watched(launch: RowLaunch, blocks: Sequence[int]) -> bool:
    """Whether the referee can watch these blocks: what is touched between two meetings of the waves is in its room.

    A loop without a meeting touches its whole walk.
    """
    layout = launch.layout
    if not isinstance(layout, RowMap) or meets(layout.steps):
        return True
    tensors = {access.tensor for access in accesses(launch.program.kernel)}
    return all(sum(_pages(launch, t, block) for t in tensors) <= WATCHED_PAGES for block in blocks)


def _pages(launch: RowLaunch, tensor: Tensor, block: int) -> int:
    """Pages of the referee in a block's part of a tensor, at most."""
    shape = launch.shape(tensor)
    sizes = [len(range(size)[part]) for size, part in zip(shape, part_of(launch, tensor, block), strict=True)]
    return prod(sizes[:-1]) * (-(-sizes[-1] * tensor.dtype.bytes // PAGE_BYTES) + 1) if sizes else 1


def run_rows(
    build: RowBuild,
    *,
    extents: Mapping[str, int] | None = None,
    seed: int = 0,
    kind: Inputs = Inputs.EXACT,
    scalars: Mapping[str, float] | None = None,
    order: Interleaving | None = None,
    workers: int = 1,
    blocks: Sequence[int] | None = None,
    progress: Callable[[int], None] | None = None,
) -> RowRun:
    """Random inputs of that kind, one launch, one comparison; `blocks` runs these alone, and compares what they store.

    The referee watches all, and chosen blocks where it can (`watched`).

    Raises:
        SizeError: sizes that the kernel cannot do, a block that the launch does not have.
        EmulateError: the launch cannot start.
    """
    launch = row_launch(build.spec.program, build.spec.layout, extents)
    values = check_scalars(build.spec.program) | dict(scalars or {})
    if blocks is None:
        check_memory(launch)
    else:
        check_blocks(launch, blocks)
    inputs = random_inputs(launch, seed, kind) if blocks is None else _inputs_of(launch, blocks, seed, kind)
    outputs, outcome = emulate(
        build, launch, inputs, values, order=order, watch=blocks is None or watched(launch, blocks), workers=workers,
        blocks=blocks, progress=progress,
    )  # fmt: skip
    if blocks is not None:
        judged = _parts(launch, inputs, outputs, values, blocks)
    else:
        given = (evaluate, *launch.extents.items(), seed, kind, *values.items())
        meant = kept(build.spec.program, given, lambda: _meant(launch, inputs, values))
        judged = compared(outputs, meant, launch.program.kernel.outputs)
    return RowRun(launch.extents, outputs, judged, outcome, launch)


Tensors = Mapping[str, torch.Tensor]


def _meant(launch: RowLaunch, inputs: Tensors, scalars: Mapping[str, float]) -> dict[str, Reference]:
    meant = evaluate(launch.program.kernel, inputs, scalars, launch.extents)
    return {name: (r.value, r.bound) for name, r in meant.items()}


def _parts(
    launch: RowLaunch, inputs: Tensors, outputs: Tensors, scalars: Mapping[str, float], blocks: Sequence[int]
) -> dict[str, Comparison]:
    """What some blocks store, compared; that nothing else is stored is compared, too."""
    kernel = launch.program.kernel
    parts, expected = [], []
    for block in blocks:
        laid, given = laid_out(launch, inputs, block)
        alone = _apart(laid.program.kernel)
        box = {t.name: part_of(laid, t, block) for t in laid.program.kernel.tensors}
        parts.append(box)
        mine = {t.name: given[t.name][box[t.name]] for t in laid.program.kernel.inputs}
        if any(a.within and not _range(launch, a, launch.place(block)) for a in launch.program.parallel):
            none = {t.name: outputs[t.name][box[t.name]].double() for t in kernel.outputs}  # it finds no tile
            expected.append({name: (x, x) for name, x in none.items()})
            continue
        results = evaluate(_moved(alone, laid, block), mine, scalars, _extents(alone, laid, mine, box))
        expected.append({name: (r.value, r.bound) for name, r in results.items()})
    judged = {}
    for tensor in kernel.outputs:
        name = tensor.name
        boxes = [box[name] for box in parts]
        if name in launch.program.added:
            judged[name] = compare(outputs[name], *_sum(outputs[name].shape, boxes, [e[name] for e in expected]))
            continue
        packed = tensor.dtype if tensor.dtype.packed else None
        boxes = [_stored(box, tensor) for box in boxes]
        flat = [
            (outputs[name][at].flatten(), *(x.flatten() for x in e[name]))
            for at, e in zip(boxes, expected, strict=True)
        ]
        found, meant, bound = (torch.cat(list(column)) for column in zip(*flat, strict=True))
        judged[name] = compare(found, meant, bound, packed)
        before = inputs[name] if name in inputs else unwritten((1,), tensor.dtype)
        touched = _changed(outputs[name], before, boxes)
        judged[name] = replace(judged[name], wrong=judged[name].wrong + touched)
    return judged


def _changed(tensor: torch.Tensor, before: torch.Tensor, boxes: Sequence[tuple[slice, ...]]) -> int:
    """The number of elements outside of `boxes` whose bits differ from `before`, one element that stands for all or
    as many. The tensor is compared in pieces, since a copy of it may not fit into memory."""
    stored = [tensor[box].clone() for box in boxes]
    for box in boxes:
        tensor[box] = before if before.numel() == 1 else before[box]
    parts = pieces(_bits(tensor))
    others = repeat(_bits(before), len(parts)) if before.numel() == 1 else pieces(_bits(before.contiguous()))
    changed = sum(int((part != other).sum()) for part, other in zip(parts, others, strict=True))
    for box, part in zip(boxes, stored, strict=True):
        tensor[box] = part
    return changed


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """The elements as memory holds them."""
    return tensor.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()])


def _stored(box: tuple[slice, ...], tensor: Tensor) -> tuple[slice, ...]:
    """A part of a tensor as memory holds it: of packed floats in bytes, for parts of rows are whole ones."""
    last = box[-1]
    if not tensor.dtype.packed or last == slice(None):
        return box
    return (*box[:-1], slice(tensor.dtype.sized(last.start), tensor.dtype.sized(last.stop)))


def _sum(
    shape: torch.Size, boxes: Sequence[tuple[slice, ...]], parts: Sequence[tuple[torch.Tensor, torch.Tensor]]
) -> tuple[torch.Tensor, torch.Tensor]:
    """What blocks have added to zeros, each in its box, and the bound on each element's error, in any order."""
    total, bound, magnitude = (torch.zeros(shape, dtype=torch.float64) for _ in range(3))
    for box, (value, error) in zip(boxes, parts, strict=True):
        total[box] += value
        bound[box] += error
        magnitude[box] += value.abs() + error
    return total, bound + len(boxes) * UNIT_ROUNDOFF * magnitude


def _apart(kernel: Kernel) -> Kernel:
    """`kernel` where each axis with tiles of blocks has a dimension of its own, of which a block has a tile alone."""
    shared: dict[Named, Axis] = {
        a: replace(a, dim=replace(a.dim, name=f"{a.dim.name} along {a.name}", size=None))
        for a in kernel.axes
        if a.kind is AxisKind.PARALLEL and any(a.dim == b.dim and a != b for b in kernel.axes)
    }
    found: dict[Named, Named] = {**shared}
    for access in (*accesses(kernel), *kernel.places):
        straight = [i.divisor == 1 and not i.numbered and i.through is None for i in access.indices]
        axes = [i.axis if own else None for i, own in zip(access.indices, straight, strict=True)]
        dims = tuple(shared[a].dim if a and a in shared else d for a, d in zip(axes, access.tensor.dims, strict=True))
        found[access.tensor] = replace(access.tensor, dims=dims)
    return substituted(kernel, found) if shared else kernel


def _moved(kernel: Kernel, launch: RowLaunch, block: int) -> Kernel:
    """`kernel` on the tile of a block alone: coordinates count from the tile's place in the whole, whose
    lengths it has.

    A loop that begins or ends with a tile goes over what there is (`_box`).
    """
    own = launch.place(block)
    places = {axis.name: number for axis, number in own.items()}
    limited = {a.name: a for a in launch.program.kernel.axes if a.bounds or a.part or a.within}
    for axis in limited.values():
        if axis not in own:
            places[axis.name] = _visited(axis, own, launch).start // (axis.tile or 1)
    numbers = count(max((v.number for op in walk(kernel.body) for v in writes(op)), default=0) + 1)

    def moved(ops: Sequence[Op]) -> Iterator[Op]:
        for op in ops:
            if isinstance(op, Coordinate) and places.get(op.axis.name):
                here, first = (
                    replace(op.result, number=next(numbers), name=""),
                    Value(next(numbers), (), kind=Kind.COORDINATE),
                )
                yield Coordinate(here, op.axis)
                yield Constant(first, float(places[op.axis.name] * (op.axis.tile or 1)))
                yield Map(op.result, "add", (here, first))
            elif isinstance(op, Extent):
                yield Constant(op.result, float(_length(launch, op.axis, own)))
            else:
                yield replace(op, body=tuple(moved(op.body))) if isinstance(op, Loop | When) else op

    found = replace(kernel, body=tuple(moved(kernel.body)))
    free: dict[Named, Named] = {}
    free |= {a: replace(a, since=None, until=None, part=None, within=None) for a in kernel.axes if a.name in limited}
    return substituted(found, free)


def _extents(
    kernel: Kernel, launch: RowLaunch, tensors: Tensors, parts: Mapping[str, tuple[slice, ...]]
) -> dict[str, int]:
    """The sizes of a block's parts of tensors, inputs and outputs, for the dimensions of `kernel`."""
    named = {t.name: t for t in kernel.tensors}
    found = dict(launch.extents) | {a.dim.name: 1 for a in launch.program.parallel if a.is_index}
    for whole in launch.program.kernel.outputs:
        for dim, own, part in zip(whole.dims, named[whole.name].dims, parts[whole.name], strict=True):
            found[own.name] = len(range(launch.extents[dim.name])[part])
    for name, tensor in tensors.items():
        found |= {d.name: size for d, size in zip(named[name].dims, tensor.shape, strict=True)}
    return found


def _visited(axis: Axis, own: Mapping[Axis, int], launch: RowLaunch) -> slice:
    """From where to where along its axis a loop goes that begins or ends with a block's tile, or has a part.

    Of a ragged axis, places are counted in the block's group.
    """
    size = _length(launch, axis, own)
    if axis.part is not None:
        index, place = next((a, number) for a, number in own.items() if a.name == axis.part)
        run = axis.part_length(size, launch.extents[index.dim.name])
        return slice(min(place * run, size), min((place + 1) * run, size))
    tiles = {a.name: range(number * (a.tile or 1), (number + 1) * (a.tile or 1)) for a, number in own.items()}
    step = axis.tile or 1
    bounding = next((a for a in own if a.name in {b.axis for b in axis.bounds}), axis)
    starts = [s for s in range(0, size, step) if axis.visits(s, tiles, size - _length(launch, bounding, own))]
    return slice(starts[0], min(starts[-1] + step, size)) if starts else slice(0, 0)


def _length(launch: RowLaunch, axis: Axis, own: Mapping[Axis, int]) -> int:
    """How many places an axis has for a block."""
    return len(_group(launch, axis, own)) if axis.within else launch.extents[axis.dim.name]


def _group(launch: RowLaunch, axis: Axis, own: Mapping[Axis, int]) -> range:
    """The places along a ragged axis of the group that a block works on."""
    assert launch.program.kernel.groups is not None
    return launch.groups(axis)[own[launch.program.kernel.groups]]


def _range(launch: RowLaunch, axis: Axis, own: Mapping[Axis, int]) -> range:
    """The places of a block's tile along a parallel axis."""
    places = _group(launch, axis, own) if axis.within else range(launch.extents[axis.dim.name])
    tile = axis.tile or 1
    return places[own[axis] * tile : (own[axis] + 1) * tile]


def part_of(launch: RowLaunch, tensor: Tensor, block: int) -> tuple[slice, ...]:
    """The part of a tensor that belongs to a block: its tile of every dimension that has a parallel axis."""
    ranges: dict[int, slice] = {}
    own = launch.place(block)
    kernel = launch.program.kernel
    ragged = kernel.offsets.get(tensor)
    if ragged is not None and ragged.within is not None and ragged.within.lengths and kernel.groups is not None:
        return (slice(own[kernel.groups], own[kernel.groups] + 1),)
    for access in (*accesses(kernel), *kernel.places):
        for place, index in enumerate(access.indices):
            if access.tensor != tensor or index.axis is None or index.through is not None:
                continue
            if index.axis not in own:
                if index.divisor == 1 and (index.axis.bounds or index.axis.part or index.axis.within):
                    first = _group(launch, index.axis, own).start if index.axis.within else 0
                    visited = _visited(index.axis, own, launch)
                    ranges[place] = slice(first + visited.start, first + visited.stop)
                continue
            tile, number = index.axis.tile or 1, own[index.axis]
            if index.divisor != 1:  # what an index is divided for has a part for several
                here = number * tile // index.divisor
                ranges[place] = slice(here, here + 1)
            else:
                mine = _range(launch, index.axis, own)
                ranges[place] = slice(mine.start, mine.stop)
    return tuple(ranges.get(place, slice(None)) for place in range(len(tensor.dims)))
