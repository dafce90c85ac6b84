"""One compute unit running its resident blocks, instruction by instruction.

Every cycle one of the four SIMDs is considered, in turn, so that each has a slot every fourth cycle. In a slot at
most one instruction of each kind (vector or matrix, scalar, LDS, vector memory, branch) issues, each from another
wave, in the order of priority and age; waits, barriers and priorities need no slot of a unit (ROCm Compute Profiler
documentation, scheduler). Waves issue in order. Units:

- the matrix unit of a SIMD is busy for the cycles of the instruction; a result may be read by others some slots later;
- the banks of the LDS serve accesses one after another, each for the cycles its conflicts cost, and the data of each
  pair of SIMDs goes over its own path, half as wide as the banks;
- the vector memory path takes 16 lanes or 64 bytes a cycle; data comes back in order, after the latency of the level
  that has it, at the rate of the narrowest level (`Memory`);
- counters: `s_waitcnt` waits for the completion times of the wave's own accesses; a barrier for all waves of the block.

The matrix unit is the resource the kernel is for, so every gap in its work is a loss, and it is charged to what the
wave that ends the gap was waiting for; time at a barrier is charged to what the wave that came last was waiting for.

>>> simulate(streams, blocks=1, machine=Machine.of(target, memory)).pass_cycles
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import ceil
from typing import Final

from tkgen.predict.stream import Instruction, Unit, WaveStream
from tkgen.targets import Target


class Cause(Enum):
    """Why a matrix unit stands still."""

    LDS = "LDS"
    ISSUE = "issue"
    BARRIERS = "barriers"
    MEMORY = "memory"  # its latency
    BANDWIDTH = "bandwidth"  # loads behind other loads, and the transfer itself
    FETCH = "fetch"
    ARCHITECTURE = "architecture"  # what no known kernel gets back
    MATRIX = "MFMA"  # only while waiting: the pipe is busy for another wave


@dataclass(frozen=True)
class Memory:
    """Global memory as one CU sees it: latency in cycles, bytes per cycle for reads and for writes.

    `narrowest` is the level that sets the rate of reads: "L2", "LLC" or "HBM".
    """

    latency: float
    read_rate: float
    write_rate: float
    narrowest: str = "L2"


@dataclass(frozen=True)
class Machine:
    """The numbers of one CU, in cycles. `free` names the resources that cost nothing (what-if)."""

    simds: int
    issue: int
    branch: int
    lds_latency: int
    lds_pair_rate: int
    result_slots: int
    matrix_efficiency: float
    memory: Memory
    fetch_dwords: int
    fetch_latency: float
    free: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, target: Target, memory: Memory, fetch_latency: float = 0.0, free: frozenset[str] = frozenset()
    ) -> Machine:
        """The CU of `target`, which must have timing data; `fetch_latency` is 0 where the code is cached."""
        t = target.timing
        assert t is not None
        return cls(
            simds=target.simds_per_cu,
            issue=t.issue_cycles,
            branch=t.branch_cycles,
            lds_latency=t.lds_latency_cycles,
            lds_pair_rate=t.lds_pair_bytes_per_clock,
            result_slots=t.mfma_result_wait_states + 1,
            matrix_efficiency=t.matrix_efficiency,
            memory=memory,
            fetch_dwords=t.fetch_line_bytes // 4,
            fetch_latency=fetch_latency,
            free=free,
        )


@dataclass(frozen=True)
class CuTiming:
    """`blocks` blocks resident on one CU: cycles of the whole, of an iteration of the loop, and what the matrix units
    lost.

    `lost` has the cycles per pass and SIMD in which the matrix unit stood still, by cause; `busy` those it worked. Code
    without a loop is one iteration.
    """

    blocks: int
    cycles: float
    pass_cycles: float
    busy: float
    lost: dict[Cause, float] = field(repr=False)


WARM_PASSES: Final = 3
MEASURED_PASSES: Final = 4
_FAR: Final = float("inf")


def simulate(streams: Sequence[WaveStream], blocks: int, machine: Machine) -> CuTiming:
    """Run `blocks` copies of a block together for some iterations of the loop, and extend that to all of them."""
    unit = ComputeUnit(streams, blocks, machine)
    unit.run()
    return unit.result()


class Wave:
    """The state of one wave. `age` numbers the waves of all blocks, a block's one after another."""

    __slots__ = ("age", "block", "code", "due", "last_lgkm", "last_vector", "lgkm", "line", "log", "marks", "pc",
                 "priority", "ready", "results", "simd", "vector")  # fmt: skip

    def __init__(self, age: int, block: int, simd: int, code: list[Instruction], marks: dict[int, int]):
        self.age, self.block, self.simd, self.code, self.marks = age, block, simd, code, marks
        self.pc = 0
        self.line = -1
        self.priority = 0
        self.ready = 0.0
        self.vector: list[float] = []
        self.due: list[float] = []  # of `vector`: when the latency alone would be over
        self.lgkm: list[float] = []
        self.last_vector = self.last_lgkm = 0.0
        self.results: dict[int, float] = {}
        self.log: deque[tuple[float, float, Cause]] = deque(maxlen=48)


