"""A kernel of products or of rows, or several: its launch, its inputs, what must come out of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from tkgen.api import load
from tkgen.backends.cdna.spec import Spec
from tkgen.backends.hopper.loop_spec import HopperLoopSpec
from tkgen.backends.spec import Named
from tkgen.emulate import Interleaving
from tkgen.execute import compare
from tkgen.execute import launch as products
from tkgen.execute.arguments import Sized, SizeError, launched, scalar_values
from tkgen.execute.blocks import run_blocks
from tkgen.execute.blocks import sample as of_products
from tkgen.execute.compare import Inputs, Reference
from tkgen.execute.given import Values
from tkgen.execute.launch import Run, emulate
from tkgen.ir.functions import CDNA
from tkgen.ir.launch import Launch, OneLaunch
from tkgen.ir.meaning import evaluate
from tkgen.ir.rounding import TORCH, unwritten
from tkgen.ir.types import Tensor
from tkgen.rows import run as rows
from tkgen.rows.build import RowBuild
from tkgen.rows.launch import RowLaunch, row_launch
from tkgen.rows.spec import LaidRows, RowSpec
from tkgen.rows.work import multiplied
from tkgen.sequence import run as sequences
from tkgen.sequence.build import SequenceBuild
from tkgen.sequence.launch import SequenceLaunch, sequence_launch
from tkgen.sequence.program import SequenceProgram
from tkgen.sequence.run import SequenceRun
from tkgen.sequence.spec import SequenceSpec

if TYPE_CHECKING:
    from tkgen.build import Build

    AnyBuild: TypeAlias = Build | RowBuild | SequenceBuild

AnySpec: TypeAlias = Spec | RowSpec | SequenceSpec
AnyLaunch: TypeAlias = Launch | RowLaunch | SequenceLaunch


@dataclass(frozen=True)
class Chosen:
    """A spec with the `-D` values that its code is built for, its launch, and its scalars.

    `extents` are the sizes of dynamic dimensions.
    """

    spec: AnySpec
    launch: AnyLaunch
    extents: dict[str, int]
    scalars: dict[str, float]


def chosen(path: Path, defines: Mapping[str, float | None], target: str | None, roots: Sequence[Path]) -> Chosen:
    """The spec at `path`, checked, and its launch, with `-D` values told apart by what they give.

    Raises:
        SpecError: the spec is wrong, or a value gives nothing that is there.
        SizeError: a size that the kernel cannot do, or a scalar without a value; a kernel that nothing emulates.
    """
    spec, values = valued(path, defines, target, roots)
    spec.check()
    launch, scalars = launch_of(spec, values.extents), scalar_values(spec.program, values.scalars)
    return Chosen(spec, launch, values.extents, scalars)


def valued(
    path: Path, defines: Mapping[str, float | None], target: str | None, roots: Sequence[Path]
) -> tuple[AnySpec, Values]:
    """The spec at `path` with the `-D` values that its code is built for, and all of them told apart.

    Raises:
        SpecError: the spec is wrong, or a value gives nothing that is there.
        SizeError: a size that is no whole number, or a `dynamic` scalar; a kernel that nothing emulates.
    """
    values = Values.of(emulated(load(path, None, target, roots)).program, defines)
    return emulated(load(path, values.static, target, roots)), values


def emulated(spec: object) -> AnySpec:
    """The spec, where it is one that the emulator runs. Raises SizeError for another."""
    if not isinstance(spec, Spec | RowSpec | SequenceSpec):
        raise SizeError("the referee runs kernels for AMD's GPUs")
    return spec


def launch_of(
    spec: AnySpec | LaidRows[Named] | HopperLoopSpec | Sized, given: Mapping[str, int] | None = None
) -> AnyLaunch:
    """The launch of `spec` at its own sizes, `given` ones for dynamic dimensions. Raises SizeError as `launched`."""
    if isinstance(spec, SequenceSpec):
        return sequence_launch(spec, given)
    if isinstance(spec, LaidRows | HopperLoopSpec):
        return row_launch(spec.program, spec.layout, given)
    return launched(spec, given)


def random_inputs(
    launch: AnyLaunch, seed: int = 0, kind: Inputs = Inputs.EXACT, back_end: str = CDNA
) -> dict[str, torch.Tensor]:
    """A random tensor for everything that is to be given, exact where `back_end` runs it."""
    if isinstance(launch, SequenceLaunch):
        return sequences.random_inputs(launch, seed, kind)
    if isinstance(launch, RowLaunch):
        return rows.random_inputs(launch, seed, kind)
    return compare.random_inputs(launch, seed, kind, back_end)


def references(
    launch: AnyLaunch, inputs: Mapping[str, torch.Tensor], scalars: Mapping[str, float], functions: str = CDNA
) -> dict[str, Reference]:
    """What is written, by name, in fp64, and the bound on each element's error: what its equations mean.

    `functions` says whose C++ of functions the code has.
    """
    if isinstance(launch, SequenceLaunch):
        return sequences.references(launch, inputs, scalars)
    if isinstance(launch, RowLaunch):
        found = evaluate(launch.program.kernel, inputs, scalars, launch.extents, functions)
        return {name: (result.value, result.bound) for name, result in found.items()}
    return compare.references(launch.program, inputs, scalars, functions)


def computed(
    build: AnyBuild, launch: AnyLaunch, inputs: Mapping[str, torch.Tensor], scalars: Mapping[str, float]
) -> dict[str, torch.Tensor]:
    """What the machine code writes on the emulator, by name; nothing is watched."""
    if isinstance(build, SequenceBuild):
        assert isinstance(launch, SequenceLaunch)
        return sequences.emulate(build, launch, inputs, scalars, watch=False)[0]
    assert not isinstance(launch, SequenceLaunch)
    return emulate(build, launch, inputs, scalars, watch=False)[0]


def written(launch: AnyLaunch) -> tuple[Tensor, ...]:
    """What a launch writes: the outputs, and what is between the kernels of a sequence."""
    program = launch.program
    return (*program.outputs, *program.between) if isinstance(program, SequenceProgram) else program.outputs


def memory(launch: AnyLaunch, inputs: Mapping[str, torch.Tensor], poison: bool = False) -> dict[str, torch.Tensor]:
    """All tensors that a launch on the device of `inputs` takes, by name: these, and what it writes.

    An output that is read, too, is a copy of what is given for it; others hold anything, or NaNs where `poison` says so
    and the kernel does not add to them.
    """
    device = next(iter(inputs.values())).device
    found = dict(inputs)
    for tensor in written(launch):
        if tensor.name in inputs:
            found[tensor.name] = inputs[tensor.name].clone(memory_format=torch.contiguous_format)
            continue
        found[tensor.name] = torch.empty(launch.shape(tensor), dtype=TORCH[tensor.dtype], device=device)
        if poison:
            adds = tensor.name in launch.program.added
            start = torch.zeros((), dtype=TORCH[tensor.dtype]) if adds else unwritten((), tensor.dtype)
            found[tensor.name].copy_(start)
    return found


def run(
    build: AnyBuild,
    blocks: Sequence[int] | None = None,
    *,
    extents: Mapping[str, int] | None = None,
    seed: int = 0,
    kind: Inputs = Inputs.EXACT,
    scalars: Mapping[str, float] | None = None,
    order: Interleaving | None = None,
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
) -> Run | SequenceRun:
    """Random inputs of that kind, a launch on the emulator, of these `blocks` alone where they are given, a comparison.

    Raises:
        SizeError: sizes that a kernel cannot do, a block that is not there, `blocks` of a sequence.
        EmulateError: a launch cannot start.
    """
    how: dict[str, Any] = {
        "extents": extents, "seed": seed, "kind": kind, "scalars": scalars, "order": order, "workers": workers,
        "progress": progress,
    }  # fmt: skip
    if isinstance(build, SequenceBuild):
        if blocks is not None:
            raise SizeError(f"{build.spec.name} is a sequence: blocks are those of one of its kernels")
        return sequences.run_sequence(build, **how)
    if isinstance(build, RowBuild):
        return rows.run_rows(build, blocks=blocks, **how)
    return products.run(build, **how) if blocks is None else run_blocks(build, blocks, **how)


def sample(spec: Spec | RowSpec) -> tuple[int, ...]:
    """Blocks worth running where there are many."""
    if isinstance(spec, RowSpec):
        return rows.sample(row_launch(spec.program, spec.layout))
    return of_products(launched(spec))


def launches(launch: AnyLaunch) -> tuple[Launch | RowLaunch, ...]:
    """The launches of single kernels."""
    return launch.launches if isinstance(launch, SequenceLaunch) else (launch,)


def work(launch: AnyLaunch) -> tuple[int, int]:
    """Floating-point operations of the products of a launch, and bytes that it reads and writes, each once."""
    moved = sum(map(launch.bytes, (*launch.program.reads, *launch.program.outputs)))
    return sum(map(_flops, launches(launch))), moved


def _flops(launch: OneLaunch) -> int:
    if isinstance(launch, RowLaunch):
        return multiplied(launch)
    if not isinstance(launch, Launch):
        return 0
    program = launch.program
    m, n, k = (launch.extents[d.name] for d in (program.m, program.n, program.k))
    return 2 * m * n * k * launch.factors * len(program.products)


def first(launch: AnyLaunch, count: int) -> AnyLaunch:
    """The launch of the first `count` kernels of a sequence; the whole of one kernel."""
    if not isinstance(launch, SequenceLaunch):
        return launch
    program = replace(launch.program, kernels=launch.program.kernels[:count])
    return replace(launch, program=program, launches=launch.launches[:count])
