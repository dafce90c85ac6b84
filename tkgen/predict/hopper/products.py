"""Predicted time of a matrix product on a Hopper GPU: a producer, consumers that multiply, tile after tile.

A K-step takes as long as the slowest of: the matrix units, for all consumers; a consumer's own chain, as it starts the
products of a step when those of the step before the last are done; the copies, of which as many are on their way as
there are stages. Of the blocks that read the same panel at the same time one waits for memory, the others find it in
L2; so does the next step, as the L2 brings more of a row than a step has.

A tile has its steps, and then its sums leave: instructions that nothing hides, what an epilogue reads, and room in the
L2. A block has its tiles one after the other; the first one's copies come from memory, and nothing hides them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tkgen.backends.hopper.machine import HopperProduct
from tkgen.backends.hopper.spec import HopperBuild
from tkgen.backends.hopper.toolchain import MATRIX
from tkgen.execute.arguments import launched
from tkgen.ir.launch import Launch, Piece
from tkgen.predict.hopper.model import HopperPrediction, Work, moved_bytes, prediction, read_rate, settled
from tkgen.predict.hopper.sass import read

STEPS_TOGETHER = 2  # of 128 bytes of a row, for 256 that come (CUDA driver API, CU_TENSOR_MAP_L2_PROMOTION_L2_256B)

Panel: TypeAlias = tuple[str, int, tuple[int, ...]]  # which factor, its row or column of blocks, of which of a batch


@dataclass(frozen=True)
class _Steps:
    """Seconds of a K-step, by what could be the slowest."""

    matrix: float
    chain: float
    copies: float

    @property
    def longest(self) -> float:
        return max(self.matrix, self.chain, self.copies)


class ProductModel:
    """A build at sizes on a device. Raises SizeError for sizes that it cannot do."""

    def __init__(self, build: HopperBuild, sizes: Mapping[str, int] | None, product: HopperProduct):
        self.build, self.product = build, product
        self.spec, self.machine = build.spec, build.spec.target
        self.layout, self.timing = build.spec.layout, build.spec.target.timing
        self.launch: Launch = launched(build.spec, sizes)
        code = read(build.sass)
        opcode = MATRIX[build.spec.program.a.dtype.bits == 8]
        tile, step = code.loop_with(opcode, "UTMASTG"), code.loop_with(opcode)
        end = tile or code.before("UTMALDG")
        self.outside, self.loads = len(end) - (len(step) if step else 0), end.load_groups
        self.step_instructions = len(step) if step else 0
        self.work = self.launch.work
        self.active = min(sum(map(bool, self.work)), product.sms)

    @property
    def step_cycles(self) -> float:
        """Of the matrix units, for a K-step of one consumer."""
        columns, step = self.spec.program.block[1:]
        depth = self.machine.wgmma_depth_bytes // self.spec.program.a.dtype.bytes
        products = self.layout.fragments * len(self.spec.program.products)
        return columns / 2 * (step / depth) * products / self.timing.matrix_efficiency

    def steps(self, hertz: float) -> _Steps:
        """Seconds of a K-step: of all consumers together, or of the one whose turn it is."""
        t, mine = self.timing, self.step_cycles
        all_of_them = self.layout.consumers // self.layout.turns * mine
        burst = self.layout.stage_bytes * self.active / (t.l2_burst_tbps * 1e12)
        fresh = (t.hbm_latency_ns - t.l2_latency_ns) * 1e-9 / self.sharing / STEPS_TOGETHER
        latency = t.l2_latency_ns * 1e-9 + burst + fresh
        return _Steps(all_of_them / hertz, (t.matrix_chain_cycles + all_of_them) / 2 / hertz,
                      latency / self.layout.stages)  # fmt: skip

    @property
    def sharing(self) -> float:
        """Blocks that read a panel of a factor at the same time, of the one that fewer read: one waits for memory."""
        first = [own[0] for own in self.work if own]
        panels = [{panel for p in first for panel in self._panels(p) if panel[0] == side} for side in ("A", "B")]
        return min(len(first) / len(found) for found in panels)

    def tail(self, hertz: float) -> float:
        """Seconds in which a tile's sums leave and nothing multiplies."""
        t, consumers = self.timing, self.layout.consumers
        issue = max(t.lone_cycles, consumers) * self.outside / hertz
        reused = (self.layout.panels // self.layout.store_buffers - 1) * t.l2_latency_ns * 1e-9
        written = self.tile_bytes * self.active / (t.l2_write_tbps * 1e12)
        read = self.loads * t.load_latency_ns * 1e-9
        return max(issue + reused + read, written)

    def exposed(self, tiles: int, hertz: float) -> float:
        """Seconds in which sums of so many tiles leave and nothing multiplies: others' turns hide some of that."""
        tail, turns = self.tail(hertz), self.layout.turns
        others = (turns - 1) * self.launch.steps * self.steps(hertz).longest
        return tiles * max(tail - others, 0.0) + (tail if turns > 1 else 0.0)

    @property
    def tile_bytes(self) -> int:
        """Of a block's outputs."""
        rows, columns, _ = self.spec.program.block
        return rows * columns * sum(o.dtype.bytes for o in self.spec.program.outputs)

    def prediction(self) -> HopperPrediction:
        """The time of one launch, and where it goes."""
        t = self.timing
        tiles = max(map(len, self.work))
        steps = self.layout.turns * max(sum(p.steps for p in own) for own in self.work)
        total_steps = sum(p.steps for own in self.work for p in own)
        moved = self._memory_bytes()
        written = sum(map(self.launch.bytes, self.spec.program.outputs))
        memory = moved / read_rate(self.machine, self.product, moved - written, written)
        launched, copied = t.launch_us * 1e-6, t.block_us * 1e-6 + t.hbm_latency_ns * 1e-9
        each = total_steps / self.product.sms * self.layout.consumers
        work = Work(each * self.step_cycles * t.matrix_efficiency, each * self.step_instructions, moved)

        def busy(hertz: float) -> float:
            return steps * self.steps(hertz).longest + self.exposed(tiles, hertz)

        at = settled(self.machine, launched + copied, lambda hertz: max(busy(hertz), memory), lambda _: work)
        step, tail = self.steps(at.hertz), self.exposed(tiles, at.hertz)
        parts = {"launch": launched, "first copies": copied, "products": steps * step.matrix,
                 "sums that leave": tail}  # fmt: skip
        waits = "copies" if step.copies > step.chain else "waiting for products"
        slow = "memory" if memory > busy(at.hertz) else waits
        parts[slow] = max(at.seconds - parts["products"] - parts["sums that leave"], 0.0)
        flops = total_steps * self._flops_of_step()
        return prediction(self.spec, self.launch, self.product, at, parts, start=launched + copied, flops=flops)

    def _flops_of_step(self) -> float:
        rows, columns, step = self.spec.program.block
        return 2.0 * rows * columns * step * len(self.spec.program.products)

    def _memory_bytes(self) -> float:
        """Bytes that memory moves: in each round of tiles every panel of a factor once, but what the L2 still has.

        Of a panel that is read in the next round again, a slice is found where all that was read in between, a whole
        round of panels, fits into the L2.
        """
        rows, columns, step = self.spec.program.block
        each = {side: sum(o.tensor.dtype.bytes for o in self.spec.program.operands if o.side.name == side)
                for side in ("A", "B")}  # fmt: skip
        total, before = 0.0, set[Panel]()
        for turn in range(max(map(len, self.work))):
            pieces = [own[turn] for own in self.work if len(own) > turn]
            size = {"A": rows * step * each["A"], "B": columns * step * each["B"]}
            now = {panel: p.steps * size[panel[0]] for p in pieces for panel in self._panels(p)}
            kept = before if sum(now.values()) <= self.product.l2_bytes else set()
            total += sum(amount for panel, amount in now.items() if panel not in kept)
            before = set(now)
        factors = {o.tensor.name: self.launch.bytes(o.tensor) for o in self.spec.program.operands}
        if sum(factors.values()) <= self.product.l2_bytes:
            total = min(total, float(sum(factors.values())))
        return total + moved_bytes(self.launch) - sum(factors.values())

    def _panels(self, piece: Piece) -> tuple[Panel, Panel]:
        apart = self.launch.apart(piece.matrix)
        return ("A", piece.row, apart), ("B", piece.col, apart)
