"""Specs that are strings of Python files: their diagnostics, moved to the lines of those files.

A string may be indented with the code around it. In an f-string, or in a string with escapes, a character that is
written differently in the file has the place of its neighbour.
"""

from __future__ import annotations

import ast
import linecache
import re
import textwrap
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cache, cached_property

from tkgen.diagnostics.model import Diagnostic, Edit, Label
from tkgen.source import SourceFile, Span


@dataclass(frozen=True)
class PythonString:
    """A spec as it is parsed, `spec`, which is a string of the file `python`; `first` is the number of its line 1."""

    spec: SourceFile
    python: SourceFile
    first: int
    margins: tuple[int, ...]  # characters that each line has in the string, and the spec has not

    @cached_property
    def _offsets(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Of each line of the spec: columns, and offsets in the Python file from there on."""
        lines = self.spec.text.split("\n")
        return tuple(self._line(n, line) for n, line in enumerate(lines))

    def _line(self, number: int, line: str) -> tuple[tuple[int, int], ...]:
        start = self.python.line_starts[self.first + number - 1]
        written = self.python.line(self.first + number)
        column = written.find(line) if line else min(self.margins[number], len(written))
        if column >= 0:
            return ((0, start + column),)
        blocks = SequenceMatcher(None, line, written, autojunk=False).get_matching_blocks()
        return tuple((block.a, start + block.b) for block in blocks if block.size) or ((0, start),)

    def offset(self, offset: int) -> int:
        """The offset in the Python file of an offset in the spec."""
        line, column = self.spec.position(offset)
        known = self._offsets[line - 1]
        at, start = known[max(bisect_right(known, (column - 1, len(self.python.text))) - 1, 0)]
        end = self.python.line_starts[self.first + line - 2] + len(self.python.line(self.first + line - 1))
        return min(start + column - 1 - at, end)

    def span(self, span: Span) -> Span:
        """A span of the spec as one of the Python file; those of other files, such as includes, as they are."""
        if (span.file.name, span.file.text) != (self.spec.name, self.spec.text):
            return span
        return Span(self.python, self.offset(span.start), self.offset(span.end))

    def moved(self, diagnostic: Diagnostic) -> Diagnostic:
        """The diagnostic with its places and edits in the Python file."""

        def label(found: Label) -> Label:
            return replace(found, span=self.span(found.span))

        def edit(found: Edit) -> Edit:
            margin = " " * self.margins[found.span.line - 1] if found.span.file.name == self.spec.name else ""
            return Edit(self.span(found.span), found.text.replace("\n", f"\n{margin}"))

        fix = diagnostic.fix and replace(diagnostic.fix, edits=tuple(map(edit, diagnostic.fix.edits)))
        primary = diagnostic.primary and label(diagnostic.primary)
        steps = tuple(replace(step, span=step.span and self.span(step.span)) for step in diagnostic.interleaving)
        secondary = tuple(map(label, diagnostic.secondary))
        return replace(diagnostic, primary=primary, secondary=secondary, fix=fix, interleaving=steps)


def dedented(string: str) -> str:
    """The spec in a string that may be indented; a first line beside the quotes is not."""
    return string if string[:1].strip() else textwrap.dedent(string)


def find(string: str, name: str, file: str, lines: range | None = None) -> PythonString | None:
    """The place of `string`, which is parsed as a file `name`, in the Python file `file`; None where it has none.

    `lines` are those of the function that has it. Includes strings that `%` or `format` would change, if they do not.
    """
    text = "".join(linecache.getlines(file))
    for node in _strings(text):
        end = node.end_lineno or node.lineno
        written = end - node.lineno == string.count("\n")
        if written and (lines is None or node.lineno in lines) and _makes(node, string):
            spec = dedented(string)
            margins = tuple(
                len(old) - len(new) if new else 0 for old, new in zip(string.split("\n"), spec.split("\n"), strict=True)
            )
            most = max(margins)
            margins = tuple(m if line else most for m, line in zip(margins, spec.split("\n"), strict=True))
            return PythonString(SourceFile(name, spec), SourceFile(file, text), node.lineno, margins)
    return None


def _makes(node: ast.Constant | ast.JoinedStr, string: str) -> bool:
    """Return True if a string, or an f-string with some values, is `string`."""
    if isinstance(node, ast.Constant):
        return bool(node.value == string)
    parts = (re.escape(str(p.value)) if isinstance(p, ast.Constant) else "[^\n]*?" for p in node.values)
    return re.fullmatch("".join(parts), string) is not None


@cache
def _strings(text: str) -> tuple[ast.Constant | ast.JoinedStr, ...]:
    """The strings of a Python file that have lines."""
    try:
        nodes: Iterable[ast.AST] = ast.walk(ast.parse(text))
    except SyntaxError:  # a cell of a notebook with commands of its own
        return ()
    return tuple(n for n in nodes if isinstance(n, ast.JoinedStr) or (isinstance(n, ast.Constant) and _has_lines(n)))


def _has_lines(node: ast.Constant) -> bool:
    return isinstance(node.value, str) and "\n" in node.value
