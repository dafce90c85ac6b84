"""Written schedules of loops of equations: the steps that their lines name, and what is wrong with these.

An equation of the loop gives two steps at most, by its name: `multiply s` is its product, with the sum to which that
is added, and `compute s` all else that it computes. Each is done once an iteration, whole or in parts of its rows, when
what it takes is there (`_order`): made before in the iteration, handed over by the iteration before, or loaded.
`multiply s[k+1]` is the first product of an iteration, done in the iteration before. Tiles are brought as the lines
say, `k` being the iteration: what comes before the loop is derived from how far ahead that is. The steps of the lines
are then proven like derived ones (`tkgen.schedule.loop_steps`), for any number of iterations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tkgen.ir.equation_program import WrittenSchedule, WrittenStep
from tkgen.ir.equations import (
    Convert,
    Load,
    Map,
    Op,
    Product,
    Reduce,
    Value,
    reads,
    writes,
)
from tkgen.schedule.loop_program import barrier, bring, loads, read, ring_of, tiles, write
from tkgen.schedule.loop_tiles import Multiplication, extent
from tkgen.schedule.loops import LoopMap
from tkgen.source import Span
from tkgen.tile.ops import Copy, Equations, Fence, Fetch, Mix, Move, Priority, Read, Write
from tkgen.tile.program import Op as Step


class StepError(ValueError):
    """An error in a written schedule: a code, a sentence, the place, another place, and a fix."""

    def __init__(self, code: str, message: str, span: Span, fix: str = "", other: tuple[Span, str] | None = None):
        super().__init__(message)
        self.code, self.span, self.fix, self.other = code, span, fix, other


@dataclass
class _Equation:
    """The parts of an equation with a name: positions of the loop's body that compute, and products."""

    computes: list[int] = field(default_factory=list)
    products: list[Multiplication] = field(default_factory=list)


Found = tuple[Step, WrittenStep]


def written(m: LoopMap, schedule: WrittenSchedule) -> tuple[Step, ...]:
    """The steps of an iteration, with the barriers that the lines have.

    Raises:
        StepError: a step that is not there, cannot be divided, is forgotten, done twice or too early.
    """
    if m.votes:
        raise StepError("E216", "a written schedule cannot have a `when any` in its "
                                "loop", m.votes[0].span or schedule.span,
                        "remove the lines of the schedule, or choose element by element with `where`")  # fmt: skip
    named, found = _equations(m), list[Found]()
    steps: list[Step] = [*loads(m)]
    for line in schedule.lines:
        for step in line.steps:
            made = list(_steps(m, named, step, len(found)))
            found += ((s, step) for s in made)
            steps += made
        if any(s.word == "priority" and s.level for s in line.steps):
            steps.append(Priority(0))
        steps.append(barrier() if line.paced and not schedule.barriers else Fence())
    _brought(m, found, schedule)
    _once(m, named, found, schedule)
    _order(m, found)
    return tuple(steps)


def _equations(m: LoopMap) -> dict[str, _Equation]:
    """The equations of the loop by their names, each with what its line computes."""
    found: dict[str, _Equation] = {}
    ends = {x.result: x for x in m.multiplications}
    begins = {x.product: x for x in m.multiplications}
    pending = _Equation()
    for place, op in enumerate(m.loop.body):
        value = writes(op)[0]
        if op in m.loads_of_iterations:
            continue
        if isinstance(op, Product):
            pending.products.append(begins[op])
        elif value not in ends:
            pending.computes.append(place)
        if value.name and not isinstance(op, Load):
            own = found.setdefault(value.name, _Equation())
            own.computes += pending.computes
            own.products += pending.products
            pending = _Equation()
    if found:
        last = found[next(reversed(found))]
        last.computes += pending.computes
    return found


# ---------------------------------------------------------------- steps


def _steps(m: LoopMap, named: dict[str, _Equation], step: WrittenStep, at: int) -> Iterator[Step]:
    match step.word:
        case "barrier":
            yield barrier()
        case "priority":
            yield Priority(step.level)
        case "mix":
            yield Mix(*step.mix)
        case "compute" | "multiply":
            if step.name not in named:
                raise StepError("E216", f"no equation of the loop is called `{step.name}`", step.span,
                                f"name one of {', '.join(f'`{n}`' for n in named)}")  # fmt: skip
            yield from (_computed if step.word == "compute" else _multiplied)(m, named[step.name], step)
        case word:
            yield _moved(m, word, step)


