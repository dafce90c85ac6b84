"""Applying the edits that fixes suggest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tkgen.diagnostics.model import Diagnostic, Edit


def edited(text: str, edits: Sequence[Edit]) -> str:
    """The text with these edits made. They must not overlap."""
    pieces: list[str] = []
    position = 0
    for edit in sorted(edits, key=lambda e: (e.span.start, e.span.end)):
        pieces += (text[position : edit.span.start], edit.text)
        position = edit.span.end
    return "".join([*pieces, text[position:]])


def apply_fixes(file_text: str, diagnostics: Iterable[Diagnostic], guesses: bool = False) -> str:
    """The text of a file with all certain fixes made that lie in it entirely; `guesses`: the others, too.

    A fix is made whole or not at all: one that overlaps an earlier one, or reaches into another file, is left out.
    """
    chosen: list[Edit] = []
    for diagnostic in diagnostics:
        edits = diagnostic.fix.edits if diagnostic.fix and (diagnostic.fix.certain or guesses) else ()
        if all(e.span.file.text == file_text for e in edits) and not any(
            _overlap(e, other) for e in edits for other in chosen
        ):
            chosen += edits
    return edited(file_text, chosen)


def _overlap(a: Edit, b: Edit) -> bool:
    """Whether two edits touch the same characters or insert at the same place."""
    return max(a.span.start, b.span.start) < min(a.span.end, b.span.end) or a.span.start == b.span.start
