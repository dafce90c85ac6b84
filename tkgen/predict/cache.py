"""The source of the bytes of a whole grid: L2 of an XCD, Infinity Cache, or HBM.

Blocks are dealt round robin over the XCDs by linear index. Each XCD holds as many as its CUs have room for; these run
in lock step through K, and make way for the next ones together: a round. In a round the blocks of an XCD read each
K-slice of a row or column panel once from beyond their L2, whoever comes first, and from L2 otherwise, as long as the
slices in flight fit. Over rounds a slice is found again where all that was read in between fits: in L2 (the panels of
one XCD) or in the last-level cache (those of all). First touches come from HBM.

>>> traffic(workload, target, product).l2_hit_rate
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tkgen.predict.workload import Workload
from tkgen.targets import Target
from tkgen.targets.model import Product

_IN_FLIGHT: Final = 2  # K-steps between the first and the last block of an XCD, with the one being prefetched

Panel = tuple[str, int, int]  # which operand, its row or column of blocks, where its part of K begins
Piece = tuple[int, int, int]


@dataclass(frozen=True)
class Traffic:
    """Bytes read by the blocks from L2, by L2 from the last-level cache, by that from HBM, and bytes written.

    `residents` lists, per round, the blocks on the busiest CU; `from_hbm` and `from_llc` are the shares of the
    K-steps in which a block must wait for data of that level.
    """

    l2_bytes: int
    llc_bytes: int
    hbm_bytes: int
    written_bytes: int
    residents: tuple[int, ...]
    active_cus_per_xcd: int
    active_cus: int
    from_llc: float
    from_hbm: float

    @property
    def l2_hit_rate(self) -> float:
        """Share of the bytes read that L2 had."""
        return 1 - self.llc_bytes / self.l2_bytes

    @property
    def llc_hit_rate(self) -> float:
        """Share of the bytes that left L2 which the last-level cache had."""
        return 1 - self.hbm_bytes / self.llc_bytes if self.llc_bytes else 1.0


def traffic(workload: Workload, target: Target, product: Product) -> Traffic:
    """The traffic of one launch with empty caches."""
    rounds = _rounds(workload, product)
    rows, cols, step = workload.block
    depth = min(workload.piece_steps * step, workload.k)
    size = {"a": rows * depth * workload.left_bits // 8, "b": cols * depth * workload.right_bits // 8}
    asked_of = size["a"] + size["b"]  # by a block
    size["a"] = int(size["a"] / workload.again)  # what is read again is in L2
    tile_out = rows * cols * workload.output_bytes
    l2 = llc = hbm = 0
    waiting_llc = waiting_hbm = 0.0
    blocks = 0
    history: list[frozenset[Panel]] = []
    before: list[frozenset[Panel]] = [frozenset() for _ in range(product.xcds)]
    written = 0
    for by_xcd in rounds:
        needed = [_panels(tiles) for tiles in by_xcd]
        everything = frozenset().union(*needed)
        known = _still_cached(everything, history, size, target.llc_bytes, tile_out * sum(map(len, by_xcd)))
        hbm += sum(size[p[0]] for p in everything - known)
        for xcd, tiles in enumerate(by_xcd):
            asked = len(tiles) * asked_of
            panels = needed[xcd]
            kept = (
                panels & before[xcd] if _bytes(before[xcd] | panels, size) <= target.l2_bytes_per_xcd else frozenset()
            )
            fresh = _bytes(panels - kept, size)
            in_flight = _IN_FLIGHT * _bytes(panels, size) // workload.piece_steps
            lost = max(1 - target.l2_bytes_per_xcd / in_flight, 0.0) if in_flight else 0.0
            l2 += asked
            llc += fresh + int(lost * (asked - fresh))
            for row, col, part in tiles:
                mine = {("a", row, part), ("b", col, part)}
                blocks += 1
                waiting_llc += bool(mine - kept)
                waiting_hbm += bool(mine - kept - known)
            before[xcd] = panels
        written += tile_out * sum(map(len, by_xcd))
        history.append(everything)
    whole = workload.operand_bytes
    if whole <= target.llc_bytes and hbm > whole:  # parts of K that overlap are read once
        waiting_hbm, hbm = waiting_hbm * whole / hbm, whole
    cus = product.cus_per_xcd
    residents = tuple(-(-max(map(len, by_xcd)) // cus) for by_xcd in rounds)
    first = rounds[0]
    return Traffic(
        l2_bytes=l2,
        llc_bytes=max(llc, hbm),
        hbm_bytes=hbm,
        written_bytes=written,
        residents=residents,
        active_cus_per_xcd=min(max(map(len, first)), cus),
        active_cus=sum(min(len(tiles), cus) for tiles in first),
        from_llc=waiting_llc / blocks,
        from_hbm=waiting_hbm / blocks,
    )


def _rounds(workload: Workload, product: Product) -> list[list[list[Piece]]]:
    """Per round and XCD the pieces that are worked on at the same time."""
    tiles, xcds = workload.pieces, product.xcds
    slots = product.cus_per_xcd * max(workload.blocks_per_cu, 1)
    if workload.repeats > 1:  # a persistent grid: tile i, then i + blocks, ...
        turns = [tiles[i : i + workload.blocks] for i in range(0, len(tiles), workload.blocks)]
    else:
        turns = [tiles]
    rounds = []
    for turn in turns:
        by_xcd = [turn[x::xcds] for x in range(xcds)]
        count = -(-max(map(len, by_xcd)) // slots)
        rounds += [[list(mine[i * slots : (i + 1) * slots]) for mine in by_xcd] for i in range(count)]
    return rounds


def _panels(pieces: Sequence[Piece]) -> frozenset[Panel]:
    return frozenset(("a", row, part) for row, _, part in pieces) | frozenset(
        ("b", col, part) for _, col, part in pieces
    )


def _bytes(panels: frozenset[Panel], size: dict[str, int]) -> int:
    return sum(size[side] for side, _, _ in panels)


def _still_cached(
    wanted: frozenset[Panel], history: Sequence[frozenset[Panel]], size: dict[str, int], capacity: int, written: int
) -> frozenset[Panel]:
    """Those of `wanted` whose last use lies so few rounds back that everything read since fits in `capacity`.

    In lock step a slice is used again after one whole round of everything else, the output of the round included.
    """
    found: set[Panel] = set()
    since: frozenset[Panel] = frozenset()
    for age, panels in enumerate(reversed(history), 1):
        since |= panels
        if _bytes(since, size) + age * written > capacity:
            break
        found |= wanted & panels
    return frozenset(found)
