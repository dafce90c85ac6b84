"""Numbers of iterations of a block's tiles that stand for all others in the proof of fused matmuls.

fewer(7, turn=2)                                # 3: one turn of the rings and the rest of another
in_any_order([2, 4, 6, 8], reach=2, turn=2)     # (2, 3, 3, 2): each is after each, again and again
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence


def fewer(n: int, turn: int) -> int:
    """`n` iterations, reduced to one turn and the rest of another: at least one iteration, which uses a slot again."""
    return n if n < 2 * turn else turn + (n % turn or turn)


def in_any_order(numbers: Iterable[int], reach: int, turn: int) -> tuple[int, ...]:
    """A run of tiles that represents all orders of tiles with these `numbers` of iterations, if it is repeated.

    The longest ring has `reach` buffers; after `turn` iterations all rings are where they were. Two accesses that must
    be ordered are at most `reach` iterations apart, or one tile. So they are in neighbours, or in tiles between which
    others have fewer iterations than that (`runs_between`). The run, repeated, has all such tiles one after the other.

    Of a tile that has more iterations than the ring has buffers it does not matter how many: slots and phases are those
    of one iteration less, renamed (`tkgen.proof.rotation`). One of these tiles is as long as makes the sum of the run a
    multiple of `turn`. Without such a tile the run must be repeated to bring the rings to their beginning.
    """
    counts = sorted({min(n, reach + 1) for n in numbers})
    between = runs_between([n for n in counts if n < reach], reach - 1)
    run = [*shortest_circle([(a, *few, b) for few in between for a in counts for b in counts])]
    if reach + 1 in counts:
        run[run.index(reach + 1)] += -sum(run) % turn
    return tuple(run)


def runs_between(counts: Sequence[int], most: int) -> Iterator[tuple[int, ...]]:
    """All sequences of these numbers, 0 excepted, whose sum is `most` or less, the empty one too.

    A tile without iterations takes no buffer. It only adds waits between its neighbours, which are right without it.
    """
    yield ()
    for n in counts:
        if 0 < n <= most:
            yield from ((n, *others) for others in runs_between(counts, most - n))


def shortest_circle(parts: Collection[tuple[int, ...]]) -> tuple[int, ...]:
    """A short sequence that has all of `parts` in it, if it is repeated.

    It goes from number to number, and keeps of those that it had as many as a part still to come may need: the longest
    end that some part begins with. A number that completes a part which is not there yet comes next, the largest of
    them; else the way to the nearest such place. The way ends where it began. If the parts are all pairs of some
    numbers, each pair is there once.
    """
    wanted = {*parts} - {part[:-1] for part in parts} - {part[1:] for part in parts}
    starts = {part[:n] for part in wanted for n in range(len(part) + 1)}
    numbers = sorted({n for part in wanted for n in part}, reverse=True)

    def after(place: tuple[int, ...], n: int) -> tuple[int, ...]:
        there = (*place, n)
        return next(there[begin:] for begin in range(len(there) + 1) if there[begin:] in starts)

    def way(place: tuple[int, ...], goals: Collection[tuple[int, ...]]) -> list[int]:
        """The numbers from a place to the nearest of these goals: one at least."""
        ways = deque([(place, list[int]())])
        seen = set[tuple[int, ...]]()
        while True:
            at, taken = ways.popleft()
            for n in numbers:
                there = after(at, n)
                if there in goals:
                    return [*taken, n]
                if there not in seen:
                    seen.add(there)
                    ways.append((there, [*taken, n]))

    first = min(wanted)
    place, run, missing = first, list[int](), wanted - {first}
    while missing:
        for n in way(place, missing):
            run.append(n)
            place = after(place, n)
            missing.discard(place)
    return (*run, *way(place, [first]))
