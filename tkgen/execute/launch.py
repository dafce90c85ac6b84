"""Run a built kernel on the emulator with random inputs and compare it with torch, as `compare` judges it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from tkgen.emulate import Buffer, Interleaving, Outcome, interleavings
from tkgen.emulate import launch as emulate_launch
from tkgen.execute.arguments import SizeError, launched, packed, scalar_values
from tkgen.execute.compare import Comparison, Inputs, compared, random_inputs, references, worst
from tkgen.execute.kept import kept
from tkgen.ir.launch import OneLaunch, Sizing
from tkgen.ir.rounding import TORCH, unwritten

Payload = npt.NDArray[np.uint32]
PIECE = 1 << 26  # elements that are compared at once, where all of a tensor is
FORMATS = {"e2m1": "fp4", "e2m3": "fp6", "e3m2": "bf6"}  # as the emulator calls what torch has as bytes

if TYPE_CHECKING:
    from tkgen.build import Build
    from tkgen.build.model import Compiled


@dataclass(frozen=True)
class Run:
    """One emulated launch: the outputs by name, how each compares, what the referee saw."""

    sizes: Mapping[str, int]
    outputs: Mapping[str, torch.Tensor] = field(repr=False)
    comparisons: Mapping[str, Comparison]
    outcome: Outcome = field(repr=False)

    @property
    def output(self) -> torch.Tensor:
        """The first output."""
        return next(iter(self.outputs.values()))

    @property
    def comparison(self) -> Comparison:
        """The comparison of the output that is furthest from its bound."""
        return worst(self.comparisons.values())

    @property
    def findings(self) -> tuple[str, ...]:
        """What the referee found."""
        return tuple(map(str, self.outcome.findings))

    @property
    def instructions(self) -> int:
        """Instructions executed."""
        return self.outcome.instructions

    @property
    def ok(self) -> bool:
        """The numbers are right and nothing was found."""
        return self.comparison.right and not self.outcome.findings

    @property
    def failure(self) -> str:
        """What is not right: the numbers, and what was found; empty where all is."""
        numbers = [] if self.comparison.right else [str(self.comparison)]
        return "\n".join([*numbers, *self.findings])


def trials(count: int) -> Iterator[tuple[Interleaving, Inputs]]:
    """`count` orders of the waves, and in turn both kinds of inputs."""
    for number, order in enumerate(interleavings(count)):
        yield order, (Inputs.EXACT, Inputs.NORMAL)[number % 2]


def check_blocks(launch: OneLaunch, blocks: Sequence[int]) -> None:
    """Raises SizeError for a block that the launch does not have, and where its tensors would not fit this machine.

    Chosen blocks have tensors of full size, too: inputs and outputs once each, and of what blocks add to the sum, its
    bound and its magnitude as fp64.
    """
    if beyond := [b for b in blocks if not 0 <= b < launch.blocks]:
        raise SizeError(f"there is no block {beyond[0]}: the launch has blocks 0..{launch.blocks - 1}")
    outputs, added = launch.program.outputs, launch.program.added
    need = sum(launch.bytes(t) for t in (*launch.program.reads, *outputs))
    need += sum(34 * prod(launch.shape(t)) for t in outputs if t.name in added)
    _fits(launch, need, "such tensors, of which chosen blocks touch parts,")


def check_memory(launch: Sizing) -> None:
    """Raises SizeError where a run with random inputs at these sizes would not fit the memory that is free here.

    An input is there as it is, as fp32 and as fp64, an output four times as fp64: result, reference, bound, error.
    """
    outputs = launch.program.outputs
    need = sum((t.dtype.bytes + 12) * prod(launch.shape(t)) for t in launch.program.reads if t not in outputs)
    need += sum(32 * prod(launch.shape(t)) for t in outputs)
    _fits(launch, need, "such tensors and their reference")


def pieces(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The elements of a contiguous tensor in pieces, for what is computed of all: a copy may not fit into memory."""
    return tuple(tensor.flatten().split(PIECE))


def _fits(launch: Sizing, need: int, what: str) -> None:
    """Raises SizeError where more memory is needed than is free."""
    free = _free_memory()
    if free is not None and need > free:
        given = " ".join(f"{n}={size}" for n, size in launch.extents.items())
        raise SizeError(f"{given}: {what} take {need / 2**30:.3g} GiB, {free / 2**30:.3g} GiB are free here")


def _free_memory() -> int | None:
    """Bytes that can be had without swapping (Linux); None where nothing says so."""
    try:
        found = re.search(r"^MemAvailable: *(\d+) kB", Path("/proc/meminfo").read_text("ascii"), re.MULTILINE)
    except (OSError, ValueError):
        return None
    return int(found[1]) * 1024 if found else None


def outputs(launch: Sizing, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """What outputs hold before the launch: their input, where the kernel reads it, else what a store overwrites."""
    return {
        out.name: inputs[out.name].clone(memory_format=torch.contiguous_format)
        if out.name in inputs
        else torch.zeros(launch.shape(out), dtype=TORCH[out.dtype])
        if out.name in launch.program.added
        else unwritten(launch.shape(out), out.dtype)
        for out in launch.program.outputs
    }


def emulate(
    build: Compiled,
    launch: OneLaunch,
    inputs: Mapping[str, torch.Tensor],
    scalars: Mapping[str, float],
    *,
    order: Interleaving | None = None,
    watch: bool = True,
    workers: int = 1,
    blocks: Sequence[int] | None = None,
    backwards: bool = False,
    progress: Callable[[int], None] | None = None,
    payloads: Mapping[str, Payload] | None = None,
) -> tuple[dict[str, torch.Tensor], Outcome]:
    """Run the code object on `inputs`; the outputs and what the referee saw.

    `blocks` runs these alone, the last one first where they go `backwards`; `progress` is told how many are done. A
    batch of no matrices launches nothing. With `payloads` of numbers, by name, the launch is over an algebra; those of
    outputs are written in place.
    """
    results = outputs(launch, inputs)
    tensors = {name: t.contiguous() for name, t in inputs.items()} | results
    given = payloads or {}
    formats = {t.name: FORMATS.get(t.dtype.spelling, "") for t in launch.program.arguments}
    buffers = {
        name: Buffer(tensor, name, payload=given.get(name), format=formats[name] if name in given else "")
        for name, tensor in tensors.items()
    }
    order = order or Interleaving()
    ids = () if not launch.blocks else range(prod(launch.grid)) if blocks is None else blocks
    outcome = emulate_launch(
        build.hsaco,
        kernel=build.resources.kernel,
        grid=launch.grid if launch.blocks else (1, 1, 1),
        block=launch.block,
        args=[packed(launch, buffers, scalars)],
        policy=order.policy,
        seed=order.seed,
        watch=watch,
        poison=watch,
        algebra=payloads is not None,
        workers=workers,
        blocks=ids[::-1] if backwards else ids,
        progress=progress,
    )
    return results, outcome


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
    launch = launched(build.spec, extents)
    values = scalar_values(program, scalars)
    check_memory(launch)
    inputs = random_inputs(launch, seed, kind)
    results, outcome = emulate(
        build, launch, inputs, values, order=order, watch=watch, workers=workers, progress=progress
    )
    given = (references, *launch.extents.items(), seed, kind, *values.items())
    meant = kept(program, given, lambda: references(program, inputs, values))
    return Run(launch.extents, results, compared(results, meant), outcome)