class ComputeUnit:
    """One run of the model. `tkgen.predict.events` runs it and writes down what happens."""

    def __init__(self, streams: Sequence[WaveStream], blocks: int, machine: Machine):
        self.streams, self.blocks, self.machine = streams, blocks, machine
        self.most = max(s.passes for s in streams)
        measured = MEASURED_PASSES if blocks == 1 else 2 * MEASURED_PASSES  # blocks advance unevenly
        self.passes = passes = min(self.most, WARM_PASSES + measured + 1)
        self.free = machine.free
        self.costless = _LIGHT if "issue" in machine.free else frozenset()
        self.multiplies = [any(i.flops for i in s.body) for s in streams]
        self.waves = [self._wave(s, b, i, len(streams)) for b in range(blocks) for i, s in enumerate(streams)]
        self.by_simd: list[list[Wave]] = [[] for _ in range(machine.simds)]
        for wave in self.waves:
            self.by_simd[wave.simd].append(wave)
        self.lines: dict[int, float] = {}
        self.matrix_free = [0.0] * machine.simds
        self.pair_free = [0.0] * (machine.simds // 2)
        self.lds_free = self.address_free = self.return_free = self.write_free = 0.0
        self.at_barrier: list[list[tuple[Wave, float]]] = [[] for _ in range(blocks)]
        self.alive = [len(streams)] * blocks
        self.headers: list[list[float]] = [[0.0] * (passes + 1) for _ in self.waves]
        self.lost: list[tuple[float, float, Cause]] = []
        self.worked: list[tuple[float, float]] = []
        self.end = 0.0

    def _wave(self, s: WaveStream, block: int, index: int, count: int) -> Wave:
        # Streams may make different numbers of passes (a producer's loop runs ahead): all are cut by the same number.
        own = max(s.passes - (self.most - self.passes), 0)
        code = [*s.prologue]
        marks = {}
        for i in range(own):
            marks[len(code)] = i
            code += s.body
        marks[len(code)] = own
        code += s.epilogue
        return Wave(block * count + index, block, (block * count + index) % self.machine.simds, code, marks)

    # ------------------------------------------------------------ the clock

    def run(self) -> None:
        """Slot after slot until every wave has ended."""
        self.next = [float(s) for s in range(self.machine.simds)]
        upcoming, issue = self.next, self.machine.issue
        while True:
            now = min(upcoming)
            if now == _FAR:
                break
            simd = upcoming.index(now)
            self._slot(simd, now)
            self._schedule(simd, now + issue)
        assert not any(self.at_barrier), "waves are left at a barrier"

    def _schedule(self, simd: int, earliest: float) -> None:
        """The SIMD's next slot: the first one in its turn, not before `earliest`, at which a wave is ready."""
        ready = _FAR
        for wave in self.by_simd[simd]:
            if wave.ready < ready:
                ready = wave.ready
        if ready == _FAR:
            self.next[simd] = _FAR
            return
        at = ceil(ready if ready > earliest else earliest)
        self.next[simd] = float(at + (simd - at) % self.machine.issue)

    def _slot(self, simd: int, now: float) -> None:
        """One issue slot of a SIMD: at most one instruction per wave and kind."""
        used = 0
        for wave in tuple(self.by_simd[simd]):
            while wave.ready <= now:  # once, but for instructions that cost nothing
                unit = wave.code[wave.pc].unit
                kind = 0 if unit in self.costless else _KIND[unit]
                if used & kind:
                    wave.log.append((now, now + self.machine.issue, Cause.ISSUE))
                    wave.ready = now + self.machine.issue
                elif self.issue(wave, unit, now):
                    used |= kind

    # ------------------------------------------------------------ instructions

    def issue(self, wave: Wave, unit: Unit, now: float) -> bool:
        """Try to issue the wave's next instruction; False (and a later `ready`) where it cannot yet."""
        x = wave.code[wave.pc]
        line = x.address // self.machine.fetch_dwords
        if line != wave.line and not self._fetched(wave, line, now):
            return False
        if unit is Unit.MFMA:
            return self.multiply(wave, x, now)
        if x.reads and not self._results_ready(wave, x, now):
            return False
        mark = wave.marks.get(wave.pc)
        if mark is not None:
            self.headers[wave.age][mark] = now
        wave.ready = now if unit in self.costless else now + (x.cycles if unit is Unit.VALU else self.machine.issue)
        wave.pc += 1
        if unit is Unit.LDS:
            self.lds(wave, x, now)
        elif unit is Unit.VMEM:
            self.memory(wave, x, now)
        elif unit is Unit.FLAT:
            self.lds(wave, x, now)
            wave.vector.append(max(wave.lgkm[-1], wave.vector[-1] if wave.vector else 0.0))
            wave.due.append(wave.vector[-1])
        elif unit is Unit.SMEM:
            wave.lgkm.append(now + ("memory" not in self.free) * self.machine.memory.latency)
        elif unit is Unit.WAIT:
            self.wait(wave, x, now)
        elif unit is Unit.BARRIER:
            self._barrier(wave, now)
        elif unit is Unit.PRIORITY:
            wave.priority = x.value
            self.by_simd[wave.simd].sort(key=lambda w: (-w.priority, w.age))
        elif unit is Unit.NOP:
            wave.ready += self.machine.issue * x.value
        elif unit is Unit.BRANCH:
            wave.ready = now + self.machine.branch
        elif unit is Unit.END:
            self._end(wave, now)
        if wave.pc == len(wave.code) and unit is not Unit.END:
            self._end(wave, now)
        return True

    def _fetched(self, wave: Wave, line: int, now: float) -> bool:
        """True if a line of code is there. Entering a line asks for it and, in time for its end, for the next one."""
        latency = self.machine.fetch_latency
        arrival = self.lines.setdefault(line, now + latency)
        if arrival > now:
            wave.log.append((now, arrival, Cause.FETCH))
            wave.ready = arrival
            return False
        self.lines.setdefault(line + 1, now + latency)
        wave.line = line
        return True

    def _results_ready(self, wave: Wave, x: Instruction, now: float) -> bool:
        ready = max(wave.results.get(r, 0.0) for r in x.reads)
        if ready <= now:
            return True
        wave.log.append((now, ready, Cause.ISSUE))
        wave.ready = ready
        return False

    def multiply(self, wave: Wave, x: Instruction, now: float) -> bool:
        """Try to begin a matrix instruction; False where the unit or an operand is not ready."""
        simd = wave.simd
        idle_since = self.matrix_free[simd]
        if idle_since > now:
            wave.log.append((now, idle_since, Cause.MATRIX))
            wave.ready = idle_since
            return False
        if x.reads and not self._results_ready(wave, x, now):
            return False
        mark = wave.marks.get(wave.pc)
        if mark is not None:
            self.headers[wave.age][mark] = now
        if idle_since < now:
            self.charge(wave, idle_since, now)
        cycles = 0 if "MFMA" in self.free else x.cycles
        self.matrix_free[simd] = now + cycles
        self.worked.append((now, now + cycles))
        if x.writes:
            done = now + cycles + self.machine.issue * self.machine.result_slots
            for r in x.writes:
                wave.results[r] = done
        wave.pc += 1
        wave.ready = now + self.machine.issue
        if cycles > self.machine.issue and wave.pc < len(wave.code) and wave.code[wave.pc].unit is Unit.MFMA:
            wave.ready = now + cycles
        wave.log.append((now, wave.ready, Cause.MATRIX))
        return True

    def lds(self, wave: Wave, x: Instruction, now: float) -> None:
        """Banks serve all SIMDs in turn; the data goes over the path of the wave's pair of SIMDs."""
        done = now
        if "LDS" not in self.free:
            pair = wave.simd // 2
            self.lds_free = max(now, self.lds_free) + x.lds_cycles
            transfer = max(x.lds_cycles, x.lds_bytes / self.machine.lds_pair_rate)
            self.pair_free[pair] = max(now, self.pair_free[pair]) + transfer
            done = max(self.lds_free, self.pair_free[pair]) + self.machine.lds_latency
        wave.last_lgkm = max(wave.last_lgkm, done)
        wave.lgkm.append(wave.last_lgkm)

    def memory(self, wave: Wave, x: Instruction, now: float) -> None:
        """An access to global memory: its way through the addresses, the latency, the data's way back."""
        memory = self.machine.memory
        if "memory" in self.free:
            done = due = now
        else:
            start = max(now, self.address_free)
            due = start + memory.latency
            self.address_free = start + x.cycles
            if x.is_store:
                self.write_free = max(self.write_free, start) + x.bytes / memory.write_rate
                done = self.write_free + memory.latency
            else:
                # Whole pieces come back, also where a part of them is asked for.
                moved = max(x.bytes, 64 * x.pieces)
                self.lds_free = max(self.lds_free, now) + x.lds_cycles  # of a load straight to LDS
                self.return_free = max(self.return_free, due) + moved / memory.read_rate
                done = self.return_free
        wave.last_vector = max(wave.last_vector, done)
        wave.vector.append(wave.last_vector)
        wave.due.append(due)

    def wait(self, wave: Wave, x: Instruction, now: float) -> None:
        """Completion times are known, so the wave sleeps until the last of them. Of a wait for memory, what lies before
        the latency of that access is over counts as latency, the rest as bandwidth."""
        until, spans = now, [(now, now, Cause.LDS)]
        if x.lgkm is not None and len(wave.lgkm) > x.lgkm:
            until = max(now, *wave.lgkm[: len(wave.lgkm) - x.lgkm])
            spans = [(now, until, Cause.LDS)]
            del wave.lgkm[: len(wave.lgkm) - x.lgkm]
        if x.vector is not None and (count := len(wave.vector) - x.vector) > 0:
            done = max(wave.vector[:count])
            if done > until:
                arrival = min(max(now, wave.due[wave.vector.index(done)]), done)
                until, spans = done, [(now, arrival, Cause.MEMORY), (arrival, done, Cause.BANDWIDTH)]
            del wave.vector[:count], wave.due[:count]
        if until > wave.ready:
            wave.log += [span for span in spans if span[1] > span[0]]
            wave.ready = until

    def _barrier(self, wave: Wave, now: float) -> None:
        waiting = self.at_barrier[wave.block]
        if len(waiting) + 1 < self.alive[wave.block]:
            waiting.append((wave, now))
            wave.ready = _FAR
            return
        self.release(wave.block, wave, now)

    def release(self, block: int, last: Wave | None, now: float) -> None:
        """All have met: waves go on, and their waiting is charged to what kept the last one."""
        waiting, self.at_barrier[block] = self.at_barrier[block], []
        for wave, since in waiting:
            wave.ready = now + self.machine.issue
            for start, end, cause in [*last.log] if last else []:
                begin, stop = max(start, since), min(end, now)
                if stop > begin:
                    wave.log.append((begin, stop, Cause.BARRIERS if cause is Cause.MATRIX else cause))
            wave.log.append((now, wave.ready, Cause.BARRIERS))
        for simd in {w.simd for w, _ in waiting}:
            self._schedule(simd, now + 1)

    def _end(self, wave: Wave, now: float) -> None:
        wave.ready = _FAR
        wave.pc = len(wave.code) - 1
        drained = max((now + self.machine.issue, *wave.vector))
        self.end = max(self.end, drained)
        self.alive[wave.block] -= 1
        waiting = self.at_barrier[wave.block]
        if waiting and len(waiting) == self.alive[wave.block]:
            self.release(wave.block, None, now)

    # ------------------------------------------------------------ the account

    def charge(self, wave: Wave, start: float, now: float) -> None:
        """Charge the gap in which a matrix unit stood still to what this wave was waiting for in it."""
        left = now - start
        covered = start
        for begin, end, cause in sorted(wave.log, key=_start):
            begin, end = max(begin, covered), min(end, now)
            if end > begin and cause is not Cause.MATRIX:
                self.lost.append((begin, end, cause))
                left -= end - begin
                covered = end
        if left > 0:
            self.lost.append((now - left, now, Cause.ISSUE))

    def _matrix_floor(self) -> float:
        """Cycles of an iteration that the matrix units need in any case: no kernel is known to keep them busier."""
        if "MFMA" in self.free or not self.passes:
            return 0.0
        cycles = sum(i.cycles for s in self.streams for i in s.body if i.flops)
        return self.blocks * cycles / self.machine.simds / self.machine.matrix_efficiency

    def _steady(self) -> tuple[float, float, float]:
        """When the steady part of the loop begins and ends, and how many iterations each block makes in it on average.

        Blocks of a CU advance unevenly, the older ones first. The part ends when the first of them is at its last
        iteration: what is left alone then is faster than it would be beside the next block.
        """
        # Loaders run ahead and make other numbers of passes: the waves that multiply set the pace.
        timed = [w for w in self.waves if self.multiplies[w.age % len(self.streams)]] or self.waves
        common = min(len(w.marks) - 1 for w in timed)
        first = min(WARM_PASSES, common - 2)
        if first < 0:  # a loop of one pass or none: all of it is the pass
            return 0.0, self.end, max(self.passes, 1)
        starts = [
            [max(self.headers[w.age][i] for w in timed if w.block == block) for i in range(common)]
            for block in range(self.blocks)
        ]
        begin, stop = max(min(s[first] for s in starts), max(s[1] for s in starts)), min(s[-1] for s in starts)
        if stop <= begin:  # one was done before another had begun
            return min(s[first] for s in starts), max(s[-1] for s in starts), common - 1 - first
        return begin, stop, sum(_passes(s, stop) - _passes(s, begin) for s in starts) / self.blocks

    def result(self) -> CuTiming:
        """Cycles of the whole, with the passes that were not simulated at the rate of the last ones."""
        simds = self.machine.simds
        begin, stop, count = self._steady()
        seen = (stop - begin) / count
        per_pass = max(seen, self._matrix_floor())
        lost: dict[Cause, float] = {c: 0.0 for c in Cause if c is not Cause.MATRIX}
        for a, b, cause in self.lost:
            overlap = min(b, stop) - max(a, begin)
            if overlap > 0:
                lost[cause] += overlap / simds / count
        busy = sum(max(min(b, stop) - max(a, begin), 0.0) for a, b in self.worked) / simds / count
        lost[Cause.ARCHITECTURE] = per_pass - seen
        lost[Cause.ISSUE] += max(per_pass - busy - sum(lost.values()), 0.0)
        fill = self.end - seen * self.passes
        cycles = fill + per_pass * max(self.most, self.passes) if self.passes else self.end
        return CuTiming(self.blocks, cycles, per_pass, busy, lost)


class BusyUnit(ComputeUnit):
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


def _passes(starts: Sequence[float], now: float) -> float:
    """Return the number of iterations that are done at a time between the first and the last of their starts."""
    at = min(bisect_right(starts, now), len(starts) - 1)
    return at - 1 + (now - starts[at - 1]) / (starts[at] - starts[at - 1])


def _start(entry: tuple[float, float, Cause]) -> float:
    return entry[0]


_KIND: Final = {
    Unit.VALU: 1,
    Unit.MFMA: 1,
    Unit.SALU: 2,
    Unit.SMEM: 2,
    Unit.LDS: 4,
    Unit.VMEM: 8,
    Unit.FLAT: 12,
    Unit.BRANCH: 16,
    Unit.WAIT: 0,
    Unit.BARRIER: 0,
    Unit.PRIORITY: 0,
    Unit.NOP: 0,
    Unit.END: 0,
}
_LIGHT: Final = frozenset(
    (Unit.VALU, Unit.SALU, Unit.SMEM, Unit.LDS, Unit.VMEM, Unit.FLAT, Unit.WAIT, Unit.PRIORITY, Unit.NOP)
)
