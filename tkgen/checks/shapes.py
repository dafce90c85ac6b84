"""Shapes and types (E2xx, W2xx): the hardware of the target has the instructions that the spec asks for.

Rule. Operands go to LDS the way `via` says, by operations of that way, where the target can and their tiles fit. A
spec is built for targets it names. Tiles are multiples of 16, and every target has 16 x 16 matrix instructions for each
type.

Proof idea. Lookups in the target's data; the program's sizes were checked when it was resolved.

Source. MFMA shapes and direct loads: `tkgen/targets/*.toml`, from the AMD CDNA3 and CDNA4 ISA guides. Element-wise
reads of column-layout tiles: the ThunderKittens surface, whose col layout holds four rows of a column in a lane.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import lcm

from tkgen.checks.words import names_text, place, statement
from tkgen.diagnostics import Diagnostic, Fix, Label
from tkgen.diagnostics.edits import also_for, with_size, without_option, without_statement
from tkgen.ir.equation_text import access_text
from tkgen.ir.equations import Access
from tkgen.ir.types import ACCESS_BYTES, DType, Operand, Program, Via
from tkgen.schedule.plan import Plan
from tkgen.source import Span
from tkgen.targets import Target
from tkgen.tile.ops import LOADS, Copy, Fetch, Load, Write

OPERATIONS = {
    Via.COLLECTIVE: (Load,),
    Via.REGISTERS: (Fetch, Write),
    Via.DIRECT: (Copy,),
}
PANEL = 64  # bytes of a row that lie together in LDS (`kittens/shared.cuh`): in half of it 16 columns are read singly
BOX = (16, 64)  # rows, and bytes of each, that one direct load of a wave brings


def check(plan: Plan, target: Target) -> list[Diagnostic]:
    """Report features that the target lacks, operations that do not fit `via`, and slow paths."""
    program = plan.program
    return [
        *_targets(program, target),
        *_clusters(program, target),
        *_factors(program, target),
        *_direct(program, target),
        *_direct_tiles(program, target),
        *_operations(plan),
        *_slow_reads(program, target),
        *_ragged_rows(program),
        *_slow_products(program, target),
    ]


def _targets(program: Program, target: Target) -> Iterator[Diagnostic]:
    if not program.targets:
        return
    span = statement(program, "targets")
    if target.name not in program.targets:
        yield Diagnostic(
            "E219",
            f"this spec is not for {target.name}",
            Label(span, f"for {', '.join(program.targets)} only"),
            (),
            (),
            Fix(
                f"build with `--target {program.targets[0]}`, or add `{target.name}` to the line",
                also_for(span, target.name),
            ),
        )


def _clusters(program: Program, target: Target) -> Iterator[Diagnostic]:
    if program.clusters is not None:
        yield Diagnostic(
            "E219",
            f"blocks of {target.name} share no LDS, so there are no clusters",
            Label(program.clusters.span),
            fix=Fix("remove `clusters`, or build for sm_90a", without_statement(program.clusters.span)),
        )


def _factors(program: Program, target: Target) -> Iterator[Diagnostic]:
    """The target multiplies elements of that type."""
    first = program.operands[0]
    dtype = first.dtype
    if not target.mfma_shapes(dtype.spelling):
        known = dict.fromkeys(i.dtype for i in target.mfmas)
        yield Diagnostic(
            "E204",
            f"no matrix instruction of {target.name} that tkgen uses takes {dtype.spelling}",
            Label(first.tensor.span, dtype.spelling),
            (),
            (),
            Fix(f"operands are {', '.join(known)}; `bf16(...)` is not allowed in a sum of products"),
        )


def _direct(program: Program, target: Target) -> Iterator[Diagnostic]:
    direct = [o for o in program.operands if o.via is Via.DIRECT]
    widest = max(target.direct_load_bytes, default=0)
    if direct and widest < ACCESS_BYTES:
        yield Diagnostic(
            "E218",
            f"{target.name} cannot load {names_text([o.name for o in direct])} to LDS directly",
            Label(direct[0].span, "`via direct`"),
            (),
            (
                f"its loads from global memory to LDS move {widest} bytes per lane; "
                f"tiles in LDS consist of chunks of {ACCESS_BYTES}",
                target.cited("lds.direct_load_bytes"),
            ),
            Fix(
                "leave it out, use `via registers`, which also keeps the load in flight, or build for gfx950",
                tuple(e for at in dict.fromkeys(o.span for o in direct) for e in without_option(at, "via")),
            ),
        )


def _direct_tiles(program: Program, target: Target) -> Iterator[Diagnostic]:
    """Direct loads bring boxes of 16 rows x 64 bytes that the waves of a group share evenly; tails are whole chunks."""
    if not program.direct or max(target.direct_load_bytes, default=0) < ACCESS_BYTES:
        return
    for operand in program.shared:
        rows, cols = operand.part_shape
        dtype = operand.tensor.dtype
        across = dtype.unit(BOX[1])
        tile = "tile" if operand.part_count == 1 else f"parts of {rows} x {cols}"
        problem, way = "", ""
        if dtype.bytes > 2:
            problem = f"its elements are {operand.tensor.dtype.spelling}, and its tiles hold elements of 2 bytes"
            way = "use bf16 or f16 operands, or another way to LDS"
        elif cols % across or rows % BOX[0]:
            problem = f"its tile of {rows} x {cols} cannot be divided into boxes of {BOX[0]} x {across}"
            way = f"use a multiple of the box: {-(-rows // BOX[0]) * BOX[0]} x {-(-cols // across) * across}"
        elif operand.slice % across:
            problem = f"its slices of {operand.slice} are not multiples of a box, which has {across}"
            way = f"use `slice {across}`"
        else:
            group = next(r for r in program.roles if operand.name in r.loads).group
            boxes = dtype.sized(rows * cols) // (BOX[0] * BOX[1])
            if boxes % group:
                problem = f"{group} waves cannot divide the {boxes} boxes of its {tile} evenly"
                way = "load with a number of waves that divides it (`load ... by N waves`)"
        last = operand.tensor.dims[-1]
        if not problem and program.tail and operand.via is not Via.REGISTERS:
            if last.size is None:
                problem = (
                    f"with a tail its rows must be a multiple of {ACCESS_BYTES} bytes, and `{last.name}` is dynamic"
                )
                way = f"give `{last.name}` a size, or use `via registers`"
            elif dtype.sized(last.size) % ACCESS_BYTES:
                problem = f"its rows of {last.size} elements end within a load of {ACCESS_BYTES} bytes"
                multiple = lcm(8 * ACCESS_BYTES, dtype.bits) // dtype.bits
                way = f"use `via registers`, or a multiple of {multiple} for `{last.name}`"
        if problem:
            yield Diagnostic("E221", f"`{operand.name}` cannot be loaded directly: {problem}", Label(operand.span),
                             (), (), Fix(way))  # fmt: skip


def _operations(plan: Plan) -> Iterator[Diagnostic]:
    """A written schedule moves each operand the way its `shared` line says; a line at odds with it is one finding."""
    seen: set[Span] = set()
    for op in (op for body in plan.bodies.values() for op in body if isinstance(op, LOADS)):
        operand = plan.program.operand(op.operand)
        if operand.via is None or isinstance(op, OPERATIONS[operand.via]) or operand.span in seen:
            continue
        seen.add(operand.span)
        right = " and ".join(f"`{kind.word}`" for kind in OPERATIONS[operand.via])
        way = next(via for via, kinds in OPERATIONS.items() if isinstance(op, kinds))
        yield Diagnostic(
            "E220",
            f"`{op.word} {op.operand}` in the schedule, but `{op.operand}` goes to LDS via {operand.via.value}",
            Label(place(plan.program, op)),
            (Label(operand.span, f"via {operand.via.value}"),),
            (f"via {operand.via.value} a tile moves with {right}",),
            Fix(f"write `via {way.value}` in the `shared` line, or use {right}"),
        )


def _slow_reads(program: Program, target: Target) -> Iterator[Diagnostic]:
    """Operands whose register tiles are read an element at a time: by targets whose reads of LDS do not transpose."""
    if "slow_reads" in program.allow:
        return
    for operand in program.operands:
        panels = operand.part_shape[1] * operand.dtype.bytes % PANEL == 0
        if operand.shared and (program.direct or (target.transposing_reads and panels)):
            continue
        source = "LDS" if operand.shared else "global memory"
        product = next(p for p in program.products if operand in p.factors)
        if operand.register_layout == "col" and operand.dtype.bytes == 2:
            first = _stored_first(program, operand)
            yield Diagnostic(
                "W201",
                f"`{operand.name}` is read from {source} one element at a time",
                Label(operand.tensor.span, f"stored with `{first}` first"),
                (Label(program.accumulator.span, f"multiplied with `mma_{product.layouts}`"),),
                (
                    f"the matrix instruction needs {operand.tensor.dtype.spelling} values that are neighbors along "
                    f"`{first}`; in this layout they are a row apart, so a lane needs four 2-byte reads "
                    "instead of a part of one 16-byte read",
                ),
                Fix(f"{_transposed(program, operand)}, or accept it with `allow slow_reads`"),
            )


def _ragged_rows(program: Program) -> Iterator[Diagnostic]:
    """Operands whose rows end within 16 bytes: `tail masked` loads them an element at a time."""
    if "slow_reads" in program.allow or program.tail != "masked":
        return
    staged = [o for o in program.operands if o.shared]
    for last in dict.fromkeys(o.tensor.dims[-1] for o in staged):
        found = [o for o in staged if o.tensor.dims[-1] == last]
        dtype = found[0].tensor.dtype
        unit = max(o.tensor.dtype.elements(ACCESS_BYTES) for o in found)
        if last.size is None or last.size % unit == 0:
            continue
        padded = -(-last.size // unit) * unit
        verb = "are" if len(found) > 1 else "is"
        yield Diagnostic(
            "W201",
            f"{names_text([o.name for o in found])} {verb} read from global memory one element at a time",
            Label(last.span, f"{last.name} = {last.size}: a row is {dtype.sized(last.size)} bytes"),
            tuple(Label(o.tensor.span, "a load moves one element") for o in found),
            (f"rows that are multiples of {ACCESS_BYTES} bytes are read {ACCESS_BYTES} bytes at a time",),
            Fix(f"pad {last.name} to {padded}, or accept it with `allow slow_reads`",
                with_size(last.span, padded), certain=False),
        )  # fmt: skip


def _stored_first(program: Program, operand: Operand) -> str:
    """The first dimension of an operand; of two with one name the index at that position."""
    first, last = operand.tensor.dims
    return first.name if first != last else _factor(program, operand).axes[0].name


def _factor(program: Program, operand: Operand) -> Access:
    """Return the access of an operand to its tensor."""
    factors = (a for s in program.equations.sums for a in (s.left, s.right))
    return next(a for a in factors if a.tensor.name == operand.name)


def _transposed(program: Program, operand: Operand) -> str:
    """The declaration with the two dimensions of the factor's tile exchanged, and the indices that it has then."""
    access = _factor(program, operand)
    one, other = (n for n, i in enumerate(access.indices) if i.extends)
    dims, indices = list(access.tensor.dims), list(access.indices)
    dims[one], dims[other], indices[one], indices[other] = dims[other], dims[one], indices[other], indices[one]
    tensor = replace(access.tensor, dims=tuple(dims))
    shape = ", ".join(d.name for d in dims)
    read = f" and `{access_text(Access(tensor, tuple(indices)))}` in the product" if "over" in program.spans else ""
    return f"store `{operand.name}` transposed, `global {operand.name} : {tensor.dtype.spelling}[{shape}]`{read}"


