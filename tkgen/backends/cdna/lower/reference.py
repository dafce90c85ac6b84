"""References of generated checks, as text: the equations in torch and in C++.

Torch computes all elements at once, C++ one, both in f64. Next to each value is a bound on how far f32 arithmetic
may be from it: `apply` takes a function at the corners of what its arguments may be, and adds what
`tkgen.ir.functions` states; `reduced` adds the rounding of a sum. The sums of products are of exact inputs
(`tkgen.execute.compare`), so they have no error; where a kernel before has made a factor, they round
(`tkgen.ir.rounding.contracted`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite

from tkgen.backends.cdna.lower.elements import literal
from tkgen.backends.cdna.lower.reference_elements import (
    digit_text,
    directions,
    element,
    is_gathered,
    is_one_place,
    place_text,
)
from tkgen.backends.cdna.lower.reference_language import (
    HOST_TYPES,
    PACKED_FLOATS,
    TORCH_TYPES,
    Formula,
    Language,
    Names,
    Output,
    Reference,
)
from tkgen.ir.equation_text import affine_text
from tkgen.ir.equations import (
    Access,
    Argument,
    Axis,
    Constant,
    Convert,
    Coordinate,
    Digit,
    Extent,
    Index,
    Kernel,
    Kind,
    Load,
    Map,
    Op,
    Reduce,
    Scan,
    Sort,
    Value,
    reads,
    walk,
    writes,
)
from tkgen.ir.functions import FUNCTIONS, HOST, TORCH, Function, helpers
from tkgen.ir.integers import rounded_as_numbers
from tkgen.ir.products import Sum, Sums
from tkgen.ir.types import Dim, DType, Tensor

LETTERS = "abcdefghijklmnopqrstuvwxyz"
DEVIATIONS = 80.0  # `DEVIATIONS_SQUARED` of `tkgen.ir.rounding`, which needs torch
EXACT = "0.0, 0.0, 0.0"  # what a function is off that is not


def torch_reference(found: Sums | Kernel, exact: bool = True) -> Reference:
    """All elements at once: `tensors` and `scalars` are dictionaries, a value is a pair of numbers and bounds.

    `exact` says that sums of products do not round.
    """
    formula = Formula.of(found)
    say = _Torch(formula, variables(formula), exact)
    made = reference(say, _lines(say, set(formula.values)), TORCH)
    parts = [say.stored(s.target) for s in formula.stores]
    shaped = tuple(replace(o, index=i, shaped=s) for o, (i, s) in zip(made.outputs, parts, strict=True))
    return replace(made, outputs=shaped, extents=tuple(say.extent(a) for a in formula.order))


def host_reference(found: Sums | Kernel, exact: bool = True) -> Reference:
    """One element, whose place along each axis is the variable of `places`; `exact` as above."""
    formula = Formula.of(found)
    say = _Host(formula, variables(formula), exact, places(found))
    return reference(say, _lines(say, needed_by([s.value for s in formula.stores], formula)), HOST)


def places(found: Sums | Kernel) -> dict[str, str]:
    """The variable of the C++ check that is the place along each axis."""
    formula = Formula.of(found)
    order = [axis.name for axis in formula.order]
    named = {name: f"index_{number}" for number, name in enumerate(order[:-2])}
    named |= dict(zip(reversed(order[-2:]), ("col", "row"), strict=False))
    return named | ({} if formula.contraction is None else {formula.contraction.name: "k"})


def reference(say: Language, lines: Iterable[str], language: str) -> Reference:
    """The reference that these lines define, in `language`."""
    formula = say.formula
    outputs = tuple(
        Output(s.target.tensor.name, say.names[s.value.number], formula.label(s.target)) for s in formula.stores
    )
    functions = [op.function for op in walk(formula.body) if isinstance(op, Map)]
    return Reference(tuple(lines), outputs, helpers(functions, language))


def variables(formula: Formula) -> dict[int, str]:
    """The variable of each value."""
    return {v.number: f"{v.name or 't'}_{v.number}" for v in formula.values}


# ---------------------------------------------------------------- the walk


def _lines(say: Language, made: set[Value]) -> Iterator[str]:
    """Lines that define these values, in order."""
    for s in say.formula.sums:
        if s.result in made:
            yield from say.summed(s, say.names[s.result.number])
    for op in say.formula.body:
        for value in made.intersection(writes(op)):
            name = say.names[value.number]
            if isinstance(op, Reduce):
                yield from say.reduced(op, name)
            elif isinstance(op, Scan):
                yield from say.scanned(op, name)
            elif isinstance(op, Sort):
                yield from say.in_order(op, name)
            else:
                yield from say.before(op.source) if isinstance(op, Load) else ()
                yield say.defined(name, made_by(op, say))


def made_by(op: Op, say: Language) -> str:
    """The value that an operation makes."""
    given = [say.names[v.number] for v in reads(op)]
    function = FUNCTIONS[op.function] if isinstance(op, Map) else None
    places = function and function.whole and all(v.kind is Kind.COORDINATE for v in reads(op))
    if not (places or (function and function.takes == "place")):
        given = [_number(v, say) for v in reads(op)]
    match op:
        case Load(source=source):
            return say.certain(say.element(source))
        case Constant(result=result, value=value):
            return say.integer(int(value)) if result.kind is Kind.COORDINATE else say.constant(value)
        case Argument(scalar=scalar):
            return say.scalar(scalar.name)
        case Coordinate(axis=axis):
            return say.certain(say.coordinate(axis))
        case Extent(axis=axis):
            return say.certain(say.length(axis))
        case Convert(result=result):
            return say.called("a", say.rounded(result.dtype), EXACT, given)
        case Map(function=name):
            function = FUNCTIONS[name]
            off = EXACT if places else f"{function.ulps!r}, {function.growth!r}, {function.below!r}"
            return say.called(LETTERS[: len(given)], function, off, given)
    raise ValueError(f"{op} is no operation of a reference")


def _number(value: Value, say: Language) -> str:
    """A value as f32 has it: integers that it does not hold are rounded."""
    name = say.names[value.number]
    if value.kind is not Kind.COORDINATE or value.number not in rounded_as_numbers(walk(say.formula.body)):
        return name
    return say.called("a", say.rounded(DType.F32), EXACT, [name])


def needed_by(values: Iterable[Value], formula: Formula) -> set[Value]:
    """Values to compute for `values` at one position; of reductions only those that do not change along the axis."""
    found = set(values)
    for op in reversed(formula.body):
        if not found.intersection(writes(op)):
            continue
        if isinstance(op, Reduce | Scan | Sort):
            found |= {v for v in needed_by([op.argument], formula) if op.axis not in v.axes}
        else:
            found.update(reads(op))
    return found


def _run(formula: Formula) -> tuple[Axis, int, int] | None:
    """Parts of the contraction: the index of the parts, their number, and the elements of each."""
    axis = formula.contraction
    index = next((a for a in formula.batch if axis is not None and a.name == axis.part), None)
    if axis is None or index is None:
        return None
    assert axis.dim.size is not None and index.dim.size is not None  # `tkgen.ir.resolve.matrix` has seen to it
    return index, index.dim.size, axis.part_length(axis.dim.size, index.dim.size)


# ---------------------------------------------------------------- torch


class _Torch(Language):
    """Tensors with a direction for each axis of the order, of one place where nothing changes along it."""

    def defined(self, name: str, value: str) -> str:
        return f"{name} = {value}"

    def certain(self, number: str) -> str:
        return f"certain({number})"

    def constant(self, value: float) -> str:
        text = f"{float(value)!r}".replace("e+", "e")
        return f"number({text}, device)" if isfinite(value) else f'number(float("{text}"), device)'

    def integer(self, value: int) -> str:
        return self.certain(f"torch.tensor({float(value)!r}, dtype=torch.float64, device=device)")

    def scalar(self, name: str) -> str:
        return f'number(scalars["{name}"], device)'

    def element(self, source: Access) -> str:
        return self._aligned(source, "double")

    def _aligned(self, source: Access, kind: str) -> str:
        """The numbers of a tensor, with all directions from the first on that it has."""
        if is_gathered(source):
            return f"gathered({self._held(source.tensor)}.{kind}(), *picks)"
        axes = directions(source)
        order = [a for a in self.formula.order if a in axes]
        turned = "" if axes == order else f".permute({', '.join(str(axes.index(a)) for a in order)})"
        return f"{self._indexed(source)}.{kind}(){turned}{self._shaped(tuple(order))}"

    def before(self, source: Access) -> Iterator[str]:
        if is_gathered(source):
            yield from ("picks = [", *(f"    {self._picks(i)}," for i in source.indices), "]")

    def _picks(self, index: Index) -> str:
        """The places along a dimension of a tensor, with all directions from the first on that they have."""
        if index.through is not None:
            return self._aligned(index.through, "long")
        if index.terms:
            return affine_text([(self._term(term.of), term.factor) for term in index.terms], index.at)
        if index.axis is None:
            return str(index.at)
        divided = f" {'%' if index.remainder else '//'} {index.divisor}" if index.divisor != 1 else ""
        if is_one_place(index):
            return f"place_{index.axis.name}.start{divided}"
        return f"{self.along(index.axis)}{self._shaped((index.axis,))}{divided}"

    def _term(self, of: Axis | Digit | Dim) -> str:
        """The positions along an axis or a part of a flattened one, or the size of a dimension."""
        if isinstance(of, Digit):
            return digit_text(of, self._term(of.axis), "//")
        return f"{self.along(of)}{self._shaped((of,))}" if isinstance(of, Axis) else self.size(of)

    def size(self, dim: Dim) -> str:
        """The size of a dimension that some tensor has."""
        tensors = [access.tensor for access in self._accesses()]
        return next(f'tensors["{t.name}"].shape[{n}]' for t in tensors for n, d in enumerate(t.dims) if d == dim)

    def along(self, axis: Axis) -> str:
        """The places along an axis, in its dimension."""
        return f"torch.arange({self.extent(axis)}, device=device)"

    def coordinate(self, axis: Axis) -> str:
        return f"{self.along(axis)}.double(){self._shaped((axis,))}"

    def length(self, axis: Axis) -> str:
        return f"torch.tensor(float({self.extent(axis)}), dtype=torch.float64, device=device)"

    def rounded(self, dtype: DType) -> str:
        to = f"torch.{TORCH_TYPES[dtype]}"
        return f"held(a, {to})" if dtype.encoded or dtype.whole else f"a.to({to}).double()"

    def called(self, parameters: str, body: str | Function, off: str, given: Sequence[str]) -> str:
        text = body.torch.format(*parameters) if isinstance(body, Function) else body
        return f"apply(lambda {', '.join(parameters)}: {text}, {off}, {', '.join(given)})"

    def reduced(self, op: Reduce, name: str) -> Iterator[str]:
        dim = self.formula.order.index(op.axis) - len(self.formula.order)
        tile = "None" if op.axis.is_one_tile else str(op.axis.tile)
        yield f'{name} = reduced("{op.function}", {self.names[op.argument.number]}, {dim}, {tile})'

    def scanned(self, op: Scan, name: str) -> Iterator[str]:
        dim = self.formula.order.index(op.axis) - len(self.formula.order)
        yield f'{name} = scanned("{op.function}", {self.names[op.argument.number]}, {dim})'

    def in_order(self, op: Sort, name: str) -> Iterator[str]:
        order, first = self.formula.order, op.first or op.axis
        along, to = (order.index(a) - len(order) for a in (op.axis, first))
        count = "1" if op.first is None else "None" if first == op.axis else str(first.dim.size)
        given = f'"{op.function}", {self.names[op.argument.number]}, {along}, {to}, {count}, {op.descending}'
        yield f"{name} = in_order({given}, {self.start(op.axis)})"

    def start(self, axis: Axis) -> str:
        """The first position along an axis that values have."""
        return "0"

    def summed(self, s: Sum, name: str) -> Iterator[str]:
        order, contraction = self.formula.order, self.formula.contraction
        assert contraction is not None
        letters = dict(zip((a.name for a in (*order, contraction)), LETTERS, strict=False))
        sides, run = [], _run(self.formula)
        for side, access in (("left", s.left), ("right", s.right)):
            axes = [i.axis for i in access.indices if i.axis is not None]
            text = f"{side} = {self._indexed(access)}.{'float' if self.exact else 'double'}()"
            if run is not None:  # zeros up to whole parts, then a direction of parts
                index, parts, length = run
                axes = [*(a for a in axes if a != contraction), index, contraction]
                at = next(n for n, i in enumerate(x for x in access.indices if x.axis) if i.axis == contraction)
                beyond = f"{parts * length} - {side}.shape[-1]"
                yield f"{text}.movedim({at}, -1)"
                text = f"{side} = torch.nn.functional.pad({side}, (0, {beyond})).unflatten(-1, ({parts}, {length}))"
            yield text
            sides.append("".join(letters[a.name] for a in axes))
        equation = f'"{",".join(sides)}->{"".join(letters[a.name] for a in order)}"'
        if self.exact:
            yield f"{name} = certain(torch.einsum({equation}, left, right).double())"
        else:
            yield f"{name} = rounded({equation}, left, right, {self.extent(contraction) if run is None else run[2]})"

    def _shaped(self, axes: tuple[Axis, ...]) -> str:
        """An index that puts the directions of a tensor in their places among all."""
        every = self.formula.order
        inner = every[every.index(axes[0]) :] if axes else ()
        return "" if inner == axes else f"[{', '.join(':' if a in axes else 'None' for a in inner)}]"

    def _indexed(self, access: Access) -> str:
        """A tensor with a direction for each axis that an index names."""
        text, at = self._held(access.tensor), 0
        if access.tensor.dtype.bits == 8 and any(i.divisor != 1 for i in access.indices):
            text += ".double()"  # torch repeats no floats of 8 bits
        for index in access.indices:
            if index.axis is None or is_one_place(index):
                text += f".select({at}, {self._picks(index)})"
                continue
            if index.divisor != 1:
                size = self.extent(index.axis)
                text += f".repeat_interleave({index.divisor}, {at}).narrow({at}, 0, {size})"
            text += self.part(index.axis, at)
            at += 1
        return text

    def _held(self, tensor: Tensor) -> str:
        """The elements of a tensor."""
        text = f'tensors["{tensor.name}"]'
        if not tensor.dtype.packed:
            return text
        if tensor.dtype in PACKED_FLOATS:
            return f"packed_floats({text}, {', '.join(map(str, PACKED_FLOATS[tensor.dtype]))})"
        return f"unpacked({text}, {tensor.dtype.range[0] < 0}, {tensor.interleaved})"

    def part(self, axis: Axis, at: int) -> str:
        """An index of the positions along an axis that are compared, which is direction `at` of a tensor; all here."""
        return ""

    def extent(self, axis: Axis) -> str:
        """The extent of an axis: the size of some tensor that has a position for each."""
        for access in self._accesses():
            for at, i in enumerate(access.indices):
                packed = access.tensor.dtype.packed and at == len(access.indices) - 1
                if i.axis == axis and i.divisor == 1 and i.through is None and not i.numbered and not packed:
                    return f'tensors["{access.tensor.name}"].shape[{at}]'
        assert axis.dim.size is not None  # no argument says it: a launch would not know it
        return str(axis.dim.size)

    def _accesses(self) -> list[Access]:
        """The accesses of the formula, those of tensors that hold positions too."""
        found = [s.target for s in self.formula.stores] + [a for s in self.formula.sums for a in (s.left, s.right)]
        found += [op.source for op in walk(self.formula.body) if isinstance(op, Load)]
        return found + [i.through for a in found for i in a.indices if i.through is not None]

    def stored(self, target: Access) -> tuple[str, str]:
        """The index of the part of a tensor that is stored, and what brings a value with all directions to its form."""
        order = self.formula.order
        picks = [i.axis if i.axis is not None else i.at for i in target.indices]
        index = (
            ""
            if all(isinstance(p, Axis) for p in picks)
            else ", ".join(":" if isinstance(p, Axis) else str(p) for p in picks)
        )
        axes = [p for p in picks if isinstance(p, Axis)]
        if axes == list(order) and all(i.divisor == 1 for i in target.indices):
            return index, ""
        steps = {i.axis: i.divisor for i in target.indices if i.axis is not None}
        cut = ", ".join((f"::{steps[a]}" if steps[a] != 1 else ":") if a in steps else "0" for a in order)
        left = [a for a in order if a in steps]
        turned = "" if left == axes else f".permute({', '.join(str(left.index(a)) for a in axes)})"
        return index, f".expand(whole)[{cut}]{turned}"


# ---------------------------------------------------------------- C++


class _Host(Language):
    """Numbers at the place `at` along each axis."""

    def __init__(self, formula: Formula, names: Names, exact: bool, at: Mapping[str, str]):
        super().__init__(formula, names, exact)
        self.at = at

    def defined(self, name: str, value: str) -> str:
        return f"const number {name} = {value};"

    def certain(self, number: str) -> str:
        return f"{{{number}}}"

    def constant(self, value: float) -> str:
        return self.certain(literal(value))

    def integer(self, value: int) -> str:
        return self.certain(f"{float(value)!r}")

    def scalar(self, name: str) -> str:
        return self.certain(f"scalar_{name}")

    def element(self, source: Access) -> str:
        tensor, place = source.tensor, element(source, self.at)
        text = f"float(tensor_{tensor.name}.host[{place}])"
        if tensor.dtype in PACKED_FLOATS:
            form = ", ".join(map(str, PACKED_FLOATS[tensor.dtype]))
            text = f"packed_float<{form}>(tensor_{tensor.name}.host, {place})"
        elif tensor.dtype.packed:
            signed, mixed = (str(x).lower() for x in (tensor.dtype.range[0] < 0, tensor.interleaved))
            text = f"nibble<{signed}, {mixed}>(tensor_{tensor.name}.host, {place})"
        for dim, index in zip(source.tensor.dims, source.indices, strict=True):
            if index.through is not None or index.terms:
                text = f"(inside({self.reached(index, dim)}) ? {text} : 0.0f)"
        return text

    def reached(self, index: Index, dim: Dim) -> str:
        """A position, and the number of those that there are."""
        return f"{place_text(index, self.at)}, extent_{dim.name}"

    def coordinate(self, axis: Axis) -> str:
        return f"double({self.at[axis.name]})"

    def length(self, axis: Axis) -> str:
        return f"double(extent_{axis.dim.name})"

    def rounded(self, dtype: DType) -> str:
        if dtype.whole:
            return f"std::nearbyint(std::clamp(a, {-dtype.largest - 1}, {dtype.largest}))"
        return f"double(float({HOST_TYPES[dtype]}(float(a))))"

    def called(self, parameters: str, body: str | Function, off: str, given: Sequence[str]) -> str:
        text = body.cpp[HOST].format(*parameters) if isinstance(body, Function) else body
        taken = ", ".join(f"double {p}" for p in parameters)
        return f"apply([]({taken}) {{ return {text}; }}, {off}, {', '.join(given)})"

    def summed(self, s: Sum, name: str) -> Iterator[str]:
        contraction, run = self.formula.contraction, _run(self.formula)
        assert contraction is not None
        first, last = "0", f"extent_{contraction.dim.name}"
        if run is not None:
            first = f"{self.at[run[0].name]} * {run[2]}"
            last = f"std::min<int>({last}, ({self.at[run[0].name]} + 1) * {run[2]})"
        product = f"double({self.element(s.left)}) * {self.element(s.right)}"
        yield f"number {name}{{0.0}};"
        yield f"for (int k = {first}; k < {last}; ++k)"
        if self.exact:
            yield f"    {name}.value += {product};"
            return
        yield f"    rounded({name}, {product});"
        yield f"{name}.bound = {DEVIATIONS} * std::ldexp(std::sqrt(2.0 * ({last} - ({first})) * {name}.bound), -24);"

    def reduced(self, op: Reduce, name: str) -> Iterator[str]:
        """Lines of a reduction; values that change along the axis are computed anew at each position."""
        place, extent = self.at[op.axis.name], f"extent_{op.axis.dim.name}"
        first, last = "0", extent
        if not op.axis.is_one_tile:
            first = f"{place} / {op.axis.tile} * {op.axis.tile}"
            last = f"std::min({first} + {op.axis.tile}, {extent})"
        yield from self._folded(op, name, first, last)

    def scanned(self, op: Scan, name: str) -> Iterator[str]:
        """Lines of a scan at one position: a reduction of the positions up to it."""
        yield from self._folded(op, name, "0", f"{self.at[op.axis.name]} + 1")

    def in_order(self, op: Sort, name: str) -> Iterator[str]:
        """Lines of what is at one place of a sort."""
        first, last = "0", f"extent_{op.axis.dim.name}"
        place = "0" if op.first is None else self.at[op.first.name]
        call = f"in_order<'{op.function[0]}', {str(op.descending).lower()}>({first}, {last}, {place}"
        yield from self._of_positions(op, name, call)

    def _folded(self, op: Reduce | Scan, name: str, first: str, last: str) -> Iterator[str]:
        yield from self._of_positions(op, name, f"reduced<'{op.function[-1]}'>({first}, {last}")

    def _of_positions(self, op: Reduce | Scan | Sort, name: str, call: str) -> Iterator[str]:
        """A call with a function that computes the argument at a position, all that changes along the axis anew."""
        place = self.at[op.axis.name]
        yield f"const number {name} = {call}, [&](int {place}) {{"
        inside = {v for v in needed_by([op.argument], self.formula) if op.axis in v.axes}
        yield from (f"    {line}" for line in _lines(self, inside))
        yield f"    return {self.names[op.argument.number]};"
        yield "});"