def _moved(m: LoopMap, word: str, step: WrittenStep) -> Step:
    ring = next((n for n, ring in enumerate(m.moving) if ring.name == step.name), None)
    if ring is None:
        raise StepError("E216", f"no tile of `{step.name}` goes through LDS", step.span,
                        f"name {' or '.join(f'`{r.name}`' for r in m.moving)}")  # fmt: skip
    direct = m.moving[ring].direct
    right = ("copy", "read") if direct else ("fetch", "write")
    if word not in right:
        how = "goes to LDS directly" if direct else "goes to LDS through registers, and is read when it is multiplied"
        raise StepError("E216", f"`{step.name}` {how}", step.span, f"write `{right[0]}` and `{right[1]}`")
    if word == "read":
        at = [n for n, x in enumerate(m.multiplications) if m.moving.index(x.moving) == ring]
        if len(at) > 1:
            raise StepError("E216", f"`{step.name}` is an operand of several products", step.span, "name a schedule")
        return read(m, at[0], ring, step.ahead)
    return (write if word == "write" else bring)(m, ring, step.ahead)


def _computed(m: LoopMap, equation: _Equation, step: WrittenStep) -> Iterator[Step]:
    places = equation.computes
    if not any(_works(m.loop.body[n]) for n in places):
        raise StepError("E216", f"`{step.name}` is a product, and computes nothing else", step.span,
                        f"write `multiply {step.name}`")  # fmt: skip
    part, parts = _piece(m, step, [m.loop.body[n] for n in places])
    vectors = {ring.access: m.moving.index(ring) for ring in m.vectors}
    for first, last in _runs(places):
        ops = m.loop.body[first:last]
        rings = tuple(vectors[op.source] for op in ops if isinstance(op, Load) and op.source in vectors)
        if rings or any(map(_works, ops)):
            yield Equations(tiles(m, rings), first=first, last=last, part=part, parts=parts)


def _multiplied(m: LoopMap, equation: _Equation, step: WrittenStep) -> Iterator[Step]:
    if not equation.products:
        raise StepError("E216", f"`{step.name}` is no product", step.span, f"write `compute {step.name}`")
    for x in equation.products:
        if step.ahead > 1 or (step.ahead == 1) != (x == m.early):
            raise StepError("E216", "only the first product of an iteration can be computed in the previous "
                                    "iteration", step.span,
                            "remove `[k+1]`")  # fmt: skip
        rings = () if m.direct else (m.moving.index(x.moving),)
        at = [n for n, op in enumerate(m.loop.body) if op == x.product or x.result in writes(op)]
        part, parts = _piece(m, step, [x.product])
        if parts > 1 and x.across:
            raise StepError("E216", f"the rows of `{step.name}` are interleaved, so they are multiplied "
                                    "together", step.span,
                            "do it whole")  # fmt: skip
        for first, last in _runs(at):
            yield Equations(
                tiles(m, rings, step.ahead), first=first, last=last, ahead=step.ahead, part=part, parts=parts
            )


