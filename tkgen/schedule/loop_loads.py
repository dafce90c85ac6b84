"""Loads by lanes in each iteration of a loop of equations over waves: a bias, a mask, a number for each iteration.

The loads are the first operations of the loop, so that what waits for them waits for no tile that moves. A tile in the
layout of the products' results stays as memory has it until its elements are used. Vectors that are `shared` go through
LDS instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import gcd
from typing import TYPE_CHECKING

from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.equations import Access, Axis, Kernel, Load, Loop, Map, Op, Product, reads, walk
from tkgen.ir.types import WAVE_LANES, DType, Via
from tkgen.schedule.loop_tiles import LoopError, Moving, extent

if TYPE_CHECKING:
    from tkgen.schedule.loops import LoopMap

MOST_AT_ONCE = 4  # neighbours of a column that a lane has in a row of registers
REGISTER_BYTES = 4


def changes(access: Access, axis: Axis) -> bool:
    """Return True if an access is to another part of its tensor in each iteration over an axis."""
    return any(index.axis == axis for index in access.indices)


def loads_first(program: EquationProgram, kernel: Kernel, loop: Loop) -> Kernel:
    """Return the kernel with what lanes load in each iteration first in its loop."""
    factors = {v for op in loop.body if isinstance(op, Product) for v in reads(op)}
    shared = {staging.tensor.name for staging in program.shared}

    def lanes_load(op: Op) -> bool:
        if not isinstance(op, Load) or op.result in factors or not changes(op.source, loop.axis):
            return False
        return op.result.axes != (loop.axis,) or op.source.tensor.name not in shared

    body = sorted(loop.body, key=lambda op: not lanes_load(op))
    return replace(kernel, body=tuple(replace(loop, body=tuple(body)) if op is loop else op for op in kernel.body))


def vectors(program: EquationProgram, loop: Loop) -> tuple[Moving, ...]:
    """Return the vectors along the loop's axis that go through LDS, a ring for each.

    Raises LoopError for vectors that cannot.
    """
    staged = {staging.tensor.name: staging for staging in program.shared}
    loads = [op.source for op in loop.body if isinstance(op, Load) and op.result.axes == (loop.axis,)]
    rings = list[Moving]()
    for source in (source for source in loads if source.tensor.name in staged):
        name, staging = source.tensor.name, staged[source.tensor.name]
        if staging.via is Via.DIRECT:
            raise LoopError(f"`{name}` is a vector, which cannot go to LDS via direct loads", staging.span,
                            "remove `via direct`")  # fmt: skip
        if source.tensor.dtype is DType.I8:
            raise LoopError(f"`{name}` is a vector of i8, which lanes read from memory", staging.span,
                            "remove it from `shared`")  # fmt: skip
        rings.append(Moving(source, loop.axis, None, staging.buffers, span=staging.span))
    return tuple(dict.fromkeys(rings))


def loads_of_iterations(m: LoopMap) -> Iterator[Load]:
    """Yield these loads."""
    moving, factors = {ring.access for ring in m.moving}, {v for x in m.products for v in reads(x)}
    loads = (op for op in m.loop.body if isinstance(op, Load) and changes(op.source, m.loop.axis))
    yield from (op for op in loads if op.result not in factors and op.source not in moving)


def widened(m: LoopMap, load: Load) -> bool:
    """Return True if a tile becomes one of f32 as it is loaded: something takes it as a whole."""
    return not all(isinstance(op, Map) for op in walk(m.loop.body) if load.result in reads(op))


def at_once(m: LoopMap, access: Access) -> int:
    """Elements that a lane reads at once: neighbours along the loop's axis, aligned wherever a row begins."""
    aligned = access.indices[-1].axis == m.loop.axis and m.loop.axis.within is None
    return gcd(MOST_AT_ONCE, access.tensor.dims[-1].size or 1) if aligned else 1


def loaded_registers(m: LoopMap, load: Load) -> int:
    """VGPRs of a lane for what it loads: of a tile, what is read at once is packed."""
    if len(load.result.axes) < 2:
        return m.lane_registers(load.result) if load.result.axes else 1
    elements, count = m.columns * extent(m.loop.axis) // WAVE_LANES, at_once(m, load.source)
    packed = -(-load.source.tensor.dtype.bytes * count // REGISTER_BYTES)
    return elements if widened(m, load) else elements // count * packed
