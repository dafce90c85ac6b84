"""`schedule ping_pong` of fused matmuls: of two waves of a SIMD one multiplies while the other one computes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from changed_waves import is_right, left_out, with_each
from sampling import slow

import tkgen
from tkgen.backends.cdna.spec import Spec
from tkgen.build import Build
from tkgen.diagnostics import SpecError
from tkgen.execute.launch import run, trials
from tkgen.predict import predict
from tkgen.proof.passes import first_wrong
from tkgen.schedule.loop_program import barrier
from tkgen.schedule.loop_steps import clocked, unproven
from tkgen.schedule.loop_terms import unlike
from tkgen.tile.ops import Barrier, Equations, Priority, barriers
from tkgen.tile.program import Part, Role, StreamKind
from tkgen.toolchain.isa import main_loop

SPECS = Path(__file__).parents[2] / "specs/attention"
PLAIN, DIRECT = ((SPECS / f"attention_ping_pong{kind}.tk").read_text(encoding="utf-8") for kind in ("", "_direct"))
TEXTS = {"gfx942": PLAIN, "gfx950": PLAIN, "gfx950 direct": DIRECT}
SIZES = "BATCH = 1, HEADS = 1, LENGTH = {}, D = 64"


def with_sizes(text: str, length: int) -> str:
    return re.sub(r"BATCH = .*", SIZES.format(length), text, count=1)


def spec_of(text: str, target: str) -> Spec:
    spec = tkgen.load(text, target=target.split()[0])
    assert isinstance(spec, Spec)
    return spec


def built(text: str, target: str) -> Build:
    build = spec_of(text, target).build().check()
    assert build.machine_check.outcome == "right" and build.resources.clean
    return build


def causal(text: str) -> str:
    found = text.replace("in LENGTH by 64", "in LENGTH by 64 to q")
    return re.sub(r"( +)(s = scale.*)", r"\1\2\n\1s = where(q >= j, s, -inf)", found)


CASES: dict[str, tuple[int, Callable[[str], str]]] = {
    "two_passes_at_a_time": (512, str),
    "odd": (300, str),
    "one_pass": (60, str),
    "three_buffers": (384, lambda text: text.replace("buffers 2", "buffers 3")),
    "causal": (300, causal),
}


SAMPLE = {("odd", "gfx942"), ("causal", "gfx950 direct")}  # the others are slow tests
TRIED = [
    pytest.param(case, target, marks=() if (case, target) in SAMPLE else pytest.mark.slow)
    for case in CASES
    for target in TEXTS
]


@pytest.mark.parametrize(("case", "target"), TRIED)
def test_numbers_are_right(case: str, target: str) -> None:
    length, changed = CASES[case]
    build = built(changed(with_sizes(TEXTS[target], length)), target)
    for order, kind in trials(3):
        assert not run(build, kind=kind, order=order).failure


def test_a_number_that_only_the_first_product_takes_is_loaded_before_the_loop() -> None:
    """No step of an iteration has it: the proof took it for left out, and `check` ended with a traceback."""
    text = with_sizes(PLAIN, 300).replace("  scalar scale : f32", "  global G : f32[HEADS]\n  scalar unused : f32")
    text = re.sub(r"unused.*", "unused : f32 = 1", text).replace("s = scale *", "s = unused * G[h] *")
    build = built(text, "gfx942")
    assert not run(build).failure


@pytest.mark.slow
@pytest.mark.parametrize("target", TEXTS)
def test_twenty_interleavings(target: str) -> None:
    build = built(with_sizes(TEXTS[target], 256), target)
    for order, kind in trials(20):
        assert not run(build, kind=kind, order=order).failure


@pytest.mark.parametrize("target", ["gfx942", "gfx950 direct"])
def test_one_half_multiplies_while_the_other_computes(target: str) -> None:
    """Between two barriers of the machine code stand MFMAs, or vector instructions, few of the other kind."""
    loop = main_loop(built(TEXTS[target], target).function)
    assert loop is not None
    phases: list[list[str]] = [[]]
    for x in loop.instructions:
        if x.mnemonic == "s_barrier":
            phases.append([])
        phases[-1].append(x.mnemonic)
    first, *phases = phases
    phases[-1] += first  # the loop begins within a phase, or at its end
    mfmas = [sum(name.startswith("v_mfma") for name in phase) for phase in phases]
    vector = [sum(name.startswith("v_") for name in phase) - n for phase, n in zip(phases, mfmas, strict=True)]
    assert len(phases) == 8 and sorted(n > 0 for n in mfmas) == [False] * 4 + [True] * 4
    computing = sum(v for v, n in zip(vector, mfmas, strict=True) if not n)
    assert computing > 0.85 * sum(vector)
    raised = [name for phase, n in zip(phases, mfmas, strict=True) if n for name in phase if name == "s_setprio"]
    assert len(raised) >= 4


@pytest.mark.slow
@pytest.mark.parametrize(("target", "least"), [("gfx942", 1.05), ("gfx950 direct", 1.2)])
def test_it_is_predicted_to_be_faster(target: str, least: float) -> None:
    fast, plain = (
        predict(built(text, target))
        for text in (TEXTS[target], TEXTS[target].replace("schedule ping_pong", "schedule simple"))
    )
    assert fast.tflops > least * plain.tflops


def test_two_passes_of_the_machine_code_are_predicted_as_two() -> None:
    build = built(with_sizes(PLAIN, 512), "gfx942")
    found, flops = predict(build), 4 * 512 * 512 * 64
    assert build.spec.layout.unrolled == 2 and found.loop is not None and found.loop.count == 8
    assert found.tflops == pytest.approx(flops / found.seconds / 1e12, rel=0.1)  # the first product of one pass more


# ---------------------------------------------------------------- what the proof finds


def without(wave: Role, *meetings: int) -> Role:
    """The wave without some barriers of an iteration, by their number."""
    body = list(wave.ops(Part.BODY))
    at = [n for n, step in enumerate(body) if isinstance(step, Barrier)]
    return wave.with_ops(Part.BODY, (s for n, s in enumerate(body) if n not in {at[k] for k in meetings}))


@pytest.mark.parametrize("target", ["gfx942", slow("gfx950 direct")])
def test_nothing_is_left_out_unseen(target: str) -> None:
    """But priorities, and barriers that hand over units alone: the next ones order what they order."""
    spec = spec_of(with_sizes(TEXTS[target], 256), target)
    assert is_right(spec, spec.schedule)
    for part, step, changed in left_out(spec.schedule):
        hands_over = isinstance(step, Barrier) and StreamKind.GLOBAL not in step.drains
        assert not is_right(spec, changed) or isinstance(step, Priority) or (part is Part.BODY and hands_over), step


def test_what_was_read_of_lds_is_waited_for_once() -> None:
    """If tiles are read before they are multiplied, every second barrier waits for nothing; not each of them may."""
    spec = spec_of(with_sizes(TEXTS["gfx950 direct"], 256), "gfx950 direct")
    found, machine = spec.schedule, spec.target.synchronisation
    assert [not step.drains for step in found.tiles.body if isinstance(step, Barrier)] == [False, True, False, True]
    never = with_each(found, lambda step: barrier(idle=True) if isinstance(step, Barrier) else step)
    assert unproven(spec.layout, found, machine) is None and unproven(spec.layout, never, machine) is not None


# Which meetings of the four of a pass can be missing: where tiles are staged, one of them, or both around the first
# product; where direct loads land at the third one, one or both of the first two.
CAN_BE_MISSING = {"": [{0}, {1}, {2}, {3}, {1, 2}], "direct": [{0}, {1}, {0, 1}]}


@pytest.mark.parametrize("target", ["gfx942", "gfx950 direct"])
def test_meetings_that_order_tiles_are_needed(target: str) -> None:
    spec = spec_of(with_sizes(TEXTS[target], 256), target)
    machine, found = spec.target.synchronisation, spec.schedule
    some = [set(c) for size in (1, 2, 3) for c in combinations(range(barriers(found.tiles.body)), size)]
    right = [c for c in some if unproven(spec.layout, without(found, *c), machine) is None]
    assert barriers(found.tiles.body) == 4 and right == CAN_BE_MISSING[target.partition(" ")[2]]


def test_all_waves_meet_as_often() -> None:
    """Waves whose numbers of barriers differ wait for ever, in either direction."""
    spec = spec_of(with_sizes(PLAIN, 256), "gfx942")
    loop = clocked(spec.layout, spec.schedule, spec.target.synchronisation)
    assert first_wrong(loop) is None and [bool(a.epilogue) for a in loop.agents] == [True, True, False, False]
    hanging = replace(loop, agents=tuple(replace(a, epilogue=()) for a in loop.agents))
    early = replace(loop, agents=tuple(replace(a, prologue=loop.agents[0].prologue) for a in loop.agents))
    assert all("s_barrier" in (first_wrong(changed) or "") for changed in (hanging, early))


@pytest.mark.parametrize("half", [0, 1])
def test_a_half_done_twice_or_not_at_all_is_found(half: int) -> None:
    spec = spec_of(with_sizes(PLAIN, 256).replace("D = 64", "D = 128"), "gfx942")
    body = list(spec.schedule.ops(Part.BODY))
    halves = [n for n, step in enumerate(body) if isinstance(step, Equations) and step.parts == 2]
    assert len(halves) == 2
    body[halves[half]] = body[halves[1 - half]]
    assert "2 times" in (unlike(spec.layout, spec.schedule.with_ops(Part.BODY, body)) or "")


# ---------------------------------------------------------------- what has no such schedule


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("waves 8", "waves 4", "use 8 waves"),
        ("buffers 2", "buffers 1", "2 buffers"),
        ("schedule ping_pong", "schedule pingpong", "`simple`, `ping_pong`, `interleave`"),
    ],
)
def test_what_cannot_be_is_said(old: str, new: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        spec_of(PLAIN.replace(old, new, 1), "gfx942").check()
    (diagnostic,) = caught.value.diagnostics
    fix = diagnostic.fix
    assert diagnostic.code == "E230" and said in f"{diagnostic.message} {fix.text if fix else ''}"
