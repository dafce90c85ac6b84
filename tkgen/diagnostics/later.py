"""Errors of later stages that earlier errors hide: those of the text in which the earlier ones are repaired.

A stage that refuses a spec ends its compilation. So the text is judged once more with a repair of each error: the edits
of its fix, or without the statement where a spec need not have it, or with 0 for a name in an equation that nothing
defines. An error that is found then counts only if it touches no repaired line, so that it does not follow from a
guess. Of a fix that touches one the words are left.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tkgen.diagnostics.edits import lines_of, without_statement
from tkgen.diagnostics.fixes import edited
from tkgen.diagnostics.model import Diagnostic, Edit, Label, Severity
from tkgen.source import SourceFile, Span

OPTIONAL = frozenset({"epilogue", "occupancy", "remap", "grid", "clusters", "stream", "unroll"})
"""First words of statements without which a spec is complete, and no other line is refused."""
UNREPAIRED = (
    "E1",
    "E209",
)  # the grammar's errors are said beside others; a size that is a guess decides about many lines
UNDEFINED = "E200"
FOLLOWING = ("E200", "E22", "E233", "E234", "E602")  # of equations, whose axes and values 0 may not have


def with_later(
    found: Sequence[Diagnostic], text: str, judge: Callable[[str], Iterable[Diagnostic]]
) -> list[Diagnostic]:
    """The errors of a text, and those of later stages that do not depend on them; `judge` finds those of a text."""
    edits = _repairs(found, text)
    if not edits:
        return list(found)
    repaired = edited(text, edits)
    file = edits[0].span.file
    known = {(d.code, d.primary.span) for d in found if d.primary}
    guessed = any(e.text == "0" for e in edits)
    later = (d for d in judge(repaired) if d.severity is Severity.ERROR)
    moved = (_moved(d, _Back(file, repaired, edits)) for d in later if not (guessed and d.code.startswith(FOLLOWING)))
    return [*found, *(d for d in moved if d and d.primary and (d.code, d.primary.span) not in known)]


def _repairs(found: Sequence[Diagnostic], text: str) -> list[Edit]:
    """Edits that repair every error; none where an error has no repair, or two touch the same line otherwise."""
    edits: dict[tuple[int, int], tuple[Edit, ...]] = {}  # of a line; several errors may have the same repair
    for d in found:
        if d.severity is not Severity.ERROR:
            continue
        if d.primary is None or d.primary.span.file.text != text or d.code.startswith(UNREPAIRED):
            return []
        mine = _repair(d, d.primary.span, text)
        if not mine or any(e.span.file.text != text for e in mine):
            return []
        for line in {_lines(e.span) for e in mine}:
            own = tuple(e for e in mine if _lines(e.span) == line)
            if edits.setdefault(line, own) != own:
                if _first_word(text, line) not in OPTIONAL:
                    return []
                edits[line] = without_statement(d.primary.span)
    return [e for own in edits.values() for e in own]


def _repair(d: Diagnostic, at: Span, text: str) -> tuple[Edit, ...]:
    """Edits that repair an error; none where there are none to be known."""
    if d.fix and d.fix.edits:
        return d.fix.edits
    line = lines_of(at)
    if _first_word(text, line) in OPTIONAL:
        return without_statement(at)
    in_equation = re.search(r"[\w\]] = ", text[line[0] : at.start]) is not None
    return (Edit(at, "0"),) if d.code == UNDEFINED and at.text.isidentifier() and in_equation else ()


def _lines(of: Span) -> tuple[int, int]:
    """Begin and end of the lines of an edit; of a line that is removed with its end not the next one."""
    return lines_of(Span(of.file, of.start, of.end - (of.end > of.start and of.text.endswith("\n"))))


def _first_word(text: str, line: tuple[int, int]) -> str:
    return (text[slice(*line)].split() or [""])[0]


@dataclass(frozen=True)
class _Back:
    """Places of a repaired text in the original `file`."""

    file: SourceFile
    repaired: str
    edits: Sequence[Edit]

    @cached_property
    def lines(self) -> list[tuple[int, int]]:
        """Begin and end of the lines that are repaired."""
        return [_lines(e.span) for e in self.edits]

    def span(self, span: Span) -> Span | None:
        """The span in the original; None where it touches a repaired line. Spans of other files stay."""
        if span.file.text != self.repaired:
            return span
        ends, shifts, shift = [], [], 0
        for edit in sorted(self.edits, key=lambda e: e.span.start):
            shift += len(edit.text) - (edit.span.end - edit.span.start)
            ends.append(edit.span.start + shift + edit.span.end - edit.span.start)
            shifts.append(shift)
        before = bisect_right(ends, span.start)
        start = span.start - (shifts[before - 1] if before else 0)
        moved = Span(self.file, start, start + span.end - span.start)
        begin, end = lines_of(moved)
        touched = any(first < end and begin < last for first, last in self.lines)
        return None if touched or moved.text != span.text else moved


def _moved(d: Diagnostic, back: _Back) -> Diagnostic | None:
    """A finding of the repaired text in the original one; None where it has to do with a repaired line."""
    if d.fix and any(back.span(e.span) is None for e in d.fix.edits):
        d = replace(d, fix=replace(d.fix, edits=()))
    spans = {span: back.span(span) for span in _spans(d)}
    if any(span is None for span in spans.values()):
        return None

    def label(at: Label) -> Label:
        return replace(at, span=spans[at.span] or at.span)

    edits = tuple(Edit(spans[e.span] or e.span, e.text) for e in d.fix.edits) if d.fix else ()
    steps = tuple(replace(s, span=s.span and spans[s.span]) for s in d.interleaving)
    return replace(
        d, primary=d.primary and label(d.primary), secondary=tuple(map(label, d.secondary)),
        fix=d.fix and replace(d.fix, edits=edits), interleaving=steps,
    )  # fmt: skip


def _spans(d: Diagnostic) -> Iterator[Span]:
    """All places that a finding names."""
    yield from (at.span for at in (d.primary, *d.secondary) if at)
    yield from (e.span for e in (d.fix.edits if d.fix else ()))
    yield from (s.span for s in d.interleaving if s.span)
