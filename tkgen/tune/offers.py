"""What a search that had nothing to vary offers: its specs with their numbers as parameters to tune."""

from __future__ import annotations

from pathlib import Path

from tkgen.api import load
from tkgen.edits import tunable
from tkgen.toolchain.files import write_atomic
from tkgen.tune.engine import Outcome, Request
from tkgen.tune.evaluate import taken


def offered(request: Request, outcome: Outcome) -> dict[Path, Path]:
    """Specs of which nothing varied, each with a file written for it that has its numbers as parameters to tune.

    Raises:
        SpecError: a spec is wrong without the values of the request.
    """
    if outcome.space_size != len(request.specs) or request.directory is None:
        return {}
    found: dict[Path, Path] = {}
    for spec in request.specs:
        text = tunable(taken(load(spec, None, request.target, request.include_roots)), request.include_roots)
        if text:
            found[spec] = request.directory / f"{spec.stem}_tunable.tk"
            write_atomic(found[spec], text)
    return found
