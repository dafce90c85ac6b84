"""The lines of the generated C++ that each instruction executes, and the spec rows of a schedule's name.

Clang's line tables name no line for addresses that were moved out of a loop, nor for accesses of several lines that
were merged into one. Two slices of a fragment share 16-byte chunks of LDS, so one `ds_read_b128` executes two `load`
statements and has the line of neither. Between two barriers or waits that have lines, such an access executes
statements of its kind that are between them: the compiler moves nothing across those.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tkgen.backends.cdna.lower.origins import Performed, Source
from tkgen.ir.types import Side
from tkgen.schedule.plan import Plan
from tkgen.source import Span
from tkgen.tile.ops import LOADS, SHARED_READS, SHARED_WRITES, TILE_WRITES, Barrier, Store, Take
from tkgen.tile.program import Drain, Op, Part, Place
from tkgen.toolchain.isa import Function, Instruction, classify

# What an access of each kind can carry out.
_DOES: Mapping[str, tuple[type[Op], ...]] = {
    "lds read": SHARED_READS,
    "lds write": SHARED_WRITES,
    "global load": (*LOADS, Take),  # of operands that go past LDS
    "global to lds": TILE_WRITES,
    "global store": (Store,),
}
_REGISTERS = re.compile(r"([av])(?:\[(\d+):(\d+)\]|(\d+)\b)")


@dataclass(frozen=True)
class Statement:
    """A line of the C++ that executes an operation: of which kind, on which operand, for which role.

    `text` names the operation and `span` is its place in the spec, None where tkgen placed it.
    """

    line: int
    kind: type[Op]
    operand: str
    role: str
    text: str
    span: Span | None


def statements(plan: Plan, source: Source) -> tuple[Statement, ...]:
    """The statements of every operation in the order of the text, without the headers of the loops around them."""
    text = source.text.split("\n")
    found: dict[tuple[int, type[Op], str], Statement] = {}
    for wave in plan.waves:  # waves of other phases execute the same
        for part in Part:
            for i, op in enumerate(wave.ops(part)):
                for line in source.operations.get(Performed(wave.name, Place(part, i)), ()):
                    if not re.match(r"\s*(#pragma|for \(|\}$)", text[line - 1]):
                        made = Statement(line, type(op), op.operand, wave.name, str(op), op.span)
                        found.setdefault((line, type(op), op.operand), made)
    return tuple(sorted(found.values(), key=lambda s: s.line))


class Places:
    """The lines and roles of the instructions of `function`, compiled from `source`.

    For each instruction `lines` are those of the generated file that it executes, none where it has no line; `roles`
    names the role whose code it belongs to. Compilers before clang 21 do not say from where a function was inlined.
    Roles cannot be told apart then, and `roles` has empty names.
    """

    def __init__(self, function: Function, plan: Plan, source: Source, cpp_name: str):
        self.function, self.plan, self.end = function, plan, len(source.text.split("\n")) + 1
        self.kinds = [classify(instruction)[0] for instruction in function.instructions]
        self.placed = statements(plan, source)
        self.known = known_lines(function, source, cpp_name)
        role_of = {s.line: s.role for s in self.placed}
        names = [role.name for role in plan.program.roles]
        unknown = names[0] if len(names) == 1 else ""
        self.roles = [name or unknown for name in _nearest([role_of.get(line, "") for line in self.known])]
        self.anchors = {role.name: self._anchors(role.name) for role in plan.program.roles}
        self.lines = tuple(
            (line,) if line else self._merged(index) if self.kinds[index] in _DOES else ()
            for index, line in enumerate(self.known)
        )

    def _anchors(self, role: str) -> list[int]:
        """The lines of a role's barriers and waits by instruction, 0 for any other instruction."""
        fixed = {s.line for s in self.placed if s.role == role and s.kind in (Barrier, Drain)}
        return [
            line if kind in ("barrier", "wait") and line in fixed else 0
            for kind, line in zip(self.kinds, self.known, strict=True)
        ]

    def _merged(self, index: int) -> tuple[int, ...]:
        """The statements that an access without a line may execute."""
        role, kind = self.roles[index], self.kinds[index]
        if not role:
            return ()
        anchors = self.anchors[role]
        first = next((line for line in reversed(anchors[:index]) if line), 0)
        last = next((line for line in anchors[index:] if line > first), self.end)
        operand = _operand(self.function, index, self.plan) if kind == "lds read" else ""
        found = {
            s.line
            for s in self.placed
            if s.role == role and first < s.line < last and s.kind in _DOES[kind] and operand in ("", s.operand)
        }
        return tuple(sorted(found))

    def operands(self, index: int) -> tuple[str, ...]:
        """The operands that an access to LDS is about: both where one instruction writes of both."""
        does = _DOES.get(self.kinds[index], ())
        names = {s.operand for s in self.placed if s.line in self.lines[index] and s.kind in does}
        return tuple(o.name for o in self.plan.program.operands if o.name in names)

    def registers(self, role: str) -> int:
        """Registers per lane, VGPRs and AGPRs together, up to the highest that the role's code names."""
        highest = {"v": -1, "a": -1}
        for name, instruction in zip(self.roles, self.function.instructions, strict=True):
            if name == role:
                for operand in instruction.operands:
                    for kind, number in _registers(operand):
                        highest[kind] = max(highest[kind], number)
        return highest["v"] + 1 + highest["a"] + 1


