"""Run built kernels with random inputs and compare what they write with their equations, as `compare` judges it.

One runner for all: a launch of one kernel or of several, all blocks or some, on the emulator or by whatever executes
the kernels of another machine (`tkgen.backends.protocol.Interpreter`).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from tkgen.backends import protocol
from tkgen.build.model import Build
from tkgen.emulate import Buffer, Interleaving, Outcome, interleavings
from tkgen.emulate import launch as emulate_launch
from tkgen.execute.arguments import SizeError, packed, scalar_values
from tkgen.execute.blocks import compared_blocks, inputs_of
from tkgen.execute.compare import Comparison, Inputs, Reference, compared, random_inputs, references, worst
from tkgen.ir.launch import Launch
from tkgen.ir.rounding import TORCH, unwritten
from tkgen.ir.sizing import Sizing
from tkgen.ir.types import DType

Payload = npt.NDArray[np.uint32]
Tensors = Mapping[str, torch.Tensor]
# Bytes of an element of an output beside the kernel's own: the reference before and after it is rounded, and the bound
# of each, in fp64. Bytes of an element of the largest input while it is drawn. Bytes of what is computed in slabs.
REFERENCE, DRAWN, SLABS = 32, 12, 1 << 27
FORMATS = {"e2m1": "fp4", "e2m3": "fp6", "e3m2": "bf6"}  # as the emulator calls what torch has as bytes


@dataclass(frozen=True)
class Run:
    """One launch on the emulator: what it wrote by name, how each compares, what the referee saw of each kernel."""

    sizes: Mapping[str, int]
    outputs: Tensors = field(repr=False)
    comparisons: Mapping[str, Comparison]
    outcomes: tuple[Outcome, ...] = field(repr=False)

    @property
    def output(self) -> torch.Tensor:
        """The first output."""
        return next(iter(self.outputs.values()))

    @property
    def comparison(self) -> Comparison:
        """The comparison of the tensor that is furthest from its bound, those between kernels among them."""
        return worst(self.comparisons.values())

    @property
    def findings(self) -> tuple[str, ...]:
        """The findings of the referee."""
        return tuple(str(finding) for outcome in self.outcomes for finding in outcome.findings)

    @property
    def instructions(self) -> int:
        """Instructions executed."""
        return sum(outcome.instructions for outcome in self.outcomes)

    @property
    def ok(self) -> bool:
        """The numbers are right and nothing was found."""
        return not self.failure

    @property
    def failure(self) -> str:
        """The first failure, of the numbers or of the referee, and an empty text where all is right."""
        if len(self.outcomes) > 1:
            wrong = [f"{name}: {c}" for name, c in self.comparisons.items() if not c.right]
            return wrong[0] if wrong else "\n".join(self.findings)
        numbers = [] if self.comparison.right else [str(self.comparison)]
        return "\n".join([*numbers, *self.findings])


def trials(count: int) -> Iterator[tuple[Interleaving, Inputs]]:
    """`count` orders of the waves, and in turn both kinds of inputs."""
    for number, order in enumerate(interleavings(count)):
        yield order, (Inputs.EXACT, Inputs.NORMAL)[number % 2]


def check_blocks(launch: Sizing, blocks: Sequence[int]) -> None:
    """Raises SizeError for a block that the launch does not have, and where its tensors would not fit this machine.

    Chosen blocks have tensors of full size, too: inputs and outputs once each.
    """
    if beyond := [b for b in blocks if not 0 <= b < launch.blocks]:
        raise SizeError(f"there is no block {beyond[0]}: the launch has blocks 0..{launch.blocks - 1}")
    _fits(launch, launch.moved_bytes, "such tensors, of which the chosen blocks use only parts,")


def check_memory(launch: Sizing) -> None:
    """Raises SizeError where a run with random inputs at these sizes would not fit the memory that is free here.

    An input is there as it is; those of one byte are there as fp32, too, and integers as fp64.
    """
    elements = {t: prod(launch.shape(t)) for t in (*launch.program.reads, *launch.written)}
    given = [t for t in launch.program.reads if t not in launch.written]
    inputs = sum((t.dtype.bytes + _widened(t.dtype)) * elements[t] for t in given)
    outputs = sum((t.dtype.bytes + REFERENCE) * elements[t] for t in launch.written)
    drawn = DRAWN * max((elements[t] for t in given), default=0)
    _fits(launch, inputs + max(drawn, outputs) + SLABS, "such tensors and their reference")


def _widened(dtype: DType) -> int:
    """Bytes that an element of an input takes beside its own, as a number that torch computes with."""
    return 8 if dtype is DType.I32 or dtype.packed else 4 if dtype.bytes == 1 else 0


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
    """Return the outputs as they are before the launch: the input where the kernel reads it, zeros where it adds, else
    a value that a store must overwrite.
    """
    found = memory(launch, inputs, poison=True)
    return {out.name: found[out.name] for out in launch.program.outputs}


def emulate(
    build: Build,
    launch: Launch[Any],
    inputs: Tensors,
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
    """Run the code object of one kernel on `inputs`; the outputs and what the referee saw.

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


