"""The proof of layouts of rows: what is wrong with a changed one, and that the emulator agrees, on a sample."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
from mutating.rows import RowReferee, mutants, small

from tkgen.backends.cdna.spec import Spec
from tkgen.emulate import interleavings
from tkgen.schedule.row_verifier import wrong
from tkgen.targets import load_target
from tkgen.toolchain.discover import NoCompilerError, find_compiler

SPECS = Path(__file__).parents[2] / "specs" / "rows"


SAMPLE = [("softmax", "D=16384", 14), ("rmsnorm", "D=129", 9), ("rotary", "", 8)]


def spec_of(name: str, size: str) -> Spec:
    return dict(small(SPECS / f"{name}.tk"))[f"{name} {size}".strip()]


def test_no_wrong_mutant_of_rows_is_accepted() -> None:
    try:
        find_compiler(load_target("gfx942"))
    except NoCompilerError:
        pytest.skip("no compiler for AMD GPUs")
    verdicts = set()
    for name, size, every in SAMPLE:
        referee = RowReferee(spec_of(name, size), interleavings(2))
        assert not referee.fault(referee.spec.layout)
        changed = (m for m in mutants(referee.spec.layout) if referee.changes(m.layout))
        for mutant in islice(changed, 0, None, every):
            rules, fault = referee.rejected(mutant.layout), referee.fault(mutant.layout)
            assert rules or not fault, f"{mutant.kind}: {mutant.what}: accepted, but {fault}"
            verdicts.add(bool(rules))
    assert verdicts == {True, False}


def rules(spec: Spec, kind: str, what: str = "") -> list[set[str]]:
    """The rules that mutants of a kind break, of each."""
    found = [m for m in mutants(spec.layout) if m.kind == kind and what in m.what]
    return [{rule for rule, _ in wrong(m.layout, spec.target)} for m in found]


def test_every_rule_finds_what_breaks_it() -> None:
    """Two exchanges an iteration, by which waves that share a row hand each other maxima and sums."""
    spec = spec_of("softmax", "D=16384")
    assert not [*wrong(spec.layout, spec.target)]
    assert rules(spec, "drop barrier") == [{"races"}] * 2
    assert rules(spec, "drop shared store") == rules(spec, "drop shared load") == [{"steps"}] * 2
    assert rules(spec, "drop element loop") == [{"steps"}] * 3
    assert rules(spec, "other half", "and its load") == [{"races"}] * 2
    assert rules(spec, "duplicate barrier") == [set()] * 2
    assert all("sweeps" in found for found in rules(spec, "drop operation"))
    assert rules(spec, "change chunks", "8 to 7") == [{"elements"}]
    assert rules(spec, "change passes", "4 to 3") == [{"rows"}]
    assert rules(spec, "change chunk", "8 to 16") == [{"accesses"}]


def test_no_access_is_of_three_or_five_elements() -> None:
    assert rules(spec_of("softmax", "D=60"), "change chunk", "4 to 5") == [{"accesses"}]
    assert rules(spec_of("rotary", "HALF=30"), "change chunk", "2 to 3") == [{"accesses"}]


def test_one_exchange_a_pass_takes_the_other_half_in_the_next() -> None:
    """With an odd number of exchanges the halves alternate from iteration to iteration: with one half alone they would
    race."""
    spec = spec_of("rmsnorm", "D=8192")
    assert spec.layout.exchanges == 1 and spec.layout.passes > 1
    assert "+ pass) % 2" in spec.text
    assert rules(spec, "other half", "shared store 0, half 0, at 1 and") == [set()]
    assert rules(spec, "drop barrier") == [{"races"}]
