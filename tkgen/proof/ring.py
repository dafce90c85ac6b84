"""The placement of arrivals and waits in a pipeline over a ring of slots: as few as possible, as weak as possible.

One role fills the slots of some rings, item after item; others empty them. Item i is instance i of each ring, in slot
i mod S. Two orders are required (`tkgen.proof.program`): what fills item i before what reads it (RAW), and what reads
item i before what fills item i + S (WAR). So each slot has two barriers: `full`, at which the filling role arrives, and
`empty`, at which all that read do. Each item takes one arrival and one wait of each role. That is the fewest: nothing
less than an arrival here and a wait there orders two roles in one direction.

**The places.** The wait for `full` stands right before the first read of an item, that for `empty` right before the
first write. An arrival stands right after the step with which the last access to an item is known to be complete, and
fenced where the other role takes another way to memory: the access itself, or the wait that completes its group, which
may be `lag` items further on. Copies that deliver bytes arrive by themselves; their role says how many it expects right
before the first of them.

**Weakest.** An arrival that stands earlier leaves an access behind it, a wait that stands later an access before it,
which the proof refuses; any other placement that is right has its arrivals later and its waits earlier, and so orders
all that this one does. (Where a role only delivers bytes, the place at which it expects them orders nothing.)
`tests/proof/test_ring.py` tries all other places of each role of small pipelines.

**One phase bit is enough**: the filling role waits for `empty` of a slot before it arrives at its `full` again, a
reading one for `full` before it arrives at `empty`; so neither barrier is ever two phases ahead of who waits for it.

**Slots.** Before the filling role fills item i it waits for item i - S to be given back; by then it has arrived for
items up to i - 1 - lag, and a reader gives back an item when it has come `lag` items further. So a ring has more slots
than the lags of the filling role and of any reader together; with fewer, all wait for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tkgen.proof.clock import NEVER, Event, run
from tkgen.proof.program import (
    Access,
    Agent,
    Arrive,
    Await,
    Commit,
    Do,
    Drain,
    Fence,
    Loop,
    Looped,
    Meeting,
    Program,
    Step,
)
from tkgen.targets.synchronisation import GENERIC, Completion, Synchronisation


@dataclass(frozen=True)
class Role:
    """The steps of one agent for item 0, without synchronisation, and before the first item and after the last.

    A filling role waits after the last item for its operations under way. Each ring advances by an instance an item.
    Copies that deliver bytes say how many; the placement says on what.
    """

    name: str
    item: tuple[Step, ...]
    before: tuple[Step, ...] = ()
    behind: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Pipeline:
    """Roles over the rings that they share, of `slots` slots each; `private` rings have so many slots of their own."""

    roles: tuple[Role, ...]
    shared: frozenset[str]
    slots: int
    private: Mapping[str, int]
    machine: Synchronisation

    @property
    def filling(self) -> Role:
        """The one role that writes the shared rings.

        Raises:
            ValueError: none does, or several do.
        """
        found = [r for r in self.roles if any(a.ring in self.shared for d in _dos(r) for a in d.writes)]
        if len(found) != 1:
            raise ValueError(f"{len(found)} roles fill {', '.join(sorted(self.shared))}")
        return found[0]

    def delivers(self, step: Step) -> bool:
        """Return True if a step is a copy whose bytes a barrier counts."""
        streams = {s.name for s in self.machine.streams if s.completion is Completion.BYTES}
        return isinstance(step, Do) and step.stream in streams


@dataclass(frozen=True)
class Place:
    """The positions at which a role waits for an item, before step `wait`, and releases one, before step `arrive`.

    That is the item `lag` items ago.
    """

    wait: int
    arrive: int
    lag: int = 0


def placed(pipeline: Pipeline) -> Loop:
    """The pipeline with its barriers, as a loop whose pass goes once round the ring.

    Raises:
        ValueError: not one role fills the rings; an access is never complete; there are too few slots.
    """
    places = {role.name: place(pipeline, role) for role in pipeline.roles}
    filling = places[pipeline.filling.name].lag
    held = filling + max(at.lag for name, at in places.items() if name != pipeline.filling.name)
    if held >= pipeline.slots:
        raise ValueError(f"{held} items are held at a time, so the ring must have more than {pipeline.slots} slots")
    return with_places(pipeline, places)


def place(pipeline: Pipeline, role: Role) -> Place:
    """The weakest place of a role's wait and arrival."""
    first = next(n for n, step in enumerate(role.item) if _shared(pipeline, step))
    if all(pipeline.delivers(step) for step in role.item if _shared(pipeline, step)):
        return Place(first, first)
    lag, arrive = _released(pipeline, role)
    return Place(first, arrive, lag)


def _released(pipeline: Pipeline, role: Role) -> tuple[int, int]:
    """(lag, step) before which all accesses to an item are known to be complete, and fenced."""
    midst, length = pipeline.slots, len(role.item)
    # What delivers bytes arrives by itself: alone, a role has nobody to whom.
    items = [Do() if pipeline.delivers(s) else s for i in range(2 * midst + 2) for s in _item(pipeline, role, i)]
    events = run(Program((Agent(role.name, tuple(items)),), (), pipeline.machine)).events[0]
    known = max(
        _known(pipeline, role, events, e, access)
        for e in events[midst * length : (midst + 1) * length]
        for access in _shared(pipeline, e.step)
    )
    if known is NEVER:
        raise ValueError(f"{role.name} never waits for what it does with an item")
    lag, last = divmod(int(known) - 1, length)
    return lag - midst, last + 1


