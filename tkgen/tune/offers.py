"""What a search that had nothing to vary offers: its specs with their numbers as parameters to tune."""

from __future__ import annotations

from pathlib import Path

from tkgen.api import load_kernel
from tkgen.edits import tunable
from tkgen.syntax import ast
from tkgen.syntax.parser import parse_spec
from tkgen.toolchain.files import write_atomic
from tkgen.tune.engine import Outcome, Request


def offered(request: Request, outcome: Outcome) -> dict[Path, Path]:
    """Specs of which nothing varied, each with a file written for it that has its numbers as parameters to tune.

    Raises:
        SpecError: a spec is wrong without the values of the request.
    """
    if outcome.space_size != len(request.specs) or request.directory is None:
        return {}
    found: dict[Path, Path] = {}
    for spec in request.specs:
        if isinstance(parse_spec(spec, request.include_roots), ast.Sequence):
            continue  # which numbers of several kernels belong together is the user's to say
        kernel = load_kernel(spec, None, request.target, request.include_roots)
        text = tunable(kernel, request.include_roots)
        if text:
            found[spec] = request.directory / f"{spec.stem}_tunable.tk"
            write_atomic(found[spec], text)
    return found
