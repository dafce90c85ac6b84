"""The products of a loop over waves that sum over the axis which the waves divide: see `Exchange`."""

from __future__ import annotations

from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.equations import Axis, Convert, Load, Loop, Product, Store, writes
from tkgen.ir.schedules import runs_ahead
from tkgen.ir.types import BASE_TILE, DType
from tkgen.schedule.loop_tiles import Exchange, LoopError, extent, reach


def exchanges(program: EquationProgram, loop: Loop, split: Axis, columns_of_wave: int) -> tuple[Exchange, ...]:
    """The products that sum over the axis which the waves divide. Raises LoopError where no wave has a part of one."""
    ahead = (op for op in program.kernel.body if isinstance(op, Load))
    made = {value: op for op in (*ahead, *loop.body) for value in writes(op)}
    found = []
    for product in (op for op in loop.body if isinstance(op, Product) and op.axis == split):
        span, loaded = product.result.span, made.get(product.right)
        (store,) = (op for op in loop.body if isinstance(op, Store) and op.value == product.result)
        if not isinstance(made.get(product.left), Convert) or loop.axis not in product.left.axes:
            raise LoopError("the added value is not a product of a value that the iteration computed along "
                            f"`{loop.axis.name}`", span,
                            "write it as `T[q] += bf16(p) @ K[j]`")  # fmt: skip
        columns = next((a for a in product.right.axes if a != split), None)
        if not isinstance(loaded, Load) or columns is None or columns == loop.axis:
            raise LoopError("the right operand of the added product is not a tile of a tensor along "
                            f"`{split.name}`", span,
                            "write it as `T[q] += bf16(p) @ K[j]`")  # fmt: skip
        if loaded.source.indices[-1].axis != columns or store.target.indices[-1].axis != columns:
            raise LoopError(f"the added product must have `{columns.name}` innermost in both tensors", store.span)
        if product.left.dtype not in (DType.BF16, DType.F16):
            raise LoopError(f"a product of {product.left.dtype.spelling}", span, "convert its operands: `bf16(...)`")
        if extent(columns) % (program.waves * BASE_TILE):
            raise LoopError(f"{program.waves} waves cannot divide {extent(columns)} along `{columns.name}` in parts of "
                            f"{BASE_TILE}",
                            store.span, "use fewer waves")  # fmt: skip
        if program.waves * columns_of_wave != extent(split):
            raise LoopError(f"the waves have more than a tile of `{split.name}`", store.span)
        if program.written is not None or runs_ahead(program.schedule):
            raise LoopError("this schedule has no step for values that waves exchange", store.span,
                            "remove `schedule`")  # fmt: skip
        if program.kernel.ragged:
            raise LoopError(f"blocks of groups add to `{store.target.tensor.name}`", store.span)
        reach(store.target)
        found.append(Exchange(product, product.left, loaded, store, extent(columns) // program.waves))
    return tuple(found)