def known_lines(function: Function, source: Source, cpp_name: str) -> list[int]:
    """For each instruction the line of the kernel that it executes, as the line tables have it; 0 for none."""
    text = source.text.split("\n")
    body = next(number for number, line in enumerate(text, 1) if line.startswith("__global__"))
    return [_line(instruction, cpp_name, body) for instruction in function.instructions]


def named_schedules(plan: Plan, source: Source) -> Iterator[tuple[int, Span]]:
    """Each line of the C++ whose place a schedule with a name decided (`schedule ping_pong`), with that clause."""
    by_role = {role.name: role.schedule for role in plan.program.roles}
    for s in statements(plan, source):
        clause = by_role[s.role]
        if clause is not None and not clause.clusters:
            yield s.line, clause.span


def _line(instruction: Instruction, cpp_name: str, body: int) -> int:
    """The line of the kernel itself, which begins at `body`, after all inlined calls; 0 where there is none."""
    for place in reversed(instruction.sources):
        if place.file.rpartition("/")[2] == cpp_name:
            return place.line if place.line >= body else 0
    return 0


def _nearest(names: Sequence[str]) -> list[str]:
    """For each position the name that stands nearest to it."""
    here = [i for i, name in enumerate(names) if name]
    return [names[min(here, key=lambda at: abs(at - i))] for i in range(len(names))] if here else list(names)


def _operand(function: Function, index: int, plan: Plan) -> str:
    """The operand that an LDS read is for, by the side on which the first MFMA that needs its result takes it."""
    holding = _registers(function.instructions[index].operands[0])
    for x in function.instructions[index + 1 :]:
        matrix = classify(x)[0] == "mfma"
        if matrix:  # the headers multiply A by B, never B by A
            for at, side in ((1, Side.A), (2, Side.B)):
                mine = [o.name for o in plan.program.operands if o.side is side]
                if holding & _registers(x.operands[at]):
                    return mine[0] if len(mine) == 1 else ""
        elif x.operands:
            result = _registers(x.operands[0])
            used = any(holding & _registers(operand) for operand in x.operands[1:])
            holding = holding | result if used else holding - result
        if not holding:
            return ""
    return ""


def _registers(operand: str) -> frozenset[tuple[str, int]]:
    """The vector registers that an operand names: ("v", 7) is v7."""
    found = _REGISTERS.match(operand)
    if not found:
        return frozenset()
    first, last = (int(found[2]), int(found[3])) if found[2] else (int(found[4]), int(found[4]))
    return frozenset((found[1], n) for n in range(first, last + 1))
