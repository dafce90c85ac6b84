"""The cause of mistakes in kernels that somebody wrote by hand: which step of the meaning is another one."""

from __future__ import annotations

import re

import pytest
from mutating.hand_written import LAUNCHES, MUTANTS
from sampling import only
from verify_hand_written import kernel_text, verdict_on

NAMED = only(range(len(MUTANTS)), [0, 7, 13, 18])  # a sum, an operand, a tree of sums, a quotient


@pytest.mark.parametrize("kernel", only(LAUNCHES, ["softmax"]))
def test_right_kernels_have_no_cause(kernel: str) -> None:
    verdict = verdict_on(kernel, kernel_text(kernel))
    assert verdict.ok and not verdict.cause


@pytest.mark.parametrize("number", NAMED)
def test_the_named_cause_is_the_mistake(number: int) -> None:
    mutant = MUTANTS[number]
    text = kernel_text(mutant.kernel)
    assert text.count(mutant.old) == 1
    verdict = verdict_on(mutant.kernel, text.replace(mutant.old, mutant.new))
    assert not verdict.ok
    (cause,) = verdict.cause
    assert re.search(mutant.cause, str(cause)), cause
