"""Source files and spans: the places that every AST node, graph node and diagnostic points to."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True)
class SourceFile:
    """One spec file, held as text; `name` is what diagnostics print (the path as the user gave it)."""

    name: str
    text: str = field(repr=False)

    @cached_property
    def line_starts(self) -> list[int]:
        """Offsets at which each line begins."""
        return [0, *(i + 1 for i, c in enumerate(self.text) if c == "\n")]

    def position(self, offset: int) -> tuple[int, int]:
        """The 1-based (line, column) of a character offset."""
        line = bisect_right(self.line_starts, offset) - 1
        return line + 1, offset - self.line_starts[line] + 1

    def line(self, number: int) -> str:
        """The text of 1-based line `number`, without its newline; empty past the end."""
        if not 1 <= number <= len(self.line_starts):
            return ""
        start = self.line_starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start : len(self.text) if end < 0 else end].rstrip("\r")


@dataclass(frozen=True)
class Span:
    """Characters `start`..`end` (end exclusive) of `file`."""

    file: SourceFile = field(repr=False)
    start: int
    end: int

    @property
    def line(self) -> int:
        """1-based line of the first character."""
        return self.file.position(self.start)[0]

    @property
    def column(self) -> int:
        """1-based column of the first character."""
        return self.file.position(self.start)[1]

    @property
    def text(self) -> str:
        """The spanned characters."""
        return self.file.text[self.start : self.end]

    def to(self, other: Span) -> Span:
        """The span from the start of this one to the end of `other`."""
        return Span(self.file, self.start, other.end)

    def __str__(self) -> str:
        return f"{self.file.name}:{self.line}:{self.column}"
