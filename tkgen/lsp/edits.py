"""Edits that an editor asks for: formatting, and the fixes of diagnostics."""

from __future__ import annotations

from collections.abc import Iterable

from tkgen.diagnostics import Diagnostic, Edit, Fix, SpecError
from tkgen.diagnostics.fixes import apply_fixes
from tkgen.source import SourceFile, Span
from tkgen.syntax.format import format_source


def formatting(file: SourceFile) -> list[Edit]:
    """The edit that formats a file; none where it is formatted or has syntax errors.

    The line ends stay what they are.
    """
    try:
        text = format_source(SourceFile(file.name, file.text.replace("\r\n", "\n")))
    except SpecError:
        return []
    if file.text.count("\r\n") * 2 > file.text.count("\n"):
        text = text.replace("\n", "\r\n")
    return replacement(file, text)


def fix_all(file: SourceFile, diagnostics: Iterable[Diagnostic]) -> list[Edit]:
    """The edit that makes all certain fixes within a file that do not get into each other's way."""
    return replacement(file, apply_fixes(file.text, diagnostics))


def replacement(file: SourceFile, text: str) -> list[Edit]:
    """The edit that turns the file's text into `text` and leaves equal lines at both ends alone; none if all are."""
    old, new = file.text.splitlines(keepends=True), text.splitlines(keepends=True)
    shorter = min(len(old), len(new))
    same = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    behind = next((i for i in range(shorter - same) if old[-1 - i] != new[-1 - i]), shorter - same)
    if same == len(old) == len(new):
        return []
    start, end = sum(map(len, old[:same])), len(file.text) - sum(map(len, old[len(old) - behind :]))
    return [Edit(Span(file, start, end), "".join(new[same : len(new) - behind]))]


def fixes(diagnostics: Iterable[Diagnostic]) -> list[tuple[Diagnostic, Fix]]:
    """The diagnostics whose fix can be applied, certain or a guess, and the fix."""
    return [(d, d.fix) for d in diagnostics if d.fix is not None and d.fix.edits]
