"""What the waves of a loop of equations do, step by step: what they bring, what they compute, where they meet.

    prologue   Fetch and Write of the first tiles of each ring
    pass       Fetch of the tile `ahead` passes further on, into registers, or to LDS where it goes there directly
               Compute of the equations, product by product; a product reads its ring's tile of this pass
               Read of that tile before, behind the product before it, where it went to LDS directly
               Vote on a condition, each wave for its part of the tile; all read all votes where it is decided
               Write of what was fetched
    Meet       where two waves touch the same slot of a ring, and one writes

A block may begin with any pass (`from q - 512`): what `K_s[step % 2]` says is then another slot for all waves alike.

What goes directly is there once a wave has waited for its loads, at a meeting that says so: it is then there for all.

A ring of one tile is written between two meetings, when all have read it; one of more tiles is filled as far ahead as
it has slots, and its one meeting orders both ways.

**The meetings of a pass** are as few as there can be: steps whose accesses to a slot conflict, in one pass or in two,
are the ends of an arc around the pass, and every arc needs a meeting on it. All sets of places are tried, small ones
first, and of equally small ones the last, so that a wave meets the others late. What stands there is then proven, for
any number of passes, by the vector clocks of `tkgen.proof` (`unproven`), with the prologue: it meets once more where
that finds a fault.

**What is stored** is compared as terms (`unlike`): the steps are executed, a wave at a time between meetings, on
hash-consed terms, and so are the equations; the same terms must be stored, after any of the first numbers of passes,
twice around the rings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, islice

from tkgen.ir.equations import (
    Constant,
    Coordinate,
    Extent,
    Load,
    Op,
    Product,
    Store,
    Value,
    When,
    access_text,
    op_text,
    reads,
    writes,
)
from tkgen.ir.equations import Loop as EquationLoop
from tkgen.proof import program as proof
from tkgen.proof.passes import first_wrong
from tkgen.proof.terms import Term, Terms
from tkgen.schedule.loops import VOTES, LoopMap, Moving
from tkgen.targets.synchronisation import Attendance, Synchronisation

WAVES = 2  # stand for all: a wave's accesses meet those of itself and of another


@dataclass(frozen=True)
class Fetch:
    """Global memory to registers, or LDS: this wave's part of the tile of ring `ring`, `ahead` passes further on."""

    ring: int
    ahead: int


@dataclass(frozen=True)
class Write:
    """What was fetched, to LDS."""

    ring: int
    ahead: int


@dataclass(frozen=True)
class Read:
    """The tile of ring `ring`, `ahead` passes further on, to registers, for a later multiplication, `number`."""

    number: int
    ring: int
    ahead: int = 0


@dataclass(frozen=True)
class Compute:
    """Operations `first` to `last` - 1 of the loop's body.

    The last one may be a product, the first one a condition: they read `rings`. `ahead`: of the pass after this one,
    which then finds them done.
    """

    first: int
    last: int
    rings: tuple[int, ...] = ()
    ahead: int = 0


@dataclass(frozen=True)
class Vote:
    """What this wave says to condition `number`, to ring `ring` of LDS, for the others."""

    number: int
    ring: int


@dataclass(frozen=True)
class Meet:
    """All waves meet, once this wave's accesses to LDS are complete; `landed`: and its direct loads, too."""

    landed: bool = False


Step = Fetch | Write | Read | Compute | Vote | Meet


@dataclass(frozen=True)
class LoopSteps:
    """The steps of a wave: before the loop, and in a pass of it."""

    map: LoopMap
    prologue: tuple[Step, ...]
    body: tuple[Step, ...]

    @property
    def meetings(self) -> int:
        """Meetings of a pass."""
        return sum(isinstance(step, Meet) for step in self.body)


