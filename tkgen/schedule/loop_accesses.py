"""Checks of what a loop of equations over waves loads, reduces and stores: forms that lanes hold, rows within reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tkgen.ir.affine import first_affine
from tkgen.ir.equation_text import access_text
from tkgen.ir.equations import (
    Access,
    Axis,
    AxisKind,
    Kernel,
    Load,
    Product,
    Reduce,
    Store,
    Value,
    accesses,
    reads,
    walk,
)
from tkgen.ir.tensors import GLOBAL_DIMENSIONS, Tensor
from tkgen.ir.types import DType
from tkgen.schedule.loop_tiles import LoopError, extent, reach
from tkgen.source import Span

if TYPE_CHECKING:
    from tkgen.schedule.loops import LoopMap

EIGHT_BITS = (DType.E4M3FN, DType.E4M3FNUZ, DType.E5M2, DType.E5M2FNUZ)
BYTE_COLUMNS = 64  # a row of a tile of bytes in LDS: panels of `st` of the ThunderKittens surface


def _check_dimensions(kernel: Kernel) -> None:
    """Raises LoopError for a tensor of more dimensions than the global layout of a factor has."""
    if many := next((a.tensor for a in accesses(kernel) if len(a.indices) > GLOBAL_DIMENSIONS), None):
        raise LoopError(f"`{many.name}` has {len(many.dims)} dimensions, and fused matmuls take {GLOBAL_DIMENSIONS}",
                        many.span, "combine dimensions that are neighbors in memory")  # fmt: skip


def check_types(kernel: Kernel) -> None:
    """Raises LoopError for tensors of types that no tile has: 8-bit floats are factors of products, or stored.

    Lanes read `i8` in each iteration, such as masks, and an `i32` for each row, such as labels.
    """
    _check_dimensions(kernel)
    multiplied = {v for op in walk(kernel.body) if isinstance(op, Product) for v in reads(op)}
    loads = [op for op in walk(kernel.body) if isinstance(op, Load) and op.result not in multiplied]
    others = {op.source.tensor for op in loads}
    masks = {op.source.tensor for op in loads if any(_is_loop(index.axis) for index in op.source.indices)}
    labels = integers_of_rows(kernel)
    for tensor in kernel.tensors:
        if tensor in kernel.held or tensor in kernel.numbers:
            continue
        narrow = tensor.dtype.bits <= 8 or (tensor.dtype.whole and tensor not in labels)
        known = tensor in masks if tensor.dtype is DType.I8 else tensor.dtype in EIGHT_BITS and tensor not in others
        if narrow and not known:
            raise LoopError(
                f"`{tensor.name}` is {tensor.dtype.spelling}, which fused matmuls cannot hold yet", tensor.span
            )


def integers_of_rows(kernel: Kernel) -> frozenset[Tensor]:
    """Tensors of i32 of which one number is read for each row of a block's tile, and nothing else, such as labels."""
    loads = [op for op in walk(kernel.body) if isinstance(op, Load) and op.source.tensor.dtype is DType.I32]
    of_rows = [op for op in loads if len(op.result.axes) == 1 and op.result.axes[0].kind is AxisKind.PARALLEL]
    others = {op.source.tensor for op in loads if op not in of_rows} | {access.tensor for access in kernel.places}
    return frozenset(op.source.tensor for op in of_rows) - others


def _is_loop(axis: Axis | None) -> bool:
    return axis is not None and axis.kind is AxisKind.SEQUENTIAL


def check_bytes(m: LoopMap) -> None:
    """Raises LoopError for tiles of 8-bit floats that operands cannot be read of, 16 neighbours of a row at a time."""
    for x in m.multiplications:
        ring, name = x.moving, x.moving.name
        if not ring.of_bytes:
            continue
        assert ring.cols is not None
        if ring.direct:
            raise LoopError(f"`{name}` has 8-bit floats, which direct loads store in another order than "
                            "fused matmuls need", ring.span, "remove `via direct`")  # fmt: skip
        if x.across:
            raise LoopError(f"`{name}` has 8-bit floats, and a tile of it is used both directly and transposed: no "
                            "read of LDS transposes 8-bit floats", x.product.result.span,
                            "use a tensor of 16-bit floats")  # fmt: skip
        if extent(ring.cols) % BYTE_COLUMNS:
            raise LoopError(f"{extent(ring.cols)} along `{ring.cols.name}` is not a multiple of {BYTE_COLUMNS}, "
                            "which a "
                            "row of 8-bit floats has in LDS", ring.cols.span)  # fmt: skip
    if given := next((x for x in m.exchanges if x.given.dtype in EIGHT_BITS), None):
        raise LoopError("waves exchange only operands of 16 bits", given.product.result.span, "convert to bf16")


def check_accesses(m: LoopMap) -> None:
    """Raises LoopError for what is loaded, used, reduced or stored in another form."""
    factors = {v for product in m.products for v in reads(product)}
    factors = {op.result for op in walk(m.kernel.body) if isinstance(op, Load) and op.result in factors}
    for op in walk(m.kernel.body):
        if isinstance(op, Load):
            _loaded(m, op, factors)
        if not isinstance(op, Product) and (other := next((v for v in reads(op) if v in factors), None)) is not None:
            raise LoopError("a tile that is an operand of a product cannot be used otherwise, because it has another "
                            "layout in registers",
                            other.span)  # fmt: skip
        if isinstance(op, Reduce):
            _reduced(m, op)
        if isinstance(op, Store) and not op.adds:  # what adds is of an exchange
            (_stored_now if op in m.loop.body else _stored)(m, op)
    for op in walk(m.kernel.body):
        if isinstance(op, Load) and op.source.axes and op not in m.loads_of_iterations:
            reach(op.source)


