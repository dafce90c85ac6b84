"""A fixed sample of benchmarks/fuzz.py, and its whole sweep."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import fuzz
import pytest
from fuzzing import coverage
from sampling import slow

from tkgen.diagnostics import SpecError
from tkgen.syntax.format import format_source
from tkgen.syntax.loader import read_source

ACCEPTED = 12
EQUATIONS = [
    ("sums", 1),
    ("sums", 4),
    ("groups", 2),
    ("groups", 28),
    ("rows", 6),
    ("rows", 5),  # gathers
    ("rows", 24),  # of what rows share, in a loop
    ("sequences", 1),
    ("sequences", 3),
    ("narrow", 1),
    ("narrow", 2),
    ("narrow", 4),
    ("narrow", 12),  # scales of blocks, of 6 bits
    ("narrow", 69),  # of 8 bits
    ("gradients", 2),
    ("fused", 5),  # tiles of 48 rows
    ("fused", 173),  # a value in the place of another
    ("sequences", 2),  # three kernels
    ("large", 9),
]


@cache
def accepted() -> list[int]:
    return list(fuzz.accepted_seeds(70_000, ACCEPTED))


@pytest.mark.parametrize("number", range(ACCEPTED))
def test_what_the_checks_accept_is_right_and_free_of_races(number: int) -> None:
    result = fuzz.attempt(fuzz.sample(accepted()[number]), orders=2, quick=True)
    assert result.verdict == "accepted" or result.kind == "registers", result.detail


@pytest.mark.parametrize(("family", "seed"), EQUATIONS)
def test_equations_that_the_checks_accept_are_right_and_free_of_races(family: str, seed: int) -> None:
    result = fuzz.attempt(fuzz.FAMILIES[family](seed), orders=2, quick=True)
    assert result.verdict == "accepted" or result.kind == "registers", result.detail


@pytest.mark.slow
@pytest.mark.parametrize("family", ["sums", "groups", "rows", "sequences", "loops", "narrow", "gradients"])
def test_three_hundred_accepted_kernels_of_equations(family: str) -> None:
    results = fuzz.sweep(100, 300, jobs=os.cpu_count() or 1, orders=5, families=(family,))
    assert not [r for r in results if r.verdict == "FAILED"], fuzz.table(results)


@pytest.mark.parametrize(("family", "least", "most"), [("sums", 13, 29), ("groups", 5, 25), ("rows", 13, 29),
                                                      ("sequences", 13, 30), ("loops", 3, 29),
                                                      ("narrow", 15, 29), ("gradients", 3, 29),
                                                      ("hopper", 10, 27), ("large", 15, 29),
                                                      ("fused_hopper", 10, 30)])  # fmt: skip
@pytest.mark.parametrize("seeds", [10, slow(30)])
def test_equations_are_refused_with_diagnostics_or_typed(
    family: str, least: int, most: int, seeds: int, tmp_path: Path
) -> None:
    accepted = 0
    for seed in range(5_000, 5_000 + seeds):
        made = fuzz.FAMILIES[family](seed)
        assert made == fuzz.FAMILIES[family](seed) and made.family == family
        try:
            fuzz.loaded(made, fuzz.write(made, tmp_path))
        except SpecError as error:
            assert all(d.message and d.primary for d in error.diagnostics)
        else:
            accepted += 1
    if seeds == 30:
        assert least <= accepted <= most  # neither side of the checks is left out
    assert accepted


@pytest.mark.parametrize("seeds", [range(20_000, 20_020), pytest.param(range(20_000, 20_060), marks=pytest.mark.slow)],
                         ids=["few", "all"])  # fmt: skip
def test_whatever_is_rejected_is_rejected_with_diagnostics(seeds: range, tmp_path: Path) -> None:
    """The front end alone, on many: no exception but SpecError, and formatting changes nothing."""
    accepted = 0
    for seed in seeds:
        made = fuzz.sample(seed)
        path = fuzz.write(made, tmp_path)
        formatted = format_source(read_source(path))
        try:
            source = fuzz.loaded(made, path).source.text
        except SpecError as error:
            assert all(d.message and d.primary for d in error.diagnostics)
            continue
        accepted += 1
        path.write_text(formatted)
        again = fuzz.loaded(made, path).source.text
        assert again.splitlines()[-1] == source.splitlines()[-1] and len(again) == len(source)
    assert len(seeds) / 3 < accepted < 11 / 12 * len(seeds)  # neither side of the checks is left out


def test_a_sample_depends_on_its_seed_alone() -> None:
    assert fuzz.sample(5) == fuzz.sample(5) and fuzz.sample(5).text != fuzz.sample(6).text


def test_the_table_names_the_seeds_of_failures() -> None:
    made = [
        fuzz.Result(1, "accepted", "", 1.0),
        fuzz.Result(2, "rejected", "E301", 1.0),
        fuzz.Result(3, "FAILED", "x", 1.0, kind="wrong"),
        fuzz.Result(4, "rejected", "E404", 1.0, kind="registers"),
    ]
    text = fuzz.table(made)
    assert re.search(r"^  when compiled: E404 +1$", text, re.MULTILINE) and "rejected: E404" not in text
    assert "rejected: E301" in text and re.search(r"^  wrong +1$", text, re.MULTILINE)
    assert text.endswith("--family matrix --seed N --show): 3")


# Of 1000 seeds those that alone draw some branch: two roles that load one tile, a wave alone that reads before it
# loads, parts of a tile that are fetched as one, and accepted specs whose plans are mutated.
RARE = [0, 23, 26, 46, 153, 240, 307, 356, 510]
WHICH = (
    "not _same_part(x, w, waves)",
    "x.order >= y.order",
    "f in self.finished",
    "times != 1",
    "f.order != fetch.order",
)


@pytest.mark.parametrize("seeds", [RARE, pytest.param(range(1000), marks=pytest.mark.slow)], ids=["rare", "all"])
def test_no_branch_of_the_calculus_stays_undrawn(seeds: Sequence[int]) -> None:
    report = coverage.report(seeds)
    grammar, branches = report.split("grammar: alternatives never drawn")[1].split("branches never taken")
    if len(seeds) > len(RARE):
        assert grammar.split() and grammar.strip().startswith("none"), grammar
        assert not branches.strip(), branches
    for rare in (
        "not _same_part(x, w, waves)",
        "x.order >= y.order",
        "f in self.finished",
        "times != 1",
        "f.order != fetch.order",
    ):
        assert rare not in branches, branches


@pytest.mark.slow
def test_three_hundred_accepted_specs() -> None:
    results = fuzz.sweep(0, 300, os.cpu_count() or 1, 5)
    assert not [r for r in results if r.verdict == "FAILED"], fuzz.table(results)
