"""Predicted time of a kernel that moves rows: how near it comes to what a copy of the same bytes takes.

One compute unit runs the machine code of its blocks as `timing` does, but as a stream: where a block ends, the next one
begins, so that loads of one block pass beside the arithmetic and the stores of others. Loads and stores share the CU's
part of the memory's rate (`hbm_efficiency` of the peak); each needed byte counts there once, as lines that several
accesses touch are found in a cache, while every line that an access touches takes its time on the way to L2. Bytes that
all blocks read (a row of weights) count once for the launch; bytes that another loop reads again count again.

>>> p = ThroughputModel(Transfer.of(build), Device.of(build.spec.target)).prediction()
>>> p.gbps, p.share_of_copy
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.equations import Kernel, Load
from tkgen.ir.launch import Launch
from tkgen.ir.tensors import Tensor
from tkgen.predict.device import Clock, Device, check_fits
from tkgen.predict.events import Recording, recorded
from tkgen.predict.prediction import PredictError, Prediction, WhatIf
from tkgen.predict.stream import Instruction, Unit, WaveStream, decoder, paths
from tkgen.predict.timing import BusyUnit, Machine, Memory, Wave
from tkgen.predict.workload import Launched, of_launch
from tkgen.schedule.sweeps import regions
from tkgen.targets import Target
from tkgen.targets.model import LINE_BYTES

if TYPE_CHECKING:
    from tkgen.backends.cdna.spec import Spec
    from tkgen.build import Build

CHANGES: Final = {
    "memory": "global memory with no latency and unlimited bandwidth",
    "issue": "vector and scalar instructions that take no time",
    "LDS": "an LDS without latency and bank conflicts",
}  # the meaning of each costing nothing
MOST_INSTRUCTIONS: Final = 400_000  # of a block's waves together: a trace beyond this takes too long
SHOWN: Final = 2  # blocks in a row in each place of a CU, in what is written down of a run


def launch_at(spec: Spec[EquationProgram], sizes: Mapping[str, int] | None) -> Launch[EquationProgram]:
    """The launch that is predicted. Raises PredictError for sizes that the kernel cannot do."""
    try:
        return spec.launch(sizes)
    except ValueError as error:
        raise PredictError(str(error)) from None


def read_counts(kernel: Kernel) -> Counter[Tensor]:
    """In how many parts of the kernel, loops and what is between them, each tensor is read."""
    return Counter(
        tensor
        for body in (region.ops for region in regions(kernel))
        for tensor in {op.source.tensor for op in body if isinstance(op, Load)}
    )


@dataclass(frozen=True, kw_only=True)
class Transfer(Launched):
    """A compiled kernel, its launch, and the bytes that it must move: each element of its tensors once.

    `read_again_bytes` are those that later loops over the same rows read anew: rows that need a loop fit no cache.
    """

    read_bytes: int
    written_bytes: int
    read_again_bytes: int = 0

    @property
    def bytes(self) -> int:
        """The bytes that a copy of the same tensors would move."""
        return self.read_bytes + self.written_bytes

    @classmethod
    def of(cls, build: Build, sizes: Mapping[str, int] | None = None) -> Transfer:
        """The workload of a build; `sizes` for its dynamic dimensions. PredictError for sizes it cannot do."""
        launch = launch_at(build.spec, sizes)
        kernel = launch.program.kernel
        return cls(
            **of_launch(build, launch, {t: launch.offset_values(axis) for t, axis in kernel.offsets.items()}),
            read_bytes=sum(map(launch.bytes, kernel.inputs)),
            written_bytes=sum(map(launch.bytes, kernel.outputs)),
            read_again_bytes=sum((count - 1) * launch.bytes(t) for t, count in read_counts(kernel).items()),
        )


class ThroughputModel:
    """A kernel on a device: its blocks over the CUs, one of which they pass through.

    Raises:
        PredictError: no block fits a CU, or a block is too long to follow.
        ToolchainError: the emulator cannot start it.
    """

    def __init__(self, workload: Transfer, device: Device):
        check_fits(workload)
        self.workload, self.device = workload, device
        self.target, self.product, self.timing = device.target, device.product, device.timing
        self.streams = _streams(workload, device.target)
        self.hertz = self.product.clock_mhz * 1e6
        self.each = -(-workload.blocks // self.product.compute_units)  # blocks of a CU

    def machine(self, free: frozenset[str] = frozenset()) -> Machine:
        """One CU with its share of the memory; what is `free` costs nothing."""
        share = self.device.copy_rate / self.hertz / min(self.product.compute_units, self.workload.blocks)
        memory = Memory(self.timing.hbm_latency_ns * 1e-9 * self.hertz, share, share, "HBM")
        return Machine.of(self.target, memory, free=free)

    def _given(
        self, count: int, free: frozenset[str] = frozenset()
    ) -> tuple[Sequence[WaveStream], int, Machine, int, float, float]:
        """Return the arguments of a CU (`StreamedUnit`) through which `count` blocks stream."""
        w = self.workload
        needed = (w.bytes + w.read_again_bytes) / w.blocks
        return self.streams, w.blocks_per_cu, self.machine(free), count, needed, float(self.timing.l1_bytes_per_clock)

    def prediction(self, what_if: bool = True) -> Prediction:
        """The time of one launch, and where a CU's goes."""
        w, start = self.workload, self.device.launch_seconds
        cycles, busy = self._steady()
        seconds = start + cycles / self.hertz
        changes = [("launch", seconds - start)] if what_if else []
        units = {x.unit for stream in self.streams for x in stream.prologue}
        for name in (n for n in CHANGES if what_if and (n != "LDS" or Unit.LDS in units)):
            gained = self._some(frozenset({name})).end / self._first.end
            changes.append((name, start + min(gained, 1.0) * cycles / self.hertz))
        limiter = max(busy, key=lambda unit: busy[unit])
        return self.device.prediction(
            w,
            Clock(self.product.clock_mhz, "peak"),
            seconds=seconds,
            launch_seconds=start,
            moved=w.bytes,
            memory_bound=True,
            limiter=limiter if busy[limiter] > 0.7 else "latency",
            busy=busy,
            what_if=tuple(
                WhatIf(CHANGES.get(name, "no launch overhead"), name, with_it, seconds / with_it)
                for name, with_it in sorted(changes, key=lambda change: change[1])
            ),
        )

    def recording(self) -> Recording:
        """Record the events on a CU while `SHOWN` blocks run in each place on it, one after another."""
        return recorded(StreamedUnit, *self._given(min(self.each, SHOWN * self.workload.blocks_per_cu)))

    @cached_property
    def _first(self) -> StreamedUnit:
        """The run with everything at its cost."""
        return self._some()

    def _some(self, free: frozenset[str] = frozenset()) -> StreamedUnit:
        """A run of two blocks in each place of a CU; what is `free` costs nothing."""
        unit = StreamedUnit(*self._given(min(self.each, 2 * self.workload.blocks_per_cu), free))
        unit.run()
        return unit

    def _steady(self) -> tuple[float, dict[str, float]]:
        """Cycles of the blocks of a CU, and how busy its units are."""
        count, resident = self.each, self.workload.blocks_per_cu
        some, more, first = min(count, 2 * resident), min(count, 4 * resident), self._first
        if more == some:
            return first.end, first.busy()
        second = StreamedUnit(*self._given(more))
        second.run()
        return second.end + (second.end - first.end) / (more - some) * (count - more), second.busy()


