"""No spec is accused, and no mutant of a sample of them gets away."""

from __future__ import annotations

from pathlib import Path

import pytest
import verify as benchmark

from tkgen.verify import Verdict, verified_spec
from tkgen.verify.specs import chosen_cases

SPECS = Path(__file__).parents[2] / "specs"
SAMPLE = ("rows/rmsnorm", "low_precision/mxfp4", "split_k")
MUTATED = {"one_wave": 3, "elementwise": 2}  # and how many of each


EVERY = sorted(p for p in SPECS.rglob("*.tk") if p.parent.name != "hopper")


def insist(verdicts: list[Verdict]) -> None:
    for verdict in verdicts:
        assert verdict.ok, (verdict.note, verdict.wrong, verdict.undecided, verdict.lost, verdict.cause)


@pytest.mark.slow
@pytest.mark.parametrize("path", EVERY, ids=[p.stem for p in EVERY])
def test_a_spec_is_as_meant(path: Path) -> None:
    insist(verified_spec(path, {}, None, ()))


@pytest.mark.parametrize("name", SAMPLE)
def test_a_spec_is_as_meant_at_a_small_size(name: str) -> None:
    path = SPECS / f"{name}.tk"
    (defines, _), *_ = chosen_cases(path, None, ())
    insist(verified_spec(path, defines, None, ()))


@pytest.mark.parametrize("stem", MUTATED)
def test_mutants_are_caught_or_are_the_same(stem: str) -> None:
    (path,) = SPECS.rglob(f"{stem}.tk")
    rows = list(benchmark.trials(path, MUTATED[stem], 1, set()))
    assert len(rows) == MUTATED[stem]
    assert not [row for row in rows if benchmark.sort(row) == "other bits"]
    assert [row for row in rows if benchmark.sort(row) == "caught"]
