"""Loops whose iterations use the slots of their rings and barriers in rotation: a shorter iteration for the proof.

An output tile of 8 K-steps takes a ring of 5 stages once around and 3 stages further: after 5 tiles everything is where
it was. A loop whose iteration is 5 tiles is large. But the second tile is the first one with other slots: `full 3`
instead of `full 0`, for example. So an iteration may be one tile, if the next iteration is this one *rotated*: each
barrier has another one in its place, some phases further, and each ring is some instances further, which also says its
slots.

**Why it is enough.** The proof asks which events are the same barrier's, which accesses the same slot's, and for
differences of phases and instances on one barrier or ring. Renaming barriers and slots, one to one, changes none of
these. So everything that `tkgen.proof.passes` says of iterations that are the one before them, moved on, it says of
rotated ones, too. An iteration of several tiles is several iterations here: this loop is proven for any number of
tiles, that one for multiples of its own.

`rotated` believes nothing: it compares tiles that the program itself has made, step by step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tkgen.proof.program import Access, Arrive, Await, Do, Loop, Looped, Meet, Step


def rotated(loop: Loop, parts: int = 2) -> Loop | None:
    """The loop whose iteration is the first of equal `parts` of an iteration, each the one before it, rotated.

    `advance` of `loop` is not used: it may be one that does not bring everything to where it was. All barriers of the
    iteration after the last part must have been named. None where parts differ in anything else, or where steps after
    the loop name instances or phases.
    """
    if any(isinstance(step, Do | Arrive | Await) for agent in loop.agents for step in agent.epilogue):
        return None
    agents, found = [], _Rotation(loop)
    for agent in loop.agents:
        length, rest = divmod(len(agent.body), parts)
        pairs = zip(agent.body, agent.body[length:], strict=False)
        if rest or not all(found.matches(step, later) for step, later in pairs):
            return None
        agents.append(replace(agent, body=agent.body[:length]))
    return found.loop(agents)


class _Rotation:
    """The barriers and slots that take the places of others from one part of an iteration to the next."""

    def __init__(self, loop: Loop):
        self.whole = loop
        self.names: dict[str, str] = {}  # of each barrier: the one in its place
        self.phases: dict[str, int] = {}  # and by how many phases that is further, where something waits for it
        self.rings: dict[str, int] = {}  # instances of each ring

    def matches(self, step: Step, later: Step) -> bool:
        """Return True if `later` is `step`, rotated as all steps before it are."""
        if type(step) is not type(later):
            return False
        match step, later:
            case Do(), Do():
                accesses = zip((*step.reads, *step.writes), (*later.reads, *later.writes), strict=False)
                return (
                    (len(step.reads), len(step.writes)) == (len(later.reads), len(later.writes))
                    and (step.stream, step.units, step.bytes, step.waited, step.name)
                    == (later.stream, later.units, later.bytes, later.waited, later.name)
                    and self._named(step.meeting, later.meeting)
                    and all(self._moved(*pair) for pair in accesses)
                )
            case Arrive() | Meet(), Arrive() | Meet():
                return self._named(step.meeting, later.meeting) and replace(later, meeting=step.meeting) == step
            case Await(), Await():
                further = later.phase - step.phase
                return (
                    self._named(step.meeting, later.meeting)
                    and self.phases.setdefault(step.meeting, further) == further
                )
        return step == later

    def _named(self, name: str, later: str) -> bool:
        return name == later == "" or self.names.setdefault(name, later) == later

    def _moved(self, a: Access, b: Access) -> bool:
        by = b.instance - a.instance
        return (
            (a.ring, a.box, a.proxy) == (b.ring, b.box, b.proxy)
            and self.rings.setdefault(a.ring, by) == by
            and (a.slot + by - b.slot) % self.whole.slots[a.ring] == 0
        )

    def loop(self, agents: list[Looped]) -> Loop | None:
        """The loop of these agents, who have a part of each body; None where the rotation is not one to one."""
        arrivals = {m.name: m.arrivals for m in self.whole.meetings}
        if set(self.names) != set(self.names.values()) or any(
            arrivals[name] != arrivals[later] for name, later in self.names.items()
        ):
            return None
        for name in self.names.keys() - self.phases.keys():
            if self.names[name] != name:
                return None  # nothing waits, so nothing says how many phases
            self.phases[name] = sum(_arrivals(agents, name)) // arrivals[name]
        names = {name: later for name, later in self.names.items() if name != later}
        return replace(self.whole, agents=tuple(agents), advance=self.phases | self.rings, rotation=names)


def _arrivals(agents: list[Looped], meeting: str) -> Iterator[int]:
    steps = (step for agent in agents for step in agent.body)
    return (step.count for step in steps if isinstance(step, Arrive | Meet) and step.meeting == meeting)
