"""Accesses of different blocks to the same bytes: which of them conflict, and which of those a flag orders.

Only flags in global memory order blocks (`core/flags.h`): what a block released, and another acquired
before its access, is before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[Any]

# Reads and writes, plain or of the scope of atomic operations: those of the latter kind are no race among themselves.
# Sums give nothing back. A write that may be atomic races with all but atomic reads, and operations that give something
# back.
_READ, _WRITE, _SCOPED_WRITE, _SCOPED_READ, _SUM, _PERHAPS = range(6)
_CONFLICT: Final = np.zeros((6, 6), dtype=bool)
for _first, _second in (
    (_READ, _WRITE),
    (_WRITE, _WRITE),
    (_READ, _SCOPED_WRITE),
    (_WRITE, _SCOPED_WRITE),
    (_WRITE, _SCOPED_READ),
    (_READ, _SUM),
    (_WRITE, _SUM),
    (_READ, _PERHAPS),
    (_WRITE, _PERHAPS),
    (_SUM, _PERHAPS),
    (_PERHAPS, _PERHAPS),
):
    _CONFLICT[_first, _second] = _CONFLICT[_second, _first] = True
# By flag (`core/flags.h`: plain, of a block, of all, a sum, perhaps) and by access: read, write, atomic.
_SORT: Final = np.array(
    [
        [_READ, _WRITE, _WRITE],
        [_READ, _WRITE, _WRITE],
        [_SCOPED_READ, _SCOPED_WRITE, _SCOPED_WRITE],
        [_SCOPED_READ, _SUM, _SUM],
        [_SCOPED_READ, _PERHAPS, _PERHAPS],
    ]
)
_OF_BLOCK: Final = 1


def numbered(parts: Sequence[tuple[Rows, Rows]]) -> tuple[Rows, Rows]:
    """Intervals and known releases of all workers, whose clocks are numbered apart, as one."""
    offset = 0
    intervals, known = [], []
    for own_intervals, own_known in parts:
        moved, held = own_intervals.copy(), own_known.copy()
        moved["clock"] += np.where(moved["clock"] > 0, offset, 0).astype(np.uint32)
        held["clock"] += np.uint32(offset)
        offset = max(offset, int(held["clock"].max(initial=0)), int(moved["clock"].max(initial=0)))
        intervals.append(moved)
        known.append(held)
    return np.concatenate(intervals), np.concatenate(known)


class Flags:
    """The releases of flags, and the waves that knew of them."""

    def __init__(self, releases: Rows, known: Rows):
        self.releases = {
            (int(r["block"]), int(r["number"])): (int(r["wave"]), int(r["epoch"]), bool(r["written_back"]))
            for r in releases
        }
        self.known: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for entry in known:
            self.known[int(entry["clock"])].append((int(entry["block"]), int(entry["number"])))

    def before(self, x: Any, y: Any, *, anywhere: bool = False) -> bool:
        """Return True if the accesses of interval `x` happen before those of `y`, of another block.

        `anywhere`: leaving aside whether what `x` wrote left the L2 of its XCD.
        """
        stays = x["writes"] == 1 and x["flag"] <= _OF_BLOCK and not anywhere
        for block, number in self.known.get(int(y["clock"]), ()):
            if block != int(x["block"]):
                continue
            wave, epoch, written_back = self.releases[block, number]
            if stays and not written_back:
                continue
            if int(x["completed"]) <= number if wave == int(x["wave"]) else int(x["epoch"]) < epoch:
                return True
        return False

    def order(self, x: Any, y: Any, *, anywhere: bool = False) -> bool:
        """Return True if either is before the other."""
        return self.before(x, y, anywhere=anywhere) or self.before(y, x, anywhere=anywhere)


def races(intervals: Rows, flags: Flags) -> Iterator[tuple[Any, Any]]:
    """Pairs of intervals of two blocks that share a byte, one writing, and that nothing orders."""
    for region in np.unique(intervals["region"][intervals["writes"] != 0]):
        rows = intervals[intervals["region"] == region]
        rows = rows[np.lexsort((rows["end"], rows["begin"]))]
        sorts = _SORT[rows["flag"], rows["writes"]]
        if not _meet(rows, sorts):
            continue
        for row, other in _all(rows, sorts) if flags.releases else _furthest(rows, sorts):
            if not (flags.releases and flags.order(row, other)):
                yield row, other


def _meet(rows: Rows, sorts: npt.NDArray[np.intp]) -> bool:
    """True if any of the intervals, sorted by where they begin, could conflict: the common case is that none does."""
    for sort in range(len(_CONFLICT)):
        furthest = np.maximum.accumulate(np.where(sorts == sort, rows["end"], 0))[:-1]
        if np.any(_CONFLICT[sort][sorts[1:]] & (furthest > rows["begin"][1:])):
            return True
    return False


def _furthest(rows: Rows, sorts: npt.NDArray[np.intp]) -> Iterator[tuple[Any, Any]]:
    """Pairs that conflict, of each sort the interval that reaches furthest: enough to find one where there is one."""
    reach: dict[int, Any] = {}
    for row, sort in zip(rows, sorts.tolist(), strict=True):
        for kind, other in reach.items():
            if other["end"] > row["begin"] and other["block"] != row["block"] and _CONFLICT[sort, kind]:
                yield row, other
        if sort not in reach or row["end"] > reach[sort]["end"]:
            reach[sort] = row


def _all(rows: Rows, sorts: npt.NDArray[np.intp]) -> Iterator[tuple[Any, Any]]:
    """All pairs that conflict: where flags order some, the others must be found among them."""
    open_: list[tuple[Any, int]] = []
    for row, sort in zip(rows, sorts.tolist(), strict=True):
        open_ = [(other, kind) for other, kind in open_ if other["end"] > row["begin"]]
        for other, kind in open_:
            if other["block"] != row["block"] and _CONFLICT[sort, kind]:
                yield row, other
        open_.append((row, sort))
