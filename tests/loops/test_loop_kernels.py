"""Loops that multiply what they made of products: bundled specs, other shapes, the schedule and its proof, refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import tkgen
from tkgen.diagnostics import SpecError
from tkgen.execute.cases import unmet
from tkgen.execute.launch import trials
from tkgen.loops import LoopBuild, LoopSpec
from tkgen.rows.run import run_rows
from tkgen.schedule.loop_steps import Compute, Fetch, LoopSteps, Meet, Write, steps, unlike, unproven

ROOT = Path(__file__).parents[2]
SPECS = sorted((ROOT / "specs/attention").glob("*.tk"))
ATTENTION = (ROOT / "specs/attention/attention.tk").read_text(encoding="utf-8")
SMALL = ATTENTION.replace("BATCH = 2, HEADS = 16, LENGTH = 2048, D = 128", "BATCH = 1, HEADS = 2, LENGTH = 256, D = 64")
TARGETS = ("gfx942", "gfx950")


def spec_of(text: str, target: str = "gfx942") -> LoopSpec:
    spec = tkgen.load(text, target=target)
    assert isinstance(spec, LoopSpec)
    return spec


def changed(text: str, **changes: str) -> str:
    """The text with what follows each word up to the next blank or comma exchanged."""
    words = {"D": "D = 64", "tile": "LENGTH by 128", "waves": "waves 4", "step": "by 64", "buffers": "buffers 2",
             "length": "LENGTH = 256", "dtype": "bf16"}  # fmt: skip
    for word, new in changes.items():
        assert words[word] in text
        text = text.replace(words[word], new)
    return text


def built(spec: LoopSpec) -> LoopBuild:
    """Compiled, watched, without spills."""
    build = spec.build().check()
    assert isinstance(build, LoopBuild)
    assert build.machine_check.outcome == "right"
    assert build.resources.clean
    return build


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_source_figures_and_machine_code(path: Path, target: str) -> None:
    spec = tkgen.load(path, target=target)
    assert isinstance(spec, LoopSpec) and not spec.diagnostics
    build = built(spec)
    assert not unmet(build)
    if target == "gfx942":
        golden = ROOT / "generated" / target / f"{path.stem}.cpp"
        assert golden.read_text(encoding="utf-8") == spec.source.text


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_numbers_are_right_in_twenty_interleavings(path: Path, target: str) -> None:
    spec = tkgen.load(path, {"BATCH": 1, "HEADS": 1, "LENGTH": 128}, target=target)
    assert isinstance(spec, LoopSpec)
    build = built(spec)
    for order, kind in trials(20):
        assert not run_rows(build, kind=kind, order=order).failure


def test_blocks_of_a_large_launch() -> None:
    spec = tkgen.load(ROOT / "specs/attention/attention.tk")
    assert isinstance(spec, LoopSpec)
    assert not run_rows(spec.build(), blocks=[0, 511]).failure


SHAPES = [
    {"dtype": "f16"},
    {"D": "D = 96", "waves": "waves 2"},
    {"tile": "LENGTH by 64"},  # 16 columns to a wave: MFMAs of 16 x 16
    {"buffers": "buffers 1"},
    {"buffers": "buffers 3", "length": "LENGTH = 384"},
    {"step": "by 16", "D": "D = 48", "length": "LENGTH = 128"},
    {"step": "by 128", "length": "LENGTH = 128"},  # one pass
    {"D": "D = 16", "waves": "waves 1", "tile": "LENGTH by 16", "step": "by 16", "length": "LENGTH = 48"},
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "_".join(s.values()).replace(" ", ""))
def test_other_shapes(shape: dict[str, str], target: str) -> None:
    build = built(spec_of(changed(SMALL, **shape), target))
    for order, kind in trials(3):
        assert not run_rows(build, kind=kind, order=order).failure


def test_keys_and_queries_of_other_lengths_in_the_layout_of_models() -> None:
    """Heads between the rows of a matrix, and memory that has the keys of V innermost."""
    text = SMALL.replace("LENGTH = 256", "LENGTH = 128, KEYS = 192").replace("each j in LENGTH", "each j in KEYS")
    for name, dims in (("Q", "LENGTH, HEADS"), ("K", "KEYS, HEADS"), ("O", "LENGTH, HEADS")):
        text = text.replace(f"{name} : bf16[BATCH, HEADS, LENGTH", f"{name} : bf16[BATCH, {dims}")
    text = text.replace("V : bf16[BATCH, HEADS, LENGTH, D]", "V : bf16[BATCH, HEADS, D, KEYS]")
    for tensor, axis in ("Qq", "Kj", "Oq"):
        text = text.replace(f"{tensor}[b, h, {axis}]", f"{tensor}[b, {axis}, h]")
    build = built(spec_of(text.replace("@ V[b, h, j]", "@ V[b, h, D, j].T")))
    assert not [ring for ring in build.spec.layout.moving if ring.turned]
    for order, kind in trials(3):
        assert not run_rows(build, kind=kind, order=order).failure


# ---------------------------------------------------------------- the schedule


def steps_of(text: str) -> LoopSteps:
    return spec_of(text).steps


@pytest.mark.parametrize(("buffers", "meetings"), [(1, 2), (2, 1), (3, 1)])
def test_waves_meet_as_rarely_as_the_rings_allow(buffers: int, meetings: int) -> None:
    assert steps_of(changed(SMALL, buffers=f"buffers {buffers}")).meetings == meetings


@pytest.mark.parametrize("buffers", [1, 2, 3])
def test_no_meeting_can_be_left_out(buffers: int) -> None:
    found = steps_of(changed(SMALL, buffers=f"buffers {buffers}"))
    machine = spec_of(SMALL).target.synchronisation
    assert unproven(found, machine) is None
    for place, step in enumerate(found.body):
        if isinstance(step, Meet):
            without = replace(found, body=found.body[:place] + found.body[place + 1 :])
            assert unproven(without, machine) is not None
    assert isinstance(found.prologue[-1], Meet)
    assert unproven(replace(found, prologue=found.prologue[:-1]), machine) is not None


def test_what_is_stored_is_compared_with_the_equations() -> None:
    found = steps_of(SMALL)
    assert unlike(found) is None

    def with_body(change: object) -> LoopSteps:
        return replace(found, body=tuple(change(step) for step in found.body))  # type: ignore[operator]

    assert unlike(with_body(lambda s: Write(s.ring, 0) if isinstance(s, Write) else s)) is not None
    assert unlike(with_body(lambda s: Fetch(s.ring, 2) if isinstance(s, Fetch) else s)) is not None
    compute, *_ = (s for s in found.body if isinstance(s, Compute))
    twice = tuple(s for step in found.body for s in ((step, compute) if isinstance(step, Write) else (step,)))
    assert unlike(replace(found, body=twice)) is None  # which changes nothing that is stored


def test_steps_are_the_same_each_time() -> None:
    spec = spec_of(SMALL)
    assert steps(spec.layout, spec.target.synchronisation) == spec.steps


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("old", "new", "message", "underlined"),
    [
        ("LENGTH by 64", "LENGTH by 48", "LENGTH is no multiple of the tiles of the loop: 256 = 5 x 48 + rest", "j"),
        ("LENGTH = 256", "LENGTH = 192", "LENGTH is no multiple of the tiles of `q`", "q"),
        ("each j in LENGTH by 64", "each j in LENGTH by 64 to q",
         "a loop of products of products goes over all of its axis", "j"),
        ("shared K, V", "shared K", "all waves multiply by `V`, which must go through LDS", None),
        ("V : bf16[BATCH, HEADS, LENGTH, D]\n", "V : f32[BATCH, HEADS, LENGTH, D]\n", "a product of f32", None),
        ("waves 4", "waves 16", "16 waves cannot share a tile of 128 in parts of 16", "waves 16 along q"),
        ("buffers 2", "buffers 2 via direct", "`K` cannot go to LDS directly in such a loop yet", None),
        ("buffers 2", "buffers 5", "the tiles need 81920 bytes of LDS, a block on gfx942 has 65536", None),
        ("D = 64", "D = 40", "40 along `D` is no multiple of 16", None),
        ("registers Q", "registers K", "`K` goes through LDS, and to registers directly", None),
        ("    m = n\n", "    when any(r < 0.5)\n      l = l * 1\n    m = n\n", "`when any` has no schedule yet", None),
        ("  registers Q\n", "  grid persistent(304)\n",
         "blocks of such loops take a tile each: there is no `grid persistent` for them", None),
    ],
)  # fmt: skip
def test_what_has_no_schedule_is_refused_at_its_place(old: str, new: str, message: str, underlined: str | None) -> None:
    text = SMALL.replace(old, new)
    assert text != SMALL
    if "f32[" in new:
        text = text.replace("bf16(p)", "p")
    with pytest.raises(SpecError) as caught:
        spec_of(text).check()
    first = caught.value.diagnostics[0]
    assert first.code == ("E202" if new == "registers K" else "E230") and first.message == message
    assert first.primary is not None
    assert underlined is None or first.primary.span.text == underlined


def test_a_target_that_drops_small_numbers_takes_no_computed_f16() -> None:
    with pytest.raises(SpecError, match="subnormal"):
        spec_of(changed(SMALL, dtype="f16"), "gfx90a").check()
    spec_of(SMALL, "gfx90a").check()
