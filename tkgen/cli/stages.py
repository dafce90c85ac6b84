"""`--print-after STAGE`: the values between the stages of `tkgen.pipeline`, as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tkgen import pipeline
from tkgen.cli.common import defines, refuse_early, say
from tkgen.pipeline import PRINTED, Request, Stage


def _known(names: list[str] | None) -> list[str] | None:
    """The names, in the order of stages. Raises BadParameter for one that no stage prints."""
    for name in names or ():
        if name not in PRINTED:
            raise typer.BadParameter(f"'{name}' is not one of {', '.join(map(repr, PRINTED))}.")
    return names and sorted(names, key=PRINTED.index)


PrintAfter = Annotated[
    list[str] | None,
    typer.Option(metavar=f"[{'|'.join(PRINTED)}]", callback=_known, help="Print the result of a stage."),
]


def go_along(
    path: Path,
    define: Sequence[str] | None,
    target: str | None,
    roots: Sequence[Path] | None,
    to: Stage[Any, Any],
    wanted: Iterable[str] = (),
) -> Any:
    """Run the stages for a spec up to `to`, and print the texts `wanted` of each; the value of the last stage.

    Raises:
        SpecError: a stage finds an error. The results of earlier stages are printed.
    """
    refuse_early(path, define, roots)
    value: Any = None
    for stage, value in pipeline.along(Request(path, defines(define), target, roots or ()), to):
        say_stage(stage, value, wanted)
    return value


def say_stage(stage: Stage[Any, Any], value: Any, wanted: Iterable[str]) -> None:
    """Print the texts `wanted` of a stage's value."""
    for name in wanted:
        if name in stage.prints:
            say(stage.prints[name](value).rstrip("\n"))
