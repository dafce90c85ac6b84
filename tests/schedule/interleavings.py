"""A referee for the barrier calculus that knows nothing of epochs: it runs small programs in every order there can be.

Two things are free. The *compiler* puts the accesses between two fences, barriers or waits in any order (a write stays
after its own fetch; a collective load in a kernel with direct loads, which ends with its own wait, after the
global loads before it), may do two equal ones once, and leaves out reads that no multiply uses; it may need fewer
instructions than there are accesses, since neighbours are merged into 16 bytes a lane. The *waves* go on in any order
between barriers, and memory completes as late as something waits for it: in the order of issue for each counter.

Two waves run in the orders that a compiler chose, step by step, over all their interleavings; the other waves of the
block only meet them at barriers. An access is wrong if it can be issued while one that must come before it is
not complete. The orders: all of them where they are few; else in turn each access last in its section, which is where
it completes latest, against each first, which is where it begins soonest, and some at random.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations, product
from math import factorial, prod

from tkgen.ir.types import Program
from tkgen.tile.ops import TILE_WRITES, Barrier, Copy, Fence, Fetch, Load, Move, Multiply, Read, Write
from tkgen.tile.program import END, Drain, Op, Part, Role

CUTS = (Fence, Barrier, Drain)
LDS, VM = 0, 1
FULL = 1024  # bytes that one instruction of a wave moves at most
ALL_ORDERS = 6  # sections with no more orders than this are tried in all of them
AT_RANDOM = 2


@dataclass(eq=False)
class Access:
    """One access of a wave, to a tile in an LDS slot; its traffic: counter -> pieces with their bytes.

    Of equal pieces in one section only the first counts. `cells` are the (fragment, slice) that it touches; `behind`
    are accesses of its section that it stays after, `fetches` is what a write needs, each with whether it is needed by
    no other write, and `waits` whether it waits for it: a wave may have no part in what a group writes.
    """

    op: Move
    tile: tuple[int, int]  # output tile, K-step
    slot: int
    section: int
    position: int
    cells: frozenset[Cell]
    pieces: dict[int, dict[object, int]] = field(default_factory=dict)
    behind: list[Access] = field(default_factory=list)
    fetches: list[tuple[Access, bool]] = field(default_factory=list)
    waits: bool = False

    @property
    def reads(self) -> bool:
        return isinstance(self.op, Read)

    @property
    def writes(self) -> bool:
        return isinstance(self.op, TILE_WRITES)


@dataclass(frozen=True)
class Cut:
    """A fence, barrier or wait."""

    op: Op


Cell = tuple[int, int]  # fragment of every wave, and slice
Section = list[Access]
Wave = list[Section | Cut]


@dataclass(frozen=True)
class Verdict:
    """Outcome of some run: operands with accesses out of order; True if waves wait for ever."""

    racing: frozenset[str]
    deadlock: bool


def explore(
    program: Program, programs: Sequence[Role], passes: int, unroll: int, steps: int, few: int = ALL_ORDERS
) -> Verdict:
    """The verdict over all orders and interleavings of `passes` passes; of the orders, all where there are so `few`."""
    last_phase = max(p.phase for p in programs)
    waves = {p: _wave(program, p, passes, unroll, steps, last_phase) for p in programs}
    barriers = {sum(isinstance(x, Cut) and isinstance(x.op, Barrier) for x in wave) for wave in waves.values()}
    if len(barriers) > 1:
        return Verdict(frozenset(), True)
    racing = _unwritten(waves.values())
    rng = random.Random(len(waves))
    for p in programs:
        for order in [*_orders(waves[p], True, rng, few), *_orders(waves[p], False, rng, few)]:
            racing |= _alone(program, order)
    for p, q in product(programs, programs):
        if p is q and len(p.waves) == 1:
            continue
        later = list(_orders(waves[q], False, rng, few))
        for late in _orders(waves[p], True, rng, few):
            for soon in later:
                if not racing >= {o.name for o in program.operands}:
                    racing |= _together(program, late, soon)
    return Verdict(frozenset(racing), False)


# ---------------------------------------------------------------- what a wave does


def _wave(program: Program, wave: Role, passes: int, unroll: int, steps: int, last_phase: int) -> Wave:
    barrier = Barrier()
    sequence = [(barrier, 0)] * wave.phase
    sequence += [(op, op.offset) for op in wave.ops(Part.PROLOGUE)]
    for i in range(passes):
        sequence += [(op, i * unroll + op.offset) for op in wave.ops(Part.BODY)]
    sequence += [(op, op.offset + (steps if op.at == END else 0)) for op in wave.ops(Part.EPILOGUE)]
    sequence += [(barrier, 0)] * (last_phase - wave.phase)
    result: Wave = [[]]
    fetched: dict[tuple[str, int, Cell], Access] = {}
    for position, (op, step) in enumerate(sequence):
        if isinstance(op, CUTS):
            result += [Cut(op), []]
        elif isinstance(op, Move):
            access = _access(program, op, step, position, len(result))
            _count(program, access, sequence)
            keys = [(op.operand, step, cell) for cell in access.cells]
            if isinstance(op, Fetch):
                fetched |= dict.fromkeys(keys, access)
            elif isinstance(op, Write):
                needed = {fetched.pop(key) for key in keys if key in fetched}
                access.fetches = [(f, f not in fetched.values()) for f in sorted(needed, key=lambda f: f.position)]
                access.waits = bool(access.pieces[LDS]) and max(access.pieces[LDS].values()) > 0
            section = result[-1]
            assert isinstance(section, list)
            if access.fetches:
                access.behind = [f for f, _ in access.fetches if f in section]
            elif isinstance(op, Load) and program.direct:
                access.behind = [a for a in section if VM in a.pieces]
            section.append(access)
    return result


def _access(program: Program, op: Move, step: int, position: int, section: int) -> Access:
    operand = program.operand(op.operand)
    fragments, slices = op.tile.box
    cells = frozenset((f, t) for f in fragments or range(operand.fragments) for t in slices or range(operand.slices))
    return Access(op, (0, step), step % operand.buffers, section, position, cells)


def _count(program: Program, access: Access, sequence: Sequence[tuple[Op, int]]) -> None:
    """The traffic of an access that is surely there: what merging leaves of it, without what nobody uses."""
    op, (_, step) = access.op, access.tile
    operand = program.operand(op.operand)
    group = next((r for r in program.roles if op.operand in r.loads), program.compute).group
    along, across = operand.fragments // operand.parts[0], operand.slices // operand.parts[1]  # cells of a part
    parts = {(f // along, t // across) for f, t in access.cells}
    share = operand.lds_bytes / (operand.parts[0] * operand.parts[1] * group)
    brought = FULL * max(1, -(-int(share) // FULL))
    written = FULL * int(share // FULL)
    match op:
        case Read():
            one = operand.fragment_extent * operand.slice
            size = operand.tensor.dtype.bytes
            by_element = operand.contraction_first and size == 2 and not program.direct
            bytes_ = FULL * one // 64 if by_element else one * size
            tiles = [(f, t) for f in op.tile.fragments for t in op.tile.slices]
            used = [x for x in tiles if _used(program, op, step, x, sequence[access.position + 1 :])]
            access.pieces = {LDS: {("read", op.operand, access.slot, *x): bytes_ for x in used}}
        case Write():
            access.pieces = {LDS: {("write", op.operand, access.slot, part): written for part in parts}}
        case Load() if not program.direct:
            access.pieces = {LDS: {("write", op.operand, access.slot, part): written for part in parts}}
        case Fetch():
            needed = {(f // along, t // across) for f, t in _written(program, access, sequence)}
            access.pieces = {VM: {("global", op.operand, step, part): written for part in needed}}
        case _:
            access.pieces = {VM: {("global", op.operand, step, part): brought for part in parts}}


def _written(program: Program, fetch: Access, sequence: Sequence[tuple[Op, int]]) -> set[Cell]:
    """The cells of a fetch that are written to LDS before they are fetched again."""
    left, written = set(fetch.cells), set[Cell]()
    for op, step in sequence[fetch.position + 1 :]:
        if isinstance(op, Write | Fetch) and op.operand == fetch.op.operand:
            met = left & _access(program, op, step, 0, 0).cells
            left -= met
            if isinstance(op, Write):
                written |= met
    return written


def _used(program: Program, read: Op, step: int, tile: tuple[int, int], behind: Sequence[tuple[Op, int]]) -> bool:
    """Return True if a multiply uses a register before another read replaces it."""
    fragment, slice_ = tile
    slices, buffers = program.a.slices, program.operand(read.operand).register_buffers
    register = (step * slices + slice_) % buffers
    is_a = read.operand == program.a.name
    for op, at in behind:
        if isinstance(op, Multiply):
            mine = {(at * slices + t) % buffers for t in op.slices}
            if fragment in (op.rows if is_a else op.cols) and register in mine:
                return True
        if isinstance(op, Read) and op.operand == read.operand:
            mine = {(at * slices + t) % buffers for t in op.tile.slices}
            if fragment in op.tile.fragments and register in mine:
                return False
    return False


def _unwritten(waves: Iterable[Wave]) -> set[str]:
    accesses = [a for wave in waves for part in wave if isinstance(part, list) for a in part]
    written = {(a.op.operand, a.tile, cell) for a in accesses if a.writes for cell in a.cells}
    read = {(a.op.operand, a.tile, cell) for a in accesses if a.reads for cell in a.cells}
    return {operand for operand, _, _ in read - written}


# ---------------------------------------------------------------- what the compiler makes of it


def _possible(order: Sequence[Access]) -> bool:
    return all(order.index(b) < i for i, a in enumerate(order) for b in a.behind)


def _orders(wave: Wave, late: bool, rng: random.Random, few: int) -> Iterator[list[Access | Cut]]:
    """Orders of a wave's accesses: all, or those with each access last (`late`) or first in its section, and others."""
    sections = [part for part in wave if isinstance(part, list)]
    count = prod(factorial(len(s)) for s in sections)
    if count <= few:
        for chosen in product(*(filter(_possible, permutations(s)) for s in sections)):
            yield _linear(wave, chosen)
        return
    for turn in range(max(map(len, sections))):
        yield _linear(wave, [_turned(s, turn, late) for s in sections])
    for _ in range(AT_RANDOM):
        shuffled = [rng.sample(s, len(s)) for s in sections]
        yield _linear(wave, [s if _possible(s) else original for s, original in zip(shuffled, sections, strict=True)])


