"""Origins of generated lines, carried beside the text from the model to the end of rendering.

A template or a statement ends a line with a mark, which stands for a comment, the spec lines from which the line comes,
and the operations of the schedule that it executes. `Marks.source` puts the comments in the places of the marks and
says what came from where. So nothing is read back out of comments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tkgen.source import SourceFile, Span
from tkgen.tile.program import Place

_MARK = "\0"  # what stands behind one on a line is the number of a mark
_WITHIN = re.compile("\1([0-9]+):([0-9a-f]*)")  # the line of an equation, and the name of its file in hexadecimal


@dataclass(frozen=True)
class Origin:
    """A line (1-based) of a spec or of a file that it includes; comments call that file `name`, the spec nothing."""

    file: SourceFile
    line: int
    name: str = ""

    def __str__(self) -> str:
        return f"{self.name}:{self.line}" if self.name else str(self.line)


@dataclass(frozen=True)
class Origins:
    """The spec lines from which something comes; the first one matters most."""

    lines: tuple[Origin, ...] = ()

    @classmethod
    def of(cls, lines: Iterable[Origin]) -> Origins:
        """Each line once, in this order."""
        return cls(tuple(dict.fromkeys(lines)))

    def __bool__(self) -> bool:
        return bool(self.lines)

    def __str__(self) -> str:
        return ",".join(map(str, self.lines))


NOWHERE = Origins()


class Performed(NamedTuple):
    """An operation of the schedule: a role's, and its place there."""

    role: str
    place: Place


def within(span: Span | None, lines: Iterable[str]) -> list[str]:
    """`lines` as those of the equation at `span`. Lines that belong to an equation already stay with it."""
    end = end_of(span)
    return [line if "\1" in line or not line else line + end for line in lines]


def end_of(span: Span | None) -> str:
    """The end of a line of the equation at `span`, which `Marks.source` takes off."""
    return f"\1{span.line}:{span.file.name.encode().hex()}" if span else ""


@dataclass(frozen=True)
class Source:
    """Generated text; `origins` has for every line of it the spec lines it came from.

    `operations` has the lines (1-based) that execute an operation of the schedule. `equations` has for every line the
    name of the file and the line of the equation that it belongs to, None for a line of none.
    """

    text: str
    origins: tuple[tuple[Origin, ...], ...] = field(repr=False)
    operations: Mapping[Performed, tuple[int, ...]] = field(repr=False)
    equations: tuple[tuple[str, int] | None, ...] = field(default=(), repr=False)

    def origin(self, line: int) -> Origin | None:
        """The first spec line of generated line `line`, or of the nearest line above it that has one."""
        above = self.origins[: max(line, 0)]
        return next((found[0] for found in reversed(above) if found), None)


def joined(parts: Iterable[Source | str]) -> Source:
    """Texts one after the other, each of whole lines."""
    text = ""
    origins: list[tuple[Origin, ...]] = []
    operations: dict[Performed, tuple[int, ...]] = {}
    equations: list[tuple[str, int] | None] = []
    for part in parts:
        count = (part.text if isinstance(part, Source) else part).count("\n")
        source = part if isinstance(part, Source) else Source(part, ((),) * count, {}, (None,) * count)
        above = text.count("\n")
        text += source.text
        origins += source.origins[:count]
        equations += source.equations[:count]
        for name, lines in source.operations.items():
            operations[name] = (*operations.get(name, ()), *(above + line for line in lines))
    return Source(text, (*origins, ()), operations, (*equations, None))


@dataclass(frozen=True)
class _Mark:
    comment: str = ""
    origins: Origins = NOWHERE
    operations: tuple[Performed, ...] = ()


@dataclass
class Marks:
    """The marks of one text."""

    made: list[_Mark] = field(default_factory=list)

    def remark(self, origins: Origins = NOWHERE, comment: str = "") -> str:
        """End of a line that comes from `origins` and has `comment`."""
        return self._mark(_Mark(comment, origins)) if origins or comment else ""

    def carries_out(self, operations: tuple[Performed, ...]) -> str:
        """End of a line that executes operations."""
        return self._mark(_Mark(operations=operations)) if operations else ""

    def _mark(self, mark: _Mark) -> str:
        self.made.append(mark)
        return f"{_MARK}{len(self.made) - 1}"

    def source(self, text: str) -> Source:
        """The text with comments for marks, and what the marks say of it."""
        lines: list[str] = []
        origins: list[tuple[Origin, ...]] = []
        operations: dict[Performed, tuple[int, ...]] = {}
        equations: list[tuple[str, int] | None] = []
        for line in text.split("\n"):
            own = _WITHIN.search(line)
            equations.append((bytes.fromhex(own[2]).decode(), int(own[1])) if own else None)
            code, *numbers = _WITHIN.sub("", line).split(_MARK)
            marks = [self.made[int(n)] for n in numbers]
            behind = Origins.of(o for m in marks for o in m.origins.lines)
            said = [m.comment for m in marks if m.comment] + ([f"spec:{behind}"] if behind else [])
            gap = "  " if code.strip() else ""
            lines.append(f"{code}{gap}// {', '.join(said)}" if said else code)
            origins.append(behind.lines)
            for name in (name for m in marks for name in m.operations):
                operations[name] = (*operations.get(name, ()), len(lines))
        return Source("\n".join(lines), tuple(origins), operations, tuple(equations))
