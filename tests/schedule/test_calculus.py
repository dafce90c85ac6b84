"""The barrier calculus against brute force: the same verdicts as trying every order of accesses and of waves.

`pytest -m slow tests/schedule/test_calculus.py` tries 20,000 programs.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from interleavings import Verdict, explore
from random_programs import PASSES, Case, case, refilled
from sampling import slow

from tkgen.schedule.epochs import conflicts

DATA = ("RAW", "WAR", "WAW", "unwritten")


def calculated(made: Case) -> Verdict:
    found = conflicts(made.program, made.waves, PASSES, 1, PASSES)
    return Verdict(frozenset(c.operand for c in found if c.kind in DATA), any(c.kind == "barriers" for c in found))


def compare(seeds: range, make: Callable[[int], Case] = case) -> dict[str, int]:
    counts = {"right": 0, "racing": 0, "deadlock": 0}
    for seed in seeds:
        made = make(seed)
        mine = calculated(made)
        truth = explore(made.program, made.waves, PASSES, 1, PASSES)
        assert mine.deadlock == truth.deadlock, f"seed {seed}"
        if truth.deadlock:
            counts["deadlock"] += 1
            continue
        assert mine.racing == truth.racing, f"seed {seed}: {mine.racing} is not {truth.racing}"
        counts["racing" if truth.racing else "right"] += 1
    return counts


@pytest.mark.parametrize("programs", [150, slow(400)])
def test_the_calculus_agrees_with_every_interleaving(programs: int) -> None:
    counts = compare(range(programs))
    assert min(counts.values()) > programs // 10, counts  # all verdicts occur


def test_the_calculus_agrees_where_parts_of_tiles_are_refilled() -> None:
    counts = compare(range(150), refilled)
    assert min(counts["right"], counts["racing"]) > 30, counts


@pytest.mark.parametrize("seeds", [range(30), slow(range(30, 80))], ids=["few", "more"])
def test_the_orders_that_are_tried_find_what_all_orders_do(seeds: range) -> None:
    for seed in seeds:
        made = case(seed)
        some, more = (explore(made.program, made.waves, PASSES, 1, PASSES, few) for few in (1, 40))
        assert some == more, f"seed {seed}"


@pytest.mark.slow
def test_the_calculus_agrees_with_every_interleaving_of_20000_programs() -> None:
    counts = compare(range(400, 20_400))
    assert min(counts.values()) > 400, counts
