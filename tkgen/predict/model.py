"""Predicted time of a kernel on a device: the CU's timing, the grid's traffic and the clock put together.

>>> p = predict(tkgen.load("specs/ping_pong.tk").build(), product="MI325X")
>>> p.tflops, p.limiter, p.what_if[0]
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from tkgen.predict.cache import traffic
from tkgen.predict.clock import Clock, engine_clock
from tkgen.predict.events import Recording, record
from tkgen.predict.stream import WaveStream, block_streams
from tkgen.predict.timing import Cause, CuTiming, Machine, Memory, simulate
from tkgen.predict.workload import PredictError, Workload
from tkgen.targets import Target, load_target, target_names
from tkgen.targets.model import Product

if TYPE_CHECKING:
    from tkgen.build import Build


@dataclass(frozen=True)
class Level:
    """One level of the memory hierarchy: bytes it delivered and the share of requests it could serve itself."""

    name: str
    bytes: int
    hit_rate: float
    tbps: float


@dataclass(frozen=True)
class WhatIf:
    """What one change would bring: the predicted time with it, and how many times faster that is."""

    change: str
    resource: str
    seconds: float
    speedup: float


@dataclass(frozen=True)
class Prediction:
    """The time of one launch and where it goes. Cycles are of the engine clock, per SIMD, over the whole launch.

    `lost_cycles` adds up with `matrix_cycles` to `cycles`. `seconds` includes `launch_seconds`. `clock_limit` says
    whether power ("power") holds the clock below its peak. Where it is not known what the power limit leaves, the speed
    is an `upper_bound`.

    `gbps` counts every byte of the tensors once, in GB/s; `share_of_copy` is its share of what a copy reaches. The
    kernel is `memory_bound` where these bytes take longer at that rate than its multiplies at the matrix units' best.
    """

    kernel: str
    target: str
    product: str
    sizes: tuple[int, int, int]
    seconds: float
    tflops: float
    share_of_peak: float
    upper_bound: bool
    gbps: float
    share_of_copy: float
    memory_bound: bool
    limiter: str
    clock_mhz: float
    clock_limit: str
    launch_seconds: float
    cycles: float
    matrix_cycles: float
    lost_cycles: Mapping[str, float]
    cycles_per_step: float
    matrix_cycles_per_step: float
    lost_per_step: Mapping[str, float]
    levels: tuple[Level, ...]
    rounds: int
    blocks: int
    blocks_per_cu: int
    what_if: tuple[WhatIf, ...]
    notes: tuple[str, ...] = field(default=())


_CHANGES: Final = {
    "MFMA": "matrix instructions that take no time",
    "LDS": "an LDS without latency and bank conflicts",
    "issue": "no issue slots but for matrix instructions and barriers",
    "barriers": "waves that wait for no other wave's multiplies",
    "L2": "global memory without latency, at any rate",
    "LLC": "every access found in L2",
    "HBM": "every access found in the last-level cache",
    "tail": "all CUs busy to the end (smaller blocks, split-K, stream-K)",
    "fetch": "code in the instruction cache from the start",
    "launch": "no launch overhead",
    "clock": "the peak engine clock",
}
_LIMITERS: Final = ("MFMA", "LDS", "issue", "barriers", "L2", "LLC", "HBM", "fetch", "tail", "launch")


def predict(
    build: Build, sizes: Mapping[str, int] | None = None, product: str | None = None, *, what_if: bool = True
) -> Prediction:
    """Predict the time of `build` on a product of its target (the first of the target's file without a name).

    `sizes` gives the dynamic dimensions. Raises PredictError where the target has no timing data, the code no shape
    that can be extrapolated or the kernel cannot do the sizes, UnknownTargetError for an unknown product.
    """
    target = build.spec.target
    return predict_workload(Workload.of(build, sizes), target, product, what_if=what_if)


def predict_workload(
    workload: Workload, target: Target, product: str | None = None, *, what_if: bool = True
) -> Prediction:
    """Predict any compiled matrix product, however it was made. See `predict`."""
    return model_of(workload, target, device_of(target, product)).prediction(what_if)


def model_of(workload: Workload, target: Target, device: Product) -> Model:
    """The model of one workload on one device. Raises PredictError where no block of it fits a CU."""
    if workload.occupancy.blocks_per_cu == 0:
        raise PredictError(f"no block of {workload.name} fits on a compute unit")
    return Model(workload, target, device, block_streams(workload, target))


def device_of(target: Target, product: str | None = None) -> Product:
    """The device that a prediction for `target` is about: `product`, else the first of its file.

    Raises:
        PredictError: there is no timing data for the target.
        UnknownTargetError: it has no such product.
    """
    if target.timing is None:
        known = " and ".join(name for name in target_names() if load_target(name).timing)
        raise PredictError(f"{target.name} cannot be predicted: its file has no latencies and bandwidths; {known} have")
    return target.product_named(product) if product else target.product


@dataclass(frozen=True)
class _Estimate:
    """One evaluation of the model: `cycles` of all rounds, `cold_cycles` of them waiting for code."""

    seconds: float
    clock: Clock
    cycles: float
    cold_cycles: float
    full: CuTiming


class Model:
    """The model of one workload on one device."""

    def __init__(self, workload: Workload, target: Target, product: Product, streams: Sequence[WaveStream]):
        assert target.timing is not None
        self.workload, self.target, self.product, self.streams = workload, target, product, streams
        self.timing = target.timing
        self.traffic = traffic(workload, target, product)
        self.launch_seconds = self.timing.launch_us * 1e-6
        if workload.zeroed_bytes:  # clearing the output is a launch of its own
            self.launch_seconds += self.timing.launch_us * 1e-6 + workload.zeroed_bytes / self.copy_rate
        self.matrix_cycles = sum(self._matrix_cycles(s) for s in streams) / target.simds_per_cu

    @property
    def copy_rate(self) -> float:
        """Bytes a second that streams reach."""
        return self.product.hbm_tbps * self.timing.hbm_efficiency * 1e12

    def _matrix_cycles(self, s: WaveStream) -> float:
        parts = ((s.prologue, 1), (s.body, s.passes), (s.epilogue, 1))
        return sum(n * sum(i.cycles for i in part if i.flops) for part, n in parts)

    # ------------------------------------------------------------ one evaluation

    @property
    def passes(self) -> int:
        """Passes of the loop of the wave that has most; 1 where none loops."""
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
        t, flow, hertz = self.timing, self.traffic, clock.mhz * 1e6
        beyond_l2 = 0.0 if "LLC" in free else flow.llc_bytes / flow.l2_bytes
        beyond_llc = 0.0 if "HBM" in free or not beyond_l2 else flow.hbm_bytes / flow.l2_bytes
        latency = t.l2_latency_ns * 1e-9 * self.product.clock_mhz * 1e6
        if "LLC" not in free:
            latency += flow.from_llc * (t.llc_latency_ns - t.l2_latency_ns) * 1e-9 * hertz
            if "HBM" not in free:
                latency += flow.from_hbm * (t.hbm_latency_ns - t.llc_latency_ns) * 1e-9 * hertz
        llc_share = t.llc_tbps * 1e12 / hertz / flow.active_cus
        hbm_share = self.copy_rate / hertz / flow.active_cus
        rates = {"L2": min(t.l1_bytes_per_clock, t.l2_bytes_per_clock / flow.active_cus_per_xcd)}
        if beyond_l2:
            rates["LLC"] = llc_share / beyond_l2
        if beyond_llc:
            rates["HBM"] = hbm_share / beyond_llc
        narrowest = min(rates, key=rates.__getitem__)
        fits = self.target.llc_bytes >= self._footprint()
        write_rate = min(t.l1_bytes_per_clock, llc_share if fits else hbm_share)
        return Memory(latency, rates[narrowest], write_rate, narrowest)

    def _footprint(self) -> int:
        w = self.workload
        return w.operand_bytes + w.m * w.n * w.output_bytes * w.matrices

    # ------------------------------------------------------------ the answer

    def prediction(self, what_if: bool) -> Prediction:
        """Everything there is to say."""
        base = self.base
        changes = self._what_if(base) if what_if else ()
        w, hertz = self.workload, base.clock.mhz * 1e6
        cycles = base.seconds * hertz
        matrix = self.matrix_cycles * len(w.pieces) / self.product.compute_units
        lost = self._lost(base, cycles, matrix)
        peak = self.target.peak_tflops(w.dtype, self.product)
        best = peak * self.timing.matrix_efficiency * base.clock.mhz / self.product.clock_mhz * 1e12
        moved = self._footprint()
        return Prediction(
            kernel=w.name,
            target=self.target.name,
            product=self.product.name,
            sizes=(w.m, w.n, w.k),
            seconds=base.seconds,
            tflops=w.flops / base.seconds / 1e12,
            share_of_peak=w.flops / base.seconds / 1e12 / peak,
            upper_bound=base.clock.limit == "unknown",
            gbps=moved / base.seconds / 1e9,
            share_of_copy=moved / base.seconds / self.copy_rate,
            memory_bound=moved / self.copy_rate > w.flops / best,
            limiter=_limiter(base.seconds, changes, {"MFMA": matrix, **lost}),
            clock_mhz=base.clock.mhz,
            clock_limit=base.clock.limit,
            launch_seconds=self.launch_seconds,
            cycles=cycles,
            matrix_cycles=matrix,
            lost_cycles=lost,
            **self._per_step(base),
            levels=self._levels(base.seconds),
            rounds=len(self.traffic.residents),
            blocks=len(w.pieces),
            blocks_per_cu=w.occupancy.blocks_per_cu,
            what_if=changes,
            notes=self._notes(base.clock),
        )

    def recording(self) -> Recording:
        """What happens on a full CU with all code in the instruction cache, event by event."""
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
        """How much of the memory latency each level adds."""
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

    def _per_step(self, base: _Estimate) -> dict[str, Any]:
        """The steady loop of a full CU, per K-step of one of its blocks."""
        cu = base.full
        per_pass = max(round(self.workload.piece_steps / self.passes), 1)
        return {
            "cycles_per_step": cu.pass_cycles / per_pass / cu.blocks,
            "matrix_cycles_per_step": cu.busy / per_pass / cu.blocks,
            "lost_per_step": {k: v / per_pass / cu.blocks for k, v in self._by_resource(base).items()},
        }

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


@dataclass(frozen=True)
class Comparison:
    """Two predictions: `b` is `speedup` times as fast as `a` and loses `saved_cycles` less, by cause."""

    a: Prediction
    b: Prediction
    speedup: float
    saved_cycles: Mapping[str, float]


def compare(a: Prediction, b: Prediction) -> Comparison:
    """`b` beside `a`."""
    names = [*a.lost_cycles, *(n for n in b.lost_cycles if n not in a.lost_cycles)]
    saved = {n: a.lost_cycles.get(n, 0.0) - b.lost_cycles.get(n, 0.0) for n in names}
    return Comparison(a, b, a.seconds / b.seconds, saved)


def to_json(result: Prediction | Comparison) -> dict[str, Any]:
    """Plain data for `json.dumps`, every number finite."""
    data: dict[str, Any] = asdict(result)
    _check_finite(data)
    return data


def _check_finite(node: Any) -> None:
    if isinstance(node, dict):
        for child in node.values():
            _check_finite(child)
    elif isinstance(node, list | tuple):
        for child in node:
            _check_finite(child)
    elif isinstance(node, float) and not math.isfinite(node):
        raise PredictError("a predicted number is not finite")
