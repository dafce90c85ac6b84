"""Predicted time of a kernel whose loop multiplies what it made of products, such as attention.

One compute unit runs the machine code of as many blocks as it has room for, as `timing` does, some passes of the loop,
which are extended to those that a block makes on average. A vector unit is busy for all cycles of an instruction: in
such a loop powers and maxima take the place of waits, and waves of several blocks want the unit at once. The blocks of
an XCD that walk along the same tiles fetch each of them once into its L2; over the launch each byte of the tensors is
read from HBM once, where what moves fits the last-level cache.

>>> p = LoopModel(workload, target, target.product).prediction()
>>> p.tflops, p.limiter
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from tkgen.emulate import Arg, EmulateError, Outcome, TraceRequest, launch
from tkgen.ir.types import WAVE_LANES
from tkgen.predict.clock import Clock, engine_clock
from tkgen.predict.events import Recording, recorded
from tkgen.predict.rows import RowPrediction
from tkgen.predict.stream import Instruction, Unit, WaveStream, looped
from tkgen.predict.timing import ComputeUnit, CuTiming, Machine, Memory, Wave
from tkgen.predict.workload import PredictError
from tkgen.targets import Target
from tkgen.targets.model import Product
from tkgen.toolchain.compiler import ToolchainError

CHANGES: Final = {
    "MFMA": "matrix instructions that take no time",
    "LDS": "an LDS without latency and bank conflicts",
    "issue": "no issue slots but for matrix instructions and barriers",
    "memory": "global memory without latency, at any rate",
}  # what each would mean to cost nothing


@dataclass(frozen=True)
class LoopWorkload:
    """A compiled kernel and its launch.

    A block makes `passes` passes of the loop on average, and no block more than `most`, which is what number `longest`
    makes; `unrolled` of them, which divide both, stand in the machine code's loop. `moving_bytes` of the tensors go
    through LDS pass by pass; blocks with the same `walks`, by their number, walk along the same tiles of them.
    """

    name: str
    hsaco: bytes = field(repr=False)
    kernel: str
    waves: int
    blocks: int
    blocks_per_cu: int
    dtype: str
    passes: float
    most: int
    longest: int
    read_bytes: int
    written_bytes: int
    moving_bytes: int
    sizes: tuple[tuple[str, int], ...]
    walks: Callable[[int], Hashable] = field(repr=False)
    arguments: Callable[[], Sequence[Arg]] = field(repr=False)
    unrolled: int = 1


@dataclass(frozen=True)
class LoopPrediction(RowPrediction):
    """As that of rows; `tflops` counts what the matrix instructions of the visited tiles multiply.

    `busy` is the share of a pass in which each unit works, `lost` that in which a matrix unit waits, by cause, and
    `faster` how many times as fast it were if one of `CHANGES` alone cost nothing; the `limiter` is what saves most.
    `passes` is what a block makes on average. Where no clock under sustained load is published for the product, the
    speed is an `upper_bound`.
    """

    tflops: float
    share_of_peak: float
    clock_mhz: float
    upper_bound: bool
    passes: float
    cycles_per_pass: float
    lost: dict[str, float]
    faster: dict[str, float]


def _run(workload: LoopWorkload, limit: int) -> Outcome:
    try:
        return launch(
            workload.hsaco,
            kernel=workload.kernel,
            grid=(workload.blocks, 1, 1),
            block=(workload.waves * WAVE_LANES, 1, 1),
            args=workload.arguments(),
            blocks=[workload.longest],
            budget=limit,
            trace=TraceRequest(limit=limit),
        )
    except EmulateError as error:
        raise ToolchainError(f"{workload.name} does not run on the emulator: {error}") from error


class LoopModel:
    """A kernel on a device: blocks over its CUs in rounds, the memory as one CU sees it.

    Raises:
        PredictError: the target has no timing data, no block fits a CU, or the code has no shape to extrapolate.
        ToolchainError: the emulator cannot start it.
    """

    def __init__(self, workload: LoopWorkload, target: Target, product: Product):
        if target.timing is None:
            raise PredictError(f"{target.name} cannot be predicted: its file has no latencies and bandwidths")
        if workload.blocks_per_cu == 0:
            raise PredictError(f"no block of {workload.name} fits on a compute unit")
        streams = looped(lambda limit: _run(workload, limit), workload.name, workload.waves, target)
        unrolled = workload.unrolled  # from here on a pass is one of the machine code's loop
        workload = replace(workload, passes=workload.passes / unrolled, most=workload.most // unrolled)
        self.workload, self.target, self.product, self.timing = workload, target, product, target.timing
        # A pass may begin before the loop and end behind it: what stands there counts as what it multiplies.
        once, each = (sum(x.flops for s in streams for x in part(s)) for part in (_around, _body))
        self.around = min(once / each, workload.most) if each else 0.0
        looping = round(workload.most - self.around)
        self.streams = [replace(s, passes=looping if s.body else 0) for s in streams]
        self.copy_rate = product.hbm_tbps * self.timing.hbm_efficiency * 1e12
        cus = product.compute_units
        self.active = min(cus, workload.blocks)
        self.resident = min(workload.blocks_per_cu, -(-workload.blocks // cus))
        self.flops = workload.blocks * self._of_block("flops")
        matrix = sum(
            n * sum(x.cycles for x in part if x.flops) for s in self.streams for part, n in self._parts(s)
        )  # fmt: skip
        self.matrix_cycles = workload.blocks * matrix / target.simds_per_cu / cus

    def _parts(self, s: WaveStream) -> tuple[tuple[Sequence[Instruction], float], ...]:
        return (s.prologue, 1), (s.body, max(self.workload.passes - self.around, 0.0)), (s.epilogue, 1)

    def _of_block(self, number: str) -> float:
        """The sum of a number of `Instruction` over what a block executes on average."""
        return float(sum(n * sum(getattr(x, number) for x in part) for s in self.streams for part, n in self._parts(s)))

    def cycles(self, clock: Clock, free: frozenset[str] = frozenset()) -> tuple[float, CuTiming]:
        """Cycles of the launch, and the timing of a full CU; what is `free` costs nothing."""
        w, cus = self.workload, self.product.compute_units
        machine = Machine.of(self.target, self.memory(clock), free=free)
        full = _simulated(self.streams, self.resident, machine)
        rounds, left = divmod(w.blocks, cus * self.resident)
        total = rounds * self._block(full, w.passes)
        if left:
            count = -(-left // cus)
            last = full if count == self.resident else _simulated(self.streams, count, machine)
            total += self._block(last, w.passes)
        # The longest block is one that begins at once, or nearly so.
        longest = self._block(full, w.most)
        needed = (w.read_bytes + w.written_bytes) / self.copy_rate * clock.mhz * 1e6
        return max(total, longest, 0.0 if "memory" in free else needed), full

    def _block(self, timing: CuTiming, passes: float) -> float:
        """Cycles until blocks that are on a CU together are done with so many passes."""
        most = self.workload.most
        if not any(s.body for s in self.streams):  # straight code
            return timing.cycles * passes / most
        return timing.cycles - timing.pass_cycles * (most - passes)

    @cached_property
    def settled(self) -> tuple[Clock, float, CuTiming]:
        """The clock that settles with what it leaves to do, cycles of the launch at it, the timing of a full CU."""
        clock = Clock(self.product.clock_mhz, "peak")
        for _ in range(3):  # a lower clock makes memory faster in cycles, and leaves the matrix units less time to rest
            cycles, _ = self.cycles(clock)
            found = engine_clock(self.target, self.product, self.workload.dtype, self.matrix_cycles / cycles)
            if abs(found.mhz - clock.mhz) < 0.01 * clock.mhz:
                break
            clock = found
        return clock, *self.cycles(clock)

    def prediction(self) -> LoopPrediction:
        """The time of one launch with empty caches, and where a pass's goes."""
        w, (clock, cycles, steady) = self.workload, self.settled
        launch_seconds = self.timing.launch_us * 1e-6
        seconds = launch_seconds + cycles / (clock.mhz * 1e6)
        faster = {name: max(cycles / self.cycles(clock, frozenset({name}))[0], 1.0) for name in CHANGES}
        rate, moved = self.flops / seconds / 1e12, w.read_bytes + w.written_bytes
        return LoopPrediction(
            w.name,
            self.target.name,
            self.product.name,
            w.sizes,
            seconds,
            moved / seconds / 1e9,
            moved / seconds / self.copy_rate,
            self.copy_rate / 1e9,
            max(faster, key=lambda name: faster[name]),
            self.busy(clock, steady),
            w.blocks,
            w.blocks_per_cu,
            launch_seconds,
            rate,
            rate / self.target.peak_tflops(w.dtype, self.product),
            clock.mhz,
            clock.limit == "unknown",
            w.passes * w.unrolled,
            steady.pass_cycles / w.unrolled,
            {cause.value: cycles / steady.pass_cycles for cause, cycles in steady.lost.items()},
            faster,
        )

    def recording(self) -> Recording:
        """What happens on a full CU in some passes, event by event."""
        machine = Machine.of(self.target, self.memory(self.settled[0]))
        return recorded(LoopUnit, self.streams, self.resident, machine)

    def memory(self, clock: Clock) -> Memory:
        """Latency and rates of one CU's share, in cycles of this clock."""
        t, w, hertz = self.timing, self.workload, clock.mhz * 1e6
        beyond_l2, beyond_llc = self.beyond
        latency = t.l2_latency_ns * 1e-9 * self.product.clock_mhz * 1e6
        latency += (t.llc_latency_ns - t.l2_latency_ns) * 1e-9 * hertz
        latency += beyond_llc / beyond_l2 * (t.hbm_latency_ns - t.llc_latency_ns) * 1e-9 * hertz
        per_xcd = -(-self.active // self.product.xcds)
        llc, hbm = t.llc_tbps * 1e12 / hertz / self.active, self.copy_rate / hertz / self.active
        rates = {
            "L2": min(t.l1_bytes_per_clock, t.l2_bytes_per_clock / per_xcd),
            "LLC": llc / beyond_l2,
            "HBM": hbm / beyond_llc,
        }
        narrowest = min(rates, key=lambda level: rates[level])
        fits = self.target.llc_bytes >= w.read_bytes + w.written_bytes
        return Memory(latency, rates[narrowest], min(t.l1_bytes_per_clock, llc if fits else hbm), narrowest)

    @property
    def beyond(self) -> tuple[float, float]:
        """Of the bytes that blocks read, the shares that come from beyond L2, and from beyond the last-level cache."""
        w, xcds = self.workload, self.product.xcds
        at_once = min(w.blocks, self.active * self.resident)
        shares = []
        for xcd in range(min(xcds, at_once)):
            blocks = range(xcd, at_once, xcds)
            shares.append(len({w.walks(block) for block in blocks}) / len(blocks))
        beyond_l2 = sum(shares) / len(shares)
        asked = w.blocks * self._of_block("bytes")
        once = min(w.read_bytes / asked, 1.0) if asked else 1.0
        if w.moving_bytes > self.target.llc_bytes:
            return beyond_l2, beyond_l2
        return max(beyond_l2, once), once

    def busy(self, clock: Clock, steady: CuTiming) -> dict[str, float]:
        """The share of a pass of a full CU in which each of its units works."""
        simds = self.target.simds_per_cu
        body = [x for s in self.streams for x in (s.body or s.prologue)]
        memory, moved = self.memory(clock), sum(max(x.bytes, 64 * x.pieces) for x in body if x.unit is Unit.VMEM)
        work = {
            "MFMA": sum(x.cycles for x in body if x.flops) / simds,
            "VALU": sum(x.cycles for x in body if x.unit is Unit.VALU) / simds,
            "LDS": float(sum(x.lds_cycles for x in body)),
            memory.narrowest: moved / memory.read_rate,
        }
        return {unit: min(self.resident * cycles / steady.pass_cycles, 1.0) for unit, cycles in work.items()}


def _around(s: WaveStream) -> Sequence[Instruction]:
    return (*s.prologue, *s.epilogue)


def _body(s: WaveStream) -> Sequence[Instruction]:
    return s.body


def _simulated(streams: Sequence[WaveStream], blocks: int, machine: Machine) -> CuTiming:
    unit = LoopUnit(streams, blocks, machine)
    unit.run()
    return unit.result()


class LoopUnit(ComputeUnit):
    """A CU whose vector units are busy for all cycles of an instruction."""

    def __init__(self, streams: Sequence[WaveStream], blocks: int, machine: Machine):
        super().__init__(streams, blocks, machine)
        self.vector_free = [0.0] * machine.simds

    def issue(self, wave: Wave, unit: Unit, now: float) -> bool:
        """As any CU, but one vector instruction of a SIMD ends before the next begins."""
        if unit is not Unit.VALU or unit in self.costless:
            return super().issue(wave, unit, now)
        if self.vector_free[wave.simd] > now:
            wave.ready = self.vector_free[wave.simd]
            return False
        cycles = wave.code[wave.pc].cycles
        issued = super().issue(wave, unit, now)
        if issued:
            self.vector_free[wave.simd] = now + cycles
        return issued
