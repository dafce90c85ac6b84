"""Kernels whose loop does nothing but sum products: what the matrix schedules of `tkgen.schedule` execute.

over m in M by 256, n in N by 128         the output tile of a block: rows and columns
each k in K by 64                         the contraction, a K-step an iteration
  g = g + X[m, k] @ G[n, k].T             any number of sums, each of one product of tiles of tensors,
  u = u + s[m, k / 64] * (X[m, k] @ U[n, k].T)      or of what is made of one, element by element
  v = v + (s[m, k / 32] * X[m, k]) @ (t[n, k / 32] * V[n, k]).T      the factors in blocks with scales of e8m0
Y[m, n] = silu(g) * u                     element by element, of the sums and of tensors
R[m, n / 128] = rowmax(g)                 and of what is reduced of a block's tile
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf

from tkgen.ir.deciding import decided
from tkgen.ir.equation_text import access_text
from tkgen.ir.equations import (
    Access,
    Argument,
    Axis,
    AxisKind,
    Carry,
    Constant,
    Convert,
    Coordinate,
    Digit,
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
    accesses,
    reads,
    walk,
    writes,
)
from tkgen.ir.integers import op_range
from tkgen.ir.liveness import pruned
from tkgen.ir.tensors import GLOBAL_DIMENSIONS, DType, Tensor
from tkgen.ir.views import Unfit as Unfit
from tkgen.ir.views import View as View
from tkgen.ir.views import view as view
from tkgen.source import Span

SCALED_BLOCK = 32  # elements along the contraction that share a scale (OCP Microscaling formats, revision 1.0)
LEAST_BLOCK = 32  # elements along the contraction that share what factors are made of
# Of what factors are made, and up to which number all whole ones are numbers of the type.
WHOLE = {DType.BF16: 2.0**8, DType.F16: 2.0**11, DType.F32: 2.0**24}
PACKED = (DType.I8, DType.I4, DType.U4)  # what factors may be made of
ELEMENTWISE = (Map, Convert, Load, Constant, Argument, Coordinate, Store)
COMPUTED = (Map, Convert, Constant, Argument)  # of what a factor is made beside tensors


@dataclass(frozen=True)
class Made:
    """A factor that `ops` make of `tile`, what is loaded of its tensor, element by element.

    Its last operation rounds to the type `multiplied`; what else is loaded is a number for each of its rows, or for
    each block of them (`s[n, k / 32]`).
    """

    tile: Load
    ops: tuple[Op, ...]
    value: Value
    multiplied: DType

    @property
    def tensor(self) -> Tensor:
        """The tensor that tiles are loaded of."""
        return self.tile.source.tensor

    @property
    def block(self) -> int | None:
        """Elements along a row that have all that is loaded in common; None where all of a K-step have."""
        loads = (op.source for op in self.ops if isinstance(op, Load))
        return min((i.divisor for source in loads for i in source.indices if i.of_blocks), default=None)

    @property
    def exact(self) -> bool:
        """True if it is made of integers, and of so small ones that all of them are `multiplied` as they are."""
        value = self.ops[-1]
        assert isinstance(value, Convert)
        ranges = {self.tile.result: tuple(map(float, self.tensor.dtype.range))}
        for op in self.ops[:-1]:
            found = op_range(op, ranges)
            if found is None:
                return False
            ranges |= dict.fromkeys(writes(op), found)
        return max(map(abs, ranges.get(value.argument, (inf,)))) <= WHOLE[self.multiplied]


@dataclass(frozen=True)
class Sum:
    """`name` += `left` times `right`, for each K-step; `result` is its value after the loop, `span` its equation.

    With `scaled` operations the product of a K-step is made something of before it is added: these make of `product`,
    and of `inside`, the sum before, the sum after the step, `update`. `scales` are those of the blocks of the factors.
    Factors in `made` are computed from their tiles before they are multiplied.
    """

    name: str
    left: Access
    right: Access
    result: Value
    product: Value
    inside: Value
    update: Value
    scaled: tuple[Op, ...] = ()
    scales: tuple[Access, ...] = ()
    made: tuple[Made, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def beside(self) -> tuple[Access, ...]:
        """The loads beside the operands: of these operations, of those of `made`, and of the scales of blocks."""
        ops = (*self.scaled, *(op for m in self.made for op in m.ops))
        return (*(op.source for op in ops if isinstance(op, Load)), *self.scales)


@dataclass(frozen=True)
class Sums:
    """A kernel of sums of products: the axes of its output tile, the sums, and what is made of them."""

    batch: tuple[Axis, ...]
    rows: Axis
    cols: Axis
    contraction: Axis
    sums: tuple[Sum, ...]
    epilogue: tuple[Op, ...]
    kernel: Kernel = field(compare=False, repr=False)

    @property
    def views(self) -> tuple[View, ...]:
        """Every view that the kernel takes of its tensors, named by their tensors, numbered from the second on.

        What is stored by the row, by the column, once, or to computed positions is not among them; the tensors that
        hold these positions are.
        """
        accesses = [a for s in self.sums for a in (s.left, s.right)]
        accesses += [i.through for a in accesses for i in a.indices if i.through is not None]
        accesses += [op.source for op in self.epilogue if isinstance(op, Load)]
        accesses += [s.target for s in self.stores if len(s.target.axes) == 2 and not s.target.computed]
        accesses += [i.through for s in self.stores for i in s.target.indices if i.through is not None]
        found, counts = list[View](), dict[str, int]()
        for access in dict.fromkeys(accesses):
            name = access.tensor.name
            counts[name] = counts.get(name, 0) + 1
            found.append(view(access, name if counts[name] == 1 else f"{name}_{counts[name]}"))
        return tuple(found)

    @property
    def stores(self) -> tuple[Store, ...]:
        """The stores of the epilogue."""
        return tuple(op for op in self.epilogue if isinstance(op, Store))

    @property
    def made(self) -> dict[str, Made]:
        """The factors that are computed, by the names of their tensors."""
        return {m.tensor.name: m for s in self.sums for m in s.made}

    @property
    def rounds(self) -> tuple[tuple[Reduce, ...], ...]:
        """The reductions of the epilogue, those that need others in a later round than these."""
        level: dict[Value, int] = {}
        found: dict[int, list[Reduce]] = {}
        for op in self.epilogue:
            if not isinstance(op, Store | Loop | When):
                level[op.result] = max((level.get(v, 0) for v in reads(op)), default=0)
                if isinstance(op, Reduce):
                    found.setdefault(level[op.result], []).append(op)
                    level[op.result] += 1
        return tuple(tuple(found[n]) for n in sorted(found))


def has_products(kernel: Kernel) -> bool:
    """Return True if any equation multiplies matrices."""
    return any(isinstance(op, Product) for op in walk(kernel.body))


def chains_products(kernel: Kernel) -> bool:
    """Return True if a loop multiplies, reduces or stores what it made of products, or reduces beside other carries."""
    if any(isinstance(op, Load) and op.source.tensor.dtype is DType.E8M0 for op in walk(kernel.body)):
        return False  # instructions with scales of blocks take tiles of tensors
    for loop in (op for op in kernel.body if isinstance(op, Loop)):
        made = {v: op for op in walk(loop.body) for v in writes(op)}
        multiplied = [op for op in loop.body if isinstance(op, Product)]
        others = len(loop.carries) > len(multiplied)  # carries something else beside sums of products
        for op in walk(loop.body):
            if multiplied and isinstance(op, Store):
                return True
            if multiplied and isinstance(op, Reduce) and (others or _of_products(op, made)):
                return True
            if isinstance(op, Product) and not all(_of_tile(v, made) for v in reads(op)):
                return True
    return False


def _of_products(op: Reduce, made: Mapping[Value, Op]) -> bool:
    """Return True if a reduction is of products of the same loop."""
    return any(isinstance(each, Product) for v in reads(op) for each in needed(tuple(made.values()), v))


def _of_tile(value: Value, made: Mapping[Value, Op]) -> bool:
    """Return True if a factor is a tile of a tensor, or computed of one of integers, element by element."""
    if isinstance(made.get(value), Load | None):
        return True
    ops = needed(tuple(made.values()), value)
    return all(isinstance(op, (*COMPUTED, Load)) for op in ops) and any(map(_is_packed, ops))


def _is_packed(op: Op) -> bool:
    """True if a tile of whole numbers of 8 or 4 bits is loaded: what is widened and scaled on its way to a product."""
    tile = isinstance(op, Load) and len(op.source.axes) == 2 and not any(i.of_blocks for i in op.source.indices)
    return tile and isinstance(op, Load) and op.source.tensor.dtype in PACKED


def sums(kernel: Kernel) -> Sums:
    """The sums of products that `kernel` is. Raises Unfit where it is something else."""
    for loop in (op for op in kernel.body if isinstance(op, Loop)):
        if when := next((op for op in loop.body if isinstance(op, When)), None):
            raise Unfit("`when any` is in a loop that sums products: decide after the loop, by the sums",
                        when.span)  # fmt: skip
    if many := next((a.tensor for a in accesses(kernel) if len(a.indices) > GLOBAL_DIMENSIONS), None):
        raise Unfit(f"`{many.name}` has {len(many.dims)} dimensions, and factors have at most {GLOBAL_DIMENSIONS}",
                    many.span, "combine dimensions that are neighbors in memory")  # fmt: skip
    if stored := next((s.target for s in kernel.stores if s.target.flattens), None):
        raise Unfit(f"`{access_text(stored)}` is stored along a part of a flattened axis, which row kernels do",
                    stored.tensor.span, "store by the axes, and move it in a kernel after")  # fmt: skip
    meant, kernel = kernel, decided(kernel)
    loops = [op for op in kernel.body if isinstance(op, Loop)]
    if len(loops) != 1:
        raise Unfit("the products of a kernel are summed in one loop, `each k in K by ...`", None)
    (loop,) = loops
    if loop.axis.bounds:
        raise Unfit("a loop that sums products must be over its complete axis", loop.axis.span)
    rows, cols = _output(kernel.stores, loop)
    at = kernel.body.index(loop)
    before, after = kernel.body[:at], kernel.body[at + 1 :]
    if second := next((op for op in after if isinstance(op, Product)), None):
        raise Unfit(
            "a product after the loop has sums of the loop as an operand, which a matrix product does not store",
            second.result.span,
            "loop over the columns of the first product: `c = A[m, K] @ B[n, K].T` and `e = e + bf16(c) @ D[n, P]` in "
            "`each n in N by 32`",
        )
    for op in (*before, *after):
        _of_the_tile(op, rows, cols, op in after)
    batch = tuple(a for a in kernel.axes if a.kind is AxisKind.PARALLEL and a.is_index)
    _groups(kernel, rows, loop.axis, batch)
    found = _sums(loop, before, after, rows, cols)
    return Sums(batch, rows, cols, loop.axis, found, _in_order(pruned((*before, *after))), meant)


def _groups(kernel: Kernel, rows: Axis, contraction: Axis, batch: tuple[Axis, ...]) -> None:
    """Raises Unfit for ragged axes that no schedule walks: others than the rows or the contraction, beside a batch."""
    for axis in kernel.ragged:
        if axis not in (rows, contraction):
            raise Unfit(f"`{axis.name}` is ragged, but in a product only the rows or the contraction may be", axis.span)
        if rows.within and contraction.within:
            raise Unfit("the rows and the contraction are ragged, but only one of them may be", contraction.span)
        if len(batch) > 1:
            other = next(a for a in batch if axis.within and a.name != axis.within.of)
            raise Unfit(f"`{other.name}` is another index next to that of the groups", other.span)


def _output(stores: tuple[Store, ...], loop: Loop) -> tuple[Axis, Axis]:
    """Rows and columns of the output tile: the axes of the matrices that are stored, else of the sums."""
    found = {s.target.axes: s for s in stores if len(s.target.axes) > 1}
    first: Span | None = None
    if not found and loop.carries:
        axes, first = loop.carries[0].inside.axes, loop.carries[0].inside.span
    elif found:
        axes, first = next((axes, s.span) for axes, s in found.items())
    else:
        axes = ()
    if len(axes) != 2 or any(a.kind is AxisKind.SEQUENTIAL for a in axes):
        raise Unfit("results of products must be stored in tiles of two axes: rows and columns", first)
    if len(found) > 1:
        raise Unfit("all results of products must be stored in tiles of the same axes", list(found.values())[1].span)
    rows, cols = axes
    return rows, cols


def _of_the_tile(op: Op, rows: Axis, cols: Axis, after: bool) -> None:
    """Raises Unfit for an operation that is neither element by element of the output tile nor a reduction of it."""
    if isinstance(op, Load):
        _no_scale_of_blocks(op)
    if isinstance(op, Load) and any(i.of_tile for i in op.source.indices):
        raise Unfit(f"`{op.source.tensor.name}` is read by the tile outside of the loop", op.result.span)
    span = None if isinstance(op, Store | Loop | When) else op.result.span
    if not isinstance(op, ELEMENTWISE) and not (after and isinstance(op, Reduce)):
        raise Unfit("outside of the loop that sums products, equations must be elementwise, or reductions of "
                    "their results", span)  # fmt: skip
    if isinstance(op, Store | Loop | When):
        return
    if stray := [a.name for a in op.result.axes if a not in (rows, cols)]:
        raise Unfit(f"`{stray[0]}` is not an axis of the tile of sums, which has {rows.name} and {cols.name}", span)


def _scaling(op: Op, carry: Carry, product: Product, rows: Axis, cols: Axis) -> None:
    """Raises Unfit for an operation that no schedule executes between a product and its sum."""
    name, span = carry.inside.name, None if isinstance(op, Store | Loop | When) else op.result.span
    if not isinstance(op, Map | Convert | Load | Constant | Argument | Coordinate):
        raise Unfit(f"between a product and `{name}` equations must be elementwise", span)
    if isinstance(op, Load):
        _no_scale_of_blocks(op)
    if stray := [a.name for a in op.result.axes if a not in (rows, cols)]:
        raise Unfit(f"`{stray[0]}` is no axis of `{name}`, which has {rows.name} and {cols.name}", span)
    if carry.inside in reads(op) and op.result != carry.update:
        raise Unfit(f"`{name}` must change only by additions", span)
    if isinstance(op, Load) and rows.within is not None:
        raise Unfit(f"`{op.source.tensor.name}` scales products of ragged rows, which has no schedule yet", span)
    if isinstance(op, Load) and any(i.through is not None for i in op.source.indices):
        raise Unfit(f"`{op.source.tensor.name}` scales products by a gathered value", span)
    if isinstance(op, Load) and len(op.result.axes) > 1:
        raise Unfit(f"`{op.source.tensor.name}` has a value for each element of a product, but only a value for each "
                    "row or column can scale it", span)  # fmt: skip


def _no_scale_of_blocks(op: Load) -> None:
    """Raises Unfit for scales of e8m0 that are numbers of an equation, and for packed ones."""
    tensor = op.source.tensor
    if tensor.dtype in (DType.I4, DType.U4):
        raise Unfit(f"`{tensor.name}` is {tensor.dtype.spelling}, which can only be used to compute an operand: "
                    f"`bf16({tensor.name}[n, k]) ...`", op.result.span)  # fmt: skip
    if tensor.dtype.in_blocks:
        raise Unfit(f"`{tensor.name}` is {tensor.dtype.spelling}, which can only be an operand of a product whose "
                    "blocks have scales", op.result.span)  # fmt: skip
    if any(i.of_blocks for i in op.source.indices):
        raise Unfit(f"`{access_text(op.source)}` has several values in a K-step, but only one can be added",
                    op.result.span)  # fmt: skip
    if tensor.dtype is DType.E8M0:
        raise Unfit(f"`{tensor.name}` is e8m0, and such scales must multiply both operands of a product: "
                    f"`({tensor.name}[m, k / {SCALED_BLOCK}] * A[m, k]) @ ...`", op.result.span)  # fmt: skip


def _factor(defined: Mapping[Value, Op], value: Value) -> tuple[Access | None, Access | None]:
    """The tile of a tensor that a factor is, and what scales its blocks: None where it is something else."""
    op = defined.get(value)
    if isinstance(op, Load):
        return (None if op.source.tensor.dtype in (DType.I4, DType.U4) else op.source), None
    if not isinstance(op, Map) or op.function != "mul":
        return None, None
    loads = [x for x in (defined.get(v) for v in op.arguments) if isinstance(x, Load)]
    loads.sort(key=lambda x: x.source.tensor.dtype is DType.E8M0)
    if len(loads) != 2 or [x.source.tensor.dtype is DType.E8M0 for x in loads] != [False, True]:
        return None, None
    return loads[0].source, loads[1].source


def _scales(
    factors: tuple[Access, Access], scales: tuple[Access | None, Access | None], along: tuple[Axis, Axis], loop: Loop,
    at: Span | None,
) -> None:  # fmt: skip
    """Raises Unfit for scales of blocks that no matrix instruction takes: of factors `along` the rows, the columns."""
    for factor, scale, own in zip(factors, scales, along, strict=True):
        if scales == (None, None):
            raise Unfit(f"`{factor.tensor.name}` is {factor.tensor.dtype.spelling}: blocks of both operands must have "
                        f"scales, `(s[m, k / {SCALED_BLOCK}] * A[m, k]) @ (t[n, k / {SCALED_BLOCK}] * B[n, k]).T`",
                        at)  # fmt: skip
        if scale is None:
            raise Unfit(f"the blocks of one operand have scales, but those of `{factor.tensor.name}` have none", at)
        if not (factor.tensor.dtype.encoded or factor.tensor.dtype.in_blocks):
            raise Unfit(f"`{scale.tensor.name}` scales blocks of {factor.tensor.dtype.spelling}, but matrix "
                        "instructions scale only blocks of 8-, 6- and 4-bit floats", at)  # fmt: skip
        last = scale.indices[-1]
        if last.axis != loop.axis or last.divisor != SCALED_BLOCK or not last.of_blocks:
            raise Unfit(f"`{access_text(scale)}` is not a scale for each block of {SCALED_BLOCK} along "
                        f"{loop.axis.name}: its last index must be `{loop.axis.name} / {SCALED_BLOCK}`",
                        at)  # fmt: skip
        before = scale.indices[-2] if len(scale.indices) > 1 else last
        if before.axis != own or before.divisor != 1 or before.through is not None or own.within is not None:
            raise Unfit(f"`{access_text(scale)}` does not have a scale for each position along {own.name} of "
                        f"`{factor.tensor.name}` as its second to last index", at)  # fmt: skip
        if any(i.extends or i.of_tile for i in scale.indices[:-2]):
            raise Unfit(f"`{access_text(scale)}` has more axes than `{factor.tensor.name}`", at)


def needed(ops: tuple[Op, ...], *values: Value, known: Collection[Value] = ()) -> list[Op]:
    """The operations that `values` are made of, in order, except for those that reduced and `known` values are made
    of."""
    wanted, kept = set(values).difference(known), list[Op]()
    for op in reversed(ops):
        if not isinstance(op, Store | Loop | When | Reduce) and op.result in wanted:
            wanted.update(v for v in reads(op) if v not in known)
            kept.append(op)
    return kept[::-1]


def _in_order(ops: tuple[Op, ...]) -> tuple[Op, ...]:
    """With the stores last, in an order in which none writes what a later one reads: each loads for itself.

    Rows, columns and single numbers come first, matrices last. Raises Unfit where there is no such order.
    """
    rest = tuple(op for op in ops if not isinstance(op, Store))
    stores = sorted((op for op in ops if isinstance(op, Store)), key=lambda s: len(s.target.axes) == 2)
    loads = {s: {op.source.tensor for op in needed(rest, s.value) if isinstance(op, Load)} for s in stores}
    reduced = {op.source.tensor for r in rest if isinstance(r, Reduce)
               for op in needed(rest, r.argument) if isinstance(op, Load)}  # fmt: skip
    ordered = list[Store]()
    while stores:
        others = {s: [o for o in stores if o is not s and s.target.tensor in loads[o]] for s in stores}
        free = next((s for s in stores if not others[s]), None)
        if free is None:
            first = stores[0]
            raise Unfit(f"`{first.target.tensor.name}` and others are stored in place, each made of all of them",
                        first.span)  # fmt: skip
        shared = {t for s, read in loads.items() if s is not free for t in read} | reduced
        if len(free.target.axes) < 2 and free.target.tensor in shared:
            raise Unfit(f"`{free.target.tensor.name}` is stored by one wave, and others read it for more than that",
                        free.span)  # fmt: skip
        ordered.append(free)
        stores.remove(free)
    return (*rest, *ordered)


def _affine(left: Access, ops: Iterable[Op]) -> None:
    """Raises Unfit for affine indices of anything but a left factor, and of ragged axes."""
    for access in (op.source for op in ops if isinstance(op, Load)):
        if access == left or not any(index.terms for index in access.indices):
            continue
        text, name = access_text(access), access.tensor.name
        if access.flattens:
            digits = dict.fromkeys(w.axis for i in access.indices for w in i.ways if isinstance(w, Digit))
            dims = ", ".join(dim.name for axis in digits for dim in axis.parts)
            raise Unfit(f"`{text}` has parts of a flattened axis, and only the left operand can read them one by one",
                        access.tensor.span,
                        f"declare `{name}` with these dimensions next to each other in this order: {dims}")  # fmt: skip
        raise Unfit(
            f"`{text}` has an affine index, which only the left operand of a product can have",
            access.tensor.span,
            "make it the left operand, or store what is read there in a kernel before",
        )
    if any(index.terms for index in left.indices):
        moved = next((axis for index in left.indices for axis in index.axes if axis.within), None)
        if moved is not None:
            raise Unfit(f"`{access_text(left)}` shifts `{moved.name}`, which is ragged", moved.span,
                        "pad groups to one length, or shift it in a row kernel before")  # fmt: skip
        if any(index.through is not None for index in left.indices):
            raise Unfit(f"rows of `{left.tensor.name}` are gathered, and have affine indices", left.tensor.span,
                        "list the positions in the tensor of i32")  # fmt: skip


def _gathered(left: Access, right: Access, epilogue: tuple[Op, ...]) -> None:
    """Raises Unfit for gathered places of anything but the rows of the left factors."""
    loads = [op.source for op in epilogue if isinstance(op, Load)]
    for access in (right, *loads, left):
        first = 0 if access is left else -1
        for n, index in enumerate(access.indices):
            if index.of_page:
                raise Unfit(f"`{access.tensor.name}` is paged, which only fused matmuls can read",
                            access.tensor.span)  # fmt: skip
            if index.through is not None and (access is not left or n != first):
                held, name = index.through.tensor.name, access.tensor.name
                raise Unfit(f"`{held}` holds places of `{name}` that are no rows of a left factor", access.tensor.span)


def _computed(
    ops: tuple[Op, ...], value: Value, sides: tuple[Axis, Axis], contraction: Axis, computed: list[Made]
) -> Access:
    """Return the access that is loaded for an operand that `ops` compute; append the operand to `computed`."""
    ops = tuple(needed(ops, value))
    last = ops[-1] if ops else None
    tiles = [op for op in ops if isinstance(op, Load) and _is_packed(op)]
    if not isinstance(last, Convert) or len(tiles) != 1:
        raise Unfit("a factor of a product is a tile of a tensor, of e8m0 scales of its blocks times one, or made of "
                    "one of i8, i4 or u4 and rounded: `bf16(s[n, k / 128] * W[n, k])`", value.span)  # fmt: skip
    (tile,) = tiles
    if value.dtype not in WHOLE:
        name, dtype = tile.source.tensor.name, value.dtype.spelling
        raise Unfit(f"`{name}` becomes {dtype} on its way to a product, and what is computed there is bf16, f16 or "
                    f"f32: store `{name}` as {dtype}, or convert both factors to bf16", value.span)  # fmt: skip
    for op in ops:
        _making(op, tile, sides, contraction)
    computed.append(Made(tile, tuple(op for op in ops if op is not tile), value, value.dtype))
    return tile.source


def _making(op: Op, tile: Load, sides: tuple[Axis, Axis], contraction: Axis) -> None:
    """Raises Unfit for an operation that no schedule executes between a tile and its product."""
    name, span = tile.source.tensor.name, None if isinstance(op, Store | Loop | When) else op.result.span
    if not isinstance(op, (*COMPUTED, Load)):
        raise Unfit(f"between `{name}` and its product equations are element by element", span)
    if not isinstance(op, Load) or op is tile:
        return
    if op.source.tensor.dtype.packed:
        raise Unfit(f"`{op.source.tensor.name}` is {op.source.tensor.dtype.spelling}: numbers that a factor is made of "
                    "beside its tile have whole bytes", span)  # fmt: skip
    if any(i.through is not None for i in op.source.indices):
        raise Unfit(f"`{op.source.tensor.name}` scales `{name}` by a gathered value", span)
    if any(i.axis is not None and i.axis.within for i in op.source.indices):
        raise Unfit(f"`{op.source.tensor.name}` scales `{name}` along a ragged axis, which has no schedule yet", span)
    blocks = [i for i in op.source.indices if i.of_blocks]
    if uneven := next((i for i in blocks if i.divisor % LEAST_BLOCK or i.divisor & (i.divisor - 1)), None):
        raise Unfit(f"`{access_text(op.source)}` is a number for each {uneven.divisor} places along "
                    f"{contraction.name}: blocks are {LEAST_BLOCK} long, or twice that, and so on", span)  # fmt: skip
    inside = [i.axis for i in blocks]
    stray = [a for a in op.result.axes if (a not in sides or a not in tile.result.axes) and a not in inside]
    if contraction in stray:
        raise Unfit(f"`{op.source.tensor.name}` has a number for each place along {contraction.name}: one for each "
                    f"step, `{contraction.name} / {contraction.tile}`, or block can scale `{name}`", span)  # fmt: skip
    if stray:
        raise Unfit(f"`{stray[0].name}` is no axis of `{name}`", span)


def _sums(loop: Loop, before: tuple[Op, ...], after: tuple[Op, ...], rows: Axis, cols: Axis) -> tuple[Sum, ...]:
    defined = {op.result: op for op in (*before, *loop.body) if not isinstance(op, Store | Loop | When)}
    result, used = [], set[Value]()
    for carry in loop.carries:
        name, start, step = carry.inside.name, defined.get(carry.initial), defined.get(carry.update)
        if not isinstance(start, Constant) or start.value != 0:
            raise Unfit(f"`{name}`, a sum of products, must start at zero", carry.inside.span)
        terms = step.arguments if isinstance(step, Map) and step.function == "add" else ()
        made = needed((*before, *loop.body), carry.update, known=(carry.inside,))
        products = [op for op in made if isinstance(op, Product)]
        product = products[0] if len(products) == 1 else None
        if carry.inside not in terms or product is None:
            wanted = f"`{name} = {name} + X @ Y`"
            raise Unfit(
                f"`{name}` is not a sum of products, as {wanted} is; no other loop has a schedule yet",
                carry.update.span,
            )
        computed = list[Made]()
        (left, left_scale), (right, right_scale) = (_factor(defined, v) for v in (product.left, product.right))
        left = left or _computed((*before, *loop.body), product.left, (rows, cols), loop.axis, computed)
        right = right or _computed((*before, *loop.body), product.right, (rows, cols), loop.axis, computed)
        if rows not in left.axes:
            left, right, left_scale, right_scale = right, left, right_scale, left_scale
        _gathered(left, right, (*before, *after))
        _affine(left, (*before, *loop.body, *after))
        if by_tile := next((f for f in (left, right) if any(i.of_tile for i in f.indices)), None):
            raise Unfit(f"`{access_text(by_tile)}` is a different matrix for each tile", product.result.span)
        if set(left.axes) != {rows, loop.axis} or set(right.axes) != {cols, loop.axis}:
            message = f"`{name}` is not a product of an operand along {rows.name} and one along {cols.name}"
            raise Unfit(message, product.result.span)
        found = ((left, right), (left_scale, right_scale))
        if found[1] != (None, None) or any(f.tensor.dtype.in_blocks for f in found[0]):
            _scales(*found, (rows, cols), loop, product.result.span)
        scaled = needed((*before, *loop.body), carry.update, known=(carry.inside, product.result))
        scaled = [] if len(scaled) == 1 else scaled
        for op in scaled:
            _scaling(op, carry, product, rows, cols)
        result.append(Sum(
            name, left, right, carry.result, product.result, carry.inside, carry.update, tuple(scaled),
            tuple(a for a in (left_scale, right_scale) if a is not None), tuple(computed),
            carry.update.span or product.result.span,
        ))  # fmt: skip
        used |= {carry.update, product.result}
        used |= {v for op in (*scaled, *needed(loop.body, product.left, product.right)) for v in writes(op)}
    for op in loop.body:
        if isinstance(op, Store | Loop | When) or op.result not in used:
            raise Unfit("the loop must only sum products", op.span if isinstance(op, Store) else loop.span)
    return tuple(result)
