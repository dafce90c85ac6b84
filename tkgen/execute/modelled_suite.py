"""The regression run of a kernel suite without a GPU, where nothing emulates the machine code.

Its generated C++, or the model of its schedule, runs at several sizes and in several orders, against its equations.

For each spec the same is tried as on a GPU (`gpu_suite`), except for what only machine code can get wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from tkgen.api import load, target_of
from tkgen.backends import protocol
from tkgen.backends.registry import backend_of
from tkgen.diagnostics import SpecError
from tkgen.execute import gpu_suite
from tkgen.execute.admitted import small
from tkgen.execute.arguments import check_scalars
from tkgen.execute.cases import size_cases
from tkgen.execute.given import Asked
from tkgen.execute.modelled import trials
from tkgen.execute.rows import Row, run_spec
from tkgen.execute.suites import Result, attempted
from tkgen.targets import UnknownTargetError


def takes(path: Path, target: str | None) -> bool:
    """Return True if a spec is for a target whose schedules are modelled; of what is wrong nothing is said here."""
    try:
        return backend_of(target_of(path, target)).interpreter is not None
    except (SpecError, UnknownTargetError, OSError):
        return False


def regression(
    path: Path, *, target: str | None = None, schedules: int = 5, generated: Path | None = None, cxx: str | None = None,
    seed: int = 0, executor: str = "",
) -> list[Result]:  # fmt: skip
    """Everything the regression run tries on one spec; `schedules` are orders of its agents.

    `executor` as in `modelled.trials`.
    """
    name = target_of(path, target)

    def numbers(values: Mapping[str, int]) -> str:
        found = Asked(path, {**check_scalars(load(path, None, name).program), **values}, name).chosen()
        tried = trials(backend_of(name), found, schedules, seed, executor=executor)
        return next((f"{t.order}: {t.failure}" for t in tried if t.failure), "")

    return attempted(path, name, cxx, sizes, numbers, partial(gpu_suite.shipped, numbers=numbers), generated)


def compared(asked: Asked, draws: int, schedules: int, seed: int) -> list[Row]:
    """Launches of the generated C++ with as many inputs, each in as many orders: at small sizes, or those of `-D`.

    Raises:
        SpecError, SizeError, ToolchainError: as `run_spec`.
    """
    if not asked.defines:
        spec = asked.load()
        found = small(spec, lambda static: asked.load(static).check())
        asked = replace(asked, defines={**check_scalars(spec.program), **one_matrix(spec), **found})
    each = [run_spec(asked, "emulator", seed + n, schedules, 1, None) for n in range(draws)]
    return [row for rows in each for row in rows]


def sizes(spec: protocol.Spec) -> list[dict[str, int]]:
    """Those of a GPU, with one matrix where a kernel takes long for each."""
    return [one_matrix(spec) | case for case in size_cases(spec)]


def one_matrix(spec: protocol.Spec) -> dict[str, int]:
    """Sizes of indices with one place, where a kernel takes long for each."""
    return {name: size for kernel in spec.kernels for name, size in kernel.one_matrix.items()}
