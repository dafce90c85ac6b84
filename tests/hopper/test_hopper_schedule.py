"""The schedule of the generated kernel under the general proof: no fault as it is, a fault in every mutant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tkgen.api import load
from tkgen.backends.hopper import checks
from tkgen.backends.hopper import schedule as back_end
from tkgen.backends.hopper.schedule import Shape, representatives, schedule
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.cli import app
from tkgen.proof.faults import faults
from tkgen.proof.passes import loop_faults
from tkgen.proof.program import Arrive, Await, Do, Drain, Fence, Loop, Meet, Step

SPEC = Path(__file__).parents[2] / "specs" / "hopper" / "h100_lcf.tk"
SMALL = Shape(stages=2, consumers=1, steps=3, panels=2, buffers=2, warps=2)


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_any_number_of_tiles_is_free_of_faults(stages: int, steps: int) -> None:
    """`loop_faults` unrolls until the pattern repeats: that is all numbers of passes."""
    assert not loop_faults(schedule(Shape(stages, 1, steps, panels=2, buffers=1, warps=2)))


CLUSTER = replace(SMALL, panels=1, buffers=1, warps=1, blocks=2, common="B")


@pytest.mark.parametrize("steps, common", [(1, "A"), (2, "B"), (3, "A"), (3, "B")])
def test_clusters_are_free_of_faults_for_any_number_of_tiles(steps: int, common: str) -> None:
    loop = schedule(replace(CLUSTER, steps=steps, common=common))
    assert not loop_faults(loop) and not back_end.wrong(loop)


@pytest.mark.slow
@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("steps", [1, 2, 3, 4, 5, 7])
def test_all_clusters_are_free_of_faults(stages: int, steps: int) -> None:
    assert not loop_faults(schedule(replace(CLUSTER, stages=stages, steps=steps)))


def test_whole_clusters_are_free_of_faults() -> None:
    whole = schedule(Shape(3, 2, 4, 2, 1, warps=2, blocks=2, common="B"))
    assert not faults(whole.unrolled(1)) and not faults(whole.unrolled(2))


@pytest.mark.parametrize(
    "shape",
    [
        Shape(4, 2, 6, 4, 2),
        Shape(4, 2, 9, 4, 2),
        Shape(3, 3, 5, 3, 3),
        Shape(6, 2, 4, 2, 2),
        Shape(2, 2, 7, 4, 4),
        Shape(3, 2, 5, 2, 1, scaled=True),
    ],
    ids=str,
)
def test_whole_blocks_over_several_passes_are_free_of_faults(shape: Shape) -> None:
    for passes in (1, 2, 3):
        assert not faults(schedule(shape).unrolled(passes))


def edited(loop: Loop, edit: Callable[[Step], list[Step]]) -> Loop:
    """`loop` with every step of every agent replaced by what `edit` makes of it."""

    def steps(of: tuple[Step, ...]) -> tuple[Step, ...]:
        return tuple(made for step in of for made in edit(step))

    agents = tuple(replace(a, prologue=steps(a.prologue), body=steps(a.body), epilogue=steps(a.epilogue))
                   for a in loop.agents)  # fmt: skip
    return replace(loop, agents=agents)


def dropped(kind: type[Step], when: Callable[[Step], bool] = lambda _: True) -> Callable[[Step], list[Step]]:
    return lambda step: [] if isinstance(step, kind) and when(step) else [step]


def is_drain(stream: str) -> Callable[[Step], bool]:
    return lambda step: isinstance(step, Drain) and step.stream == stream


def phase_moved(meeting: str, by: int) -> Callable[[Step], list[Step]]:
    def edit(step: Step) -> list[Step]:
        moved = isinstance(step, Await) and step.meeting.startswith(meeting)
        return [replace(step, phase=step.phase + by)] if moved else [step]  # type: ignore[type-var, call-arg]

    return edit


def bytes_off(step: Step) -> list[Step]:
    return [replace(step, bytes=step.bytes + 1)] if isinstance(step, Arrive) and step.bytes else [step]


def drained_less(stream: str) -> Callable[[Step], list[Step]]:
    def edit(step: Step) -> list[Step]:
        return [replace(step, left=step.left + 1)] if isinstance(step, Drain) and step.stream == stream else [step]

    return edit


MUTANTS: dict[str, Callable[[Step], list[Step]]] = {
    "no wait for a full stage": dropped(Await, lambda s: isinstance(s, Await) and s.meeting.startswith("full")),
    "no wait for an empty stage": dropped(Await, lambda s: isinstance(s, Await) and s.meeting.startswith("empty")),
    "the other phase of full": phase_moved("full", 1),
    "the other phase of empty": phase_moved("empty", 1),
    "a byte too many expected": bytes_off,
    "no wait for products": dropped(Drain, is_drain("products")),
    "one group of products more in flight": drained_less("products"),
    "no wait for stores to have read": dropped(Drain, is_drain("stores")),
    "one store more in flight": drained_less("stores"),
    "no fence before a store": dropped(Fence),
    "no meeting around a panel": dropped(Meet),
    "no stage is given back": dropped(Arrive, lambda s: isinstance(s, Arrive) and s.meeting.startswith("empty")),
}


@pytest.mark.parametrize("mutant", MUTANTS)
@pytest.mark.parametrize("scaled", [False, True])
def test_every_mutant_has_a_fault(mutant: str, scaled: bool) -> None:
    shape = replace(SMALL, scaled=scaled)
    loop = edited(schedule(shape), MUTANTS[mutant])
    assert loop != schedule(shape)
    assert any(faults(loop.unrolled(passes)) for passes in (1, 2, 3, 4))


SCATTERED = Shape(stages=2, consumers=1, steps=3, panels=0, buffers=0, warps=2, outputs=0, scattered=2)
OF_PANELS = tuple(name for name in MUTANTS if "store" in name or "panel" in name)


@pytest.mark.parametrize("mutant", [name for name in MUTANTS if name not in OF_PANELS])
def test_every_mutant_of_scattered_sums_has_a_fault(mutant: str) -> None:
    """Registers are stored, so there are no panels of shared memory to guard; beside other outputs there are."""
    for shape in (SCATTERED, replace(SCATTERED, panels=2, buffers=2, outputs=1)):
        assert not any(faults(schedule(shape).unrolled(passes)) for passes in (1, 2, 3))
        loop = edited(schedule(shape), MUTANTS[mutant])
        assert any(faults(loop.unrolled(passes)) for passes in (1, 2, 3, 4))
    assert all(edited(schedule(SCATTERED), MUTANTS[name]) == schedule(SCATTERED) for name in OF_PANELS)


WHOLE = Shape(stages=3, consumers=2, steps=8, panels=6, buffers=2, warps=3)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_smaller_shape_stands_for_the_whole(mutant: str) -> None:
    """One consumer of two warps, a turn of the ring less in a tile, fewer panels: the same verdict."""
    (small,) = representatives(WHOLE, [WHOLE.steps])
    assert (small.consumers, small.warps, small.steps, small.panels) == (1, 2, 5, 4)
    assert any(faults(edited(schedule(WHOLE), MUTANTS[mutant]).unrolled(passes)) for passes in (1, 2))
    assert any(faults(edited(schedule(small), MUTANTS[mutant]).unrolled(passes)) for passes in (1, 2))


def test_a_smaller_shape_of_what_is_right_is_right() -> None:
    assert not any(faults(schedule(WHOLE).unrolled(passes)) for passes in (1, 2))
    assert not any(loop_faults(schedule(small)) for small in representatives(WHOLE, [WHOLE.steps]))


# Those of what warps of a consumer do with each other are found in a block by itself, which is proven, too.
IN_CLUSTERS = [name for name in MUTANTS if name not in ("no meeting around a panel", "one store more in flight")]


@pytest.mark.parametrize("mutant", IN_CLUSTERS)
def test_every_mutant_of_a_cluster_has_a_fault(mutant: str) -> None:
    loop = edited(schedule(CLUSTER), MUTANTS[mutant])
    assert any(faults(loop.unrolled(passes)) for passes in (1, 2, 3))


def test_a_cluster_is_proven_as_a_block_by_itself_and_as_blocks_of_one_warp() -> None:
    alone, blocks = representatives(replace(WHOLE, blocks=2, common="A"), [WHOLE.steps])
    assert alone == representatives(WHOLE, [WHOLE.steps])[0]
    assert (blocks.blocks, blocks.common, blocks.consumers, blocks.warps, blocks.panels) == (2, "A", 1, 1, 1)


def never_met(step: Step) -> list[Step]:
    return [] if isinstance(step, Meet) and step.meeting == "cluster" else [step]


def to_the_first(step: Step) -> list[Step]:
    given_back = isinstance(step, Arrive) and step.meeting.startswith("empty")
    return [replace(step, meeting=f"{step.meeting[:-1]}0")] if given_back else [step]  # type: ignore[type-var, call-arg, attr-defined]


CARELESS: dict[str, Callable[[Step], list[Step]]] = {
    "blocks of a cluster never meet": never_met,
    "stages are given back to the first block alone": to_the_first,
}


@pytest.mark.parametrize("slip", CARELESS)
def test_clusters_that_are_not_proven_are_refused_and_would_get_through(
    slip: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = back_end.schedule
    monkeypatch.setattr(back_end, "schedule", lambda *of: edited(made(*of), CARELESS[slip]))
    monkeypatch.setattr(back_end, "_wrong", back_end._wrong.__wrapped__)
    words = ["check", str(SPEC.with_name("h100_cluster.tk"))]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1 and "error[E240]: the schedule for this kernel is not proven" in result.output
    monkeypatch.setattr(checks, "unproven", lambda layout: None)
    assert CliRunner().invoke(app, words).exit_code == 0


@pytest.mark.parametrize("mutant", MUTANTS)
def test_check_refuses_what_is_not_proven(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = back_end.schedule
    monkeypatch.setattr(back_end, "schedule", lambda *of: edited(made(*of), MUTANTS[mutant]))
    monkeypatch.setattr(back_end, "_wrong", back_end._wrong.__wrapped__)
    result = CliRunner().invoke(app, ["check", str(SPEC)])
    assert result.exit_code == 1 and "error[E240]: the schedule for this kernel is not proven" in result.output


def test_a_store_that_is_left_out_is_refused() -> None:
    """Nothing races and nothing hangs, but the sums never leave."""
    loop = edited(schedule(SMALL), dropped(Do, lambda s: isinstance(s, Do) and s.stream == "stores"))
    assert not loop_faults(loop)
    assert back_end.wrong(loop) == "nobody reads what is written of `panel 0`" and not back_end.wrong(schedule(SMALL))


def test_check_says_that_it_is_proven() -> None:
    result = CliRunner().invoke(app, ["check", str(SPEC)])
    assert result.exit_code == 0 and "not proven" not in result.output and "the schedule is proven" in result.output


@pytest.mark.parametrize("stages", [2, 3])
def test_a_dynamic_k_is_proven_for_all_numbers_of_steps(stages: int) -> None:
    """Every remainder with one turn of the ring before it, and every number below."""
    shapes = representatives(replace(WHOLE, stages=stages), range(1, 3 * stages))
    assert [s.steps for s in shapes] == list(range(1, 2 * stages))
    assert not any(loop_faults(schedule(s)) for s in shapes)


def test_what_is_made_of_a_step_reads_what_its_products_left() -> None:
    """Products whose sums scale the step before would be read too early, or written over."""
    loop = schedule(replace(SMALL, scaled=True))
    assert not loop_faults(loop)

    def early(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        found = list(steps)
        at = next(n for n, s in enumerate(found) if isinstance(s, Do) and s.writes[0].ring.startswith("sums"))
        found.insert(at - 2, found.pop(at))
        return tuple(found)

    moved = [replace(a, body=early(a.body)) if a.name.startswith("consumer") else a for a in loop.agents]
    assert any(faults(replace(loop, agents=tuple(moved)).unrolled(passes)) for passes in (1, 2))


RUN = replace(WHOLE, steps=0, run=(2, 7, 7, 7, 7, 7, 7, 7, 4))


def test_a_run_through_tiles_is_proven_by_a_shorter_one() -> None:
    """Every third tile of seven steps begins with stage 0 of three: four of the seven are left, a turn of each, too."""
    (small,) = back_end.representative_runs(RUN, [RUN.run])
    assert small.run == (2, 4, 4, 4, 4, 4) and (small.consumers, small.warps, small.panels) == (1, 2, 4)
    assert not faults(schedule(RUN).unrolled(1)) and not back_end.wrong(schedule(small), once=True)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_of_a_run_has_a_fault(mutant: str) -> None:
    (small,) = back_end.representative_runs(RUN, [RUN.run])
    assert faults(edited(schedule(RUN), MUTANTS[mutant]).unrolled(1))
    assert back_end.wrong(edited(schedule(small), MUTANTS[mutant]), once=True)


def test_the_blocks_of_a_launch_are_proven() -> None:
    """39 steps each of 40 tiles of 128, 11 of the last block."""
    spec = load(SPEC.parent / "h100_stream_k.tk")
    assert isinstance(spec, HopperSpec)
    runs = back_end.runs(spec.layout)
    assert sum(map(sum, runs)) < 40 * 128 and all(sum(r) in (39, 11) for r in runs), runs
    assert {s.run for s in back_end.shapes(spec.layout)} == {s.run for s in back_end.representative_runs(WHOLE, runs)}


@pytest.mark.parametrize("by", [-1, 1])
def test_another_count_of_arrivals_has_a_fault(by: int) -> None:
    loop = schedule(SMALL)
    wrong = tuple(replace(m, arrivals=m.arrivals + by) if m.name.startswith("empty") else m for m in loop.meetings)
    assert any(faults(replace(loop, meetings=wrong).unrolled(passes)) for passes in (1, 2, 3, 4))


def test_one_stage_hangs() -> None:
    """Why `buffers 1` is refused: the first stage is given back after the issue of the second step's products."""
    assert faults(schedule(replace(SMALL, stages=1)).unrolled(1))


def test_products_read_what_copies_bring() -> None:
    (producer, consumer, *_) = schedule(SMALL).agents
    written = {(a.ring, a.instance, a.slot) for s in producer.body if isinstance(s, Do) for a in s.writes}
    read = {
        (a.ring, a.instance, a.slot) for s in consumer.body if isinstance(s, Do) for a in s.reads if a.ring[0] in "AB"
    }
    assert written == read and len(written) == 2 * SMALL.tiles * SMALL.steps
