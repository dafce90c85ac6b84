"""A fixed sample of the mutants that `benchmarks/mutation.py` tries in full: nothing wrong is accepted."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
from mutating.referee import Referee, rejected, small
from mutating.schedules import mutants

from tests.sampling import slow
from tkgen.emulate import interleavings
from tkgen.targets import load_target
from tkgen.toolchain.discover import NoCompilerError, find_compiler

SPECS = Path(__file__).parents[2] / "specs"
EVERY = {"subtiles_16": 12, "producer_consumer_4p8c": 10, "one_wave": 6, "lds_double_buffer_8": 18}
# Every second one of these runs by default, from one on with which both right and wrong ones are met.
HALF = [("subtiles_16", 0, 2), ("producer_consumer_4p8c", 1, 2), ("one_wave", 0, 2), ("lds_double_buffer_8", 1, 2)]


@pytest.fixture(scope="module", autouse=True)
def compiler() -> None:
    try:
        find_compiler(load_target("gfx942"))
    except NoCompilerError:
        pytest.skip("no compiler for AMD GPUs")


@pytest.mark.parametrize(("name", "first", "step"), [*HALF, *(slow(name, 0, 1) for name in EVERY)])
def test_no_wrong_mutant_is_accepted(name: str, first: int, step: int) -> None:
    spec = small(SPECS / f"{name}.tk")
    referee = Referee(spec, interleavings(2))
    assert not rejected(spec, spec.plan) and not referee.fault(spec.plan)
    verdicts = set()
    for mutant in islice(mutants(spec.plan), first * EVERY[name], None, step * EVERY[name]):
        if referee.changes(mutant.plan):
            codes, fault = rejected(spec, mutant.plan), referee.fault(mutant.plan)
            assert codes or not fault, f"{mutant.kind}: {mutant.what}: accepted, but {fault}"
            assert fault or not codes, f"{mutant.kind}: {mutant.what}: {codes}, but right"
            verdicts.add(bool(codes))
    assert verdicts == {True, False}


def test_mutants_are_many_and_of_every_kind() -> None:
    kinds = {
        m.kind for name in ("ping_pong", "producer_consumer_4p4c") for m in mutants(small(SPECS / f"{name}.tk").plan)
    }
    kinds |= {m.kind for m in mutants(small(SPECS / "linear_softmax.tk").plan)}
    assert {
        "drop barrier", "move barrier", "duplicate barrier", "barrier in one role", "drop wait", "move wait",
        "duplicate wait", "shift slot", "swap order", "shrink collective", "grow collective", "permute coordinate",
        "skip zero", "change phase", "drop store", "shift step", "drop reduce", "drop gather", "delay round",
    } <= kinds  # fmt: skip
