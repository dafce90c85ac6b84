"""Predicted time of a grid of output tiles, each of which takes as many K-steps: the timing of a compute unit, the
grid's traffic and the clock put together.

>>> p = TileModel(Workload.of(build), Device.of(build.spec.target)).prediction()
>>> p.tflops, p.limiter, p.what_if[0]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from tkgen.predict.cache import traffic
from tkgen.predict.device import Clock, Device, check_fits, engine_clock
from tkgen.predict.events import Recording, record
from tkgen.predict.prediction import MULTIPLYING, Iteration, Level, Prediction, WhatIf
from tkgen.predict.stream import WaveStream, block_streams
from tkgen.predict.timing import Cause, CuTiming, Machine, Memory, simulate
from tkgen.predict.workload import Workload

_CHANGES: Final = {
    "MFMA": "matrix instructions that take no time",
    "LDS": "an LDS without latency and bank conflicts",
    "issue": "no issue slots but for matrix instructions and barriers",
    "barriers": "waves that wait for no other wave's multiplies",
    "L2": "global memory with no latency and unlimited bandwidth",
    "LLC": "every access found in L2",
    "HBM": "every access found in the last-level cache",
    "tail": "all CUs busy to the end (smaller blocks, split-K, stream-K)",
    "fetch": "code in the instruction cache from the start",
    "launch": "no launch overhead",
    "clock": "the peak engine clock",
}
_LIMITERS: Final = ("MFMA", "LDS", "issue", "barriers", "L2", "LLC", "HBM", "fetch", "tail", "launch")


@dataclass(frozen=True)
class _Estimate:
    """One evaluation of the model: `cycles` of all rounds, `cold_cycles` of them waiting for code."""

    seconds: float
    clock: Clock
    cycles: float
    cold_cycles: float
    full: CuTiming


class TileModel:
    """The model of one workload on one device.

    Raises:
        PredictError: no block fits a compute unit, or the code has no shape that can be extrapolated.
        ToolchainError: the emulator cannot start it.
    """

    def __init__(self, workload: Workload, device: Device):
        check_fits(workload)
        self.workload, self.device = workload, device
        self.target, self.product, self.timing = device.target, device.product, device.timing
        self.streams: Sequence[WaveStream] = block_streams(workload, device.target)
        self.traffic = traffic(workload, self.target, self.product)
        self.launch_seconds = device.launch_seconds
        if workload.zeroed_bytes:  # clearing the output is a launch of its own
            self.launch_seconds += device.launch_seconds + workload.zeroed_bytes / device.copy_rate
        self.matrix_cycles = sum(self._matrix_cycles(s) for s in self.streams) / self.target.simds_per_cu

    def _matrix_cycles(self, s: WaveStream) -> float:
        parts = ((s.prologue, 1), (s.body, s.passes), (s.epilogue, 1))
        return sum(n * sum(i.cycles for i in part if i.flops) for part, n in parts)

    # ------------------------------------------------------------ one evaluation

    @property
    def passes(self) -> int:
        """Iterations of the loop of the wave that has most; 1 where none loops."""
        return max(1, *(s.passes for s in self.streams))

    @cached_property
    def base(self) -> _Estimate:
        """The kernel as it is."""
        return self.estimate()

    def estimate(self) -> _Estimate:
        """The time at the clock that settles with the utilisation it leaves."""
        clock = Clock(self.product.clock_mhz, "peak")
        for _ in range(3):
            result = self._cycles(clock)
            settled = self._settled(result.cycles, frozenset())
            if abs(settled.mhz - clock.mhz) < 0.01 * clock.mhz:
                break
            clock = settled
        return replace(result, clock=settled, seconds=self._seconds(result.cycles, settled, frozenset()))

    def _changed(self, base: _Estimate, resource: str) -> float:
        """Seconds with `resource` costing nothing: cycles as at the base's clock, then the clock that these allow."""
        free = frozenset({resource})
        if resource in ("launch", "clock"):
            cycles = base.cycles
        elif resource == "fetch":
            cycles = base.cycles - base.cold_cycles
        elif resource == "barriers":  # what is lost to them alone: without any, waves would read what is not there yet
            lost = base.full.lost[Cause.BARRIERS] * self.passes
            cycles = base.cycles - lost * len(self.traffic.residents)
        elif resource == "tail":
            ideal = base.full.cycles * len(self.workload.pieces) / (base.full.blocks * self.product.compute_units)
            cycles = min(base.cycles, ideal + base.cold_cycles)
        else:
            cycles = self._warm(base.clock, free)[0] + base.cold_cycles
        clock = Clock(self.product.clock_mhz, "peak") if resource == "clock" else self._settled(cycles, free)
        return self._seconds(cycles, clock, free)

    def _seconds(self, cycles: float, clock: Clock, free: frozenset[str]) -> float:
        launch = 0.0 if "launch" in free else self.launch_seconds
        return launch + cycles / (clock.mhz * 1e6)

    def _settled(self, cycles: float, free: frozenset[str]) -> Clock:
        """The clock whose utilisation allows just that clock, by bisection: the more clock, the less is allowed."""
        matrix = 0.0 if "MFMA" in free else self.matrix_cycles * len(self.workload.pieces) / self.product.compute_units

        def allowed(mhz: float) -> Clock:
            busy = matrix / (self._seconds(cycles, Clock(mhz, ""), free) * mhz * 1e6)
            return engine_clock(self.target, self.product, self.workload.dtype, min(busy, 1.0))

        low, high = 1.0, float(self.product.clock_mhz)
        at_peak = allowed(high)
        if at_peak.limit != "power":
            return at_peak
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (middle, high) if allowed(middle).mhz > middle else (low, middle)
        return Clock(low, "power")

    def _cycles(self, clock: Clock) -> _Estimate:
        """Cycles of all rounds on the busiest CU, without the launch.

        L2 and instruction caches start empty: the first blocks of a CU wait for their code, the next ones do not.
        """
        cycles, full = self._warm(clock, frozenset())
        fetch = self.timing.llc_latency_ns * 1e-3 * clock.mhz
        count = self.traffic.residents[0]
        cold = simulate(self.streams, count, Machine.of(self.target, self._memory(clock, frozenset()), fetch))
        warm = full if count == full.blocks else simulate(self.streams, count, self._machine(clock, frozenset()))
        if not any(s.passes for s in self.streams) and len(self.traffic.residents) == 1:
            full = cold  # straight code that runs once: waiting for it is part of its every step
        waiting = max(cold.cycles - warm.cycles, 0.0)
        return _Estimate(0.0, clock, cycles + waiting, waiting, full)

    def _warm(self, clock: Clock, free: frozenset[str]) -> tuple[float, CuTiming]:
        """The same with all code in the instruction cache, and the timing of a full CU."""
        machine, counts = self._machine(clock, free), self.traffic.residents
        by_count = {n: simulate(self.streams, n, machine) for n in sorted(set(counts))}
        return sum(by_count[n].cycles for n in counts), by_count[max(counts)]

    def _machine(self, clock: Clock, free: frozenset[str]) -> Machine:
        return Machine.of(self.target, self._memory(clock, free), 0.0, self._machine_free(free))

    def _machine_free(self, free: frozenset[str]) -> frozenset[str]:
        return (free & {"MFMA", "LDS", "issue"}) | ({"memory"} if "L2" in free else set())

    def _memory(self, clock: Clock, free: frozenset[str]) -> Memory:
        """Latency and rates of one CU's share, in cycles of this clock."""
        flow, no_llc = self.traffic, "LLC" in free
        no_hbm = no_llc or "HBM" in free
        return self.device.memory(
            clock.mhz * 1e6,
            flow.active_cus,
            flow.active_cus_per_xcd,
            (0.0 if no_llc else flow.from_llc, 0.0 if no_hbm else flow.from_hbm),
            (0.0 if no_llc else flow.llc_bytes / flow.l2_bytes, 0.0 if no_hbm else flow.hbm_bytes / flow.l2_bytes),
            self._footprint(),
        )

    def _footprint(self) -> int:
        w = self.workload
        return w.operand_bytes + w.m * w.n * w.output_bytes * w.matrices

    # ------------------------------------------------------------ the answer

    def prediction(self, what_if: bool = True) -> Prediction:
        """Everything there is to say."""
        base = self.base
        changes = self._what_if(base) if what_if else ()
        w, hertz = self.workload, base.clock.mhz * 1e6
        matrix = self.matrix_cycles * len(w.pieces) / self.product.compute_units
        lost = self._lost(base, base.seconds * hertz, matrix)
        peak = self.target.peak_tflops(w.dtype, self.product)
        best = peak * self.timing.matrix_efficiency * base.clock.mhz / self.product.clock_mhz * 1e12
        moved, copy_rate = self._footprint(), self.device.copy_rate
        return self.device.prediction(
            w,
            base.clock,
            seconds=base.seconds,
            launch_seconds=self.launch_seconds,
            moved=moved,
            tflops=w.flops / base.seconds / 1e12,
            share_of_peak=w.flops / base.seconds / 1e12 / peak,
            memory_bound=moved / copy_rate > w.flops / best,
            limiter=_limiter(base.seconds, changes, {"MFMA": matrix, **lost}),
            parts={name: cycles / hertz for name, cycles in {MULTIPLYING: matrix, **lost}.items()},
            loop=self._loop(base),
            levels=self._levels(base.seconds),
            rounds=len(self.traffic.residents),
            blocks=len(w.pieces),
            what_if=changes,
            notes=self._notes(base.clock),
        )

    def recording(self) -> Recording:
        """Record the events on a full CU with all code in the instruction cache."""
        base = self.base
        return record(self.streams, base.full.blocks, self._machine(base.clock, frozenset()))

    def _what_if(self, base: _Estimate) -> tuple[WhatIf, ...]:
        found = []
        for resource, change in _CHANGES.items():
            if resource == "clock" and base.clock.limit != "power":
                continue
            seconds = min(self._changed(base, resource), base.seconds)
            found.append(WhatIf(change, resource, seconds, base.seconds / seconds))
        return tuple(sorted(found, key=lambda x: -x.speedup))

    def _memory_shares(self) -> dict[str, float]:
        """Return the share of each level in the memory latency."""
        t, flow = self.timing, self.traffic
        parts = {
            "L2": t.l2_latency_ns,
            "LLC": flow.from_llc * (t.llc_latency_ns - t.l2_latency_ns),
            "HBM": flow.from_hbm * (t.hbm_latency_ns - t.llc_latency_ns),
        }
        total = sum(parts.values())
        return {name: part / total for name, part in parts.items()}

    def _by_resource(self, base: _Estimate) -> dict[str, float]:
        """Cycles lost per pass, memory's by level: latency as each level adds to it, bandwidth to the narrowest."""
        lost = base.full.lost
        out = {c.value: lost[c] for c in (Cause.LDS, Cause.ISSUE, Cause.BARRIERS, Cause.FETCH, Cause.ARCHITECTURE)}
        out |= {name: share * lost[Cause.MEMORY] for name, share in self._memory_shares().items()}
        out[self._memory(base.clock, frozenset()).narrowest] += lost[Cause.BANDWIDTH]
        return out

    def _lost(self, base: _Estimate, cycles: float, matrix: float) -> dict[str, float]:
        """Cycles in which a matrix unit of the average CU does nothing, by cause."""
        cus, tiles = self.product.compute_units, len(self.workload.pieces)
        worked = tiles / (base.full.blocks * cus)  # rounds that a CU is full, on average
        lost = {name: per_pass * self.passes * worked for name, per_pass in self._by_resource(base).items()}
        lost["fetch"] += base.cold_cycles if any(s.passes for s in self.streams) else 0.0
        lost["launch"] = self.launch_seconds * base.clock.mhz * 1e6
        steady = sum(lost.values()) + matrix
        fill = max(base.full.cycles * worked + lost["launch"] - steady, 0.0)
        lost["fill and drain"] = fill
        lost["tail"] = max(cycles - steady - fill, 0.0)
        return lost

    def _loop(self, base: _Estimate) -> Iteration:
        """A K-step of one block in the steady loop of a full CU."""
        cu = base.full
        steps = max(round(self.workload.piece_steps / self.passes), 1) * cu.blocks  # of all blocks, in a pass
        lost = {name: cycles / steps for name, cycles in self._by_resource(base).items()}
        return Iteration("K-step", self.workload.piece_steps, cu.pass_cycles / steps, cu.busy / steps, lost)

    def _levels(self, seconds: float) -> tuple[Level, ...]:
        flow = self.traffic

        def level(name: str, amount: int, hit: float) -> Level:
            return Level(name, amount, hit, amount / seconds / 1e12)

        return (
            level("L2", flow.l2_bytes, flow.l2_hit_rate),
            level("LLC", flow.llc_bytes, flow.llc_hit_rate),
            level("HBM", flow.hbm_bytes + flow.written_bytes, 1.0),
        )

    def _notes(self, clock: Clock) -> tuple[str, ...]:
        notes = []
        if clock.limit == "unknown":
            notes.append(
                f"an upper bound: what the power limit of {self.product.name} leaves in {self.workload.dtype} is not "
                f"published, so the clock is the peak"
            )
        if self.workload.repeats > 1:
            notes.append("a persistent grid: every tile is charged a block's start and end")
        return tuple(notes)


def _limiter(seconds: float, changes: Sequence[WhatIf], parts: Mapping[str, float]) -> str:
    """The resource whose absence alone would save most; without what-ifs the largest part of the time.

    Some changes contain others: without "L2" there is no "LLC" either, and without that no "HBM"; where multiplies take
    no time, no wave waits for those of another. Each counts for what it saves beyond the one that it contains.
    """
    if not changes:
        return max((n for n in _LIMITERS if n in parts), key=parts.__getitem__)
    saved = {x.resource: seconds - x.seconds for x in changes if x.resource in _LIMITERS}
    contained = {"L2": "LLC", "LLC": "HBM", "MFMA": "barriers"}
    own = {name: saving - saved.get(contained.get(name, ""), 0.0) for name, saving in saved.items()}
    return max(own, key=own.__getitem__)
