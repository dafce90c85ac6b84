"""`--print-after STAGE`: what stands between two stages of the compiler, as text."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tkgen.cli.common import defines, load_any_spec, load_spec


class Stage(StrEnum):
    """A stage whose result can be printed."""

    PARSE = "parse"
    EQUATIONS = "equations"
    GRAPH = "graph"
    SCHEDULE = "schedule"
    LOWER = "lower"


PrintAfter = Annotated[list[Stage] | None, typer.Option(help="Print what a stage left.")]


def stage_text(
    stage: Stage,
    path: Path,
    define: Sequence[str] | None,
    target: str | None,
    roots: Sequence[Path] | None,
) -> str:
    """What `stage` makes of a spec. Raises SpecError where it comes to none."""
    from tkgen.ir import graph
    from tkgen.ir.equations import to_text
    from tkgen.ir.program import equations_of
    from tkgen.rows import RowSpec
    from tkgen.syntax.dump import dump
    from tkgen.syntax.parser import parse_path

    if stage is Stage.PARSE:
        return dump(parse_path(path, roots or ())).rstrip("\n")
    if stage is Stage.EQUATIONS:
        return to_text(equations_of(parse_path(path, roots or ()), defines(define))).rstrip("\n")
    if stage is Stage.LOWER:
        return load_any_spec(path, define, target, roots).text.rstrip("\n")
    found = load_any_spec(path, define, target, roots)
    if isinstance(found, RowSpec):
        return to_text(found.program.kernel).rstrip("\n") if stage is Stage.GRAPH else found.layout.describe()
    spec = load_spec(path, define, target, roots)
    if stage is Stage.GRAPH:
        return graph.to_text(spec.plan.graph).rstrip("\n")
    return spec.plan.to_text().rstrip("\n")
