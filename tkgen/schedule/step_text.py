"""The schedule of waves as text: the tile program of rows over lanes, and of loops over waves."""

from __future__ import annotations

from tkgen.ir.equations import body_text
from tkgen.schedule.loop_program import block as loop_block
from tkgen.schedule.loop_program import persistent, product_of, ring_of
from tkgen.schedule.loops import LoopMap
from tkgen.schedule.row_steps import OF_ROW, block
from tkgen.schedule.rows import RowMap
from tkgen.tile.ops import Copy, ElementLoop, Equations, Fetch, Read, Share, SharedLoad, SharedStore, Vote, Write
from tkgen.tile.program import Op, Role
from tkgen.tile.text import INDENT, block_text, region_text


def row_text(m: RowMap) -> str:
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

    values = {"WAVES": m.waves, OF_ROW: m.waves_of_row, "PASSES": m.passes}
    return f"{m.describe()}\n{block_text(block(m.steps), values, lines)}"


def _reduced(m: RowMap, sweep: int) -> str:
    """Name the values that lanes exchange after a sweep."""
    return ", ".join(str(reduce.result) for reduce in m.sweeps[sweep].handed)


def loop_text(m: LoopMap, wave: Role) -> str:
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

    values = {"WAVES": m.waves} | ({"AHEAD": m.late} if m.late else {})
    return f"{m.describe()}\n{block_text(loop_block(m, persistent(wave) if m.persistent else wave), values, lines)}"
