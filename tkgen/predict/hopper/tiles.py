"""Predicted time of a matrix product on a Hopper GPU: a producer, consumers that multiply, tile after tile.

A K-step takes as long as the slowest of: the matrix units, for all consumers; a consumer's own chain, as it starts the
products of a step when those of the step before the last are done; the copies. A stage is given back when the products
of the step after it have been started, so that of so many stages one less is on its way at a time: a copy's latency is
waited for that much less often. Blocks that read a panel of a factor at the same time do so in step with each other:
the first that misses the L2 is waited for by all, and sharing makes no copy faster. What all copies ask of the L2 at
once, where it serves two neighbours that want the same as one, and what is fresh of memory, are bounds of their own;
bounds of copies are added smoothly, as each comes late by chance.

A tile has its steps, and then its sums leave: instructions that nothing hides, what an epilogue reads, and room in the
L2. Meanwhile the producer fills its stages. A block has its tiles one after the other; the first one's copies come from
memory, and nothing hides them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TypeAlias

from tkgen.backends.hopper.build import CudaBuild
from tkgen.backends.hopper.layout import Layout
from tkgen.backends.hopper.machine import HopperProduct
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.backends.hopper.toolchain import matrix_opcode
from tkgen.ir.launch import Launch
from tkgen.ir.sizing import Piece
from tkgen.ir.types import Program
from tkgen.predict.hopper.model import HopperModel, Work, moved_bytes, prediction, read_rate, settled
from tkgen.predict.hopper.sass import read
from tkgen.predict.prediction import Prediction

NEIGHBOURS = 2  # blocks whose reads of the same the L2 serves as one: those of a TPC (H100 architecture: two SMs)
LINE_BYTES = 256  # that a fresh access brings (CUDA driver API, CU_TENSOR_MAP_L2_PROMOTION_L2_256B)
SMOOTH = 2.5  # exponent by which bounds on copies are added: those of probes where two of them are alike
FEW_CONSUMERS = 2  # give a stage back at once

Panel: TypeAlias = tuple[str, int, tuple[int, ...]]  # which factor, its row or column of blocks, of which of a batch


@dataclass(frozen=True)
class _Steps:
    """Seconds of a K-step, by what could be the slowest: copies by their latency, by the L2, by memory."""

    matrix: float
    chain: float
    latency: float
    l2: float
    memory: float

    @property
    def copies(self) -> float:
        """Of all bounds on them."""
        return float(sum(bound**SMOOTH for bound in (self.latency, self.l2, self.memory)) ** (1 / SMOOTH))

    @property
    def longest(self) -> float:
        return max(self.matrix, self.chain, self.copies)

    @property
    def waits(self) -> float:
        """Of the longest, in which matrix units and a consumer's chain wait."""
        return self.longest - max(self.matrix, self.chain)

    @property
    def slow(self) -> str:
        """The resource that a step waits for where the matrix units are not the slowest."""
        if self.chain > self.copies:
            return "waiting for products"
        return "memory" if self.memory > max(self.latency, self.l2) else "copies"


@dataclass(frozen=True)
class _Round:
    """The tiles that blocks have at the same time: how many, their K-steps, and bytes of factors of all of them.

    `asked` is what a step wants of the L2, `fresh` what all steps want of memory.
    """

    tiles: int
    steps: int
    asked: float
    fresh: float


