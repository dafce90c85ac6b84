"""What waves do without a plan of products, as text: the steps of rows over lanes, and of loops over waves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tkgen.ir.equations import body_text
from tkgen.schedule.loop_program import LoopSteps, ring_of
from tkgen.schedule.row_steps import HALVES
from tkgen.schedule.rows import RowMap
from tkgen.tile.ops import (
    Barrier,
    Copy,
    ElementLoop,
    Equations,
    Fence,
    Fetch,
    Mix,
    Priority,
    Read,
    Share,
    SharedLoad,
    SharedStore,
    Vote,
    Write,
)
from tkgen.tile.program import Loop, Node, Op, Traffic

INDENT = "  "


def row_text(m: RowMap) -> str:
    """A layout of rows, and the steps of a pass."""
    return "\n".join([m.describe(), *_rows(m, m.steps, INDENT)])


def _rows(m: RowMap, steps: Sequence[Node], indent: str) -> Iterator[str]:
    for step in steps:
        match step:
            case ElementLoop(number=n):
                yield f"{indent}walk"
                yield from body_text(m.sweeps[n].ops, indent + INDENT)
                yield from (f"{indent + INDENT}{r.result} of all passes" for r in m.sweeps[n].whole)
            case SharedStore(number=n, to=to):
                yield f"{indent}put {_reduced(m, n)} to half {to.ahead % HALVES}"
            case SharedLoad(number=n, source=source):
                yield f"{indent}get {_reduced(m, n)} from half {source.ahead % HALVES}"
            case Barrier():
                yield f"{indent}meet"
            case Loop(body=inner):
                yield f"{indent}loop"
                yield from _rows(m, inner, indent + INDENT)


def _reduced(m: RowMap, sweep: int) -> str:
    """What lanes hand each other behind a sweep."""
    return ", ".join(str(reduce.result) for reduce in m.sweeps[sweep].handed)


def loop_text(steps: LoopSteps) -> str:
    """A layout of a loop, and the steps before it and of a pass."""
    lines = [steps.map.describe(), f"{INDENT}prologue", *_loop(steps, steps.prologue)]
    lines += [f"{INDENT}pass", *_loop(steps, steps.body)]
    if late := steps.map.late:
        lines.append(
            f"{INDENT}waves from {late} on meet the others once more before the loop, these once more behind it"
        )
    return "\n".join(lines)


def _loop(steps: LoopSteps, part: Sequence[Op]) -> Iterator[str]:
    m, indent = steps.map, 2 * INDENT
    for step in part:
        match step:
            case Fetch() | Copy() | Write():
                word = "write" if isinstance(step, Write) else "fetch"
                yield f"{indent}{word} {m.moving[ring_of(step)].access.tensor.name} of pass + {step.offset}"
            case Read():
                yield f"{indent}read {m.moving[ring_of(step)].access.tensor.name}"
            case Equations(first=first, last=last, part=n, parts=parts):
                if parts > 1:
                    yield f"{indent}part {n} of {parts} of"
                yield from body_text(m.loop.body[first:last], indent + INDENT * (parts > 1))
            case Fence():
                yield f"{indent}fence"
            case Mix(pattern=pattern, times=times):
                yield f"{indent}mix {', '.join(f'{word} {n}' for word, n in pattern)}, {times} times"
            case Priority(level=level):
                yield f"{indent}priority {level}"
            case Vote(number=n):
                yield f"{indent}vote on {m.votes[n].condition}"
            case Share(number=n):
                yield f"{indent}give {m.exchanges[n].given}"
            case Barrier(drains=drains):
                landed, idle = Traffic.GLOBAL in drains, not drains
                yield f"{indent}meet{', direct loads landed' if landed else ', nothing awaited' if idle else ''}"
