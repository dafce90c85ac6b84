"""The kernels that can be laid over lanes as rows, the ways in which a lane accesses a tensor, and obstacles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import Enum
from math import prod

from tkgen.ir.affine import apart
from tkgen.ir.deciding import asked_along
from tkgen.ir.equations import (
    Access,
    Axis,
    AxisKind,
    Digit,
    Index,
    Kernel,
    Load,
    Loop,
    Op,
    Product,
    Store,
    Term,
    Update,
    When,
    accesses,
    walk,
)
from tkgen.ir.limits import LARGEST_ROWS_SIZE
from tkgen.ir.tensors import Dim
from tkgen.ir.types import ACCESS_BYTES
from tkgen.schedule.row_loops import loops
from tkgen.source import Span


class RowError(ValueError):
    """Why a kernel cannot be laid over lanes like this, with the place in the spec and what to do."""

    def __init__(self, message: str, span: Span | None = None, fix: str = ""):
        super().__init__(message)
        self.span = span
        self.fix = fix or "change the tile (`by`), the waves, or which axis they share"


class Way(Enum):
    """The way in which a lane accesses a tensor."""

    ALONG = "along"  # a chunk of neighbours on the fast axis
    ACROSS = "across"  # neighbours of another axis, or single elements, for each element of the fast axis
    CHUNK = "chunk"  # one element for all of a chunk, which has one position along a part of a flattened axis
    ROW = "row"  # one element for a row


def way(access: Access, fast: Axis) -> Way:
    """Return the way in which a lane accesses a tensor when it goes along `fast`."""
    if fast not in access.axes:
        return Way.ROW
    if run_length(access, fast):
        return Way.ALONG
    *others, last = access.indices
    if any(fast in index.axes for index in others):
        return Way.ACROSS
    aligned = access.innermost == fast or _aligned(last, fast, ACCESS_BYTES * 8 // access.tensor.dtype.bits)
    return Way.ALONG if aligned else Way.ACROSS


def merged(access: Access) -> Access:
    """The access with one index for neighboring dimensions along which parts of a flattened axis go on.

    The dimensions before the last one of these have the index 0.
    """
    indices = list(access.indices)
    for place, run in runs(access):
        size = prod(digit.size for digit in run)
        whole = replace(run[-1], dim=replace(run[-1].dim, size=size))
        indices[place - len(run) + 1 : place + 1] = [*[Index(None)] * (len(run) - 1), Index(None, terms=(Term(whole),))]
    return replace(access, indices=tuple(indices))


def runs(access: Access) -> Iterator[tuple[int, tuple[Digit, ...]]]:
    """Parts of flattened axes that index neighboring dimensions in their order, with the place of the last index."""
    run: list[Digit] = []
    for place, (index, dim) in enumerate(zip(access.indices, access.tensor.dims, strict=True)):
        digit = index.digit if index.digit and index.digit.size == dim.size else None
        if run and not (digit and run[-1].axis == digit.axis and run[-1].divisor == digit.divisor * digit.size):
            yield place - 1, tuple(run)
            run = []
        run += [digit] if digit else []
    if run:
        yield len(access.indices) - 1, tuple(run)


def run_length(access: Access, fast: Axis) -> int:
    """Elements of a tensor that lie next to each other as parts of a flattened `fast` go on; 0 if they do not.

    It is so if the last indices are the last parts, and other indices have only other parts.
    """
    place, run = ([*runs(access)] or [(-1, ())])[-1]
    if place != len(access.indices) - 1 or run[-1].axis != fast or run[-1].divisor != 1:
        return 0
    others = (term.of for index in access.indices[: place - len(run) + 1] for term in index.terms)
    return 0 if fast in others else prod(digit.size for digit in run)


def by_chunk(access: Access, fast: Axis, chunk: int) -> bool:
    """Return True if a chunk has one position, along parts of a flattened `fast` that are longer than it."""
    ways = [way for index in access.indices for way in index.ways]
    parts = [w for w in ways if isinstance(w, Digit) and w.axis == fast]
    return bool(parts) and fast not in ways and all(digit.divisor % chunk == 0 for digit in parts)


def _aligned(index: Index, fast: Axis, unit: int) -> bool:
    """Return True if an affine index goes along `fast` one by one, from a multiple of `unit` on."""
    others = [term.factor for term in index.terms if term.of != fast]
    straight = any(term.of == fast and term.factor == 1 for term in index.terms)
    return straight and all(number % unit == 0 for number in (index.at, *others))


def refuse(kernel: Kernel) -> None:
    """Raises RowError for what these layouts cannot do."""
    if len(tiled := [a for a in kernel.ragged if a.kind is AxisKind.PARALLEL]) > 1:
        raise RowError(f"blocks have tiles along `{tiled[0].name}` and `{tiled[1].name}`, but can find a group along "
                       "one axis only",
                       tiled[1].span, "remove `by` from one of the two")  # fmt: skip
    for op in walk(kernel.body):
        if isinstance(op, Loop) and any(b.aligned for b in op.axis.bounds):
            raise RowError("loops of row kernels cannot start or end at a length that is known only at run "
                           "time", op.axis.span,
                           "give the dimension a size")  # fmt: skip
        if isinstance(op, When) and (several := [a for a in asked_along(op) if a.kind is AxisKind.PARALLEL]):
            raise RowError(f"`when any` is about all {several[0].tile} positions along `{several[0].name}` of a tile, "
                           "but lanes that have other rows do not vote", op.span,
                           "use one row per block, `by 1`, or choose element by element with `where`")  # fmt: skip
        if isinstance(op, Product):
            raise RowError(f"{kernel.name} multiplies: its tiles are not rows", op.result.span)
    for access in accesses(kernel):
        for index in access.indices:
            if (index.of_tile or index.of_blocks) and index.axis is not None:
                raise RowError(f"{index.axis.name} is divided, but a tile extends along it", index.axis.span)
    loaded = {op.source.tensor for op in walk(kernel.body) if isinstance(op, Load)}
    if packed := next((t for t in kernel.tensors if t in loaded and t.dtype.packed), None):
        raise RowError(f"`{packed.name}` is {packed.dtype.spelling}, which can only be used to compute an operand of a "
                       "matrix product", packed.span)  # fmt: skip
    for loop in loops(kernel):
        _refuse_loop(kernel, loop)
    _refuse_stores(kernel)
    _refuse_untold_sizes(kernel)


def _refuse_untold_sizes(kernel: Kernel) -> None:
    """Raises RowError for a size known only at run time that no argument of the kernel has."""
    told = {d.name for t in (*kernel.inputs, *kernel.outputs) for d in t.dims}
    terms = (term.of for access in accesses(kernel) for index in access.indices for term in index.terms)
    needed = [*((a.dim, a.span) for a in kernel.axes), *((d, d.span) for d in terms if isinstance(d, Dim))]
    for dim, span in needed:
        if dim.size is None and dim.name not in told:
            raise RowError(f"the size of `{dim.name}` is known only at run time, but no tensor that {kernel.name} "
                           "loads or stores has this dimension", span,
                           f"give `{dim.name}` a size, or use a tensor with this dimension")  # fmt: skip


def _refuse_loop(kernel: Kernel, loop: Loop) -> None:
    """Raises RowError for loops that do not walk over tiles of a row, each pass on its own except for numbers of
    rows."""
    axis, first = loop.axis, loops(kernel)[0].axis
    span = loop.span or axis.span
    if loop not in kernel.body:
        raise RowError(
            f"a loop along `{axis.name}` is inside another one", span, "loops of row kernels cannot be nested"
        )
    if axis.part is not None:
        _refuse_parts(axis, next(a.dim for a in kernel.axes if a.name == axis.part))
    if any(getattr(axis, of) != getattr(first, of) for of in ("dim", "tile", "since", "until", "part", "within")):
        raise RowError(
            f"`{axis.name}` is over other tiles than `{first.name}`, but lanes can loop along one axis only", axis.span,
            f"use the same tiles: `in {first.dim.name} by {first.tile}`, of the same bounds, part and group",
        )  # fmt: skip
    whole = next((a for a in kernel.axes if a.kind is AxisKind.WHOLE and a.dim == axis.dim), None)
    if whole is not None and not axis.is_index:
        raise RowError(
            f"a row of {axis.dim.name} elements is complete in registers next to the loop along `{axis.name}`", span,
            "loop over it, too",
        )  # fmt: skip


def _refuse_parts(axis: Axis, parts: Dim) -> None:
    """Raises RowError where the parts of a loop are of unknown number, or end beyond what 32 bits count."""
    if parts.size is None:
        raise RowError(f"`{axis.name}` is divided into {parts.name} parts, a number known only at run time",
                       axis.span, f"give {parts.name} a size")  # fmt: skip
    if (parts.size + 1) * (axis.tile or 1) > LARGEST_ROWS_SIZE:
        raise RowError(f"{parts.size} parts of `{axis.name}`, each with at least one tile, end beyond the range of "
                       "32 bits",
                       axis.span, f"make {parts.name} smaller")  # fmt: skip


def _refuse_stores(kernel: Kernel) -> None:
    """Raises RowError where lanes or blocks would race for what they store."""
    ops = [op for op in walk(kernel.body) if not isinstance(op, Loop)]
    for place, op in enumerate(ops):
        if isinstance(op, Store):
            _refuse_store(kernel, op, ops[:place], ops[place + 1 :])


def _refuse_store(kernel: Kernel, store: Store, before: Sequence[Op], after: Sequence[Op]) -> None:
    """Raises RowError where something else touches what `store` writes: lanes and blocks would race."""
    target, name = store.target, store.target.tensor.name
    for op in before:
        together = isinstance(op, Store) and op.update is store.update is not Update.SET
        if isinstance(op, Store) and not together and _meet(op.target, target):
            raise RowError(f"{name} is stored twice", store.span)
    reads_it = [op for op in (*before, *after) if isinstance(op, Load) and _meet(op.source, target)]
    for load in reads_it:
        if load in after:
            raise RowError(f"{name} is read after it has been stored: use the stored value", load.result.span)
        if load.source != target:
            raise RowError(f"{name} is stored, but read at another position: blocks would race", load.result.span)
    own = {axis for index in target.indices if index.divisor == 1 for axis in index.axes}
    if kernel.groups is not None and any(axis.is_moved for axis in own):  # groups share no place
        own.add(kernel.groups)
    missing = [
        a for a in kernel.axes
        if a not in own and a.dim.size != 1 and (a.kind is AxisKind.PARALLEL or (reads_it and not a.is_index))
    ]  # fmt: skip
    if missing:
        names = " and ".join(a.name for a in missing)
        raise RowError(f"{name} is stored without {names}: several tiles would write the same elements", store.span)


def _meet(one: Access, other: Access) -> bool:
    """Return True if two accesses may touch the same element."""
    if one.tensor.name != other.tensor.name:
        return False
    return not apart(one, other)


def refuse_places(kernel: Kernel) -> None:
    """Raises RowError for positions in pages, and in tensors of unknown size."""
    for access in accesses(kernel):
        for dim, index in zip(access.tensor.dims, access.indices, strict=True):
            if index.through is None:
                continue
            name = access.tensor.name
            if index.of_page:
                raise RowError(f"`{name}` is paged, which only fused matmuls can read",
                               access.tensor.span)  # fmt: skip
            if dim.size is None:
                raise RowError(f"positions along {dim.name} of `{name}` are computed, so {dim.name} must be known",
                               access.tensor.span,
                               f"give {dim.name} a size")  # fmt: skip


def refuse_packed(kernel: Kernel, fast: Axis, chunk: int) -> None:
    """Raises RowError for packed floats of which a lane would store parts of bytes."""
    for access in accesses(kernel):
        dtype, name = access.tensor.dtype, access.tensor.name
        if dtype.packed and (way(access, fast) is not Way.ALONG or chunk * dtype.bits % 8):
            raise RowError(
                f"lanes store {chunk if way(access, fast) is Way.ALONG else 1} neighbors of `{name}` at a time, but "
                f"{dtype.spelling} shares bytes among {dtype.unit(1)}", access.tensor.span,
                f"make the rows of all tensors along {fast.name} multiples of {dtype.unit(1)}, innermost in `{name}`",
            )  # fmt: skip
