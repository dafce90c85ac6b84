"""Applying the edits that fixes suggest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from tkgen.diagnostics.model import Diagnostic, Edit, Severity


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


def harmless_fixes(
    file_text: str,
    found: Sequence[Diagnostic],
    judge: Callable[[str], Sequence[Diagnostic]],
    builds: Callable[[str], bool],
    guesses: bool = False,
) -> str:
    """The text with the certain fixes made that make nothing worse; `guesses`: the others, too.

    `judge` says what is found in a text, `builds` whether one without errors builds as well as before. All fixes
    together where that will do, else one after the other, without those that bring errors up or do not build.
    """

    def harmless(text: str) -> bool:
        return not _worse(found, judge(text)) and builds(text)

    whole = apply_fixes(file_text, found, guesses)
    if whole == file_text or harmless(whole):
        return whole
    kept: list[Diagnostic] = []
    mended = file_text
    for diagnostic in found:
        tried = apply_fixes(file_text, [*kept, diagnostic], guesses)
        if tried != mended and harmless(tried):
            kept.append(diagnostic)
            mended = tried
    return mended


def _worse(before: Iterable[Diagnostic], after: Iterable[Diagnostic]) -> bool:
    """Return True if there are errors now that there were not before, and that none of an earlier stage had hidden."""
    had, has = (Counter(d.code for d in each if d.severity is Severity.ERROR) for each in (before, after))
    return bool(has - had) and not any(code.startswith(("E1", "E2")) for code in had)


def _overlap(a: Edit, b: Edit) -> bool:
    """Return True if two edits touch the same characters or insert at the same place."""
    return max(a.span.start, b.span.start) < min(a.span.end, b.span.end) or a.span.start == b.span.start
