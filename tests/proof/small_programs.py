"""Small random programs: two or three agents, barriers of every kind, streams and fences, a slip of the pen or two."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tkgen.proof.program import (
    Access,
    Agent,
    Arrive,
    Await,
    Box,
    Commit,
    Do,
    Drain,
    Fence,
    Meet,
    Meeting,
    Program,
    Step,
)
from tkgen.targets.synchronisation import synchronisation

MACHINE = synchronisation(tomllib.loads((Path(__file__).parent / "machine.toml").read_text(encoding="utf-8")))

WHOLE: Box = ((0, 2),)
Steps = list[list[Step]]
Made = tuple[Steps, list[Meeting]]


def program(seed: int) -> Program:
    """The random program of that number."""
    rng = random.Random(seed)
    makers: list[Callable[[random.Random], Made]] = [
        _ring,
        _ring,
        _ring,
        _staged,
        _barriers,
        _named,
        _phases,
        _staged,
        _scattered,
    ]
    steps, meetings = rng.choice(makers)(rng)
    for _ in range(rng.choice([0, 0, 1, 1, 2])):
        steps, meetings = slipped(rng, steps, meetings)
    agents = tuple(Agent(f"agent {n}", tuple(mine)) for n, mine in enumerate(steps))
    return Program(agents, tuple(meetings), MACHINE)


def cluster(seed: int) -> Program:
    """The same in two blocks: agents and barriers are of one or the other, and all meet at the beginning and the end.

    Or not: some of these barriers are left out, by all agents, or come before the barriers are set up.
    """
    rng, made = random.Random(seed), program(seed)
    blocks = ("block 0", "block 1")
    of = [blocks[0], blocks[1], *(rng.choice(blocks) for _ in made.agents[2:])]
    first, last, early = (rng.random() < share for share in (0.8, 0.8, 0.1))
    met: list[Step] = [Meet("cluster")]
    agents = []
    for n, agent in enumerate(made.agents):
        sets_up: list[Step] = [Do(writes=(Access(of[n], 0, 0),))] if of.index(of[n]) == n else []
        before = [*met * first, *sets_up] if early else [*sets_up, *met * first]
        agents.append(Agent(agent.name, (*before, *agent.steps, *met * last), of[n]))
    meetings = [replace(m, place=rng.choice(blocks)) if m.phased else m for m in made.meetings]
    return replace(made, agents=tuple(agents), meetings=(*meetings, Meeting("cluster", len(agents))))


# ---------------------------------------------------------------- patterns


def _ring(rng: random.Random) -> Made:
    """A producer fills slots, consumers empty them; each slot has a barrier for full and one for empty."""
    consumers = rng.choice([1, 1, 2])
    slots = rng.choice([1, 2])
    instances = rng.choice([2, 3]) if consumers == 2 else rng.choice([2, 3, 4])
    by = rng.choice(["copy", "copy", "vm", "alone"])
    reading = rng.choice(["alone", "lds", "mma"])
    meetings = [Meeting(f"full {s}", 1, True) for s in range(slots)]
    meetings += [Meeting(f"empty {s}", consumers, True) for s in range(slots)]
    producer: list[Step] = []
    for i in range(instances):
        slot, turn = i % slots, i // slots
        here = (Access("X", i, slot, WHOLE),)
        if turn or rng.random() < 0.5:
            producer.append(Await(f"empty {slot}", turn - 1))
        if by == "copy":
            parts = rng.choice([1, 1, 2])
            producer.append(Arrive(f"full {slot}", bytes=8 * parts))
            for part in range(parts):
                box = WHOLE if parts == 1 else ((part, part + 1),)
                producer.append(Do(writes=(replace(here[0], box=box),), stream="copy", meeting=f"full {slot}", bytes=8))
        else:
            stream = "vm" if by == "vm" else ""
            producer.append(Do(writes=here, stream=stream))
            producer += [Drain("vm")] if stream else []
            producer += [Fence("generic", "async")] if reading == "mma" else []
            producer.append(Arrive(f"full {slot}"))
    late = rng.random() < 0.3 and slots > 1 and reading == "mma"
    return [producer, *(_consumer(reading, instances, slots, late) for _ in range(consumers))], meetings


def _consumer(reading: str, instances: int, slots: int, late: bool) -> list[Step]:
    steps: list[Step] = []
    for i in range(instances):
        slot = i % slots
        steps += [Await(f"full {slot}", i // slots), Do(reads=(Access("X", i, slot, WHOLE),), stream=_stream(reading))]
        if reading == "mma":
            steps += [Commit("mma"), Drain("mma", 1 if late else 0)]
        elif reading == "lds":
            steps.append(Drain("lds"))
        if not late:
            steps.append(Arrive(f"empty {slot}"))
        elif i:
            steps.append(Arrive(f"empty {(i - 1) % slots}"))
    return steps


def _stream(name: str) -> str:
    return "" if name == "alone" else name


def _barriers(rng: random.Random) -> Made:
    """Everybody writes a part, meets, reads everything, meets."""
    agents, slots = rng.choice([2, 2, 3]), rng.choice([1, 2])
    stream = rng.choice(["", "vm", "lds"])
    steps: Steps = []
    for n in range(agents):
        mine: list[Step] = []
        for i in range(2):
            if n < 2:
                box: Box = ((n, n + 1),)
                mine.append(Do(writes=(Access("X", i, i % slots, box),), stream=stream))
                mine += [Drain(stream)] if stream else []
            mine.append(Meet("all"))
            mine.append(Do(reads=(Access("X", i, i % slots, WHOLE),), stream="lds"))
            mine.append(Drain("lds", rng.choice([0, 0, 0, 1])))
            mine += [Meet("all")] if slots == 1 else []
        steps.append(mine)
    return steps, [Meeting("all", agents)]


def _named(rng: random.Random) -> Made:
    """Two named barriers between two agents, one of whom may arrive without waiting; a third meets all at the end."""
    slots = 1
    first: list[Step] = []
    second: list[Step] = []
    for i in range(2):
        write, read = (Do(writes=(Access("X", i, i % slots, WHOLE),)), Do(reads=(Access("X", i, i % slots, WHOLE),)))
        first += [write, rng.choice([Arrive("there"), Meet("there")]), Meet("gone")]
        second += [Meet("there"), read, rng.choice([Arrive("gone"), Meet("gone")])]
    steps: Steps = [first, second]
    meetings = [Meeting("there", 2), Meeting("gone", 2)]
    if rng.random() < 0.5:
        for mine in steps:
            mine.append(Meet("all"))
        first.insert(0, Do(writes=(Access("Y", 0, 0),)))
        steps.append([Meet("all"), Do(reads=(Access("Y", 0, 0),))])
        meetings.append(Meeting("all", 3))
    return steps, meetings


def _phases(rng: random.Random) -> Made:
    """One barrier phase after phase; who waits skips some, and all meet now and then."""
    first: list[Step] = []
    second: list[Step] = []
    for i in range(rng.choice([2, 3, 4])):
        first += [Do(writes=(Access("X", i, i % 2),)), Arrive("phase")]
        if rng.random() < 0.8:
            second.append(Await("phase", i))
        second += [Do(reads=(Access("X", i, i % 2),))] if rng.random() < 0.5 else []
        if rng.random() < 0.6:
            first.append(Meet("all"))
            second.append(Meet("all"))
    return [first, second], [Meeting("phase", 1, True), Meeting("all", 2)]


def _staged(rng: random.Random) -> Made:
    """Results go to a slot, are stored from there by one agent, and the slot is written again."""
    steps: Steps = [[], []]
    for i in range(2):
        for n, mine in enumerate(steps):
            mine += [
                Do(writes=(Access("S", i, 0, ((n, n + 1),)),)),
                Fence("generic", "async"),
                Meet("all"),
            ]
        steps[0] += [
            Do(reads=(Access("S", i, 0, WHOLE),), writes=rng.choice([(), (Access("G", i, i),)]), stream="bulk"),
            Commit("bulk"),
            Drain("bulk", rng.choice([0, 0, 0, 1]), rng.random() < 0.7),
        ]
        for mine in steps:
            mine.append(Meet("all"))
    steps[0] += [Drain("bulk", 0, rng.random() < 0.4)] if rng.random() < 0.7 else []
    if rng.random() < 0.4:  # registers that a group of products updates
        mine = steps[1]
        mine[:0] = [
            Do(writes=(Access("R", 0, 0),)),
            Fence("generic", "async"),
            Do(reads=(Access("R", 0, 0),), writes=(Access("R", 1, 0),), stream="mma"),
            Do(reads=(Access("R", 1, 0),), writes=(Access("R", 2, 0),), stream="mma"),
            Commit("mma"),
            Drain("mma"),
            Do(reads=(Access("R", 2, 0),)),
        ]
    return steps, [Meeting("all", 2)]


def _scattered(rng: random.Random) -> Made:
    """Anything, in any order."""
    meetings = [Meeting("all", 2), Meeting("phase", rng.choice([1, 2]), True), Meeting("named", 2)]
    return [[_any(rng) for _ in range(rng.randint(2, 6))] for _ in range(2)], meetings


def _any(rng: random.Random) -> Step:
    access = Access("X", rng.choice([0, 0, 1]), 0, rng.choice([WHOLE, ((0, 1),), ((1, 2),)]))
    stream = rng.choice(["", "", "vm", "lds", "mma", "copy"])
    meeting, size = ("phase", 8) if stream == "copy" else ("", 0)
    choices: list[Step] = [
        Do(writes=(access,), stream=stream, meeting=meeting, bytes=size),
        Do(reads=(access,), stream="" if stream == "copy" else stream),
        Meet("all"),
        rng.choice([Meet("named"), Arrive("named")]),
        Arrive("phase", bytes=rng.choice([0, 0, 8])),
        Await("phase", rng.choice([0, 1])),
        Drain(rng.choice(["vm", "lds", "mma"]), rng.choice([0, 1])),
        rng.choice([Fence("generic", "async"), Commit("mma")]),
    ]
    return rng.choice(choices)


# ---------------------------------------------------------------- slips of the pen


def slipped(rng: random.Random, steps: Steps, meetings: list[Meeting]) -> Made:
    """One thing about a program changed."""
    steps = [list(mine) for mine in steps]
    mine = rng.choice([m for m in steps if m])
    at = rng.randrange(len(mine))
    kind = rng.choice(["drop", "double", "swap", "other", "other", "other", "count"])
    if kind == "count":
        n = rng.randrange(len(meetings))
        changed = max(1, meetings[n].arrivals + rng.choice([-1, 1]))
        return steps, [*meetings[:n], replace(meetings[n], arrivals=changed), *meetings[n + 1 :]]
    if kind == "drop":
        del mine[at]
    elif kind == "double":
        mine.insert(at, mine[at])
    elif kind == "swap" and at + 1 < len(mine):
        mine[at], mine[at + 1] = mine[at + 1], mine[at]
    else:
        mine[at] = _other(rng, mine[at])
    return steps, meetings


def _other(rng: random.Random, step: Step) -> Step:
    match step:
        case Await():
            return replace(step, phase=step.phase + 1)
        case Arrive():
            return (
                replace(step, bytes=max(0, step.bytes + rng.choice([-8, 8]))) if step.bytes else replace(step, count=2)
            )
        case Drain():
            return rng.choice([replace(step, left=step.left + 1), replace(step, reads_only=not step.reads_only)])
        case Do(writes=(access, *_)):
            return replace(step, writes=(replace(access, slot=1 - access.slot),))
        case Do(reads=(access, *_)):
            return replace(step, reads=(replace(access, instance=access.instance + 1),))
    return step
