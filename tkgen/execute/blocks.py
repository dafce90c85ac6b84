"""Some blocks of a launch at full size: what a kernel does at sizes at which the emulator cannot run all of it.

The tensors have their full sizes, but only the parts that the blocks read hold numbers; everything else holds NaNs. So
a block that reads beyond its part has NaNs in its result, and one that writes beyond it leaves numbers where none
belong.

>>> build = load("specs/eight_wave.tk").build()
>>> run(build, build.spec.launch().sample()).ok
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count, repeat
from typing import Any

import torch

from tkgen.execute.arguments import SizeError
from tkgen.execute.compare import Comparison, Inputs, Reference, compare, drawn, widened
from tkgen.execute.pages import laid_out
from tkgen.ir.affine import distinct_positions
from tkgen.ir.equation_text import affine_text
from tkgen.ir.equations import (
    Access,
    Axis,
    AxisKind,
    Constant,
    Coordinate,
    Digit,
    Extent,
    Index,
    Kernel,
    Kind,
    Load,
    Loop,
    Map,
    Op,
    Term,
    Update,
    Value,
    When,
    accesses,
    walk,
    writes,
)
from tkgen.ir.functions import CDNA
from tkgen.ir.launch import Launch
from tkgen.ir.meaning import scattered
from tkgen.ir.rounding import UNIT_ROUNDOFF, unwritten
from tkgen.ir.scattered import Combined, flat, results_of
from tkgen.ir.sizing import Box
from tkgen.ir.substitution import Named, substituted
from tkgen.ir.types import Dim, Tensor

PIECE = 1 << 26  # elements that are compared at once, where all of a tensor is

Tensors = Mapping[str, torch.Tensor]
Part = tuple[slice, ...]


def inputs_of(
    launch: Launch[Any], blocks: Sequence[int], seed: int = 0, kind: Inputs = Inputs.EXACT, back_end: str = CDNA
) -> dict[str, torch.Tensor]:
    """Tensors of full size with random numbers where these blocks read, NaN elsewhere."""
    kernel, generator = launch.program.kernel, torch.Generator().manual_seed(seed)
    boxes = [box for block in dict.fromkeys(blocks) for box in launch.boxes(block)]
    found = {}
    for tensor in kernel.inputs:
        whole = found[tensor.name] = unwritten(launch.shape(tensor), tensor.dtype)
        if (axis := kernel.offsets.get(tensor)) is not None:  # all blocks look for their groups in it
            found[tensor.name] = torch.tensor(launch.offset_values(axis), dtype=torch.int32)
            continue
        every = drawn(launch, tensor, whole.shape, kind, generator) if tensor in distinct_positions(kernel) else None
        for box in boxes:
            at = _stored(launch.part(tensor, box), tensor)
            new = drawn(launch, tensor, whole[at].shape, kind, generator, back_end) if every is None else every[at]
            whole[at] = new
    return found


def compared_blocks(
    launch: Launch[Any], inputs: Tensors, outputs: Tensors, scalars: Mapping[str, float], blocks: Sequence[int],
    back_end: str = CDNA,
) -> dict[str, Comparison]:  # fmt: skip
    """Compare what some blocks store with the equations; every other element must be as it was before."""
    boxes = [(block, box) for block in dict.fromkeys(blocks) for box in launch.boxes(block)]
    each = [_meant(launch, inputs, scalars, block, box, back_end) for block, box in boxes]
    meant, brought = [found for found, _ in each], [combined for _, combined in each]
    judged = {}
    for tensor in launch.program.outputs:
        name, adds = tensor.name, tensor.name in launch.program.added
        parts = [launch.part(tensor, box) for _, box in boxes]
        if any(name in combined for combined in brought):
            judged[name] = _scattered(launch, tensor, parts, brought, inputs.get(name), outputs[name])
            continue
        expected = _added(tensor, parts, [m[name] for m in meant]) if adds else list(
            zip(parts, (m[name] for m in meant), strict=True)
        )  # fmt: skip
        at = [_stored(part, tensor) for part, _ in expected]
        nothing = torch.empty(0, dtype=torch.float64)
        found = torch.cat([outputs[name].new_empty(0), *(outputs[name][each].flatten() for each in at)])
        value, bound = (torch.cat([nothing, *(r[n].flatten() for _, r in expected)]) for n in (0, 1))
        judged[name] = compare(found, value, bound, tensor.dtype if tensor.dtype.packed else None)
        fresh = outputs[name].new_zeros(1) if adds else unwritten((1,), tensor.dtype)
        touched = _changed(outputs[name], inputs.get(name, fresh), at)
        judged[name] = replace(judged[name], wrong=judged[name].wrong + touched)
    return judged


def _scattered(
    launch: Launch[Any], tensor: Tensor, parts: Sequence[Part], brought: Sequence[Mapping[str, Combined]],
    before: torch.Tensor | None, result: torch.Tensor,
) -> Comparison:  # fmt: skip
    """Compare what blocks store at computed positions of a tensor; every other element must be as it was."""
    shape, all_of_it = torch.Size(launch.shape(tensor)), Combined(Update.SET)
    for part, combined in zip(parts, brought, strict=True):
        found = combined.get(tensor.name)
        if found is None:
            continue
        own = [len(range(size)[each]) for size, each in zip(shape, part, strict=True)]
        all_of_it.update = found.update
        for at, values in zip(found.at, found.values, strict=True):
            places = zip(torch.unravel_index(at, own), part, strict=True)
            all_of_it.at.append(flat(tuple(place + (each.start or 0) for place, each in places), shape))
            all_of_it.values.append(values)
    elements, value, bound = results_of(all_of_it, tensor.dtype)
    there = torch.unravel_index(elements, shape)
    judged = compare(result[there], value, bound)
    start = launch.program.starts.get(tensor.name)
    fresh = unwritten((1,), tensor.dtype) if start is None else result.new_full((1,), start)
    return replace(judged, wrong=judged.wrong + _changed(result, fresh if before is None else before, [there]))


def _added(tensor: Tensor, parts: Sequence[Part], meant: Sequence[Reference]) -> list[tuple[Part, Reference]]:
    """Sum the parts that blocks add to zeros, each with the bound on the error of its elements in any order."""
    together: dict[str, list[tuple[Part, Reference]]] = {}
    for part, reference in zip(parts, meant, strict=True):
        together.setdefault(repr(part), []).append((part, reference))
    found = []
    for several in together.values():
        part, (value, bound) = several[0]
        magnitude = value.abs() + bound
        for _, (more, error) in several[1:]:
            value, bound, magnitude = value + more, bound + error, magnitude + more.abs() + error
        if len(several) > 1:
            bound = bound + len(several) * UNIT_ROUNDOFF * magnitude
        found.append((part, (value, bound)))
    return found


def _changed(tensor: torch.Tensor, before: torch.Tensor, boxes: Sequence[Part | tuple[torch.Tensor, ...]]) -> int:
    """The number of elements outside of `boxes` whose bits differ from `before`, one element that stands for all or
    as many. The tensor is compared in pieces, since a copy of it may not fit into memory."""
    stored = [tensor[box].clone() for box in boxes]
    for box in boxes:
        tensor[box] = before if before.numel() == 1 else before[box]
    parts = _bits(tensor).flatten().split(PIECE)
    others = (
        repeat(_bits(before), len(parts)) if before.numel() == 1 else _bits(before.contiguous()).flatten().split(PIECE)
    )
    changed = sum(int((part != other).sum()) for part, other in zip(parts, others, strict=True))
    for box, part in zip(boxes, stored, strict=True):
        tensor[box] = part
    return changed


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """The elements as memory holds them."""
    return tensor.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()])


def _stored(part: Part, tensor: Tensor) -> Part:
    """A part of a tensor as memory holds it: of packed floats in bytes, for parts of rows are whole ones."""
    if not part or not tensor.dtype.packed or part[-1] == slice(None):
        return part
    return (*part[:-1], slice(tensor.dtype.sized(part[-1].start), tensor.dtype.sized(part[-1].stop)))


def _meant(
    launch: Launch[Any], inputs: Tensors, scalars: Mapping[str, float], block: int, box: Box, back_end: str
) -> tuple[dict[str, Reference], dict[str, Combined]]:
    """Compute what a piece of a block stores in its part of each output, and the bounds on the errors; and what it
    brings to computed positions."""
    kernel, given = laid_out(launch, inputs, box)
    kernel, names = _by_axes(kernel, box)
    parts = {t.name: launch.part(t, box, kernel) for t in kernel.tensors}
    alone, extents = _apart(kernel, box, launch.extents, parts)
    alone = _moved(alone, launch, box)
    mine = {t.name: given[names.get(t.name, t.name)][_stored(parts[t.name], t)] for t in alone.inputs}
    results, brought = scattered(alone, mine, scalars, extents, back_end)
    found = {name: (r.value, r.bound) for name, r in results.items()}
    return widened(launch, alone, mine, scalars, extents, found), brought


def _by_axes(kernel: Kernel, box: Box) -> tuple[Kernel, dict[str, str]]:
    """`kernel` where a tensor that is read along several axes is one for each of them, and what those are parts of."""
    names, seen, others = dict[str, str](), dict[Tensor, object](), dict[Named, Named]()
    for access in (op.source for op in walk(kernel.body) if isinstance(op, Load)):
        axes = tuple(_named(index, box) for index in access.indices)
        if seen.setdefault(access.tensor, axes) != axes:
            tensor = replace(access.tensor, name=f"{access.tensor.name} by {' '.join(axes)}")
            names[tensor.name] = access.tensor.name
            others[access] = replace(access, tensor=tensor)
    made = tuple(dict.fromkeys(a.tensor for a in others.values() if isinstance(a, Access)))
    return replace(substituted(kernel, others), tensors=(*kernel.tensors, *made)), names


def _named(index: Index, box: Box) -> str:
    """A name for the direction of an index, which tells apart the parts that a piece of a block has."""
    if index.terms:
        return affine_text([(term.of.name, term.factor) for term in index.terms], index.at)
    return index.axis.name if index.axis is not None and index.axis.name in box.places else ""


def _apart(
    kernel: Kernel, box: Box, extents: Mapping[str, int], parts: Mapping[str, Part]
) -> tuple[Kernel, dict[str, int]]:
    """`kernel` where each axis of which there is a part has its own dimension, and the sizes of all dimensions.

    Indices say what a dimension of a tensor is: several axes may run over dimensions of one name. Raises SizeError
    where a tensor is touched along different axes, so that a block has no one part of it.
    """
    sizes = dict(extents)

    def own(name: str, dim: Dim, size: int) -> Dim:
        sizes[name] = size
        return replace(dim, name=name, size=None)

    cut = {a.name: a for a in kernel.axes if a.name in box.places}
    alike: dict[object, str] = {}  # loops over the same places have one dimension
    axes = {
        a: replace(a, dim=own(f"{a.dim.name} along {alike.setdefault((a.dim, a.is_index, box.places[a.name]), a.name)}",
                              a.dim, 1 if a.is_index else len(box.places[a.name])))
        for a in cut.values()
    }  # fmt: skip
    found: dict[Named, Named] = dict(axes.items())
    for access in (*accesses(kernel), *kernel.places):
        dims = []
        for n, (dim, index) in enumerate(zip(access.tensor.dims, access.indices, strict=True)):
            part = parts[access.tensor.name][n]
            straight = index.axis is not None and index.divisor == 1 and index.through is None and not index.numbered
            if straight and index.axis in axes and not index.axis.is_index:
                dims.append(axes[index.axis].dim)
            elif part != slice(None):
                dims.append(own(f"{access.tensor.name} {n}", dim, part.stop - part.start))
            else:
                dims.append(dim)
        tensor = replace(access.tensor, dims=tuple(dims))
        if found.setdefault(access.tensor, tensor) != tensor:
            raise SizeError(f"{kernel.name}: `{access.tensor.name}` is read along several axes: run all blocks")
    groups = kernel.groups if kernel.groups in axes else None  # a piece is of one: an index of it is the first place
    for access in (*accesses(kernel), *kernel.places):
        found |= {index: Index(None) for index in access.indices if groups is not None and index.axis == groups}
    for access in accesses(kernel):
        if any(index.terms for index in access.indices):
            begins = (part.start or 0 for part in parts[access.tensor.name])
            indices = tuple(_counted(i, box, begin, groups) for i, begin in zip(access.indices, begins, strict=True))
            found[access] = substituted(replace(access, indices=indices), found)
    made = substituted(replace(kernel, axes=tuple(a for a in kernel.axes if a != groups)), found)
    return made, sizes


def _counted(index: Index, box: Box, begin: int, groups: Axis | None) -> Index:
    """An affine index whose axes count from their first positions in a piece, in a dimension that starts at `begin`."""
    if not index.terms:
        return index
    cut = [term for term in index.terms if isinstance(term.of, Axis) and term.of.name in box.places]
    first = sum(term.factor * box.first(term.of.name) for term in cut if isinstance(term.of, Axis))
    if index.shifted is not None:  # counted from where the group begins
        first += box.groups[index.shifted.name].start
    left = tuple(_of_piece(term, box) for term in index.terms if term.of != groups)
    return Index(None, at=index.at + first - begin, terms=left)


def _of_piece(term: Term, box: Box) -> Term:
    """A term whose part of a flattened axis, where it is one, counts from the first place of a piece."""
    digit = term.of
    if not isinstance(digit, Digit) or digit.axis.name not in box.places:
        return term
    return replace(term, of=replace(digit, first=digit.first + box.first(digit.axis.name)))


def _moved(kernel: Kernel, launch: Launch[Any], box: Box) -> Kernel:
    """`kernel` on a piece of a block alone: coordinates count from the piece's place in the whole, whose
    lengths it has. A loop that begins or ends with a tile goes over what there is.
    """
    dims = {a.name: a.dim for a in launch.program.kernel.axes}
    numbers = count(max((v.number for op in walk(kernel.body) for v in writes(op)), default=0) + 1)

    def moved(ops: Sequence[Op]) -> Iterator[Op]:
        for op in ops:
            if isinstance(op, Coordinate) and op.axis.name in box.places and box.first(op.axis.name):
                here = replace(op.result, number=next(numbers), name="")
                first = Value(next(numbers), (), kind=Kind.COORDINATE)
                yield Coordinate(here, op.axis)
                yield Constant(first, float(box.first(op.axis.name)))
                yield Map(op.result, "add", (here, first))
            elif isinstance(op, Extent):
                group = box.groups.get(op.axis.name)
                length = launch.extents[dims[op.axis.name].name] if group is None else len(group)
                yield Constant(op.result, float(length))
            else:
                yield replace(op, body=tuple(moved(op.body))) if isinstance(op, Loop | When) else op

    found = replace(kernel, body=tuple(moved(kernel.body)))
    cut = [a for a in kernel.axes if a.name in box.places and a.kind is not AxisKind.WHOLE]
    free: dict[Named, Named] = {a: replace(a, since=None, until=None, part=None, within=None) for a in cut}
    return substituted(found, free)
