"""Predicted time of a kernel whose blocks walk along tiles, some of them more than others, such as attention.

One compute unit runs the machine code of as many blocks as it has room for, as `timing` does, some iterations of the
loop, which are extended to those that a block makes on average. A vector unit is busy for all cycles of an instruction:
in such a loop powers and maxima take the place of waits, and waves of several blocks want the unit at once. The blocks
of an XCD that walk along the same tiles fetch each of them once into its L2; over the launch each byte of the tensors
is read from HBM once, where what moves fits the last-level cache.

>>> p = IterationModel(Iterations.of(build), Device.of(build.spec.target)).prediction()
>>> p.tflops, p.limiter
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product as combinations
from math import prod
from typing import TYPE_CHECKING, Final

from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.equations import Access, Axis
from tkgen.ir.launch import Launch
from tkgen.predict.device import Clock, Device, check_fits, engine_clock
from tkgen.predict.events import Recording, recorded
from tkgen.predict.prediction import Iteration, PredictError, Prediction, WhatIf
from tkgen.predict.stream import Instruction, Unit, WaveStream, looped
from tkgen.predict.throughput import launch_at
from tkgen.predict.timing import BusyUnit, CuTiming, Machine, Memory
from tkgen.predict.workload import Launched, of_launch
from tkgen.schedule.loop_tiles import extent

if TYPE_CHECKING:
    from tkgen.build import Build

CHANGES: Final = {
    "MFMA": "matrix instructions that take no time",
    "LDS": "an LDS without latency and bank conflicts",
    "issue": "no issue slots but for matrix instructions and barriers",
    "memory": "global memory with no latency and unlimited bandwidth",
}  # the meaning of each costing nothing


@dataclass(frozen=True, kw_only=True)
class Iterations(Launched):
    """A compiled kernel and its launch.

    A block makes `passes` iterations of the loop on average, and no block more than `most`, which is what number
    `longest` makes; `unrolled` of them, which divide both, stand in the machine code's loop. `moving_bytes` of the
    tensors go through LDS pass by pass; blocks with the same `walks`, by their number, walk along the same tiles of
    them. Lanes load `loaded_share` of what a block reads directly, the same for blocks with the same `loads`.
    """

    dtype: str
    passes: float
    most: int
    longest: int
    read_bytes: int
    written_bytes: int
    moving_bytes: int
    walks: Callable[[int], Hashable] = field(repr=False)
    loads: Callable[[int], Hashable] = field(repr=False)
    loaded_share: float = 0.0
    unrolled: int = 1
    outside_flops: float = 0.0  # of a block in products that are not in the loop

    @classmethod
    def of(cls, build: Build, sizes: Mapping[str, int] | None = None) -> Iterations:
        """The workload of a build; `sizes` for its dynamic dimensions. PredictError for sizes it cannot do."""
        launch, layout = launch_at(build.spec, sizes), build.spec.layout
        if launch.program.grid.name == "persistent":
            raise PredictError("fused matmuls whose blocks compute several tiles are not modelled: remove `grid`")
        kernel = launch.program.kernel
        passes, longest = _passes(launch, layout.loop.axis)
        moving = {ring.access.tensor for ring in layout.moving}
        loaded = [load.source for load in layout.loads_of_iterations if len(load.result.axes) > 1]

        def along(accesses: Iterable[Access]) -> Callable[[int], Hashable]:
            indices = [index for access in accesses for index in access.indices]

            def number(block: int) -> Hashable:
                place = launch.place(block)
                found = tuple(place[i.axis] // i.divisor for i in indices if i.axis in place)
                return (*found, place[kernel.groups]) if kernel.groups is not None else found

            return number

        in_lds = sum(ring.bytes // ring.buffers for ring in layout.moving)
        by_lanes = sum(prod(map(extent, access.axes)) * access.tensor.dtype.bytes for access in loaded)

        return cls(
            **of_launch(build, launch, {t: launch.offset_values(axis) for t, axis in kernel.offsets.items()}),
            dtype=layout.multiplications[0].moving.access.tensor.dtype.spelling,
            passes=sum(passes) / len(passes),
            most=max(passes),
            unrolled=layout.unrolled,
            longest=longest,
            read_bytes=sum(map(launch.bytes, kernel.inputs)),
            written_bytes=sum(launch.bytes(t) * (1 + (t.name in kernel.added)) for t in kernel.outputs),  # zeros, sums
            moving_bytes=sum(map(launch.bytes, moving)),
            walks=along(ring.access for ring in layout.moving),
            loads=along(loaded),
            loaded_share=by_lanes / (in_lds + by_lanes),
            outside_flops=sum(
                2.0 * layout.waves * layout.columns * extent(x.rows) * extent(x.summed) for x in layout.outside
            ),
        )


class IterationModel:
    """A kernel on a device: blocks over its CUs in rounds, the memory as one CU sees it.

    Raises:
        PredictError: no block fits a CU, or the code has no shape to extrapolate.
        ToolchainError: the emulator cannot start it.
    """

    def __init__(self, workload: Iterations, device: Device):
        check_fits(workload)
        self.device, self.target, self.product = device, device.target, device.product
        streams = looped(
            lambda limit: workload.run(limit, workload.longest), workload.name, workload.waves, device.target
        )
        unrolled = workload.unrolled  # from here on a pass is one of the machine code's loop
        workload = replace(workload, passes=workload.passes / unrolled, most=workload.most // unrolled)
        self.workload = workload
        # A pass may begin before the loop and end behind it: what stands there counts as what it multiplies.
        around, each = (sum(x.flops for s in streams for x in part(s)) for part in (_around, _body))
        once = max(around - workload.outside_flops, 0.0)
        self.around = min(once / each, workload.most) if each else 0.0
        looping = round(workload.most - self.around)
        self.streams = [replace(s, passes=looping if s.body else 0) for s in streams]
        cus = self.product.compute_units
        self.active = min(cus, workload.blocks)
        self.resident = min(workload.blocks_per_cu, -(-workload.blocks // cus))
        self.flops = workload.blocks * self._of_block("flops")
        matrix = sum(n * sum(x.cycles for x in part if x.flops) for s in self.streams for part, n in self._parts(s))
        self.matrix_cycles = workload.blocks * matrix / self.target.simds_per_cu / cus

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
        needed = (w.read_bytes + w.written_bytes) / self.device.copy_rate * clock.mhz * 1e6
        return max(total, longest, 0.0 if "memory" in free else needed), full

    def _block(self, timing: CuTiming, passes: float) -> float:
        """Cycles until blocks that are on a CU together are done with so many iterations."""
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

    def prediction(self, what_if: bool = True) -> Prediction:
        """The time of one launch with empty caches, and where an iteration's goes."""
        w, (clock, cycles, steady) = self.workload, self.settled
        start, hertz = self.device.launch_seconds, clock.mhz * 1e6
        seconds = start + cycles / hertz
        changes = []
        for name, change in CHANGES.items():
            with_it = start + min(self.cycles(clock, frozenset({name}))[0], cycles) / hertz
            changes.append(WhatIf(change, name, with_it, seconds / with_it))
        changes.sort(key=lambda x: -x.speedup)
        rate, moved = self.flops / seconds / 1e12, w.read_bytes + w.written_bytes
        lost = {cause.value: cycles / w.unrolled for cause, cycles in steady.lost.items()}
        return self.device.prediction(
            w,
            clock,
            seconds=seconds,
            launch_seconds=start,
            moved=moved,
            tflops=rate,
            share_of_peak=rate / self.target.peak_tflops(w.dtype, self.product),
            limiter=changes[0].resource,
            busy=self.busy(clock, steady),
            loop=Iteration(
                "iteration", w.passes * w.unrolled, steady.pass_cycles / w.unrolled, steady.busy / w.unrolled, lost
            ),
            what_if=tuple(changes) if what_if else (),
        )

    def recording(self) -> Recording:
        """Record the events on a full CU in some iterations."""
        machine = Machine.of(self.target, self.memory(self.settled[0]))
        return recorded(BusyUnit, self.streams, self.resident, machine)

    def memory(self, clock: Clock) -> Memory:
        """Latency and rates of one CU's share, in cycles of this clock."""
        w, (beyond_l2, beyond_llc) = self.workload, self.beyond
        per_xcd, footprint = -(-self.active // self.product.xcds), w.read_bytes + w.written_bytes
        waits, beyond = (1.0, beyond_llc / beyond_l2), (beyond_l2, beyond_llc)
        return self.device.memory(clock.mhz * 1e6, self.active, per_xcd, waits, beyond, footprint)

    @property
    def beyond(self) -> tuple[float, float]:
        """Of the bytes that blocks read, the shares that come from beyond L2, and from beyond the last-level cache."""
        w, xcds = self.workload, self.product.xcds
        at_once = min(w.blocks, self.active * self.resident)
        groups = [range(xcd, at_once, xcds) for xcd in range(min(xcds, at_once))]
        moved, loaded = (
            sum(len(set(map(number, blocks))) / len(blocks) for blocks in groups) / len(groups)
            for number in (w.walks, w.loads)
        )
        beyond_l2 = moved + w.loaded_share * (loaded - moved)
        asked = w.blocks * self._of_block("bytes")
        once = min(w.read_bytes / asked, 1.0) if asked else 1.0
        if w.moving_bytes > self.target.llc_bytes:
            return beyond_l2, beyond_l2
        return max(beyond_l2, once), once

    def busy(self, clock: Clock, steady: CuTiming) -> dict[str, float]:
        """The share of an iteration of a full CU in which each of its units works."""
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
    unit = BusyUnit(streams, blocks, machine)
    unit.run()
    return unit.result()


def _passes(launch: Launch[EquationProgram], axis: Axis) -> tuple[list[int], int]:
    """Return the number of tiles of the loop that each block visits, alike for all that differ along other axes than
    its bounds and parts name, and the groups; and a block that visits most. Blocks for which no group has a tile visit
    none.
    """
    walked, groups = launch.walked, launch.program.kernel.groups
    told = {axis.part, *(b.axis for b in axis.bounds)}
    bounding = [a for a in launch.program.parallel if a == walked or a.name in told]
    counts: dict[tuple[int, ...], int] = {}
    for group in range(launch.group_count):
        size = len(launch.groups[axis][group]) if axis.within else launch.extents[axis.dim.name]
        tiled = [-(-len(launch.groups[a][group]) // (a.tile or 1)) if a.within else launch.tiles(a) for a in bounding]
        for at in combinations(*map(range, tiled)):
            tiles = {
                a.name: range(n * (a.tile or 1), (n + 1) * (a.tile or 1)) for a, n in zip(bounding, at, strict=True)
            }
            longer, own = size - _bounding_length(launch, axis, group), range(size)
            if axis.part is not None:
                (part,) = tiles[axis.part]
                run = axis.part_length(size, next(launch.tiles(a) for a in bounding if a.name == axis.part))
                own = own[part * run : (part + 1) * run]
            starts = own[:: axis.tile or 1]
            counts[group, *at] = sum(axis.visits(start, tiles, longer) for start in starts)
    most = max(counts, key=lambda at: counts[at])
    place = dict.fromkeys(launch.program.parallel, 0) | dict(zip(bounding, most[1:], strict=True))
    place |= {groups: most[0]} if groups is not None else {}
    idle = launch.tiles(walked) - len(counts) if walked is not None and bounding == [walked] else 0
    return [*counts.values(), *([0] * idle)], launch.number(place)


def _bounding_length(launch: Launch[EquationProgram], axis: Axis, group: int) -> int:
    """Return the length of the axis that bounds of a loop name, 0 where they name none."""
    of = next((a for a in launch.program.parallel if a.name in {b.axis for b in axis.bounds}), None)
    if of is None:
        return 0
    return len(launch.groups[of][group]) if of.within else launch.extents[of.dim.name]
