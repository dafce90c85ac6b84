"""Values of a kernel of rows as C++: names, and expressions in the order and with the names of the spec.

A value without a name that one operation of the same sweep uses is part of its expression. Elements that are divided
by something of a row are multiplied with its reciprocal (`divisor` of the template).
"""

from __future__ import annotations

from collections import Counter

from tkgen.backends.cdna.lower.elements import applied, constant, type_of
from tkgen.backends.cdna.lower.names import cpp_name
from tkgen.backends.cdna.lower.places import Names
from tkgen.backends.cdna.lower.row_places import OF_VALUE, Places
from tkgen.ir.equations import (
    Access,
    Argument,
    Constant,
    Convert,
    Coordinate,
    Extent,
    Load,
    Map,
    Op,
    Store,
    Value,
    reads,
    walk,
    writes,
)
from tkgen.ir.functions import CDNA, FUNCTIONS
from tkgen.ir.integers import Widths
from tkgen.ir.limits import LARGEST_ROWS_SIZE
from tkgen.ir.types import DType
from tkgen.schedule.row_form import Way
from tkgen.schedule.row_loops import loops
from tkgen.schedule.rows import RowMap
from tkgen.schedule.sweeps import Sweep, apart, carried, divisors, held, of_block, taken_up

BEFORE = -1  # the sweep of what is known before a loop that has the first one