def _known(pipeline: Pipeline, role: Role, events: Sequence[Event], event: Event, access: Access) -> float:
    """The position from which an access is known to be complete, and after the fence that others' accesses need."""
    step = event.step
    assert isinstance(step, Do)
    done = event.done if access in step.writes else event.read
    if done is None:
        return NEVER
    mine = _proxy(pipeline, step, access)
    theirs = {
        _proxy(pipeline, other, touched)
        for other in (d for r in pipeline.roles if r is not role for d in _dos(r))
        for touched in (*other.reads, *other.writes)
        if touched.ring == access.ring
    }
    fences = [
        Fence(rule.source, rule.target)
        for rule in pipeline.machine.fences
        if rule.source == mine and rule.target in theirs and (access in step.writes or not rule.writes_only)
    ]
    return max((_first(events, fence, done.time) for fence in fences), default=done.time)


def _first(events: Sequence[Event], fence: Fence, known: float) -> float:
    """The position after the first such fence from a position on."""
    return next((e.position + 1 for e in events if e.step == fence and e.position >= known), NEVER)


def _proxy(pipeline: Pipeline, step: Do, access: Access) -> str:
    stream = next((s for s in pipeline.machine.streams if s.name == step.stream), None)
    return access.proxy or (stream.proxy if stream else GENERIC)


def _dos(role: Role) -> Iterator[Do]:
    yield from (step for step in role.item if isinstance(step, Do))


def _shared(pipeline: Pipeline, step: Step) -> list[Access]:
    """List the accesses of a step to the shared rings."""
    return [a for a in (*step.reads, *step.writes) if a.ring in pipeline.shared] if isinstance(step, Do) else []


# ---------------------------------------------------------------- the loop


def with_places(pipeline: Pipeline, places: Mapping[str, Place]) -> Loop:
    """The pipeline with its barriers at these places."""
    slots = pipeline.slots
    peeled = max(p.lag for p in places.values())
    agents = []
    for role in pipeline.roles:
        parts = (range(peeled), range(peeled, peeled + slots))
        first, loop = (tuple(s for i in part for s in _met(pipeline, role, places[role.name], i)) for part in parts)
        behind = [_later(pipeline, step, peeled) for step in role.behind]
        if role is pipeline.filling:  # the last items, which nobody would wait for from a role that reads
            behind += [_arrival(pipeline, role, peeled - n) for n in range(places[role.name].lag, 0, -1)]
        agents.append(Looped(role.name, (*role.before, *first), loop, tuple(behind)))
    readers = len(pipeline.roles) - 1
    meetings = [Meeting(f"full {s}", 1, True) for s in range(slots)]
    meetings += [Meeting(f"empty {s}", readers, True) for s in range(slots)]
    advance = {m.name: 1 for m in meetings} | dict.fromkeys([*pipeline.shared, *pipeline.private], slots)
    rings = dict.fromkeys(pipeline.shared, slots) | dict(pipeline.private)
    return Loop(tuple(agents), tuple(meetings), rings, advance, pipeline.machine)


def _met(pipeline: Pipeline, role: Role, at: Place, i: int) -> Iterator[Step]:
    """The steps of a role on item i, with its wait and its arrival."""
    slots, fills, steps = pipeline.slots, role is pipeline.filling, _item(pipeline, role, i)
    for n, step in enumerate([*steps, None]):
        if n == at.wait:
            yield Await(f"{'empty' if fills else 'full'} {i % slots}", i // slots - fills)
        if n == at.arrive and i >= at.lag:
            yield _arrival(pipeline, role, i - at.lag)
        if isinstance(step, Do) and pipeline.delivers(step):
            yield replace(step, meeting=f"full {i % slots}")
        elif step is not None:
            yield step


def _arrival(pipeline: Pipeline, role: Role, i: int) -> Arrive:
    """A role is done with item i."""
    expected = sum(step.bytes for step in role.item if isinstance(step, Do) and pipeline.delivers(step))
    return Arrive(f"{'full' if role is pipeline.filling else 'empty'} {i % pipeline.slots}", bytes=expected)


def _item(pipeline: Pipeline, role: Role, i: int) -> list[Step]:
    return [_later(pipeline, step, i) for step in role.item]


def _later(pipeline: Pipeline, step: Step, items: int) -> Step:
    """A step so many items later."""
    if not isinstance(step, Do):
        assert isinstance(step, Commit | Drain | Fence), f"{step} among the steps of a role"
        return step

    def moved(a: Access) -> Access:
        slots = pipeline.slots if a.ring in pipeline.shared else pipeline.private[a.ring]
        return replace(a, instance=a.instance + items, slot=(a.slot + items) % slots)

    return replace(step, reads=tuple(map(moved, step.reads)), writes=tuple(map(moved, step.writes)))
