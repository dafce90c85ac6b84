"""Edits of a spec, tried: each checked, compiled and predicted beside the spec as it is.

>>> for tried in try_edits(spec, "MI325X"):
...     print(tried.name, tried.speedup)  # `buffers 2`, 1.04
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tkgen.api import load
from tkgen.backends.spec import AnySpec
from tkgen.diagnostics import SpecError
from tkgen.edits import Change, changes, passes
from tkgen.toolchain.compiler import ToolchainError
from tkgen.tune.evaluate import editable
from tkgen.tune.executor import executor

WORTH = 1.005  # less is no gain
SAME = 1e-4  # of the time: a schedule that tkgen chooses anyway, written down


@dataclass(frozen=True)
class Tried:
    """An edit that passes the checks: how long the kernel takes with it, and how many times as fast it is then."""

    name: str
    seconds: float
    speedup: float


def render_edits(tried: Sequence[Tried], path: Path, console: Console) -> None:
    """Print what edits of the spec at `path` would bring, and the command that applies the best."""
    table = Table(title="edits that would change it")
    for heading in ("edit", "time", "change"):
        table.add_column(heading, justify="left" if heading == "edit" else "right")
    for t in tried:
        table.add_row(t.name, f"{t.seconds * 1e6:.1f} us", f"{(t.speedup - 1) * 100:+.1f} %")
    console.print(table)
    if tried and tried[0].speedup > WORTH:
        console.print(f"apply one: tkgen predict {path} --apply {shlex.quote(tried[0].name)}", soft_wrap=True)
    else:
        console.print("no edit of one number or word makes it faster")


@dataclass(frozen=True)
class _Job:
    """The data that a worker needs to predict one text of a spec."""

    path: Path
    text: str
    defines: Mapping[str, int | None]
    target: str
    product: str | None
    sizes: Mapping[str, int]
    cxx: str | None
    roots: tuple[Path, ...]


def try_edits(
    spec: AnySpec,
    seconds: float,
    product: str | None = None,
    sizes: Mapping[str, int] | None = None,
    *,
    cxx: str | None = None,
    roots: tuple[Path, ...] = (),
    jobs: int = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[Tried, ...]:
    """Predict the effect of each edit of `spec`, the best first; the spec itself is predicted to take `seconds`.

    `sizes` gives its dynamic dimensions. Edits that the checks refuse, that do not compile, spill, or cannot be
    predicted, or change nothing, are left out.
    """
    wanted = [c for c in changes(spec, roots) if passes(spec, c.text, roots)]
    found: list[Tried] = []
    progress(0, len(wanted))
    with executor("process", min(jobs, max(len(wanted), 1))) as pool:
        futures = {pool.submit(_predicted, _job(spec, c, product, sizes or {}, cxx, roots)): c for c in wanted}
        for done, future in enumerate(as_completed(futures), 1):
            result = future.result()
            if result is not None and abs(seconds / result - 1) > SAME:
                found.append(Tried(futures[future].name, result, seconds / result))
            progress(done, len(wanted))
    return tuple(sorted(found, key=lambda t: (t.seconds, t.name)))


def _job(
    spec: AnySpec,
    change: Change,
    product: str | None,
    sizes: Mapping[str, int],
    cxx: str | None,
    roots: tuple[Path, ...],
) -> _Job:
    return _Job(spec.path, change.text, spec.defines, spec.target.name, product, sizes, cxx, roots)


def _predicted(job: _Job) -> float | None:
    """Seconds of one text; None where there are none to be had."""
    from tkgen.predict import PredictError, predict

    try:
        spec = editable(load(job.path, job.defines, job.target, job.roots, text=job.text)).check()
        found = predict(spec.build(cxx=job.cxx).check(), job.sizes, job.product, what_if=False)
    except (SpecError, ToolchainError, PredictError, ValueError):
        return None
    return found.seconds
