"""Reductions along several axes, brought into one form: along a flattened axis, which lanes divide as any other.

    x = X[b, g, CHANNELS, HIDDEN]                     x = X[b, g, n / HIDDEN, n % HIDDEN]        n < CHANNELS * HIDDEN
    m = colsum(rowsum(x)) / COUNT           ->        m = rowsum(x) / COUNT
    Y[b, g, CHANNELS, HIDDEN] = x - m                 Y[b, g, n / HIDDEN, n % HIDDEN] = x - m

Sums of sums, and maxima of maxima, are one reduction along all of their axes. Elements that only have some of these
axes, such as weights of channels, are read at their part of the position. In a loop over tiles of the outermost axis,
`each c in CHANNELS by 4`, a tile of the flattened one has these 4 positions times the inner axes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from math import prod

from tkgen.ir.equations import (
    Access,
    Axis,
    AxisKind,
    Carry,
    Constant,
    Coordinate,
    Digit,
    Extent,
    Index,
    Kernel,
    Load,
    Loop,
    Map,
    Op,
    Reduce,
    Scan,
    Sort,
    Store,
    Term,
    Value,
    accesses,
    reads,
    walk,
    writes,
)
from tkgen.ir.limits import LARGEST_INT
from tkgen.ir.tensors import Dim
from tkgen.ir.verifier import verify
from tkgen.schedule.row_form import RowError
from tkgen.schedule.row_loops import loops


def joined(kernel: Kernel) -> Kernel:
    """The kernel with one flattened axis in place of all those along which it reduces; itself if it has one at most.

    Raises RowError where the axes cannot be one.
    """
    found = {loop.axis for loop in loops(kernel) if not loop.axis.is_index}
    found |= {op.axis for op in walk(kernel.body) if isinstance(op, Reduce | Scan | Sort)}
    if len(found) < 2:
        return kernel
    body, along = _merged(kernel)
    _refuse(kernel, found, along)
    return verify(_Flattened(replace(kernel, body=body), found).kernel(), "joining axes")


# ------------------------------------------------------------ reductions of reductions


def _merged(kernel: Kernel) -> tuple[tuple[Op, ...], Mapping[Value, frozenset[Axis]]]:
    """The body with one reduction in place of reductions of reductions, and the axes of each by its result."""
    uses = Counter(v for op in walk(kernel.body) for v in reads(op))
    uses.update(c.update for op in walk(kernel.body) if isinstance(op, Loop) for c in op.carries)
    numbers = count(1 + max(v.number for op in walk(kernel.body) for v in writes(op)))
    along: dict[Value, frozenset[Axis]] = {}
    constants = {op.result: op.value for op in walk(kernel.body) if isinstance(op, Constant)}

    def of(body: tuple[Op, ...]) -> tuple[Op, ...]:
        made = {value: op for op in body for value in writes(op)}
        gone: set[Op] = set()
        found: list[Op] = []
        for op in reversed(body):
            if op in gone:
                continue
            if isinstance(op, Loop):
                op = replace(op, body=of(op.body))
            if isinstance(op, Reduce):
                axes, argument, scales = _chain(op, made, uses, gone)
                result = replace(op.result, number=next(numbers), name="") if scales else op.result
                along[result] = frozenset(axes)
                if scales and all(scale.function == "div" and scale.arguments[1] in constants for scale in scales):
                    divisor = replace(op.result, number=next(numbers), name="", axes=())
                    constant = Constant(divisor, prod(constants[scale.arguments[1]] for scale in scales))
                    scale = Map(op.result, "div", (result, divisor))
                    found += [scale, constant, replace(op, result=result, argument=argument)]
                    continue
                found += reversed([replace(op, result=result, argument=argument), *_scaled(op, result, scales)])
            else:
                found.append(op)
        return tuple(reversed(found))

    return of(kernel.body), along


def _chain(
    op: Reduce, made: Mapping[Value, Op], uses: Mapping[Value, int], gone: set[Op]
) -> tuple[list[Axis], Value, list[Map]]:
    """The axes of a reduction and of those that it reduces, what the innermost one reduces, and the scales between.

    The operations that this replaces are added to `gone`. Scales are listed from the inside.
    """
    axes, argument, scales = [op.axis], op.argument, list[Map]()
    at, between = argument, list[Map]()
    while uses[at] == 1:
        inner = made.get(at)
        if isinstance(inner, Reduce) and inner.function == op.function:
            axes.append(inner.axis)
            gone |= {inner, *between}
            scales = [*reversed(between), *scales]
            between = []
            at = argument = inner.argument
        elif op.function == "sum" and isinstance(inner, Map) and (scale := _number(inner)) is not None:
            between.append(inner)
            at = inner.arguments[scale == 0]
        else:
            break
    return axes, argument, scales


def _number(op: Map) -> int | None:
    """The place of the argument of a scale that is one number for all; None if none is."""
    places = {"div": (1,), "mul": (0, 1)}.get(op.function, ())
    return next((n for n in places if not op.arguments[n].axes), None)


def _scaled(op: Reduce, result: Value, scales: Sequence[Map]) -> Iterator[Map]:
    """The scales of what was reduced, applied to the reduction; the last one gives its value."""
    for n, scale in enumerate(scales, 1):
        at = _number(scale)
        assert at is not None
        new = op.result if n == len(scales) else replace(scale.result, axes=op.result.axes, name="")
        given = (scale.arguments[0], result) if at == 0 else (result, scale.arguments[1])
        yield replace(scale, result=new, arguments=given)
        result = new


# ------------------------------------------------------------ one axis


def _refuse(kernel: Kernel, axes: set[Axis], along: Mapping[Value, frozenset[Axis]]) -> None:
    """Raises RowError where the axes of reductions and loops cannot be one flattened axis."""
    names = _text(axes)
    for op in walk(kernel.body):
        if isinstance(op, Scan | Sort):
            raise RowError(f"loops, reductions and scans along {names}: lanes can divide one axis only, and a scan "
                           "goes along one", op.result.span,
                           "compute the scan in another kernel of a `sequence`")  # fmt: skip
    for value, own in along.items():
        if own != axes:
            rest = _text(axes - own)
            raise RowError(
                f"a reduction along {_text(own)}, but others or a loop also along {rest}: lanes divide all of these "
                "axes together", value.span,
                f"reduce it along {rest}, too (`rowsum(colsum(x))`), or compute it in another kernel of a `sequence`",
            )  # fmt: skip
    looped = [a for a in axes if a.kind is AxisKind.SEQUENTIAL]
    if several := looped[1:]:
        raise RowError(f"loops along {names}: lanes can divide one axis only", several[0].span,
                       "use the same axis and tile in all loops")  # fmt: skip
    for axis in axes:
        if axis.kind is AxisKind.PARALLEL:
            raise RowError(f"a reduction along {names}: blocks have tiles along `{axis.name}`", axis.span,
                           f"loop over it, `each {axis.name} in {axis.dim.name} by {axis.tile}`")  # fmt: skip
        if axis.bounds or axis.within is not None:
            raise RowError(f"the loop along `{axis.name}` has bounds or groups, and is reduced along {names}",
                           axis.span, "remove the bounds, and mask the elements with `where`")  # fmt: skip
        if axis.dim.size is None:
            raise RowError(f"a reduction along {names}, and `{axis.dim.name}` is dynamic: lanes divide these axes "
                           "together, so their sizes must be known at build time", axis.span or axis.dim.span,
                           f"give `{axis.dim.name}` a size, or declare the tensor with one dimension in place of "
                           "these: it is the same memory")  # fmt: skip
    if prod(a.dim.size or 1 for a in axes) > LARGEST_INT:
        raise RowError(f"{names} have more positions together than 31 bits count", kernel.axes[0].span,
                       "reduce along one of them in another kernel of a `sequence`")  # fmt: skip


def _text(axes: Iterable[Axis]) -> str:
    return " and ".join(f"`{name}`" for name in sorted(axis.name for axis in axes))


class _Flattened:
    """A kernel with one axis in place of several."""

    def __init__(self, kernel: Kernel, axes: set[Axis]):
        self.before, self.axes = kernel, axes
        parts = self._order()
        dims = tuple(axis.dim for axis in parts)
        first, inner = parts[0], prod(dim.size or 1 for dim in dims[1:])
        taken = {a.name for a in kernel.axes} | {t.name for t in kernel.tensors} | {d.name for d in _dims(kernel)}
        dim = Dim(_free("_".join(d.name for d in dims), taken), prod(d.size or 1 for d in dims), first.dim.span)
        name = "_".join(a.name for a in parts)
        tile = None if first.tile is None else first.tile * inner
        self.axis = Axis(_free(name, taken), dim, first.kind, tile, part=first.part, parts=dims, span=first.span)
        below = (prod(d.size or 1 for d in dims[n + 1 :]) for n in range(len(dims)))
        self.digits = {a: Digit(a.name, self.axis, a.dim, divisor) for a, divisor in zip(parts, below, strict=True)}

    def _order(self) -> list[Axis]:
        """The axes as the largest access that has most of them has them in memory, the loop's outermost."""

        def weight(access: Access) -> tuple[int, int]:
            own = [a for i in access.indices for a in i.axes if a in self.axes]
            return len(own), prod(d.size or 1 for d in access.tensor.dims) * access.tensor.dtype.bits

        best = max(accesses(self.before), key=weight, default=None)
        order = [] if best is None else [a for i in best.indices for a in i.axes if a in self.axes]
        order += [a for a in self.before.axes if a in self.axes]
        return sorted(dict.fromkeys(order), key=lambda a: a.kind is not AxisKind.SEQUENTIAL)

    def kernel(self) -> Kernel:
        """The kernel in this form."""
        axes = dict.fromkeys(self.axis if a in self.axes else a for a in self.before.axes)
        return replace(self.before, axes=tuple(axes), body=tuple(map(self._op, self.before.body)))

    def _op(self, op: Op) -> Op:
        match op:
            case Loop():
                carries = tuple(Carry(*map(self._value, (c.initial, c.inside, c.update, c.result))) for c in op.carries)
                axis = self.axis if op.axis in self.axes else op.axis
                return replace(op, axis=axis, carries=carries, body=tuple(map(self._op, op.body)))
            case Load():
                return Load(self._value(op.result), self._access(op.source))
            case Store():
                self._refuse_store(op)
                return replace(op, target=self._access(op.target), value=self._value(op.value))
            case Reduce():
                return replace(op, result=self._value(op.result), axis=self.axis, argument=self._value(op.argument))
            case Coordinate() if op.axis in self.axes:
                raise RowError(f"the position along `{op.axis.name}` is used, but lanes divide {_text(self.axes)} "
                               "together, and know only the position along both", op.result.span,
                               f"store what depends on it in a tensor, `M[{op.axis.dim.name}]`")  # fmt: skip
            case Extent() if op.axis in self.axes:
                return Constant(op.result, float(op.axis.dim.size or 0))
            case Map():
                return replace(op, result=self._value(op.result), arguments=tuple(map(self._value, op.arguments)))
        new = {name: self._value(v) for name, v in vars(op).items() if isinstance(v, Value)}
        return replace(op, **new)  # type: ignore[arg-type]

    def _value(self, value: Value) -> Value:
        axes = dict.fromkeys(self.axis if a in self.axes else a for a in value.axes)
        return replace(value, axes=tuple(axes))

    def _access(self, access: Access) -> Access:
        return Access(access.tensor, tuple(self._index(access, index) for index in access.indices))

    def _index(self, access: Access, index: Index) -> Index:
        if index.axis in self.axes:
            if index.through is not None or index.divisor != 1 or index.numbered:
                raise RowError(f"positions along `{index.axis.name}` of `{access.tensor.name}` are computed, and lanes "
                               f"divide {_text(self.axes)} together", access.tensor.span,
                               "reduce along one axis only")  # fmt: skip
            return Index(None, terms=(Term(self.digits[index.axis]),))
        terms = (replace(t, of=self.digits[t.of]) if isinstance(t.of, Axis) and t.of in self.axes else t
                 for t in index.terms)  # fmt: skip
        return replace(index, terms=tuple(terms))

    def _refuse_store(self, store: Store) -> None:
        """Raises RowError for a store along some of the axes: each element would be stored many times."""
        own = self.axes & set(store.target.axes)
        if own and own != self.axes:
            rest = _text(self.axes - own)
            raise RowError(f"`{store.target.tensor.name}` is stored along {_text(own)} and not along {rest}, but lanes "
                           "divide these axes together", store.span,
                           "store it in another kernel of a `sequence`")  # fmt: skip


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _dims(kernel: Kernel) -> Iterator[Dim]:
    yield from (axis.dim for axis in kernel.axes)
    yield from (dim for tensor in kernel.tensors for dim in tensor.dims)
