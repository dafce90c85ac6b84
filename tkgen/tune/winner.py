"""The winner as a spec: parameters fixed, no `tune` clauses, includes put in place, a line on what was chosen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tkgen.source import SourceFile
from tkgen.syntax import ast, statements
from tkgen.syntax.format import format_source
from tkgen.syntax.parser import parse_spec

if TYPE_CHECKING:
    from tkgen.backends.protocol import Build, Spec
    from tkgen.tune.trial import Trial

_Edit = tuple[int, int, str]  # start, end, what stands there instead


def winner_text(
    spec: Spec,
    winner: Trial,
    build: Build | None,
    sizes: Mapping[str, int],
    product: str,
    roots: Sequence[Path] = (),
) -> str:
    """The formatted text of `spec` with the values of `winner`, which reads and builds like `build`.

    Its includes may reach `roots`; what comes of it stands alone and includes nothing. The figures of an `expect` line
    become those of the build; without one, they stay.
    """
    written = statements.together(parse_spec(spec.path, roots))
    file = written.name.span.file
    values = {n: v for n, v in spec.defines.items() if v is not None}
    text = _substituted(file, written.body, values)
    if build is not None:
        text = re.sub(r"(?m)^# expect .*$", lambda m: _expect(m[0], build), text)
    lines = text.split("\n")
    at = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return format_source(
        SourceFile("winner.tk", "\n".join([*lines[:at], _chosen(winner, sizes, product), *lines[at:]]))
    )


def _chosen(winner: Trial, sizes: Mapping[str, int], product: str) -> str:
    shape = " ".join(f"{n}={v}" for n, v in sizes.items())
    how = "measured" if winner.gpu_seconds is not None else "predicted"
    settings = winner.candidate.settings or "nothing to set"
    return f"# Chosen by tkgen tune for {shape} on {product} ({how} {winner.rank * 1e6:.1f} us): {settings}."


def _expect(line: str, build: Build) -> str:
    """An `expect` line with the build's own figures."""
    found = build.named_figures()
    return re.sub(r"([\w/]+) (<= )?\d+", lambda m: f"{m[1]} {m[2] or ''}{found[m[1]]}" if m[1] in found else m[0], line)


def _substituted(file: SourceFile, body: Iterable[ast.Statement], values: Mapping[str, int]) -> str:
    """The text of `file` with the edits of its statements."""
    text = file.text
    for start, end, new in sorted(_edits(file, body, values), reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _edits(file: SourceFile, body: Iterable[ast.Statement], values: Mapping[str, int]) -> list[_Edit]:
    edits: list[_Edit] = []
    for statement in body:
        match statement:
            case ast.Dims(bindings=bindings) | ast.Param(bindings=bindings):
                for binding in bindings:
                    if binding.name.id in values:
                        after = binding.name.span.end
                        edits.append((after, binding.span.end, f" = {values[binding.name.id]}"))
            case ast.Tune(span=span):
                start = file.text.rfind("\n", 0, span.start) + 1
                end = file.text.find("\n", span.end)
                edits.append((start, len(file.text) if end < 0 else end + 1, ""))
            case ast.Include(span=span):
                edits.append((span.start, span.end, _included(file, statement, values)))
            case ast.Role(body=inner):
                edits += _edits(file, inner, values)
    return edits


def _included(file: SourceFile, include: ast.Include, values: Mapping[str, int]) -> str:
    """The statements of an included file, indented like the include."""
    if not include.body:
        return ""
    text = _substituted(include.body[0].span.file, include.body, values)
    margin = " " * (include.span.start - file.text.rfind("\n", 0, include.span.start) - 1)
    lines = [margin + line if line.strip() else "" for line in text.strip("\n").split("\n")]
    return "\n".join(lines).removeprefix(margin)
