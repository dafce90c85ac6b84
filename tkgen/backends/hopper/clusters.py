"""The schedule of a cluster, made of that of a block: what its blocks copy for each other, and where they meet.

All blocks are there: `full s of b` is that of block b, and so are its agents and rings. A copy of a tile that they have
in common brings a part of it to all of them: it is one for each, which writes there and delivers its bytes there; so a
consumer gives a stage back to every block, as every block copies into it. The mbarriers lie in `block b`, which its
first thread sets up and which is gone when the last of its threads is: `cluster` is where all threads meet behind the
first and before the second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tkgen.proof.program import Access, Arrive, Await, Do, Loop, Looped, Meet, Meeting, Step


@dataclass(frozen=True)
class Cluster:
    """So many blocks that have the tiles of `common` in common: the rings of a side, A or B.

    A stage of a block has so many `copies` of these.
    """

    blocks: int
    common: str
    copies: int


def clustered(loop: Loop, cluster: Cluster) -> Loop:
    """The loop of all blocks, each of which runs `loop`: its first agent is the producer."""
    blocks = range(cluster.blocks)
    meetings = [_meeting(m, b, cluster) for b in blocks for m in loop.meetings]
    agents = [_agent(a, b, cluster, producer=a is loop.agents[0]) for b in blocks for a in loop.agents]
    slots = {_of(ring, b): count for b in blocks for ring, count in loop.slots.items()}
    slots |= {_place(b): 1 for b in blocks}
    advance = {_of(name, b): by for b in blocks for name, by in loop.advance.items()}
    meetings.append(Meeting("cluster", len(agents)))
    return Loop(tuple(agents), tuple(meetings), slots, advance, loop.machine)


def _of(name: str, block: int) -> str:
    return f"{name} of {block}"


def _place(block: int) -> str:
    """The memory of a block."""
    return f"block {block}"


def _met() -> tuple[Step, ...]:
    """A meeting of all threads of the cluster."""
    return (Meet("cluster"),)


def _meeting(meeting: Meeting, block: int, cluster: Cluster) -> Meeting:
    arrivals = meeting.arrivals * (cluster.blocks if meeting.name.startswith("empty") else 1)
    return replace(meeting, name=_of(meeting.name, block), arrivals=arrivals,
                   place=_place(block) if meeting.phased else "")  # fmt: skip


def _agent(agent: Looped, block: int, cluster: Cluster, producer: bool) -> Looped:
    before, body, behind = (tuple(new for step in part for new in _steps(step, block, cluster))
                            for part in (agent.prologue, agent.body, agent.epilogue))  # fmt: skip
    place = _place(block)
    sets_up = (Do(writes=(Access(place, 0, 0),), name=f"set up the mbarriers of {place}"),) if producer else ()
    return Looped(_of(agent.name, block), (*sets_up, *_met(), *before), body, (*behind, *_met()), place)


def _steps(step: Step, block: int, cluster: Cluster) -> Iterator[Step]:
    """Steps of block number `block` for a step of a block's own schedule."""
    match step:
        case Do(stream="copies", writes=(access,)) if access.ring[0] == cluster.common:
            part = replace(access, box=(*access.box, (block, block + 1)))
            for to in range(cluster.blocks):
                yield replace(step, writes=(_there(part, to),), meeting=_of(step.meeting, to))
        case Do():
            reads, writes = (tuple(_whole(a, block, cluster) for a in group) for group in (step.reads, step.writes))
            meeting = _of(step.meeting, block) if step.meeting else ""
            yield replace(step, reads=reads, writes=writes, meeting=meeting)
        case Arrive(bytes=0) if step.meeting.startswith("empty"):
            yield from _given_back(step, cluster)
        case Arrive():
            others = cluster.copies * (cluster.blocks - 1) if step.bytes else 0
            yield replace(step, meeting=_of(step.meeting, block), bytes=step.bytes + others)
        case Await() | Meet():
            yield replace(step, meeting=_of(step.meeting, block))
        case _:
            yield step


def _given_back(step: Arrive, cluster: Cluster) -> list[Step]:
    """A stage is given back to all that copy into it."""
    return [replace(step, meeting=_of(step.meeting, block)) for block in range(cluster.blocks)]


def _there(access: Access, block: int) -> Access:
    return replace(access, ring=_of(access.ring, block))


def _whole(access: Access, block: int, cluster: Cluster) -> Access:
    """An access of a block's own, to all parts of a tile that the blocks have in common."""
    common = access.ring[0] == cluster.common
    return _there(replace(access, box=(*access.box, (0, cluster.blocks))) if common else access, block)


def alone(step: Do, cluster: Cluster) -> Do:
    """An operation as a block by itself has it: names without the block's, tiles in common as wholes."""

    def plain(access: Access) -> Access:
        box = access.box[:-1] if access.ring[0] == cluster.common else access.box
        return replace(access, ring=access.ring.rsplit(" of ", 1)[0], box=box)

    reads, writes = (tuple(map(plain, group)) for group in (step.reads, step.writes))
    return replace(step, reads=reads, writes=writes)
