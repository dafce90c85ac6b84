"""Edits of a spec that give its block other sides, by the `block` clause or by the tiles of axes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tkgen.diagnostics import Edit
from tkgen.ir.types import Program
from tkgen.source import Span

_TILE = re.compile(r"\s+in\b[^,\n#]*?\bby\s+(\w+)(?=\s*(?:,|#|\n|$|from\b|to\b|part\b))")


def resized(program: Program, block: tuple[int, int, int]) -> Iterator[Edit]:
    """Give the block other sides."""
    equations = program.equations
    axes = (equations.rows, equations.cols, equations.contraction)
    clause = program.spans["block"].text.startswith("block")
    for axis, old, new in zip(axes, program.block, block, strict=True):
        if old != new and axis.span is not None:
            yield from (Edit(axis.span, str(new)),) if clause else tiled(axis.span, new)


def tiled(span: Span, size: int) -> Iterator[Edit]:
    """Give an axis of equations, whose name `span` is, another tile."""
    if found := _TILE.match(span.file.text, span.end):
        yield Edit(Span(span.file, *found.span(1)), str(size))
