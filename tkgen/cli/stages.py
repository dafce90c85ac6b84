"""`--print-after STAGE`: what stands between two stages of the compiler, as text."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tkgen.cli.common import USAGE, defines, fail, load_spec

if TYPE_CHECKING:
    from networkx import MultiDiGraph


class Stage(StrEnum):
    """A stage whose result can be printed."""

    PARSE = "parse"
    EQUATIONS = "equations"
    RESOLVE = "resolve"
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
    from tkgen.ir import program_text
    from tkgen.ir.equations import to_text
    from tkgen.ir.program import equations_of, program
    from tkgen.syntax.ast import Sequence as Several
    from tkgen.syntax.dump import dump
    from tkgen.syntax.parser import parse_spec

    parsed = parse_spec(path, roots or ())
    if stage is Stage.PARSE:
        return dump(parsed).rstrip("\n")
    if stage is Stage.EQUATIONS and not isinstance(parsed, Several):
        return to_text(equations_of(parsed, defines(define), target)).rstrip("\n")
    if stage is Stage.RESOLVE and not isinstance(parsed, Several):
        return program_text.to_text(program(parsed, defines(define), target)).rstrip("\n")
    found = load_spec(path, define, target, roots)
    if stage is Stage.LOWER:
        return found.text.rstrip("\n")
    if stage is Stage.SCHEDULE:
        return found.scheduled.rstrip("\n")
    return "\n\n".join(_of_kernel(stage, kernel) for kernel in found.kernels)


def graph_of(spec: Any) -> MultiDiGraph:
    """The dataflow graph of a kernel; ends the command where its target has none."""
    graph: MultiDiGraph | None = spec.graph
    if graph is None:
        message = f"there is no dataflow graph of kernels for {spec.target.name}"
        fail(f"{message}; their schedule is: `tkgen check {spec.path} --print-after schedule`", USAGE)
    return graph


def _of_kernel(stage: Stage, spec: Any) -> str:
    """What a stage makes of one kernel."""
    from tkgen.ir import graph, program_text
    from tkgen.ir.equations import to_text

    if stage is Stage.EQUATIONS:
        return to_text(spec.program.kernel).rstrip("\n")
    if stage is Stage.RESOLVE:
        return program_text.to_text(spec.program).rstrip("\n")
    return graph.to_text(graph_of(spec)).rstrip("\n")
