"""The layout of a loop with any products on Hopper: found in a program's equations, or refused with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tkgen.backends.hopper.loop_clauses import (
    buffers_of,
    checked_roles,
    order_of_tiles,
    rows_of_warps,
    split_axis,
)
from tkgen.backends.hopper.machine import Hopper
from tkgen.backends.hopper.port import MOST_CONSUMERS
from tkgen.backends.hopper.serial_loop import Brought, Multiplied, SerialLoop
from tkgen.checks.blocks import tiled
from tkgen.ir.equation_program import EquationProgram
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
    Reduce,
    Scan,
    Store,
    Value,
    reads,
    walk,
    writes,
)
from tkgen.ir.types import DType
from tkgen.schedule.loop_tiles import LoopError, extent

HALVES = (DType.BF16, DType.F16)


def serial_loop(program: EquationProgram, kernel: Kernel, loop: Loop, machine: Hopper) -> SerialLoop:
    """The layout of a kernel with this loop. Raises LoopError where it is not of this form."""
    split = split_axis(program, loop)
    rows_of_warps(program, kernel, split, machine)
    made = {value: op for op in walk(kernel.body) for value in writes(op)}
    tiles: dict[Access, Brought] = {}
    found = list[Multiplied]()
    for product in (op for op in walk(kernel.body) if isinstance(op, Product)):
        found.append(_multiplied(program, kernel, loop, split, made, product, tiles))
    consumers = max(program.waves // machine.warpgroup_warps, 1)
    layout = SerialLoop(kernel, loop, split, consumers, program.grid.count, order_of_tiles(program), machine,
                        tuple(tiles.values()), tuple(_added(loop, kernel, found)), roles=program.roles,
                        backwards=bool(loop.axis.bounds) and "remap" not in program.spans)  # fmt: skip
    layout = _divided(layout)
    moving = tuple(tile.access for tile in layout.tiles if tile.moves)
    checked_roles(program, layout.operands, moving, machine.warpgroup_warps)
    _tiles(layout)
    _values(layout)
    _stores(layout)
    return layout


def _multiplied(
    program: EquationProgram, kernel: Kernel, loop: Loop, split: Axis, made: dict[Value, Op], product: Product,
    tiles: dict[Access, Brought],
) -> Multiplied:  # fmt: skip
    """A product as wgmma computes it: its left operand has the rows of the split axis."""
    span, of = product.result.span, f"`{split.name}`"
    if product.axis == split:
        raise LoopError(f"a product sums over {of}, which the warpgroups divide: none has all of it", span,
                        f"split another axis into tiles (`over`), or sum over {of} in another kernel")  # fmt: skip
    sides = (product.left, product.right)
    with_rows = [v for v in sides if split in v.axes]
    if len(with_rows) != 1:
        raise LoopError(f"one operand of each product must have the axis {of}, whose rows the warpgroups divide", span)
    (left,) = with_rows
    right = next(v for v in sides if v is not left)
    source = made[right]
    if not isinstance(source, Load):
        raise LoopError(f"an operand without the axis {of} is read from shared memory, which the copy engine fills: "
                        "it must be a tile of a tensor", right.span or span,
                        "store it in a kernel before this one")  # fmt: skip
    brought = _brought(program, kernel, loop, split, source.source, tiles)
    of_left = made.get(left)
    layouts = "B" if brought.rows == product.axis else "Bt"
    if isinstance(of_left, Load):
        first = _brought(program, kernel, loop, split, of_left.source, tiles)
        return Multiplied(product, first, brought, f"A{'t' if first.rows == product.axis else ''}{layouts}", None,
                          product.result)  # fmt: skip
    if not isinstance(of_left, Convert) or of_left.result.dtype is not brought.tensor.dtype:
        wanted = brought.tensor.dtype.spelling
        raise LoopError(f"a computed operand of a product has the type of the other one, {wanted}", left.span or span,
                        f"write `{wanted}(...)`")  # fmt: skip
    return Multiplied(product, left, brought, f"A{layouts}", None, product.result)


def _brought(
    program: EquationProgram, kernel: Kernel, loop: Loop, split: Axis, access: Access, tiles: dict[Access, Brought]
) -> Brought:
    """The tile of an operand, which products that read the same one share."""
    if access in tiles:
        return tiles[access]
    name, tensor = access.tensor.name, access.tensor
    if tensor.dtype not in HALVES:
        raise LoopError(f"`{name}` is {tensor.dtype.spelling}: with these products operands have 16 bits on Hopper",
                        tensor.span, "use bf16 or f16")  # fmt: skip
    if len(access.axes) != 2 or access.indices[-1].axis != access.axes[1]:
        raise LoopError(f"the last dimension of `{name}` must be an axis of its tile", tensor.span)
    moves = any(index.axis == loop.axis for index in access.indices)
    rows, cols = access.axes
    tiles[access] = Brought(access, rows, cols, split in access.axes, moves,
                            buffers_of(program, tensor) if moves else 1)  # fmt: skip
    return tiles[access]


def _added(loop: Loop, kernel: Kernel, products: list[Multiplied]) -> Iterator[Multiplied]:
    """The products, each with what its sums are added to where nobody else reads them."""
    made = {value: op for op in walk(kernel.body) for value in writes(op)}
    users: dict[Value, list[Op]] = {}
    for op in walk(kernel.body):
        for value in reads(op):
            users.setdefault(value, []).append(op)
    handed = [v for c in loop.carries for v in (c.update, c.initial)]
    sums: dict[Value, Value] = {}  # of each product, and what its sums are added to, the result
    for each in products:
        add = _sole(users, handed, each.product.result)
        if isinstance(add, Map) and add.function == "add" and len(set(add.arguments)) == 2:
            (other,) = (v for v in add.arguments if v != each.product.result)
            if set(other.axes) == set(add.result.axes) and _free(other, loop, users, handed, made, sums, add):
                sums[each.product.result] = sums[other] = add.result
                yield _replaced(each, other, add.result)
                continue
        sums[each.product.result] = each.product.result
        yield each


def _replaced(each: Multiplied, onto: Value, result: Value) -> Multiplied:
    return Multiplied(each.product, each.left, each.right, each.layouts, onto, result)


def _sole(users: dict[Value, list[Op]], handed: list[Value], value: Value) -> Op | None:
    found = users.get(value, [])
    return found[0] if len(found) == 1 and value not in handed else None


def _free(
    value: Value, loop: Loop, users: dict[Value, list[Op]], handed: list[Value], made: dict[Value, Op],
    sums: dict[Value, Value], add: Map,
) -> bool:  # fmt: skip
    """True if a product may be added to a value in its registers: it is sums, or becomes the update of a carry."""
    if value in sums.values() and _sole(users, handed, value) is add:
        return True
    carry = next((c for c in loop.carries if _reaches(add.result, c.update, users, handed)), None)
    if carry is None or add not in loop.body:
        return False
    scaled = isinstance(made.get(value), Map) and _sole(users, handed, value) is add and len(value.axes) > 1
    return value == carry.inside or scaled


def _reaches(value: Value, update: Value, users: dict[Value, list[Op]], handed: list[Value]) -> bool:
    """True if a value becomes the update by additions of products alone."""
    while value != update:
        then = _sole(users, handed, value)
        if not isinstance(then, Map) or then.function != "add":
            return False
        value = then.result
    return True


def _divided(m: SerialLoop) -> SerialLoop:
    """The layout, the columns of sums divided among consumers where one product has fewer.

    Raises LoopError where consumers have rows of their own, or cannot take their part of an operand.
    """
    wide = [each for each in m.products if m.columns_of(m.column_axis(each.result)) > max(m.machine.fused_columns)]
    if not wide:
        return m
    axis = m.column_axis(wide[0].result)
    columns, panel = m.columns_of(axis), m.machine.swizzle_bytes // m.element_bytes
    parts = next((n for n in range(2, MOST_CONSUMERS + 1)
                  if columns % (n * panel) == 0 and columns // n in m.machine.fused_columns), None)  # fmt: skip
    at = axis.span or m.loop.axis.span
    if parts is None or any(m.column_axis(each.result) != axis for each in wide):
        return m  # refused with the columns that products have
    if m.consumers > 1:
        raise LoopError(f"{columns} columns of `{axis.name}` are divided among {parts} warpgroups of the same "
                        f"{m.machine.wgmma_rows} rows, but a tile has {extent(m.split)} of `{m.split.name}`",
                        m.split.span, f"use tiles of {m.machine.wgmma_rows}",
                        tiled(m.split.span, m.machine.wgmma_rows) if m.split.span else ())  # fmt: skip
    for each in (each for each in m.products if m.column_axis(each.result) == axis):
        if each.right.cols != axis:
            name = each.right.tensor.name
            raise LoopError(f"warpgroups divide the columns of `{axis.name}`: those of `{name}` must be innermost", at,
                            f"store `{name}` with `{axis.dim.name}` as its last dimension")  # fmt: skip
    for each in m.products:
        if isinstance(each.left, Value) and each.product.axis == axis:
            raise LoopError(f"a product sums over `{axis.name}`, whose columns {parts} warpgroups divide: none has all "
                            "of them", at, "sum over them in another kernel")  # fmt: skip
    for op in walk(m.kernel.body):
        if isinstance(op, Reduce) and op.axis == axis:
            raise LoopError(f"`{axis.name}` is reduced, whose columns {parts} warpgroups divide: none has all of them",
                            op.result.span or at, "reduce them in another kernel")  # fmt: skip
        if isinstance(op, Store) and len(op.target.axes) > 1 and axis not in op.target.axes:
            raise LoopError(f"{parts} warpgroups divide the columns of `{axis.name}`, and each has all of "
                            f"`{op.target.tensor.name}`", op.span, "store it in another kernel")  # fmt: skip
    shared = tuple(replace(tile, own=False) for tile in m.tiles)
    known = dict(zip(m.tiles, shared, strict=True))
    products = tuple(
        replace(each, left=each.left if isinstance(each.left, Value) else known[each.left], right=known[each.right])
        for each in m.products
    )
    return replace(m, consumers=parts, tiles=shared, products=products, divided=axis)


def _tiles(m: SerialLoop) -> None:
    """Raises LoopError for tiles that wgmma or the copy engine cannot take."""
    machine, at = m.machine, m.loop.axis.span
    columns = machine.fused_columns
    panel = machine.swizzle_bytes // m.element_bytes
    for each in m.products:
        axis = m.column_axis(each.result)
        if (count := m.own_columns(axis)) not in columns:
            raise LoopError(f"products have {', '.join(map(str, columns))} columns, not {count} of `{axis.name}`",
                            axis.span or at, "choose another tile (`by`)")  # fmt: skip
        across = [t for t in each.tiles if t.cols == (axis if t is each.right else m.split)]
        for tile in (t for t in each.tiles if m.columns_of(t.cols) % panel):
            raise LoopError(f"{m.columns_of(tile.cols)} of `{tile.cols.name}` are not a multiple of {panel}, the "
                            f"length of a row of `{tile.tensor.name}` in shared memory", at,
                            "choose another tile (`by`)")  # fmt: skip
        summed = each.product.axis
        if isinstance(each.left, Value) and summed != m.loop.axis and m.overhangs(summed):
            raise LoopError(f"`{summed.dim.name}` is not a multiple of {panel}: what is computed beyond its end would "
                            "take part in a product", summed.dim.span)  # fmt: skip
        if across and any(t.cols.within is not None for t in across):
            raise LoopError("the copy engine cannot end a row at the end of a group", at)
    if m.split.within is not None:
        raise LoopError(
            f"rows of groups of `{m.split.name}` take products of softmax attention on Hopper", m.split.span
        )
    for tile in m.tiles:
        if m.page(tile.access) is not None and not tile.moves:
            raise LoopError(f"`{tile.tensor.name}` is paged, but is no operand that changes in the loop", at)
        if tile.cols == m.split and m.padded:
            raise LoopError(f"{extent(m.split)} columns of `{tile.tensor.name}` cannot be padded to 64", m.split.span)


def _values(m: SerialLoop) -> None:
    """Raises LoopError for values that a lane cannot hold."""
    factors = {op.result for op in walk(m.kernel.body) if isinstance(op, Load) and op.source in m.operands}
    for op in walk(m.kernel.body):
        if isinstance(op, Scan):
            raise LoopError("scans are of kernels without products on Hopper", op.result.span)
        if not isinstance(op, Product) and (tile := next((v for v in reads(op) if v in factors), None)) is not None:
            made = m.made[tile]
            assert isinstance(made, Load)
            raise LoopError(f"`{made.source.tensor.name}` is an operand of a product, so it cannot be used otherwise",
                            tile.span)  # fmt: skip
        if isinstance(op, Reduce) and (op.axis == m.split or m.split not in op.argument.axes):
            raise LoopError(f"only rows along `{m.split.name}` can be reduced", op.result.span)
        if isinstance(op, Reduce) and op.axis != m.loop.axis and m.overhangs(op.axis):
            raise LoopError(f"`{op.axis.dim.name}` is no multiple of what a row of sums has, so it cannot be reduced",
                            op.result.span)  # fmt: skip
    rows = [c.inside for c in m.loop.carries if len(c.inside.axes) == 1 and c.inside.axes != (m.split,)]
    if rows:
        raise LoopError(f"a loop carries numbers of rows of `{m.split.name}`, and tiles with these rows", rows[0].span)


def _stores(m: SerialLoop) -> None:
    """Raises LoopError for what is stored in another form."""
    for store in (op for op in walk(m.kernel.body) if isinstance(op, Store)):
        name, axes = store.target.tensor.name, store.target.axes
        if store.adds:
            raise LoopError(f"blocks add to `{name}`", store.span)
        if m.split not in axes or len(axes) > 2:
            raise LoopError(f"`{name}` must have the axis `{m.split.name}`, whose rows the warpgroups divide",
                            store.span)  # fmt: skip
        if len(axes) == 2 and store.target.indices[-1].axis != axes[-1]:
            raise LoopError(f"`{name}` does not have `{axes[-1].name}` innermost", store.span)
        panel = m.machine.swizzle_bytes // store.target.tensor.dtype.bytes
        if len(axes) == 2 and m.out_shape(store)[1] % panel:
            raise LoopError(f"a row of a tile of `{name}` in shared memory has a multiple of {panel} elements",
                            store.span)  # fmt: skip
        if len(axes) == 2 and m.transposed(store) and m.padded:
            raise LoopError(f"`{name}` has fewer rows than a product, side by side", store.span)
        if len(axes) == 2 and m.out_shape(store)[0] % 8:
            raise LoopError(f"tiles of `{name}` have a multiple of 8 rows", store.span)
