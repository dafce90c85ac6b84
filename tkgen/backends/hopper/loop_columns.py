"""C++ of what is computed after the loop of a fused matmul: reductions of columns in turn, and what is between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tkgen.backends.cdna.lower.elements import INDENT
from tkgen.backends.cdna.lower.names import cpp_name
from tkgen.backends.cdna.lower.origins import within
from tkgen.backends.hopper.epilogue import of_all_warps, place_of
from tkgen.backends.hopper.file import name
from tkgen.backends.hopper.loop_values import IDENTITY, LoopValues
from tkgen.backends.hopper.loops import HopperLoop
from tkgen.backends.hopper.reduced import OWN_WARP, THREAD
from tkgen.backends.hopper.streamed import Round, Rows
from tkgen.ir.equations import Op, Store, Value, writes
from tkgen.schedule.loop_tiles import extent


def after_the_loop(m: HopperLoop, values: LoopValues, out: Store) -> tuple[tuple[Round, ...], list[str]]:
    """The reductions of columns, each with the statements before it, and the statements after the last one.

    The tile of `out` is an array of registers after these.
    """
    segments = list[list[Op]]([[]])
    for op in m.behind:
        if op in m.combined:
            segments.append([])
        else:
            segments[-1].append(op)
    rounds, lines = list[Round](), values.gathered()
    for number, ops in enumerate(segments):
        lines += values.statements(ops, [out.value, *_needed_later(m, values, segments, number)])
        if number < len(m.combined):
            rounds.append(_round(m, values, number, lines))
            lines = []
    return tuple(rounds), lines


def _needed_later(m: HopperLoop, values: LoopValues, segments: Sequence[Sequence[Op]], number: int) -> Iterator[Value]:
    """The values of a segment that the reduction after it, or a later segment, reads."""
    later = [*m.combined[number:], *(op for ops in segments[number + 1 :] for op in ops)]
    read = {value for op in later for value in values.leaves(op)}
    yield from (value for op in segments[number] for value in writes(op) if value in read)


def _round(m: HopperLoop, values: LoopValues, number: int, before: Sequence[str]) -> Round:
    op = m.combined[number]
    inside = f"tk::before{{{values.length(m.split)}}}" if m.overhangs(m.split) else "tk::all{}"
    kind, made = f"base_ops::{op.function}", values.name[op.result]
    parts, columns = f"{made}_parts", of_all_warps(made)
    place = f"{parts}[{OWN_WARP}], {IDENTITY[op.function]}, {inside}, first_row"
    reduced = (
        f"tk::reduce_elements<{kind}>({place}, [&](int t, int h, int e) {{",
        f"{INDENT}const int r = h % 2;",
        f"{INDENT}return {values.text(op.argument, False, alone=True)};",
        "});",
    )
    combined = within(op.result.span, [f"tk::combine<{kind}>({columns}, {parts}, {THREAD});"])
    lines = (*([""] if number == 0 else []), *before, *within(op.result.span, reduced))
    return Round(number, lines, True, parts, columns, tuple(combined))


def column_stored(m: HopperLoop, values: LoopValues, store: Store, remark: str) -> Rows:
    """The statements that store a number of each column of a block's tile."""
    tensor = store.target.tensor
    coord, place = (
        place_of(store.target, [at if i.extends else f"{cpp_name(i.axis.name)}_i" if i.axis and i.of_tile else ""
                                for i in store.target.indices]) for at in ("0", "col")
    )  # fmt: skip
    threads = "CONSUMERS * warpgroup::GROUP_THREADS"
    value = f"{tensor.dtype.cpp}({values.text(store.value, False, 'col', alone=True)})"
    lines = (
        f"tk::each_column<{extent(m.columns)}, {threads}>({THREAD}, 0, [&](int col) {{{remark}",
        f"{INDENT}tk::number_at(g.{name(tensor.name)}, {place}) = {value};",
        "});",
    )
    return Rows(name(tensor.name), coord, tuple(within(store.span, lines)))
