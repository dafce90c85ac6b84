"""Edits that fixes of diagnostics make in a spec: they replace characters, or whole lines with what is indented below.

Only spans of the text are known here, as diagnostics have them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tkgen.diagnostics.model import Edit
from tkgen.source import Span


def lines_of(span: Span) -> tuple[int, int]:
    """The beginning and the end of the lines of a span, their line end included."""
    text = span.file.text
    end = text.find("\n", span.end)
    return text.rfind("\n", 0, span.start) + 1, len(text) if end < 0 else end + 1


def indentation(line: str) -> int:
    """The spaces that a line begins with."""
    return len(line) - len(line.lstrip(" "))


def body_of(span: Span) -> Iterator[tuple[int, str]]:
    """The lines that are indented below a statement, blank ones between them too: where each begins, and its text."""
    begin, at = lines_of(span)
    text, depth, blank = span.file.text, indentation(span.file.text[begin : span.end]), list[tuple[int, str]]()
    for line in text[at:].splitlines(keepends=True):
        if line.strip() and indentation(line) <= depth:
            return
        blank.append((at, line))
        if line.strip():
            yield from blank
            blank.clear()
        at += len(line)


def without_statement(span: Span) -> tuple[Edit, ...]:
    """Leave a statement out, with its line and its body."""
    begin, end = lines_of(span)
    for at, line in body_of(span):
        end = at + len(line)
    text = span.file.text
    if text[:begin].endswith("\n\n") and text[end : end + 1] in ("", "\n"):
        begin -= 1  # one of the blank lines on both sides
    return (Edit(Span(span.file, begin, end), ""),)


def line_above(span: Span, line: str) -> tuple[Edit, ...]:
    """Insert a line above a statement, indented as it is."""
    begin, _ = lines_of(span)
    depth = indentation(span.file.text[begin : span.end])
    return (Edit(Span(span.file, begin, begin), f"{' ' * depth}{line}\n"),)


def line_below(span: Span, line: str) -> tuple[Edit, ...]:
    """Insert a line below a statement without a body, indented as it is."""
    begin, end = lines_of(span)
    text = span.file.text
    depth = indentation(text[begin : span.end])
    return (Edit(Span(span.file, end, end), f"{'' if text[:end].endswith(chr(10)) else chr(10)}{' ' * depth}{line}\n"),)


def without_option(span: Span, option: str) -> tuple[Edit, ...]:
    """Leave an option of a statement out, such as `via collective`; nothing where it is not there."""
    found = re.search(rf"\s+{option}\b\s*\w+", span.text)
    return () if found is None else (replaced(span, found.start(), found.end(), ""),)


def with_option(span: Span, option: str, value: str) -> tuple[Edit, ...]:
    """Give an option of a statement, such as `buffers 4`, another value; nothing where it is not there."""
    found = re.search(rf"\b{option}\s+(\w+)", span.text)
    return () if found is None else (replaced(span, found.start(1), found.end(1), value),)


def with_size(span: Span, size: int) -> tuple[Edit, ...]:
    """Give a declared dimension, `K = 1001`, another size; nothing where that is no plain number."""
    found = re.fullmatch(r"\w+\s*=\s*(\d+)", span.text)
    return () if found is None else (replaced(span, found.start(1), found.end(1), str(size)),)


def without_name(span: Span) -> tuple[Edit, ...]:
    """Leave a name out of a line of names such as `shared A, B buffers 2`; the line, where it is the only one."""
    begin, end = lines_of(span)
    text = span.file.text
    if before := re.search(r",[ \t]*$", text[begin : span.start]):
        return (Edit(Span(span.file, begin + before.start(), span.end), ""),)
    if after := re.match(r"[ \t]*,[ \t]*", text[span.end : end]):
        return (Edit(Span(span.file, span.start, span.end + after.end()), ""),)
    return without_statement(span)


def after_body(span: Span, header: Span) -> tuple[Edit, ...]:
    """Move a statement in the body of `header` behind that body, indented as `header` is."""
    begin, end = lines_of(span)
    text, body = span.file.text, list(body_of(header))
    depth = indentation(text[lines_of(header)[0] : header.end])
    line = " " * depth + text[begin:end].strip() + "\n"
    last = max(at + len(found) for at, found in body if found.strip())
    if last == end:
        return (Edit(Span(span.file, begin, end), line),)
    return Edit(Span(span.file, begin, end), ""), Edit(Span(span.file, last, last), line)


def also_for(span: Span, target: str) -> tuple[Edit, ...]:
    """Add a target to the line that names them."""
    return (Edit(Span(span.file, span.end, span.end), f", {target}"),)


def replaced(span: Span, begin: int, end: int, text: str) -> Edit:
    """Another text for these characters of a span."""
    return Edit(Span(span.file, span.start + begin, span.start + end), text)
