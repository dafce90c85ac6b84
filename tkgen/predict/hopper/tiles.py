"""Predicted time of a matrix product on a Hopper GPU: a producer, consumers that multiply, tile after tile.

A K-step takes as long as the slowest of: the matrix units, for all consumers; a consumer's own chain, as it starts the
products of a step when those of the step before the last are done; the copies. A stage is given back when the products
of the step after it have been started, so that of so many stages one less is on its way at a time: a copy's latency is
waited for that much less often. Blocks that read a panel of a factor at the same time do so in step with each other:
the first that misses the L2 is waited for by all, and sharing makes no copy faster. What all copies ask of the L2 at
once, where it serves two neighbours that want the same as one, the lines that an SM can ask for, and what is fresh of
memory, are bounds of their own; bounds of copies are added smoothly, as each comes late by chance. A row of a box is
one request where it begins at a multiple of 64 bytes, elsewhere two. Blocks of a cluster ask for half of what they
share. Rows of boxes beyond the end of a tensor, which the copy engine fills with zeros in about 8 cycles each (measured
on an H200, 2026-11-29), are not counted: only parts that blocks of a cluster copy for each other, groups and consumers
that take turns have such boxes (`Layout.ended`), and their tiles at an end take up to 1.7 times as long.

A tile has its steps, and then its sums leave: instructions that nothing hides, what an epilogue reads, and room in the
L2. Meanwhile the producer fills its stages. A block has its tiles one after the other; the first one's copies come from
memory, and nothing hides them.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TypeAlias

from tkgen.backends.hopper.build import CudaBuild
from tkgen.backends.hopper.layout import Layout
from tkgen.backends.hopper.machine import Hopper, HopperProduct
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.backends.hopper.toolchain import matrix_opcode
from tkgen.ir.launch import Launch
from tkgen.ir.sizing import Piece
from tkgen.ir.types import Program, Side
from tkgen.predict.hopper.model import HopperModel, Settled, Work, moved_bytes, prediction, read_rate, settled
from tkgen.predict.hopper.sass import read
from tkgen.predict.prediction import Prediction

NEIGHBOURS = 2  # blocks whose reads of the same the L2 serves as one: those of a TPC (H100 architecture: two SMs)
BOX_BYTES = 128  # of a row of a box, and of a line that the L2 serves
REQUEST_BYTES = 64  # at multiples of which a row of a box is one request
LINE_BYTES = 256  # that a fresh access brings (CUDA driver API, CU_TENSOR_MAP_L2_PROMOTION_L2_256B)
SMOOTH = 2.5  # exponent by which bounds on copies are added: those of probes where two of them are alike
FEW_CONSUMERS = 2  # give a stage back at once

Panel: TypeAlias = tuple[str, int, tuple[int, ...]]  # which factor, its row or column of blocks, of which of a batch


@dataclass(frozen=True)
class _Steps:
    """Seconds of a K-step, by what could be the slowest: copies by latency, L2, the requests of an SM, memory."""

    matrix: float
    chain: float
    latency: float
    l2: float
    requests: float
    memory: float

    @property
    def copies(self) -> float:
        """Of all bounds on them."""
        return float(
            sum(bound**SMOOTH for bound in (self.latency, self.l2, self.requests, self.memory)) ** (1 / SMOOTH)
        )

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
        return "memory" if self.memory > max(self.latency, self.l2, self.requests) else "copies"


@dataclass(frozen=True)
class Round:
    """The tiles that blocks have at the same time: how many, their K-steps, and bytes of factors of all of them.

    `asked` is what a step wants of the L2, `fresh` what all steps want of memory, `lines` the rows of boxes of each
    factor that a step copies, each of 128 bytes. `alike` rounds are like this one.
    """

    tiles: int
    steps: int
    asked: float
    fresh: float
    lines: tuple[float, float]
    alike: int = 1


@dataclass(frozen=True)
class Leaving:
    """Seconds in which sums leave: instructions, panels that are written again, loads of the epilogue; and stores."""

    issue: float
    reused: float
    read: float
    written: float

    @property
    def longest(self) -> float:
        """Of a tile: the stores go on beside the other parts."""
        return max(self.issue + self.reused + self.read, self.written)


@dataclass(frozen=True)
class Tiling:
    """Facts of blocks that compute tiles of a product: those of a kernel that its time depends on.

    `outside` and `step_instructions` count those of a warp's machine code for a tile outside of its K-steps, and for a
    step; `loads` counts groups of loads of the epilogue that wait for memory one after the other.
    """

    block: tuple[int, int, int]
    element_bytes: int
    stages: int
    stage_bytes: int
    consumers: int
    tile_bytes: int  # of a block's outputs
    outside: int
    step_instructions: int
    panel_writes: int  # how often a panel of shared memory is written for a tile, beyond the first time
    fragments: int = 1
    products: int = 1
    turns: int = 1
    scaled: bool = False
    loads: int = 0
    shared: tuple[bool, bool] = (False, False)  # each factor, by the blocks of a cluster


@dataclass(frozen=True)
class Rows:
    """Bytes of a row of the factors on both sides; `along` is True if the contraction goes along the rows of all."""

    row_bytes: tuple[int, int]
    along: bool

    @property
    def requests(self) -> tuple[float, ...]:
        """Requests of a row of a box of each factor: two unless it begins at a multiple of `REQUEST_BYTES`.

        Rows begin at all multiples of what their length has in common with that.
        """
        return tuple(2 - math.gcd(n, REQUEST_BYTES) / REQUEST_BYTES for n in self.row_bytes)


class L2:
    """The panels that the L2 has: those that were read last, as many as fit."""

    def __init__(self, size: float):
        self.size, self.panels = size, OrderedDict[Panel, float]()

    def read(self, panels: Mapping[Panel, float], steps: int) -> float:
        """Bytes that come from memory when `steps` K-steps of panels are read, each panel with the bytes of a step."""
        fresh = sum(size for panel, size in panels.items() if panel not in self.panels) * steps
        for panel, size in panels.items():
            self.panels.pop(panel, None)
            self.panels[panel] = size * steps
        while sum(self.panels.values()) > self.size:
            self.panels.popitem(last=False)
        return fresh


class Tiles:
    """Seconds of the parts of a launch of tiles in `rounds`, at a clock."""

    def __init__(
        self, machine: Hopper, product: HopperProduct, tiling: Tiling, rows: Rows, rounds: Sequence[Round],
        read_bytes: float = 0.0,
    ):  # fmt: skip
        self.machine, self.product, self.timing = machine, product, machine.timing
        self.tiling, self.rows, self.rounds = tiling, rows, rounds
        self.read_bytes = read_bytes  # that the epilogue of a tile reads

    @property
    def step_cycles(self) -> float:
        """Of the matrix units, for a K-step of one consumer."""
        tiling = self.tiling
        columns, step = tiling.block[1:]
        depth = self.machine.wgmma_depth_bytes // tiling.element_bytes
        return columns / 2 * (step / depth) * tiling.fragments * tiling.products / self.timing.matrix_efficiency

    def steps(self, these: Round, hertz: float) -> _Steps:
        """Seconds of a K-step of a round: of all consumers together, or of the one whose turn it is."""
        t, tiling = self.timing, self.tiling
        all_of_them = tiling.consumers // tiling.turns * self.step_cycles
        in_turn = t.matrix_chain_cycles + all_of_them
        if tiling.scaled:  # two steps of a consumer, the second of which it adds while it has no products
            in_turn = t.matrix_chain_cycles + 2 * self.step_cycles + t.lone_cycles * tiling.step_instructions
        latency = self.copy_seconds + (self.fresh_seconds if these.fresh else 0.0)
        memory = these.fresh / (these.steps * tiling.turns) / read_rate(self.machine, self.product, these.fresh, 0)
        waited = max(latency / max(tiling.stages - 1, 1), (latency + in_turn / hertz) / tiling.stages)
        asked = self.request_seconds(these, hertz)
        return _Steps(all_of_them / hertz, in_turn / 2 / hertz, waited, self.l2_seconds(these), asked, memory)

    def l2_seconds(self, these: Round) -> float:
        """Seconds in which the L2 serves a K-step of all tiles: all requests for what two neighbours ask once."""
        return these.asked * sum(self._requests(these)) / sum(these.lines) / (self.timing.l2_tbps * 1e12)

    def request_seconds(self, these: Round, hertz: float) -> float:
        """Seconds in which an SM makes the requests of a K-step: one more for a row that goes to two blocks."""
        again = sum(rows * shared for rows, shared in zip(these.lines, self.tiling.shared, strict=True))
        return (sum(self._requests(these)) + again) / these.tiles * self.timing.request_cycles / hertz

    def _requests(self, these: Round) -> list[float]:
        """Requests of a K-step for each factor."""
        return [rows * each for rows, each in zip(these.lines, self.rows.requests, strict=True)]

    @property
    def copy_seconds(self) -> float:
        """From when a stage's last consumer is done with it until it is full again, all of it from the L2."""
        t, beyond = self.timing, max(self.tiling.consumers // self.tiling.turns - FEW_CONSUMERS, 0)
        return (t.copy_latency_ns + beyond * t.consumer_ns) * 1e-9 + self.tiling.stage_bytes / (t.copy_tbps * 1e12)

    @property
    def fresh_seconds(self) -> float:
        """By which a copy takes longer where a step finds some of its factors fresh.

        Where K goes along the rows of all of them, a step has half of a line of `LINE_BYTES`: of rows that are whole
        lines every second step finds what the one before has brought.
        """
        t = self.timing
        if not self.rows.along:
            return float(t.fresh_columns_ns * 1e-9)
        return float(t.fresh_rows_ns * 1e-9) / (1 if any(n % LINE_BYTES for n in self.rows.row_bytes) else 2)

    def leaving(self, these: Round, hertz: float) -> Leaving:
        """Seconds of the parts in which the sums of a round's tiles leave."""
        t, tiling = self.timing, self.tiling
        issue = max(t.lone_cycles, tiling.consumers) * tiling.outside / hertz
        reused = tiling.panel_writes * t.panel_ns * 1e-9
        written = tiling.tile_bytes * these.tiles / (t.l2_write_tbps * 1e12)
        others = self.read_bytes * these.tiles / read_rate(self.machine, self.product, self.read_bytes, 0)
        read = tiling.loads * t.load_latency_ns * 1e-9 + others
        return Leaving(issue, reused, read, written)

    def tail(self, these: Round, hertz: float) -> float:
        """Seconds in which a tile's sums leave and nothing multiplies, but those in which stages are filled."""
        tiling, whole, step = self.tiling, self.leaving(these, hertz).longest, self.steps(these, hertz)
        return whole - min(whole, tiling.stages * step.copies, these.steps * step.waits)

    def exposed(self, hertz: float) -> float:
        """Seconds in which sums leave and nothing multiplies: others' turns hide some of that."""
        turns = self.tiling.turns
        shown = 0.0
        for these in self.rounds:
            others = (turns - 1) * these.steps * self.steps(these, hertz).longest
            shown += these.alike * max(self.tail(these, hertz) - others, 0.0)
        return shown + (self.tail(self.rounds[-1], hertz) if turns > 1 else 0.0)

    def busy(self, hertz: float) -> float:
        """Seconds from the first copies to the end."""
        each = sum(these.alike * these.steps * self.steps(these, hertz).longest for these in self.rounds)
        return self.tiling.turns * each + self.exposed(hertz)

    def settled(self, total_steps: float, moved: float, written: float) -> Settled:
        """The clock and the time of a launch, of K-steps of all tiles and bytes that memory moves and writes."""
        memory = moved / read_rate(self.machine, self.product, moved - written, written)
        each = total_steps / self.product.sms * self.tiling.consumers
        cycles = each * self.step_cycles * self.timing.matrix_efficiency
        work = Work(cycles, each * self.tiling.step_instructions, moved)
        return settled(self.machine, sum(self.start), lambda hertz: max(self.busy(hertz), memory), lambda _: work)

    @property
    def start(self) -> tuple[float, float]:
        """Seconds of the launch, and until the first copies are there."""
        t = self.timing
        return t.launch_us * 1e-6, t.block_us * 1e-6 + t.hbm_latency_ns * 1e-9


class TileModel(HopperModel):
    """A build at sizes on a device. Raises SizeError for sizes that it cannot do."""

    def __init__(self, build: CudaBuild[HopperSpec[Program]], sizes: Mapping[str, int] | None, product: HopperProduct):
        self.build, self.product = build, product
        self.spec: HopperSpec[Program] = build.spec
        self.machine, self.timing = build.spec.target, build.spec.target.timing
        self.layout: Layout = build.spec.layout
        self.launch: Launch[Program] = build.spec.launch(sizes)
        program, code = self.spec.program, read(build.sass)
        opcode = matrix_opcode(program.a.dtype)
        tile, step = code.loop_with(opcode, "UTMASTG"), code.loop_with(opcode)
        end = tile or code.before("UTMALDG")
        together = 2 if self.layout.scaled else 1  # steps of a pass of the loop
        rows, columns, _ = program.block
        self.tiling = Tiling(
            program.block, program.a.dtype.bytes, self.layout.stages, self.layout.stage_bytes, self.layout.consumers,
            rows * columns * sum(o.dtype.bytes for o in program.outputs),
            len(end) - (len(step) if step else 0), len(step) // together if step else 0,
            max(self.layout.panels // max(self.layout.store_buffers, 1) - 1, 0), self.layout.fragments,
            len(program.products), self.layout.turns, bool(self.layout.scaled), end.load_groups,
            (self.layout.common == "A", self.layout.common == "B"),
        )  # fmt: skip
        factors = [o.tensor for o in program.operands]
        row_bytes = (self._row_bytes(Side.A), self._row_bytes(Side.B))
        self.rows = Rows(row_bytes, all(f.dims[-1] == program.k for f in factors))

    @cached_property
    def tiles(self) -> Tiles:
        """The parts of the launch on this machine."""
        factors = {o.tensor.name for o in self.spec.program.operands}
        read = sum(self.launch.bytes(t) for t in self.spec.program.reads if t.name not in factors)
        each = read / sum(map(len, self.launch.work))
        return Tiles(self.machine, self.product, self.tiling, self.rows, self._rounds(), each)

    def _row_bytes(self, side: Side) -> int:
        """Bytes of a row of the factors on a side; of several those of one whose rows begin anywhere in a line."""
        factors = (o.tensor for o in self.spec.program.operands if o.side is side)
        rows = [self.launch.shape(f)[-1] * f.dtype.bytes for f in factors]
        return max(rows, key=lambda n: (n % BOX_BYTES != 0, n % LINE_BYTES != 0))

    def _rounds(self) -> list[Round]:
        """All rounds of tiles."""
        found, l2, work = [], L2(self.product.l2_bytes), self.launch.work
        for number in range(max(map(len, work))):
            pieces = [own[number] for own in work if len(own) > number]
            steps = max(p.steps for p in pieces)
            panels = [self._panels(p) for p in pieces]
            pairs = [panels[n : n + NEIGHBOURS] for n in range(0, len(panels), NEIGHBOURS)]
            asked = sum(sum(dict(chain.from_iterable(p.items() for p in pair)).values()) for pair in pairs)
            now = dict(chain.from_iterable(p.items() for p in panels))
            found.append(Round(len(pieces), steps, asked, l2.read(now, steps), self._lines(panels)))
        return found

    def _lines(self, panels: Sequence[Mapping[Panel, float]]) -> tuple[float, float]:
        """Rows of boxes of each factor that tiles with these panels copy; blocks of a cluster share one factor's."""
        clusters = self.spec.program.clusters
        shared = {} if clusters is None else {"B" if clusters.rows else "A": self.layout.clusters}
        a, b = (
            sum(size for p in panels for (side, *_), size in p.items() if side == of) / shared.get(of, 1) / BOX_BYTES
            for of in ("A", "B")
        )
        return a, b

    def predicted(self) -> Prediction:
        """The time of one launch, and where it goes."""
        tiles, program = self.tiles, self.spec.program
        total_steps = sum(p.steps for own in self.launch.work for p in own)
        moved = self._memory_bytes()
        written = sum(map(self.launch.bytes, program.outputs))
        at = tiles.settled(total_steps, moved, written)
        launched, copied = tiles.start
        each_step = [(these, tiles.steps(these, at.hertz)) for these in tiles.rounds]
        parts = {"launch": launched, "first copies": copied,
                 "products": sum(these.steps * step.matrix for these, step in each_step),
                 "sums that leave": sum(tiles.tail(these, at.hertz) for these in tiles.rounds)}  # fmt: skip
        memory = moved / read_rate(self.machine, self.product, moved - written, written)
        slow = "memory" if memory > tiles.busy(at.hertz) else each_step[0][1].slow
        parts[slow] = max(at.seconds - parts["products"] - parts["sums that leave"], 0.0)
        flops = total_steps * self._flops_of_step()
        peak = self.product.peak_fp8_tflops if program.a.dtype.bits == 8 else self.product.peak_tflops
        return prediction(self.spec, self.launch, self.product, at, parts, start=launched + copied, flops=flops,
                          peak=peak)  # fmt: skip

    def _flops_of_step(self) -> float:
        rows, columns, step = self.spec.program.block
        return 2.0 * rows * columns * step * len(self.spec.program.products)

    def _memory_bytes(self) -> float:
        """Bytes that memory moves: what rounds of tiles find fresh of the factors, and all other tensors once."""
        factors = sum(self.launch.bytes(o.tensor) for o in self.spec.program.operands)
        return sum(these.fresh for these in self.tiles.rounds) + moved_bytes(self.launch) - factors

    def _panels(self, piece: Piece) -> dict[Panel, float]:
        """Return the panels that a tile reads, with the bytes of a K-step; parts outside of tensors do not count."""
        rows, columns, step = self.spec.program.block
        apart = self.launch.apart(piece.matrix)
        row = max(min(rows, self.launch.extents[self.spec.program.m.name] - piece.row * rows), 0)
        column = max(min(columns, self.launch.extents[self.spec.program.n.name] - piece.col * columns), 0)
        of = {"A": row * step, "B": column * step}
        each = {side: sum(o.tensor.dtype.bytes for o in self.spec.program.operands if o.side.name == side)
                for side in ("A", "B")}  # fmt: skip
        return {("A", piece.row, apart): of["A"] * each["A"], ("B", piece.col, apart): of["B"] * each["B"]}
