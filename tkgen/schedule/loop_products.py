"""The products of a loop of equations over waves: which operand stays or is computed, and how the other one comes.

    s = Q[h, q] @ K[h, j].T                in the loop: Q stays in registers, tiles of K go through a ring in LDS
    z = z + V[h, t, v].T @ K[h, t]         both change: V has a ring, too, of which each wave reads its part
    carry o : f32[q, D] = Q[h, q] @ H[h, q / 128].T     outside of the loop: H is read from memory, as it is multiplied
    O[h, q] = bf16(o / l) @ W[h].T         the same, of what the loop left

One operand has the axis that the waves divide, the other one has not: see `tkgen.schedule.loops`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tkgen.diagnostics.edits import line_above, without_option
from tkgen.ir.equation_program import EquationProgram, Staging
from tkgen.ir.equations import (
    Access,
    Axis,
    Convert,
    Kernel,
    Load,
    Loop,
    Map,
    Op,
    Product,
    Value,
    When,
    reads,
    walk,
    writes,
)
from tkgen.ir.schedules import runs_ahead
from tkgen.ir.types import BASE_TILE, DType, Via
from tkgen.schedule.loop_accesses import EIGHT_BITS
from tkgen.schedule.loop_loads import changes
from tkgen.schedule.loop_tiles import LoopError, Moving, Multiplication, Outside, extent
from tkgen.source import Span

FACTORS = (DType.BF16, DType.F16, *EIGHT_BITS)
WIDE_FACTORS = (DType.BF16, DType.F16)


@dataclass(frozen=True)
class _Pair:
    """The factors of a product: what is in registers, and from where the other one comes."""

    product: Product
    held: Value
    source: Access
    changing: Access | None  # the source of the held operand, if it has another tile in each iteration

    @property
    def rows(self) -> Axis:
        """The other axis of what moves than the one that is summed."""
        return next(a for a in self.source.axes if a != self.product.axis)


def multiplications(program: EquationProgram, kernel: Kernel, loop: Loop, split: Axis) -> tuple[Multiplication, ...]:
    """The products of the loop that sum over an axis which each wave has whole. Raises LoopError for other operands."""
    made = {value: op for op in walk(kernel.body) for value in writes(op)}
    products = [op for op in loop.body if isinstance(op, Product) and op.axis != split]
    pairs = [_pair(op, made, loop, split) for op in products]
    straight = {p.source for p in pairs if p.rows == loop.axis}
    interleaved = {p.rows for p in pairs if p.source in straight} - {loop.axis}
    sources = [a for p in pairs for a in (p.source, p.changing) if a is not None]
    names, found = list(dict.fromkeys(a.tensor.name for a in sources)), list[Multiplication]()
    for pair in pairs:
        rows, cols = pair.rows, pair.product.axis
        staging = _staging(program, pair.source, pair.product.result.span, names)
        direct = staging.via is Via.DIRECT
        if direct:
            rows, cols = pair.source.axes
        elif rows in interleaved:
            rows, cols = cols, rows
        ring = Moving(pair.source, rows, cols, staging.buffers, direct, span=staging.span)
        own = _own_ring(program, pair, split, names)
        found.append(Multiplication(pair.product, ring, pair.held, *_onto(pair.product, loop, pairs), own))
    return tuple(found)


def _pair(op: Product, made: Mapping[Value, Op], loop: Loop, split: Axis) -> _Pair:
    """Raises LoopError where a product's factors are not what stays and what moves."""
    held, other = _operands(op, split)
    changing = _held(held, made[held], op, loop)
    source = made[other]
    if not isinstance(source, Load) or loop.axis not in other.axes:
        raise LoopError("the other operand must be a tile of a tensor along the axis of the loop", op.result.span)
    for access in (source.source, changing):
        if access is not None and access.indices[-1].axis == loop.axis:
            _innermost(access, loop.axis, op)
    return _Pair(op, held, source.source, changing)


def _operands(op: Product, split: Axis) -> tuple[Value, Value]:
    """Return the operand with the axis that the waves divide, and the other one."""
    held, other = (op.left, op.right) if split in op.left.axes else (op.right, op.left)
    if split not in held.axes or split in other.axes:
        raise LoopError(f"one operand of a product must have the axis `{split.name}`", op.result.span)
    if held.dtype not in FACTORS:
        raise LoopError(f"a product of {held.dtype.spelling}", op.result.span, "convert its operands: `bf16(...)`")
    return held, other


def _innermost(access: Access, axis: Axis, op: Product) -> None:
    """Raises LoopError for rows along the loop's axis whose last tile is not complete."""
    name = access.tensor.name
    if axis.within is not None:
        raise LoopError(f"`{name}` has `{axis.name}` innermost, but its groups have any length", op.result.span)
    if axis.dim.size is not None and axis.dim.size % extent(axis):  # else its rows are too far apart: `reach`
        message = f"`{name}` has `{axis.name}` innermost, and {axis.dim.name} is not a multiple of its tiles"
        raise LoopError(message, op.result.span)


def _staging(program: EquationProgram, source: Access, span: Span | None, used: Sequence[str]) -> Staging:
    """Return the way through LDS of a tensor that all waves multiply by. Raises LoopError if the spec names none."""
    name = source.tensor.name
    staging = next((s for s in program.shared if s.tensor.name == name), None)
    if staging is None:
        missing = [name for name in used if name not in {s.tensor.name for s in program.shared}]
        those = " and ".join(f"`{name}`" for name in missing)
        line = f"shared {', '.join(missing)} buffers 2"
        loop = next((op.span for op in program.kernel.body if isinstance(op, Loop) and op.span), None)
        raise LoopError(f"all waves multiply by {those}, which must go through LDS", span, f"add `{line}`",
                        line_above(loop, line) if loop else ())  # fmt: skip
    return staging


