"""Programs and plans that a mistake of tkgen would leave: each breaks the rule that is there for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from planning import planned_file

from tkgen.ir.program_verifier import verify
from tkgen.ir.types import Program, Side
from tkgen.ir.verifier import Broken
from tkgen.schedule.verifier import verify as verify_plan
from tkgen.tile.ops import (
    Barrier,
    Cluster,
    Control,
    Gather,
    Load,
    Multiply,
    Read,
    Reduce,
    Schedule,
    region,
)
from tkgen.tile.program import Drain, Op, Part, Role, Space, ops

SPECS = Path(__file__).parents[2] / "specs"
GEMM = planned_file(SPECS / "eight_wave.tk").program
TWO = planned_file(SPECS / "swiglu.tk").program
ROLES = planned_file(SPECS / "load_and_compute_waves.tk").program
AT = GEMM.accumulator.span


def changed_operand(p: Program, **values: object) -> Program:
    """`p` with another first operand, which its product takes, too."""
    one = replace(p.operands[0], **values)  # type: ignore[arg-type]
    return replace(p, operands=(one, p.operands[1]), products=(replace(p.products[0], left=one),))


def written(op: Op) -> Program:
    schedule = Schedule(None, True, True, (Cluster((op,), False, AT),), AT)
    return replace(GEMM, roles=(replace(GEMM.roles[0], schedule=schedule),))


PROGRAMS: dict[str, tuple[str, Program]] = {
    "two tensors of one name": ("names", replace(GEMM, tensors=(*GEMM.tensors, GEMM.tensors[0]))),
    "an output of no tensor": ("names", replace(GEMM, tensors=GEMM.tensors[:2])),
    "a factor that is no operand": ("products", replace(TWO, operands=TWO.operands[:2])),
    "an operand of no product": ("products", replace(TWO, products=TWO.products[:1])),
    "a right factor on the left": ("products", changed_operand(GEMM, side=Side.B)),
    "a tile that is not the block's": ("tiles", changed_operand(GEMM, extent=64)),
    "a slice that does not divide": ("tiles", changed_operand(GEMM, slice=48)),
    "no buffer": ("tiles", changed_operand(GEMM, buffers=0)),
    "sums beside the block": ("fragments", replace(GEMM, accumulator=replace(GEMM.accumulator, fragments=(2, 2)))),
    "too few register tiles": ("fragments", changed_operand(GEMM, fragments=3)),
    "a wave of two roles": ("waves", replace(ROLES, roles=(replace(ROLES.roles[0], last=4), *ROLES.roles[1:]))),
    "a wave of none": ("waves", replace(ROLES, roles=(replace(ROLES.roles[0], last=2), *ROLES.roles[1:]))),
    "two that multiply": ("waves", replace(ROLES, roles=tuple(replace(r, shape=(2, 2)) for r in ROLES.roles))),
    "a load of nothing": ("waves", replace(GEMM, roles=(replace(GEMM.roles[0], loads=("A", "B", "Z")),))),
    "a read of nothing": ("written", written(Read.of("Z", 0, (0,), (0,)))),
    "a fragment too far": ("written", written(Read.of("A", 0, (1,), (0,)))),
    "a slice too far": ("written", written(Multiply.of(("A", "B"), (0,), (0,), (1,)))),
    "a product that is not there": ("written", written(Multiply.of(("A", "B"), (0,), (0,), (), product="z"))),
    "a move to another step's place": ("written", written(Load(
        region(Space.GLOBAL, "A", 0), region(Space.SHARED, "A", 1)))),
    "equations of another block": ("axes", replace(TWO, block=(128, 128, 32), operands=tuple(
        replace(o, step=32) for o in TWO.operands), products=tuple(
        replace(p, left=replace(p.left, step=32), right=replace(p.right, step=32)) for p in TWO.products))),
}  # fmt: skip


@pytest.mark.parametrize("mistake", PROGRAMS)
def test_a_program_that_cannot_be_is_found(mistake: str) -> None:
    rule, program = PROGRAMS[mistake]
    with pytest.raises(Broken) as found:
        verify(program, "a test")
    assert found.value.rule == rule and "after a test" in str(found.value)


@pytest.mark.parametrize("path", sorted(SPECS.glob("*.tk")), ids=lambda p: p.stem)
def test_what_is_bundled_breaks_no_rule(path: Path) -> None:
    plan = planned_file(path)
    assert verify(plan.program, "a test") is plan.program
    verify_plan(plan.program, plan.target, plan.waves, plan.automatic)


def body(edit: Callable[[tuple[Op, ...]], tuple[Op, ...]]) -> Callable[[Role], Role]:
    return lambda wave: wave.with_ops(Part.BODY, edit(wave.ops(Part.BODY)))


def leaves(placed: Op, count: int) -> Op:
    return replace(placed, left=str(count)) if isinstance(placed, Drain) else placed


PLANS: dict[str, tuple[str, Callable[[Role], Role]]] = {
    "a wave left out": ("waves", lambda w: replace(w, waves=w.waves[1:])),
    "another role's": ("waves", lambda w: replace(w, name="other")),
    "an operand that is not there": ("ops", body(lambda ops: (Load.of("Z"), *ops))),
    "a fragment that is not there": ("ops", body(lambda ops: (
        Read.of("B", 0, (2,), (0,)), *ops))),
    "a step before the first": ("steps", lambda w: replace(w, before=(*w.before, Load.of("A").moved("", -1)))),
    "the loop's steps in the epilogue": ("steps", lambda w: replace(w, behind=(*w.tiles.body, *w.behind))),
    "a wait for nothing": ("waits", body(lambda ops: tuple(leaves(p, 15) for p in ops))),
}  # fmt: skip


@pytest.mark.parametrize("mistake", PLANS)
def test_a_plan_that_cannot_be_is_found(mistake: str) -> None:
    rule, edit = PLANS[mistake]
    plan = planned_file(SPECS / "eight_wave.tk")
    with pytest.raises(Broken) as found:
        verify_plan(plan.program, plan.target, [edit(w) for w in plan.waves], placed=True)
    assert found.value.rule == rule


@pytest.mark.parametrize("kind", [Reduce, Gather])
def test_a_round_of_reductions_that_is_not_done_is_found(kind: type[Op]) -> None:
    """The calculus orders what goes through LDS; that each round is gathered before it is used it does not say."""
    plan = planned_file(SPECS / "linear_softmax.tk")
    (wave,) = plan.waves
    at = [n for n, p in enumerate(wave.behind) if isinstance(p, kind)]
    assert len(at) == 2
    for n in at:
        missing = (*wave.behind[:n], *wave.behind[n + 1 :])
        for behind in (missing, (*missing, wave.behind[n])):
            with pytest.raises(Broken, match="rounds"):
                verify_plan(plan.program, plan.target, [replace(wave, behind=behind)], placed=True)


def test_roles_that_meet_unequally_often_are_found() -> None:
    plan = planned_file(SPECS / "load_and_compute_waves.tk")
    first, second = plan.waves
    fewer = second.with_ops(Part.BODY, (p for p in second.ops(Part.BODY) if not isinstance(p, Barrier)))
    with pytest.raises(Broken, match="meetings"):
        verify_plan(plan.program, plan.target, [first, fewer], placed=True)
    verify_plan(plan.program, plan.target, [first, fewer], placed=False)  # a written one is the user's, and proven


@pytest.mark.parametrize("name", ["eight_wave", "ping_pong", "hk_8c4p_2", "load_and_compute_waves", "swiglu"])
def test_the_operations_of_an_iteration_are_told_apart_by_number(name: str) -> None:
    """Wherever they are clipped to; what two roles follow as one clause is one."""
    plan = planned_file(SPECS / f"{name}.tk")
    for body in plan.bodies.values():
        numbers = [op.identity for op in body if not (isinstance(op, Control) and op.automatic and op.span is None)]
        assert numbers and -1 not in numbers and len(set(numbers)) == len(numbers)
    known = {op.identity: op for body in plan.bodies.values() for op in body}
    for wave in plan.waves:
        placed = [p for p in ops(wave.nodes) if p.identity >= 0]
        there = ((op, known[op.identity]) for op in placed if not isinstance(op, Drain))
        assert placed and all(op == first.moved(op.at, op.offset - first.offset) for op, first in there)
