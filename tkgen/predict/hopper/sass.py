"""The instructions that a warp of Hopper machine code executes, and its loops.

>>> code = read(build.sass)
>>> inner = code.loop_with("HGMMA")
>>> len(inner), inner.count("MUFU")
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

_LINE = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)(.*?);", re.MULTILINE)
_TARGET = re.compile(r"(0x[0-9a-f]+)\s*$")
_NOTHING = ("NOP",)
LOAD_BYTES = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}
"""Bytes of a lane that a load moves, by its modifier; without one 4 (PTX ISA; cuobjdump -sass)."""


@dataclass(frozen=True)
class Instruction:
    """One of them: `address` in bytes, the opcode with modifiers, where it jumps to."""

    address: int
    opcode: str
    target: int | None

    @property
    def name(self) -> str:
        """The opcode alone."""
        return self.opcode.partition(".")[0]

    @property
    def load_bytes(self) -> int:
        """Bytes of global memory that a lane reads."""
        if self.name != "LDG":
            return 0
        return next((LOAD_BYTES[part] for part in self.opcode.split(".") if part in LOAD_BYTES), 4)


@dataclass(frozen=True)
class Code:
    """Instructions that stand together, in order."""

    instructions: Sequence[Instruction]

    def __len__(self) -> int:
        return len(self.instructions)

    def count(self, *names: str) -> int:
        """Count the instructions with one of these names."""
        return sum(i.name in names for i in self.instructions)

    @property
    def load_bytes(self) -> int:
        """Bytes of global memory that a lane reads, each instruction once."""
        return sum(i.load_bytes for i in self.instructions)

    @cached_property
    def loops(self) -> tuple[Code, ...]:
        """Return the code between a backward jump and its target, the shortest first. A jump to itself is no loop."""
        at = {x.address: n for n, x in enumerate(self.instructions)}
        spans = [(at[x.target], n) for n, x in enumerate(self.instructions)
                 if x.target is not None and at.get(x.target, n) < n]  # fmt: skip
        return tuple(Code(self.instructions[a : b + 1]) for a, b in sorted(spans, key=lambda s: s[1] - s[0]))

    def loop_with(self, *names: str) -> Code | None:
        """The shortest loop that has all of these."""
        return next((loop for loop in self.loops if all(map(loop.count, names))), None)

    @cached_property
    def executed(self) -> int:
        """Count the executed instructions, with the shorter of two branches (`if`, `else`): masks are for few tiles."""
        at = {x.address: n for n, x in enumerate(self.instructions)}
        left_out, behind = 0, 0
        for n, x in enumerate(self.instructions):
            other = at.get(x.target, 0) if x.target is not None and n >= behind else 0
            join = self.instructions[other - 1].target if other > n + 1 else None
            if join is not None and at.get(join, 0) > other:
                left_out += max(other - n - 1, at[join] - other)
                behind = at[join]
        return len(self) - left_out

    def before(self, name: str) -> Code:
        """Return the code before the first instruction of this name; all of it where there is none."""
        end = next((n for n, x in enumerate(self.instructions) if x.name == name), len(self))
        return Code(self.instructions[:end])

    @property
    def load_groups(self) -> int:
        """Groups of loads from global memory between which warps meet: each is waited for anew."""
        groups, fresh = 0, True
        for x in self.instructions:
            groups += fresh and x.name == "LDG"
            fresh = x.name == "BAR" or (fresh and x.name != "LDG")
        return groups

    @property
    def outermost(self) -> tuple[Code, ...]:
        """The loops that stand in no other one, in order."""
        found: list[Code] = []
        for loop in reversed(self.loops):
            first, last = loop.instructions[0].address, loop.instructions[-1].address
            if all(last < o.instructions[0].address or first > o.instructions[-1].address for o in found):
                found.append(loop)
        return tuple(sorted(found, key=lambda loop: loop.instructions[0].address))


def read(sass: str) -> Code:
    """The code of the one kernel of a disassembly, as far as its last exit."""
    found = list(_instructions(sass))
    last = max((n for n, x in enumerate(found) if x.name == "EXIT"), default=len(found) - 1)
    return Code([x for x in found[: last + 1] if x.name not in _NOTHING])


def _instructions(sass: str) -> Iterator[Instruction]:
    for line in _LINE.finditer(sass):
        jumps = _TARGET.search(line[3]) if line[2].startswith("BRA") else None
        yield Instruction(int(line[1], 16), line[2], int(jumps[1], 16) if jumps else None)
