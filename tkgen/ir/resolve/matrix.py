"""The program of equations that sum products, and of the clauses that say how."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tkgen.diagnostics import Edit, Fix, Label
from tkgen.diagnostics.edits import line_above
from tkgen.ir.equations import Access, Axis, Convert, Kernel, accesses
from tkgen.ir.limits import BUFFER_BYTES
from tkgen.ir.products import Sums, Unfit, View, sums
from tkgen.ir.resolve import clauses, dataflow, waves
from tkgen.ir.resolve.names import Scope
from tkgen.ir.resolve.placed import placed
from tkgen.ir.resolve.said import said
from tkgen.ir.resolve.sizes import unmade
from tkgen.ir.resolve.written import divided, scheduled
from tkgen.ir.substitution import substituted
from tkgen.ir.types import (
    ACCESS_BYTES,
    BASE_TILE,
    WAVE_LANES,
    Accumulator,
    DType,
    Operand,
    Product,
    Program,
    Side,
    Tensor,
    Unused,
    Via,
)
from tkgen.ir.typing import Typed
from tkgen.source import Span
from tkgen.syntax import ast
from tkgen.syntax.statements import has_equations
from tkgen.targets import mixes_fp8
from tkgen.targets.model import round_up


def matrix(scope: Scope, typed: Typed) -> Program:
    """The program of equations that sum products.

    Raises:
        Stop: it is one that no schedule can execute, or a clause is wrong; both are reported.
    """
    at = scope.kernel.name.span
    try:
        found = sums(typed.kernel)
        if (kernel := _whole_groups(scope, typed.kernel, found)) is not typed.kernel:
            typed = replace(typed, kernel=kernel)
            found = sums(kernel)
        views = {v.access: v for v in found.views}
    except Unfit as problem:
        raise scope.error("E230", str(problem), problem.span or at, fix=problem.fix or None) from None
    _supported(scope, found, at)
    block = (_tile(found.rows), _tile(found.cols), _tile(found.contraction))
    written = has_equations(scope.kernel)
    accumulate = _accumulate(scope, found) if written else scope.all(ast.Accumulate)[0]
    output = next((views[s.target].matrix for s in found.stores if s.target in views), found.stores[0].target.tensor)
    roles = waves.roles(scope, block, accumulate, (found.rows.name, found.cols.name) if written else ())
    accumulator = dataflow.accumulator(scope, accumulate, output, block, next(r for r in roles if r.multiplies))
    operands = _operands(scope, found, views, block, accumulator)
    operands = dataflow.rings(scope, operands, next(r for r in roles if r.multiplies))
    roles = waves.loads(scope, roles, operands)
    grid = clauses.grid(scope)
    factors = {s.name: (s.left.tensor.name, s.right.tensor.name) for s in found.sums}
    roles = scheduled(scope, roles, operands, factors, accumulator)
    operands = divided(operands, roles)
    for o in operands:
        if o.part_count > 1 and any((v.gathered or v.placed) and v.tensor.name == o.name for v in found.views):
            how = "gathered" if any(v.gathered and v.tensor.name == o.name for v in found.views) else "computed"
            raise scope.error("E230", f"`{o.name}`, whose rows are {how}, must be moved as a whole", o.span,
                              fix="move all its fragments at once")  # fmt: skip
    by_name = {o.name: o for o in operands}
    products = tuple(
        Product(s.name, by_name[left], by_name[right], s.span)
        for s, (left, right) in zip(found.sums, factors.values(), strict=True)
    )
    _scaled(scope, found, operands)
    _blocks(scope, found, operands, accumulator.mfma)
    spans = _spans(found, accumulate, at) if written else {}
    unused = (*_unread(scope, operands), *typed.unused)
    return Program(
        **vars(said(scope, typed.kernel, grid, unused, spans)),
        block=block,
        operands=operands,
        products=products,
        roles=roles,
        accumulator=accumulator,
        equations=found,
        tail=clauses.tail(scope),
        streamed=clauses.streamed(scope),
        phases=waves.phases(scope),
        unroll=clauses.unroll(scope),
        clusters=clauses.clusters(scope, (found.rows.name, found.cols.name)),
    )


def _whole_groups(scope: Scope, kernel: Kernel, found: Sums) -> Kernel:
    """The kernel with as many rows in a tile as a matrix instruction of groups of waves has, where it has fewer.

    Rows beyond the end are masked, so results are the same; where they are not, or a result depends on the tile, or a
    spec says what each wave does, the spec is left as it is.
    """
    groups, rows, tile = scope.groups, found.rows, found.rows.tile
    accumulates = bool(scope.all(ast.Accumulate))
    if groups is None or tile is None or tile >= groups.rows or scope.roles or accumulates:
        return kernel
    masked = clauses.tail(scope) == "masked" or (rows.dim.size is not None and rows.dim.size % groups.rows == 0)
    of_tiles = any(index.of_tile and index.axis == rows for access in accesses(kernel) for index in access.indices)
    of_columns = any(op.axis == rows for each in found.rounds for op in each)
    if not masked or of_tiles or of_columns:
        return kernel
    return substituted(kernel, {rows: replace(rows, tile=groups.rows)})


def _scaled(scope: Scope, found: Sums, operands: tuple[Operand, ...]) -> None:
    """Refuse scaled products of integers, and of operands in slices: a scale needs the product of a whole K-step."""
    scaled = next((s for s in found.sums if s.scaled), None)
    operand = operands[0]
    if scaled is not None and operand.dtype.whole:
        raise scope.error(
            "E230", f"`{scaled.name}` scales products of {operand.tensor.dtype.spelling}, which has no schedule yet",
            scaled.span or operand.span, fix="add up the products without the scale, and scale the sum",
        )  # fmt: skip
    if scaled is not None and operand.slices > 1:
        raise scope.error(
            "E230", f"`{scaled.name}` scales the products of complete K-steps, but a slice is {operand.slice} of "
            f"{operand.step}", operand.registers_span or operand.span,
            secondary=(Label(scaled.span),) if scaled.span else (), fix="remove `slice`",
        )  # fmt: skip


def _blocks(scope: Scope, found: Sums, operands: tuple[Operand, ...], mfma: tuple[int, int]) -> None:
    """E230 if slices are not a multiple of the depth of an instruction with scales, or the scales cannot be read."""
    sum_ = next((s for s in found.sums if s.scales), None)
    if sum_ is None:
        return
    at, deep = sum_.span or operands[0].span, 2 * ACCESS_BYTES * WAVE_LANES // mfma[0]  # two base tiles (CDNA4 ISA)
    if any(o.slice % deep for o in operands):
        raise scope.error(
            "E230", f"`{sum_.name}` is computed by instructions that scale blocks, {deep} of "
            f"{found.contraction.name} at a time, and a slice is {operands[0].slice}",
            operands[0].registers_span or found.contraction.span or at, secondary=(Label(at),),
            fix=f"make the step and slices of it multiples of {deep}",
        )  # fmt: skip
    if clauses.tail(scope) == "clamped":
        raise scope.error("E230", "a tile that is moved inward would start inside a block that shares one scale",
                          next(iter(scope.all(ast.Tail))).span, fix="write `tail masked`")  # fmt: skip


def _tile(axis: Axis) -> int:
    """Return the size of a block's tile along an axis; of an axis without tiles its whole size, in base tiles."""
    if axis.tile is not None:
        return axis.tile
    assert axis.dim.size is not None
    return round_up(axis.dim.size, BASE_TILE)