def _turned(section: Section, turn: int, late: bool) -> Section:
    """A section with one access as late, or as soon, as can be."""
    if not section:
        return section
    chosen = section[turn % len(section)]
    bound = [chosen]  # with what must stay behind it, or before it
    for a in section if late else reversed(section):
        if any(b in bound for b in a.behind) if late else any(a in b.behind for b in bound):
            bound.append(a)
    rest = [a for a in section if a not in bound]
    return [*rest, *bound] if late else [*reversed(bound), *rest]


def _linear(wave: Wave, chosen: Sequence[Sequence[Access]]) -> list[Access | Cut]:
    taken = iter(chosen)
    result: list[Access | Cut] = []
    for part in wave:
        result += next(taken) if isinstance(part, list) else [part]
    return result


# ---------------------------------------------------------------- one wave's memory


class Memory:
    """Outstanding accesses of a wave, by counter in order of issue, and those that it has issued."""

    def __init__(self) -> None:
        self.queues: tuple[list[Access], list[Access]] = ([], [])
        self.issued: set[Access] = set()

    def copy(self) -> Memory:
        other = Memory()
        other.queues = (list(self.queues[0]), list(self.queues[1]))
        other.issued = set(self.issued)
        return other

    def complete(self, access: Access) -> bool:
        return access in self.issued and all(access not in queue for queue in self.queues)

    def step(self, program: Program, item: Access | Cut) -> None:
        if isinstance(item, Cut):
            if isinstance(item.op, Drain):
                self._wait(LDS if item.op.stream == "lds" else VM, item.op.count)
            return
        self.issued.add(item)
        if isinstance(item.op, Load):  # on return its own part is complete, and so all that was issued before
            self._drain(VM if program.direct else LDS, len(self.queues[VM if program.direct else LDS]))
            return
        for fetch, whole in item.fetches:
            if fetch in self.queues[VM]:
                if item.waits:  # of a fetch that other writes need, too, some may still be under way
                    self._drain(VM, self.queues[VM].index(fetch) + whole)
                elif whole:
                    self.queues[VM].remove(fetch)
        self.queues[LDS if isinstance(item.op, Read | Write) else VM].append(item)

    def _wait(self, counter: int, left: int) -> None:
        queue = self.queues[counter]
        count = sum(self._behind(queue, i, counter) >= left for i in range(len(queue)))
        self._drain(counter, count)

    def _drain(self, counter: int, count: int) -> None:
        del self.queues[counter][:count]

    @staticmethod
    def _behind(queue: Sequence[Access], at: int, counter: int) -> int:
        """Instructions surely issued after an access: in its own section only whole ones of other pieces."""
        mine = queue[at]
        sections: dict[int, dict[object, int]] = {}
        for access in queue[at + 1 :]:
            sections.setdefault(access.section, {}).update(access.pieces.get(counter, {}))
        own = sections.pop(mine.section, {})
        for piece in mine.pieces.get(counter, {}):
            own.pop(piece, None)
        whole = sum(own.values()) // FULL
        return whole + sum(-(-sum(pieces.values()) // FULL) for pieces in sections.values())


# ---------------------------------------------------------------- the machine


def _before(x: Access, y: Access) -> bool:
    """Return True if the meaning of the steps puts x before y: writes of a step, its reads, the writes of the next.

    Two writes touch no common bytes: an operand is loaded by one role, which deals a tile to its waves always alike.
    """
    if x.op.operand != y.op.operand or x.slot != y.slot or isinstance(x.op, Fetch) or isinstance(y.op, Fetch):
        return False
    if not x.cells & y.cells:
        return False
    return x.writes != y.writes and (x.tile, not x.writes) < (y.tile, not y.writes)


def _alone(program: Program, items: Sequence[Access | Cut]) -> set[str]:
    """Operands that one wave alone gets wrong: LDS serves a wave in order, but a copy goes past that queue."""
    racing: set[str] = set()
    memory, done = Memory(), list[Access]()
    accesses = [a for a in items if isinstance(a, Access)]
    for item in items:
        if isinstance(item, Access):
            for x in accesses:
                if _before(x, item) and not memory.complete(x):
                    in_order = x.position < item.position and not any(isinstance(a.op, Copy) for a in (x, item))
                    if not in_order:
                        racing.add(item.op.operand)
            done.append(item)
        memory.step(program, item)
    return racing


def _together(program: Program, late: Sequence[Access | Cut], soon: Sequence[Access | Cut]) -> set[str]:
    """Operands with an access of `soon` that can be issued while one of `late` that comes before it is not complete.

    A wave passes its n-th barrier when the other has come to it. What is complete on a wave depends on how far it has
    got, so the interleavings are the places at which the one can be while the other issues.
    """
    racing: set[str] = set()
    states: list[Memory] = [Memory()]  # of `late`, before each of its items
    for item in late:
        memory = states[-1].copy()
        memory.step(program, item)
        states.append(memory)
    reached = {(0, 0)}
    stack = [(0, 0)]
    while stack:
        i, j = stack.pop()
        mine = late[i] if i < len(late) else None
        other = soon[j] if j < len(soon) else None
        following = []
        if _meets(mine) and _meets(other):
            following.append((i + 1, j + 1))
        if mine is not None and not _meets(mine):
            following.append((i + 1, j))
        if other is not None and not _meets(other):
            following.append((i, j + 1))
            if isinstance(other, Access) and other.op.operand not in racing:
                before = [x for x in late if isinstance(x, Access) and _before(x, other)]
                if any(not states[i].complete(x) for x in before):
                    racing.add(other.op.operand)
        for state in following:
            if state not in reached:
                reached.add(state)
                stack.append(state)
    return racing


def _meets(item: Access | Cut | None) -> bool:
    return isinstance(item, Cut) and isinstance(item.op, Barrier)
