"""A sample of `benchmarks/hopper_mutants.py`: nothing that the model finds wrong is accepted by the proof."""

from __future__ import annotations

import hopper_mutants
import pytest
from mutating.hopper import trials
from sampling import slow

SAMPLE = [
    ("products", 17, 3),
    ("turns", 31, 4),
    ("scaled", 31, 3),
    ("groups", 29, 6),
    ("outputs", 23, 5),
    ("runs", 19, 2),
    ("clusters", 41, 3),
    ("loops", 250, 33),
    ("rows", 5, 1),
]
FEW = ("products", "groups", "loops")


@pytest.mark.parametrize("family, every, first", [s if s[0] in FEW else slow(*s) for s in SAMPLE])
def test_nothing_wrong_is_accepted(family: str, every: int, first: int) -> None:
    found = list(trials(family, 6, every, first))
    assert not [t for t in found if t.escaped]
    assert sum(bool(t.proof) for t in found) >= sum(t.found > 0 for t in found) > 0


@pytest.mark.slow
@pytest.mark.parametrize("family", hopper_mutants.FAMILIES)
def test_nothing_wrong_of_all_is_accepted(family: str) -> None:
    assert not [t for t in trials(family, 24) if t.escaped]


def test_the_table_counts_what_each_finds() -> None:
    made = [hopper_mutants.Trial("rows", "a slip", "", proof, found) for proof, found in
            (("refused", 3), ("refused", 12), ("refused", 0), ("", 0), ("", 2))]  # fmt: skip
    lines = hopper_mutants.markdown(made, 24).splitlines()
    assert lines[0].count("|") == lines[1].count("|") == lines[2].count("|") == 9
    assert lines[2] == "| a slip | 5 | 1 | 3 | 0 | 2 | 3 | 1 |" and lines[3] == "| all | 5 | 1 | 3 | 0 | 2 | 3 | 1 |"
