"""Predicted time of a loop of two products on a Hopper GPU, such as attention's: consumers that multiply in turn.

An iteration takes as long as the matrix units need for the products of all consumers, or as a consumer's own chain: its
first product, the vector work after it, and what it waits for others. A warp that is alone issues its instructions as
far apart as they wait for each other (`lone_cycles`). Each further consumer adds what it does not share: its powers,
which one unit makes for all, or its products, of which a part (`hidden_products`) runs beside the vector work of
others.

The first iteration of a tile stands before the loop, with nothing beside it; so do the quotients and the stores after
it, while the next tile's queries are on their way. Blocks of one tile are dealt to the SMs in order, as these get free.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from math import prod

from tkgen.backends.hopper.build import CudaBuild
from tkgen.backends.hopper.loops import HopperLoop
from tkgen.backends.hopper.machine import HopperProduct
from tkgen.backends.hopper.serial_loop import SerialLoop
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.ir.equation_program import EquationProgram
from tkgen.predict.hopper.model import HopperModel, Work, moved_bytes, prediction, read_rate, settled
from tkgen.predict.hopper.sass import read
from tkgen.predict.prediction import PredictError, Prediction


class IterationModel(HopperModel):
    """A build at sizes on a device. Raises SizeError for sizes that it cannot do, PredictError without a loop."""

    def __init__(
        self, build: CudaBuild[HopperSpec[EquationProgram]], sizes: Mapping[str, int] | None, product: HopperProduct
    ):
        self.build, self.product = build, product
        self.spec: HopperSpec[EquationProgram] = build.spec
        self.machine = build.spec.target
        self.layout: HopperLoop | SerialLoop = build.spec.layout
        self.timing = build.spec.target.timing
        self.launch = self.spec.launch(sizes)
        code = read(build.sass)
        loop = code.loop_with("HGMMA")
        if loop is None:
            raise PredictError(f"the machine code of {self.spec.name} has no loop of products")
        tile = code.loop_with("HGMMA", "UTMASTG") if self.layout.persistent else None
        passes = self._passes()
        self.repeated = [(loop, max(sum(passes) / len(passes) - 1, 1.0))]  # the first one stands before the loop
        self.inside, self.powers = loop.executed, loop.count("MUFU")
        self.outside = (tile or code.before("UTMALDG")).executed - self.inside

    @property
    def instruction(self) -> int:
        """Elements that one instruction sums."""
        return self.machine.wgmma_depth_bytes // self.layout.element_bytes

    @property
    def first_cycles(self) -> float:
        """Of the matrix units, for the products of a consumer whose results it waits for at once."""
        return sum(self.cycles(phase.products) for phase in self.layout.phases if not phase.beside)

    @property
    def second_cycles(self) -> float:
        """Of the matrix units, for its others."""
        return sum(self.cycles(phase.products) for phase in self.layout.phases if phase.beside)

    def cycles(self, products: Iterable[tuple[int, int]]) -> float:
        """Of the matrix units, for products of 64 rows: of each the columns and the summed elements."""
        found = sum(columns / 2 * (depth / self.instruction) for columns, depth in products)
        return found / self.timing.matrix_efficiency

    @property
    def pass_cycles(self) -> tuple[float, float]:
        """Of an iteration: those of the matrix units, and those of a consumer's chain."""
        t, consumers = self.timing, self.layout.consumers
        mine = self.first_cycles + self.second_cycles
        lane_powers = self.powers * self.machine.warp_size / t.mufu_lanes
        each = max(lane_powers, (1 - t.hidden_products) * mine)
        chain = self.first_cycles + t.lone_cycles * self.inside + (consumers - 1) * each
        return consumers * mine, chain

    @property
    def mean_passes(self) -> float:
        """Iterations of a tile, on average."""
        passes = self._passes()
        return sum(passes) / len(passes)

    def tile_seconds(self, passes: int, hertz: float) -> float:
        """Of an output tile."""
        if not passes:
            return 0.0
        t = self.timing
        alone = self.first_cycles + self.second_cycles + t.lone_cycles * self.outside
        hidden = (self.second_cycles + t.lone_cycles * max(self.outside - self.inside, 0)) / hertz
        waits = max(t.hbm_latency_ns * 1e-9 - hidden, 0.0)
        return waits + (alone + (passes - 1) * max(self.pass_cycles)) / hertz

    def _passes(self) -> list[int]:
        """The iterations of each tile along the split axis, of each part of the loop, of each group."""
        layout, launch = self.layout, self.launch
        parts = launch.tiles(layout.part) if layout.part is not None else 1
        found = list[int]()
        for n in range(launch.group_count):
            groups = {axis.name: ranges[n] for axis, ranges in launch.groups.items()}
            rows = launch.tiles(layout.split)
            if layout.split.within is not None:
                rows = -(-len(groups[layout.split.name]) // (layout.split.tile or 1))
            tiles = ((row, part) for part in range(parts) for row in range(rows))
            found += [len(layout.passes(launch.extents, *tile, groups)) for tile in tiles]
        return found

    def predicted(self) -> Prediction:
        """The time of one launch, and where it goes."""
        t, layout = self.timing, self.layout
        passes = self._passes()
        counted = (layout.split, layout.part, layout.kernel.groups)
        others = prod(self.launch.tiles(axis) for axis in self.launch.program.parallel if axis not in counted)
        total = sum(passes) * others
        moved = float(moved_bytes(self.launch))
        written = sum(map(self.launch.bytes, self.spec.program.outputs))
        memory = moved / read_rate(self.machine, self.product, moved - written, written)
        launched, copied = t.launch_us * 1e-6, t.block_us * 1e-6 + t.hbm_latency_ns * 1e-9
        mine = (self.first_cycles + self.second_cycles) * t.matrix_efficiency
        mean = total / self.product.sms * layout.consumers
        issued = mean * self.inside + layout.consumers * self.outside * len(passes) * others / self.product.sms
        work = Work(mean * mine, issued, moved)

        def busy(hertz: float) -> float:
            return self._busy(passes, others, hertz)

        at = settled(self.machine, launched + copied, lambda hertz: max(busy(hertz), memory), lambda _: work)
        matrix, chain = self.pass_cycles
        multiplying = total / self.product.sms * matrix / at.hertz
        waits = "memory" if memory > busy(at.hertz) else "ends of tiles"
        spent = {"launch": launched, "first copies": copied, "products": multiplying,
                 "vector work" if chain > matrix else waits: max(at.seconds - multiplying, 0.0)}  # fmt: skip
        products = sum(columns * depth for phase in layout.phases for columns, depth in phase.products)
        flops = 2.0 * total * layout.consumers * self.machine.wgmma_rows * products
        return prediction(self.spec, self.launch, self.product, at, spent, start=launched + copied, flops=flops)

    def _busy(self, passes: list[int], others: int, hertz: float) -> float:
        """Seconds until the last SM has done its tiles, without the start of the first ones."""
        sms, each = self.product.sms, [self.tile_seconds(n, hertz) for n in passes]
        if self.layout.persistent:
            blocks = min(self.layout.persistent, sms, len(each) * others)
            all_of_them = each * others
            return max(sum(all_of_them[b::blocks]) for b in range(blocks))
        again = self.timing.block_us * 1e-6 + self.timing.hbm_latency_ns * 1e-9
        free = [-again] * sms
        for _ in range(others):
            for seconds in each:
                heapq.heapreplace(free, free[0] + again + seconds)
        return max(free)