def _supported(scope: Scope, found: Sums, at: Span) -> None:
    for op in found.epilogue:
        if isinstance(op, Convert) and op.result.dtype is DType.E8M0:
            raise scope.error("E204", f"`{DType.E8M0.spelling}` would convert results of products, and "
                                      f"{unmade(DType.E8M0)}",
                              op.result.span or at, fix="store it, and quantize it with a row kernel")  # fmt: skip
    for s in found.stores:
        dtype = s.target.tensor.dtype
        if dtype is DType.E8M0 or dtype.in_blocks:
            raise scope.error("E204", f"`{s.target.tensor.name}` is {dtype.spelling}, and {unmade(dtype)}",
                              s.span or at, secondary=(Label(s.target.tensor.span),),
                              fix="store another type, and quantize it with a row kernel")  # fmt: skip
    scattered = next((s for s in found.stores if s.target.computed), None)
    if scattered is not None and (kind := clauses.grid(scope)).shares_tiles:
        raise scope.error(
            "E230", f"`grid {kind.name}` adds parts of sums, and `{scattered.target.tensor.name}` is stored at "
            "computed positions", scattered.span or at, secondary=(Label(kind.span, "the grid"),) if kind.span else (),
            fix="remove the grid: each block then has complete sums",
        )  # fmt: skip
    if found.contraction.part is not None:
        _supported_parts(scope, found, at)
    if found.rows.within is not None or found.contraction.within is not None:
        _supported_groups(scope, found, at)
    for v in found.views:
        if v.gathered is not None:
            _supported_places(scope, found, v)
        if v.placed:
            placed(scope, found, v)
    if clauses.tail(scope):
        for v in found.views:
            inner, along = v.tensor.dims[-1], v.access.indices[-1].axis
            if len(v.pitch) > 1 and along is not None and (inner.size is None or inner.size % _tile(along)):
                raise scope.error(
                    "E230", f"`{v.name}` has other data between its rows, which a tail along {inner.name} would reach",
                    v.tensor.span, fix=f"make {inner.name} a multiple of {_tile(along)}",
                )  # fmt: skip


