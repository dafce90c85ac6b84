"""Where the values of a loop of equations live: products of products with carried values, over the waves of a block.

    over h in HEADS, q in LENGTH by 128        `q` is split: each wave has a part of its tile, no value crosses waves
    waves 4 along q
    carry m : f32[q] = -inf, o : f32[q, D] = 0
    each j in KEYS by 64                       the loop; its other axis and D are whole in every wave
      s = Q[h, q] @ K[h, j].T                  a factor with the split axis is held in registers, the other one moves:
      ...                                      it changes from pass to pass and goes through a ring in LDS
      o = o * r + bf16(p) @ V[h, j]            a product of what was made of a product

**Orientation.** A lane holds of an MFMA's result four neighbours of one column, and of its right operand the same; of
its left operand it holds neighbours of one row (CDNA3 ISA, "Matrix fused-multiply-add"). So with the split axis along
the columns of every result, what one product gave is the right operand of the next as it stands: to convert it is to
round it, and nothing moves between lanes. With the split axis along the rows it would become a left operand: 16 lane
permutes for four elements of each lane. Hence all products are computed transposed, o^T = v^T p^T, and there is nothing
to choose: what is a row of the equations is a column here, and the reduction of a row is that of a lane's
own elements and of the two (side 32) or four lanes (side 16) with the same column.

The moving factor is the left operand: rows of the result by what is summed. A tile lies like that in LDS, so that lanes
read neighbours. Where memory has it the other way round (V: rows of keys, summed over keys) it is `turned` on the way
from registers to LDS, four rows by four columns in each lane at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.equations import (
    Access,
    Axis,
    AxisKind,
    Convert,
    Kernel,
    Load,
    Loop,
    Map,
    Op,
    Product,
    Reduce,
    Store,
    Value,
    When,
    reads,
    walk,
    writes,
)
from tkgen.ir.limits import BUFFER_BYTES
from tkgen.ir.types import BASE_TILE, WAVE_LANES, DType, Via
from tkgen.schedule.loop_masks import masked
from tkgen.source import Span
from tkgen.targets import Target
from tkgen.targets.model import round_up

SIDES = (2 * BASE_TILE, BASE_TILE)  # of the base tiles of MFMAs, the better one first: fewer reads of LDS
FACTORS = (DType.BF16, DType.F16)
VOTES = 2  # slots of a ring of votes: a wave that votes again has met all that read the vote before last
VOTE_BYTES = 4  # of LDS for the vote of a wave
ALIGNMENT = 16  # bytes; `shared_allocator` of the ThunderKittens surface


class LoopError(ValueError):
    """Why a loop of equations has no schedule, with the place in the spec and what to do."""

    def __init__(self, message: str, span: Span | None = None, fix: str = ""):
        super().__init__(message)
        self.span = span
        self.fix = fix


@dataclass(frozen=True)
class Moving:
    """A factor that changes from pass to pass: `rows` by `summed`, in a ring of `buffers` tiles in LDS."""

    access: Access
    rows: Axis
    summed: Axis
    buffers: int

    @property
    def turned(self) -> bool:
        """Whether memory has `rows` innermost, not what is summed."""
        return self.access.indices[-1].axis == self.rows

    @property
    def name(self) -> str:
        """What its ring is called: as the tensor."""
        return self.access.tensor.name

    @property
    def bytes(self) -> int:
        """LDS of all of its tiles."""
        return self.buffers * extent(self.rows) * extent(self.summed) * self.access.tensor.dtype.bytes


@dataclass(frozen=True)
class Multiplication:
    """`result` = `onto` (or nothing) + moving times held, transposed: see the module."""

    product: Product
    moving: Moving
    held: Value
    onto: Value | None
    result: Value


@dataclass(frozen=True)
class LoopMap:
    """The layout of one kernel over a block of `waves` waves, which divide its tile of `split` among them."""

    kernel: Kernel
    loop: Loop
    split: Axis
    waves: int
    multiplications: tuple[Multiplication, ...]

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.waves * WAVE_LANES

    @property
    def columns(self) -> int:
        """Elements of the split axis that a wave has."""
        return extent(self.split) // self.waves

    @property
    def moving(self) -> tuple[Moving, ...]:
        """The factors that go through LDS, in the order in which they are used."""
        return tuple(dict.fromkeys(m.moving for m in self.multiplications))

    @cached_property
    def votes(self) -> tuple[When, ...]:
        """The conditions on which the waves of a block decide together."""
        return tuple(op for op in self.loop.body if isinstance(op, When))

    @cached_property
    def rings(self) -> tuple[int, ...]:
        """The slots of each ring in LDS: of the factors that move, then of the waves' votes."""
        return (*(ring.buffers for ring in self.moving), *(VOTES for _ in self.votes))

    @property
    def held(self) -> tuple[Load, ...]:
        """The factors that are loaded to registers before the loop."""
        return tuple(op for op in walk(self.kernel.body) if isinstance(op, Load) and op.result in self._factors)

    @cached_property
    def _factors(self) -> frozenset[Value]:
        return frozenset(m.held for m in self.multiplications)

    @cached_property
    def side(self) -> int:
        """The side of the base tiles."""
        extents = [self.columns, *(extent(a) for m in self.multiplications for a in (m.moving.rows, m.moving.summed))]
        return next(side for side in SIDES if all(e % side == 0 for e in extents))

    def rows(self, value: Value) -> Axis | None:
        """The axis along the rows of the tile that a value is, None where it has none."""
        return next((a for a in value.axes if a != self.split), None)

    @property
    def lds_bytes(self) -> int:
        """LDS of a block."""
        votes = round_up(VOTES * self.waves * VOTE_BYTES, ALIGNMENT)
        return sum(m.bytes for m in self.moving) + votes * len(self.votes)

    @property
    def tiles(self) -> tuple[Value, ...]:
        """What takes registers through the whole loop: carried tiles, held factors."""
        return (*(c.inside for c in self.loop.carries), *(op.result for op in self.held))

    @property
    def registers(self) -> int:
        """VGPRs of a lane that hold something through the whole loop."""
        return sum(map(self.lane_registers, self.tiles))

    def lane_registers(self, value: Value) -> int:
        """VGPRs of a lane for a value: its elements of a tile, or a number for each column that it has."""
        rows = self.rows(value)
        if rows is None:
            return self.columns // self.side
        return self.columns * extent(rows) * value.dtype.bytes // 4 // WAVE_LANES

    def waves_per_simd(self, target: Target) -> int:
        """Waves of a SIMD that the compiler is held to: those of one block."""
        return min(-(-self.waves // target.simds_per_cu), target.max_waves_per_simd)

    def describe(self) -> str:
        """One line for people."""
        rings = ", ".join(f"{m.name} {m.buffers} x {extent(m.rows)} x {extent(m.summed)}" for m in self.moving)
        return (
            f"{self.split.name}: {self.waves} wave{'s' if self.waves > 1 else ''} of {self.columns}, "
            f"MFMAs of {self.side} x {self.side}; LDS: {rings}"
        )


def extent(axis: Axis) -> int:
    """Elements of a tile along an axis that has an extent. Raises LoopError where only run time knows."""
    size = axis.tile if axis.kind is not AxisKind.WHOLE else axis.dim.size
    if size is None:
        raise LoopError(f"{axis.dim.name} is held whole: its size must be known", axis.span)
    return size


def map_loops(program: EquationProgram, target: Target) -> LoopMap:
    """The layout of a program's kernel on `target`.

    Raises:
        LoopError: the kernel is not of this form, or its tiles are not.
    """
    kernel = program.kernel
    if dynamic := next((d for t in kernel.tensors for d in t.dims if d.size is None), None):
        raise LoopError(f"{dynamic.name} is dynamic, which such loops cannot be yet", dynamic.span, "give it a size")
    _loop(kernel)
    kernel = masked(kernel, _loop(kernel))
    loop, split = _loop(kernel), _split(program)
    if loop.axis.until not in (None, split.name):
        raise LoopError(f"`to {loop.axis.until}` names another axis than the one that the waves divide", loop.axis.span)
    found = LoopMap(kernel, loop, split, program.waves, _multiplications(program, kernel, loop, split))
    _tiles(found)
    _accesses(found)
    loaded = {load.result for load in found.held}
    small = next((x for x in found.multiplications if x.held.dtype is DType.F16 and x.held not in loaded), None)
    if target.flushes_f16 and small is not None:
        raise LoopError(
            f"MFMAs of {target.name} take subnormal numbers of f16 for zero, and what is computed may be one",
            small.product.result.span, "convert to bf16",
        )  # fmt: skip
    if found.lds_bytes > target.lds_bytes_per_block:
        raise LoopError(
            f"the tiles need {found.lds_bytes} bytes of LDS, a block on {target.name} has {target.lds_bytes_per_block}",
            program.shared[0].span, "use fewer buffers, or smaller tiles of the loop's axis (`by`)",
        )  # fmt: skip
    return found


def _loop(kernel: Kernel) -> Loop:
    loops = [op for op in walk(kernel.body) if isinstance(op, Loop)]
    if len(loops) != 1:
        raise LoopError("a kernel of products has one loop", loops[1].span if loops else None)
    (loop,) = loops
    if kernel.ragged:
        raise LoopError("ragged axes have no schedule yet in a loop of products of products", kernel.ragged[0].span)
    for op in walk(kernel.body):
        if isinstance(op, When):
            _condition(op, op in loop.body)
    for op in walk(loop.body):
        if isinstance(op, Store):
            raise LoopError(f"`{op.target.tensor.name}` is stored in the loop", op.span, "store it behind the loop")
    if product := next((op for op in kernel.body if isinstance(op, Product)), None):
        raise LoopError("a product stands outside of the loop", product.result.span)
    if loop.axis.part is not None:
        raise LoopError("parts of a loop of products of products have no schedule yet", loop.axis.span)
    return loop


def _condition(when: When, in_loop: bool) -> None:
    """Raises LoopError for a condition that the waves do not decide on together."""
    if not in_loop:
        raise LoopError("`when any` has a schedule in the loop of products alone", when.span)
    for op in when.body:
        if isinstance(op, Product | Reduce):
            raise LoopError("products and reductions do not stand under a condition", op.result.span, "do them before")


def _split(program: EquationProgram) -> Axis:
    """The axis whose tile the waves divide."""
    tiled = [a for a in program.parallel if a.tile is not None]
    if len(tiled) != 1:
        names = " and ".join(f"`{a.name}`" for a in tiled) or "none"
        raise LoopError(f"one axis of `over` has tiles, which the waves divide; here {names}", None)
    (split,) = tiled
    at = program.spans.get("waves", split.span)
    if extent(split) % (program.waves * BASE_TILE):
        raise LoopError(
            f"{program.waves} waves cannot share a tile of {split.tile} in parts of {BASE_TILE}", at,
            f"make tiles of `{split.name}` a multiple of {program.waves * BASE_TILE}",
        )  # fmt: skip
    return split


def _multiplications(program: EquationProgram, kernel: Kernel, loop: Loop, split: Axis) -> tuple[Multiplication, ...]:
    made = {value: op for op in walk(kernel.body) for value in writes(op)}
    staged = {s.tensor.name: s for s in program.shared}
    used: set[str] = set()
    found = []
    for op in loop.body:
        if isinstance(op, Product):
            held, other = (op.left, op.right) if split in op.left.axes else (op.right, op.left)
            if split not in held.axes or split in other.axes:
                raise LoopError(f"one factor of a product has the axis `{split.name}`", op.result.span)
            if held.dtype not in FACTORS:
                raise LoopError(
                    f"a product of {held.dtype.spelling}", op.result.span, "convert its factors: `bf16(...)`"
                )
            _held(held, made[held], op, loop)
            source = made[other]
            if not isinstance(source, Load) or loop.axis not in other.axes:
                raise LoopError("the other factor is a tile of a tensor along the loop's axis", op.result.span)
            staging = staged.get(source.source.tensor.name)
            if staging is None:
                name = source.source.tensor.name
                raise LoopError(f"all waves multiply by `{name}`, which must go through LDS", op.result.span,
                                f"add `shared {name} buffers 2`")  # fmt: skip
            if staging.via is Via.DIRECT:
                raise LoopError(f"`{staging.tensor.name}` cannot go to LDS directly in such a loop yet", staging.span,
                                "leave `via direct` out")  # fmt: skip
            used.add(staging.tensor.name)
            rows = next(a for a in other.axes if a != op.axis)
            if source.source.indices[-1].axis == loop.axis and (loop.axis.dim.size or 1) % extent(loop.axis):
                raise LoopError(
                    f"`{source.source.tensor.name}` has `{loop.axis.name}` innermost, and {loop.axis.dim.name} is no "
                    "multiple of its tiles", op.result.span,
                )  # fmt: skip
            moving = Moving(source.source, rows, op.axis, staging.buffers)
            onto, result = _onto(op, loop)
            found.append(Multiplication(op, moving, held, onto, result))
    if stray := next((s for s in program.shared if s.tensor.name not in used), None):
        raise LoopError(f"`{stray.tensor.name}` is no factor that changes in the loop", stray.span, "leave it out")
    return tuple(found)


def _held(held: Value, made: Op, product: Product, loop: Loop) -> None:
    """Raises LoopError where the factor that stays in registers is not one that a lane can hold."""
    if isinstance(made, Load):
        if loop.axis in held.axes:
            raise LoopError(f"both factors change along `{loop.axis.name}`", product.result.span)
        if made.source.indices[-1].axis != product.axis:
            raise LoopError(f"`{made.source.tensor.name}` has not `{product.axis.name}` innermost", held.span)
    else:
        assert isinstance(made, Convert), "only loads and conversions give other types than f32"


def _onto(product: Product, loop: Loop) -> tuple[Value | None, Value]:
    """What a product is added to, and the sum: where it is used for nothing else."""
    users = [op for op in loop.body if product.result in reads(op)]
    add = users[0]
    if len(users) == 1 and isinstance(add, Map) and add.function == "add":
        others = [v for v in add.arguments if v != product.result]
        if len(others) == 1 and set(others[0].axes) == set(product.result.axes):
            return others[0], add.result
    return None, product.result


def _tiles(m: LoopMap) -> None:
    """Raises LoopError for values that no tile of registers holds."""
    for op in walk(m.kernel.body):
        if isinstance(op, When) and m.split not in op.condition.axes:
            raise LoopError(f"a condition without `{m.split.name}` is the same for all tiles", op.span, "use `where`")
        for value in () if isinstance(op, Load) else writes(op):
            if isinstance(op, When) and m.split not in value.axes:
                raise LoopError(f"`{value.name}` has no axis `{m.split.name}`, which the condition has", op.span)
            rows = [a for a in value.axes if a != m.split]
            if len(rows) > 1:
                raise LoopError(f"a value extends along {' and '.join(a.name for a in rows)}", value.span)
        if isinstance(op, Reduce) and (op.axis == m.split or m.split not in op.argument.axes):
            raise LoopError(f"only rows along `{m.split.name}` can be reduced", op.result.span)
    for multiplication in m.multiplications:
        for axis in (multiplication.moving.rows, multiplication.moving.summed):
            if extent(axis) % BASE_TILE:
                raise LoopError(f"{extent(axis)} along `{axis.name}` is no multiple of {BASE_TILE}", axis.span)


def _accesses(m: LoopMap) -> None:
    """Raises LoopError for what is loaded or stored in another form."""
    factors = {m.product.left for m in m.multiplications} | {m.product.right for m in m.multiplications}
    for op in walk(m.kernel.body):
        if isinstance(op, Load) and op.result not in factors:
            raise LoopError(f"`{op.source.tensor.name}` is no factor of a product", op.result.span)
        if isinstance(op, Store):
            _stored(m, op)
    for access in (op.source for op in walk(m.kernel.body) if isinstance(op, Load)):
        _reach(access)


def _stored(m: LoopMap, store: Store) -> None:
    name, last = store.target.tensor.name, store.target.indices[-1].axis
    if store.adds:
        raise LoopError(f"blocks add to `{name}`", store.span)
    if m.split not in store.target.axes:
        raise LoopError(f"`{name}` is stored without `{m.split.name}`", store.span)
    if len(store.target.axes) > 1 and last == m.split:
        raise LoopError(f"`{name}` has `{last.name}` innermost", store.span)
    _reach(store.target)


def _reach(access: Access) -> None:
    """Raises LoopError where the rows of a tile are too far apart for 32-bit offsets, or nobody knows how far."""
    place = next(n for n, i in enumerate(access.indices) if i.extends)
    pitch = access.tensor.dtype.bytes
    for dim in access.tensor.dims[place + 1 :]:
        if dim.size is None:
            raise LoopError(f"the rows of `{access.tensor.name}` are {dim.name} apart, which is dynamic", dim.span)
        pitch *= dim.size
    axis = access.indices[place].axis
    assert axis is not None
    if pitch * extent(axis) > BUFFER_BYTES:
        raise LoopError(f"a tile of `{access.tensor.name}` reaches over {BUFFER_BYTES} bytes", access.tensor.span)
