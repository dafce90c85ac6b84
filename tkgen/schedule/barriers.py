"""Barrier placement: a minimum set of cuts through the iteration's circle.

Rule (design: barrier calculus): an operation x on one wave happens before y on another iff a barrier lies between
them. With the operations of an iteration at positions 0..L-1 of a circle, a dependency from position i to position j,
d iterations later, is the arc of gaps i+1 .. j + d L (gap g lies before operation g, gap 0 also ends the iteration);
it is satisfied iff one of its gaps holds a barrier. So the fewest barriers per iteration are a minimum stabbing set of
circular arcs: some optimum holds a gap of the shortest arc, and once that gap is chosen the circle is cut there and the
greedy choice of right ends is optimal (Gavril, "Algorithms on circular-arc graphs", Networks 4, 1974).
"""

from __future__ import annotations

from collections.abc import Iterable

from tkgen.ir.graph import Dependency


def arcs(dependencies: Iterable[Dependency], length: int) -> set[tuple[int, int]]:
    """The arcs (first gap, number of gaps) of the dependencies that cross waves; full circles keep `length` gaps.

    A written order may overwrite a tile before it is read. No barrier mends that, so it has no arc; the checks name it.
    """
    result = set()
    for d in dependencies:
        gaps = d.target + d.distance * length - d.source
        if d.crosses_waves and gaps > 0:
            result.add(((d.source + 1) % length, min(gaps, length)))
    return result


def minimum_stabbing(intervals: set[tuple[int, int]], length: int) -> list[int]:
    """Fewest gaps of the circle 0..length-1 that touch every arc (first, count); latest gaps among equals.

    Raises:
        ValueError: an arc has no gap, so no barrier can satisfy it.
    """
    if not intervals:
        return []
    if any(count <= 0 for _, count in intervals):
        raise ValueError("a dependency points backwards in its own iteration")
    first, count = min(intervals, key=lambda a: (a[1], a[0]))
    best: list[int] | None = None
    for start in reversed([(first + i) % length for i in range(count)]):
        chosen = _greedy(intervals, length, start)
        if best is None or len(chosen) < len(best):
            best = chosen
    assert best is not None
    return sorted(best)


def _greedy(intervals: set[tuple[int, int]], length: int, start: int) -> list[int]:
    """Stab with `start` chosen: cut the circle there, then take the right end of each arc not yet touched."""
    line = []
    for first, count in intervals:
        begin = (first - start) % length
        if begin != 0 and begin + count <= length:  # does not contain the cut
            line.append((begin + count - 1, begin))
    chosen, last = [start], 0
    for end, begin in sorted(line):
        if begin > last:
            chosen.append((start + end) % length)
            last = end
    return chosen
