"""A program executed in one order: what each order finds, and that it never finds what the proof does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from small_programs import MACHINE, cluster, program

from tkgen.proof.execution import Order, Parts, execute, orders
from tkgen.proof.faults import faults
from tkgen.proof.program import (
    Access,
    Agent,
    Arrive,
    Await,
    Commit,
    Do,
    Drain,
    Fence,
    Meet,
    Meeting,
    Program,
    Step,
)

STREAMS = [s.name for s in MACHINE.streams]


class Instances:
    """Cells hold the instance that was written; `wrong` are reads that find another, or what nobody can know."""

    def __init__(self) -> None:
        self.wrong: list[str] = []

    def do(self, agent: int, step: Do, found: Sequence[Parts]) -> Sequence[Parts]:
        for access, parts in zip(step.reads, found, strict=True):
            if any(part != access.instance for part in parts):
                self.wrong.append(f"{access} finds {parts}")
        return [(a.instance,) * max(1, sum(hi - lo for lo, hi in a.box)) for a in step.writes]

    def lost(self, agent: int, step: Do) -> None:
        self.wrong.append(f"lost: {step}")


def found(made: Program, order: Order) -> list[str]:
    work = Instances()
    return [*execute(made, work, order).findings, *work.wrong]


def of(*agents: Sequence[Step], meetings: Sequence[Meeting] = ()) -> Program:
    named = tuple(Agent(f"agent {n}", tuple(steps)) for n, steps in enumerate(agents))
    return Program(named, tuple(meetings), MACHINE)


def compare(seeds: range, count: int, made_of: Callable[[int], Program] = program) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seed in seeds:
        made = made_of(seed)
        proven = not faults(made)
        seen = [what for order in orders(count, STREAMS) for what in found(made, order)]
        assert not (proven and seen), f"seed {seed}: {seen[:3]}"
        counts["right" if proven else "found" if seen else "not found"] += 1
    return counts


def test_no_order_finds_what_the_proof_does_not() -> None:
    counts = compare(range(150), 12)
    assert counts["right"] > 20 and counts["found"] > counts["not found"] > 0, counts


def test_no_order_of_a_cluster_finds_what_the_proof_does_not() -> None:
    counts = compare(range(100), 12, cluster)
    assert counts["right"] > 10 and counts["found"] > counts["not found"] > 0, counts


def test_a_block_that_is_not_there_yet_or_no_more_is_seen() -> None:
    """The second agent arrives in the memory of the first one's block."""
    met, sets_up, arrives = Meet("cluster"), Do(writes=(Access("here", 0, 0),)), Arrive("empty")
    meetings = (Meeting("empty", 1, True, "here"), Meeting("cluster", 2))

    def program(owner: list[Step], other: list[Step]) -> Program:
        return Program((Agent("owner", tuple(owner), "here"), Agent("other", tuple(other), "there")), meetings, MACHINE)

    def kinds(made: Program) -> list[str]:
        return [f.kind.value for f in faults(made)]

    right = program([sets_up, met, met], [met, arrives, met])
    assert not kinds(right) and not found(right, Order("last"))
    early = program([met, sets_up, met], [met, arrives, met])
    assert kinds(early) == ["read after write"]
    late = program([sets_up, met], [met, arrives])
    assert kinds(late) == ["under way when the block ends"]
    text = "`empty` is used before it is set up, or when its block has ended"
    assert found(early, Order("last")) == [text] and found(late, Order("first")) == [text]


@pytest.mark.slow
def test_no_order_of_5000_programs_finds_what_the_proof_does_not() -> None:
    compare(range(400, 5400), 24)


RING = [Meeting("full", 1, True), Meeting("empty", 1, True)]
PRODUCER = [
    step
    for i in range(3)
    for step in (
        Await("empty", i - 1),
        Arrive("full", bytes=1),
        Do(writes=(Access("X", i, 0),), stream="copy", meeting="full", bytes=1),
    )
]
CONSUMER = [
    step
    for i in range(3)
    for step in (
        Await("full", i),
        Do(reads=(Access("X", i, 0),), stream="mma"),
        Commit("mma"),
        Drain("mma"),
        Arrive("empty"),
    )
]
LATE, EARLY = Order("first", frozenset()), Order()


