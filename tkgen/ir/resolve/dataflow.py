"""The product: accumulator, factors, and the way of each from global memory to registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import gcd, lcm
from types import MappingProxyType
from typing import TypeVar

from tkgen.diagnostics import Edit, Fix, Label
from tkgen.ir.equations import Axis
from tkgen.ir.products import SCALED_BLOCK, View
from tkgen.ir.resolve.names import Scope
from tkgen.ir.resolve.sizes import element, number, positive
from tkgen.ir.room import too_many_registers, too_much_lds
from tkgen.ir.types import (
    ACCESS_BYTES,
    BASE_TILE,
    WAVE_LANES,
    Accumulator,
    DType,
    Operand,
    Role,
    Side,
    Tensor,
    Via,
)
from tkgen.source import Span
from tkgen.syntax import ast
from tkgen.targets import largest, most_lds_bytes, product_sides

Clause = TypeVar("Clause", ast.Shared, ast.Registers)

MOST_LDS = most_lds_bytes()
MOST_REGISTERS = largest(lambda target: target.registers_per_lane)  # VGPRs and AGPRs of one wave
BYTE = 8  # bits
BARRIERS_OF_STAGE = 16  # bytes: one that says a stage is full, one that it is free
MOST_STAGES = 8  # that a ring gets unasked: what is further ahead hides no more latency
LDS_ROW = 64  # bytes of a row that the headers keep together in LDS
MOST_BUFFERS = 16  # of an operand in LDS, or of one in registers alone


def accumulator(
    scope: Scope, at: ast.Accumulate, output: Tensor, block: tuple[int, int, int], compute: Role
) -> Accumulator:
    """The output fragments of the waves that multiply."""
    assert compute.shape is not None
    dtype = element(scope, at.dtype)
    if dtype not in (DType.F32, DType.I32):
        raise scope.error(
            "E204", f"MFMA accumulates in f32, not {dtype.spelling}", at.dtype.span,
            fix=Fix("accumulate in f32; the store converts to the tensor's type", (Edit(at.dtype.span, "f32"),)),
        )  # fmt: skip
    tile = _default_tile(scope, block, compute.shape)
    if at.tile is not None:
        tile = (number(scope, at.tile[0]), number(scope, at.tile[1]))
    for expr, size in zip(at.tile or (), tile, strict=False):
        if size % BASE_TILE:
            raise scope.error(
                "E207", f"a tile side of {size} is not a multiple of {BASE_TILE}", expr.span,
                fix=f"register tiles are made of {BASE_TILE} x {BASE_TILE} base tiles",
            )  # fmt: skip
    fragments = _fragments(scope, at, block, compute, tile)
    mfma = (BASE_TILE, BASE_TILE)
    if at.mfma:
        mfma = (number(scope, at.mfma[0]), number(scope, at.mfma[1]))
        if mfma not in product_sides() or tile[0] % mfma[0] or tile[1] % mfma[1]:
            raise scope.error(
                "E207", f"no MFMA computes {mfma[0]} x {mfma[1]} in a {tile[0]} x {tile[1]} tile",
                at.mfma[0].span.to(at.mfma[1].span),
                fix="use " + " or ".join(f"`mfma {rows} x {cols}`" for rows, cols in product_sides()),
            )  # fmt: skip
    if at.arrangement and at.arrangement.id not in ("interleaved", "blocked"):
        raise scope.error(
            "E212", f"unknown arrangement `{at.arrangement.id}`", at.arrangement.span,
            fix="write `interleaved` or `blocked`", known=("interleaved", "blocked"),
        )  # fmt: skip
    interleaved = at.arrangement is not None and at.arrangement.id == "interleaved"
    result = Accumulator(output, dtype, tile, (fragments[0], fragments[1]), interleaved, mfma, at.span)
    need = result.registers * (1 + len(at.others))
    if need > MOST_REGISTERS:
        raise scope.refuse(
            too_many_registers(
                f"the sums of one wave need {need} registers of each lane",
                f"a wave has {MOST_REGISTERS}",
                Label(at.span, f"{fragments[0]} x {fragments[1]} fragments of {tile[0]} x {tile[1]}"),
                "use more waves, or a smaller block",
                secondary=(Label(compute.span, f"{compute.shape[0]} x {compute.shape[1]} waves"),),
            )
        )
    return result


def _default_tile(scope: Scope, block: tuple[int, int, int], shape: tuple[int, int]) -> tuple[int, int]:
    """The tile of one matrix instruction of the target; of waves on their own two base tiles, or one."""
    if (groups := scope.groups) is not None:
        return groups.wave_rows, block[1] // shape[1]
    rows, cols = (2 * BASE_TILE if block[a] % (n * 2 * BASE_TILE) == 0 else BASE_TILE for a, n in enumerate(shape))
    return rows, cols


def _fragments(
    scope: Scope, at: ast.Accumulate, block: tuple[int, int, int], compute: Role, tile: tuple[int, int]
) -> list[int]:
    """Return the number of tiles that each wave has along the rows and the columns of the block."""
    assert compute.shape is not None
    fragments = []
    for axis, what in enumerate(("rows", "columns")):
        covered = compute.shape[axis] * tile[axis]
        if block[axis] % covered:
            fix = Fix(f"use a tile side that divides {block[axis] // gcd(block[axis], compute.shape[axis])}")
            if at.tile is None:
                fix = Fix(f"use a number of waves that divides {block[axis] // tile[axis]}")
            if at.tile and not scope.roles and not scope.all(ast.Waves):
                edit = Edit(Span(at.span.file, at.dtype.span.end, at.span.end), "")
                fix = Fix(f"{fix.text}, or remove `tile`: the target has a default", (edit,))
            raise scope.error(
                "E206",
                f"the block's {block[axis]} {what} are not a multiple of {compute.shape[axis]} waves x {tile[axis]}",
                at.tile[axis].span if at.tile else compute.span,
                f"{compute.shape[axis]} waves x {tile[axis]} = {covered}",
                secondary=(Label(compute.span, f"{compute.shape[0]} x {compute.shape[1]} waves"),) if at.tile else (),
                notes=(f"fragment {block[axis] // covered} of the last wave would reach past the block",),
                fix=fix,
            )
        fragments.append(block[axis] // covered)
    return fragments


def operands(
    scope: Scope,
    factors: Sequence[tuple[Side, View]],
    contraction: Axis,
    block: tuple[int, int, int],
    step_at: Span,
    accumulator: Accumulator,
    made: Mapping[str, DType] = MappingProxyType({}),
) -> tuple[Operand, ...]:
    """The factors of all products, each with its tile in LDS and its register tiles.

    `made` has the types of those that are computed of their tensors, by name.
    """
    found = tuple(
        replace(_operand(scope, side, factor, contraction, block, step_at, accumulator),
                multiplied=made.get(factor.tensor.name))
        for side, factor in factors
    )  # fmt: skip
    wanted = found[0].dtype.sums
    if accumulator.dtype is not wanted:
        of = found[0]
        raise scope.error(
            "E204",
            f"products of {of.dtype.spelling} are summed in {wanted.spelling}, not {accumulator.dtype.spelling}",
            accumulator.span, secondary=(Label(of.tensor.span, of.dtype.spelling),),
            fix=f"write `: {wanted.spelling} tile`; the store converts to the tensor's type",
        )  # fmt: skip
    common = min(found, key=lambda o: o.slice)
    for other in found:
        if other.slice % common.slice:
            raise scope.error(
                "E208", f"slices of {common.slice} and of {other.slice}: the longer one is not a multiple of the other",
                next(s.span for s in scope.all(ast.Registers)),
                notes=("a product reads both operands in slices of the shorter length",),
                fix=f"write one line for both: `registers {common.name}, {other.name} slice {common.slice} ...`",
            )  # fmt: skip
    return tuple(_in_slices_of(o, common.slice) for o in found)


def _in_slices_of(operand: Operand, size: int) -> Operand:
    """The operand in register tiles of `size`, several of which are one slice as the spec has it."""
    together = operand.slice // size
    buffers = operand.register_buffers * together
    return replace(operand, slice=size, register_buffers=buffers, together=together)


def _operand(
    scope: Scope,
    side: Side,
    factor: View,
    contraction: Axis,
    block: tuple[int, int, int],
    step_at: Span,
    accumulator: Accumulator,
) -> Operand:
    tensor, contraction_first = factor.matrix, factor.axes[0] == contraction
    shared, registers = _clause(scope, ast.Shared, tensor), _clause(scope, ast.Registers, tensor)
    clause = shared or registers
    if clause is None:
        for word, lines in (("`shared`", scope.all(ast.Shared)), ("`registers`", scope.all(ast.Registers))):
            for name in (n for line in lines for n in line.names):
                scope.tensor_named(name, word)  # the name that is none may stand for this tensor
        raise scope.error(
            "E201", f"no line says how `{tensor.name}` gets to registers", tensor.span, "an operand",
            notes=("`shared` loads it through LDS, `registers` alone loads it directly from global memory",),
            fix=f"add a line such as `shared {tensor.name} buffers 1`",
        )  # fmt: skip
    axis = 0 if side is Side.A else 1
    base = accumulator.mfma[0]
    if tensor.dtype.bits <= BYTE:
        if contraction_first:
            inner, outer = (d.name for d in tensor.dims)
            if inner == outer:  # of one dimension indices say which is which
                inner, outer = (a.name for a in factor.axes)
            raise scope.error(
                "E204", f"`{tensor.name}` of {tensor.dtype.spelling} is stored with `{inner}` first",
                tensor.span, f"its neighbors in memory are along `{outer}`",
                notes=(f"matrix instructions need bytes that are neighbors along `{inner}`",),
                fix=f"store it transposed, `[{outer}, {inner}]`",
            )  # fmt: skip
        base = (SCALED_BLOCK if tensor.dtype.in_blocks else tensor.dtype.elements(ACCESS_BYTES)) * WAVE_LANES // base
        base = lcm(base, tensor.dtype.unit(LDS_ROW)) if shared else base
        if not shared and BYTE % tensor.dtype.bits:
            raise scope.error(
                "E230", f"`{tensor.name}` of {tensor.dtype.spelling} must go to registers through LDS", tensor.span,
                fix=f"add a line such as `shared {tensor.name} buffers 2`",
            )  # fmt: skip
    return Operand(
        side=side,
        tensor=tensor,
        extent=block[axis],
        step=block[2],
        contraction_first=contraction_first,
        buffers=_buffers(scope, shared, tensor, (block[axis], block[2])) if shared else 0,
        via=way(scope, shared) if shared else None,
        register_buffers=_register_buffers(scope, registers, shared is not None),
        slice=_slice(scope, registers, block[2], step_at, base),
        fragments=accumulator.fragments[axis],
        fragment_extent=accumulator.tile[axis],
        span=clause.span,
        registers_span=registers.span if registers else None,
    )


def way(scope: Scope, shared: ast.Shared) -> Via:
    """Read the way in which a `shared` line brings tiles to LDS."""
    ways = [v.value for v in Via]
    if shared.via is None:
        return Via.DIRECT if scope.groups else Via.COLLECTIVE
    if shared.via.id not in ways:
        raise scope.error(
            "E213", f"`via {shared.via.id}` is not a path to LDS", shared.via.span,
            fix=_direct(shared.via) or "use `via collective`, `via registers` or `via direct`", known=ways,
        )  # fmt: skip
    return Via(shared.via.id)


def _direct(via: ast.Name) -> Fix | None:
    """`direct` for the name of the hardware's own copies."""
    if via.id.lower() not in ("tma", "async", "bulk", "dma", "cp_async", "global_load_lds"):
        return None
    return Fix("write `direct`: copies that pass no registers", (Edit(via.span, "direct"),), certain=False)