def steps(m: LoopMap, machine: Synchronisation) -> LoopSteps:
    """The steps of `m`, with their meetings, proven on a target's `machine`.

    Raises:
        AssertionError: the proof finds a fault, which would be one of this module.
    """
    rings = range(len(m.moving))
    early = None if m.early is None else m.early.moving
    first = [max(ring.buffers - 1, 1) + (ring == early) for ring in m.moving]
    prologue = [step for n in rings for item in range(first[n]) for step in _bring(m, n, item)]
    # A direct load into a ring's only tile begins when that has been read.
    late = [n for n in rings if m.moving[n].direct and m.moving[n].buffers == 1]
    body: tuple[Step, ...] = (
        *(Fetch(n, first[n]) for n in rings if n not in late),
        *_computes(m),
        *(Write(n, first[n]) for n in rings if not m.moving[n].direct),
        *(Fetch(n, first[n]) for n in late),
    )
    met = _landing(m, _with_meetings(m, body))
    if m.early is not None:
        computed = [replace(step, ahead=0) for step in body if isinstance(step, Read | Compute) and step.ahead]
        prologue += [Meet(m.direct), *computed]
    for opening in (tuple(prologue), (*prologue, Meet(m.direct))):
        made = LoopSteps(m, opening, met)
        if unproven(made, machine) is None:
            break
    problem = unproven(made, machine) or unlike(made)
    assert problem is None, f"{m.kernel.name}: {problem}"
    return made


def _bring(m: LoopMap, ring: int, item: int) -> tuple[Step, ...]:
    return (Fetch(ring, item),) if m.moving[ring].direct else (Fetch(ring, item), Write(ring, item))


