"""A block on a Hopper SM, cycle by cycle: placed by the model that predicts its time, not traced.

Nothing executes machine code for Hopper, so its bars follow from the schedule and the numbers of the prediction. An
iteration takes exactly as long as predicted; within it the bars keep the order that barriers and rings impose. The
gaps of the model are named in `Timeline.known`.

>>> modelled(model, model.prediction()).loop
(3391.0, 4415.0)
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tkgen.ir.equations import Load, Store, walk
from tkgen.ir.types import Side
from tkgen.predict.events import Track
from tkgen.predict.hopper.iterations import IterationModel
from tkgen.predict.hopper.throughput import ThroughputModel
from tkgen.predict.hopper.tiles import TileModel
from tkgen.predict.prediction import Prediction
from tkgen.report.texts import Rows
from tkgen.report.timeline import Bar, Timeline, WaveTime

LOOPED = 2  # iterations that are shown first
MOST_STEPS = 24  # iterations of a tile that are drawn
MOST_BLOCKS = 8  # of an SM
PRODUCER = 0
UNIT = "WGMMA"
SELF = "self"  # the track of what an agent executes itself, beside its products
MEMORY_WAITS = ("copies", "first copies", "loads", "memory and other blocks")
OTHERS = "products of the other consumers"
NOT_TRACED = "modelled from the schedule, not traced"

# A consumer of fused matmuls asks for the tensor cores: (ready, cycles, text, row). It is told when they are done.
Asking = Generator[tuple[float, float, str, int], float, None]


@dataclass
class _Drawing:
    """Bars of an SM; the tensor cores are `free` from a cycle on."""

    bars: list[Bar] = field(default_factory=list)
    free: float = 0.0

    def bar(self, track: Track | str, kind: str, agent: int, start: float, end: float, text: str, row: int = 0) -> None:
        """Draw a bar, unless it has no width."""
        if end > start + 0.5:
            name = track if isinstance(track, str) else track.value
            self.bars.append(Bar(name, kind, agent, round(start, 1), round(end, 1), text, row, 1, -1, text))

    def multiply(self, agent: int, ready: float, cycles: float, text: str, row: int) -> float:
        """Products of an agent, when it is ready and the tensor cores are free; the cycle at which they end."""
        start = max(ready, self.free)
        self.bar(Track.WAIT, "wait", agent, ready, start, OTHERS)
        self.bar(Track.MFMA, "multiply", agent, start, start + cycles, text, row)
        self.free = max(self.free, start + cycles)
        return start + cycles

    def idle(self, cause: str) -> None:
        """Draw the gaps between products, in which the tensor cores wait."""
        ends = 0.0
        for b in sorted((b for b in self.bars if b.track == Track.MFMA.value), key=lambda b: b.start):
            if ends:
                self.bar(Track.IDLE, "idle", b.wave, ends, b.start, cause)
            ends = max(ends, b.end)


def modelled(model: Any, found: Prediction) -> Timeline:
    """The timeline of a model's kernel, of which `found` is the prediction."""
    hertz = (found.clock_mhz or model.timing.max_clock_mhz) * 1e6
    if isinstance(model, TileModel):
        return _tiles(model, hertz)
    if isinstance(model, IterationModel):
        return _iterations(model, hertz)
    assert isinstance(model, ThroughputModel), "a model of Hopper that has no picture"
    return _blocks(model, hertz)


# ---------------------------------------------------------------- products


