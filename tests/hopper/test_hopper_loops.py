"""Attention for Hopper without a GPU: layouts and what is refused, the proof and its mutants, the code."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import pytest
from loop_cases import CASES, Attention
from test_hopper_build import compiles
from test_hopper_schedule import bytes_off, drained_less, dropped, edited, phase_moved
from typer.testing import CliRunner

import tkgen.backends.hopper.loop_schedule as back_end
from tkgen.api import load
from tkgen.backends.hopper.loop_schedule import Shape, in_turn, representatives, schedule, unproven
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.cli import app
from tkgen.diagnostics import SpecError
from tkgen.proof.faults import faults
from tkgen.proof.passes import loop_faults
from tkgen.proof.program import Arrive, Await, Fence, Meet, Step

SPECS = Path(__file__).parents[2] / "specs" / "hopper"
SMALL = Shape(left=2, right=2, consumers=2, passes=3, warps=1)
WHOLE = Shape(left=2, right=2, consumers=2, passes=5, warps=2)


def test_every_case_has_a_layout_that_is_proven() -> None:
    for case in CASES:
        spec = case.spec()
        layout = (spec.check() if case.buffers == 2 else spec).layout  # other rings below: their proofs take seconds
        assert layout.consumers * 64 == case.rows and layout.keys == case.block
        assert layout.shared_bytes <= 232448


def test_passes_are_those_that_the_mask_leaves() -> None:
    assert Attention(1000, 1000).spec().layout.pass_counts == (8,)
    assert Attention(1000, 1000, causal=True).spec().layout.pass_counts == (1, 2, 3, 4, 5, 6, 7, 8)
    assert Attention(1000, 1000, causal=True, window=100).spec().layout.pass_counts == (1, 2)
    assert Attention(130, 700, causal=True).spec().layout.pass_counts == (6,)


def test_masks_stand_in_the_tiles_that_they_cut() -> None:
    text = Attention(256, 256, causal=True).spec().text
    assert "if (first_row >= iteration * KEYS + KEYS - 1) {" in text and "} else {" in text
    assert "else {" not in Attention(256, 256).spec().text.split("if (++right")[1].split("}")[0]


def test_sums_of_rows_are_gathered_behind_the_loop() -> None:
    """The sum of a softmax is each lane's own until then; a maximum is of the whole row in each iteration."""
    text = Attention(256, 256).spec().text
    body, behind = text.split("if (laneid() == 0) arrive(held_empty);")
    assert "sum_p[r] = sum_p_parts.of_lane(r);" in body and "max_s[r] = max_s_parts.of_row(r);" in body
    assert "sum_p_parts.of_row" not in body and "l[r] = tk::across<base_ops::sum, 4>(l[r]);" in behind
    used = load(Attention(256, 256).text.replace("exp2(s - n)", "exp2(s - n) / (1 + 0 * l)"))
    assert isinstance(used, HopperSpec) and "parts.of_row(r);" in used.text.split("tk::parts<base_ops::sum>")[1]


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("waves 8", "waves 4", "write `waves 8 along q`"),
        (" via direct", " via collective", "remove `via collective`"),
        ("j in KEYS by 128", "j in KEYS by 96", "128, 192, 256"),
        ("buffers 2", "buffers 3", "bytes of shared memory"),
        ("j in KEYS by 128", "j in KEYS by 256", "bytes of shared memory"),
        ("  shared K", "  registers Q\n  shared K", "remove `registers`"),
        ("  shared K", "  schedule simple\n  shared K", "fused matmuls on Hopper have only `ping_pong` as a schedule"),
    ],
)
def test_what_it_cannot_do_is_said(old: str, new: str, said: str) -> None:
    text = Attention(512, 512).text.replace(old, new)
    with pytest.raises(SpecError) as caught:
        load(text).check()
    found = caught.value.diagnostics
    assert {d.code[0] for d in found} == {"E"} and said in str([(d.message, d.fix) for d in found])


@pytest.mark.parametrize("causal", [False, True])
def test_more_tiles_than_a_launch_has_are_refused(causal: bool) -> None:
    with pytest.raises(SpecError) as caught:
        load(SPECS / f"h100_attention{'_causal' * causal}.tk",
             {"BATCH": 2_000_000, "HEADS": 1024, "KV_HEADS": 1024, "LENGTH": 256}).check()  # fmt: skip
    assert [d.code for d in caught.value.diagnostics] == ["E607"]


