"""Predicted time of a kernel that moves rows: how near it comes to what a copy of the same bytes takes.

One compute unit runs the machine code of its blocks as `timing` does, but as a stream: where a block ends, the next one
begins, so that loads of one block pass beside the arithmetic and the stores of others. Loads and stores share the CU's
part of the memory's rate (`hbm_efficiency` of the peak); each needed byte counts there once, as lines that several
accesses touch are found in a cache, while every line that an access touches takes its time on the way to L2. What all
blocks read (a row of weights) counts once for the whole launch, what another loop reads again counts again.

>>> p = predict_rows(workload, load_target("gfx942"))
>>> p.gbps, p.share_of_copy
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Final

from tkgen.emulate import Arg, TraceRequest, launch
from tkgen.ir.types import WAVE_LANES
from tkgen.predict.events import Recording, recorded
from tkgen.predict.stream import Instruction, Unit, WaveStream, decoder, paths
from tkgen.predict.timing import ComputeUnit, Machine, Memory, Wave
from tkgen.predict.workload import PredictError
from tkgen.targets import Target
from tkgen.targets.model import LINE_BYTES, Product

MOST_INSTRUCTIONS: Final = 400_000  # of a block's waves together: a trace beyond this takes too long
SHOWN: Final = 2  # blocks in a row in each place of a CU, in what is written down of a run


@dataclass(frozen=True)
class RowWorkload:
    """A compiled kernel, its launch, and the bytes that it must move: each element of its tensors once.

    `read_again_bytes` are those that later loops over the same rows read anew: rows that need a loop fit no cache.
    """

    name: str
    hsaco: bytes = field(repr=False)
    kernel: str
    waves: int
    blocks: int
    blocks_per_cu: int
    read_bytes: int
    written_bytes: int
    sizes: tuple[tuple[str, int], ...]
    arguments: Callable[[], Sequence[Arg]] = field(repr=False)
    read_again_bytes: int = 0

    @property
    def bytes(self) -> int:
        """What a copy of as much would move."""
        return self.read_bytes + self.written_bytes


@dataclass(frozen=True)
class RowPrediction:
    """The time of one launch, launch overhead included, and where a CU's goes.

    `gbps` counts every byte of the tensors once; `share_of_copy` is that beside what streams reach on the product.
    `busy` is the share of the CU's time in which each of its units works; the busiest is the `limiter`, "latency" where
    none is busy most of the time.
    """

    kernel: str
    target: str
    product: str
    sizes: tuple[tuple[str, int], ...]
    seconds: float
    gbps: float
    share_of_copy: float
    copy_gbps: float
    limiter: str
    busy: dict[str, float]
    blocks: int
    blocks_per_cu: int
    launch_seconds: float

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        return asdict(self) | {"sizes": dict(self.sizes)}


def predict_rows(workload: RowWorkload, target: Target, product: Product) -> RowPrediction:
    """The predicted time of one launch with empty caches on `product` of `target`. Raises as `RowModel` does."""
    return RowModel(workload, target, product).prediction()


class RowModel:
    """A kernel on a device: its blocks over the CUs, one of which they pass through.

    Raises:
        PredictError: the target has no timing data, no block fits a CU, or a block is too long to follow.
    """

    def __init__(self, workload: RowWorkload, target: Target, product: Product):
        if target.timing is None:
            raise PredictError(f"{target.name} cannot be predicted: its file has no latencies and bandwidths")
        if workload.blocks_per_cu == 0:
            raise PredictError(f"no block of {workload.name} fits on a compute unit")
        self.workload, self.target, self.product, self.timing = workload, target, product, target.timing
        self.streams = _streams(workload, target)
        self.hertz = product.clock_mhz * 1e6
        self.copy_rate = product.hbm_tbps * self.timing.hbm_efficiency * 1e12
        self.each = -(-workload.blocks // product.compute_units)  # blocks of a CU

    @cached_property
    def machine(self) -> Machine:
        """One CU with its share of the memory."""
        share = self.copy_rate / self.hertz / min(self.product.compute_units, self.workload.blocks)
        return Machine.of(self.target, Memory(self.timing.hbm_latency_ns * 1e-9 * self.hertz, share, share, "HBM"))

    def _given(self, count: int) -> tuple[Sequence[WaveStream], int, Machine, int, float, float]:
        """What makes a CU (`RowUnit`) through which `count` blocks are to stream."""
        w = self.workload
        needed = (w.bytes + w.read_again_bytes) / w.blocks
        return self.streams, w.blocks_per_cu, self.machine, count, needed, float(self.timing.l1_bytes_per_clock)

    def prediction(self) -> RowPrediction:
        """The time of one launch, and where a CU's goes."""
        w, launch_seconds = self.workload, self.timing.launch_us * 1e-6
        cycles, busy = self._steady()
        seconds = launch_seconds + cycles / self.hertz
        limiter = max(busy, key=lambda unit: busy[unit])
        return RowPrediction(
            w.name,
            self.target.name,
            self.product.name,
            w.sizes,
            seconds,
            w.bytes / seconds / 1e9,
            w.bytes / seconds / self.copy_rate,
            self.copy_rate / 1e9,
            limiter if busy[limiter] > 0.7 else "latency",
            busy,
            w.blocks,
            w.blocks_per_cu,
            launch_seconds,
        )

    def recording(self) -> Recording:
        """What happens on a CU, event by event, while `SHOWN` blocks pass through each place on it."""
        return recorded(RowUnit, *self._given(min(self.each, SHOWN * self.workload.blocks_per_cu)))

    def _steady(self) -> tuple[float, dict[str, float]]:
        """Cycles of the blocks of a CU, and how busy its units are."""
        count, resident = self.each, self.workload.blocks_per_cu
        some, more = min(count, 2 * resident), min(count, 4 * resident)
        first = RowUnit(*self._given(some))
        first.run()
        if more == some:
            return first.end, first.busy()
        second = RowUnit(*self._given(more))
        second.run()
        return second.end + (second.end - first.end) / (more - some) * (count - more), second.busy()


