"""The stored figures of machine code: complete, and compared as `benchmarks/figures.py` says."""

from __future__ import annotations

import copy

import figures
import pytest
from shipped import SPECS, accepted, shipped

STORED = figures.read(figures.TABLE)[1]


def record(name: str) -> figures.Record:
    """A copy of a stored record, of the target that its spec is for."""
    target = "sm_90a" if name.startswith("h100") else "gfx942"
    return copy.deepcopy(next(r for r in STORED if r["kernel"] == name and r["target"] == target))


def test_every_spec_has_figures() -> None:
    wanted = {(target, str(path.relative_to(SPECS).with_suffix(""))) for path, target in shipped()}
    assert {(r["target"], r["spec"]) for r in STORED} >= wanted
    assert len({figures.key(r) for r in STORED}) == len(STORED)


@pytest.mark.parametrize("kernel", ["eight_wave", "softmax", "h100_lcf"])
def test_figures_that_are_equal(kernel: str) -> None:
    assert figures.differences(record(kernel), record(kernel)) == ([], False)
    other = record(kernel) | {"digest": "0"}
    assert figures.differences(record(kernel), other) == (["other machine code with the same figures"], False)


@pytest.mark.parametrize("kernel, cost", [("eight_wave", "registers"), ("softmax", "spills"), ("h100_lcf", "spills")])
def test_a_cost_that_grows_is_worse(kernel: str, cost: str) -> None:
    old, new = record(kernel), record(kernel)
    new[cost] += 8
    assert figures.differences(old, new)[1]
    changes, worse = figures.differences(new, old)
    assert not worse and changes[0].startswith(f"{cost} {new[cost]} -> {old[cost]}")


def test_instructions_of_the_loop_count_per_multiplication() -> None:
    old, new = record("eight_wave"), record("eight_wave")
    new["loop"] = {kind: 2 * count for kind, count in new["loop"].items()}
    assert figures.differences(old, new) == (["multiplications of an iteration 262144 -> 524288 (x2.000)"], False)
    new["loop"]["valu"] += 1
    changes, worse = figures.differences(old, new)
    assert worse and changes[0] == "loop.valu 0 -> 0.5"
    assert figures.differences(old, old | {"loop": None}) == (["the loop that multiplies is gone"], True)


def test_the_whole_kernel_counts_where_no_loop_multiplies() -> None:
    for kernel, worse in (("softmax", True), ("eight_wave", False)):
        old, new = record(kernel), record(kernel)
        new["whole"]["waits"] += 1
        assert figures.differences(old, new)[1] == worse


def test_what_cannot_be_compared(capsys: pytest.CaptureFixture[str]) -> None:
    rows, here = [record("eight_wave")], {"gfx": "clang 1"}
    assert figures.compare(rows, rows, here, here) == 0
    assert figures.compare(rows, [], here, here) == 1
    assert figures.compare(rows, [rows[0] | {"error": "E1"}], here, here) == 1
    assert figures.compare([], rows, here, here) == 0
    capsys.readouterr()
    assert figures.compare(rows, rows, here, {"gfx": "clang 2"}) == 2
    assert "gfx: stored by clang 1, here is clang 2: not compared" in capsys.readouterr().out


@pytest.mark.slow
def test_the_machine_code_is_no_worse() -> None:
    here = figures.compilers()
    used, stored = figures.read(figures.TABLE)
    wanted = [(path, target) for path, target in accepted() if figures.kind_of(target) in here]
    assert figures.compare(stored, list(figures.build_all(wanted, 2)), used, here) != 1
