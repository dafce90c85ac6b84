"""Mapping (E6xx, W6xx): every element of the output is computed once, by one wave of one block; nothing lies outside.

Rule. The fragments of all waves tile the block exactly; the remap is a bijection from block indices onto the grid;
sizes are multiples of blocks and steps unless a tail clause covers the rest; offsets fit the instructions.

Proof idea. Fragments are few, so the tiles they cover are listed and counted. Remaps are bijections for every grid by
construction (`tkgen.remap` tests them); what a spec composes is checked for order and arguments. Sizes are arithmetic.

Source. Buffer offsets of 32 bits: AMD CDNA3 ISA guide, "Buffer addressing". Dispatch of blocks to XCDs, round robin by
linear block index: AMD documentation.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING

from tkgen.checks.words import statement
from tkgen.diagnostics import Diagnostic, Edit, Fix, Label
from tkgen.diagnostics.edits import replaced, with_option, with_size, without_statement
from tkgen.diagnostics.text import count_text
from tkgen.ir.equations import Argument, Constant, Convert, Coordinate, Load, Map, Reduce, Store, reads
from tkgen.ir.launch import Launch
from tkgen.ir.limits import most_blocks, most_tiles, reach
from tkgen.ir.resolve.clauses import remap_problems
from tkgen.ir.types import ACCESS_BYTES, Dim, DType, Program, RemapStage, Tensor
from tkgen.remap import RemapCall, problems
from tkgen.source import Span
from tkgen.targets import Target

if TYPE_CHECKING:
    from tkgen.schedule.plan import Plan


def check(plan: Plan, target: Target) -> list[Diagnostic]:
    """Output tiles missing or written twice, sizes that do not divide, remaps that cannot be."""
    program = plan.program
    sizes = list(_sizes(program))
    return [
        *_remap(program),
        *_cover(program),
        *_stores(plan),
        *sizes,
        *([] if sizes else _unrolling(program)),
        *_tail(program),
        *_extents(program),
        *_grid(program, target),
        *check_parts(plan.program),
        *_runs(plan),
    ]


def check_program(program: Program) -> list[Diagnostic]:
    """Check the rules for every family of GPUs and every schedule: the remap, the fragments, the sizes."""
    return [*_remap(program), *_cover(program), *_sizes(program), *_extents(program)]


# ---------------------------------------------------------------- remaps and grids


def _runs(plan: Plan) -> Iterator[Diagnostic]:
    """A run of K-steps of `stream_k` that may be shorter than what a schedule needs."""
    program, grid = plan.program, plan.program.grid
    if grid.name != "stream_k" or grid.span is None:
        return
    deep = max(program.operands, key=lambda o: o.steps_ahead)
    if deep.steps_ahead > 1:
        buffers = f"{deep.buffers} buffers" if deep.shared else f"{deep.register_depth} register buffers"
        need, at = f"{buffers} are filled {deep.steps_ahead} steps ahead", deep.span
    elif plan.shape.depth > 1 or plan.shape.unroll > 1:
        need = f"this schedule needs {plan.shape.depth} before its loop and {plan.shape.unroll} per iteration"
        at = program.a.span
    else:
        return
    yield Diagnostic(
        "E608", f"a block of `stream_k` may compute a single K-step of a tile, and {need}", Label(grid.span),
        (Label(at, "the depth comes from these buffers"),), (),
        Fix("use at most two LDS buffers and one register buffer",
            with_option(deep.span, "buffers", "2") if deep.buffers > 2 else ()),
    )  # fmt: skip


def check_parts(program: Program) -> Iterator[Diagnostic]:
    """Blocks that add to one output tile: what they add must be sums, and the K-steps must divide among them."""
    grid = program.grid
    at = grid.span
    if not grid.shares_tiles or at is None:
        return

    out, k = program.accumulator.tensor, program.k
    line = Label(at, f"blocks add to tiles of `{out.name}`")

    def error(message: str, other: Label, fix: str) -> Diagnostic:
        return Diagnostic("E608", message, line, (other,), (), Fix(fix))

    if program.tile_steps is None and (grid.name == "stream_k" or program.ragged_sum):
        yield error(f"`{grid.name}` needs a size of {k.name} that is known at build time", Label(k.span, "dynamic"),
                    f"give {k.name} a size")  # fmt: skip
        return
    if program.accumulator.dtype.whole:
        yield error(f"`{grid.name}` would add parts of integer sums as floats", Label(program.accumulator.span, "i32"),
                    "remove the grid: a sequence can add up the parts")  # fmt: skip
    for rounded in (t for t in program.outputs if t.dtype is not DType.F32):
        dtype = rounded.dtype.spelling
        yield error(f"`{grid.name}` would round `{rounded.name}` to {dtype} at every addition of a part",
                    Label(rounded.span, "f32 holds the sum of the parts"), f"make `{rounded.name}` f32")  # fmt: skip
    for what, step_at in _not_linear(program):
        yield error(f"`{what}` would be applied to the partial sum of every block", Label(step_at),
                    f"apply `{what}` in a second kernel; only `scale` is allowed here")  # fmt: skip
    steps = program.tile_steps
    if grid.name == "split_k" and steps is not None and steps % grid.count and program.tail != "masked":
        yield error(
            f"{steps} K-steps cannot be divided equally among {grid.count} blocks",
            Label(k.span, f"{k.size} = {steps} x {program.block[2]}"),
            f"use a divisor of {steps}, or `tail masked`, which fills the last part with zeros",
        )


def _not_linear(program: Program) -> Iterator[tuple[str, Span]]:
    """Yield the operations on sums that are not linear, as their name and place: parts of a sum cannot be added after
    them.
    """
    of_sums = {s.result for s in program.equations.sums}
    for op in program.equations.epilogue:
        if isinstance(op, Load | Store | Constant | Argument | Coordinate) or not of_sums & set(reads(op)):
            continue
        assert isinstance(op, Map | Convert | Reduce), (
            "an epilogue has only elementwise operations, and reductions of their results"
        )
        if not isinstance(op, Map) or op.function != "mul" or of_sums.issuperset(op.arguments):
            name = op.result.dtype.spelling if isinstance(op, Convert) else op.function
            yield name, op.result.span or program.spans["kernel"]
        of_sums.add(op.result)


def _remap(program: Program) -> Iterator[Diagnostic]:
    yield from remap_problems(program.remap)


def _grid(program: Program, target: Target) -> Iterator[Diagnostic]:
    launch, most = Launch.known(program), most_tiles(program)
    if launch and (launch.most_tiles if program.ragged else launch.matrix_tiles) > most:
        rows, cols = launch.tile_grid
        yield Diagnostic(
            "E607",
            f"{rows} x {cols} output tiles are more than a kernel can number",
            Label(statement(program, "block")),
            (Label(program.m.span), Label(program.n.span)),
            (f"tiles and threads of a launch are numbered with 32 bits: at most {most} tiles here",),
            Fix("make the block larger"),
        )
    if program.grid.span and program.grid.count > most_blocks(program):
        yield Diagnostic(
            "E607",
            f"{program.grid.count} blocks of {program.threads} threads cannot be launched",
            Label(program.grid.span),
            (),
            ("the threads of a launch are numbered with 32 bits",),
            Fix(f"use at most {most_blocks(program)} blocks"),
        )
    xcd = next((s for s in program.remap if s.name == "xcd"), None)
    if xcd is None or problems([RemapCall(s.name, dict(s.keywords), s.positional) for s in program.remap]):
        return
    n = _argument(xcd, "n")
    if program.grid.name == "persistent" and program.grid.span and program.grid.count % n:
        blocks = program.grid.count - program.grid.count % n or n
        yield Diagnostic(
            "W601",
            f"{program.grid.count} persistent blocks are not a multiple of the {n} XCDs over which the remap "
            "distributes them",
            Label(program.grid.span),
            (Label(xcd.span, f"assumes that tile t runs on XCD t mod {n}"),),
            (
                f"block b computes tiles b, b + {program.grid.count}, ...; after the first tile they are on another "
                "XCD "
                "than the remap assumes, and its L2 reuse is lost",
            ),
            Fix(f"use {blocks} blocks", _number(program.grid.span, program.grid.count, blocks)),
        )
    elif n != target.product.xcds:
        yield Diagnostic(
            "W601",
            f"the remap distributes blocks over {n} XCDs, {target.product.name} has {target.product.xcds}",
            Label(xcd.span),
            (),
            (
                "blocks are dispatched to XCDs round robin; with another number, neighboring tiles do not share an L2",
                target.cited(f"product.{target.product.name}.xcds"),
            ),
            Fix(f"write `xcd({target.product.xcds}, ...)`", _number(xcd.span, n, target.product.xcds)),
        )


def _number(span: Span, old: int, new: int) -> tuple[Edit, ...]:
    """Write another number in a clause that has the old one; nothing where that is a parameter."""
    found = re.search(rf"\b{old}\b", span.text)
    return (replaced(span, *found.span(), str(new)),) if found else ()


def _argument(stage: RemapStage, name: str) -> int:
    return dict(stage.keywords).get(name, stage.positional[0] if stage.positional else 0)


# ---------------------------------------------------------------- fragments


def covered(program: Program) -> Counter[tuple[int, int]]:
    """Count the waves that compute each tile of the block, by (tile row, tile column)."""
    acc, shape = program.accumulator, program.compute.shape
    assert shape is not None
    counts: Counter[tuple[int, int]] = Counter()
    for r, c in product(range(shape[0]), range(shape[1])):
        for i, j in product(range(acc.fragments[0]), range(acc.fragments[1])):
            counts[acc.tile_index(0, r, i, shape[0]), acc.tile_index(1, c, j, shape[1])] += 1
    return counts


def _cover(program: Program) -> Iterator[Diagnostic]:
    acc = program.accumulator
    counts = covered(program)
    extents = (program.block[0] // acc.tile[0], program.block[1] // acc.tile[1])
    wanted = set(product(range(extents[0]), range(extents[1])))
    outside = sorted(set(counts) - wanted)
    missing = sorted(wanted - set(counts))
    twice = sorted(t for t, n in counts.items() if n > 1)
    span = Label(acc.span, f"{acc.fragments[0]} x {acc.fragments[1]} fragments of {acc.tile[0]} x {acc.tile[1]} a wave")
    other = (Label(program.compute.span, "waves"),)
    fix = Fix("choose waves and fragments whose product is the block")
    if outside:
        yield Diagnostic("E602", f"tile {outside[0]} of the output lies outside the block", span, other, (), fix)
    if missing:
        yield Diagnostic("E602", f"no wave computes tile {missing[0]} of the block", span, other, (), fix)
    if twice:
        yield Diagnostic("E602", f"{counts[twice[0]]} waves compute tile {twice[0]} of the block", span, other, (), fix)


def _stores(plan: Plan) -> Iterator[Diagnostic]:
    """Fragments that the unrolled schedule does not store exactly once."""
    for c in [c for c in plan.conflicts() if c.kind == "stores"][:1]:
        i, j, times = c.where
        what = "never stored" if not times else f"stored {times} times"
        yield Diagnostic(
            "E602",
            f"fragment ({i}, {j}) of the output is {what}",
            Label(statement(plan.program, "store")),
            (Label(plan.program.accumulator.span, "every fragment is stored once"),),
            fix=Fix("store it once" if times else "store it"),
        )


# ---------------------------------------------------------------- sizes


def _sizes(program: Program) -> Iterator[Diagnostic]:
    """Static sizes that are not a multiple of block or step, without a tail clause that covers them.

    `tail masked` covers all three; `tail clamped` reads the last rows again, which is right for rows and columns of
    the output, whose repetitions are not stored, but would add products along K.
    """
    if program.tail == "masked":
        return
    if ragged := program.ragged or program.ragged_sum:
        at = ragged.span or statement(program, "kernel")
        after = statement(program, "over")
        edit = Edit(Span(after.file, after.end, after.end), f"\n{_indent(after)}tail masked")
        yield Diagnostic(
            "E604",
            f"groups of {ragged.dim.name} have any length, so their last tiles reach into the next group",
            Label(at, f"tiles of {ragged.tile}"),
            fix=Fix("add a tail clause", (edit,)),
        )
        return
    sides = ((program.m, "block's rows"), (program.n, "block's columns"), (program.k, "K-step"))
    for axis, (dim, what) in enumerate(sides):
        unit = program.block[axis]
        if program.tail == "clamped" and axis < 2:
            continue
        if dim.size is not None and dim.size % unit:
            low, high = dim.size // unit * unit, -(-dim.size // unit) * unit
            missed = "be added twice" if program.tail else "not be computed"
            near = f"{dim.name} = {low} or {high}" if low else f"{dim.name} = {high}"
            at, tail = statement(program, "block"), program.spans.get("tail")
            after = at if at.text.startswith("block") else statement(program, "over")
            edit = Edit(Span(after.file, after.end, after.end), f"\n{_indent(after)}tail masked")
            remedy = Fix("mask the tail", (Edit(tail, "tail masked"),)) if tail else Fix("add a tail clause", (edit,))
            yield Diagnostic(
                "E604",
                f"{dim.name} = {dim.size} is not a multiple of the {what}, {unit}",
                Label(dim.span, f"{dim.size} = {dim.size // unit} x {unit} + {dim.size % unit}"),
                (Label(at, f"{what}: {unit}"),),
                (f"the last {dim.size % unit} would {missed}; the nearest sizes are {near}",),
                remedy,
            )


def _indent(span: Span) -> str:
    return " " * (span.column - 1)


def _unrolling(program: Program) -> Iterator[Diagnostic]:
    if program.unroll and program.steps is not None and program.steps % program.unroll:
        steps, n = program.steps, program.unroll
        size = steps // n * n * program.block[2] or n * program.block[2]
        yield Diagnostic(
            "E605",
            f"{count_text(steps, 'K-step')} for a schedule whose iteration takes {n}",
            Label(statement(program, "unroll"), f"{n} K-steps a pass"),
            (Label(program.k.span, f"{program.k.size} = {steps} x {program.block[2]}"),),
            (f"the last iteration would have {steps % n} of {n} steps left",),
            Fix(
                f"use {program.k.name} = {size} or {size + n * program.block[2]}, or remove `unroll {n}`",
                without_statement(statement(program, "unroll")),
                certain=False,
            ),
        )


def _ragged(program: Program) -> Iterator[Tensor]:
    """Tensors read in 16-byte chunks whose rows are not a multiple of them. (An epilogue reads element by element.)"""
    for tensor in dict.fromkeys(o.tensor for o in program.operands):
        inner = tensor.dims[-1].size
        if len(tensor.dims) == 2 and inner is not None and tensor.dtype.sized(inner) % ACCESS_BYTES:
            yield tensor


def _tail(program: Program) -> Iterator[Diagnostic]:
    """A clamped load moves a whole chunk back inside its row, so rows must be whole chunks."""
    if program.tail != "clamped":
        return
    seen: set[Dim] = set()
    for tensor in _ragged(program):
        inner = tensor.dims[-1]
        if inner in seen:
            continue
        seen.add(inner)
        unit = tensor.dtype.elements(ACCESS_BYTES)
        assert inner.size is not None
        padded = -(-inner.size // unit) * unit
        yield Diagnostic(
            "E606",
            f"a row of `{tensor.name}` is {tensor.dtype.sized(inner.size)} bytes, which is not a multiple of "
            f"{ACCESS_BYTES}",
            Label(inner.span, f"{inner.name} = {inner.size}"),
            (Label(tensor.span, f"{tensor.dtype.spelling}, {inner.name} innermost"), Label(statement(program, "tail"))),
            (f"rows are read in chunks of {ACCESS_BYTES} bytes; one would reach across the end of a row",),
            Fix(f"pad {inner.name} to {padded}", with_size(inner.span, padded), certain=False),
        )


def _extents(program: Program) -> Iterator[Diagnostic]:
    """Dimensions larger than the generated arithmetic can count, or with rows too far apart for a 32-bit offset."""
    innermost = (o.tensor.dims[-1] for o in program.operands)
    for dim in dict.fromkeys((*innermost, program.m, program.n, program.k)):
        limit = reach(program, dim)
        if dim.size is None or dim.size <= limit.most:
            continue
        if limit.tensor is None:
            message, note = f"{dim.name} = {dim.size} cannot be counted", "rows and columns are numbered with 32 bits"
        else:
            rows = f"{limit.rows} rows of " if limit.rows > 1 else ""
            message = f"{rows}`{limit.tensor.name}` span {limit.tensor.dtype.sized(limit.rows * dim.size)} bytes"
            note = "a tile is addressed with 32-bit offsets from its first row: less than 2 GiB"
        yield Diagnostic(
            "E607",
            message,
            Label(dim.span, f"{dim.name} = {dim.size}"),
            (Label(limit.tensor.span),) if limit.tensor else (),
            (note,),
            Fix("use a smaller block, or split the tensor"),
        )