def _held(held: Value, made: Op, product: Product, loop: Loop) -> Access | None:
    """Return the source of an operand in registers that changes along the loop, None of one that stays or is computed.

    Raises LoopError where it is not one that a lane can hold.
    """
    if not isinstance(made, Load):
        assert isinstance(made, Convert), "only loads and conversions have types other than f32"
        return None
    source, name = made.source, made.source.tensor.name
    if changes(source, loop.axis):
        if product.axis != loop.axis or loop.axis not in held.axes:
            raise LoopError(f"both operands change along `{loop.axis.name}`, but the product does not sum over it",
                            product.result.span)  # fmt: skip
        return source
    if source.indices[-1].axis != product.axis:
        raise LoopError(f"`{name}` does not have `{product.axis.name}` innermost", held.span)
    return None


def _own_ring(program: EquationProgram, pair: _Pair, split: Axis, names: Sequence[str]) -> Moving | None:
    """The ring of an operand of which each wave reads its own part. Raises LoopError where LDS cannot have it."""
    access, span = pair.changing, pair.product.result.span
    if access is None:
        return None
    staging, name = _staging(program, access, span, names), access.tensor.name
    if access.tensor.dtype not in WIDE_FACTORS:
        raise LoopError(f"`{name}` has 8-bit floats, and both operands change along `{pair.product.axis.name}`", span,
                        "use a tensor of 16-bit floats")  # fmt: skip
    if direct := next((s for s in program.shared if s.via is Via.DIRECT), None):
        raise LoopError(f"`{name}` is transposed on the way to LDS, which direct loads cannot do", direct.span,
                        "remove `via direct`", without_option(direct.span, "via"))  # fmt: skip
    if program.schedule is not None and (program.written is not None or runs_ahead(program.schedule)):
        raise LoopError(f"this schedule has no step for `{name}`: both operands of a product change", span,
                        "remove `schedule`")  # fmt: skip
    if extent(split) % (program.waves * BASE_TILE):
        raise LoopError(f"the waves have more than a tile of `{split.name}`", span)
    return Moving(access, split, pair.product.axis, staging.buffers, span=staging.span)


def _onto(product: Product, loop: Loop, pairs: Sequence[_Pair]) -> tuple[Value | None, Value]:
    """Return the value to which a product is added, None if it starts at zero, and the sum.

    The sum counts if the product is used for nothing else. Of two products that are added, the second is added to the
    first.
    """
    users = [op for op in walk(loop.body) if product.result in reads(op)]
    updates = [c.update for c in loop.carries]
    updates += [c.update for op in loop.body if isinstance(op, When) for c in op.chosen]
    handed = product.result in updates
    add = users[0] if len(users) == 1 and not handed else None
    if isinstance(add, Map) and add.function == "add":
        others = [v for v in add.arguments if v != product.result]
        later = {p.product.result for p in pairs[[p.product for p in pairs].index(product) + 1 :]}
        if len(others) == 1 and set(others[0].axes) == set(product.result.axes) and others[0] not in later:
            return others[0], add.result
    return None, product.result


def outside(program: EquationProgram, kernel: Kernel, split: Axis) -> tuple[Outside, ...]:
    """The products before and after the loop. Raises LoopError for operands that no lane can read from memory."""
    made = {value: op for op in walk(kernel.body) for value in writes(op)}
    found = list[Outside]()
    for op in (op for op in kernel.body if isinstance(op, Product)):
        span = op.result.span
        if op.axis == split:
            raise LoopError(f"a product outside of the loop sums over `{split.name}`, which the waves divide", span,
                            "compute it in another kernel")  # fmt: skip
        held, other = _operands(op, split)
        source, own = made[other], made[held]
        if not isinstance(source, Load):
            raise LoopError("the other operand of a product outside of the loop must be a tile of a tensor", span)
        for load in (source, *([own] if isinstance(own, Load) else ())):
            _read_by_rows(load, op)
        computed_direct = not isinstance(own, Load) and any(s.via is Via.DIRECT for s in program.shared)
        if computed_direct or held.dtype not in WIDE_FACTORS:
            what = "a computed operand next to direct loads" if computed_direct else "8-bit floats"
            fix = "remove `via direct`" if computed_direct else "convert it: `bf16(...)`"
            raise LoopError(f"a product outside of the loop has {what}", span, fix)
        for axis in (op.axis, next(a for a in other.axes if a != op.axis)):
            if extent(axis) % BASE_TILE:
                raise LoopError(f"{extent(axis)} along `{axis.name}` is not a multiple of {BASE_TILE}", span)
        found.append(Outside(op, source, held))
    return tuple(found)


def _read_by_rows(load: Load, op: Product) -> None:
    """Raises LoopError for an operand outside of the loop that lanes cannot read four neighbours of at a time."""
    name, axis = load.source.tensor.name, op.axis
    if load.source.indices[-1].axis != axis:
        raise LoopError(f"`{name}` does not have `{axis.name}` innermost, as products outside of the loop read it",
                        load.result.span, f"store `{name}` with `{axis.name}` as its last dimension")  # fmt: skip
