"""The references of kernels with loops in the C++ check: one block, tile by tile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tkgen.backends.cdna.lower.elements import literal
from tkgen.backends.cdna.lower.reference import EXACT, _Host, reference
from tkgen.backends.cdna.lower.reference_elements import directions, place_text
from tkgen.backends.cdna.lower.reference_language import Formula, Reference
from tkgen.backends.cdna.lower.reference_loops import Loops, body, loop_parts, loop_variables
from tkgen.ir.equations import (
    Access,
    Axis,
    AxisKind,
    Carry,
    Index,
    Kernel,
    Loop,
    Product,
    Reduce,
    Scan,
    Sort,
    Store,
    Value,
)
from tkgen.ir.functions import HOST, Function
from tkgen.ir.tensors import Dim


def host_loops(kernel: Kernel) -> Reference:
    """One block, whose place and tile along each axis `here` knows."""
    formula = Formula.of(kernel)
    say = _HostLoops(formula, loop_variables(formula), False, loop_places(kernel))
    made = reference(say, body(say, kernel.body), HOST)
    return replace(made, outputs=tuple({o.label: o for o in made.outputs}.values()))


def loop_places(kernel: Kernel) -> dict[str, str]:
    """The position along each axis at which a value of a block is computed or compared."""
    return {axis.name: f"at[{number}]" for number, axis in enumerate(kernel.axes)}


def reached(kernel: Kernel, target: Access) -> str:
    """A condition of the C++ check: that the computed positions of an access are in the tensor."""
    say = _HostLoops(Formula.of(kernel), {}, False, loop_places(kernel))
    pairs = zip(target.indices, target.tensor.dims, strict=True)
    return " && ".join(f"inside({say.reached(i, d)})" for i, d in pairs if i.through is not None or i.terms)


class _HostLoops(_Host, Loops):
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
            index, run = loop_parts(self.formula, axis, self._extent(axis), "/")
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
