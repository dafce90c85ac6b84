"""The usual pipeline of a machine with asynchronous copies: one agent copies to a ring, others multiply from it."""

from __future__ import annotations

from dataclasses import dataclass

from small_programs import MACHINE

from tkgen.proof.program import Access, Arrive, Await, Commit, Do, Drain, Fence, Loop, Looped, Meet, Meeting, Step

BYTES = 64


@dataclass(frozen=True)
class Shape:
    """`slots` of the ring, all of which an iteration of the loop fills; `flight` groups of products may be under
    way."""

    slots: int = 3
    consumers: int = 2
    flight: int = 1


def pipeline(shape: Shape) -> Loop:
    """Copies, products, and the store of the sums through a tile in LDS. The first `flight` items are peeled."""
    slots, consumers = shape.slots, shape.consumers
    ahead, body = range(shape.flight), range(shape.flight, shape.flight + slots)
    meetings = [Meeting(f"full {s}", 1, True) for s in range(slots)]
    meetings += [Meeting(f"empty {s}", consumers, True) for s in range(slots)]
    agents = [Looped("producer", _copies(ahead, slots), _copies(body, slots))]
    agents += [_consumer(n, shape) for n in range(consumers)]
    advance = {m.name: 1 for m in meetings} | dict.fromkeys("AB", slots)
    advance |= {f"sums {n}": slots for n in range(consumers)}
    rings = {"A": slots, "B": slots, "staging": 1} | {f"sums {n}": 1 for n in range(consumers)}
    return Loop(tuple(agents), (*meetings, Meeting("consumers", consumers)), rings, advance, MACHINE)


def _copies(items: range, slots: int) -> tuple[Step, ...]:
    steps: list[Step] = []
    for i in items:
        s = i % slots
        steps += [Await(f"empty {s}", i // slots - 1), Arrive(f"full {s}", bytes=2 * BYTES)]
        for operand in "AB":
            copy = Do(writes=(Access(operand, i, s),), stream="copy", meeting=f"full {s}", bytes=BYTES)
            steps.append(copy)
    return tuple(steps)


def _consumer(n: int, shape: Shape) -> Looped:
    slots, flight, sums = shape.slots, shape.flight, f"sums {n}"

    def products(i: int) -> list[Step]:
        reads = (Access("A", i, i % slots), Access("B", i, i % slots), Access(sums, i, 0))
        product = Do(reads=reads, writes=(Access(sums, i + 1, 0),), stream="mma")
        return [Await(f"full {i % slots}", i // slots), product, Commit("mma")]

    zero: list[Step] = [Do(writes=(Access(sums, 0, 0),)), Fence("generic", "async")]
    prologue = [*zero, *(step for i in range(flight) for step in products(i))]
    body: list[Step] = []
    for i in range(flight, flight + slots):
        body += [*products(i), Drain("mma", flight), Arrive(f"empty {(i - flight) % slots}")]
    part = Access("staging", 0, 0, ((n, n + 1),))
    epilogue: list[Step] = [Drain("mma"), Do(reads=(Access(sums, flight, 0),), writes=(part,))]
    epilogue += [Fence("generic", "async"), Meet("consumers")]
    if n == 0:
        whole = Access("staging", 0, 0, ((0, shape.consumers),))
        epilogue += [Do(reads=(whole,), stream="bulk"), Commit("bulk"), Drain("bulk")]
    return Looped(f"consumer {n}", tuple(prologue), tuple(body), tuple(epilogue))