def _buffers(scope: Scope, shared: ast.Shared, tensor: Tensor, tile: tuple[int, int]) -> int:
    buffers = positive(scope, shared.buffers, "buffers") if shared.buffers else 1
    need = tensor.dtype.sized(buffers * tile[0] * tile[1])
    if need > MOST_LDS:
        label = f"{buffers} buffers of {tile[0]} x {tile[1]} {tensor.dtype.spelling}"
        limit, fix = f"no GPU has more than {MOST_LDS}", "make the block or the K-step smaller, or use fewer buffers"
        raise scope.refuse(too_much_lds(need, limit, Label(shared.span, label), fix))
    if buffers > MOST_BUFFERS and shared.buffers:
        raise scope.error(
            "E203", f"an operand has at most {MOST_BUFFERS} buffers, not {buffers}", shared.buffers.span,
            fix=f"write {MOST_BUFFERS} or less",
        )  # fmt: skip
    return buffers


def rings(scope: Scope, operands: tuple[Operand, ...], compute: Role) -> tuple[Operand, ...]:
    """The operands, those of which no `shared` line says buffers with as many as the target wants.

    That is one, or where a group of waves loads for others what fits beside two panels of output for each of these.
    """
    said = {n.id: s.buffers is not None for s in scope.all(ast.Shared) for n in s.names}
    unsaid = [o for o in operands if o.shared and not said[o.name]]
    if (groups := scope.groups) is None or not unsaid:
        return operands
    count = next((o.buffers for o in operands if o.shared and said[o.name]), 0)
    if not count:
        consumers = max(len(compute.waves) // groups.waves, 1)
        turns = consumers if scope.all(ast.Schedule) else 1
        sizes = {o.name: o.dtype.sized(o.extent * o.step) for o in operands if o.shared}  # as they are multiplied
        step = sum(sizes[o.name] // (turns if o.side is Side.A else 1) for o in operands if o.shared)
        room = groups.shared_bytes - groups.alignment - 2 * consumers * groups.rows * groups.panel_bytes
        count = max(min(room // (step + BARRIERS_OF_STAGE), MOST_STAGES), 2)
    return tuple(replace(o, buffers=count) if o in unsaid else o for o in operands)


def _register_buffers(scope: Scope, registers: ast.Registers | None, shared: bool) -> int:
    """Slices that registers hold; `shared` ones are in LDS, too."""
    if registers is None or registers.buffers is None:
        return 1
    buffers = positive(scope, registers.buffers, "buffers")
    if shared and buffers > 2:
        raise scope.error(
            "E208", "an operand has one or two register buffers", registers.span,
            notes=("a third register buffer would only repeat data of LDS",), fix="write `buffers 2`",
        )  # fmt: skip
    if buffers > MOST_BUFFERS:
        raise scope.error(
            "E208", f"an operand has at most {MOST_BUFFERS} register buffers, not {buffers}", registers.span,
            fix=f"write {MOST_BUFFERS} or less",
        )  # fmt: skip
    return buffers


def _slice(scope: Scope, registers: ast.Registers | None, step: int, step_at: Span, base: int) -> int:
    """Contraction elements of a register tile: whole base tiles of the matrix instruction, `base` elements long."""
    at = registers.slice if registers else None
    size = positive(scope, at, "the slice") if at else step
    if step % size or size % base:
        raise scope.error(
            "E208",
            f"a slice of {size} does not divide the K-step of {step} into multiples of {base}",
            at.span if at else step_at,
            fix=_slices(step, base),
        )
    return size


def _slices(step: int, base: int) -> str:
    """Name the slices that a K-step admits, for a fix."""
    fit = [n for n in range(base, step + 1, base) if step % n == 0]
    if fit:
        return f"use a slice of {' or '.join(map(str, fit))}"
    return f"make the K-step a multiple of {base}"


def _clause(scope: Scope, kind: type[Clause], tensor: Tensor) -> Clause | None:
    """The statement of `kind` that names `tensor`."""
    found = [s for s in scope.all(kind) if tensor.name in [n.id for n in s.names]]
    if len(found) > 1:
        raise scope.error(
            "E202", f"two `{kind.__name__.lower()}` lines for `{tensor.name}`", found[1].span, "again here",
            secondary=(Label(found[0].span, "first here"),),
            fix="keep one of them",
        )  # fmt: skip
    return found[0] if found else None