def _supported_groups(scope: Scope, found: Sums, at: Span) -> None:
    """Blocks take whole tiles of groups, which end anywhere; a row of a matrix is within a group."""
    if found.contraction.within is not None and found.contraction.within.lengths:
        raise scope.error(
            "E230", f"sums of products are over all of `{found.contraction.dim.name}`, or over its groups, not over "
            "its first positions", found.contraction.span or at,
            fix="pad with zeros, or store groups one after the other: `within OFFSETS[g]`",
        )  # fmt: skip
    kind, tail = clauses.grid(scope), next(iter(scope.all(ast.Tail)), None)
    if kind.name == "stream_k" or (kind.shares_tiles and found.contraction.within is not None):
        what = "tiles" if kind.name == "stream_k" else "K-steps"
        raise scope.error(
            "E230", f"`grid {kind.name}` divides a known number of {what}, but groups have as many as they need",
            kind.span or at, fix="distribute complete tiles: `grid persistent(304)`, or no grid for one block per tile",
        )  # fmt: skip
    if tail is not None and clauses.tail(scope) != "masked":
        fix = Fix("write `tail masked`", (Edit(tail.span, "tail masked"),), certain=False)
        raise scope.error("E230", "a tile that is moved into its group would write rows of the previous "
                                  "group", tail.span,
                          fix=fix)  # fmt: skip
    for v in found.views:
        last = v.access.indices[-1].axis
        if last is not None and last.within and len(v.tiled) > 1:
            raise scope.error("E230", f"rows of `{v.tensor.name}` go across groups", v.tensor.span,
                              f"`{last.name}` is its last dimension",
                              fix="store it with its dimensions swapped")  # fmt: skip


def _supported_places(scope: Scope, found: Sums, v: View) -> None:
    """Rows that are gathered pass through LDS, in whole chunks; where each lies in its tensor fits 31 bits."""
    inner, rows = v.tensor.dims[-1], v.tensor.dims[0]
    staged = {n.id: s for s in scope.all(ast.Shared) for n in s.names}
    via = staged[v.tensor.name].via if v.tensor.name in staged else None
    if v.tensor.name not in staged or (via is not None and via.id == "direct"):
        raise scope.error(
            "E230", f"rows of `{v.tensor.name}` are gathered, which needs registers on the way to LDS", v.tensor.span,
            fix=f"write `shared {v.tensor.name}`, with `via registers` or without `via`",
        )  # fmt: skip
    if len(v.tensor.dims) != 2 or inner.size is None or v.tensor.dtype.sized(inner.size) % ACCESS_BYTES:
        raise scope.error(
            "E230", f"rows of `{v.tensor.name}` are gathered in chunks of {ACCESS_BYTES} bytes, one row per position",
            v.tensor.span, fix=f"declare it as [{rows.name}, {inner.name}], with a known {inner.name} that is a "
                               "multiple of a chunk",
        )  # fmt: skip
    if rows.size is None or v.tensor.dtype.sized(rows.size * inner.size) > BUFFER_BYTES:
        raise scope.error(
            "E230", f"rows can be gathered only from a tensor of at most {BUFFER_BYTES} bytes, known at build time",
            v.tensor.span, fix=f"give {rows.name} a size, or gather fewer of them at once",
        )  # fmt: skip