def _tiles(model: TileModel, hertz: float) -> Timeline:
    """A tile of each consumer: copies through the ring of stages, K-steps, and sums that leave."""
    tiles, tiling, program = model.tiles, model.tiling, model.spec.program
    these = tiles.rounds[0]
    step = tiles.steps(these, hertz)
    period, copies, mine = step.longest * hertz, step.copies * hertz, tiles.step_cycles
    in_turn = 2 * step.chain * hertz  # of a step, until its stage is given back
    latency = (tiles.copy_seconds + (tiles.fresh_seconds if these.fresh else 0.0)) * hertz
    consumers, turns, stages = tiling.consumers, tiling.turns, tiling.stages
    shown = min(these.steps, max(2 * stages + LOOPED, MOST_STEPS // turns))
    whole = shown * turns
    block, begin = tiles.start[1] * hertz - model.timing.hbm_latency_ns * 1e-9 * hertz, tiles.start[1] * hertz
    starts = [begin + n * period for n in range(whole + stages)]
    lines = Rows(program.origins.files)
    sums, stored = (lines.of(program.spans.get(name)) for name in ("accumulate", "store"))
    loads = lines.of(next((r.loads_span for r in program.roles if r.loads_span), program.a.span))
    factors = ", ".join(o.name for side in (Side.A, Side.B) for o in program.operands if o.side is side)
    waits = "products of the step before" if step.slow == "waiting for products" else "copies"
    d, together = _Drawing(), consumers // turns
    issued = block
    for n in range(whole + (stages if len(tiles.rounds) > 1 else 0)):
        asked = block if n < stages else max(min(starts[n - stages] + in_turn, starts[n] - latency), issued)
        arrives = min(asked + latency, starts[n]) if n >= stages else begin + n * copies
        d.bar(Track.WAIT, "wait", PRODUCER, issued, asked, "an empty stage")
        tile = f"step {n % shown}" if n < whole else f"step {n - whole} of the next tile"
        d.bar(Track.MEMORY, "copy", PRODUCER, asked, arrives, f"copy {factors} of {tile}", loads)
        issued = asked
    done = [begin] * consumers
    for n in range(whole):
        for place in range(together):
            c = n // shown * together + place
            ready = starts[n] + place * mine
            others = min(ready, done[c] + (together - 1) * mine) if n % shown else done[c]
            cause = waits if n % shown else "its turn" if n else "first copies"
            d.bar(Track.WAIT, "wait", 1 + c, done[c], others, OTHERS)
            d.bar(Track.WAIT, "wait", 1 + c, others, ready, cause)
            done[c] = d.multiply(1 + c, ready, mine, f"multiply step {n % shown}", sums)
    last, leaving = max(done), tiles.leaving(these, hertz)
    for c, end in enumerate(done):
        issue = end + leaving.issue * hertz
        d.bar(SELF, "vector", 1 + c, end, issue, "sums become outputs", stored)
        d.bar(Track.WAIT, "wait", 1 + c, issue, issue + (leaving.reused + leaving.read) * hertz, "panels and loads")
        d.bar(Track.MEMORY, "store", 1 + c, end, end + leaving.longest * hertz, "store the output", stored)
    d.idle(waits)
    finish = last + leaving.longest * hertz
    first = min(stages, max(shown - LOOPED, 0))
    looped = starts[first], starts[first + min(LOOPED, shown - first)]
    missing = ""
    if shown < these.steps:
        missing = f" K-steps {shown} to {these.steps - 1} of a tile are like those before them, and left out."
    known = "K-steps and the end of a tile take the predicted time; the places of bars in a step follow from the ring."
    names = ("producer", *(f"consumer {c}" for c in range(consumers)))
    return _timeline(d, names, UNIT, hertz, looped, tuple(starts[: whole + 1]), finish, known + missing)


# ---------------------------------------------------------------- fused matmuls


def _iterations(model: IterationModel, hertz: float) -> Timeline:
    """Some iterations of each consumer: its first product, the vector work between, its second one; copies beside."""
    m, t, lines = model.layout, model.timing, Rows(model.spec.program.origins.files)
    period, consumers = max(model.pass_cycles), m.consumers
    vector, end_work = t.lone_cycles * model.inside, t.lone_cycles * model.outside
    begin = (t.block_us * 1e-6 + t.hbm_latency_ns * 1e-9) * hertz
    passes = model.mean_passes
    shown = max(min(round(passes), MOST_STEPS // 2), 1)
    starts = [begin + n * period for n in range(shown + 1)]
    d = _Drawing()
    phases, moving = m.phases, m.moving
    given = {
        tensor: [[0.0] * shown for _ in range(consumers)] for tensor in moving
    }  # when a consumer gives a tile back
    between = next((lines.of(op.result.span) for op in m.vector_ops if hasattr(op, "result")), 0)

    def consumer(c: int) -> Asking:
        at = begin
        for n in range(shown):
            start = max(at, starts[n] + c * period / consumers)
            d.bar(Track.WAIT, "wait", 1 + c, at, start, OTHERS if n else "first copies")
            at = start
            for phase in phases:
                row = lines.of(phase.span)
                at = yield at, model.cycles(phase.products), f"multiply {', '.join(phase.operands)}", row
                for tensor in phase.gives:
                    given[tensor][c][n] = at
                end = at + vector * phase.vector
                if end > at:
                    d.bar(SELF, "vector", 1 + c, at, end, "vector work of an iteration", between)
                at = end
        store = next((lines.of(op.span) for op in (*m.tile_stored, *m.rows_stored)), 0)
        d.bar(SELF, "vector", 1 + c, at, at + end_work, "work after the loop, stores", store)

    _in_order([consumer(c) for c in range(consumers)], d)
    first_done = {tensor: [max(times[n] for times in given[tensor]) for n in range(shown)] for tensor in moving}
    issued = begin - t.hbm_latency_ns * 1e-9 * hertz
    for n in range(shown):
        for tensor, (size, buffers, span) in moving.items():
            asked = issued if n < buffers else max(issued, first_done[tensor][n - buffers])
            latency = (t.copy_latency_ns * 1e-9 + size / (t.copy_tbps * 1e12)) * hertz
            arrives = asked + latency if n >= buffers else begin + n * latency / max(buffers, 1)
            text = f"copy {tensor} of iteration {n}"
            d.bar(Track.WAIT, "wait", PRODUCER, issued, asked, "an empty buffer")
            d.bar(Track.MEMORY, "copy", PRODUCER, asked, arrives, text, lines.of(span))
            issued = asked
    d.idle("vector work")
    finish = max(b.end for b in d.bars)
    at = min(2, max(shown - LOOPED, 0))
    missing = f" A tile has {passes:g} iterations; {shown} are drawn." if shown < passes else ""
    known = (
        "An iteration takes the predicted time. The model counts the vector work of an iteration, does not order it, "
        f"and takes copies to be hidden.{missing}"
    )
    names = ("producer", *(f"consumer {c}" for c in range(consumers)))
    looped = starts[at], starts[min(at + LOOPED, shown)]
    return _timeline(d, names, UNIT, hertz, looped, tuple(starts), finish, known)


def _in_order(agents: Sequence[Asking], d: _Drawing) -> None:
    """Give the tensor cores to the agent that is ready first, until all have ended."""
    queue = [(next(agent), number) for number, agent in enumerate(agents)]
    heapq.heapify(queue)
    while queue:
        asked, number = heapq.heappop(queue)
        with suppress(StopIteration):
            heapq.heappush(queue, (agents[number].send(d.multiply(1 + number, *asked)), number))


# ---------------------------------------------------------------- rows


def _blocks(model: ThroughputModel, hertz: float) -> Timeline:
    """Two blocks in turn in each place of an SM: they start, wait for loads, work, and wait for memory."""
    t, lines, d = model.timing, Rows(model.spec.program.origins.files), _Drawing()
    resident = min(model.resident, -(-model.launch.blocks // model.product.sms))
    drawn, alone = min(resident, MOST_BLOCKS), model.block_seconds(hertz) * hertz
    rounds = max(model.launch.blocks / (resident * model.product.sms), 1.0)
    each = max(model.busy_seconds(hertz) * hertz / rounds, alone)
    starts, waits = t.turn_us * 1e-6 * hertz, model.waits * t.load_latency_ns * 1e-9 * hertz
    barriers, work = model.meetings * t.meeting_ns * 1e-9 * hertz, model.instructions * t.lone_cycles
    ops = list(walk(model.spec.program.kernel.body))
    loaded = next((lines.of(op.result.span) for op in ops if isinstance(op, Load)), 0)
    stored = next((lines.of(op.span) for op in ops if isinstance(op, Store)), 0)
    count = LOOPED if rounds > 1 else 1
    for place in range(drawn):
        at = place * each / drawn
        for _ in range(count):
            for kind, cycles, text, row in (
                ("wait", starts, "the start of a block", 0),
                ("wait", waits, "loads", loaded),
                ("barrier", barriers, "barriers", 0),
                ("vector", work, "instructions of a block", stored),
                ("wait", each - alone, "memory and other blocks", 0),
            ):
                track = {"wait": Track.WAIT, "barrier": Track.BARRIER}.get(kind, SELF)
                d.bar(track, kind, place, at, at + cycles, text, row)
                at += cycles
    more = f" {drawn} of {resident} blocks of an SM are drawn." if drawn < resident else ""
    known = f"The model knows how long a block loads, waits and works, and not in which order.{more}"
    end = each * (count + 1)
    names = tuple(f"block {n}" for n in range(drawn))
    return _timeline(d, names, "", hertz, (0.0, end), (), end, known)


# ---------------------------------------------------------------- all


def _timeline(
    d: _Drawing, names: tuple[str, ...], unit: str, hertz: float, looped: tuple[float, float],
    passes: tuple[float, ...], end: float, known: str,
) -> Timeline:  # fmt: skip
    return Timeline(
        simds=1,
        waves=len(names),
        blocks=1,
        roles=tuple(name.split()[0] for name in names),
        clock_mhz=round(hertz / 1e6, 1),
        loop=looped,
        passes=passes,
        end=end,
        bars=tuple(sorted(d.bars, key=lambda b: (b.start, b.wave))),
        times=tuple(_time(d.bars, agent, role, looped) for agent, role in enumerate(names)),
        names=names,
        units=(unit,),
        places=("the SM",),
        core="SM",
        known=f"{NOT_TRACED}. {known}",
    )


def _time(bars: Sequence[Bar], agent: int, role: str, looped: tuple[float, float]) -> WaveTime:
    """Shares of the iterations shown first that an agent multiplies, or waits for memory or others."""
    length = max(looped[1] - looped[0], 1.0)

    def share(*tracks: Track, memory: bool | None = None) -> float:
        mine = (b for b in bars if b.wave == agent and b.track in {t.value for t in tracks})
        chosen = (b for b in mine if memory is None or (b.text in MEMORY_WAITS) == memory)
        return sum(max(min(b.end, looped[1]) - max(b.start, looped[0]), 0.0) for b in chosen) / length

    waits = share(Track.WAIT, memory=True)
    return WaveTime(agent, 0, role, share(Track.MFMA), 0.0, waits,
                    share(Track.WAIT, memory=False) + share(Track.BARRIER), -1)  # fmt: skip
