"""Diagnostics as text for people, in the manner of rustc:

    error[E101]: expected `step`, found `stp`
      --> eight_wave.tk:9:19
       |
     9 |   block 128 x 128 stp 64
       |                   ^^^ expected `step`
       |
    help: write `step`
       |
     9 -   block 128 x 128 stp 64
     9 +   block 128 x 128 step 64

Text from a file is shown with control characters escaped, so that no spec can talk to the terminal.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import TypeVar

from tkgen.diagnostics.fixes import apply_fixes, edited
from tkgen.diagnostics.machine import render_github, render_json, render_sarif
from tkgen.diagnostics.model import Diagnostic, Edit, Fix, Label, Severity
from tkgen.diagnostics.text import columns, escape, escaped, plain
from tkgen.source import SourceFile, Span

__all__ = ["apply_fixes", "render_github", "render_json", "render_sarif", "render_text"]

P = TypeVar("P", Label, Edit)

_TAB = 4
_SHOWN_LINES = 4  # of a span over many lines

_RESET = "\x1b[0m"
_BOLD = "\x1b[1m"
_STYLES = {
    "error": "\x1b[1;31m",
    "warning": "\x1b[1;33m",
    "note": "\x1b[1;32m",
    "help": "\x1b[1;36m",
    "gutter": "\x1b[1;34m",
    "secondary": "\x1b[1;34m",
    "removed": "\x1b[31m",
    "added": "\x1b[32m",
    "message": _BOLD,
}


def render_text(diagnostics: Iterable[Diagnostic], *, color: bool = False, width: int = 100) -> str:
    """All diagnostics, a blank line between two; notes are wrapped and long source lines cut at `width` columns."""
    blocks = [_Renderer(color, max(width, 40)).diagnostic(d) for d in diagnostics]
    return "\n".join("\n".join(line.rstrip() for line in block) + "\n" for block in blocks)


@dataclass(frozen=True)
class _Mark:
    """A part of one source line to underline: columns `start`..`end`, what with, and the text beside it."""

    start: int
    end: int
    primary: bool
    text: str


@dataclass(frozen=True)
class _Shown:
    """A source line as it is displayed, and the display column of each of its characters (and of its end)."""

    text: str
    places: tuple[int, ...]

    @classmethod
    def of(cls, line: str) -> _Shown:
        """Tabs become spaces up to the next stop, control characters their escapes."""
        text, places, at = "", [0], 0
        for character in line:
            if character == "\t":
                piece = " " * (_TAB - at % _TAB)
            else:
                piece = character if plain(character) else escaped(character)
            text += piece
            at += columns(piece)
            places.append(at)
        return cls(text, tuple(places))


class _Renderer:
    """The lines of one diagnostic."""

    def __init__(self, color: bool, width: int) -> None:
        self.color = color
        self.width = width
        self.gutter = 1  # columns of the line numbers

    @property
    def room(self) -> int:
        """Columns for a source line, right of the margin."""
        return self.width - self.gutter - 3

    def diagnostic(self, diagnostic: Diagnostic) -> list[str]:
        """Header, source lines per file, notes, help."""
        severity = diagnostic.severity.value
        labels = [*([diagnostic.primary] if diagnostic.primary else []), *diagnostic.secondary]
        edits = diagnostic.fix.edits if diagnostic.fix else ()
        spans = [label.span for label in labels] + [edit.span for edit in edits]
        self.gutter = max((len(str(_last_line(span))) for span in spans), default=1)
        head = self.style(severity, f"{severity}[{diagnostic.code}]")
        lines = [head + self.style("message", f": {escape(diagnostic.message)}")]
        for i, (file, group) in enumerate(_by_file(labels)):
            lines += self.excerpt(file, group, diagnostic, first=i == 0)
        notes = [("note", note) for note in diagnostic.notes]
        if diagnostic.fix is not None and not edits:
            notes.append(("help", diagnostic.fix.text))
        if labels and notes:
            lines.append(self.bar())
        for kind, note in notes:
            lines += self.note(kind, note)
        if diagnostic.fix is not None and edits:
            lines += self.preview(diagnostic.fix)
        return lines

    def style(self, name: str, text: str) -> str:
        """The text in the colour of that name."""
        return f"{_STYLES[name]}{text}{_RESET}" if self.color and text else text

    def bar(self, number: int | None = None, mark: str = "|") -> str:
        """The left margin, with a line number or without."""
        return self.style("gutter", f"{'' if number is None else number:>{self.gutter}} {mark}")

    # ------------------------------------------------------------ source lines

    def excerpt(self, file: SourceFile, labels: Sequence[Label], diagnostic: Diagnostic, first: bool) -> list[str]:
        """The lines of one file that have labels, each with its underlines."""
        at = labels[0].span
        arrow = " " * self.gutter + self.style("gutter", "-->" if first else ":::")
        lines = [f"{arrow} {escape(file.name)}:{at.line}:{at.column}"]
        marked: dict[int, list[_Mark]] = {}
        for label in labels:
            for number, mark in _marks(label, label is diagnostic.primary):
                marked.setdefault(number, []).append(mark)
        if not file.text:
            return lines
        lines.append(self.bar())
        before = 0
        for number in sorted(marked):
            if before and number == before + 2:
                lines.append(self.source(file, before + 1))
            elif before and number > before + 2:
                lines.append(self.style("gutter", "..."))
            lines += self.marked_line(file, number, marked[number], diagnostic.severity)
            before = number
        return lines

    def source(self, file: SourceFile, number: int) -> str:
        """An unmarked line, for context."""
        text = _Shown.of(file.line(number)[: 4 * self.room]).text
        return self.bar(number) + (" " + _cut(text, self.room) if text.strip() else "")

    def marked_line(self, file: SourceFile, number: int, marks: list[_Mark], severity: Severity) -> list[str]:
        """A line and below it its underlines with their texts; far into a long line, a window of it."""
        raw = file.line(number)
        low = min(mark.start for mark in marks)
        skip = max(0, low - self.room // 2) if len(raw) > self.room else 0
        window = raw[skip : skip + 4 * self.room]
        shown = _Shown.of(window)
        lead = "…" if skip else ""
        shift = len(lead)
        text = _cut(lead + shown.text, self.room)
        limit = columns(text)
        placed: list[_Mark] = []
        for mark in marks:
            start = min(shift + shown.places[min(max(mark.start - skip, 0), len(window))], limit)
            end = min(shift + shown.places[min(max(mark.end - skip, 0), len(window))], limit)
            placed.append(_Mark(start, max(end, start + 1), mark.primary, escape(mark.text)))
        return [f"{self.bar(number)} {text}", *self.underlines(placed, severity)]

    def underlines(self, marks: list[_Mark], severity: Severity) -> list[str]:
        """`^^^^` and `----` on one row, the rightmost text beside them, the others hanging below."""
        marks = sorted(marks, key=lambda m: (m.start, m.primary))
        row: dict[int, tuple[str, bool]] = {}
        for mark in sorted(marks, key=lambda m: m.primary):
            row.update(dict.fromkeys(range(mark.start, mark.end), ("^" if mark.primary else "-", mark.primary)))
        last = max(marks, key=lambda m: (m.end, m.start))
        hanging = [m for m in marks if m is not last and m.text]
        beside = last.text
        lines = [self.row(row, severity) + (" " + self.text(last, severity) if beside else "")]
        if hanging:
            lines.append(self.row({m.start: ("|", m.primary) for m in hanging}, severity))
        while hanging:
            mark = hanging.pop()
            stems = {m.start: ("|", m.primary) for m in hanging if m.start < mark.start}
            padded = self.row(stems, severity, up_to=mark.start)
            lines.append(padded + self.text(mark, severity))
        return lines

    def row(self, cells: dict[int, tuple[str, bool]], severity: Severity, up_to: int = 0) -> str:
        """A row below a source line: characters at display columns, each in its label's colour."""
        out = self.bar() + " "
        end = max([up_to, *(at + 1 for at in cells)])
        for primary, group in groupby(range(end), key=lambda at: cells[at][1] if at in cells else None):
            text = "".join(cells[at][0] if at in cells else " " for at in group)
            out += text if primary is None else self.style(severity.value if primary else "secondary", text)
        return out

    def text(self, mark: _Mark, severity: Severity) -> str:
        """A label's text in its colour."""
        return self.style(severity.value if mark.primary else "secondary", mark.text)

    # ------------------------------------------------------------ notes and fixes

    def note(self, kind: str, text: str) -> list[str]:
        """` = note: ...`, wrapped, with what follows the first line indented under it."""
        head = f"{' ' * self.gutter} = {kind}: "
        room = max(20, self.width - len(head))
        wrapped = [
            piece
            for line in text.split("\n")
            for piece in textwrap.wrap(escape(line), room, break_long_words=False, break_on_hyphens=False) or [""]
        ]
        start = f"{' ' * self.gutter} {self.style('gutter', '=')} {self.style('message', kind)}: "
        return [start + wrapped[0], *(" " * len(head) + piece for piece in wrapped[1:])]

    def preview(self, fix: Fix) -> list[str]:
        """`help: ...` and the lines it changes, before and after."""
        lines = [self.bar()] if fix.edits else []
        lines.append(f"{self.style('help', 'help')}{self.style('message', f': {escape(fix.text)}')}")
        for file, edits in _by_file(fix.edits):
            lines.append(self.bar())
            lines += self.changes(file, edits)
        return lines

    def changes(self, file: SourceFile, edits: Sequence[Edit]) -> list[str]:
        """The changed lines of one file; of edits all over it, the first lines."""
        low = min(edit.span.line for edit in edits) - 1
        near = [edit for edit in edits if _last_line(edit.span) <= low + 2 * _SHOWN_LINES]
        more = len(near) < len(edits)
        edits = near or edits[:1]
        before = file.text.split("\n")
        after = edited(file.text, edits).split("\n")
        rest = len(before) - max(_last_line(edit.span) for edit in edits)
        old, new = before[low : len(before) - rest], after[low : len(after) - rest]
        lines: list[str] = []
        for kind, i, j, m, n in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if kind == "equal":
                continue
            lines += [self.change("removed", low + at + 1, old[at]) for at in range(i, j)]
            lines += [self.change("added", low + at + 1, new[at]) for at in range(m, n)]
        return [*lines, self.style("gutter", "...")] if more else lines

    def change(self, kind: str, number: int, line: str) -> str:
        """One removed or added line."""
        text = _cut(_Shown.of(line[: 4 * self.room]).text, self.room)
        sign = self.style(kind, "-" if kind == "removed" else "+")
        return f"{self.style('gutter', f'{number:>{self.gutter}}')} {sign} {text}"


