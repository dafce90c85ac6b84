"""Errors of later stages that earlier errors hide: those of the text in which the earlier ones are repaired.

A stage that refuses a spec ends its compilation. So the text is judged once more with a repair of each error: the edits
of its fix, or without the statement where a spec need not have it. An error that is found then counts only if it
touches no repaired line, so that it does not follow from a guess.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

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
    moved = (_moved(d, _Back(file, repaired, edits)) for d in judge(repaired) if d.severity is Severity.ERROR)
    return [*found, *(d for d in moved if d and d.primary and (d.code, d.primary.span) not in known)]


def _repairs(found: Sequence[Diagnostic], text: str) -> list[Edit]:
    """Edits that repair every error; none where an error has no repair, or two touch the same line."""
    edits: list[Edit] = []
    lines: set[tuple[int, int]] = set()
    for d in found:
        if d.severity is not Severity.ERROR:
            continue
        if d.primary is None or d.primary.span.file.text != text or d.code.startswith(UNREPAIRED):
            return []
        begin, end = lines_of(d.primary.span)
        mine = d.fix.edits if d.fix else ()
        if not mine and text[begin:end].split()[:1] and text[begin:end].split()[0] in OPTIONAL:
            mine = without_statement(d.primary.span)
        if not mine or any(e.span.file.text != text for e in mine):
            return []
        taken = {lines_of(e.span) for e in mine}
        if taken & lines:
            return []
        lines |= taken
        edits += mine
    return edits


@dataclass(frozen=True)
class _Back:
    """Places of a repaired text in the original `file`."""

    file: SourceFile
    repaired: str
    edits: Sequence[Edit]

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
        touched = any(lines_of(e.span)[0] < end and begin < lines_of(e.span)[1] for e in self.edits)
        return None if touched or moved.text != span.text else moved


def _moved(d: Diagnostic, back: _Back) -> Diagnostic | None:
    """A finding of the repaired text in the original one; None where it has to do with a repaired line."""
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