class TileModel(HopperModel):
    """A build at sizes on a device. Raises SizeError for sizes that it cannot do."""

    def __init__(self, build: CudaBuild[HopperSpec[Program]], sizes: Mapping[str, int] | None, product: HopperProduct):
        self.build, self.product = build, product
        self.spec: HopperSpec[Program] = build.spec
        self.machine = build.spec.target
        self.layout: Layout = build.spec.layout
        self.timing = build.spec.target.timing
        self.launch: Launch[Program] = build.spec.launch(sizes)
        code = read(build.sass)
        opcode = matrix_opcode(build.spec.program.a.dtype)
        tile, step = code.loop_with(opcode, "UTMASTG"), code.loop_with(opcode)
        end = tile or code.before("UTMALDG")
        self.outside, self.loads = len(end) - (len(step) if step else 0), end.load_groups
        together = 2 if build.spec.layout.scaled else 1  # steps of a pass of the loop
        self.step_instructions = len(step) // together if step else 0
        self.work = self.launch.work
        if step:
            pieces = [piece.steps for own in self.work for piece in own]
            self.repeated = [(step, max(sum(pieces) / len(pieces) / together - 1, 1.0))]

    @property
    def step_cycles(self) -> float:
        """Of the matrix units, for a K-step of one consumer."""
        columns, step = self.spec.program.block[1:]
        depth = self.machine.wgmma_depth_bytes // self.spec.program.a.dtype.bytes
        products = self.layout.fragments * len(self.spec.program.products)
        return columns / 2 * (step / depth) * products / self.timing.matrix_efficiency

    def steps(self, these: _Round, hertz: float) -> _Steps:
        """Seconds of a K-step of a round: of all consumers together, or of the one whose turn it is."""
        t, stages = self.timing, self.layout.stages
        all_of_them = self.layout.consumers // self.layout.turns * self.step_cycles
        in_turn = t.matrix_chain_cycles + all_of_them
        if self.layout.scaled:  # two steps of a consumer, the second of which it adds while it has no products
            in_turn = t.matrix_chain_cycles + 2 * self.step_cycles + t.lone_cycles * self.step_instructions
        latency = self.copy_seconds + (self.fresh_seconds if these.fresh else 0.0)
        memory = these.fresh / (these.steps * self.layout.turns) / read_rate(self.machine, self.product, these.fresh, 0)
        waited = max(latency / max(stages - 1, 1), (latency + in_turn / hertz) / stages)
        l2 = these.asked / (t.l2_tbps * 1e12)
        return _Steps(all_of_them / hertz, in_turn / 2 / hertz, waited, l2, memory)

    @property
    def copy_seconds(self) -> float:
        """From when a stage's last consumer is done with it until it is full again, all of it from the L2."""
        t, beyond = self.timing, max(self.layout.consumers // self.layout.turns - FEW_CONSUMERS, 0)
        return (t.copy_latency_ns + beyond * t.consumer_ns) * 1e-9 + self.layout.stage_bytes / (t.copy_tbps * 1e12)

    @property
    def fresh_seconds(self) -> float:
        """By which a copy takes longer where a step finds some of its factors fresh.

        Where K goes along the rows of all of them, a step has half of a line of `LINE_BYTES`: of rows that are whole
        lines every second step finds what the one before has brought.
        """
        t, factors = self.timing, [o.tensor for o in self.spec.program.operands]
        if any(f.dims[-1] != self.spec.program.k for f in factors):
            return float(t.fresh_columns_ns * 1e-9)
        row_bytes = [self.launch.extents[f.dims[-1].name] * f.dtype.bytes for f in factors]
        return float(t.fresh_rows_ns * 1e-9) / (1 if any(n % LINE_BYTES for n in row_bytes) else 2)

    @cached_property
    def rounds(self) -> list[_Round]:
        """All rounds of tiles. The L2 holds the most recent reads, as far as they fit."""
        found, kept = [], OrderedDict[Panel, float]()
        for number in range(max(map(len, self.work))):
            pieces = [own[number] for own in self.work if len(own) > number]
            steps = max(p.steps for p in pieces)
            panels = [self._panels(p) for p in pieces]
            pairs = [panels[n : n + NEIGHBOURS] for n in range(0, len(panels), NEIGHBOURS)]
            asked = sum(sum(dict(chain.from_iterable(p.items() for p in pair)).values()) for pair in pairs)
            now = dict(chain.from_iterable(p.items() for p in panels))
            fresh = sum(size for panel, size in now.items() if panel not in kept) * steps
            found.append(_Round(len(pieces), steps, asked, fresh))
            for panel, size in now.items():
                kept.pop(panel, None)
                kept[panel] = size * steps
            while sum(kept.values()) > self.product.l2_bytes:
                kept.popitem(last=False)
        return found

    def tail(self, these: _Round, hertz: float) -> float:
        """Seconds in which a tile's sums leave and nothing multiplies, but those in which stages are filled."""
        t, consumers = self.timing, self.layout.consumers
        issue = max(t.lone_cycles, consumers) * self.outside / hertz
        reused = (self.layout.panels // self.layout.store_buffers - 1) * t.panel_ns * 1e-9
        written = self.tile_bytes * these.tiles / (t.l2_write_tbps * 1e12)
        others = self.read_bytes * these.tiles / read_rate(self.machine, self.product, self.read_bytes, 0)
        read = self.loads * t.load_latency_ns * 1e-9 + others
        whole, step = max(issue + reused + read, written), self.steps(these, hertz)
        return whole - min(whole, self.layout.stages * step.copies, these.steps * step.waits)

    @property
    def read_bytes(self) -> float:
        """The bytes that the epilogue of a tile reads."""
        factors = {o.tensor.name for o in self.spec.program.operands}
        others = [t for t in self.spec.program.reads if t.name not in factors]
        return sum(map(self.launch.bytes, others)) / sum(map(len, self.work))

    def exposed(self, hertz: float) -> float:
        """Seconds in which sums leave and nothing multiplies: others' turns hide some of that."""
        turns = self.layout.turns
        shown = 0.0
        for these in self.rounds:
            others = (turns - 1) * these.steps * self.steps(these, hertz).longest
            shown += max(self.tail(these, hertz) - others, 0.0)
        return shown + (self.tail(self.rounds[-1], hertz) if turns > 1 else 0.0)

    @property
    def tile_bytes(self) -> int:
        """Of a block's outputs."""
        rows, columns, _ = self.spec.program.block
        return rows * columns * sum(o.dtype.bytes for o in self.spec.program.outputs)

    def predicted(self) -> Prediction:
        """The time of one launch, and where it goes."""
        t = self.timing
        total_steps = sum(p.steps for own in self.work for p in own)
        moved = self._memory_bytes()
        written = sum(map(self.launch.bytes, self.spec.program.outputs))
        memory = moved / read_rate(self.machine, self.product, moved - written, written)
        launched, copied = t.launch_us * 1e-6, t.block_us * 1e-6 + t.hbm_latency_ns * 1e-9
        each = total_steps / self.product.sms * self.layout.consumers
        work = Work(each * self.step_cycles * t.matrix_efficiency, each * self.step_instructions, moved)

        def busy(hertz: float) -> float:
            each = sum(these.steps * self.steps(these, hertz).longest for these in self.rounds)
            return self.layout.turns * each + self.exposed(hertz)

        at = settled(self.machine, launched + copied, lambda hertz: max(busy(hertz), memory), lambda _: work)
        each_step = [(these, self.steps(these, at.hertz)) for these in self.rounds]
        parts = {"launch": launched, "first copies": copied,
                 "products": sum(these.steps * step.matrix for these, step in each_step),
                 "sums that leave": sum(self.tail(these, at.hertz) for these in self.rounds)}  # fmt: skip
        slow = "memory" if memory > busy(at.hertz) else each_step[0][1].slow
        parts[slow] = max(at.seconds - parts["products"] - parts["sums that leave"], 0.0)
        flops = total_steps * self._flops_of_step()
        peak = self.product.peak_fp8_tflops if self.spec.program.a.dtype.bits == 8 else self.product.peak_tflops
        return prediction(self.spec, self.launch, self.product, at, parts, start=launched + copied, flops=flops,
                          peak=peak)  # fmt: skip

    def _flops_of_step(self) -> float:
        rows, columns, step = self.spec.program.block
        return 2.0 * rows * columns * step * len(self.spec.program.products)

    def _memory_bytes(self) -> float:
        """Bytes that memory moves: what rounds of tiles find fresh of the factors, and all other tensors once."""
        factors = sum(self.launch.bytes(o.tensor) for o in self.spec.program.operands)
        return sum(these.fresh for these in self.rounds) + moved_bytes(self.launch) - factors

    def _panels(self, piece: Piece) -> dict[Panel, float]:
        """Return the panels that a tile reads, with the bytes of a K-step; parts outside of tensors do not count."""
        rows, columns, step = self.spec.program.block
        apart = self.launch.apart(piece.matrix)
        row = min(rows, self.launch.extents[self.spec.program.m.name] - piece.row * rows)
        column = min(columns, self.launch.extents[self.spec.program.n.name] - piece.col * columns)
        of = {"A": row * step, "B": column * step}
        each = {side: sum(o.tensor.dtype.bytes for o in self.spec.program.operands if o.side.name == side)
                for side in ("A", "B")}  # fmt: skip
        return {("A", piece.row, apart): of["A"] * each["A"], ("B", piece.col, apart): of["B"] * each["B"]}
