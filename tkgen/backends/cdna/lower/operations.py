"""The operations of a wave's program as statements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tkgen.backends.cdna.lower.branches import branches
from tkgen.backends.cdna.lower.context import Context
from tkgen.backends.cdna.lower.epilogue_statements import EpilogueStatements
from tkgen.backends.cdna.lower.expressions import loops_over
from tkgen.backends.cdna.lower.origins import NOWHERE, Origins, Performed, within
from tkgen.backends.cdna.lower.placed import Placed, placed_of
from tkgen.backends.cdna.lower.scaled import Making, Scaling, scales_of_blocks
from tkgen.backends.cdna.lower.statements import MIXED, Code, Loop, Noted, Statement
from tkgen.ir.types import DType, Operand, Product, Role, Side
from tkgen.targets import counted
from tkgen.tile import ops
from tkgen.tile.program import END, Drain, K, Op, Part, Place, Region

TILE = {Side.A: "tile_row", Side.B: "tile_col"}  # the block's place along an operand's rows or columns


class Operations:
    """Statements of the operations of a plan."""

    def __init__(self, context: Context):
        self.c = context

    def statements(self, role: Role, part: Part, placed: tuple[Op, ...]) -> tuple[Statement, ...]:
        """The statements of a part of a role's program, each with the operations it executes."""
        result: list[Statement] = []

        def add(made: Iterable[Statement], first: int, count: int) -> None:
            done = tuple(Performed(role.name, Place(part, n)) for n in range(first, first + count))
            result.extend(replace(s, operations=done) for s in made)

        if part is Part.BODY and role.multiplies and self.c.steps == "steps":
            add([_call("begin_pass")], 0, 1)
        multiplied = role.multiplies and part is not Part.PROLOGUE  # products that may still be on their way
        whole = role.multiplies and part is Part.EPILOGUE and self.c.program.accumulator.dtype.whole
        i = 0
        while i < len(placed):
            left = (part, i) == (Part.EPILOGUE, 0)  # the loop
            if multiplied and (left or branches(self.c.program, role, placed[i])):
                add([_call("settle")], i, 1)
                multiplied = False
            multiplied |= isinstance(placed[i], ops.Multiply)
            if whole and isinstance(op := placed[i], ops.Store | ops.Reduce):
                add(self._numbers(op), i, 1)
                whole = False
            waits = _waits(placed[i:])
            then = placed[i + len(waits)] if i + len(waits) < len(placed) else None
            if not waits:
                add(self._statement(role, placed[i]), i, 1)
                i += 1
            elif least(waits) == {"lds": 0} and isinstance(then, ops.Barrier):
                add([_call("lds_barrier", self.c.origin(then.span))], i, len(waits) + 1)
                i += len(waits) + 1
            else:
                origin = self.c.origin(*(op.span for op in waits))
                add([Statement([wait_for(least(waits))], origin=origin)], i, len(waits))
                i += len(waits)
        return tuple(result)

    def _numbers(self, op: ops.OfSums) -> list[Statement]:
        """Sums of integers as floats, in which the rest is computed."""
        loops, (i, j) = loops_over(("i", op.rows), ("j", op.cols))
        origin = self.c.origin("accumulate")
        return [
            Statement([f"copy({self.c.accumulator(x)}[{i}][{j}], {self.c.sums(x)}[{i}][{j}]);"], loops, origin)
            for x in self.c.program.products
        ]

    def _statement(self, role: Role, op: Op) -> list[Statement]:
        origin = self.c.origin(op.span)
        match op:
            case ops.Barrier():
                return [_call("barrier", origin)]
            case ops.Fence():
                return [_call("fence", origin)]
            case ops.Priority():
                return [Statement([f"__builtin_amdgcn_s_setprio({op.level});"], origin=origin)]
            case ops.Mix():
                mixed = [(*MIXED[kind], size) for kind, size in op.pattern]
                code = [Noted(f"__builtin_amdgcn_sched_group_barrier({m}, {n}, 0);", what) for m, what, n in mixed]
                return [Statement(code, (Loop("n", op.times),), origin)]
            case ops.Zero():
                loops, (i, j) = loops_over(("i", op.rows), ("j", op.cols))
                products = self.c.program.products
                return [Statement([f"zero({self.c.sums(x)}[{i}][{j}]);"], loops, origin) for x in products]
            case ops.Store():
                return EpilogueStatements(self.c).stored(op)
            case ops.Reduce():
                return EpilogueStatements(self.c).reduced(op)
            case ops.Gather():
                return EpilogueStatements(self.c).handed(op, "gather")
            case ops.CatchUp():
                return [EpilogueStatements(self.c).level(role)]
            case ops.Multiply():
                return self._multiply(op)
            case ops.Read():
                return self._read(op)
            case ops.Take():
                return self._take(op)
            case ops.Move():
                operand = self.c.program.operand(op.operand)
                return [self._move(role, op, operand, part) for part in operand.parts_of(op.tile)]
        raise AssertionError(op)

    def prefill(self, role: Role, operand: Operand) -> Statement:
        """Statement of a role before it loads an operand straight to LDS."""
        shared = self.c.shared(operand) + ("[0]" if operand.buffers > 1 else "") + self._of_part(operand, 0)
        function = f"group<{role.group}>::prefill_swizzled_offsets"
        if self.c.program.tail is not None:  # tiles may hang over the end
            function = f"tk::prefill_tiles<{_threads(role)}>"
        code = f"{function}({shared}, {self.c.matrix(operand.tensor)}, {self.c.offsets(operand)});"
        return Statement([code], origin=self.c.origin(operand.span))

    def gather(self, role: Role, operand: Operand) -> Statement:
        """Statement of a role before it loads an operand whose rows are gathered."""
        shared = self.c.shared(operand) + ("[0]" if operand.buffers > 1 else "")
        places = self.c.matrix(self.c.program.gathered[operand.name])
        tensor, row = self.c.matrix(operand.tensor), TILE[operand.side]
        rows = self.c.gathered_rows(operand)
        code = f"tk::gather_rows<{_threads(role)}>({shared}, {rows}, {tensor}, {places}, {row});"
        return Statement([code], origin=self.c.origin(operand.span))

    def places(self, role: Role, operand: Operand, placed: Placed) -> tuple[Statement, ...]:
        """Statements of a role before it loads an operand that is read at affine indices."""
        shared = self.c.shared(operand) + ("[0]" if operand.buffers > 1 else "")
        rows = self.c.gathered_rows(operand)
        return (placed.rows(shared, rows, _threads(role), TILE[operand.side]), placed.steps())

    @staticmethod
    def _of_part(operand: Operand, part: int) -> str:
        """The index of a part of an operand's tile, after that of its buffer; none where there is one part."""
        return f"[{part}]" if operand.part_count > 1 else ""

    def _move(self, role: Role, op: ops.Move, operand: Operand, part: int) -> Statement:
        """A tile on its way to LDS by the waves of a role.

        A load waits for itself, a fetch and a write go through registers, a copy goes straight.
        """
        p = self.c.program
        along, across = divmod(part, operand.parts[1])
        tile = _nth_of(TILE[operand.side], operand.parts[0], along)
        step = _nth_of(self._step_of_tensor(op.tile), operand.parts[1], across)
        row, col = (step, tile) if operand.contraction_first else (tile, step)
        buffer = self._slot(operand, op.shared or op.tile, scalar=self.c.dialect.direct)
        shared, tensor = buffer + self._of_part(operand, part), self.c.matrix(operand.tensor)
        stage, offsets = self.c.stage(operand) + self._of_part(operand, part), self.c.offsets(operand)
        rows = self.c.gathered_rows(operand) if operand.name in p.gathered else ""
        placed = placed_of(self.c, operand)
        threads, how = _threads(role), self.c.tile_loads
        copied = self.c.dialect.direct and isinstance(op, ops.Load)
        place = f"{tensor}, {{0, 0, {row}, {col}}}"
        match op:
            case ops.Fetch() if placed:
                at = f"{self.c.gathered_rows(operand)}, {col}, {placed.step}"
                code = f"tk::fetch_placed<{threads}, {placed.bounds}>({shared}, {stage}, {tensor}, {at});"
            case ops.Fetch() if rows:
                code = f"tk::fetch_gathered<{threads}>({shared}, {stage}, {tensor}, {rows}, {col});"
            case ops.Fetch():
                code = f"tk::fetch<{threads}{f', {how}' if how else ''}>({shared}, {stage}, {tensor}, {row}, {col});"
            case ops.Write():
                code = f"tk::write<{threads}>({shared}, {stage});"
            case _ if (copied or isinstance(op, ops.Copy)) and p.tail is not None:
                code = f"tk::copy_tile<{threads}>({shared}, {tensor}, {row}, {col}, {offsets});"
            case _ if copied or isinstance(op, ops.Copy):
                code = f"group<{role.group}>::load({shared}, {place}, {offsets});"
            case _ if placed:
                at = f"{self.c.gathered_rows(operand)}, {col}, {placed.step}"
                code = f"tk::load_placed<{threads}, {placed.bounds}>({shared}, {tensor}, {at});"
            case _ if rows:
                code = f"tk::load_gathered<{threads}>({shared}, {tensor}, {rows}, {col});"
            case _ if p.tail is not None:
                code = f"tk::load_tile<{threads}, {how}>({shared}, {tensor}, {row}, {col});"
            case _:
                code = f"{f'group<{role.group}>::' if role.group > 1 else ''}load({shared}, {place});"
        lines: Code = [code, *([wait_for({"vm": 0})] if copied else [])]
        return Statement(lines, origin=self.c.origin(op.span or operand.span, role.loads_span, "tail"))

    def _step_of_tensor(self, tile: Region) -> str:
        """A K-step, counted over the whole tensor."""
        at, p = self._step(tile), self.c.program
        if p.grid.shares_tiles or p.part is not None:
            return "k_first" if at == "0" else f"k_first + {at}"
        return at

    def _along(self, side: Side) -> tuple[int, str, int]:
        """Axis of the output of an operand's fragments, the wave's place along it, and how many waves that are."""
        shape = self.c.program.compute.shape
        assert shape is not None
        return (0, "wave_row", shape[0]) if side is Side.A else (1, "wave_col", shape[1])

    def _take(self, op: ops.Take) -> list[Statement]:
        """From global memory to register tiles: of a fragment row or column, slice by slice."""
        p = self.c.program
        operand = p.operand(op.operand)
        axis, wave, waves = self._along(operand.side)
        result = []
        for t in op.tile.slices:
            loops, (f,) = loops_over(("i" if operand.side is Side.A else "j", op.tile.fragments))
            within = self.c.fragment_index(axis, wave, f, waves)
            tile = _nth_of(TILE[operand.side], operand.extent // operand.fragment_extent, within)
            step = _nth_of(self._step_of_tensor(op.tile), operand.slices, str(t))
            place = ", ".join((step, tile) if operand.contraction_first else (tile, step))
            registers = f"{self.c.registers(operand)}[{self._register_slot(operand, op.tile, t)}][{f}]"
            tensor, how = self.c.matrix(operand.tensor), self.c.tile_loads
            code = f"load({registers}, {tensor}, {{0, 0, {place}}});"
            if p.tail is not None and how:
                code = f"tk::take<{how}>({registers}, {tensor}, {place});"
            result.append(Statement([code], loops, self.c.origin(op.span, operand.registers_span, "tail")))
        return result

    def _read(self, op: ops.Read) -> list[Statement]:
        p = self.c.program
        operand = p.operand(op.operand)
        is_a = operand.side is Side.A
        axis, wave, waves = self._along(operand.side)
        named = op.tile.fragments
        result = []
        for t, part in dict.fromkeys((t, operand.part(f, t)) for t in op.tile.slices for f in named):
            mine = tuple(f for f in named if operand.part(f, t) == part)
            loops, (f,) = loops_over(("i" if is_a else "j", mine))
            first = part // operand.parts[1] * operand.fragments // operand.parts[0]
            subtile = self.c.fragment_index(axis, wave, _less(f, first), waves)
            rows, cols = operand.tensor.dtype.stored(operand.register_shape)
            within = str(t % (operand.slices // operand.parts[1]))
            index = ", ".join((within, subtile) if operand.contraction_first else (subtile, within))
            tile = f"{self.c.registers(operand)}[{self._register_slot(operand, op.tile, t)}][{f}]"
            ours = "" if operand.dtype.bits <= 8 else "tk::"
            shared = self._slot(operand, op.source) + self._of_part(operand, part)
            source = f"subtile_inplace<{rows}, {cols}>({shared}, {{{index}}})"
            code: Code = [f"{ours}load({tile}, {source});"]
            if operand.multiplied:
                per_block = operand.extent // operand.fragment_extent
                place = _nth_of(TILE[operand.side], per_block, self.c.fragment_index(axis, wave, f, waves))
                made = Making(self.c, self.c.equations.made[operand.name])
                code = made.read(tile, source, rows, place, self._step_of_tensor(op.tile), t, operand.slice)
            result.append(Statement(code, loops, self.c.origin(op.span, operand.registers_span)))
        return result

    def _multiply(self, op: ops.Multiply) -> list[Statement]:
        product = self.c.program.product_of(op.product)
        result: list[Statement] = []
        summed = next(s for s in self.c.equations.sums if s.name == product.name)
        if summed.scaled:
            return [self._multiply_scaled(op, product, Scaling(self.c, summed))]
        for t in op.slices:
            loops, (i, j) = loops_over(("i", op.rows), ("j", op.cols))
            left, right = (self._register_slot(o, op.left, t) for o in product.factors)
            tiles = (
                f"{self.c.registers(product.left)}[{left}][{i}]",
                f"{self.c.registers(product.right)}[{right}][{j}]",
            )
            scales: tuple[str, ...] = ()
            if summed.scales:
                at = _nth_of(self._step_of_tensor(op.left), product.left.slices, str(t))
                scales = scales_of_blocks(self.c, summed, tiles, self.c.output_tile(i, j), at)
            sums = f"{self.c.sums(product)}[{i}][{j}]"
            code = f"{self._function(product)}({', '.join((sums, *tiles, sums, *scales))});"
            lines = within(product.span, [code])
            result.append(Statement(lines, loops, self.c.origin(op.span, product.span)))
        return result

    def _function(self, product: Product) -> str:
        """The function that multiplies: ours for element types that the library's refuses."""
        ours = product.left.dtype in (DType.F16, DType.F32)
        return f"{'tk::' if ours else ''}mma_{product.layouts}"

    def _multiply_scaled(self, op: ops.Multiply, product: Product, scaling: Scaling) -> Statement:
        loops, (i, j) = loops_over(("i", op.rows), ("j", op.cols))
        left, right = (self._register_slot(o, op.left, 0) for o in product.factors)
        code = scaling.multiply(
            self._function(product),
            f"{self.c.accumulator(product)}[{i}][{j}]",
            (f"{self.c.registers(product.left)}[{left}][{i}]", f"{self.c.registers(product.right)}[{right}][{j}]"),
            self.c.output_tile(i, j),
            self._step_of_tensor(op.left),
        )
        return Statement(within(product.span, code), loops, self.c.origin(op.span, product.span))

    def _step(self, tile: Region) -> str:
        """The K-step of a tile as C++."""
        if not tile.at:
            return str(tile.ahead)
        name = self.c.steps if tile.at == END else tile.at
        return name if not tile.ahead else f"{name} {'+' if tile.ahead > 0 else '-'} {abs(tile.ahead)}"

    def _slot(self, operand: Operand, tile: Region, scalar: bool = False) -> str:
        """The LDS buffer that holds the tile of a step: `A_s`, or `A_s[...]` where there are several.

        `scalar`: its address must lie in a scalar register, as that of a direct load does. clang 22 takes some indices
        that count round a ring of 3 to vector registers, though they are uniform; a power of two is a mask, which it
        leaves alone.
        """
        variable, n = self.c.shared(operand), operand.buffers
        if n == 1:
            return variable
        if not tile.at or (tile.at == K and self.c.plan.shape.unroll % n == 0):
            return f"{variable}[{tile.ahead % n}]"
        if tile.at == END and self.c.program.steps is not None:
            return f"{variable}[{(self.c.program.steps + tile.ahead) % n}]"
        inner = self._step(tile)
        index = f"{inner if inner.isidentifier() else f'({inner})'} % {n}"
        return f"{variable}[{f'__builtin_amdgcn_readfirstlane({index})' if scalar and n & n - 1 else index}]"

    def _register_slot(self, operand: Operand, tile: Region, slice_: int) -> int:
        """The register buffer of a slice: static, because the loop's unrolling is a multiple of the period."""
        base = self.c.program.steps or 0 if tile.at == END else 0
        return operand.register_buffer(base + tile.ahead, slice_)


def _call(function: str, origin: Origins = NOWHERE) -> Statement:
    """A call of a function of sync.cuh, which no access to memory crosses."""
    return Statement([f"tk::{function}();"], origin=origin)


def _threads(role: Role) -> str:
    """The threads of the group in which waves of a role load, as C++."""
    return f"{role.group} * WARP_THREADS"


def _waits(placed: tuple[Op, ...]) -> list[Drain]:
    """The waits in a row with which a part of a program begins."""
    found: list[Drain] = []
    for op in placed:
        if not isinstance(op, Drain):
            break
        found.append(op)
    return found


def _nth_of(number: str, parts: int, part: int | str) -> str:
    """The number of a part, counted over all tiles, of the tile of that number."""
    if parts == 1:
        return number
    whole = "" if number == "0" else f"{number} * {parts}" if number.isidentifier() else f"({number}) * {parts}"
    return " + ".join([whole] * bool(whole) + [str(part)] * (str(part) != "0" or not whole))


def _less(index: str, first: int) -> str:
    """A fragment counted from the first one of its part."""
    return str(int(index) - first) if index.isdigit() else f"({index} - {first})" if first else index


# s_waitcnt immediate of gfx9 (LLVM AMDGPUUsage; CDNA3 ISA guide, SOPP): vmcnt in bits 3:0 and 15:14, expcnt 6:4,
# lgkmcnt 11:8; all ones means "do not wait".
EXPCNT_NONE = 7


def least(waits: Iterable[Drain]) -> dict[str, int]:
    """Accesses of each counter that consecutive waits leave outstanding."""
    left: dict[str, int] = {}
    for op in waits:
        left[op.stream] = min(op.count, left.get(op.stream, op.count))
    return left


def waitcnt(outstanding: Mapping[str, int]) -> int:
    """The immediate of `s_waitcnt` that waits until at most that many operations of each counter remain."""
    most = counted()
    vm, lds = (min(outstanding.get(counter, most[counter]), most[counter]) for counter in ("vm", "lds"))
    return (vm & 15) | EXPCNT_NONE << 4 | lds << 8 | (vm >> 4) << 14


def wait_for(outstanding: Mapping[str, int]) -> Noted:
    """The wait for at most that many operations of each counter."""
    names = {"vm": "global", "lds": "LDS"}
    counts = [
        f"{names[counter]} operations: at most {outstanding[counter]} outstanding"
        for counter in sorted(outstanding, reverse=True)
    ]
    return Noted(f"tk::wait<{hex(waitcnt(outstanding))}>();", ", ".join(counts))
