"""Run a built kernel on the emulator with random inputs and compare it with torch, as `numerics` judges it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from tkgen.calls import grid as grid
from tkgen.calls import packed, read_names
from tkgen.emulate import Buffer, Outcome, Struct, launch
from tkgen.emulate import Interleaving as Interleaving
from tkgen.emulate import interleavings as interleavings
from tkgen.ir.limits import requirements
from tkgen.ir.types import Program
from tkgen.numerics import TORCH, Comparison, Inputs, compare, random_inputs, reference

if TYPE_CHECKING:
    from tkgen.build import Build


class SizeError(ValueError):
    """A size or a scalar argument is missing, or is one that the kernel cannot do."""


@dataclass(frozen=True)
class Run:
    """One emulated launch: the output, how it compares, what the referee saw."""

    sizes: Mapping[str, int]
    output: torch.Tensor = field(repr=False)
    comparison: Comparison
    outcome: Outcome = field(repr=False)

    @property
    def ok(self) -> bool:
        """The numbers are right and nothing was found."""
        return self.comparison.right and not self.outcome.findings


def trials(count: int) -> Iterator[tuple[Interleaving, Inputs]]:
    """`count` orders of the waves, and in turn both kinds of inputs."""
    for number, order in enumerate(interleavings(count)):
        yield order, (Inputs.EXACT, Inputs.NORMAL)[number % 2]


def sizes(program: Program, given: Mapping[str, int] | None = None) -> dict[str, int]:
    """Every dimension's size: the spec's own, or `given` for dynamic ones.

    Raises:
        SizeError: a dynamic dimension without a size, or a size the kernel cannot do.
    """
    found = {}
    for dim in program.dims:
        size = dim.size if dim.size is not None else (given or {}).get(dim.name)
        if size is None:
            raise SizeError(f"{dim.name} is dynamic: give its size")
        found[dim.name] = size
    return found


def check_memory(program: Program, extents: Mapping[str, int]) -> None:
    """Raises SizeError where a run with random inputs at these sizes would not fit the memory that is free here.

    An input is there as it is, as fp32 and as fp64, an output four times as fp64: result, reference, bound, error.
    """
    free = _free_memory()
    reads = read_names(program) - {program.accumulator.tensor.name}
    need = sum((t.dtype.bytes + 12) * prod(extents[d.name] for d in t.dims) for t in program.tensors if t.name in reads)
    need += 32 * extents[program.m.name] * extents[program.n.name]
    if free is not None and need > free:
        given = " ".join(f"{n}={size}" for n, size in extents.items())
        raise SizeError(f"{given}: such tensors and their reference take {need / 2**30:.3g} GiB, "
                        f"{free / 2**30:.3g} GiB are free here")  # fmt: skip


def _free_memory() -> int | None:
    """Bytes that can be had without swapping (Linux); None where nothing says so."""
    try:
        found = re.search(r"^MemAvailable: *(\d+) kB", Path("/proc/meminfo").read_text("ascii"), re.MULTILINE)
    except (OSError, ValueError):
        return None
    return int(found[1]) * 1024 if found else None


def scalar_values(program: Program, given: Mapping[str, float] | None = None) -> dict[str, float]:
    """A value for every scalar argument: given, or its default. Raises SizeError where neither is there."""
    values = {}
    for scalar in program.scalars:
        value = (given or {}).get(scalar.name, scalar.default)
        if value is None:
            raise SizeError(f"scalar {scalar.name} has no default: give it a value, such as -D {scalar.name}=0.5")
        values[scalar.name] = float(value)
    return values


def check_scalars(program: Program) -> dict[str, float]:
    """Values for a check that nobody gives any: the defaults, and a half where there is none."""
    return {s.name: 0.5 if s.default is None else s.default for s in program.scalars}


def arguments(
    program: Program, tensors: Mapping[str, torch.Tensor], extents: Mapping[str, int], scalars: Mapping[str, float]
) -> Struct:
    """The kernel's one argument, over tensors by name."""
    return packed(program, {name: Buffer(tensor, name=name) for name, tensor in tensors.items()}, extents, scalars)


def check_sizes(program: Program, unroll: int, tail_iterations: int, extents: Mapping[str, int]) -> None:
    """What the generated host code checks for dynamic sizes. Raises SizeError naming the requirement."""
    for requirement in requirements(program, unroll, tail_iterations):
        if not requirement.holds(program, extents):
            raise SizeError(f"{program.name}: {requirement.message}")


def emulate(
    build: Build,
    inputs: Mapping[str, torch.Tensor],
    extents: Mapping[str, int],
    scalars: Mapping[str, float],
    *,
    order: Interleaving | None = None,
    watch: bool = True,
    workers: int = 1,
    blocks: Sequence[int] | None = None,
    progress: Callable[[int], None] | None = None,
) -> tuple[torch.Tensor, Outcome]:
    """Run the code object on `inputs`; the output tensor and what the referee saw.

    `blocks` runs these alone; `progress` is told how many are done.
    """
    program = build.spec.program
    shape = build.spec.plan.shape
    check_sizes(program, shape.unroll, shape.tail_iterations, extents)
    out = program.accumulator.tensor
    start = 0.0 if program.adds_to_output else float("nan")
    result = torch.full([extents[d.name] for d in out.dims], start, dtype=TORCH[out.dtype])
    tensors = {name: t.contiguous() for name, t in inputs.items()}
    tensors[out.name] = tensors[out.name].clone() if out.name in tensors else result
    outcome = launch(
        build.hsaco,
        kernel=build.resources.kernel,
        grid=grid(program, extents),
        block=(program.threads, 1, 1),
        args=[arguments(program, tensors, extents, scalars)],
        policy=(order or Interleaving()).policy,
        seed=(order or Interleaving()).seed,
        watch=watch,
        poison=watch,
        workers=workers,
        blocks=blocks,
        progress=progress,
    )
    return tensors[out.name], outcome


def run(
    build: Build,
    *,
    extents: Mapping[str, int] | None = None,
    seed: int = 0,
    kind: Inputs = Inputs.EXACT,
    scalars: Mapping[str, float] | None = None,
    order: Interleaving | None = None,
    watch: bool = True,
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
) -> Run:
    """Random inputs of that kind, one launch, one comparison. Raises SizeError for sizes the kernel cannot do."""
    program = build.spec.program
    shape = sizes(program, extents)
    values = scalar_values(program, scalars)
    check_memory(program, shape)
    inputs = random_inputs(program, shape, seed, kind)
    output, outcome = emulate(
        build, inputs, shape, values, order=order, watch=watch, workers=workers, progress=progress
    )
    expected, bound = reference(program, inputs, values)
    return Run(shape, output, compare(output, expected, bound), outcome)
