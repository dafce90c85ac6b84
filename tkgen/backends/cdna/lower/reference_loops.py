"""The references of kernels with loops: their equations tile by tile, in torch for all blocks at once, in C++ for one.

Both languages say the same: a value is numbers and bounds with a direction for each axis of the kernel, of one place
where nothing changes along it, so names broadcast by themselves. A loop is a loop. In torch a block that does not visit
a tile keeps what it carries; in C++ it goes on with the next one. A loop that only sums is one sum over all of it,
whose order is not the kernel's (`tkgen.ir.summing`). Sums that blocks add to (`T[q] += p @ K[j]`) are sums over all
blocks in torch; the C++ check loops over the blocks. Of ragged axes (`tkgen.ir.segments`) torch goes from group to
group, and a block of the C++ check is one of a group.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tkgen.backends.cdna.lower.elements import literal
from tkgen.backends.cdna.lower.reference import (
    EXACT,
    LETTERS,
    _Host,
    _Torch,
    made_by,
    reference,
    variables,
)
from tkgen.backends.cdna.lower.reference_elements import directions, is_gathered, place_text
from tkgen.backends.cdna.lower.reference_language import Formula, Language, Reference
from tkgen.ir.equations import (
    Access,
    Axis,
    AxisKind,
    Carry,
    Index,
    Kernel,
    Load,
    Loop,
    Map,
    Op,
    Product,
    Reduce,
    Scan,
    Sort,
    Store,
    Update,
    Value,
    When,
    reads,
    walk,
    writes,
)
from tkgen.ir.functions import FUNCTIONS, HOST, TORCH, Function
from tkgen.ir.summing import adds_to_carry, is_sums
from tkgen.ir.tensors import Dim


def has_loops(kernel: Kernel) -> bool:
    """Return True if a kernel needs these references."""
    scattered = any(store.target.computed for store in kernel.stores)
    return scattered or bool(kernel.ragged) or any(isinstance(op, Loop | When | Product) for op in kernel.body)


def some_store(kernel: Kernel) -> frozenset[str]:
    """The tensors of which a launch may leave elements as they were."""
    left = frozenset(s.target.tensor.name for s in kernel.stores if s.target.computed and s.update is Update.SET)
    if kernel.ragged:
        return left | {s.target.tensor.name for s in kernel.stores if not s.combines}
    loops = [op for op in walk(kernel.body) if isinstance(op, Loop) and (op.axis.bounds or op.axis.part is not None)]
    stores = (op for loop in loops for op in walk(loop.body) if isinstance(op, Store))
    return left | {s.target.tensor.name for s in stores if s.update is Update.SET}  # what is added to begins at zero


def added_over(kernel: Kernel) -> Axis | None:
    """The axis of the blocks that add to one place, where such are in a loop."""
    return next((op.axis for op in walk(kernel.body) if isinstance(op, Product) and sums_tiles(op)), None)


def sums_tiles(op: Product) -> bool:
    """Return True if each block sums over its own tile, and what all find is added."""
    return op.axis.kind is AxisKind.PARALLEL and not op.axis.is_one_tile


def torch_loops(kernel: Kernel) -> Reference:
    """All blocks at once: `tensors` and `scalars` are dictionaries, each output a pair of numbers and bounds."""
    formula = Formula.of(kernel)
    say = _TorchLoops(formula, _variables(formula), exact=False)
    made = reference(say, _body(say, kernel.body), TORCH)
    parts = [("", "") if s.target.computed else say.stored(s.target) for s in formula.stores]
    text = "\n".join(made.lines)
    sizes = [f"size_{a.name} = {_Torch.extent(say, a)}"
             for a in formula.order if f"size_{a.name}" in text and a not in say.grouped]  # fmt: skip
    found, totals = ["found = {}"], list[str]()
    for store, output, (index, _) in zip(formula.stores, made.outputs, parts, strict=True):
        if store.combines:
            held = f'found["{output.label}"]'
            found.append(f'{held} = combined(tensors["{output.tensor}"], "{store.update.name.lower()}")')
            totals += [f"{held} = total({held})"] * store.adds
            continue
        whole = f'tensors["{output.tensor}"]' + (f"[{index}]" if index else "")
        whole = f"torch.zeros_like({whole})" if store.adds else whole
        found.append(f'found["{output.label}"] = unknown({whole})')
    outputs = tuple(replace(o, index=index) for o, (index, _) in zip(made.outputs, parts, strict=True))
    lines = (*sizes, *dict.fromkeys(found), *say.by_group(made.lines), *dict.fromkeys(totals))
    return replace(made, lines=lines, outputs=tuple({o.label: o for o in outputs}.values()))


def host_loops(kernel: Kernel) -> Reference:
    """One block, whose place and tile along each axis `here` knows."""
    formula = Formula.of(kernel)
    say = _HostLoops(formula, _variables(formula), False, loop_places(kernel))
    made = reference(say, _body(say, kernel.body), HOST)
    return replace(made, outputs=tuple({o.label: o for o in made.outputs}.values()))


def loop_places(kernel: Kernel) -> dict[str, str]:
    """The position along each axis at which a value of a block is computed or compared."""
    return {axis.name: f"at[{number}]" for number, axis in enumerate(kernel.axes)}


def reached(kernel: Kernel, target: Access) -> str:
    """A condition of the C++ check: that the computed positions of an access are in the tensor."""
    say = _HostLoops(Formula.of(kernel), {}, False, loop_places(kernel))
    pairs = zip(target.indices, target.tensor.dims, strict=True)
    return " && ".join(f"inside({say.reached(i, d)})" for i, d in pairs if i.through is not None or i.terms)


def _variables(formula: Formula) -> dict[int, str]:
    """The variable of each value: what a loop carries has one, within the loop and after it."""
    names = variables(formula)
    for op in walk(formula.body):
        for c in op.carries if isinstance(op, Loop) else ():
            names[c.inside.number] = names[c.result.number]
    return names


# ---------------------------------------------------------------- the walk


class _Loops(Language):
    """Syntax of loops in the languages."""

    def place(self, axis: Axis) -> int:
        """The direction of an axis."""
        return self.formula.order.index(axis)

    @property
    def ragged(self) -> list[Axis]:
        """The axes of which each group has a part."""
        return [a for a in self.formula.order if a.within is not None]

    @abstractmethod
    def spread(self, carry: Carry) -> str:
        """A line that defines what is carried by what it is before the first iteration, along all of its directions."""

    @abstractmethod
    def whole(self, axis: Axis) -> str:
        """A line that makes all of an axis the compared part."""

    @abstractmethod
    def passes(self, op: Loop, body: Iterable[str]) -> Iterator[str]:
        """A loop with this body, which hands on what it carries."""

    @abstractmethod
    def multiplied(self, op: Product) -> str:
        """A product."""

    @abstractmethod
    def any_of(self, condition: Value) -> str:
        """An expression that is true if a predicate holds anywhere in a tile."""

    @abstractmethod
    def put(self, op: Store) -> Iterator[str]:
        """Lines that keep or compare what is stored."""

    @abstractmethod
    def _shorter(self, axis: Axis, of: Axis) -> str:
        """Difference between positions of two axes that are equally far from the ends."""

    def bounds(self, axis: Axis, start: str) -> Iterator[tuple[Axis, tuple[str, str], str]]:
        """Axes that bound a loop, how their tiles begin where it is not and where it is at `start`, and the place."""
        tile = axis.tile or 1
        for bound, signs in ((axis.since, (">", "<=")), (axis.until, ("<", ">="))):
            if bound is not None:
                of = next(a for a in self.formula.order if a.name == bound.axis)
                place = start + self._shorter(axis, of) * bound.aligned
                by = tile - 1 - bound.moved if bound is axis.since else 1 - (of.tile or 1) - bound.moved
                yield of, signs, _moved(place, by)

    def loaded(self, op: Load, name: str) -> Iterator[str]:
        """Lines that define what is read of a tensor."""
        yield self.defined(name, made_by(op, self))

    def chosen(self, condition: str, update: Value, otherwise: Value) -> str:
        """One of two values."""
        return self.function("where", [condition, self.names[update.number], self.names[otherwise.number]])

    def function(self, name: str, given: Sequence[str]) -> str:
        """A function of variables."""
        function = FUNCTIONS[name]
        off = f"{function.ulps!r}, {function.growth!r}, {function.below!r}"
        return self.called(LETTERS[: len(given)], function, off, given)


def _body(say: _Loops, ops: Iterable[Op]) -> Iterator[str]:
    """Lines that execute operations, in order."""
    for op in ops:
        if isinstance(op, Store):
            yield from say.put(op)
        elif isinstance(op, Loop):
            yield from _sums(say, op) if is_sums(op) and op.axis.part is None else _loop(say, op)
        elif isinstance(op, When):
            condition = f"taken_{op.condition.number}"
            yield say.defined(condition, say.any_of(op.condition))
            yield from _body(say, op.body)
            for c in op.chosen:
                yield say.defined(say.names[c.result.number], say.chosen(condition, c.update, c.otherwise))
        elif isinstance(op, Reduce):
            yield from say.reduced(op, say.names[op.result.number])
        elif isinstance(op, Scan):
            yield from say.scanned(op, say.names[op.result.number])
        elif isinstance(op, Sort):
            yield from say.in_order(op, say.names[op.result.number])
        elif isinstance(op, Load):
            yield from say.loaded(op, say.names[op.result.number])
        else:
            name = say.names[op.result.number]
            yield say.defined(name, say.multiplied(op) if isinstance(op, Product) else _simple(say, op))


def _simple(say: _Loops, op: Op) -> str:
    """An operation of elements; a - max(a, b) is exactly zero wherever a is larger for certain."""
    text = made_by(op, say)
    if isinstance(op, Map) and op.function == "sub":
        a, larger = op.arguments
        made = next((o for o in walk(say.formula.body) if larger in writes(o)), None)
        if isinstance(made, Map) and made.function == "max" and a in made.arguments:
            b = made.arguments[1 - made.arguments.index(a)]
            return f"unmoved({say.names[a.number]}, {say.names[b.number]}, {text})"
    return text


def _sums(say: _Loops, op: Loop) -> Iterator[str]:
    """One sum over all of the loop's axis, for each that it carries."""
    yield say.whole(op.axis)
    yield from _body(say, [o for o in op.body if not adds_to_carry(o, op.carries)])
    for c in op.carries:
        add = next(o for o in op.body if adds_to_carry(o, (c,)))
        given = [say.names[(c.initial if v == c.inside else v).number] for v in reads(add)]
        yield say.defined(say.names[c.result.number], say.function("add", given))


