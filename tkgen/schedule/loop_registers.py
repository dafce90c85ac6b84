"""The least number of registers of a lane that a loop of equations takes: those live at each of its products.

    through the loop    operands that stay, vectors along the axis that waves divide, carried tiles, tiles from before
    from its beginning  what lanes load in each iteration, up to its last use
    on the way to LDS   a thread's part of each tile that moves: fetched as an iteration begins, written as it ends
    at a product        its result, each vector that was computed or read before it and is used from it on, its other
                        operand as read of LDS, or of memory outside of the loop

Addresses and the values between two products come on top. A wave has the registers of its SIMD, VGPRs and AGPRs alike,
divided by the number of waves there.
"""

from __future__ import annotations

from collections.abc import Iterator

from tkgen.ir.equations import (
    Argument,
    Constant,
    Convert,
    Coordinate,
    Extent,
    Kind,
    Load,
    Loop,
    Op,
    Value,
    reads,
    walk,
    writes,
)
from tkgen.ir.types import WAVE_LANES
from tkgen.schedule.loop_loads import loaded_registers
from tkgen.schedule.loop_tiles import Multiplication, Outside, extent
from tkgen.schedule.loops import LoopMap
from tkgen.tile.scheduled import Moment, Share, together

REGISTER_BYTES = 4  # of a lane


def moments(m: LoopMap) -> tuple[Moment, ...]:
    """Return the values in registers at each product."""
    at = {x.product: x for x in m.multiplications}
    products = [(n, at[op]) for n, op in enumerate(m.loop.body) if op in at]
    found = [Moment(f"multiply by {x.moving.name}", "multiply", "steady", together(_at(m, n, x))) for n, x in products]
    for x in m.outside:
        segment = "prologue" if m.kernel.body.index(x.product) < m.kernel.body.index(m.loop) else "epilogue"
        name = x.source.source.tensor.name
        found.append(Moment(f"multiply by {name}", "multiply", segment, together(_at_outside(m, x))))
    return tuple(found)


def shares(m: LoopMap) -> tuple[Share, ...]:
    """Return the values in registers at the product where they take the most, the largest first."""
    most = max(moments(m), key=lambda moment: moment.total).shares
    return tuple(sorted(most, key=lambda s: -s.registers))


def total(found: tuple[Share, ...]) -> int:
    """Registers of all."""
    return sum(share.registers for share in found)


def _at(m: LoopMap, place: int, x: Multiplication) -> Iterator[Share]:
    body = m.loop.body
    for load in (*m.held, *m.columns_loaded):
        yield Share(f"`{load.source.tensor.name}`, which stays", m.lane_registers(load.result))
    yield from _waiting(m)
    for load in m.loads_of_iterations:
        if any(load.result in reads(op) for op in body[place:]):
            yield Share(f"`{load.source.tensor.name}`, loaded in each iteration", loaded_registers(m, load))
    for y in m.exchanges:
        yield Share(f"a wave's columns of `{y.held.source.tensor.name}`, which stay", y.registers)
    before: dict[Value, Op | None] = {c.inside: None for c in m.loop.carries}
    before |= {value: op for op in body[:place] for value in writes(op)}
    used = {v for op in body[place:] for v in reads(op)} | {c.update for c in m.loop.carries}
    vectors = {ring.access for ring in m.vectors}
    for value, made in before.items():
        if value in used and isinstance(made, Load) and made.source in vectors:
            yield Share(f"numbers of `{made.source.tensor.name}`", m.lane_registers(value))
        elif value in used and _has_place(m, value, made):
            yield Share(f"`{value.name}`" if value.name else "what is computed between", m.lane_registers(value))
    if x.onto is None:
        yield Share(f"`{x.result.name}`" if x.result.name else "a product", m.lane_registers(x.product.result))
    on_the_way = sum(-(-ring.bytes // ring.buffers // (m.threads * REGISTER_BYTES)) for ring in m.moving)
    yield Share(f"{', '.join(ring.name for ring in m.moving)} on the way to LDS", on_the_way)
    if x.held_ring is not None:
        yield Share(f"a wave's part of `{x.held_ring.name}` read of LDS", m.lane_registers(x.held))
    read = m.side * extent(x.summed) * x.moving.access.tensor.dtype.bytes // REGISTER_BYTES // WAVE_LANES
    if x.across:
        read = 4 * m.neighbours(x.rows) * x.moving.access.tensor.dtype.bytes // REGISTER_BYTES  # a square
    yield Share(f"rows of `{x.moving.name}` read of LDS", read)


def _at_outside(m: LoopMap, x: Outside) -> Iterator[Share]:
    """Yield the values in registers at a product before or after the loop."""
    body = m.kernel.body
    place = body.index(x.product)
    later = body[place:]
    used = {v for op in later for v in reads(op)}
    used |= {v for op in later if isinstance(op, Loop) for inner in walk(op.body) for v in reads(inner)}
    used |= {c.initial for op in later if isinstance(op, Loop) for c in op.carries}
    for load in m.held:
        if load.result in used:
            yield Share(f"`{load.source.tensor.name}`, which stays", m.lane_registers(load.result))
    for op in body[:place]:
        for value in (v for v in writes(op) if v in used and _has_place(m, v, op)):
            yield Share(f"`{value.name}`" if value.name else "what is computed before", m.lane_registers(value))
    result, name = x.product.result, x.source.source.tensor.name
    yield Share(f"`{result.name}`" if result.name else "a product", m.lane_registers(result))
    rows = m.side * extent(x.summed) * x.source.source.tensor.dtype.bytes // REGISTER_BYTES // WAVE_LANES
    yield Share(f"rows of `{name}` read from memory", rows)


def _waiting(m: LoopMap) -> Iterator[Share]:
    """Yield the tiles that are loaded or computed before the loop, and used in it or after it."""
    at = m.kernel.body.index(m.loop)
    used = {v for op in (*walk(m.loop.body), *m.kernel.body[at + 1 :]) for v in reads(op)}
    for load in m.tiles_loaded:
        if load.result in used and load not in m.kernel.body[at:]:
            yield Share(f"`{load.source.tensor.name}`, which stays", m.lane_registers(load.result))
    for op in m.kernel.body[:at]:
        for value in (v for v in writes(op) if v in used and m.rows(v) is not None and _has_place(m, v, op)):
            yield Share(f"`{value.name}`" if value.name else "what is computed before", m.lane_registers(value))


def _has_place(m: LoopMap, value: Value, made: Op | None) -> bool:
    """True if a value is a tile or a vector in registers, not a number or a predicate that is worked out when used."""
    if isinstance(made, Constant | Argument | Coordinate | Extent | Load) or value.kind is not Kind.NUMBER:
        return False
    return m.split in value.axes or isinstance(made, Convert)