def _supported_parts(scope: Scope, found: Sums, at: Span) -> None:
    """Parts of the contraction are K-steps, equally many for each; only `tail masked` has some beyond the end."""
    axis, kind = found.contraction, clauses.grid(scope)
    index = next(a for a in found.batch if a.name == axis.part)
    size, tile, parts = axis.dim.size, _tile(axis), index.dim.size
    masked = clauses.tail(scope) == "masked"
    if parts is None and (size is not None or not masked):
        raise scope.error(
            "E230", f"parts of {axis.dim.name}, whose number is known only at launch, need `tail masked` and a "
            f"{axis.dim.name} that is dynamic, too", axis.span or at, secondary=(Label(index.dim.span, "dynamic"),),
            fix=f"give {index.dim.name} a size" if masked else "add `tail masked`")  # fmt: skip
    if kind.name != "linear":
        raise scope.error("E230", f"`grid {kind.name}` distributes complete sums, and each part of {axis.dim.name} "
                                  "is one",
                          kind.span or at, fix="remove the grid: each tile of each part gets a block")  # fmt: skip
    if size is not None and parts is not None and size % (tile * parts) and not masked:
        raise scope.error(
            "E230", f"{size} elements of {axis.dim.name} do not divide into {parts} parts of steps of {tile}",
            axis.span or at, f"{size} = {size // tile} x {tile}" + (f" + {size % tile}" if size % tile else ""),
            fix=Fix("add `tail masked`, under which steps beyond the end add nothing",
                    line_above(axis.span, "tail masked") if axis.span else ()),
        )  # fmt: skip


def _accumulate(scope: Scope, found: Sums) -> ast.Accumulate:
    """The clause that says how the sums are divided, and names them all; without one, as it would be written."""
    names = [s.name for s in found.sums]
    said = (*scope.all(ast.Accumulate)[1:], *scope.all(ast.Epilogue), *scope.all(ast.Store), *scope.all(ast.Block))
    for extra in said:
        raise scope.error("E202", "the equations already state this", extra.span, "beside equations",
                          fix="remove this line")  # fmt: skip
    if not scope.all(ast.Accumulate) and not scope.roles:
        at = found.contraction.span or scope.kernel.name.span
        first, *others = (ast.Name(at, n) for n in names)
        dtype = ast.Name(at, _multiplied(found, found.sums[0].left.tensor).sums.spelling)
        return ast.Accumulate(at, first, tuple(others), None, dtype, None, None, None)
    clause = scope.one(ast.Accumulate, "accumulate", f"accumulate {', '.join(names)} : f32 tile 32 x 32")
    given = [clause.name, *clause.others]
    for name in given:
        if name.id not in names:
            raise scope.error("E200", f"`accumulate` names `{name.id}`, which is not a sum of products", name.span,
                              fix=f"name {', '.join(f'`{n}`' for n in names)}", known=names)  # fmt: skip
    missing = [n for n in names if n not in {g.id for g in given}]
    if missing or len(given) > len(names):
        raise scope.error("E201", f"`accumulate` must name each sum once: {', '.join(missing) or 'one is doubled'}",
                          clause.span, fix=f"write `accumulate {', '.join(names)} : ...`")  # fmt: skip
    if clause.product:
        raise scope.error("E202", "an equation already states the product", clause.product[0].span,
                          fix="leave out `= ... * ...`")  # fmt: skip
    return clause