def _short_slices(program: Program, target: Target) -> Iterator[Diagnostic]:
    operand, side = program.a, program.accumulator.mfma[0]
    rates = {i.k: (i.flops_per_cycle, i) for i in target.mfma_shapes(operand.dtype.spelling) if i.m == i.n == side}
    possible = max((rate for k, (rate, _) in rates.items() if operand.slice % k == 0), default=0)
    depth, (best, fastest) = max(rates.items(), key=lambda item: item[1][0])
    if 0 < possible < best:
        yield Diagnostic(
            "W202",
            f"slices of {operand.slice} multiply at 1/{best / possible:.0f} of the rate of {depth} on {target.name}",
            Label(operand.registers_span or program.spans["block"], f"register tiles of {operand.slice}"),
            (),
            (
                f"{fastest.instruction} sums {depth} products at a time, and is the fastest for "
                f"{operand.dtype.spelling}",
                target.cited(f"mfma.{fastest.instruction}.cycles"),
            ),
            Fix(f"use slices that are a multiple of {depth}"),
        )


def _slow_products(program: Program, target: Target) -> Iterator[Diagnostic]:
    """f32 operands, and slices too short for the fastest instructions: the matrix units are several times slower."""
    if program.a.dtype.encoded:
        yield from _short_slices(program, target)
    if program.a.dtype is not DType.F32 or not target.mfma_shapes("f32"):
        return
    times = target.peak_tflops("bf16") / target.peak_tflops("f32")
    fastest = max(target.mfma_shapes("f32"), key=lambda i: i.flops_per_cycle)
    yield Diagnostic(
        "W202",
        f"f32 operands multiply at 1/{times:.0f} of the rate of bf16 on {target.name}",
        Label(program.a.tensor.span, "f32"),
        (),
        (
            f"peak {target.peak_tflops('f32'):.0f} against {target.peak_tflops('bf16'):.0f} TFLOP/s",
            target.cited(f"mfma.{fastest.instruction}.cycles"),
        ),
        Fix("use bf16 or f16 operands; sums are always f32"),
    )
