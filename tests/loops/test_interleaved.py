"""`schedule interleave` of fused matmuls: the first product of the next iteration between this one's softmax."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from changed_waves import is_right, with_each
from sampling import sample

import tkgen
from tkgen.backends.cdna.spec import Spec
from tkgen.build import Build
from tkgen.execute.launch import run, trials
from tkgen.schedule.loop_program import bring, product_of, read, ring_of, rings_of, tiles, write
from tkgen.schedule.loop_steps import unproven
from tkgen.schedule.loop_terms import unlike
from tkgen.tile.ops import Barrier, Copy, Equations, Fetch, Read, Write
from tkgen.tile.program import Op
from tkgen.toolchain.isa import main_loop

SPECS = Path(__file__).parents[2] / "specs/attention"
PLAIN, CAUSAL = (
    (SPECS / f"attention{name}.tk")
    .read_text(encoding="utf-8")
    .replace("registers Q\n", "registers Q\n  schedule interleave\n")
    for name in ("", "_causal")
)
SMALL = re.sub(r"BATCH = .*", "BATCH = 1, HEADS = 2, LENGTH = 256, D = 64", PLAIN)


def spec_of(text: str, target: str = "gfx942") -> Spec:
    assert "schedule interleave" in text
    spec = tkgen.load(text, target=target)
    assert isinstance(spec, Spec)
    return spec


def built(spec: Spec) -> Build:
    build = spec.build().check()
    assert build.machine_check.outcome == "right" and build.resources.clean
    return build


CASES = {
    "two_passes_at_a_time": (SMALL, 256, ""),
    "odd": (SMALL, 300, ""),
    "one_pass": (SMALL, 60, ""),
    "three_buffers": (SMALL.replace("buffers 2", "buffers 3"), 384, ""),
    "causal": (CAUSAL, 300, "D = 64, BATCH = 1, HEADS = 2, KV_HEADS = 1"),
}


@pytest.mark.parametrize(
    ("case", "target"), sample(((c, t) for c in CASES for t in ("gfx942", "gfx950", "gfx950 direct")), 2, several=True)
)
def test_numbers_are_right(case: str, target: str) -> None:
    text, length, others = CASES[case]
    for size in (f"LENGTH = {length}", *filter(None, others.split(", "))):
        text = re.sub(rf"\b{size.split()[0]} = \d+", size, text, count=1)
    name, *direct = target.split()
    build = built(spec_of(text.replace("buffers", "via direct buffers") if direct else text, name))
    for order, kind in trials(3):
        assert not run(build, kind=kind, order=order).failure


@pytest.mark.parametrize("count", [4, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("target", ["gfx942", "gfx950", "gfx950 direct"])
def test_many_interleavings(target: str, count: int) -> None:
    name, *direct = target.split()
    build = built(spec_of(SMALL.replace("buffers", "via direct buffers") if direct else SMALL, name))
    for order, kind in trials(count):
        assert not run(build, kind=kind, order=order).failure


@pytest.mark.parametrize("target", ["gfx942", "gfx950 direct"])
def test_vector_instructions_stand_between_mfmas(target: str) -> None:
    """Many more MFMAs have one after them than in the order of the equations."""
    name, *direct = target.split()
    text = PLAIN.replace("buffers", "via direct buffers") if direct else PLAIN

    def followed(build: Build) -> float:
        loop = main_loop(build.function)
        assert loop is not None
        names = [x.mnemonic for x in loop.instructions]
        mfmas = [n for n, x in enumerate(names) if x.startswith("v_mfma")]
        alu = [n for n in mfmas if any(not x.startswith("v_mfma") and x.startswith("v_") for x in names[n + 1 : n + 2])]
        return len(alu) / len(mfmas)

    plain = tkgen.load(text.replace("schedule interleave", "schedule simple"), target=name).build()
    assert isinstance(plain, Build)
    assert followed(built(spec_of(text, name))) > 1.5 * followed(plain)


@pytest.mark.parametrize("direct", [False, True])
def test_the_proof_finds_what_is_too_early_or_too_late(direct: bool) -> None:
    spec = spec_of(SMALL.replace("buffers", "via direct buffers") if direct else SMALL, "gfx950")
    machine, found = spec.target.synchronisation, spec.schedule
    assert is_right(spec, found)
    assert sum(isinstance(step, Equations) and step.ahead == 1 for step in found.tiles.body) == 1

    m = spec.layout

    def later(s: Op) -> Op:
        if isinstance(s, Read) and s.offset:
            return read(m, product_of(s), ring_of(s), 2)
        return replace(s, reads=tiles(m, rings_of(s), 2), ahead=2) if isinstance(s, Equations) and s.ahead else s

    def near(s: Op) -> Op:
        if not isinstance(s, Fetch | Copy | Write) or ring_of(s):
            return s
        return write(m, 0, 1) if isinstance(s, Write) else bring(m, 0, 1)

    assert unlike(m, with_each(found, later)) is not None
    assert not is_right(spec, with_each(found, near))
    unmet = replace(found, before=tuple(s for s in found.before if not isinstance(s, Barrier)))
    assert unproven(m, unmet, machine) is not None
    cold = replace(found, before=tuple(s for s in found.before if not isinstance(s, Equations)))
    assert unlike(m, cold) is not None
