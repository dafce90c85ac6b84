"""Faults of programs: orders that the meaning requires and that the clocks do not give in some interleaving.

Required (`tkgen.proof.program`, "Sequential meaning"): in each slot of each ring, of accesses with common elements,

    RAW   a write of instance i before every read of i
    WAR   a read of instance i before every write of a later instance
    WAW   a write of instance i before every write of a later instance; two writes of i, in one order or the other

and every element that is read of an instance is written as that instance, in that slot. Pairs further apart than the
nearest write that has all elements of the later access follow from those, so they are not looked at.

x is before y iff y knows x to be complete (`tkgen.proof.clock`); on one agent also if both go through one stream that
keeps the order of issue. Where they take different ways to memory (proxies) for which the machine has a fence, x's
agent must have fenced after x was complete, and y must know that. That the fence stands with the first access is the
form that the PTX ISA's examples have ("Async proxy": writes to shared memory, fence.proxy.async, then a barrier); its
model would also take one that stands further on, which this proof does not: the one place where it refuses programs
that no interleaving gets wrong. Bytes and groups end with their own fence (PTX ISA, "wgmma: Async proxy": the
completion is followed by an implicit generic-async proxy fence), so targets list no fence in that direction.

A barrier object that lies in the memory of one block of a cluster is read as an instance of that memory by whoever
comes to it, so that it must be set up by then, and a block must outlive what comes to its objects: when the last of its
agents ends, one of them must know that to be over (CUDA C++ Programming Guide, "Distributed Shared Memory": all blocks
must have begun before it is accessed, and none may exit before that is done).

**Programs that begin alike.** Say that one program has no fault, and that another one's agents begin with steps of the
first. A run of the second that executes these before anything else begins as a run of the first does, and matches alike
in both (`tkgen.proof.clock`): clocks and completions are the same, so what is required among these accesses
is given in both. What comes before one of these events is one of them, too: so each element that one of them reads is
written by them. In the second program only pairs with a later access need a check, then.

A program has no fault iff in every interleaving it ends, every phase is the one that is meant, and every access finds
what it should: `tests/proof` compares with all interleavings.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from tkgen.proof.clock import Event, Point, Run, Stuck, Unmatched, run
from tkgen.proof.program import Access, Arrive, Await, Box, Do, Fence, Meet, Program
from tkgen.targets.synchronisation import GENERIC


class Kind(Enum):
    """The kind of a fault."""

    RAW = "read after write"
    WAR = "write after read"
    WAW = "write after write"
    UNWRITTEN = "nobody writes what is read"
    DEADLOCK = "an agent waits for ever"
    PHASE = "another phase in some interleaving"
    UNFINISHED = "under way when the block ends"


class Lack(Enum):
    """The thing that is missing between two accesses."""

    ORDER = "nothing orders them"
    COMPLETION = "the second waits for the agent of the first, but too early: the first is not complete then"
    FENCE = "they use different paths to memory without a fence between them"


@dataclass(frozen=True)
class Fault:
    """`first` must come before `second`, at `access` (that of the second), and lacks that."""

    kind: Kind
    first: Event | None = None
    second: Event | None = None
    access: Access | None = None
    lack: Lack | None = None
    stuck: Stuck | None = None
    unmatched: Unmatched | None = None


def faults(program: Program) -> list[Fault]:
    """Everything that some interleaving gets wrong; where they hang or match differently, only that."""
    return faults_of(run(program))


def faults_of(made: Run, alike: Sequence[int] | None = None) -> list[Fault]:
    """The faults of a program, from a run of it.

    `alike` is how many events of each agent, executed before all others, are of steps that the program has in common
    with one that has no fault: pairs of their accesses are not checked again.
    """
    found = [Fault(Kind.DEADLOCK, stuck=stuck) for stuck in made.stuck]
    found += [Fault(Kind.PHASE, second=u.event, unmatched=u) for u in made.unmatched]
    return found or [*_unordered(made, alike), *_unfinished(made)]


# ---------------------------------------------------------------- who is before whom


@dataclass(slots=True)
class _Touch:
    """One access of an event; `proxy` is its way to memory, `done` when it is complete.

    `proven`: its event is one that the program has in common with another one that has no fault.
    """

    event: Event
    access: Access
    writes: bool
    proxy: str
    stream: str
    done: Point | None
    proven: bool


class _Order:
    """Happens-before of accesses."""

    def __init__(self, made: Run):
        machine = made.program.machine
        self.in_order = {s.name for s in machine.streams if s.in_order}
        self.rules = {(f.source, f.target): f.writes_only for f in machine.fences}
        self.fences: dict[tuple[int, str, str], list[int]] = defaultdict(list)  # where an agent fences
        for events in made.events:
            for e in events:
                if type(e.step) is Fence:
                    self.fences[e.agent, e.step.source, e.step.target].append(e.position)

    def lacks(self, x: _Touch, y: _Touch) -> Lack | None:
        """Return what x lacks to be before y in every interleaving, None if it is before y."""
        if not self._complete(x, y):
            begun = Point(x.event.agent, x.event.position + 1)
            return Lack.COMPLETION if y.event.knows(begun) else Lack.ORDER
        if (x.proxy, y.proxy) in self.rules and (x.writes or not self.rules[x.proxy, y.proxy]):
            return None if self._fenced(x, y) else Lack.FENCE
        return None

    def _complete(self, x: _Touch, y: _Touch) -> bool:
        if y.event.knows(x.done):
            return True
        queued = x.stream in self.in_order and x.stream == y.stream
        return queued and x.event.agent == y.event.agent and x.event.position < y.event.position

    def _fenced(self, x: _Touch, y: _Touch) -> bool:
        """Return True if x's agent has fenced after the completion of x, and y knows it."""
        if x.done is None or x.done.component != x.event.agent:
            return False
        fences = self.fences[x.event.agent, x.proxy, y.proxy]
        first = next((at for at in fences if at >= x.done.time), None)
        return first is not None and y.event.knows(Point(x.event.agent, first + 1))


