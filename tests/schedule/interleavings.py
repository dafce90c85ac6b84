"""A referee for the barrier calculus that knows nothing of epochs: it tries every interleaving of the waves.

The state of a block is how far each wave has got and how many instructions of each of its counters are complete. A
wave goes on by issuing its next operation, any of its outstanding instructions may complete (in the order of its
counter), and waves that all stand at a barrier pass it together. An access is wrong if it can be issued while one that
must come before it is not complete. States that differ only by which of several waves with one program is where count
as one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tkgen.ir.ops import Action, Op, WaveProgram
from tkgen.ir.types import Program
from tkgen.schedule.epochs import global_instructions, lds_instructions

LDS, VM = 0, 1
BEGIN, END = "begin", "end"


@dataclass
class Step:
    """One thing a wave does; a collective load is two, its beginning and its end."""

    op: Op
    step: int
    part: str = BEGIN
    counter: int | None = None
    instructions: int = 0
    issued_before: tuple[int, int] = (0, 0)  # instructions of each counter issued before this
    needs: tuple[int, int] = (0, 0)  # instructions of each counter that must be complete before it is done
    after: list[tuple[int, int]] = field(default_factory=list)  # (wave, position) that must be complete first


@dataclass(frozen=True)
class Verdict:
    """What some interleaving does: operands with accesses out of order, and whether waves wait for ever."""

    racing: frozenset[str]
    deadlock: bool


def explore(
    program: Program, programs: Sequence[WaveProgram], passes: int, unroll: int, steps: int, *, late: bool = True
) -> Verdict:
    """The verdict over all interleavings of `passes` passes.

    With `late`, instructions complete no earlier than something waits for them. That is enough: completing earlier only
    takes wrong accesses away and holds nobody up. Without it they complete at any time.
    """
    last_phase = max(p.phase for p in programs)
    waves = {w: _steps(program, p, passes, unroll, steps, last_phase) for p in programs for w in p.waves}
    order = sorted(waves)
    racing = _demands(program, waves)
    groups = [[order.index(w) for w in p.waves] for p in programs]
    start = tuple((0, 0, 0) for _ in order)

    def alike(state: State) -> State:
        result = list(state)
        for group in groups:
            for place, at in zip(group, sorted(state[n] for n in group), strict=True):
                result[place] = at
        return tuple(result)

    seen, stack, deadlock = {start}, [start], False
    while stack:
        state = stack.pop()
        successors = list(_successors(order, waves, state, racing, late))
        if not successors and any(at[0] < len(waves[w]) for w, at in zip(order, state, strict=True)):
            deadlock = True
        for following in map(alike, successors):
            if following not in seen:
                seen.add(following)
                stack.append(following)
    return Verdict(frozenset(racing), deadlock)


def _steps(program: Program, wave: WaveProgram, passes: int, unroll: int, steps: int, late: int) -> list[Step]:
    sequence = [(Op(Action.BARRIER), 0)] * wave.phase
    sequence += [(p.op, p.step.at(0, steps)) for p in wave.prologue]
    for i in range(passes):
        sequence += [(p.op, p.step.at(i * unroll, steps)) for p in wave.body]
    sequence += [(p.op, p.step.at(0, steps)) for p in wave.epilogue]
    sequence += [(Op(Action.BARRIER), 0)] * (late - wave.phase)
    result: list[Step] = []
    issued = [0, 0]
    reads: dict[tuple[str, int, int, int], int] = {}
    fetched: dict[tuple[str, int], int] = {}
    consumed = 0
    for op, step in sequence:
        item = Step(op, step, issued_before=(issued[0], issued[1]))
        if op.action is Action.LOAD:
            result.append(item)
            item = Step(op, step, END, needs=(issued[0], issued[1]), issued_before=(issued[0], issued[1]))
        elif op.action in (Action.READ, Action.WRITE):
            item.counter, item.instructions = LDS, lds_instructions(program, op)
            if op.action is Action.READ:
                for f in op.rows or op.cols:
                    for t in op.slices:
                        reads[op.operand, f, step, t] = issued[LDS] + item.instructions
            elif (op.operand, step) in fetched:
                item.needs = (0, fetched.pop((op.operand, step)))
        elif op.action in (Action.FETCH, Action.COPY):
            item.counter, item.instructions = VM, global_instructions(program, op)
            if op.action is Action.FETCH:
                fetched[op.operand, step] = issued[VM] + item.instructions
        elif op.action is Action.WAIT:
            counter = LDS if op.counter == "lds" else VM
            least = max(0, issued[counter] - op.count)
            item.needs = (least, 0) if counter == LDS else (0, least)
        elif op.action is Action.MULTIPLY:
            keys = [(program.a.name, i, step, t) for i in op.rows for t in op.slices]
            keys += [(program.b.name, j, step, t) for j in op.cols for t in op.slices]
            consumed = max([consumed, *(reads.pop(k) for k in keys if k in reads)])
        elif op.action is Action.FENCE:  # a multiply may sink down to here, and its wait with it
            item.needs = (consumed, 0)
        result.append(item)
        if item.counter is not None:
            issued[item.counter] += item.instructions
    return result


def _demands(program: Program, waves: dict[int, list[Step]]) -> set[str]:
    """Writes into every step what must be complete before it; operands with reads of what nobody loads."""
    unwritten: set[str] = set()
    accesses: dict[tuple[str, int], list[tuple[int, int, Step]]] = {}
    for w, items in waves.items():
        for i, item in enumerate(items):
            if item.op.operand and item.op.action is not Action.FETCH and item.part == BEGIN:
                slot = (item.step + item.op.slot_shift) % program.operand(item.op.operand).buffers
                accesses.setdefault((item.op.operand, slot), []).append((w, i, item))
    for (operand, _), group in accesses.items():
        written = {item.step for _, _, item in group if item.op.writes_lds}
        if any(item.step not in written for _, _, item in group if item.op.action is Action.READ):
            unwritten.add(operand)
        for u, i, x in group:
            for _, _, y in group:
                if _before(x, y):
                    y.after.append((u, i))
    return unwritten


def _before(x: Step, y: Step) -> bool:
    """Whether the meaning of the steps puts x before y: writes of a step, its reads, the writes of the next.

    Two writes touch no common bytes: an operand is loaded by one role, which deals a tile to its waves always alike.
    """
    if x.op.writes_lds == y.op.writes_lds:
        return False
    return (x.step, not x.op.writes_lds) < (y.step, not y.op.writes_lds)


State = tuple[tuple[int, int, int], ...]  # of each wave: its position, complete instructions of LDS and VM


def _successors(
    order: list[int], waves: dict[int, list[Step]], state: State, racing: set[str], late: bool
) -> Iterator[State]:
    at = dict(zip(order, state, strict=True))
    ahead = {w: waves[w][at[w][0]] if at[w][0] < len(waves[w]) else None for w in order}
    if all(item is not None and item.op.action is Action.BARRIER for item in ahead.values()):
        yield tuple((position + 1, lds, vm) for position, lds, vm in state)
    for n, w in enumerate(order):
        position, lds, vm = state[n]
        item = ahead[w]
        issued = _issued(waves[w], position)
        if lds < issued[LDS] and not late:
            yield (*state[:n], (position, lds + 1, vm), *state[n + 1 :])
        if vm < issued[VM] and not late:
            yield (*state[:n], (position, lds, vm + 1), *state[n + 1 :])
        if item is None or item.op.action is Action.BARRIER:
            continue
        if late:
            lds, vm = max(lds, item.needs[LDS]), max(vm, item.needs[VM])
        elif lds < item.needs[LDS] or vm < item.needs[VM]:
            continue
        for u, i in item.after:
            if item.part == BEGIN and not _complete(waves[u], at[u], i, u == w, item):
                racing.add(item.op.operand)
        yield (*state[:n], (position + 1, lds, vm), *state[n + 1 :])


def _issued(items: list[Step], position: int) -> tuple[int, int]:
    if position < len(items):
        return items[position].issued_before
    last = items[-1]
    both = list(last.issued_before)
    if last.counter is not None:
        both[last.counter] += last.instructions
    return both[0], both[1]


def _complete(items: list[Step], at: tuple[int, int, int], i: int, same_wave: bool, y: Step) -> bool:
    """Whether the operation that begins at position i of its wave is complete, or, on y's own wave, ordered by LDS."""
    x = items[i]
    if x.op.action is Action.LOAD:
        return at[0] > i + 1
    if at[0] <= i:
        return False
    assert x.counter is not None
    if same_wave and Action.COPY not in (x.op.action, y.op.action):
        return True
    return at[1 + x.counter] >= x.issued_before[x.counter] + x.instructions