def _operands(
    scope: Scope,
    found: Sums,
    views: Mapping[Access, View],
    block: tuple[int, int, int],
    accumulator: Accumulator,
) -> tuple[Operand, ...]:
    """The factors, left ones first."""
    wanted: dict[str, tuple[Side, View]] = {}
    part: dict[str, Access] = {}
    for side, factors in ((Side.A, [s.left for s in found.sums]), (Side.B, [s.right for s in found.sums])):
        for access in factors:
            name = access.tensor.name
            if part.setdefault(name, access) != access:
                raise scope.error("E230", f"the products use two parts of `{name}`", access.tensor.span,
                                  fix="declare it as two tensors; a launch may pass the same tensor for "
                                      "both")  # fmt: skip
            if wanted.setdefault(name, (side, views[access]))[0] is not side:
                raise scope.error("E205", f"`{name}` is a left and a right operand, but its tiles can have only one "
                                          "layout",
                                  access.tensor.span)  # fmt: skip
    types = {_multiplied(found, factor.tensor): factor.tensor for _, factor in wanted.values()}
    each = all(s.scales for s in found.sums) or (all(d.encoded for d in types) and mixes_fp8(scope.chosen))
    if len(types) > 1 and not each:  # instructions that take each factor in a format of its own
        (one, first), (other, second) = list(types.items())[:2]
        raise scope.error(
            "E204", f"products of {one.spelling} and {other.spelling}: no matrix instruction accepts both", second.span,
            secondary=(Label(first.span, one.spelling),),
            fix=f"make all operands {one.spelling}, or all {other.spelling}",
        )  # fmt: skip
    step_at = found.contraction.span or scope.kernel.name.span
    made = {name: m.multiplied for name, m in found.made.items()}
    operands = dataflow.operands(scope, list(wanted.values()), found.contraction, block, step_at, accumulator, made)
    _computed(scope, found, operands)
    return operands


def _multiplied(found: Sums, tensor: Tensor) -> DType:
    """The type of which the factors from a tensor are when they are multiplied."""
    made = found.made.get(tensor.name)
    return made.multiplied if made else tensor.dtype


def _computed(scope: Scope, found: Sums, operands: tuple[Operand, ...]) -> None:
    """Factors are computed as they are read from LDS, to which they come as they are stored; each for one product."""
    for operand in (o for o in operands if o.multiplied):
        made = found.made[operand.name]
        at = made.value.span or operand.span
        direct = next((o for o in operands if o.via is Via.DIRECT), None) if scope.groups is None else None
        if not operand.shared:
            raise scope.error("E230", f"`{operand.name}` is computed after the read from LDS", operand.span,
                              "directly from global memory", fix=f"write `shared {operand.name}`")  # fmt: skip
        if direct is not None:
            raise scope.error("E230", f"`{operand.name}` is computed, but tiles of direct loads have another layout",
                              direct.span, fix="use `via registers`")  # fmt: skip
        if made.block and operand.slice % made.block and made.block % operand.slice:
            raise scope.error("E230", f"slices of {operand.slice} are not a multiple of the block of "
                                      f"{made.block}", operand.span,
                              f"`{operand.name}` is computed in these",
                              fix="use slices that are a power of two")  # fmt: skip
        if any(m.ops != made.ops for s in found.sums for m in s.made if m.tensor == made.tensor):
            raise scope.error("E230", f"`{operand.name}` is computed in two ways", at,
                              fix="declare it as two tensors")  # fmt: skip
        plain = (s for s in found.sums if made.tensor in (s.left.tensor, s.right.tensor))
        if any(made.tensor not in [m.tensor for m in s.made] for s in plain):
            raise scope.error("E230", f"`{operand.name}` is multiplied both unchanged and computed", at,
                              fix="declare it as two tensors")  # fmt: skip


def _unread(scope: Scope, operands: tuple[Operand, ...]) -> Iterator[Unused]:
    """Tiles of tensors that are no operand."""
    tiles = [("shared tile", name) for clause in scope.all(ast.Shared) for name in clause.names]
    tiles += [("register tile", name) for clause in scope.all(ast.Registers) for name in clause.names]
    names = {o.name for o in operands}
    yield from (Unused(what, name.id, name.span) for what, name in tiles if name.id not in names)


def _spans(found: Sums, accumulate: ast.Accumulate, at: Span) -> dict[str, Span]:
    store = found.stores[0].span
    spans = {"block": found.rows.span or at, "accumulate": accumulate.span}
    return spans if store is None else spans | {"store": store}
