"""What the timing model says of a kernel, in the report's terms: figures, where the time goes, cycles by instruction.

>>> found = prediction(tkgen.load("specs/ping_pong.tk").build())
>>> found.limiter, found.waves[0][412]  # wave 0 spends that long on the kernel's instruction 412, in a pass of the loop
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tkgen.build import Build
from tkgen.report.figures import Figure

if TYPE_CHECKING:  # the timing model needs numpy, which reports without a prediction do not
    from tkgen.report.timeline import Timeline

LIMITED = 0.005  # parts of the time below this share are not shown


@dataclass(frozen=True)
class Part:
    """A part of the time: its name, cycles per K-step (None for what is outside the steady loop), share of the time."""

    name: str
    per_step: float | None
    share: float


@dataclass(frozen=True)
class Prediction:
    """What a timing model says: `by` names it and its assumptions in a sentence, `limiter` what limits the kernel.

    The speed is an `upper_bound` where the power limit is not known. `parts` say where the time goes, multiplying
    first; `changes` what would help: (change, times faster). `waves` has for each wave of a block the cycles by
    instruction, counted from the kernel's first: from its issue to that of the wave's next one, in one pass of the loop
    or, outside of it, the one time it runs. `timeline` has what happens on a compute unit, cycle by cycle.
    """

    by: str
    figures: tuple[Figure, ...] = ()
    upper_bound: bool = False
    limiter: str = ""
    parts: tuple[Part, ...] = ()
    changes: tuple[tuple[str, float], ...] = ()
    waves: tuple[Mapping[int, float], ...] = ()
    notes: tuple[str, ...] = ()
    timeline: Timeline | None = None


def prediction(build: Build, product: str | None = None, sizes: Mapping[str, int] | None = None) -> Prediction:
    """The prediction of `build` on a product of its target (by default the first).

    Dynamic sizes that `sizes` does not give are taken as 32 blocks, and 64 passes of the loop. Raises PredictError
    where there is none to be had, UnknownTargetError for an unknown product.
    """
    from tkgen.emulate import load
    from tkgen.emulate.decode import decode
    from tkgen.predict import profile
    from tkgen.report.timeline import timeline

    given = dict(sizes or {})
    assumed = {name: extent for name, extent in _assumed(build).items() if name not in given}
    profiled = profile(build, assumed | given, product)
    found, waves = profiled.prediction, profiled.recording.spent
    code = load(build.hsaco)
    starts = decode(code.code, code.target).starts()
    position = {start: number for number, start in enumerate(starts[: len(build.function.instructions)])}
    size = " x ".join(map(str, found.sizes))
    example = ", an example: a size is dynamic" if assumed else ""
    bound = ": an upper bound, as the power limit is not known" if found.upper_bound else ""
    copied = (
        Figure("predict.bandwidth", "bandwidth", round(found.gbps), "GB/s", 1, "Prediction"),
        Figure("predict.copy", "of the copy rate", round(found.share_of_copy * 100, 1), "%", 1, "Prediction"),
    )
    return Prediction(
        by=f"the timing model of tkgen predict, for {size} on one {found.product}{example}{bound}.",
        figures=(
            Figure("predict.time", "time", round(found.seconds * 1e3, 3), "ms", -1, "Prediction"),
            Figure("predict.tflops", "rate", round(found.tflops), "TFLOP/s", 1, "Prediction"),
            Figure("predict.peak", "of the peak", round(found.share_of_peak * 100, 1), "%", 1, "Prediction"),
            *(copied if found.memory_bound else ()),
            Figure("predict.clock", "clock", round(found.clock_mhz), "MHz", 0, "Prediction"),
            Figure("predict.step", "cycles per K-step", round(found.cycles_per_step), "", -1, "Prediction"),
            *(
                Figure(f"predict.{x.name}", f"{x.name} hits", round(x.hit_rate * 100, 1), "%", 1, "Prediction")
                for x in found.levels
                if x.name != "HBM"
            ),
        ),
        upper_bound=found.upper_bound,
        limiter=found.limiter,
        parts=(
            Part("multiplying", found.matrix_cycles_per_step, found.matrix_cycles / found.cycles),
            *(
                Part(name, found.lost_per_step.get(name), cycles / found.cycles)
                for name, cycles in sorted(found.lost_cycles.items(), key=lambda item: -item[1])
                if cycles >= LIMITED * found.cycles
            ),
        ),
        changes=tuple((x.change, x.speedup) for x in found.what_if if x.speedup > 1 + LIMITED),
        waves=tuple({position[a]: c for a, c in wave.items() if a in position} for wave in waves),
        notes=found.notes,
        timeline=timeline(build, profiled),
    )


def _assumed(build: Build) -> dict[str, int]:
    """Extents for the dimensions that are known at run time only."""
    program, unroll = build.spec.program, build.spec.plan.shape.unroll
    blocks = ((program.m, 32 * program.block[0]), (program.n, 32 * program.block[1]))
    steps = (program.k, 64 * unroll * program.block[2])
    return {dim.name: extent for dim, extent in (*blocks, steps) if dim.size is None}