def _streams(workload: Transfer, target: Target) -> tuple[WaveStream, ...]:
    """Return the instructions that every wave of block 0 executes, to its end."""
    outcome = workload.run(MOST_INSTRUCTIONS)
    if not outcome.completed:
        raise PredictError(f"a block of {workload.name} is longer than {MOST_INSTRUCTIONS} instructions")
    decode = decoder(outcome, target)
    found = [tuple(decode(wave, i) for i in path) for wave, path in enumerate(paths(outcome, workload.waves))]
    return tuple(WaveStream(path, (), 0, ()) for path in found)


class StreamedUnit(BusyUnit):
    """A CU through which `count` blocks stream, `resident` at a time; memory moves `needed` bytes of each."""

    def __init__(
        self, streams: Sequence[WaveStream], resident: int, machine: Machine, count: int, needed: float, path: float
    ):
        super().__init__(streams, min(resident, count), machine)
        self.waiting = count - min(resident, count)
        self.path, self.path_free, self.memory_free = path, 0.0, 0.0
        touched = sum(x.bytes for s in streams for x in s.prologue if x.unit is Unit.VMEM)
        self.fraction = needed / touched if touched else 0.0
        self.worked_by = dict.fromkeys(("HBM", "L2", "VALU", "LDS"), 0.0)

    def memory(self, wave: Wave, x: Instruction, now: float) -> None:
        """An access: its addresses, its lines to or from L2, the bytes of it that memory moves."""
        if "memory" in self.free:
            wave.last_vector = max(wave.last_vector, now)
            wave.vector.append(wave.last_vector)
            wave.due.append(now)
            return
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
        """The same with an account of vector units and of LDS."""
        x = wave.code[wave.pc]
        issued = super().issue(wave, unit, now)
        if issued and unit is Unit.VALU:
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