def _runs(places: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Neighbours among places: from the first to after the last."""
    first = 0
    for n, place in enumerate(places):
        if n + 1 == len(places) or places[n + 1] != place + 1:
            yield places[first], place + 1
            first = n + 1


def _piece(m: LoopMap, step: WrittenStep, ops: Sequence[Op]) -> tuple[int, int]:
    """Return which part a step computes, and the number of parts."""
    if step.piece is None:
        return 0, 1
    word, number = step.piece
    heights = {_height(m, op.result) for op in ops if isinstance(op, Map | Product)}
    whole = next((op for op in ops if isinstance(op, Convert | Reduce) or (isinstance(op, Map) and _chooses(op))), None)
    height = min(heights, default=1)
    if whole is not None or len(heights) > 1 or height < 2 or (word == "half" and height % 2):
        raise StepError("E216", f"`{step.name}` is not computed row by row of tiles of {m.side}, in {word}s", step.span,
                        "do it whole")  # fmt: skip
    parts = 2 if word == "half" else height
    if not 0 <= number < parts:
        raise StepError("E216", f"`{step.name}` has {parts} such {'halves' if word == 'half' else 'parts'}", step.span,
                        f"write 0..{parts - 1}")  # fmt: skip
    return number, parts


def _chooses(op: Map) -> bool:
    return op.function == "where"


def _height(m: LoopMap, value: Value) -> int:
    """Rows of base tiles of a value; 1 of what is no tile of a wave."""
    rows = m.rows(value)
    return 1 if rows is None or m.split not in value.axes else extent(rows) // m.side


def _works(op: Op) -> bool:
    return isinstance(op, Map | Convert | Reduce) and bool(op.result.axes)


# ---------------------------------------------------------------- what is wrong


def _brought(m: LoopMap, found: Sequence[Found], schedule: WrittenSchedule) -> None:
    """Raises StepError (E312) for a tile that is not brought once an iteration."""
    for n, ring in enumerate(m.moving):
        kinds: list[tuple[type[Step], str]] = [(Copy, "copy") if ring.direct else (Fetch, "fetch")]
        kinds.append((Read, "read") if ring.direct else (Write, "write"))
        for kind, word in kinds:
            mine = [(s, w) for s, w in found if isinstance(s, kind) and isinstance(s, Move) and ring_of(s) == n]
            _exactly(f"{word} {ring.name}", [w for _, w in mine], schedule.span)


def _exactly(what: str, steps: Sequence[WrittenStep], whole: Span) -> None:
    if not steps:
        raise StepError("E312", f"`{what}` is in no line of the schedule", whole, f"add `{what}`")
    if len(steps) > 1:
        raise StepError("E312", f"`{what}` is twice in the schedule", steps[1].span, "remove one of them",
                        (steps[0].span, "once here"))  # fmt: skip


def _once(m: LoopMap, named: dict[str, _Equation], found: Sequence[Found], schedule: WrittenSchedule) -> None:
    """Raises StepError (E312) for what is not done once an iteration."""
    done: dict[tuple[int, int], WrittenStep] = {}
    for step, w in found:
        if not isinstance(step, Equations):
            continue
        for place in range(step.first, step.last):
            for row in _rows(m, m.loop.body[place], step):
                before = done.setdefault((place, row), w)
                if before is not w:
                    _exactly(f"{w.word} {w.name}", (before, w), schedule.span)
    for name, equation in named.items():
        products = [m.loop.body.index(x.product) for x in equation.products]
        computes = [n for n in equation.computes if _works(m.loop.body[n])]
        for word, places in (("compute", computes), ("multiply", products)):
            for place in places:
                height = _height(m, writes(m.loop.body[place])[0])
                missing = [row for row in range(height) if (place, row) not in done]
                if len(missing) == height:
                    _exactly(f"{word} {name}", (), schedule.span)
                elif missing:
                    _exactly(f"{word} {name} part {missing[0]}", (), schedule.span)


def _order(m: LoopMap, found: Sequence[Found]) -> None:
    """Raises StepError (E313) for a step that takes what a later one makes."""
    body = m.loop.body
    made = {value: n for n, op in enumerate(body) for value in writes(op) if _works(op) or isinstance(op, Product)}
    there = {(v, row) for v in writes(m.early.product) for row in range(_height(m, v))} if m.early else set()
    for at, (step, w) in enumerate(found):
        if not isinstance(step, Equations):
            continue
        for op in body[step.first : step.last]:
            rows = _rows(m, op, step)
            for value in reads(op):
                height = _height(m, value)
                own = isinstance(op, Map | Convert) and height == _height(m, writes(op)[0])
                wanted = {(value, row) for row in (rows if own and height > 1 else range(height))}
                if value in made and not wanted <= there:
                    raise _early(m, w, value, [x for s, x in found[at:] if _makes(m, s, value)])
            if not step.ahead:
                there |= {(v, row) for v in writes(op) for row in rows}


def _early(m: LoopMap, step: WrittenStep, value: Value, makers: Sequence[WrittenStep]) -> StepError:
    what = f"`{value.name}`" if value.name else "a product, or a value computed from it,"
    other = (makers[-1].span, "made here") if makers else None
    text = f"`{step.word} {step.name}` takes {what} before it is computed"
    return StepError("E313", text, step.span, f"put it behind `{makers[-1].word} {makers[-1].name}`" if makers else "",
                     other)  # fmt: skip


def _makes(m: LoopMap, step: Step, value: Value) -> bool:
    return isinstance(step, Equations) and any(value in writes(op) for op in m.loop.body[step.first : step.last])


def _rows(m: LoopMap, op: Op, step: Equations) -> range:
    count = _height(m, writes(op)[0]) if writes(op) else 1
    return range(step.part * count // step.parts, (step.part + 1) * count // step.parts)
