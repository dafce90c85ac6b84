"""The tutorial: every step builds, and what stands behind it is what the machine code says."""

from __future__ import annotations

import re

import pytest
from tutorial import COLUMNS, DOC, Step, apply, facts, steps

from tkgen.ir.resolve import resolve
from tkgen.schedule import plan
from tkgen.source import SourceFile
from tkgen.syntax.parser import parse, parse_path

DOCUMENT = DOC.read_text(encoding="utf-8")
STEPS = steps(DOCUMENT)


def test_no_change_is_left_out() -> None:
    assert len(STEPS) == DOCUMENT.count("```diff") + DOCUMENT.count("```tk") == 13
    assert sum(step.error is not None for step in STEPS) == 1
    changed = [line for line in re.findall(r"```diff\n(.*?)```", DOCUMENT, re.DOTALL) if line.count("\n+") > 1]
    assert len(changed) == 1  # all others change one line


@pytest.mark.parametrize("step", STEPS, ids=range(len(STEPS)))
def test_step(step: Step) -> None:
    """Waves, barriers and LDS exactly; registers and instructions as far as compilers of one version range agree."""
    found = facts(step.spec)
    if step.error is not None:
        assert isinstance(found, str)
        numbers = re.compile(r"\d+")
        assert numbers.sub("0", found) == numbers.sub("0", step.error)
        return
    assert not isinstance(found, str), found
    assert len(step.numbers) == len(COLUMNS), "run python tests/specs/tutorial.py"
    for name, claimed, real in zip(COLUMNS, step.numbers, found, strict=True):
        tolerance = {"VGPRs": 0.15, "other instructions per MFMA": 0.15}.get(name, 0)
        assert real == pytest.approx(claimed, rel=tolerance), f"{name}; run python tests/specs/tutorial.py"


def test_eight_wave_is_reached() -> None:
    """One of the steps is specs/eight_wave.tk, but for its name and comments."""
    wanted = plan(resolve(parse_path(DOC.parents[1] / "specs" / "eight_wave.tk"))).to_text().splitlines()[1:]
    found = [plan(resolve(parse(SourceFile("gemm.tk", step.spec)))).to_text().splitlines()[1:] for step in STEPS]
    assert wanted in found


def test_apply() -> None:
    spec = "a\n  b\nc\n"
    assert apply(spec, "-  b\n+  d\n") == "a\n  d\nc\n"
    assert apply(spec, " c\n+e\n+f\n") == "a\n  b\nc\ne\nf\n"
    with pytest.raises(AssertionError, match="not one line"):
        apply(spec, "-x\n")