def _loop(say: _Loops, op: Loop) -> Iterator[str]:
    yield from (say.spread(c) for c in op.carries)
    yield from say.passes(op, _body(say, op.body))


# ---------------------------------------------------------------- torch


class _TorchLoops(_Torch, _Loops):
    """Tensors; `place_j` is the part of axis j that its loop is at, or that the group at hand has."""

    some: tuple[str, ...] = ()  # by which tiles the loops at hand are, where not by all

    @property
    def grouped(self) -> list[Axis]:
        """The ragged axes and the index of their groups."""
        indices = {a.within.of for a in self.ragged if a.within}
        return [a for a in self.formula.order if a.within or a.name in indices]

    def by_group(self, lines: Sequence[str]) -> Iterator[str]:
        """These lines for each group, where there are ragged axes."""
        if not self.ragged:
            yield from lines
            return
        within = {axis: axis.within for axis in self.ragged if axis.within is not None}
        for axis, of in within.items():
            what = "lengths" if of.lengths else "segments"
            yield f'groups_{axis.name} = {what}(tensors["{of.offsets.name}"], {_Torch.extent(self, axis)})'
        first = self.ragged[0]
        yield f"for group in range(len(groups_{first.name})):"
        if any(f"place_{within[first].of}" in line for line in lines):
            yield f"    place_{within[first].of} = slice(group, group + 1)"
        for axis in self.ragged:
            name = axis.name
            yield f"    first_{name}, last_{name} = groups_{name}[group]"
            yield f"    place_{name} = slice(first_{name}, last_{name})"
            if any(f"size_{name}" in line for line in lines):
                yield f"    size_{name} = last_{name} - first_{name}"
            if axis.kind is AxisKind.PARALLEL:
                yield f"    if first_{name} == last_{name}:"
                yield "        continue"
        yield from (f"    {line}" for line in lines)

    def part(self, axis: Axis, at: int) -> str:
        return f"[{':, ' * at}place_{axis.name}]" if self._walks(axis) else ""

    def _walks(self, axis: Axis) -> bool:
        return axis.kind is AxisKind.SEQUENTIAL or axis in self.grouped

    def extent(self, axis: Axis) -> str:
        return f"size_{axis.name}"

    def along(self, axis: Axis) -> str:
        if not self._walks(axis):
            return super().along(axis)
        place = f"place_{axis.name}"
        return f"torch.arange({place}.start, {place}.stop, device=device)"

    def _picks(self, index: Index) -> str:
        picked = super()._picks(index)
        if (axis := index.shifted) is None:
            return picked
        return f"in_group({picked}, first_{axis.name}, last_{axis.name})"

    def coordinate(self, axis: Axis) -> str:
        first = f" - first_{axis.name}" if axis.within else ""
        return f"({self.along(axis)}{first}).double(){self._shaped((axis,))}"

    def spread(self, carry: Carry) -> str:
        axes = carry.inside.axes
        walked = {a for a in axes if a.kind is AxisKind.SEQUENTIAL}
        sizes = [self.extent(a) if a in axes and a not in walked else "1" for a in self.formula.order]
        initial = self.names[carry.initial.number]
        return self.defined(self.names[carry.inside.number], f"spread({initial}, {', '.join(sizes)})")

    def whole(self, axis: Axis) -> str:
        first, last = (f"first_{axis.name}", f"last_{axis.name}") if axis.within else ("0", self.extent(axis))
        return f"place_{axis.name} = slice({first}, {last})"

    def passes(self, op: Loop, body: Iterable[str]) -> Iterator[str]:
        axis, step = op.axis, op.axis.tile or 1
        start, visited = f"start_{axis.name}", f"visited_{axis.name}"
        some, first = list(self._visits(axis, start)), f"first_{axis.name} + " if axis.within else ""
        for of in dict.fromkeys(b.axis for b in axis.bounds):
            yield f"begin_{of} = {self._begin(of)}"
        if axis.part is not None:
            _, run = _parts(self.formula, axis, self.extent(axis), "//")
            yield f"run_{axis.name} = {run.removeprefix('(').removesuffix(')')}"
        yield f"for {start} in range(0, {self.extent(axis)}, {step}):"
        yield f"    place_{axis.name} = slice({first}{start}, {first}min({start} + {step}, {self.extent(axis)}))"
        if some:
            yield f"    {visited} = certain({some[0] if len(some) == 1 else ' & '.join(f'({each})' for each in some)})"
            yield f"    if not {visited}[0].any():"
            yield "        continue"
            self.some = (*self.some, visited)
        yield from (f"    {line}" for line in body)
        if some:
            self.some = self.some[:-1]
        carries = [c for c in op.carries if c.update != c.inside]
        new = [self.names[c.update.number] for c in carries]
        if some:
            new = [f"next_{self.names[c.inside.number]}" for c in carries]
            for name, c in zip(new, carries, strict=True):
                yield f"    {self.defined(name, self.chosen(visited, c.update, c.inside))}"
        if carries:
            yield f"    {', '.join(self.names[c.inside.number] for c in carries)} = {', '.join(new)}"

    def _shorter(self, axis: Axis, of: Axis) -> str:
        return f" + {self.extent(of)} - {self.extent(axis)}"

    def _begin(self, name: str) -> str:
        """The first place of the tile that each place of an axis is in."""
        axis = next(a for a in self.formula.order if a.name == name)
        every = f"torch.arange({self.extent(axis)}, device=device)"
        shape = self._shaped((axis,))
        return f"({every} // {axis.tile} * {axis.tile}){shape}" if (axis.tile or 1) > 1 else every + shape

    def _visits(self, axis: Axis, start: str) -> Iterator[str]:
        """Of which blocks a loop is at `start`."""
        for of, (_, holds), place in self.bounds(axis, start):
            yield f"begin_{of.name} {holds} {place}"
        if axis.part is not None:
            index, _ = _parts(self.formula, axis, self.extent(axis), "//")
            yield f"{self._begin(index.name)} == {start} // run_{axis.name}"

    def loaded(self, op: Load, name: str) -> Iterator[str]:
        form = self.element(op.source)
        yield from self.before(op.source)
        part = "" if is_gathered(op.source) else self._indexed(op.source)
        form = form.removeprefix(part)
        if part and any(i.divisor != 1 for i in op.source.indices):  # a line of its own
            yield f"{name} = {part}"
            part = name
        yield self.defined(name, self.certain(part + form))

    def multiplied(self, op: Product) -> str:
        left, right = (self.names[v.number] for v in (op.left, op.right))
        for visited in self.some if sums_tiles(op) else ():  # other blocks add nothing
            left = f"only({visited}, {left})"
        return f"product({left}, {right}, {self.place(op.axis) - len(self.formula.order)})"

    def any_of(self, condition: Value) -> str:
        ways = []
        for axis in condition.axes:
            one = axis.kind is AxisKind.SEQUENTIAL or axis.is_one_tile
            ways.append(f"({self.place(axis) - len(self.formula.order)}, {None if one else axis.tile})")
        return f"any_of({', '.join([self.names[condition.number], *ways])})"

    def reduced(self, op: Reduce, name: str) -> Iterator[str]:
        if op.axis.kind is not AxisKind.SEQUENTIAL:
            yield from super().reduced(op, name)
            return
        dim = self.place(op.axis) - len(self.formula.order)
        yield f'{name} = reduced("{op.function}", {self.names[op.argument.number]}, {dim}, None)'

    def scanned(self, op: Scan, name: str) -> Iterator[str]:
        dim = self.place(op.axis) - len(self.formula.order)
        yield f'{name} = scanned("{op.function}", {self.names[op.argument.number]}, {dim})'

    def start(self, axis: Axis) -> str:
        first = f" - first_{axis.name}" if axis.within else ""
        return f"place_{axis.name}.start{first}" if self._walks(axis) else "0"

    def put(self, op: Store) -> Iterator[str]:
        label = self.formula.label(op.target)
        if op.target.computed:
            yield from self._scattered(op, label)
            return
        picks = [i for i in op.target.indices if i.axis is not None]
        places = [self._at(i.axis, i.divisor) for i in picks if i.axis is not None]
        steps = {i.axis: i.divisor for i in picks}
        order = self.formula.order
        cut = ", ".join((f"::{steps[a]}" if steps[a] != 1 else ":") if a in steps else "0" for a in order)
        left, axes = [a for a in order if a in steps], [i.axis for i in picks]
        turned = "" if left == axes else f".permute({', '.join(str(left.index(a)) for a in axes if a)})"
        at, form = f"kept[{', '.join(places) or '...'}]", f"[{cut}]{turned}"
        yield f'for kept, new in zip(found["{label}"], full({self.names[op.value.number]}, {len(order)}), strict=True):'
        new = f"new{form}"
        for visited in () if op.adds else self.some:
            new = f"torch.where(full({visited}, {len(order)})[0]{form}, {new}, {at})"
        yield f"    {at} = {new}"

    def _scattered(self, op: Store, label: str) -> Iterator[str]:
        """Lines that store to computed positions, or combine values there."""
        order, along, dtype = self.formula.order, directions(op.target), op.target.tensor.dtype
        steps = {i.axis: i.divisor for i in op.target.indices if i.axis is not None and i.through is None}
        cut = ", ".join((":" if steps.get(a, 1) == 1 else f"::{steps[a]}") if a in along else ":1" for a in order)
        yield from ("picks = [", *(f"    {self._picks(i)}," for i in op.target.indices), "]")
        yield from (f"picks[0] = torch.where({visited}[0], picks[0], -1)" for visited in self.some)
        value = self.names[op.value.number]
        if dtype.whole:
            value = self.called("a", self.rounded(dtype), EXACT, [value])
        new = f"full({value}, {len(order)})"
        yield f'scattered(found["{label}"], "{op.update.name.lower()}", {new}, lambda a: a[{cut}], *picks)'

    def _at(self, axis: Axis, divisor: int) -> str:
        if not self._walks(axis):
            return ":"
        place = f"place_{axis.name}"
        if divisor == 1:
            return place
        start = f"start_{axis.name}"
        return f"{start} // {divisor} : ({start} + {axis.tile or 1} - 1) // {divisor} + 1"