def _streams(workload: RowWorkload, target: Target) -> tuple[WaveStream, ...]:
    """What every wave of block 0 executes, to its end."""
    outcome = launch(
        workload.hsaco,
        kernel=workload.kernel,
        grid=(workload.blocks, 1, 1),
        block=(workload.waves * WAVE_LANES, 1, 1),
        args=workload.arguments(),
        blocks=[0],
        budget=MOST_INSTRUCTIONS,
        trace=TraceRequest(limit=MOST_INSTRUCTIONS),
    )
    if not outcome.completed:
        raise PredictError(f"a block of {workload.name} is longer than {MOST_INSTRUCTIONS} instructions")
    decode = decoder(outcome, target)
    found = [tuple(decode(wave, i) for i in path) for wave, path in enumerate(paths(outcome, workload.waves))]
    return tuple(WaveStream(path, (), 0, ()) for path in found)


class RowUnit(ComputeUnit):
    """A CU through which `count` blocks stream, `resident` at a time; memory moves `needed` bytes of each."""

    def __init__(
        self, streams: Sequence[WaveStream], resident: int, machine: Machine, count: int, needed: float, path: float
    ):
        super().__init__(streams, min(resident, count), machine)
        self.waiting = count - min(resident, count)
        self.path, self.path_free, self.memory_free = path, 0.0, 0.0
        touched = sum(x.bytes for s in streams for x in s.prologue if x.unit is Unit.VMEM)
        self.fraction = needed / touched if touched else 0.0
        self.vector_free = [0.0] * machine.simds
        self.worked_by = dict.fromkeys(("HBM", "L2", "VALU", "LDS"), 0.0)

    def memory(self, wave: Wave, x: Instruction, now: float) -> None:
        """An access: its addresses, its lines to or from L2, the bytes of it that memory moves."""
        memory = self.machine.memory
        start = max(now, self.address_free)
        self.address_free = start + x.cycles
        moved = max(x.bytes, LINE_BYTES * x.pieces)
        self.path_free = max(self.path_free, start) + moved / self.path
        self.memory_free = max(self.memory_free, start) + x.bytes * self.fraction / memory.read_rate
        due = start + memory.latency
        done = max(due, self.path_free, self.memory_free + memory.latency)
        self.worked_by["HBM"] += x.bytes * self.fraction / memory.read_rate
        self.worked_by["L2"] += max(moved / self.path, x.cycles)
        wave.last_vector = max(wave.last_vector, done)
        wave.vector.append(wave.last_vector)
        wave.due.append(due)

    def issue(self, wave: Wave, unit: Unit, now: float) -> bool:
        """As any CU, but a vector unit is busy for all of an instruction's cycles; with an account of it and of LDS."""
        x = wave.code[wave.pc]
        if unit is Unit.VALU and self.vector_free[wave.simd] > now:
            wave.ready = self.vector_free[wave.simd]
            return False
        issued = super().issue(wave, unit, now)
        if issued and unit is Unit.VALU:
            self.vector_free[wave.simd] = now + x.cycles
            self.worked_by["VALU"] += x.cycles / self.machine.simds
        elif issued and unit is Unit.LDS:
            self.worked_by["LDS"] += x.lds_cycles
        return issued

    def _end(self, wave: Wave, now: float) -> None:
        super()._end(wave, now)
        block = wave.block
        if self.alive[block] or not self.waiting:
            return
        self.waiting -= 1
        self.alive[block] = len(self.streams)
        for index, stream in enumerate(self.streams):
            fresh = self._wave(stream, block, index, len(self.streams))
            fresh.ready = now + self.machine.issue
            mine = self.by_simd[fresh.simd]
            mine[:] = [w for w in mine if w.age != fresh.age]
            mine.append(fresh)
            self._schedule(fresh.simd, fresh.ready)

    def busy(self) -> dict[str, float]:
        """The share of the time in which each unit works."""
        return {unit: cycles / self.end for unit, cycles in self.worked_by.items()}
