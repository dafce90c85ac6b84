"""The proof against brute force: the same verdicts as running small programs in every interleaving.

`pytest -m slow tests/proof/test_every_order.py` tries 20,000 programs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from every_order import explore
from small_programs import cluster, program

from tkgen.proof.faults import Kind, faults
from tkgen.proof.program import Program

RACES = (Kind.RAW, Kind.WAR, Kind.WAW)


def compare(seeds: range, of: Callable[[int], Program] = program) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seed in seeds:
        made = of(seed)
        truth, found = explore(made), faults(made)
        bad = {f.kind for f in found} & {Kind.DEADLOCK, Kind.PHASE}
        assert bool(bad) == (truth.hangs or truth.differs), f"seed {seed}: {truth} is not {bad}"
        if bad:
            counts["hangs" if truth.hangs else "differs"] += 1
            continue
        unwritten = {f.access.ring for f in found if f.kind is Kind.UNWRITTEN and f.access}
        assert unwritten == truth.unwritten, f"seed {seed}: {unwritten} is not {truth.unwritten}"
        racing = {f.access.ring for f in found if f.kind in RACES and f.access} - unwritten
        # What nobody writes is refused; that it should come behind other instances, too, is not looked at.
        assert racing == truth.racing - unwritten, f"seed {seed}: {racing} is not {truth.racing}"
        assert any(f.kind is Kind.UNFINISHED for f in found) == truth.unfinished, f"seed {seed}"
        counts["unfinished"] += truth.unfinished
        counts["races"] += bool(racing)
        counts["right"] += not found
    return counts


def test_the_proof_agrees_with_every_interleaving() -> None:
    counts = compare(range(1500))
    assert min(counts[name] for name in ("right", "races", "hangs", "differs", "unfinished")) > 20, counts


def test_the_proof_of_clusters_agrees_with_every_interleaving() -> None:
    counts = compare(range(300), cluster)
    assert min(counts[name] for name in ("right", "races", "hangs", "unfinished")) > 5, counts


@pytest.mark.slow
def test_the_proof_of_5000_clusters_agrees_with_every_interleaving() -> None:
    counts = compare(range(300, 5300), cluster)
    assert min(counts[name] for name in ("right", "races", "hangs", "unfinished")) > 100, counts


@pytest.mark.slow
def test_the_proof_agrees_with_every_interleaving_of_20000_programs() -> None:
    counts = compare(range(1500, 21_500))
    assert min(counts[name] for name in ("right", "races", "hangs", "differs", "unfinished")) > 400, counts