def _moved(place: str, by: int) -> str:
    return f"{place} {'-' if by < 0 else '+'} {abs(by)}" if by else place


def _parts(formula: Formula, axis: Axis, extent: str, over: str) -> tuple[Axis, str]:
    """The index of the parts of a loop, and elements of each, by the language's whole division."""
    index = next(a for a in formula.order if a.name == axis.part)
    parts, tile = index.dim.size, axis.tile or 1
    assert parts is not None  # typing and schedules refuse others
    if axis.dim.size is not None and axis.within is None:
        return index, str(axis.part_length(axis.dim.size, parts))
    return index, f"({_up(_up(extent, tile, over), parts, over)} * {tile})"


def _up(number: str, by: int, over: str) -> str:
    return f"(({number} + {by - 1}) {over} {by})"


# ---------------------------------------------------------------- C++


class _HostLoops(_Host, _Loops):
    """Grids of a block: numbers with a direction for each axis."""

    def defined(self, name: str, value: str) -> str:
        return f"const grid {name} = {value};"

    def certain(self, number: str) -> str:
        return number

    def constant(self, value: float) -> str:
        return f"uniform({literal(value)})"

    def integer(self, value: int) -> str:
        return f"uniform({float(value)!r})"

    def scalar(self, name: str) -> str:
        return f"uniform(scalar_{name})"

    def element(self, source: Access) -> str:
        return self._made(directions(source), super().element(source))

    def reached(self, index: Index, dim: Dim) -> str:
        if (axis := index.shifted) is None:
            return super().reached(index, dim)
        return f"{place_text(index, self.at)} - {self._first(axis)}, {self._extent(axis)}"

    def coordinate(self, axis: Axis) -> str:
        first = f" - {self._first(axis)}" if axis.within else ""
        return self._made([axis], f"double({self.at[axis.name]}{first})")

    def length(self, axis: Axis) -> str:
        return f"uniform({self._extent(axis)})"

    def _first(self, axis: Axis) -> str:
        """The place from which those of an axis are counted."""
        return f"group_{self.place(axis)}.first" if axis.within else "0"

    def _extent(self, axis: Axis) -> str:
        return f"group_{self.place(axis)}.size()" if axis.within else f"extent_{axis.dim.name}"

    def _begin(self, axis: Axis) -> str:
        """The start of a block's tile."""
        first = f"here.first[{self.place(axis)}]"
        return f"({first} - {self._first(axis)})" if axis.within else first

    def _made(self, axes: Sequence[Axis], text: str) -> str:
        unused = "" if "at[" in text else "[[maybe_unused]] "
        return f"made(here, {self._set(axes)}, [&]({unused}const places &at) {{ return {text}; }})"

    def _set(self, axes: Iterable[Axis]) -> str:
        return f"{{{', '.join(str(self.place(a)) for a in axes)}}}"

    def called(self, parameters: str, body: str | Function, off: str, given: Sequence[str]) -> str:
        return "mapped" + super().called(parameters, body, off, given).removeprefix("apply")

    def reduced(self, op: Reduce, name: str) -> Iterator[str]:
        letter = op.function[-1]
        yield self.defined(name, f"folded<'{letter}'>({self.names[op.argument.number]}, {self.place(op.axis)})")

    def scanned(self, op: Scan, name: str) -> Iterator[str]:
        letter = op.function[-1]
        yield self.defined(name, f"running<'{letter}'>({self.names[op.argument.number]}, {self.place(op.axis)})")

    def in_order(self, op: Sort, name: str) -> Iterator[str]:
        count = "1" if op.first is None else "0" if op.first == op.axis else str(op.first.dim.size)
        along, to = self.place(op.axis), self.place(op.first or op.axis)
        call = f"in_order<'{op.function[0]}', {str(op.descending).lower()}>"
        start = self._begin(op.axis) if op.axis.kind is AxisKind.SEQUENTIAL else "0"
        given = f"{self.names[op.argument.number]}, {along}, {to}, {count}, {start}"
        yield self.defined(name, f"{call}({given})")

    def spread(self, carry: Carry) -> str:
        axes = self._set(carry.inside.axes)
        return f"grid {self.names[carry.inside.number]} = spread(here, {axes}, {self.names[carry.initial.number]});"

    def whole(self, axis: Axis) -> str:
        return f"here.walk({self.place(axis)}, {self._first(axis)}, {self._extent(axis)});"

    def passes(self, op: Loop, body: Iterable[str]) -> Iterator[str]:
        axis, step, extent = op.axis, op.axis.tile or 1, self._extent(op.axis)
        start = f"start_{axis.name}"
        place = f"{self._first(axis)} + {start}" if axis.within else start
        yield f"for (int {start} = 0; {start} < {extent}; {start} += {step}) {{"
        yield f"    here.walk({self.place(axis)}, {place}, std::min({step}, {extent} - {start}));"
        if some := list(self._leaves(axis, start)):
            yield f"    if ({' || '.join(some)}) {{"
            for inner in op.body:
                if isinstance(inner, Store):
                    yield f"        left(here, {self._stored(inner)}, left_{self.formula.stores.index(inner)});"
            yield "        continue;"
            yield "    }"
        yield from (f"    {line}" for line in body)
        if op.carries:
            inside, update = (
                ", ".join(self.names[v.number] for v in values)
                for values in ([c.inside for c in op.carries], [c.update for c in op.carries])
            )
            yield f"    std::tie({inside}) = std::tuple({update});"
        yield "}"

    def _shorter(self, axis: Axis, of: Axis) -> str:
        return f" + {self._extent(of)} - {self._extent(axis)}"

    def _leaves(self, axis: Axis, start: str) -> Iterator[str]:
        """Conditions under which a block does not visit the tile at `start`."""
        for of, (fails, _), place in self.bounds(axis, start):
            yield f"{self._begin(of)} {fails} {place}"
        if axis.part is not None:
            index, run = _parts(self.formula, axis, self._extent(axis), "/")
            yield f"{self._begin(index)} != {start} / {run}"

    def multiplied(self, op: Product) -> str:
        left, right = (self.names[v.number] for v in (op.left, op.right))
        return f"product({left}, {right}, {self.place(op.axis)})"

    def any_of(self, condition: Value) -> str:
        return f"any_of({self.names[condition.number]})"

    def put(self, op: Store) -> Iterator[str]:
        value, dtype = self.names[op.value.number], op.target.tensor.dtype
        if op.target.computed and dtype.whole:
            value = self.called("a", self.rounded(dtype), EXACT, [value])
        yield f"stored(here, {self._stored(op)}, {value}, output_{self.formula.stores.index(op)});"

    def _stored(self, op: Store) -> str:
        """The directions along which a store has places."""
        if op.target.computed:
            held = [a for i in op.target.indices if i.through is not None for a in directions(i.through)]
            found = [a for i in op.target.indices if i.through is None and i.divisor == 1 for a in i.axes]
            return self._set(dict.fromkeys(a for a in (*found, *held) if a in self.formula.order))
        return self._set(i.axis for i in op.target.indices if i.axis is not None and i.divisor == 1)