def _marks(label: Label, primary: bool) -> list[tuple[int, _Mark]]:
    """A label as marks on single lines; of a long one the first lines and the last, the text on the last."""
    span = label.span
    first, last = span.line, _last_line(span)
    numbers = list(range(first, last + 1))
    if len(numbers) > _SHOWN_LINES:
        numbers = [*numbers[: _SHOWN_LINES - 2], last]
    marks: list[tuple[int, _Mark]] = []
    for number in numbers:
        line = span.file.line(number)
        at = span.file.line_starts[number - 1]
        indent = len(line) - len(line.lstrip())
        start = span.start - at if number == first else indent
        end = span.end - at if number == last else len(line.rstrip())
        if start < end or first == last:
            marks.append((number, _Mark(start, end, primary, "" if number != last else label.text)))
    return marks


def _last_line(span: Span) -> int:
    """1-based line of the span's last character."""
    return span.file.position(max(span.start, span.end - 1))[0]


def _by_file(placed: Sequence[P]) -> list[tuple[SourceFile, list[P]]]:
    """Labels or edits per file, files in the order in which they first appear."""
    groups: dict[SourceFile, list[P]] = {}
    for each in placed:
        groups.setdefault(each.span.file, []).append(each)
    return list(groups.items())


def _cut(text: str, width: int) -> str:
    """A displayed line in at most `width` columns, with an ellipsis where some of it is missing."""
    if columns(text) <= width:
        return text
    text = text[: width - 1]
    while columns(text) > width - 1:
        text = text[:-1]
    return text + "…"
