"""`tkgen test` of shipped specs: it draws sizes that they admit, and everything that it tries holds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from shipped import SPECS, shipped

from tkgen.api import load
from tkgen.diagnostics import SpecError
from tkgen.execute import modelled_suite
from tkgen.execute.admitted import admitted
from tkgen.execute.cases import size_cases
from tkgen.execute.suites import regression

# Of these `test` drew sizes that they refuse: CLASSES = 768 (E226), K = 1016 (E209).
SAMPLE = {("linear_softmax", "gfx942"), ("w4", "gfx942")}


ALL = [
    pytest.param(
        path, target, id=f"{path.stem}-{target}", marks=() if (path.stem, target) in SAMPLE else pytest.mark.slow
    )
    for path, target in shipped()
]


@pytest.mark.parametrize("path, target", ALL)
def test_sizes_that_are_drawn_are_admitted(path: Path, target: str) -> None:
    spec = load(path, None, target).check()
    own = {d.name: d.size for d in spec.program.dims if d.size is not None}
    cases = list(size_cases(spec))
    found = list(admitted(cases, own, lambda static: load(path, static, target).check()))
    assert found and not [refusal for _, refusal in found if refusal]


@pytest.mark.slow
@pytest.mark.parametrize("path, target", shipped(), ids=lambda value: value.stem if isinstance(value, Path) else value)
def test_everything_that_is_tried_holds(path: Path, target: str) -> None:
    test = modelled_suite.regression if target == "sm_90a" else regression
    failed = [result for result in test(path, target=target, schedules=1) if result.failure]
    assert not failed, failed


def refuses(text: str) -> SpecError:
    spec = SPECS / "linear_softmax.tk"
    with pytest.raises(SpecError) as raised:
        load(spec, {"CLASSES": 768}).check()
    assert text in str(raised.value)
    return raised.value


def test_the_fewest_sizes_change() -> None:
    error = refuses("E226")

    def check(static: Mapping[str, int]) -> None:
        if static["N"] > 64 or static["M"] == 3:
            raise error

    cases = [{"M": 3, "N": 64, "K": 8}, {"M": 64, "N": 96, "K": 16}, {"M": 64, "N": 64, "K": 8}]
    found = list(admitted(cases, {"M": 128, "N": 32}, check))
    assert found == [({"M": 64, "N": 64, "K": 8}, ""), ({"M": 64, "N": 64, "K": 16}, "")]


def test_a_case_of_which_no_size_is_admitted_is_a_failure() -> None:
    error = refuses("E226")

    def check(static: Mapping[str, int]) -> None:
        raise error

    ((sizes, refusal),) = admitted([{"M": 3}], {"M": 128}, check)
    assert sizes == {"M": 3} and refusal.startswith("no sizes like these are admitted: E226")
