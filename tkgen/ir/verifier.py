"""The invariants of every `Kernel`, whoever made it: rules that passes rely on, checked between stages.

`verify(kernel, "typing")` raises Broken, which names the stage, the rule and the operation: a mistake of tkgen, never
of a spec (that has a diagnostic). The rules:

    names        tensors, scalars and axes are the kernel's own, one of a name
    axis         a tile is positive; WHOLE has none; bounds are of a SEQUENTIAL axis and name PARALLEL ones; a ragged
                 one has a tile and no part, an index of PARALLEL places, and one offset more than these, in i32
    ssa          a value is defined once, before it is used, and not used outside of the loop that defines it
    loop         a loop walks along a SEQUENTIAL axis that no loop around it walks; values along it stay inside
    when         a condition's body has no store, no loop and no other condition; what it chooses are numbers
    carry        numbers; inside, update and result have the same axes, to which those of `initial` belong
    arity        a function is one of `tkgen.ir.functions`, with its number of arguments
    kind         arguments are what the function takes, the result is what it gives; elsewhere numbers stand
    axes         the axes of a result are those that its operation gives it
    type         only a load of its tensor's type and a conversion are of another type than f32
    reduction    `sum`, `max` or `min`, along an axis that the argument has
    scan         one of these or `prod`, along an axis that the argument and the result have
    sort         `values` or `positions`, along an axis that the argument has; what comes first lies along that axis, or
                 along a WHOLE one, no longer, that the argument lacks
    product      both factors have the axis that is summed, and no other in common
    rank         an access has an index for each dimension, none of them twice along one axis
    bounds       an index along an axis with tiles is of that axis' dimension; a number or quotient is within the tensor
    place        a tile that is stored has a place along each of its axes, and one for each block, where a ragged axis
                 stands for its index; a quotient along an axis with tiles is that of a store, by the tile, not ragged;
                 each index of a store tells its axes apart, unless the store is distinct or combines values
    memory       what is stored is read only at the place where it is stored; stores of one tensor have one update
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NoReturn

from tkgen.ir.affine import apart
from tkgen.ir.coverage import tells_apart
from tkgen.ir.equation_text import axis_text, op_text
from tkgen.ir.equations import (
    Access,
    Argument,
    Axis,
    AxisKind,
    Carry,
    Constant,
    Convert,
    Coordinate,
    Extent,
    Kernel,
    Kind,
    Load,
    Loop,
    Map,
    Op,
    Product,
    Reduce,
    Scan,
    Sort,
    Store,
    Term,
    Update,
    Value,
    When,
    reads,
    walk,
    writes,
)
from tkgen.ir.functions import FUNCTIONS, Function
from tkgen.ir.types import DType

REDUCTIONS = ("sum", "max", "min")
SCANS = (*REDUCTIONS, "prod")
SORTED = ("values", "positions")
NUMBERS = (Kind.NUMBER, Kind.COORDINATE)  # a coordinate stands for its number


class Broken(Exception):
    """An IR that breaks a rule: a mistake of tkgen."""

    def __init__(self, kernel: str, stage: str, rule: str, where: str):
        super().__init__(f"{kernel}, after {stage}: `{where}` breaks the rule `{rule}`")
        self.rule = rule


def verify(kernel: Kernel, stage: str) -> Kernel:
    """The kernel itself, if all rules hold of it; raises Broken else."""
    _Verifier(kernel, stage).kernel_()
    return kernel


class _Verifier:
    def __init__(self, kernel: Kernel, stage: str):
        self.kernel, self.stage = kernel, stage
        self.axes: Mapping[str, Axis] = {a.name: a for a in kernel.axes}
        self.defined: set[int] = set()
        self.visible: dict[int, Value] = {}
        self.loops: list[Axis] = []
        constants = (op for op in walk(kernel.body) if isinstance(op, Constant))
        self.whole = {op.result.number for op in constants if float(op.value).is_integer()}

    def insist(self, holds: bool, rule: str, where: Op | Axis | str) -> None:
        if not holds:
            self.fail(rule, where)

    def fail(self, rule: str, where: Op | Axis | str) -> NoReturn:
        text = where if isinstance(where, str) else axis_text(where) if isinstance(where, Axis) else op_text(where)
        raise Broken(self.kernel.name, self.stage, rule, text)

    # ------------------------------------------------------------ the kernel

    def kernel_(self) -> None:
        k = self.kernel
        for names in ([t.name for t in k.tensors], [s.name for s in k.scalars], [a.name for a in k.axes]):
            self.insist(len(set(names)) == len(names), "names", f"kernel {k.name}")
        for axis in k.axes:
            self.axis(axis)
        self.body(k.body)
        self.memory()

    def axis(self, axis: Axis) -> None:
        self.insist(axis.tile is None or axis.tile > 0, "axis", axis)
        self.insist(axis.kind is not AxisKind.WHOLE or axis.tile is None, "axis", axis)
        for bound in axis.bounds:
            of = self.axes.get(bound.axis)
            self.insist(axis.kind is AxisKind.SEQUENTIAL, "axis", axis)
            self.insist(of is not None and of.kind is AxisKind.PARALLEL, "axis", axis)
        if axis.part is not None:
            of = self.axes.get(axis.part)
            self.insist(axis.kind is AxisKind.SEQUENTIAL and not axis.bounds, "axis", axis)
            self.insist(of is not None and of.kind is AxisKind.PARALLEL and of.is_index, "axis", axis)

        if axis.within is not None:
            index, offsets = self.axes.get(axis.within.of), axis.within.offsets
            self.insist(axis.tile is not None and (axis.part is None or axis.within.lengths), "axis", axis)
            self.insist(not axis.within.lengths or axis.kind is AxisKind.SEQUENTIAL, "axis", axis)
            self.insist(index is not None and index.kind is AxisKind.PARALLEL and index.is_index, "axis", axis)
            self.insist(offsets in self.kernel.tensors and offsets.dtype is DType.I32, "axis", axis)
            self.insist({a.within.of for a in self.kernel.ragged if a.within} == {axis.within.of}, "axis", axis)

    def own(self, axis: Axis, where: Op) -> None:
        self.insist(self.axes.get(axis.name) == axis, "names", where)
        if axis.kind is AxisKind.SEQUENTIAL:
            self.insist(axis in self.loops, "loop", where)

    def memory(self) -> None:
        tile_sums = {
            op.result for op in walk(self.kernel.body)
            if isinstance(op, Product) and op.axis.kind is AxisKind.PARALLEL and not op.axis.is_one_tile
        }  # fmt: skip
        for op in walk(self.kernel.body):  # what blocks sum of their own tiles is added up in memory alone
            if any(v in tile_sums for v in reads(op)):
                self.insist(isinstance(op, Store) and op.adds, "product", op)
        updates = {s.target.tensor.name: s.update for s in self.kernel.stores}
        for store in self.kernel.stores:
            self.insist(store.update is updates[store.target.tensor.name], "memory", store)
        stores: dict[str, set[Access]] = {}
        for store in self.kernel.stores:
            stores.setdefault(store.target.tensor.name, set()).add(store.target)
        for op in walk(self.kernel.body):
            if isinstance(op, Load) and op.source.tensor.name in stores:
                for target in stores[op.source.tensor.name]:
                    self.insist(target == op.source or apart(target, op.source), "memory", op)

    # ------------------------------------------------------------ operations

    def body(self, ops: tuple[Op, ...]) -> None:
        for op in ops:
            for value in reads(op):
                self.insist(self.visible.get(value.number) == value, "ssa", op)
            self.operation(op)
            for value in writes(op):
                self.define(value, op)

    def define(self, value: Value, op: Op) -> None:
        self.insist(value.number not in self.defined, "ssa", op)
        for axis in value.axes:
            self.own(axis, op)
        self.insist(len(set(value.axes)) == len(value.axes), "axes", op)
        self.insist(not any(a.is_index for a in value.axes), "axes", op)
        self.defined.add(value.number)
        self.visible[value.number] = value

    def operation(self, op: Op) -> None:
        match op:
            case Load(result=result, source=source):
                self.access(source, op)
                self.result(result, source.axes, Kind.NUMBER, op, (DType.F32, source.tensor.dtype))
            case Store():
                self.store(op)
            case Constant(result=result):
                kind = result.kind if result.kind in NUMBERS else Kind.NUMBER
                self.insist(kind is Kind.NUMBER or float(op.value).is_integer(), "kind", op)
                self.result(result, (), kind, op)
            case Argument(result=result, scalar=scalar):
                self.insist(scalar in self.kernel.scalars, "names", op)
                self.result(result, (), Kind.NUMBER, op)
            case Coordinate(result=result, axis=axis):
                self.own(axis, op)
                self.result(result, () if axis.is_index else (axis,), Kind.COORDINATE, op)
            case Extent(result=result, axis=axis):
                self.insist(self.axes.get(axis.name) == axis, "names", op)
                self.result(result, (), Kind.COORDINATE, op)
            case Map():
                self.map(op)
            case Convert(result=result, argument=argument):
                self.insist(argument.kind in NUMBERS, "kind", op)
                self.result(result, argument.axes, Kind.NUMBER, op, (result.dtype,))
            case Reduce(result=result, function=function, axis=axis, argument=argument):
                self.insist(function in REDUCTIONS and axis in argument.axes, "reduction", op)
                self.insist(argument.kind in NUMBERS, "kind", op)
                self.result(result, _without(argument.axes, axis), Kind.NUMBER, op)
            case Scan(result=result, function=function, axis=axis, argument=argument):
                self.insist(function in SCANS and axis in argument.axes, "scan", op)
                self.insist(argument.kind in NUMBERS, "kind", op)
                self.result(result, argument.axes, Kind.NUMBER, op)
            case Sort(function=function, axis=axis, argument=argument, first=first):
                self.insist(function in SORTED and axis in argument.axes, "sort", op)
                self.insist(argument.kind in NUMBERS, "kind", op)
                rest = _without(argument.axes, axis)
                if first not in (None, axis):
                    self.insist(first not in rest and first.kind is AxisKind.WHOLE, "sort", op)
                    self.insist(axis.is_one_tile and (first.dim.size or 0) <= (axis.dim.size or 0), "sort", op)
                self.result(op.result, (*rest, *([] if first is None else [first])), Kind.NUMBER, op)
            case Product(result=result, left=left, right=right, axis=axis):
                common = set(left.axes) & set(right.axes)
                self.insist(common == {axis}, "product", op)
                self.insist(left.kind is right.kind is Kind.NUMBER, "kind", op)
                self.result(result, _without(left.axes + right.axes, axis), Kind.NUMBER, op)
            case Loop():
                self.loop(op)
            case When():
                self.when(op)

    def result(
        self, value: Value, axes: tuple[Axis, ...], kind: Kind, op: Op, dtypes: tuple[DType, ...] = (DType.F32,)
    ) -> None:
        self.insist(set(value.axes) == set(axes), "axes", op)
        self.insist(value.kind is kind, "kind", op)
        self.insist(value.dtype in dtypes, "type", op)

    def map(self, op: Map) -> None:
        function = FUNCTIONS.get(op.function)
        if function is None or len(op.arguments) != function.arity:
            self.fail("arity", op)
        for value, kinds in zip(op.arguments, taken(function), strict=True):
            left_out = kinds == (Kind.COORDINATE,) and value.number in self.whole  # a constant stands for it
            self.insist(value.kind in kinds or left_out, "kind", op)
        coordinates = all(a.kind is Kind.COORDINATE for a in op.arguments)
        given = Kind.COORDINATE if function.whole and coordinates else Kind.NUMBER
        kind = Kind.PREDICATE if function.predicate else given
        self.result(op.result, tuple(a for v in op.arguments for a in v.axes), kind, op)

    def loop(self, op: Loop) -> None:
        self.insist(op.axis.kind is AxisKind.SEQUENTIAL and op.axis not in self.loops, "loop", op)
        self.insist(self.axes.get(op.axis.name) == op.axis, "names", op)
        outside = dict(self.visible)
        self.loops.append(op.axis)
        for c in op.carries:
            self.define(c.inside, op)
        self.body(op.body)
        for c in op.carries:
            self.insist(self.visible.get(c.update.number) == c.update, "ssa", op)
            self.insist(_is_handed_on(c), "carry", op)
        self.loops.pop()
        self.visible = outside
        for c in op.carries:
            self.insist(op.axis not in c.result.axes, "loop", op)

    def when(self, op: When) -> None:
        self.insist(op.condition.kind is Kind.PREDICATE, "kind", op)
        self.insist(not any(isinstance(o, Store | Loop | When) for o in op.body), "when", op)
        outside = dict(self.visible)
        self.body(op.body)
        for c in op.chosen:
            self.insist(self.visible.get(c.update.number) == c.update, "ssa", op)
            self.insist(set(c.otherwise.axes) <= set(c.result.axes) == set(c.update.axes), "axes", op)
            self.insist(all(v.kind in NUMBERS for v in (c.otherwise, c.update)), "kind", op)
            self.insist(c.result.kind is Kind.NUMBER and c.result.dtype is DType.F32, "kind", op)
        self.visible = outside

    # ------------------------------------------------------------ memory

    def access(self, access: Access, op: Op) -> None:
        tensor, indices = access.tensor, access.indices
        self.insist(tensor in self.kernel.tensors, "names", op)
        ways = [a for i in indices for a in i.ways if not i.of_page]
        self.insist(len(indices) == len(tensor.dims) and len(set(ways)) == len(ways), "rank", op)
        for index, dim, before in zip(indices, tensor.dims, (None, *indices), strict=False):
            if index.terms:
                self.insist(index.axis is None and index.divisor == 1, "place", op)
                self.insist(all(term.factor for term in index.terms), "place", op)
                for axis in index.axes:
                    self.own(axis, op)
                    self.insist(not axis.is_moved or (axis.dim == dim and index.terms == (Term(axis),)), "place", op)
                continue
            if index.axis is None:
                self.insist(index.at >= 0 and (dim.size is None or index.at < dim.size), "bounds", op)
                continue
            self.own(index.axis, op)
            if index.through is not None:
                self.insist(index.through.tensor.dtype is DType.I32, "place", op)
                self.insist(isinstance(op, Load) or not index.of_page, "place", op)
                self.insist(index.of_page or index.through.axes == (index.axis,), "place", op)
                self.access(index.through, op)
                continue
            extent = index.axis.dim.size
            if index.remainder:
                paged = before is not None and before.of_page and before.axis == index.axis
                self.insist(paged and dim.size == index.divisor and isinstance(op, Load), "place", op)
            elif index.divisor == 1:
                number = index.axis.is_index or index.numbered
                divided = number and extent is not None and dim.size is not None and extent <= dim.size
                self.insist(index.axis.dim == dim or divided, "bounds", op)  # an index may be divided by 1
            else:
                self.insist(index.divisor > 1, "bounds", op)
                page = index.divisor % (index.axis.tile or 1) == 0 and tensor.dtype is DType.I32
                number = (index.divisor == index.axis.tile or page) and not index.axis.is_moved
                blocks = index.of_blocks and isinstance(op, Load) and (index.axis.tile or 1) % index.divisor == 0
                self.insist(index.axis.is_index or number or blocks, "place", op)
                last = None if extent is None else (extent - 1) // index.divisor
                self.insist(last is None or dim.size is None or last < dim.size, "bounds", op)

    def store(self, op: Store) -> None:
        self.access(op.target, op)
        self.insist(op.value.kind in NUMBERS, "kind", op)
        placed = {i.axis for i in op.target.indices if i.axis is not None and i.divisor in (1, i.axis.tile)}
        whole = {i.axis for i in op.target.indices if i.axis is not None and i.divisor == 1 and not i.numbered}
        computed = {axis for i in op.target.indices if i.terms for axis in i.axes}
        placed |= computed
        self.insist(set(op.value.axes) <= whole | computed, "place", op)
        for index in op.target.indices if op.update is Update.SET and not op.distinct else ():
            self.insist(index.through is None and (not index.terms or tells_apart(index)), "place", op)
        if not op.adds:
            blocks = {a for a in self.kernel.axes if a.kind is AxisKind.PARALLEL and not a.is_one_tile}
            placed |= {self.axes[a.within.of] for a in placed if a.within and a.is_moved}  # groups share no place
            self.insist(blocks <= placed, "place", op)


def taken(function: Function) -> Iterator[tuple[Kind, ...]]:
    """The kinds of value that each argument of a function may be."""
    for i in range(function.arity):
        if function.takes == "predicate" or (function.takes == "choice" and i == 0):
            yield (Kind.PREDICATE,)
        elif function.takes == "place" and i:
            yield (Kind.COORDINATE,)
        else:
            yield NUMBERS


def _without(axes: tuple[Axis, ...], axis: Axis) -> tuple[Axis, ...]:
    return tuple(a for a in axes if a != axis)


def _is_handed_on(c: Carry) -> bool:
    numbers = all(v.kind is Kind.NUMBER for v in (c.inside, c.update, c.result))
    same = set(c.inside.axes) == set(c.update.axes) == set(c.result.axes)
    wide = c.inside.dtype is c.result.dtype is DType.F32
    return numbers and same and wide and set(c.initial.axes) <= set(c.inside.axes) and c.initial.kind in NUMBERS
