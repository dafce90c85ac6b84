"""The tile program of rows over lanes, and of loops over waves, as it is shown: its ops in words, or in equations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tkgen.ir.equation_text import access_text, body_text
from tkgen.ir.equations import Load, Loop, Product, Reduce, Store, When, walk, writes
from tkgen.ir.equations import Op as Operation
from tkgen.schedule.loop_program import block as loop_block
from tkgen.schedule.loop_program import persistent, product_of, ring_of
from tkgen.schedule.loops import LoopMap
from tkgen.schedule.row_steps import OF_ROW, block
from tkgen.schedule.rows import RowMap
from tkgen.tile.ops import Copy, ElementLoop, Equations, Fetch, Read, Share, SharedLoad, SharedStore, Vote, Write
from tkgen.tile.program import Op, Role
from tkgen.tile.scheduled import Line, Scheduled, action_of
from tkgen.tile.text import INDENT, Lines, region_text

NOUNS = {"multiply": "product", "reduce": "reduction"}


def statements(operations: Iterable[Operation]) -> Iterator[Line]:
    """The lines of the spec that operations are of. Unnamed values belong to the statement that takes them."""
    action = ""
    for op in walk(tuple(operations)):
        if isinstance(op, Load | Loop | When):
            continue
        action = "multiply" if isinstance(op, Product) else "reduce" if isinstance(op, Reduce) else action
        if isinstance(op, Store):
            yield Line(op.span.text if op.span else f"store {access_text(op.target)}", "store", op.span)
        elif (result := writes(op)[0]).name:
            span = result.span
            text = f"{result.name} = {span.text}" if span and span.text != result.name else result.name
            yield Line(text, action or "map", span)
        else:
            continue
        action = ""
    if action:
        last = op.result if isinstance(op, Product | Reduce) else writes(op)[0]
        yield Line(f"{action} {last.span.text}" if last.span else f"a {NOUNS[action]}", action, last.span)


def row_program(m: RowMap) -> Scheduled:
    """A layout of rows, and its program."""

    def lines(op: Op) -> list[str] | None:
        match op:
            case ElementLoop(number=n):
                sweep = m.sweeps[n]
                whole = (f"{INDENT}{r.result} of all iterations" for r in sweep.whole)
                return ["element loop", *body_text(sweep.ops, INDENT), *whole]
            case SharedStore(number=n, to=to):
                return [f"shared store {_reduced(m, n)} to {region_text(to)}"]
            case SharedLoad(number=n, source=source):
                return [f"shared load {_reduced(m, n)} from {region_text(source)}"]
        return None

    def written(op: Op) -> Iterable[Line] | None:
        return statements(m.sweeps[op.number].ops) if isinstance(op, ElementLoop) else _as_shown(op, lines)

    values = {"WAVES": m.waves, OF_ROW: m.waves_of_row, "PASSES": m.passes}
    return Scheduled(m.describe(), block(m.steps), values, lines, written)


def _as_shown(op: Op, lines: Lines) -> Iterable[Line] | None:
    """The lines that `--print-after` shows of an op."""
    found = lines(op)
    return None if found is None else (Line(line, action_of(op), op.span) for line in found)


def _reduced(m: RowMap, sweep: int) -> str:
    """Name the values that lanes exchange after a sweep."""
    return ", ".join(str(reduce.result) for reduce in m.sweeps[sweep].handed)


def loop_program(m: LoopMap, wave: Role) -> Scheduled:
    """A layout of a loop, and its program."""

    def lines(op: Op) -> list[str] | None:
        match op:
            case Fetch() | Copy() | Write():
                ahead = f" + {op.offset}" if op.offset else ""
                return [f"{op.word} {m.moving[ring_of(op)].access.tensor.name}[iteration{ahead}]"]
            case Read():
                name = m.moving[ring_of(op)].access.tensor.name
                return [f"read {name}[iteration{' + 1' * op.offset}] for product {product_of(op)}"]
            case Equations(first=first, last=last, part=n, parts=parts, ahead=ahead):
                part = f"part {n} of {parts}" if parts > 1 else ""
                head = ", ".join(each for each in (part, "of the next iteration" * ahead) if each)
                return [*([f"{head}:"] * bool(head)), *body_text(m.loop.body[first:last], INDENT * bool(head))]
            case Vote(number=n):
                return [f"vote on {m.votes[n].condition}"]
            case Share(number=n):
                return [f"share {m.exchanges[n].given}"]
            case SharedStore(number=n):
                return [f"shared store of a wave's part of {m.combined[n].result}"]
            case SharedLoad(number=n):
                return [f"shared load of {m.combined[n].result}"]
        return None

    def written(op: Op) -> Iterable[Line] | None:
        if not isinstance(op, Equations):
            return _as_shown(op, lines)
        part = f", part {op.part} of {op.parts}" if op.parts > 1 else ""
        after = part + ", of the next iteration" * op.ahead
        return (replace(line, text=line.text + after) for line in statements(m.loop.body[op.first : op.last]))

    values = {"WAVES": m.waves} | ({"AHEAD": m.late} if m.late else {})
    return Scheduled(m.describe(), loop_block(m, persistent(wave) if m.persistent else wave), values, lines, written)
