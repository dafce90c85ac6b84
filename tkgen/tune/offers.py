"""The offers of a search that had nothing to vary: its specs with their numbers as parameters to tune."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tkgen.api import load
from tkgen.backends.registry import backend_of
from tkgen.backends.spec import AnySpec
from tkgen.edits import tunable, worded
from tkgen.toolchain.files import write_atomic
from tkgen.tune.engine import Outcome, Request
from tkgen.tune.evaluate import editable


def searched(path: Path, spec: AnySpec, roots: Sequence[Path] = ()) -> tuple[Path, ...]:
    """Files beside `path`, the spec's own, that have its numbers as parameters to tune; none where no number varies.

    Of fused matmuls, such as attention, there is one for each schedule and way to LDS that the checks let pass.
    """
    if not backend_of(spec.target.name).emulated:
        return ()
    texts = {name: tunable(one, roots) for name, one in ({"": spec} | worded(spec, roots)).items()}
    files = {path.with_name(f"{path.stem}_{name or 'own'}.tk"): text for name, text in texts.items() if text}
    for file, text in files.items():
        write_atomic(file, text)
    return tuple(files)


def offered(request: Request, outcome: Outcome) -> dict[Path, tuple[Path, ...]]:
    """Specs of which nothing varied, each with files written for it that have its numbers as parameters to tune.

    The first is the spec itself; of fused matmuls, such as attention, there is one for each schedule and way to LDS
    that the checks let pass, too.

    Raises:
        SpecError: a spec is wrong without the values of the request.
    """
    if outcome.space_size != len(request.specs) or request.directory is None:
        return {}
    found: dict[Path, tuple[Path, ...]] = {}
    for path in request.specs:
        spec = editable(load(path, None, request.target, request.include_roots))
        texts = {
            request.directory / f"{'_'.join(filter(None, (path.stem, name)))}_tunable.tk": tunable(
                one, request.include_roots
            )
            for name, one in ({"": spec} | worded(spec, request.include_roots)).items()
        }
        files = {file: text for file, text in texts.items() if text}
        for file, text in files.items():
            write_atomic(file, text)
        if files:
            found[path] = tuple(files)
    return found
