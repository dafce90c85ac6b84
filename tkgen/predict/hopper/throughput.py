"""Predicted time of a kernel of rows on a Hopper GPU: how near it comes to what a copy of the same bytes takes.

Memory moves the bytes of all tensors once, and again what later loops over the same rows read. An SM has as many blocks
at a time as its registers leave room for: each waits for its loads and its warps for each other, works, and makes room
for the next one. Where these are too few, or their instructions too many, memory waits. The bounds on the time are
added smoothly: blocks do not keep step, and the fewer an SM has, the less they fill in for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from tkgen.backends.hopper.build import CudaBuild
from tkgen.backends.hopper.machine import HopperProduct
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.equations import AxisKind, Load, Op, walk
from tkgen.predict.hopper.model import HopperModel, Work, prediction, read_rate, settled
from tkgen.predict.hopper.sass import Code, read
from tkgen.predict.prediction import PredictError, Prediction
from tkgen.predict.throughput import read_counts

MOST_SMOOTH = 4  # exponent by which bounds on the time are added where many blocks of an SM fill in for each other


class ThroughputModel(HopperModel):
    """A build at sizes on a device. Raises SizeError for sizes that it cannot do, PredictError where no block fits."""

    def __init__(
        self, build: CudaBuild[HopperSpec[EquationProgram]], sizes: Mapping[str, int] | None, product: HopperProduct
    ):
        self.build, self.product = build, product
        self.spec: HopperSpec[EquationProgram] = build.spec
        self.machine = build.spec.target
        self.timing = build.spec.target.timing
        self.launch = self.spec.launch(sizes)
        figures = build.figures
        self.resident = self.machine.blocks_per_sm(build.threads, figures.registers, build.shared_bytes)
        if not self.resident:
            raise PredictError(f"no block of {self.spec.name} fits on an SM")
        counts = read_counts(self.spec.program.kernel)
        once = sum(map(self.launch.bytes, counts))
        again = sum((n - 1) * self.launch.bytes(t) for t, n in counts.items())
        at_a_time = min(self.resident * product.sms, self.launch.blocks)
        if again / self.launch.blocks * at_a_time <= product.l2_bytes:
            again = 0  # the L2 still has what a block reads again
        self.read_bytes = once + again
        self.written_bytes = sum(map(self.launch.bytes, self.spec.program.outputs))
        code = read(build.sass)
        inner = code.outermost
        loaded = sum(loop.load_bytes for loop in inner)
        m = self.spec.layout  # of whose lanes some may have nothing of a row's last chunk: they load, too
        whole = m.lanes * m.chunks * m.chunk / m.length
        mine = whole * sum(map(self._touched, walk(self.spec.program.kernel.body))) / build.threads
        turns = max((mine - (code.load_bytes - loaded)) / loaded, 1.0) if loaded else 1.0
        self.repeated = [(loop, turns) for loop in inner]

        def all_of(count: Callable[[Code], int]) -> float:
            return count(code) + (turns - 1) * sum(map(count, inner))

        self.instructions = all_of(lambda part: part.executed)
        self.waits, self.meetings = all_of(lambda part: part.load_groups), all_of(lambda part: part.count("BAR"))

    def _touched(self, op: Op) -> int:
        """Bytes that an operation loads for a block: what is late in each pass over rows."""
        if not isinstance(op, Load):
            return 0
        m = self.spec.layout
        sizes = (
            self.launch.extents[a.dim.name] if a.kind is not AxisKind.PARALLEL else a.tile or 1 for a in op.source.axes
        )
        return prod(sizes) * op.source.tensor.dtype.bytes * (m.passes if op.source in m.late else 1)

    def block_seconds(self, hertz: float) -> float:
        """Of a block from its start to the start of the next one in its place: its waits, its instructions."""
        t = self.timing
        waits = t.turn_us * 1e-6 + (self.waits * t.load_latency_ns + self.meetings * t.meeting_ns) * 1e-9
        return waits + self.instructions * t.lone_cycles / hertz

    def issue_seconds(self, hertz: float) -> float:
        """In which a sub-partition issues what its warps execute, of all blocks."""
        if not self.timing.lone_cycles:  # what takes no time takes no slot
            return 0.0
        warps = self.launch.blocks * self.build.threads / self.machine.warp_size
        return self.instructions * warps / (self.product.sms * self.machine.sub_partitions) / hertz

    @property
    def turns(self) -> float:
        """How many blocks each place of an SM has, one after the other."""
        return max(self.launch.blocks / (self.resident * self.product.sms), 1.0)

    @property
    def memory_seconds(self) -> float:
        """In which memory moves what all blocks read and write."""
        moved = float(self.read_bytes + self.written_bytes)
        return moved / read_rate(self.machine, self.product, self.read_bytes, self.written_bytes)

    def busy_seconds(self, hertz: float) -> float:
        """Of all blocks: the bounds of memory, of a block's own chain and of issued instructions, added smoothly."""
        smooth = min(1 + self.resident, MOST_SMOOTH)
        bounds = (self.memory_seconds, self.turns * self.block_seconds(hertz), self.issue_seconds(hertz))
        return float(sum(bound**smooth for bound in bounds) ** (1 / smooth))

    def predicted(self) -> Prediction:
        """The time of one launch, and where it goes."""
        moved = float(self.read_bytes + self.written_bytes)
        memory = self.memory_seconds
        before = self.spec.beside.before
        start = (self.timing.early_launch_us if before else self.timing.launch_us) * 1e-6
        turns = self.turns

        def work(hertz: float) -> Work:
            return Work(0.0, self.issue_seconds(hertz) * hertz, moved)

        at = settled(self.machine, start, self.busy_seconds, work)
        issues = self.issue_seconds(at.hertz) > turns * self.block_seconds(at.hertz)
        parts = {"launch": start, "memory": memory, "instructions" if issues else "too few blocks": at.seconds - memory}
        return prediction(self.spec, self.launch, self.product, at, parts, start=start, blocks_per_sm=self.resident)
