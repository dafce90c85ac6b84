"""The references of kernels with loops in torch: all blocks at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tkgen.backends.cdna.lower.reference import EXACT, _Torch, reference
from tkgen.backends.cdna.lower.reference_elements import directions, is_gathered
from tkgen.backends.cdna.lower.reference_language import Formula, Reference
from tkgen.backends.cdna.lower.reference_loops import Loops, body, loop_parts, loop_variables, sums_tiles
from tkgen.ir.equations import Axis, AxisKind, Carry, Index, Kernel, Load, Loop, Product, Reduce, Scan, Store, Value
from tkgen.ir.functions import TORCH


def torch_loops(kernel: Kernel) -> Reference:
    """All blocks at once: `tensors` and `scalars` are dictionaries, each output a pair of numbers and bounds."""
    formula = Formula.of(kernel)
    say = _TorchLoops(formula, loop_variables(formula), exact=False)
    made = reference(say, body(say, kernel.body), TORCH)
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


class _TorchLoops(_Torch, Loops):
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
            _, run = loop_parts(self.formula, axis, self.extent(axis), "//")
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
            index, _ = loop_parts(self.formula, axis, self.extent(axis), "//")
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
