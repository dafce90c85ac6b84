"""A kernel of either kind, of matrix products or of rows: its launch, its inputs, what must come out of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import torch

from tkgen.api import load
from tkgen.backends.cdna.spec import Spec
from tkgen.execute import compare
from tkgen.execute.arguments import SizeError, check_sizes, launched, scalar_values
from tkgen.execute.compare import Inputs, Reference
from tkgen.execute.given import Values
from tkgen.ir.launch import Launch
from tkgen.ir.meaning import evaluate
from tkgen.rows import run as rows
from tkgen.rows.launch import RowLaunch, row_launch
from tkgen.rows.spec import RowSpec

if TYPE_CHECKING:
    from tkgen.build import Build
    from tkgen.rows.build import RowBuild

    AnyBuild: TypeAlias = Build | RowBuild

AnySpec: TypeAlias = Spec | RowSpec
AnyLaunch: TypeAlias = Launch | RowLaunch


@dataclass(frozen=True)
class Chosen:
    """A spec with the `-D` values that its code is built for, its launch, and its scalars."""

    spec: AnySpec
    launch: AnyLaunch
    scalars: dict[str, float]


def chosen(path: Path, defines: Mapping[str, float | None], target: str | None, roots: Sequence[Path]) -> Chosen:
    """The spec at `path`, checked, and its launch, with `-D` values told apart by what they give.

    Raises:
        SpecError: the spec is wrong, or a value gives nothing that is there.
        SizeError: a size that the kernel cannot do, or a scalar without a value; a kernel that nothing emulates.
    """
    values = Values.of(_emulated(load(path, None, target, roots)).program, defines)
    spec = _emulated(load(path, values.static, target, roots)).check()
    return Chosen(spec, launch_of(spec, values.extents), scalar_values(spec.program, values.scalars))


def _emulated(spec: object) -> AnySpec:
    if not isinstance(spec, Spec | RowSpec):
        raise SizeError("the referee runs kernels for AMD's GPUs, one at a time")
    return spec


def launch_of(spec: AnySpec, given: Mapping[str, int] | None = None) -> AnyLaunch:
    """The launch of `spec` at its own sizes, `given` ones for dynamic dimensions. Raises SizeError as `launched`."""
    return row_launch(spec.program, spec.layout, given) if isinstance(spec, RowSpec) else launched(spec, given)


def sized(spec: AnySpec, extents: Mapping[str, int]) -> AnyLaunch:
    """The launch of `spec` where all sizes are known. Raises SizeError for those that the kernel cannot do."""
    if isinstance(spec, RowSpec):
        return row_launch(spec.program, spec.layout, extents)
    check_sizes(spec.plan, extents)
    return Launch(spec.program, extents)


def random_inputs(launch: AnyLaunch, seed: int = 0, kind: Inputs = Inputs.EXACT) -> dict[str, torch.Tensor]:
    """A random tensor for everything that the kernel reads."""
    if isinstance(launch, RowLaunch):
        return rows.random_inputs(launch, seed, kind)
    return compare.random_inputs(launch, seed, kind)


def references(
    launch: AnyLaunch, inputs: Mapping[str, torch.Tensor], scalars: Mapping[str, float]
) -> dict[str, Reference]:
    """Each output in fp64, by name, and the bound on each element's error: what its equations mean."""
    if isinstance(launch, RowLaunch):
        found = evaluate(launch.program.kernel, inputs, scalars, launch.extents)
        return {name: (result.value, result.bound) for name, result in found.items()}
    return compare.references(launch.program, inputs, scalars)
