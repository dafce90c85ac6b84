"""The prediction of the timing model in the report's terms: figures, parts of the time, cycles by instruction.

>>> found = prediction(tkgen.load("specs/ping_pong.tk").build()) >>> found.limiter, found.waves[0][412] # wave 0 spends
that long on the kernel's instruction 412, in an iteration
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tkgen.report.figures import Figure
from tkgen.toolchain.compiler import ToolchainError

if TYPE_CHECKING:  # the timing model needs numpy, which reports without a prediction do not
    from tkgen import predict
    from tkgen.predict.prediction import Part
    from tkgen.report.hot import Hot
    from tkgen.report.timeline import Timeline

LIMITED = 0.005  # parts of the time below this share are not shown
ASSUMED = 4096  # a size that only run time knows


@dataclass(frozen=True)
class Prediction:
    """The result of a timing model: `by` names it and its assumptions in a sentence, `limiter` what limits the kernel.

    The speed is an `upper_bound` where the power limit is not known. `parts` say where the time goes, multiplying
    first, with cycles of a `step` of the loop; `changes` what would help: (change, times faster). `waves` has for each
    wave of a block the cycles by instruction, counted from the kernel's first: from its issue to that of the wave's
    next one, in one iteration of the loop or, outside of it, the one time it runs. `timeline` has what happens on a
    compute unit, cycle by cycle. `hot` has the lines of the spec, where machine code has any.
    `seconds` of a launch are predicted at `sizes` of dynamic dimensions.
    """

    by: str
    figures: tuple[Figure, ...] = ()
    upper_bound: bool = False
    limiter: str = ""
    parts: tuple[Part, ...] = ()
    step: str = "K-step"
    changes: tuple[tuple[str, float], ...] = ()
    waves: tuple[Mapping[int, float], ...] = ()
    notes: tuple[str, ...] = ()
    timeline: Timeline | None = None
    hot: Hot | None = None
    seconds: float = 0.0
    sizes: Mapping[str, int] = field(default_factory=dict)


def prediction(build: Any, product: str | None = None, sizes: Mapping[str, int] | None = None) -> Prediction:
    """The prediction of a build of one kernel on a product of its target (by default the first).

    Dynamic sizes that `sizes` does not give are taken as `ASSUMED`, of a planned schedule as 32 blocks and 64 passes of
    the loop. Raises PredictError where there is none to be had, UnknownTargetError for an unknown product.
    """
    from tkgen.predict import Profile, models
    from tkgen.report.hot import hot_lines
    from tkgen.report.timeline import positions, timeline

    given = dict(sizes or {})
    assumed = {name: extent for name, extent in assumed_sizes(build).items() if name not in given}
    waves: tuple[Mapping[int, float], ...] = ()
    drawn = hot = recording = None
    (model,) = models(build, assumed | given, product)
    found = model.prediction()
    if build.function is not None:
        recording = model.recording()
    if recording is not None:
        position = positions(build)
        waves = tuple({position[a]: c for a, c in w.items() if a in position} for w in recording.spent)
        drawn = timeline(build, Profile(found, recording))
    elif build.function is None:
        from tkgen.report.modelled import modelled  # of Hopper, of which nothing follows machine code

        drawn = modelled(model, found)
    try:
        hot = hot_lines(build, model, found, recording)
    except ToolchainError as error:
        found = replace(found, notes=(*found.notes, f"no lines of the spec: {error}"))
    size = " ".join(f"{name}={extent}" for name, extent in found.sizes)
    example = ", an example: a size is dynamic" if assumed else ""
    bound = ": an upper bound, as the power limit is not known" if found.upper_bound else ""
    return Prediction(
        by=f"the timing model of tkgen predict, for {size} on one {found.product}{example}{bound}.",
        figures=tuple(_figures(found)),
        upper_bound=found.upper_bound,
        limiter=found.limiter,
        parts=tuple(part for part in found.shares if part.share >= LIMITED or not part.lost),
        step=found.loop.name if found.loop else "step",
        changes=tuple((x.change, x.speedup) for x in found.what_if if x.speedup > 1 + LIMITED),
        waves=waves,
        notes=found.notes,
        timeline=drawn,
        hot=hot,
        seconds=found.seconds,
        sizes=assumed | given,
    )


def _figures(p: predict.Prediction) -> Iterator[Figure]:
    """Its numbers, each where it is known."""

    def figure(key: str, label: str, value: float, unit: str, better: int) -> Figure:
        return Figure(f"predict.{key}", label, value, unit, better, "Prediction")

    yield figure("time", "time", round(p.seconds * 1e3, 3), "ms", -1)
    if p.tflops is not None:
        yield figure("tflops", "rate", round(p.tflops), "TFLOP/s", 1)
    if p.share_of_peak is not None:
        yield figure("peak", "of the peak", round(p.share_of_peak * 100, 1), "%", 1)
    if p.memory_bound:
        yield figure("bandwidth", "bandwidth", round(p.gbps), "GB/s", 1)
        yield figure("copy", "of the copy rate", round(p.share_of_copy * 100, 1), "%", 1)
    if p.clock_mhz is not None:
        yield figure("clock", "clock", round(p.clock_mhz), "MHz", 0)
    if p.loop is not None:
        key = p.loop.name.rpartition("-")[2]
        yield figure(key, f"cycles per {p.loop.name}", round(p.loop.cycles), "", -1)
    for level in p.levels[:-1]:  # the last one has everything
        yield figure(level.name, f"{level.name} hits", round(level.hit_rate * 100, 1), "%", 1)


def assumed_sizes(build: Any) -> dict[str, int]:
    """Extents for the dimensions that are known only at run time."""
    program = build.spec.program
    found = {dim.name: ASSUMED for dim in program.dims if dim.size is None}
    if build.spec.plan is not None:
        rows, columns, step = program.block
        step *= build.spec.plan.shape.unroll
        tiled = {program.m.name: 32 * rows, program.n.name: 32 * columns, program.k.name: 64 * step}
        found = {name: tiled.get(name, extent) for name, extent in found.items() if name in tiled}
    return found