def _loaded(m: LoopMap, op: Load, factors: set[Value]) -> None:
    source, name = op.source, op.source.tensor.name
    if source.flattens or first_affine([source]):
        what = "has a part of a flattened axis" if source.flattens else "has an affine index"
        raise LoopError(f"`{access_text(source)}` {what}, which fused matmuls do not read",
                        op.result.span, "store what is read there in a kernel before")  # fmt: skip
    moves = any(ring.access == source for ring in m.moving)
    if table := next((i.through for i in source.indices if i.through and not (i.of_page and moves)), None):
        raise LoopError(f"`{name}` is indexed by `{table.tensor.name}`, but fused matmuls read only tables of pages, "
                        "for operands that go through LDS", op.result.span)  # fmt: skip
    if op in m.tiles_loaded:
        _by_rows(m, source, op.result.span)
    elif op in m.loads_of_iterations:
        _of_iterations(m, op)
    elif op.result not in factors and op.result.axes not in ((m.split,), (m.loop.axis,), ()):
        raise LoopError(
            f"`{name}` is neither an operand of a product nor a vector along `{m.loop.axis.name}`", op.result.span
        )
    if op.result in factors and source.indices[-1].axis not in source.axes:
        first, second = (a.name for a in source.axes)
        raise LoopError(f"`{name}` has neither `{first}` nor `{second}` innermost", op.result.span)


def _of_iterations(m: LoopMap, op: Load) -> None:
    """Raises LoopError for a tile of other axes than those of results, or of which several results share an element."""
    if not set(op.result.axes) <= {m.split, m.loop.axis}:
        raise LoopError(f"`{op.source.tensor.name}` is not an operand of a product", op.result.span)
    if any(i.extends and i.divisor != 1 for i in op.source.indices):
        raise LoopError(f"several results share an element of `{op.source.tensor.name}`", op.result.span)


def _reduced(m: LoopMap, op: Reduce) -> None:
    across = op.axis == m.split
    if m.split not in op.argument.axes or (across and (op not in m.combined or m.rows(op.argument) is None)):
        raise LoopError(f"only rows along `{m.split.name}` can be reduced, and after the loop columns of a tile",
                        op.result.span)  # fmt: skip
    if across and m.waves * m.columns != extent(m.split):
        raise LoopError(f"the waves have more than a tile of `{m.split.name}`", op.result.span)
    if op.argument in m.factors:
        raise LoopError("a value that is rounded for a product can only be an operand of products", op.result.span,
                        "reduce it before it is rounded")  # fmt: skip


def _stored(m: LoopMap, store: Store) -> None:
    name = store.target.tensor.name
    if m.split not in store.target.axes and m.rows(store.value) is None:
        raise LoopError(f"`{name}` is stored without `{m.split.name}`", store.span)
    _by_rows(m, store.target, store.span)
    if m.rows(store.value) is None and store.target.tensor.dtype in EIGHT_BITS:
        raise LoopError(f"`{name}` has one 8-bit float for each row", store.span, "use a wider type")
    reach(store.target)


def _stored_now(m: LoopMap, store: Store) -> None:
    """Raises LoopError for a store in the loop that is no tile of results, or leaves elements out."""
    name, axis, axes = store.target.tensor.name, m.loop.axis, store.target.axes
    if m.split not in axes:
        raise LoopError(f"`{name}` is stored in the loop, but has no axis `{m.split.name}`, which the waves divide",
                        store.span, "store it after the loop")  # fmt: skip
    if axis in axes and len(axes) == 2 and store.target.indices[-1].axis not in axes:
        raise LoopError(f"`{name}` has neither `{m.split.name}` nor `{axis.name}` innermost", store.span)
    if axis not in axes:
        _by_rows(m, store.target, store.span)
        reach(store.target)
    if axis.bounds or axis.within is not None or axis.part is not None:
        raise LoopError(f"`{name}` is stored in a loop that does not visit all of `{axis.name}`", store.span,
                        "write the loop without bounds, and mask the stored values")  # fmt: skip
    if m.early is not None or m.written is not None:
        raise LoopError(f"`{name}` is stored in a loop with a schedule", store.span, "remove `schedule`")
    if store.target.tensor.dtype in EIGHT_BITS:
        raise LoopError(f"`{name}` is stored in the loop, with 8 bits", store.span, "use a wider type")


def _by_rows(m: LoopMap, access: Access, span: Span | None) -> None:
    """Raises LoopError for a tile whose columns are not the base tiles of results, or no neighbours in memory."""
    inner = next((a for a in access.axes if a != m.split), None)
    if inner is not None and access.indices[-1].axis != inner:
        raise LoopError(f"`{access.tensor.name}` does not have `{inner.name}` innermost", span)
    if inner is not None and extent(inner) % m.side:
        raise LoopError(f"{extent(inner)} along `{inner.name}` is not a multiple of {m.side}", span)