class Values:
    """The C++ of values for one layout."""

    def __init__(self, m: RowMap, names: Names, places: Places, back_end: str = CDNA):
        self.m, self.places, self.back_end = m, places, back_end
        self.widths = Widths(walk(m.kernel.body), LARGEST_ROWS_SIZE)
        self.held = held(m.kernel, m.fast)
        self.carried = {value for c in carried(m.kernel, m.fast) for value in (c.inside, c.result)}
        self.made = {value: op for op in walk(m.kernel.body) for value in writes(op)}
        self.name = {value: names.new(_wish(value, op), OF_VALUE) for value, op in self.made.items()}
        once = dict[Access, str]()  # a block loads a value without axes once
        for value, op in self.made.items():
            if isinstance(op, Load) and not value.axes:
                self.name[value] = once.setdefault(op.source, self.name[value])
        for loop in loops(m.kernel):
            kept = apart(loop)
            for carry in loop.carries:
                self.made[carry.inside] = self.made[carry.result]
                self.name[carry.inside] = self.name[carry.result]
                if carry in kept:
                    self.made[carry.result] = taken_up(carry, *kept[carry])
        self.outs = dict[Store, str]()
        for store in (op for op in walk(m.kernel.body) if isinstance(op, Store) and op not in self.outs):
            base, number = places.base[store.target], sum(op.target == store.target for op in self.outs)
            self.outs[store] = f"{base}_w" if not number else names.new(f"{base}_w{number}", OF_VALUE)
        self.divisors = divisors(m.kernel, m.fast)
        self.of_block = of_block(m.kernel)
        self.inlined = self._inlined()

    def of_row(self, value: Value) -> bool:
        """Return True if a lane has a value for each of its rows, in an array over them."""
        return self.m.fast not in value.axes and value not in self.of_block

    def type(self, value: Value) -> str:
        """The C++ type of an element."""
        return type_of(value, self.widths)

    def divisors_made(self, number: int) -> list[Value]:
        """Divisors that are known from sweep `number` on, not before it; those of all loops from `BEFORE` on."""
        carried = {c.result for loop in loops(self.m.kernel) for c in loop.carries if c not in apart(loop)}
        level = dict.fromkeys((v for v in self.divisors if v not in carried), BEFORE if self.m.sweeps[0].loop else 0)
        for at, sweep in enumerate(self.m.sweeps):
            if sweep.loop and (at == 0 or self.m.sweeps[at - 1].loop != sweep.loop):
                level |= {c.inside: at for c in sweep.loop.carries if c.inside in level}
            level |= {v: at for op in sweep.rows for v in writes(op) if v in level}
            level |= {r.result: at + 1 for r in sweep.handed if r.result in level}
        return [value for value, at in level.items() if at == number]

    def _inlined(self) -> set[Value]:
        uses: Counter[Value] = Counter()
        together: set[Value] = set()
        for sweep in self.m.sweeps:
            for group in (sweep.rows, sweep.used):
                here = {value for op in group for value in writes(op)}
                for op in group:
                    together |= here.intersection(reads(op))
                    for place, value in enumerate(reads(op)):
                        text = FUNCTIONS[op.function].cpp[self.back_end] if isinstance(op, Map) else ""
                        uses[value] += max(text.count(f"{{{place}}}"), 1)
        kept = {*self.held, *self.divisors}
        return {
            value
            for value in together
            if not value.name and uses[value] == 1 and value not in kept and isinstance(self.made[value], Map)
        }

    # ------------------------------------------------------------ expressions

    def raw(self, access: Access) -> str:
        """The array of registers with what was loaded."""
        return f"{self.places.base[access]}_r"

    def out(self, op: Store) -> str:
        """The registers of what is to be stored; several stores may go to one position, such as two of `+=`."""
        return self.outs[op]

    def loads_used(self, sweep: Sweep) -> list[Load]:
        """Loads of elements that a sweep reads, each once, in order."""
        found: dict[Value, Load] = {}
        for op in sweep.used:
            for value in reads(op):
                made = self.made[value]
                if isinstance(made, Load) and self.m.fast in value.axes:
                    found[value] = made
        return list(found.values())

    def registers(self, access: Access) -> str:
        """The chunk at hand of what was loaded along the fast axis."""
        if access in self.m.late:
            return self.raw(access)
        return f"{self.raw(access)}{'[i]' if self.places.of_rows(access) else ''}[c]"

    def loaded(self, access: Access) -> str:
        """The element at hand of what was loaded."""
        raw = self.raw(access)
        if self.m.way(access) is Way.ALONG:
            return f"{self.registers(access)}.at[e]"
        if self.m.way(access) is Way.CHUNK:
            return f"{self.registers(access)}.at[0]"
        wide = self.places.across(access)
        if wide > 1:
            return f"{raw}[i / {wide}][c][e].at[i % {wide}]"
        return f"{raw}{'[i]' if self.places.of_rows(access) else ''}[c][e].at[0]"

    def text(self, value: Value) -> str:
        """A value where it is used."""
        made = self.made[value]
        match made:
            case Constant(value=number):
                text = constant(value, number)
                return f"({text})" if text.startswith("-") else text
            case Argument(scalar=scalar):
                return f"g.{cpp_name(scalar.name)}"
            case Coordinate(axis=axis):
                return self.places.coordinate(axis)
            case Extent(axis=axis):
                return self.places.length(axis)
            case Load(source=source) if self.of_row(value):
                return f"tk::widen({self.raw(source)}[i].at[0])"
        if value in self.inlined:
            return f"({self.expression(made)})"
        return f"{self.name[value]}[i]" if self.of_row(value) else self.name[value]

    def carry(self, value: Value) -> str:
        """The place of an element that lanes hold from iteration to iteration, or between sweeps."""
        return f"{self.name[value]}_h[i][c][e]"

    def at(self, value: Value) -> str:
        """An element or a row's value between sweeps."""
        if value in self.held or value in self.carried:
            return self.carry(value)
        made = self.made[value]
        if isinstance(made, Load) and self.m.fast in value.axes:
            return f"tk::widen({self.loaded(made.source)})"
        return self.text(value)

    def whole(self, value: Value) -> str:
        """A value that is all of a right side: without parentheses around it."""
        return self.expression(self.made[value]) if value in self.inlined else self.text(value)

    def expression(self, op: Op) -> str:
        """The right side of an operation."""
        if isinstance(op, Convert):
            dtype = op.result.dtype
            text = self.whole(op.argument)
            return text if dtype is DType.F32 else f"tk::widen(tk::narrow<{dtype.cpp}>({text}))"
        assert isinstance(op, Map), f"{op} has no expression"
        divided = op.function == "div" and op.arguments[1] in self.divisors and self.m.fast in op.result.axes
        divisor = f"{self.name[op.arguments[1]]}_d[i]" if divided else ""
        return applied(op, self.text, divisor, self.back_end, self.widths)


def _wish(value: Value, op: Op) -> str:
    if value.name:
        return value.name
    return f"{op.source.tensor.name}_e" if isinstance(op, Load) else f"v{value.number}"