@pytest.mark.parametrize("blocks", [1, 3, 200_000])
def test_a_grid_may_have_any_number_of_persistent_blocks(blocks: int) -> None:
    text = (SPECS / "h100_attention_causal.tk").read_text()
    assert not load(text.replace("persistent(132)", f"persistent({blocks})")).check().diagnostics


# ---------------------------------------------------------------- the proof

MUTANTS: dict[str, Callable[[Step], list[Step]]] = {
    f"no wait for {what}": dropped(Await, lambda s, what=what: isinstance(s, Await) and s.meeting.startswith(what))
    for what in ("held full", "held empty", "left full", "left empty", "right full", "right empty")
} | {
    "the other phase of left full": phase_moved("left full", 1),
    "the other phase of right empty": phase_moved("right empty", 1),
    "the other phase of held": phase_moved("held empty", 1),
    "a turn too late": phase_moved("turn", 1),
    "a byte too many expected": bytes_off,
    "one group of products more in flight": drained_less("products"),
    "no wait for stores to have read": drained_less("stores"),
    "no fence": dropped(Fence),
    "no meeting around the store": dropped(Meet),
    "the held tile is not given back": dropped(Arrive, lambda s: isinstance(s, Arrive) and s.meeting == "held empty"),
    "no right buffer is given back": dropped(Arrive, lambda s: isinstance(s, Arrive) and "right empty" in s.meeting),
    "nobody hands the turn on": dropped(Arrive, lambda s: isinstance(s, Arrive) and s.meeting.startswith("turn")),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_every_mutant_has_a_fault(mutant: str) -> None:
    shapes = [replace(SMALL, passes=n, consumers=c, warps=w) for c, w in ((1, 2), (2, 1)) for n in (2, 3)]
    assert any(edited(schedule(s), MUTANTS[mutant]) != schedule(s) for s in shapes)
    assert any(faults(edited(schedule(s), MUTANTS[mutant]).unrolled(n)) for s in shapes for n in (1, 2, 3))


@pytest.mark.parametrize("mutant", [*MUTANTS][::6])
def test_smaller_shapes_stand_for_the_whole(mutant: str) -> None:
    """One consumer of two warps, or two of one, a turn of the rings less in a tile: one has the same verdict."""
    smaller = representatives(WHOLE, [WHOLE.passes])
    assert [(s.consumers, s.warps, s.passes) for s in smaller] == [(1, 2, 3), (2, 1, 3)]
    assert faults(edited(schedule(WHOLE), MUTANTS[mutant]).unrolled(1))
    assert any(faults(edited(schedule(s), MUTANTS[mutant]).unrolled(passes)) for s in smaller for passes in (1, 2, 3))


def test_what_is_right_has_no_fault() -> None:
    assert not faults(schedule(WHOLE).unrolled(1))
    for consumers in (1, 3):
        shapes = representatives(Shape(2, 2, consumers, 0), range(1, 9))
        assert {s.passes for s in shapes} == {1, 2, 3, 4} and not any(loop_faults(schedule(s)) for s in shapes)


@pytest.mark.parametrize("ring", ["left", "right"])
def test_a_slot_that_a_tile_uses_again_is_waited_for(ring: str) -> None:
    """Of a tile of two turns of the rings: between tiles the wait for the held factor would do."""

    def unwaited(step: Step) -> list[Step]:
        return [] if isinstance(step, Await) and step.meeting.startswith(f"{ring} empty") else [step]

    shapes = representatives(Shape(2, 2, 1, 4), [4])
    assert any(faults(edited(schedule(s), unwaited).unrolled(passes)) for s in shapes for passes in (1, 2))


@pytest.mark.parametrize("mutant", ["none", *MUTANTS])
def test_tiles_of_different_lengths_are_proven_in_any_order(mutant: str) -> None:
    """A run of such tiles has the verdict of another one, drawn at random, of more iterations in a tile."""
    small = replace(SMALL, passes=0)
    change = MUTANTS.get(mutant, lambda step: [step])
    found = in_turn(small, range(1, 9))
    assert {min(n, 3) for s in found for n in s.run} == {1, 2, 3} and len(found) == 2
    drawn = tuple(random.Random(mutant).choices(range(1, 7), k=20))
    others = [replace(small, run=drawn, consumers=c, warps=w) for c, w in ((1, 2), (2, 1))]
    for runs in (found, others):
        assert any(faults(edited(schedule(s), change).unrolled(1)) for s in runs) == (mutant != "none")


def test_a_run_has_all_neighbours() -> None:
    (run,) = {s.run for s in in_turn(SMALL, (1, 2, 3))}
    run = tuple(min(n, 3) for n in (*run, *run[:2]))
    pairs, threes = pairwise(run), zip(run, run[1:], run[2:], strict=False)
    assert set(pairs) == set(product((1, 2, 3), repeat=2))
    assert {t for t in threes if t[1] == 1} == set(product((1, 2, 3), (1,), (1, 2, 3)))


@pytest.mark.parametrize("by", [-1, 1])
@pytest.mark.parametrize("meeting", ["left empty", "right empty", "held empty", "turn"])
def test_another_count_of_arrivals_has_a_fault(meeting: str, by: int) -> None:
    loop = schedule(SMALL)
    wrong = tuple(replace(m, arrivals=m.arrivals + by) if m.name.startswith(meeting) else m for m in loop.meetings)
    assert any(faults(replace(loop, meetings=wrong).unrolled(passes)) for passes in (1, 2, 3))


@pytest.mark.parametrize("mutant", ["no wait for right full", "nobody hands the turn on"])
def test_check_refuses_what_is_not_proven(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = back_end.schedule
    monkeypatch.setattr(back_end, "schedule", lambda *given: edited(made(*given), MUTANTS[mutant]))
    monkeypatch.setattr(back_end, "_wrong", back_end._wrong.__wrapped__)
    result = CliRunner().invoke(app, ["check", str(SPECS / "h100_attention.tk")])
    assert result.exit_code == 1 and "error[E240]: the schedule for this kernel is not proven" in result.output


def test_other_rings_are_proven() -> None:
    assert unproven(Attention(256, 256, 64, buffers=3).spec().layout) is None


# ---------------------------------------------------------------- the code


@compiles
@pytest.mark.parametrize(
    "name, defines", [("h100_attention", {}), ("h100_attention_causal", {"D": 64, "QUERIES": 192})]
)
def test_specs_compile_without_a_spill(name: str, defines: dict[str, int], tmp_path: Path) -> None:
    given = [f"{k}={v}" for k, v in defines.items()]
    arguments = ["build", str(SPECS / f"{name}.tk"), "-o", str(tmp_path), "--json"]
    result = CliRunner().invoke(app, arguments + ([*("-D", " ".join(given))] if given else []))
    assert result.exit_code == 0, result.output
    (report,) = json.loads(result.stdout)
    figures = report["figures"]
    assert figures["spill_bytes"] == figures["stack_bytes"] == 0 and not report["diagnostics"]
    assert report["consumers"] == (3 if defines else 2) and report["shared_bytes"] <= 232448
    counts = figures["instructions"]
    if counts:  # both products, copies and the store are in the machine code
        assert counts["HGMMA"] >= 24 and counts["UTMALDG"] and counts["UTMASTG"] and counts["USETMAXREG"] == 2


OTHERS = [Attention(200, 900, causal=True, window=300), Attention(200, 200, group=4, order="models'")]


@compiles
@pytest.mark.parametrize("case", OTHERS, ids=str)
def test_masks_and_other_orders_compile(case: Attention) -> None:
    assert case.spec().build().figures.spill_bytes == 0


@compiles
def test_names_of_a_spec_collide_with_nothing() -> None:
    text = Attention(256, 256).text
    for old, new in (("Q", "held_s"), ("K", "pass"), ("V", "memory"), ("O", "element")):
        text = text.replace(f" {old}[", f" {new}[").replace(f"global {old} ", f"global {new} ")
        text = text.replace(f"shared {old},", f"shared {new},").replace(f", {old} ", f", {new} ")
    spec = load(text.replace("scale", "factor"))
    assert isinstance(spec, HopperSpec) and spec.build().figures.registers > 0
