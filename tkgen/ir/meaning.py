"""The meaning of a kernel: its equations evaluated on torch tensors, before anything is scheduled.

    results = evaluate(kernel, {"X": x}, {"eps": 1e-5})     # f64, and how far off f32 arithmetic may be
    results["Y"].value, results["Y"].bound

`evaluate` executes every operation in f64, conversions included (`bf16(p)` rounds), with f32's range: what f32
cannot hold is infinite. Beside each number runs a bound on what f32 arithmetic makes of it (`tkgen.ir.rounding`), so
that a result can be judged element by element. Infinities and NaNs are exact: a row masked as a whole is what it is.

All tiles of the parallel axes are one tensor, for no tile sees another: a value has a direction of the name of each
axis. Where one tile matters to the result, tiles have their own direction, called as the axis with a `#`: the
maximum of each tile's rows, or which tiles a loop with bounds visits. A loop walks its tiles in order and hands on
what it carries. A carry that is nothing but a sum of products along the loop is one sum: its order is not the kernel's.

A kernel with ragged axes is executed group by group, each on the places that its offsets mean (`tkgen.ir.segments`).
A large kernel is executed slab by slab (`tkgen.ir.slabs`).

Two tiles that store to one position have no meaning here (`tkgen.ir.verifier` refuses them), unless their values are
combined. Stores to computed positions are in `tkgen.ir.scattered`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from string import ascii_letters

import torch
from torch import Tensor

from tkgen.ir import equations, rounding, scans, sorting, tensors
from tkgen.ir.divided import extents_of
from tkgen.ir.equations import (
    Access,
    Axis,
    AxisKind,
    Carry,
    Kernel,
    Kind,
    Loop,
    Map,
    Op,
    Product,
    Reduce,
    Scan,
    Sort,
    Store,
    Value,
    When,
    reads,
)
from tkgen.ir.functions import CDNA, FUNCTIONS
from tkgen.ir.scattered import Combined, Scatters, reduced
from tkgen.ir.segments import parts as parts_of
from tkgen.ir.short_sums import cut_off_start
from tkgen.ir.slabs import slabs
from tkgen.ir.summing import adds_to_carry, is_sums
from tkgen.ir.tiles import Tile, along_dims, cut, picked, stacked
from tkgen.ir.types import DType
from tkgen.ir.value_facts import ValueFacts
from tkgen.targets import short_sums


@dataclass(frozen=True)
class Result:
    """An output: in f64, and how far off each element that a kernel stores may be.

    Elements that no tile stores are what they were, NaN where nothing was given.
    """

    value: Tensor
    bound: Tensor
    memory: Tile = field(repr=False)  # what then stands there, rounded to the tensor's type


def evaluate(
    kernel: Kernel,
    inputs: Mapping[str, Tensor],
    scalars: Mapping[str, float] | None = None,
    extents: Mapping[str, int] | None = None,
    back_end: str = CDNA,
) -> dict[str, Result]:
    """Each tensor that the kernel writes, by name; `inputs` has those it reads. Bounds are for the code of `back_end`.

    Extents are those of the inputs; `extents` has those of dimensions that no input has and the kernel leaves open.
    An output that `inputs` has is written into a copy. One that combines values starts at `Kernel.starts` otherwise.

    Raises:
        ValueError: an input, a scalar or an extent is missing, or inputs disagree; two elements of a store are one.
    """
    return evaluate_all([kernel], inputs, scalars, extents, back_end)


def evaluate_all(
    kernels: Sequence[Kernel],
    inputs: Mapping[str, Tensor],
    scalars: Mapping[str, float] | None = None,
    extents: Mapping[str, int] | None = None,
    back_end: str = CDNA,
    flushed: Collection[DType] = (),
) -> dict[str, Result]:
    """The same of kernels one after the other: what one writes is what the next ones read, rounded as it is stored.

    How far off it may be is handed on with it. Matrix units take subnormal factors of the `flushed` types for zero.
    """
    found: dict[str, Result] = {}
    memory: dict[str, Tensor | Tile] = dict(inputs)
    for kernel in kernels:
        known = {name: t for name, t in memory.items() if name in inputs or name not in kernel.added}
        run = _Evaluation(kernel, known, scalars or {}, extents or {}, back_end)
        run.flushed = flushed
        run.whole()
        found |= run.found()
        memory |= {t.name: run.tensors[t.name] for t in kernel.outputs}
    return found


def scattered(
    kernel: Kernel, inputs: Mapping[str, Tensor], scalars: Mapping[str, float], extents: Mapping[str, int],
    back_end: str = CDNA,
) -> tuple[dict[str, Result], dict[str, Combined]]:  # fmt: skip
    """`evaluate`, and what stores bring to computed positions."""
    run = _Evaluation(kernel, inputs, scalars, extents, back_end)
    run.whole()
    return run.found(), run.combined


class _Evaluation(Scatters):
    """One run in f64; `tensors` has what stands in memory, `results` and `bounds` what was stored before rounding."""

    precision = torch.float64
    in_slabs = True  # whether the tiles of large kernels are evaluated one slab after another
    flushed: Collection[DType] = ()  # factors of these types may count as zero where they are subnormal

    def __init__(
        self, kernel: Kernel, given: Mapping[str, Tensor | Tile], scalars: Mapping[str, float],
        extents: Mapping[str, int], back_end: str = CDNA,
    ):  # fmt: skip
        inputs = {name: t.value if isinstance(t, Tile) else t for name, t in given.items()}
        self.kernel, self.scalars, self.back_end = kernel, scalars, back_end
        self.extents = extents_of(kernel, inputs, extents)
        self.axes = {a.name: a for a in kernel.axes}
        self.values: dict[int, Tile] = {}
        self.given, self.combined = frozenset(inputs), dict[str, Combined]()
        self.facts, self.bound_sums = ValueFacts(kernel), rounding.contracted
        self.places: dict[str, range] = {}  # where a loop is
        self.group: dict[str, range] = {}  # the places of ragged axes and of their index, of the group at hand
        self.visited: list[Tile] = []  # by which tiles a loop is
        self.tensors: dict[str, Tile] = {}
        self.results: dict[str, Tensor] = {}
        self.bounds: dict[str, Tensor] = {}
        for tensor in dict.fromkeys([*kernel.inputs, *kernel.outputs]):
            shape = [self.extents[d.name] for d in tensor.dims]
            if tensor.name in inputs:
                start = self.held(tensor, inputs[tensor.name], copy=tensor in kernel.outputs)
            elif tensor in kernel.inputs:
                raise ValueError(f"{tensor.name} is missing: the kernel reads it")
            else:
                start = self.empty(shape, kernel.starts.get(tensor.name))
            before = given.get(tensor.name)
            error = before.error.clone() if isinstance(before, Tile) and before.error is not None else None
            self.tensors[tensor.name] = Tile(tuple(d.name for d in tensor.dims), start, error)
            if tensor in kernel.outputs:
                self.results[tensor.name] = start.clone()
                self.bounds[tensor.name] = torch.zeros_like(start) if error is None else error.clone()

    def held(self, tensor: tensors.Tensor, memory: Tensor, copy: bool) -> Tensor:
        """The memory of a tensor as numbers; those of inputs stay as small as they are, and `load` widens them."""
        found = rounding.numbers(memory, tensor)
        if copy or tensor.dtype is DType.I32:
            return found.to(self.precision, copy=copy)
        return found if found.dtype in (torch.bfloat16, torch.float16, torch.float64) else found.float()

    def empty(self, shape: Sequence[int], start: float | None) -> Tensor:  # an output for which nothing is given
        return torch.full(tuple(shape), torch.nan if start is None else start, dtype=self.precision)

    def found(self) -> dict[str, Result]:  # what was stored
        return {
            t.name: Result(self.results[t.name], self.bounds[t.name], self.tensors[t.name]) for t in self.kernel.outputs
        }

    # ------------------------------------------------------------ operations

    def whole(self) -> None:
        """The kernel, group by group and slab by slab."""
        for _ in self.each_group():
            lengths = {a.name: self.length(a) for a in self.kernel.axes}
            for slab in slabs(self.kernel, lengths) if self.in_slabs else [{}]:
                self.slab = slab
                for op, last in zip(self.kernel.body, self.facts.last, strict=True):
                    self.body([op])
                    for number in last:  # nothing reads it any more: of large tensors it is much memory
                        self.values.pop(number, None)
        self.combine()

    def each_group(self) -> Iterator[None]:
        """Once for each group of ragged axes that has tiles, with its places at hand; once without such axes."""
        ragged = self.kernel.ragged
        if not ragged:
            yield
            return
        index = self.axes[next(a.within.of for a in ragged if a.within)]
        parts = {a: self.segments(a) for a in ragged}
        for g in range(self.extents[index.dim.name]):
            self.group = {index.name: range(g, g + 1)} | {a.name: part[g] for a, part in parts.items()}
            if all(self.group[a.name] for a in ragged if a.kind is AxisKind.PARALLEL):
                yield

    def segments(self, axis: Axis) -> list[range]:
        """The places of each group along a ragged axis."""
        assert axis.within is not None
        held = [int(x) for x in self.tensors[axis.within.offsets.name].value.tolist()]
        return parts_of(axis.within, held, self.extents[axis.dim.name])

    def body(self, ops: Sequence[Op]) -> None:
        for op in ops:
            if isinstance(op, Store):
                self.store(op)
            elif isinstance(op, Loop):
                self.loop(op)
            elif isinstance(op, When):
                self.when(op)
            else:
                self.values[op.result.number] = self.result(op)

    def get(self, value: Value) -> Tile:
        return self.values[value.number]

    def taken(self, value: Value) -> Tile:
        """The same of a number: a coordinate is rounded to one."""
        return self.as_number(self.get(value)) if value.kind is Kind.COORDINATE else self.get(value)

    def result(self, op: Op) -> Tile:
        match op:
            case equations.Load(source=source):
                return self.load(source)
            case equations.Constant(result=result, value=value):
                return self.integer(value) if result.kind is Kind.COORDINATE else self.number(rounding.f32(value))
            case equations.Argument(scalar=scalar):
                if scalar.name not in self.scalars:
                    raise ValueError(f"{scalar.name} is missing: the kernel takes it")
                return self.number(rounding.f32(self.scalars[scalar.name]))
            case equations.Coordinate(axis=axis):
                return self.coordinate(axis)
            case equations.Extent(axis=axis):
                return self.integer(self.length(axis))
            case Map():
                return self.map(op)
            case equations.Convert(result=result, argument=argument):
                return self.convert(self.taken(argument), result.dtype)
            case Reduce():
                return self.reduce(op)
            case Scan():
                return self.scan(op)
            case Sort():
                return self.sort(op)
            case Product():
                return self.product(op)
        raise AssertionError(op)

    def number(self, value: float) -> Tile:
        return Tile((), torch.tensor(value, dtype=self.precision))

    def map(self, op: Map) -> Tile:
        function = FUNCTIONS[op.function]
        whole = function.whole and all(a.kind is Kind.COORDINATE for a in op.arguments)
        arguments = [self.get(a) for a in op.arguments]
        if not whole and function.takes != "place":
            arguments = [self.taken(a) for a in op.arguments]
        dims, tiles = self.aligned(arguments)
        if whole:
            return Tile(dims, function.meaning(*(t.value for t in tiles)))
        return self.exact_differences(op, self.added_onto(op, self.mapped(op, dims, tiles)))

    def mapped(self, op: Map, dims: tuple[str, ...], tiles: Sequence[Tile]) -> Tile:
        least = [self.facts.least.get(a.number) for a in op.arguments]
        arguments = [(t.value, t.error) for t in tiles]
        return Tile(dims, *rounding.applied(FUNCTIONS[op.function], arguments, self.back_end, least))

    def apply(self, function: str, arguments: list[rounding.Bounded]) -> rounding.Bounded:
        return rounding.applied(FUNCTIONS[function], arguments, self.back_end)

    def as_number(self, tile: Tile) -> Tile:
        """A coordinate as f32."""
        return self.convert(tile, DType.F32)

    def exact_differences(self, op: Map, made: Tile) -> Tile:
        """a - max(a, b) is exactly zero wherever a is larger for certain: the same number stands on both sides."""
        pair = self.facts.maximum(op) if made.error is not None else None
        if made.error is None or pair is None:
            return made
        named, (left, right) = self.aligned([self.get(v) for v in pair])
        low = left.value if left.error is None else left.value - left.error
        high = right.value if right.error is None else right.value + right.error
        return Tile(made.dims, made.value, torch.where(along_dims(low >= high, named, made.dims), 0.0, made.error))

    def added_onto(self, op: Map, made: Tile) -> Tile:
        """A sum with products that matrix units add to the other addend, one partial sum after another."""
        for product, other in self.facts.added(op):
            made = self.onto(product, self.taken(other), made)
        return made

    def onto(self, op: Product, start: Tile, made: Tile) -> Tile:
        """`made` of a product and of the `start` of its sum: each partial sum is rounded together with that."""
        if (start.error is None and not start.value.any()) or op.left.dtype.whole:
            return made
        product, of_tile = self.get(op.result), op.axis.name in self.places or op.axis.kind is AxisKind.PARALLEL
        n = op.axis.tile or 1 if of_tile else self.length(op.axis)
        reach, unit = Tile((), self.number(0.0).value), 0.0
        if product.error is None:
            measured = copy(self)
            measured.bound_sums = rounding.partial_sums
            reach = measured.product(op)
            unit = rounding.unit(self.taken(op.left).value) * rounding.unit(self.taken(op.right).value)
        dims, (before, sums, whole) = self.aligned([start, reach, made])
        more = rounding.started((before.value, before.error), (sums.value, sums.error), n, unit)
        short = short_sums(self.back_end)
        if short and op.left.dtype.encoded and op.right.dtype.encoded:
            more = more + cut_off_start(before.value, before.error, n, short)
        more = torch.where(whole.value.isfinite(), more, 0.0)
        return Tile(dims, whole.value, more if whole.error is None else whole.error + more)

    def convert(self, tile: Tile, dtype: DType) -> Tile:
        return Tile(tile.dims, *rounding.converted(tile.value, tile.error, dtype))

    def reduce(self, op: Reduce) -> Tile:
        tile = self.along(self.taken(op.argument), op.axis)
        if op.axis.kind is AxisKind.PARALLEL and self.tiles(op.axis) > 1:
            tile = self.by_tile(tile, op.axis, {"sum": 0.0, "max": -torch.inf, "min": torch.inf}[op.function])
        at = tile.dims.index(op.axis.name)
        return Tile((*tile.dims[:at], *tile.dims[at + 1 :]), *self.gather(op.function, tile, at))

    def gather(self, function: str, tile: Tile, at: int) -> rounding.Bounded:
        return reduced(function, tile, at)

    def scan(self, op: Scan) -> Tile:
        tile = self.along(self.taken(op.argument), op.axis)
        return Tile(tile.dims, *self.run(op.function, tile, tile.dims.index(op.axis.name)))

    def run(self, function: str, tile: Tile, at: int) -> rounding.Bounded:
        return scans.scanned(function, tile.value, tile.error, at)

    def sort(self, op: Sort) -> Tile:
        tile = self.along(self.taken(op.argument), op.axis)
        at, count = tile.dims.index(op.axis.name), self.length(op.first) if op.first else 1
        value, error = self.ordered(op, tile, at, self.place(op.axis).start - self.first(op.axis))
        dims = tile.dims
        if op.first != op.axis:
            value = value.narrow(at, 0, count)
            error = None if error is None else error.narrow(at, 0, count)
            dims = (*tile.dims[:at], op.first.name if op.first else "", *tile.dims[at + 1 :])
        if op.first is not None:
            return Tile(dims, value, error)
        rest = (*dims[:at], *dims[at + 1 :])
        return Tile(rest, value.squeeze(at), None if error is None else error.squeeze(at))

    def ordered(self, op: Sort, tile: Tile, at: int, start: int) -> rounding.Bounded:
        """Values or positions in order along a direction; positions are counted from `start`."""
        return sorting.ordered(op, tile.value, tile.error, at, start)

    def product(self, op: Product) -> Tile:
        factors = [self.along(self.taken(v), op.axis) for v in (op.left, op.right)]
        if op.axis.kind is AxisKind.PARALLEL:  # each tile's own sum
            return self.contracted(op, [self.by_tile(f, op.axis, 0.0, "in tile") for f in factors], "in tile")
        if op.axis.part is not None and op.axis.name not in self.places:
            return self.in_parts(op, factors, self.axes[op.axis.part])
        return self.contracted(op, factors, op.axis.name)

    def in_parts(self, op: Product, factors: Sequence[Tile], index: Axis) -> Tile:
        """A product over each part of an axis: with a direction of parts."""
        size, found = self.length(op.axis), list[Tile]()
        run = op.axis.part_length(size, self.length(index))
        for place in range(self.length(index)):
            first = min(place * run, size)
            own = [cut(f, op.axis.name, first, min(first + run, size)) for f in factors]
            found.append(self.contracted(op, [cut(f, index.name, place, None) for f in own], op.axis.name))
        return stacked(index.name, found)

    def contracted(self, op: Product, factors: Sequence[Tile], summed: str) -> Tile:
        """The product of two factors over all of a direction that they have."""
        named = {d for f in factors for d in f.dims}
        left, right = (self.widened(f, named) for f in factors)
        dims = tuple(d for d in dict.fromkeys([*left.dims, *right.dims]) if d != summed)
        letters = dict(zip(dict.fromkeys([*left.dims, *right.dims]), ascii_letters, strict=False))
        texts = ("".join(letters[d] for d in group) for group in (left.dims, right.dims, dims))
        equation = "{},{}->{}".format(*texts)
        n = max(left.value.shape[left.dims.index(summed)], 1)
        return Tile(dims, *self.contract(left, right, (op.left.dtype, op.right.dtype), equation, n))

    def contract(self, a: Tile, b: Tile, dtypes: tuple[DType, DType], equation: str, n: int) -> rounding.Bounded:
        short = short_sums(self.back_end)
        return self.bound_sums((a.value, a.error), (b.value, b.error), dtypes, equation, n, short, self.flushed)

    # ------------------------------------------------------------ memory

    def load(self, access: Access) -> Tile:
        tile = self.tensors[access.tensor.name]
        value, dims = self.view(tile.value, access)
        error = None if tile.error is None else self.view(tile.error, access)[0]
        found = Tile(dims, self.widen(value), error)
        return self.convert(found, DType.F32) if access.tensor.dtype is DType.I32 else found  # f32 holds not all of it

    def widen(self, numbers: Tensor) -> Tensor:
        """Numbers of an input in the precision of the run."""
        return numbers.to(self.precision)

    def view(self, tensor: Tensor, access: Access) -> tuple[Tensor, tuple[str, ...]]:
        """The part of a tensor that is touched, and its directions."""
        if access.flattens:
            return self.joint(tensor, access)
        dims: list[str] = []
        for index in access.indices:
            at, axis = len(dims), index.axis
            if index.terms:
                places = self.affine(index)
                tensor = self.of_group(tensor, at, index)
                tensor = picked(tensor, at, places.value)
                dims += places.dims
                continue
            if axis is None:
                tensor = tensor.select(at, index.at)
                continue
            if index.through is not None:
                held, along = self.view(self.tensors[index.through.tensor.name].value, index.through)
                tensor = picked(tensor, at, held.long())
                dims += along
                continue
            place, one = self.place(axis), self.at(axis)
            if one is not None:
                tensor = tensor.select(at, one // index.divisor)
                continue
            if index.divisor == 1 or index.remainder:
                first = place.start % index.divisor if index.remainder else place.start
                tensor = tensor.narrow(at, first, len(place))
            elif axis.kind is AxisKind.SEQUENTIAL and index.of_tile:  # the number of the tile of this pass
                tensor = tensor.select(at, place.start // index.divisor)
                continue
            else:
                tensor = tensor.index_select(at, torch.arange(place.start, place.stop) // index.divisor)
            dims.append(axis.name)
        return tensor, tuple(dims)

    def store(self, op: Store) -> None:
        """Puts a tile where it belongs; tiles that the loop does not visit put nothing."""
        name, dtype = op.target.tensor.name, op.target.tensor.dtype
        tile = self.taken(op.value)
        if op.target.computed or op.target.flattens:
            return self.scatter(op, tile)
        places = [self.target(index, tile) for index in op.target.indices]
        dims = tuple(d for d, _ in places if d)
        tile = self.widened(tile, set(dims))
        if op.adds:
            tile = self.added(tile, dims)
        at = tuple(place for _, place in places)
        visited = [] if op.adds else [self.widened(v, set(dims)) for v in self.visited]
        if extra := {d for t in (tile, *visited) for d in t.dims} - set(dims):
            raise ValueError(f"several tiles along {', '.join(sorted(extra))} store {name} in one place")
        old = self.tensors[name]
        value = along_dims(tile.value, tile.dims, dims).expand(old.value[at].shape)
        error = None if tile.error is None else along_dims(tile.error, tile.dims, dims).expand(value.shape)
        if op.adds and (old.error is not None or bool(old.value[at].any())):
            before = None if old.error is None else old.error[at]
            value, error = self.apply("add", [(old.value[at], before), (value, error)])
        mask = torch.ones((), dtype=torch.bool)
        for v in visited:
            mask = mask & along_dims(v.value, v.dims, dims).bool()
        self.put(name, dtype, at, value, error, mask)

    def added(self, tile: Tile, dims: tuple[str, ...]) -> Tile:
        """The sum over all tiles that add to one place: those that the loop visits."""
        for visited in self.visited:
            tile = self.chosen(visited, tile, self.number(0.0))
        for d in [d for d in tile.dims if d not in dims]:
            at = tile.dims.index(d)
            tile = Tile((*tile.dims[:at], *tile.dims[at + 1 :]), *self.gather("sum", tile, at))
        return tile

    def target(self, index: equations.Index, tile: Tile) -> tuple[str, int | slice]:
        """The direction of a tile that goes along a dimension of its tensor ("" for none), and the places there."""
        axis = index.axis
        if axis is None:
            return "", index.at
        place, one = self.place(axis), self.at(axis)
        if one is not None:
            return "", one // index.divisor
        if index.divisor == 1:
            return axis.name, slice(place.start, place.stop)
        if axis.kind is AxisKind.SEQUENTIAL and index.of_tile:  # the number of the tile of this pass
            return "", place.start // index.divisor
        if index.divisor == axis.tile and axis.name not in tile.dims:  # one place for each tile
            first = (place.start - self.first(axis)) // axis.tile
            return f"{axis.name}#", slice(first, first + self.tiles(axis))
        raise ValueError(f"several elements along {axis.name} go to one place")

    def put(
        self, name: str, dtype: DType, at: tuple[int | slice | Tensor, ...], value: Tensor, error: Tensor | None,
        mask: Tensor,
    ) -> None:  # fmt: skip
        """Writes what is stored to memory as it is rounded, and to the results as it was before."""
        old = self.tensors[name]
        stored, off = rounding.converted(value, error, dtype)
        if off is not None or old.error is not None:
            errors = torch.zeros_like(old.value) if old.error is None else old.error
            new = torch.zeros_like(value) if off is None else off
            errors[at] = torch.where(mask, new, errors[at])
            self.tensors[name] = Tile(old.dims, old.value, errors)
        old.value[at] = torch.where(mask, stored, old.value[at])
        result, bound = self.results[name], self.bounds[name]
        bound[at] = torch.where(mask, rounding.stored(value, error, dtype), bound[at])
        result[at] = torch.where(mask, value, result[at])

    # ------------------------------------------------------------ conditions

    def when(self, op: When) -> None:
        """The body for all tiles, and of each value what was computed where a tile has an element that asks for it."""
        taken = self.any(op.condition)
        self.body(op.body)
        for c in op.chosen:
            dims, tiles = self.aligned([taken, self.taken(c.update), self.taken(c.otherwise)])
            self.values[c.result.number] = Tile(dims, *self.apply("where", [(t.value, t.error) for t in tiles]))

    def any(self, condition: Value) -> Tile:
        """Return whether a predicate is true of any element of each tile; uncertain where no
        element is certainly true.
        """
        tile = self.get(condition)
        for axis in condition.axes:
            tile = self.along(tile, axis)
            if axis.kind is AxisKind.PARALLEL and self.tiles(axis) > 1:
                tile = self.by_tile(tile, axis, False)
            at = tile.dims.index(axis.name)
            error = None
            if tile.error is not None:
                certain = (tile.value & (tile.error == 0)).any(at)
                error = torch.where(certain, 0.0, tile.error.amax(at))
            tile = Tile((*tile.dims[:at], *tile.dims[at + 1 :]), tile.value.any(at), error)
        return tile

    # ------------------------------------------------------------ loops

    def loop(self, op: Loop) -> None:
        if is_sums(op):  # one sum over the whole axis, whatever its order
            self.body([o for o in op.body if not adds_to_carry(o, op.carries)])
            for c in op.carries:
                self.values[c.result.number] = self.total(c, op)
            return
        for c in op.carries:
            self.values[c.inside.number] = self.taken(c.initial)
        step, first, length = op.axis.tile or 1, self.first(op.axis), self.length(op.axis)
        for start in range(0, length, step):
            visited = self.visits(op.axis, start)
            if visited is not None and not visited.value.any():
                continue
            self.places[op.axis.name] = range(first + start, first + min(start + step, length))
            self.visited += [visited] if visited else []
            self.body(op.body)
            new = [self.chosen(visited, self.taken(c.update), self.get(c.inside)) for c in op.carries]
            for c, tile in zip(op.carries, new, strict=True):
                self.values[c.inside.number] = tile
            if visited:
                self.visited.pop()
        self.places.pop(op.axis.name, None)
        for c in op.carries:
            self.values[c.result.number] = self.get(c.inside)

    def total(self, carry: Carry, op: Loop) -> Tile:
        """Return the total of a carry of a loop that only adds."""
        term = next(v for o in op.body if adds_to_carry(o, (carry,)) for v in reads(o) if v != carry.inside)
        initial, sums = self.taken(carry.initial), self.get(term)
        if not initial.dims and initial.error is None and not initial.value.any():
            return sums
        dims, (a, b) = self.aligned([initial, sums])
        made = Tile(dims, *self.apply("add", [(a.value, a.error), (b.value, b.error)]))
        product = self.facts.made[term.number]
        return self.onto(product, initial, made) if isinstance(product, Product) else made

    def chosen(self, visited: Tile | None, new: Tile, old: Tile) -> Tile:
        """The new one where the loop is, the old one elsewhere."""
        if visited is None:
            return new
        dims, (where, a, b) = self.aligned([visited, new, old])
        value = torch.where(where.value, a.value, b.value)
        if a.error is None and b.error is None:
            return Tile(dims, value)
        zero = torch.zeros((), dtype=self.precision)
        taken, kept = (zero if e is None else e for e in (a.error, b.error))
        return Tile(dims, value, torch.where(where.value, taken, kept))