def _landing(m: LoopMap, body: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps with a wait for direct loads at the last meeting, which is as late as can be."""
    last = max((n for n, step in enumerate(body) if isinstance(step, Meet)), default=None)
    return tuple(Meet(m.direct) if n == last else step for n, step in enumerate(body))


def _computes(m: LoopMap) -> Iterator[Step]:
    """The equations, up to each product (or the sum to which it adds) and after the last; votes before conditions."""
    products = {x.result: m.moving.index(x.moving) for x in m.multiplications}
    vectors = {ring.access: m.moving.index(ring) for ring in m.vectors}
    numbers = {x.result: n for n, x in enumerate(m.multiplications) if x.moving.direct}
    early = None if m.early is None else m.early.product
    ahead = (Read(numbers[v], products[v], int(op == early)) for op in m.loop.body for v in writes(op) if v in numbers)
    first, read = 0, list[int]()
    yield from islice(ahead, 1 if early is None else 2)
    if early is not None:
        place = m.loop.body.index(early)
        yield Compute(place, place + 1, () if m.direct else (products[early.result],), 1)
    for place, op in enumerate(m.loop.body):
        if isinstance(op, When):
            number = m.votes.index(op)
            if first < place:
                yield Compute(first, place, tuple(read))
            yield Vote(number, len(m.moving) + number)
            first, read = place, [len(m.moving) + number]
        elif op == early:
            if first < place:
                yield Compute(first, place, tuple(read))
            first, read = place + 1, []
        elif product := [products[v] for v in writes(op) if v in products]:
            yield Compute(first, place + 1, (*read, *(() if m.direct else product)))
            first, read = place + 1, []
            yield from islice(ahead, 1)
        elif isinstance(op, Load) and op.source in vectors:
            read.append(vectors[op.source])
    if first < len(m.loop.body):
        yield Compute(first, len(m.loop.body), tuple(read))


# ---------------------------------------------------------------- meetings


def _with_meetings(m: LoopMap, body: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps of a pass with the fewest meetings; a place p is before step p."""
    arcs = list(_arcs(m, body))
    for count in range(len(body) + 1):
        for places in combinations(range(len(body), 0, -1), count):
            if all(any(p % len(body) in arc for p in places) for arc in arcs):
                return tuple(s for n, step in enumerate(body) for s in ((Meet(),) if n in places else ()) + (step,)) + (
                    (Meet(),) if len(body) in places else ()
                )
    raise AssertionError("meetings everywhere order everything")


def _arcs(m: LoopMap, body: tuple[Step, ...]) -> Iterator[frozenset[int]]:
    """For each two accesses that another wave must not reorder, the places between them."""
    touched = [(p, ring, writing, ahead) for p, step in enumerate(body) for ring, writing, ahead in _touches(m, step)]
    for p, ring, writing, ahead in touched:
        slots = m.rings[ring]
        for q, other, other_writing, other_ahead in touched:
            for later in range(slots + 1):
                follows = later > 0 or q > p
                if (
                    ring == other and (writing or other_writing) and follows
                    and (later + other_ahead - ahead) % slots == 0
                    and not (writing and other_writing)  # a wave writes its own part, always the same
                ):  # fmt: skip
                    between = range(p + 1, q + later * len(body) + 1)
                    yield frozenset(place % len(body) for place in between)


def _touches(m: LoopMap, step: Step) -> Iterator[tuple[int, bool, int]]:
    """(ring, whether it is written, ahead) of what a step does with LDS."""
    match step:
        case Fetch(ring=ring, ahead=ahead) if m.moving[ring].direct:
            yield ring, True, ahead
        case Write(ring=ring, ahead=ahead):
            yield ring, True, ahead
        case Vote(ring=ring):
            yield ring, True, 0
        case Read(ring=ring, ahead=ahead):
            yield ring, False, ahead
        case Compute(rings=rings, ahead=ahead):
            yield from ((ring, False, ahead) for ring in rings)


# ---------------------------------------------------------------- proof


def unproven(made: LoopSteps, machine: Synchronisation) -> str | None:
    """What some interleaving gets wrong first, of any number of passes."""
    return first_wrong(clocked(made, machine))


def clocked(made: LoopSteps, machine: Synchronisation) -> proof.Loop:
    """The steps in the form of the proof. LDS accesses complete in order; a meeting waits for its wave's own first.

    A wave writes a part of a tile, and reads all of it. Fetches touch nothing that waves share, but direct ones.
    """
    barrier = next(x.name for x in machine.meetings if x.attendance is Attendance.ALL)
    rings = {f"ring {n}": slots for n, slots in enumerate(made.map.rings)}
    names = list(rings)

    def of(wave: int, step: Step) -> Iterator[proof.Step]:
        for ring, writing, ahead in _touches(made.map, step):
            part = ((wave, wave + 1),) if writing else ((0, WAVES),)
            access = (proof.Access(names[ring], ahead, ahead % rings[names[ring]], part),)
            stream = "vm" if isinstance(step, Fetch) else "lds"
            yield proof.Do((), access, stream) if writing else proof.Do(access, (), stream)
        if isinstance(step, Meet):
            yield from (proof.Drain("vm"),) if step.landed else ()
            yield from (proof.Drain("lds"), proof.Meet(barrier))

    agents = tuple(
        proof.Looped(
            f"wave {wave}",
            tuple(s for step in made.prologue for s in of(wave, step)),
            tuple(s for step in made.body for s in of(wave, step)),
        )
        for wave in range(WAVES)
    )
    advance = dict.fromkeys(names, 1) | {barrier: made.meetings}
    return proof.Loop(agents, (proof.Meeting(barrier, WAVES),), rings, advance, machine)


# ---------------------------------------------------------------- what is stored


def unlike(made: LoopSteps) -> str | None:
    """What is done twice in a pass; or a store whose term is not the one that the equations give, and after how many.

    On terms an operation could be repeated; in registers a sum is changed where it stands.
    """
    done = Counter(n for step in made.body if isinstance(step, Compute) for n in range(step.first, step.last))
    if (twice := next((n for n, times in done.items() if times > 1), None)) is not None:
        return f"`{op_text(made.map.loop.body[twice])}` is done {done[twice]} times in a pass"
    for passes in range(1, 2 * max(ring.buffers for ring in made.map.moving) + 2):
        terms = Terms()
        meant = _Run(made, terms, scheduled=False).stores(passes)
        found = _Run(made, terms, scheduled=True).stores(passes)
        for name, term in meant.items():
            if found[name] != term:
                return f"after {passes} passes {name} is not what the equations say"
    return None


class _Run:
    """The equations on terms: with the steps of a wave, or without."""

    def __init__(self, made: LoopSteps, terms: Terms, scheduled: bool):
        self.made, self.terms, self.scheduled = made, terms, scheduled
        self.values: dict[Value, Term] = {}
        self.lds: dict[tuple[int, int], Term] = {}
        self.staged: dict[int, Term] = {}
        self.read: dict[Product, Term] = {}
        self.next: dict[Value, Term] = {}
        self.found: dict[str, Term] = {}
        self.rings = {ring.access: n for n, ring in enumerate(made.map.moving)}
        self.moving = {x.product: x.moving for x in made.map.multiplications}

    def stores(self, passes: int) -> dict[str, Term]:
        """The term of each store after so many passes."""
        for op in self.made.map.kernel.body:
            if isinstance(op, EquationLoop):
                self._loop(op, passes)
            else:
                self._op(op, 0)
        return self.found

    def _loop(self, loop: EquationLoop, passes: int) -> None:
        values = self.values
        for carry in loop.carries:
            values[carry.inside] = values[carry.initial]
        for load in self.made.map.held if self.scheduled else ():
            self._op(load, 0)
        for step in self.made.prologue if self.scheduled else ():
            self._step(step, 0)
        for number in range(passes):
            if self.scheduled:
                for step in self.made.body:
                    self._step(step, number)
            else:
                for op in loop.body:
                    self._op(op, number)
            values.update(self.next)
            self.next.clear()
            ends = [values[carry.update] for carry in loop.carries]
            for carry, end in zip(loop.carries, ends, strict=True):
                values[carry.inside] = values[carry.result] = end

    def _step(self, step: Step, number: int) -> None:
        match step:
            case Fetch(ring=ring, ahead=ahead):
                moving = self.made.map.moving[ring]
                self.staged[ring] = self._brought(moving, number + ahead)
                if moving.direct:
                    self.lds[ring, (number + ahead) % moving.buffers] = self.staged[ring]
            case Write(ring=ring, ahead=ahead):
                slots = self.made.map.moving[ring].buffers
                self.lds[ring, (number + ahead) % slots] = self.staged.get(ring, self.terms.unknown())
            case Read(number=which, ring=ring, ahead=ahead):
                slot = ring, (number + ahead) % self.made.map.moving[ring].buffers
                self.read[self.made.map.multiplications[which].product] = self.lds.get(slot, self.terms.unknown())
            case Compute(first=first, last=last, ahead=ahead):
                now = dict(self.values)
                for op in self.made.map.loop.body[first:last]:
                    self._op(op, number + ahead)
                if ahead:  # this pass still has its own
                    self.next |= {v: self.values[v] for op in self.made.map.loop.body[first:last] for v in writes(op)}
                    self.values |= {v: now.get(v, self.terms.unknown()) for v in self.next}
            case Vote(number=vote, ring=ring):
                self.lds[ring, number % VOTES] = self.values[self.made.map.votes[vote].condition]

    def _brought(self, ring: Moving, number: int) -> Term:
        return self.terms.leaf(access_text(ring.access), number)

    def _op(self, op: Op, number: int) -> None:
        terms, values = self.terms, self.values
        match op:
            case Store():
                self.found[access_text(op.target)] = values[op.value]
            case Product() if self.scheduled:  # it reads the ring's tile where it stands
                moving = self.moving[op]
                slot = self.rings[moving.access], number % moving.buffers
                tile = self.read.pop(op, None) if moving.direct else self.lds.get(slot)
                factors = (values[v] if v in values else tile or terms.unknown() for v in reads(op))
                values[op.result] = terms.of(_formula(op), *factors)
            case Load(source=source) if source in self.rings and self.scheduled:
                moves = self.made.map.moving[self.rings[source]]
                values.pop(op.result, None)
                if moves.cols is None:  # a vector is read where it is loaded
                    slot = self.rings[source], number % moves.buffers
                    values[op.result] = self.lds.get(slot, terms.unknown())
            case Load(source=source):
                values[op.result] = terms.leaf(access_text(source), number if source in self.rings else 0)
            case Constant() | Coordinate() | Extent():
                values[op.result] = terms.leaf(_formula(op), number)
            case When(condition=condition):
                taken = values[condition]
                if self.scheduled:
                    ring = len(self.made.map.moving) + self.made.map.votes.index(op)
                    taken = self.lds.get((ring, number % VOTES), terms.unknown())
                for inner in op.body:
                    self._op(inner, number)
                for c in op.chosen:
                    values[c.result] = terms.of("when any", taken, values[c.update], values[c.otherwise])
            case EquationLoop():
                raise AssertionError("no loop in the loop is scheduled")
            case _:
                values[op.result] = terms.of(_formula(op), *(values[v] for v in reads(op)))


@cache
def _formula(op: Op) -> str:
    """What an operation does, without the names of its values."""
    text = op_text(op)
    names: Mapping[str, str] = {str(v): f"%{n}" for n, v in enumerate((*reads(op), *writes(op)))}
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, names[name])
    return text