def without(steps: Sequence[Step], *dropped: type[Step]) -> list[Step]:
    return [step for step in steps if not isinstance(step, dropped)]


def test_a_ring_is_right_in_all_orders() -> None:
    ring = of(PRODUCER, CONSUMER, meetings=RING)
    assert not [what for order in orders(30, STREAMS) for what in found(ring, order)]


def test_a_product_that_nobody_waited_for_reads_what_comes_next() -> None:
    ring = of(PRODUCER, without(CONSUMER, Drain), meetings=RING)
    assert not found(ring, EARLY)
    assert any("X[0] in slot 0 finds (2,)" in what for what in found(ring, LATE))


def test_a_copy_that_nobody_waited_for_has_not_come() -> None:
    ring = of(PRODUCER[:3], without(CONSUMER[:5], Await), meetings=RING)
    assert "lost: read X[0] in slot 0" in found(ring, Order("last", frozenset()))
    assert not found(ring, Order("first"))


def test_a_deadlock_says_who_waits_for_what() -> None:
    ring = of(PRODUCER, without(CONSUMER, Arrive), meetings=RING)
    assert found(ring, EARLY) == [
        "agent 0 waits for ever for phase 0 of `empty`, whose phase 0 lacks 1 arrivals",
        "agent 1 waits for ever for phase 1 of `full`, whose phase 1 lacks 1 arrivals",
    ]


def test_bytes_that_never_come() -> None:
    steps = [Arrive("full", bytes=2), *PRODUCER[2:3]]
    assert found(of(steps, [Await("full", 0)], meetings=RING), LATE) == [
        "agent 1 waits for ever for phase 0 of `full`, whose phase 0 lacks 1 parts on their way"
    ]


def test_a_phase_too_many_is_taken_for_the_one_before() -> None:
    """The wait for phase 0 is told its parity alone: phase 2 releases it, too, and phase 1 does not."""
    three = [Arrive("empty")] * 2
    assert found(of(three, [Await("empty", 0)], meetings=RING), Order("first")) == [
        "agent 1 waits for ever for phase 0 of `empty`, whose phase 2 lacks 1 arrivals"
    ]
    assert not found(of(three, [Await("empty", 0)], meetings=RING), Order("last"))


def test_what_was_stored_without_a_fence_is_not_seen_by_copies() -> None:
    store: list[Step] = [Do(writes=(Access("P", 0, 0),)), Fence("generic", "async"), Meet("all")]
    take: list[Step] = [Meet("all"), Do(reads=(Access("P", 0, 0),), stream="bulk"), Commit("bulk"), Drain("bulk")]
    meetings = [Meeting("all", 2)]
    assert not found(of(store, take, meetings=meetings), EARLY)
    assert found(of(without(store, Fence), take, meetings=meetings), EARLY) == ["lost: read P[0] in slot 0"]
    ordinary: list[Step] = [Meet("all"), Do(reads=(Access("P", 0, 0),))]
    assert not found(of(without(store, Fence), ordinary, meetings=meetings), EARLY)


def test_what_is_under_way_at_the_end_finds_no_memory() -> None:
    take: list[Step] = [Do(writes=(Access("P", 0, 0),)), Fence("generic", "async")]
    take += [Do(reads=(Access("P", 0, 0),), stream="bulk", name="a store"), Commit("bulk")]
    assert found(of(take), LATE) == ["under way when the block ends: a store", "lost: a store"]
    assert not found(of(take), EARLY) and not found(of([*take, Drain("bulk", reads_only=True)]), LATE)


def test_arrivals_beyond_those_expected_are_seen() -> None:
    twice = [Arrive("full", bytes=1), Arrive("full"), *PRODUCER[2:3]]
    assert found(of(twice, meetings=RING), LATE)[0] == "`full` gets more arrivals than it expects"


def test_orders_have_names() -> None:
    names = [str(order) for order in orders(7, ["copies", "stores"])]
    assert names[:3] == ["turn, all early", "first, all late", "last, all late"]
    assert names[3:] == ["turn, copies early", "turn, stores early", "random 1", "random 2"]