def emulate_all(
    build: protocol.Build,
    launch: Sizing,
    inputs: Tensors,
    scalars: Mapping[str, float],
    *,
    order: Interleaving | None = None,
    watch: bool = True,
    workers: int = 1,
    blocks: Sequence[int] | None = None,
    backwards: bool = False,
    progress: Callable[[int], None] | None = None,
    payloads: Mapping[str, Payload] | None = None,
) -> tuple[dict[str, torch.Tensor], tuple[Outcome, ...]]:
    """Run every kernel in order, as `emulate`; what they wrote, by name, and what the referee saw of each.

    `progress` is told how many blocks of all are done; `payloads` has those of all tensors. Raises EmulateError where a
    launch cannot start.
    """
    written: dict[str, torch.Tensor] = {}
    outcomes: list[Outcome] = []
    before = 0
    for kernel, one in zip(build.kernels, launch.launches, strict=True):
        assert isinstance(kernel, Build)

        def done(count: int, before: int = before) -> None:
            if progress is not None:
                progress(before + count)

        program = one.program
        wanted = {t.name for t in program.reads} | ({t.name for t in program.outputs} - program.added)
        memory = {name: t for name, t in (dict(inputs) | written).items() if name in wanted}
        own = None if payloads is None else {t.name: payloads[t.name] for t in program.arguments if t.name in payloads}
        results, outcome = emulate(
            kernel, one, memory, scalars, order=order, watch=watch, workers=workers, blocks=blocks, backwards=backwards,
            progress=done, payloads=own,
        )  # fmt: skip
        written |= results
        outcomes.append(outcome)
        before += one.blocks
    return written, tuple(outcomes)


def computed(
    build: protocol.Build, launch: Sizing, inputs: Tensors, scalars: Mapping[str, float]
) -> dict[str, torch.Tensor]:
    """Run the machine code on the emulator without the referee; return what it writes, by name."""
    return emulate_all(build, launch, inputs, scalars, watch=False)[0]


def memory(
    launch: Sizing, inputs: Tensors, poison: bool = False, into: Tensors = MappingProxyType({})
) -> dict[str, torch.Tensor]:
    """All tensors that a launch on the device of `inputs` takes, by name: these, and what it writes.

    An output that is read, too, is a copy of what is given for it; others hold anything, or NaNs where `poison` says so
    and no kernel adds to them. `into` has memory for outputs, by name; other outputs get some of their own.
    """
    device = next((t.device for t in inputs.values()), None)
    starts = {name: start for one in launch.launches for name, start in one.program.starts.items()}
    found = dict(inputs)
    for tensor in launch.written:
        if tensor.name in into:
            found[tensor.name] = into[tensor.name]
            if tensor.name in inputs:
                into[tensor.name].copy_(inputs[tensor.name])
            continue
        if tensor.name in inputs:
            found[tensor.name] = inputs[tensor.name].clone(memory_format=torch.contiguous_format)
            continue
        found[tensor.name] = torch.empty(launch.shape(tensor), dtype=TORCH[tensor.dtype], device=device)
        if poison:
            start = unwritten((), tensor.dtype)
            found[tensor.name].copy_(start.fill_(starts[tensor.name]) if tensor.name in starts else start)
    return found


def run(
    build: protocol.Build,
    blocks: Sequence[int] | None = None,
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
    """Random inputs of that kind, one launch of each kernel on the emulator, a comparison of all that they write.

    `blocks` runs these alone, on tensors of full size that hold numbers where the blocks read; what they write
    elsewhere counts as wrong. The referee watches all, and chosen blocks where it has room (`Launch[Any].watched`).

    Raises:
        SizeError: sizes that a kernel cannot do, a scalar without a value, a block that is not there, `blocks` of a
            sequence.
        EmulateError: a launch cannot start.
    """
    launch, program = build.spec.launch(extents), build.spec.program
    values = scalar_values(program, scalars)
    if blocks is not None:
        (one, *others) = launch.launches
        if others or one is not launch:
            raise SizeError(f"{build.spec.name} is a sequence: `--blocks` is for a single kernel")
        check_blocks(one, blocks)
        inputs, watch = inputs_of(one, blocks, seed, kind), watch and one.watched(blocks)
    else:
        check_memory(launch)
        inputs = random_inputs(launch, seed, kind)
    written, outcomes = emulate_all(
        build, launch, inputs, values, order=order, watch=watch, workers=workers, blocks=blocks, progress=progress
    )
    if blocks is not None:
        judged = compared_blocks(one, inputs, written, values, blocks)
    else:
        given = (*launch.extents.items(), seed, kind, *values.items())
        flushes = build.spec.target.flushes_f16
        meant = kept(program, given, lambda: references(launch, inputs, values, flushes_f16=flushes))
        judged = compared(written, meant, launch.written)
    return Run(launch.extents, written, judged, outcomes)


_MOST = 1 << 22  # elements of all outputs, beyond which nothing is kept: 64 MiB with their bounds
_kept: deque[tuple[object, str, dict[str, Reference]]] = deque(maxlen=2)  # of both kinds of inputs, in turn


def kept(of: object, given: object, make: Callable[[], dict[str, Reference]]) -> dict[str, Reference]:
    """Return what `make` gives, from a cache if it was made before for the same object `of` and a `given` that prints
    alike.

    Random inputs are the same ones for each order of the waves, and to compute what a kernel must write takes as long
    as to emulate a small launch, or longer. Zeros of both signs are equal, and are not printed alike.
    """
    what = repr(given)
    for one, known, found in tuple(_kept):
        if one is of and known == what:
            return found
    made = make()
    if sum(value.numel() for value, _ in made.values()) <= _MOST:
        _kept.append((of, what, made))
    return made
