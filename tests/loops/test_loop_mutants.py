"""Changed steps of a loop, on a sample: what the proofs accept is right (`benchmarks/mutation.py` tries all)."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
from mutating import written
from mutating.loops import LoopReferee, mutants, small, with_steps

from tkgen.emulate import interleavings
from tkgen.targets import load_target
from tkgen.tile.ops import Barrier, Share
from tkgen.tile.program import Part
from tkgen.toolchain.discover import NoCompilerError, find_compiler

SPECS = Path(__file__).parents[2] / "specs" / "attention"
ATTENTION = SPECS / "attention.tk"
EVERY = {  # mutant is tried of each spec
    "attention": 6, "attention_direct": 11, "attention_interleaved": 14, "attention_ping_pong": 70,
    "attention_backward/keys": 31, "attention_backward_atomic/keys": 62, "linear_attention/states": 9,
}  # fmt: skip
FEW = ("attention_ping_pong", "attention_backward/keys")


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in FEW else pytest.mark.slow) for n in EVERY])
def test_no_wrong_mutant_of_a_loop_is_accepted(name: str) -> None:
    try:
        find_compiler(load_target("gfx942"))
    except NoCompilerError:
        pytest.skip("no compiler for AMD GPUs")
    spec = small(SPECS / f"{name.partition('/')[0]}.tk")[name]
    referee = LoopReferee(spec, interleavings(2))
    assert not referee.rejected(spec) and not referee.fault(spec)
    verdicts = set()
    for mutant in islice((m for m in mutants(spec) if referee.changes(m.spec)), 0, None, EVERY[name]):
        found, fault = referee.rejected(mutant.spec), referee.fault(mutant.spec)
        assert found or not fault, f"{mutant.kind}: {mutant.what}: accepted, but {fault}"
        verdicts.add(bool(found))
    assert verdicts == {True, False}


@pytest.mark.parametrize(
    "name", ["attention_written", pytest.param("attention_written/phases", marks=pytest.mark.slow)]
)
def test_no_wrong_mutant_of_a_written_schedule_is_accepted(name: str) -> None:
    try:
        find_compiler(load_target("gfx942"))
    except NoCompilerError:
        pytest.skip("no compiler for AMD GPUs")
    spec = written.small(SPECS)[name]
    referee, own = written.WrittenReferee(spec, interleavings(1)), spec.layout.written
    assert own is not None and not referee.rejected(own) and not referee.fault(own)
    verdicts = set()
    changed = [m for m in written.mutants(own) if referee.changes(m.schedule)]
    taken = [m for m in changed if not referee.rejected(m.schedule)]
    for mutant in (*changed[::120], *taken[::28]):
        found, fault = referee.rejected(mutant.schedule), referee.fault(mutant.schedule)
        assert found or not fault, f"{mutant.kind}: {mutant.what}: accepted, but {fault}"
        verdicts.add(bool(found))
    assert verdicts == {True, False}


def test_a_meeting_left_out_is_found() -> None:
    spec = small(ATTENTION)["attention"]
    referee = LoopReferee(spec, interleavings(1))
    found = [referee.rejected(m.spec) for m in mutants(spec) if m.kind == "drop barrier"]
    assert len(found) == 2 and all("races" in rules for rules in found)


def test_what_is_wrong_without_a_meeting_is_refused_by_the_proof_alone() -> None:
    """Waves that take what others give before these have: the terms are as they should be, the numbers are not."""
    spec = small(SPECS / "attention_backward_atomic.tk")["attention_backward_atomic/keys"]
    referee = LoopReferee(spec, interleavings(2))
    body = spec.schedule.ops(Part.BODY)
    given = next(n for n, step in enumerate(body) if isinstance(step, Share))
    assert isinstance(body[given + 1], Barrier)
    without = with_steps(spec, Part.BODY, (*body[: given + 1], *body[given + 2 :]))
    assert referee.rejected(without) == ("races",) and referee.fault(without)