# ---------------------------------------------------------------- what must be ordered


def _unordered(made: Run, alike: Sequence[int] | None) -> Iterator[Fault]:
    touched = _touches(made, alike)
    if not touched:
        return
    order = _Order(made)
    for instances in touched:
        new = (n for n, touches in enumerate(instances) if not all(t.proven for group in touches for t in group))
        begin = next(new, len(instances))  # every pair needs one of these or of later instances
        for number, (writes, reads) in enumerate(instances[begin:], begin):
            for r in reads:
                box = r.access.box
                mine = [w for w in writes if not box or _meet(w.access.box, box)]
                there = r.proven or (r.access.instance == 0 and r.access.ring in made.program.initial)
                if not there and _left(box, [w.access.box for w in mine]):
                    yield Fault(Kind.UNWRITTEN, second=r.event, access=r.access)
                yield from _lacking(order, Kind.RAW, mine, r)
            for n, w in enumerate(writes):
                for other in writes[:n]:
                    both = not (w.proven and other.proven) and _meet(w.access.box, other.access.box)
                    if both and (lack := order.lacks(other, w)) and order.lacks(w, other):
                        yield Fault(Kind.WAW, other.event, w.event, w.access, lack)
                for earlier in range(number - 1, -1, -1):
                    earlier_writes, earlier_reads = instances[earlier]
                    yield from _lacking(order, Kind.WAR, earlier_reads, w)
                    yield from _lacking(order, Kind.WAW, earlier_writes, w)
                    if any(_contains(e.access.box, w.access.box) for e in earlier_writes):
                        break


def _lacking(order: _Order, kind: Kind, before: Iterable[_Touch], y: _Touch) -> Iterator[Fault]:
    for x in before:
        known = (x.proven and y.proven) or x.event is y.event
        if not known and _meet(x.access.box, y.access.box) and (lack := order.lacks(x, y)):
            yield Fault(kind, x.event, y.event, y.access, lack)


_AT_MEETINGS = (Arrive, Await, Meet, Do)
_Slot = tuple[str, int]  # of which ring, and which
_Instance = tuple[list[_Touch], list[_Touch]]  # its writes, its reads


def _slots(made: Run, alike: Sequence[int]) -> set[_Slot]:
    """The slots that later events touch than the first ones of each agent, whose number `alike` is."""
    places = _places(made.program)
    found: set[_Slot] = set()
    for e in (e for events, first in zip(made.events, alike, strict=True) for e in events[first:]):
        if type(e.step) is Do:
            found.update((a.ring, a.slot) for a in (*e.step.reads, *e.step.writes))
        if place := places.get(_meeting(e)):
            found.add((place, 0))
    return found


