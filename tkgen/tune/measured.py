"""Candidates for a GPU whose machine code nothing emulates: compared there with their equations, on outputs that hold
NaN, and timed beside each other.

All that compute the right numbers are timed together, as `tkgen.execute.race` does it: graphs of launches back to back
that go round tensors of more than the L2, replayed by turns, so that all meet the same clocks. A time is the median of
the rounds, its spread the distance between the fastest and the slowest.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tkgen.backends.protocol import Backend
from tkgen.backends.registry import backend_of
from tkgen.toolchain.compiler import ToolchainError
from tkgen.tune.evaluate import Setting
from tkgen.tune.space import Candidate
from tkgen.tune.trial import Trial

if TYPE_CHECKING:
    import torch

    from tkgen.execute.given import Chosen
    from tkgen.execute.gpu import Expected

SETS = 2  # of tensors that launches go round at the least


def compared(setting: Setting, seed: int, trials: Sequence[Trial]) -> Iterator[Trial]:
    """These candidates, each with whether it computes what its equations say, at the sizes of the search."""
    from tkgen.execute import gpu

    wanted: dict[str, Expected] = {}  # the candidates of a spec compute the same of the same inputs
    for trial in trials:
        found, backend = _prepared(setting, trial.candidate)
        if trial.candidate.spec not in wanted:
            wanted[trial.candidate.spec] = gpu.expected(backend, found.launch, found.scalars, seed)
        expected = wanted[trial.candidate.spec]
        try:
            comparison, _ = gpu.compared_launch(backend, found.spec, found.launch, found.scalars, expected, setting.cxx)
        except (ToolchainError, ValueError) as error:
            yield replace(trial, verified=False, message=str(error))
            continue
        message = "" if comparison.right else str(comparison)
        yield replace(trial, verified=comparison.right, message=message)


def timed(setting: Setting, seed: int, trials: Sequence[Trial]) -> Iterator[Trial]:
    """All of these timed by turns."""
    from tkgen.execute import gpu
    from tkgen.execute.compare import Inputs, random_inputs
    from tkgen.execute.launch import memory
    from tkgen.execute.race import ROTATED_BYTES, raced

    launches: dict[Candidate, list[Callable[[], None]]] = {}
    held: dict[str, list[dict[str, torch.Tensor]]] = {}  # the candidates of a spec go round the same tensors
    works: dict[Candidate, tuple[float, int]] = {}
    for trial in trials:
        found, backend = _prepared(setting, trial.candidate)
        spec, moved = trial.candidate.spec, found.launch.moved_bytes
        works[trial.candidate] = found.launch.flops, moved
        if spec not in held:
            count = max(SETS, -(-ROTATED_BYTES // moved))
            inputs = random_inputs(found.launch, seed, Inputs.NORMAL)
            held[spec] = [{n: t.cuda() for n, t in memory(found.launch, inputs).items()} for _ in range(count)]
        launches[trial.candidate] = [
            backend.launcher(found.spec, found.launch, tensors, found.scalars, setting.cxx) for tensors in held[spec]
        ]
    sets = max(map(len, launches.values()))  # specs may have tensors of their own; a graph goes round the most
    even = {who: [each[i % len(each)] for i in range(sets)] for who, each in launches.items()}
    about = min(gpu.median_milliseconds(each[0]) for each in even.values()) / 1e3
    times = raced(even, about)
    for trial in trials:
        seconds = times[trial.candidate]
        middle = statistics.median(seconds)
        flops, moved = works[trial.candidate]
        yield replace(
            trial,
            gpu_seconds=middle,
            spread=(max(seconds) - min(seconds)) / middle,
            tflops=flops / middle / 1e12 if flops else None,
            gbps=None if flops else moved / middle / 1e9,
        )


def device() -> str:
    """The name of the GPU that is here."""
    import torch

    return str(torch.cuda.get_device_name())


def _prepared(setting: Setting, candidate: Candidate) -> tuple[Chosen, Backend]:
    """A candidate's launch at the sizes of the search, and what launches it."""
    from tkgen.execute.arguments import check_scalars
    from tkgen.execute.given import Asked

    spec = setting.load(candidate)
    given = {**check_scalars(spec.program), **spec.defines, **setting.sizes}
    asked = Asked(spec.path, given, spec.target.name, setting.include_roots)
    return asked.chosen(), backend_of(spec.target.name)