def _touches(made: Run, alike: Sequence[int] | None) -> list[list[_Instance]]:
    """The accesses to each slot, instance by instance; of slots that only events touch which are `alike`, none."""
    wanted = None if alike is None else _slots(made, alike)
    proxies = {s.name: s.proxy for s in made.program.machine.streams}
    places = _places(made.program)
    slots: dict[_Slot, dict[int, _Instance]] = defaultdict(dict)
    if wanted is not None and not wanted:
        return []
    for events, first in zip(made.events, alike or [0] * len(made.events), strict=True):
        for position, e in enumerate(events):
            proven = position < first
            if type(step := e.step) is Do:
                for writes, accesses in ((True, step.writes), (False, step.reads)):
                    for a in accesses:
                        if wanted is None or (a.ring, a.slot) in wanted:
                            proxy = a.proxy or proxies.get(step.stream, GENERIC)
                            touch = _Touch(e, a, writes, proxy, step.stream, e.done if writes else e.read, proven)
                            slots[a.ring, a.slot].setdefault(a.instance, ([], []))[not writes].append(touch)
            if places and (place := places.get(_meeting(e))) and (wanted is None or (place, 0) in wanted):
                touch = _Touch(e, Access(place, 0, 0), False, GENERIC, "", _over(e), proven)
                slots[place, 0].setdefault(0, ([], []))[1].append(touch)
    return [[found[i] for i in sorted(found)] for found in slots.values()]


def _places(program: Program) -> dict[str, str]:
    """The blocks in whose memory barrier objects lie, by the names of these."""
    return {m.name: m.place for m in program.meetings if m.place}


def _meeting(event: Event) -> str:
    """The barrier at which a step arrives, delivers or waits."""
    return event.step.meeting if isinstance(event.step, _AT_MEETINGS) else ""


def _over(event: Event) -> Point | None:
    """When it has been at its barrier: a step of its agent when it is done, what it started when it has delivered."""
    return event.done if isinstance(event.step, Do) else Point(event.agent, event.position + 1)


def _unfinished(made: Run) -> Iterator[Fault]:
    """Operations that may be under way when all agents have ended, on streams that must not leave any; what comes to a
    block of a cluster that may have ended.

    What is not seen to write need only have read: it writes where the block's end does not matter.
    """
    finish = {s.name for s in made.program.machine.streams if s.finish}
    for events in made.events:
        for e in events:
            if type(step := e.step) is Do and step.stream in finish:
                over = e.done if step.writes else e.read
                if not any(end.knows(over) for end in made.ends):
                    yield Fault(Kind.UNFINISHED, first=e)
    if not (places := _places(made.program)):
        return
    block = [a.block for a in made.program.agents]
    for e in (e for events in made.events for e in events if _meeting(e) in places):
        place = places[_meeting(e)]
        if not any(end.knows(_over(e)) for end in made.ends if block[end.agent] == place):
            yield Fault(Kind.UNFINISHED, first=e)


# ---------------------------------------------------------------- boxes


def _meet(x: Box, y: Box) -> bool:
    """Return True if two boxes have common elements; without ranges, a box is all of a slot."""
    return not x or not y or all(a < d and c < b for (a, b), (c, d) in zip(x, y, strict=False))


def _contains(x: Box, y: Box) -> bool:
    """Return True if x has all elements of y."""
    if not x or not y:
        return not x
    return all(a <= c and d <= b for (a, b), (c, d) in zip(x, y, strict=True))


def _left(box: Box, covers: list[Box]) -> bool:
    """Return True if elements of `box` are in none of the `covers`."""
    if not covers:
        return True
    first, *rest = covers
    if _contains(first, box):
        return False
    if not box:  # all of a slot: parts of it are not known to be all
        return _left(box, rest)
    return any(_left(part, rest) for part in _without(box, first))


def _without(box: Box, hole: Box) -> Iterator[Box]:
    """Boxes that together are `box` without `hole`."""
    if not _meet(box, hole):
        yield box
        return
    for n, ((a, b), (c, d)) in enumerate(zip(box, hole, strict=True)):
        inside = tuple((max(p, r), min(q, s)) for (p, q), (r, s) in zip(box[:n], hole[:n], strict=True))
        if a < c:
            yield (*inside, (a, c), *box[n + 1 :])
        if d < b:
            yield (*inside, (d, b), *box[n + 1 :])
