"""Written schedules of loops of equations: steps named by equation and part, held to what the equations say."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from changed_waves import is_right, left_out

import tkgen
from tkgen.backends.cdna.spec import Spec
from tkgen.build import Build
from tkgen.diagnostics import SpecError
from tkgen.execute.launch import run, trials
from tkgen.predict import predict
from tkgen.schedule.loop_program import rings_of
from tkgen.tile.ops import Barrier, Equations, Fence, Mix, Priority, barriers
from tkgen.tile.program import Op, Part, Role

SPECS = Path(__file__).parents[2] / "specs/attention"
WRITTEN, DERIVED, PING_PONG, DIRECT = (
    (SPECS / f"attention_{name}.tk").read_text(encoding="utf-8")
    for name in ("written", "interleaved", "ping_pong", "ping_pong_direct")
)
LINES = """\
  schedule
    cluster fetch K[k+2] V[k+1]  compute s n  compute p half 0
    cluster priority high  multiply s[k+1]
    cluster compute p half 1 r l o  write K[k+2] V[k+1]
    cluster priority high  multiply o
"""
PHASE = "  phase waves 4..7 by 1 cluster\n"
LAID = PING_PONG.replace("  schedule ping_pong\n", PHASE + LINES)
LAID_DIRECT = DIRECT.replace("  schedule ping_pong\n", PHASE + LINES).replace(
    "fetch K[k+2] V[k+1]", "copy K[k+2] V[k+1]  read K[k+1]"
).replace("write K[k+2] V[k+1]", "read V")  # fmt: skip
IN_PARTS = WRITTEN.replace("multiply o ", "multiply o part 1  multiply o part 0 ").replace(
    "multiply s[k+1]", "multiply s[k+1] half 0  multiply s[k+1] half 1"
)
PLAIN = """\
  schedule barriers auto
    group fetch K[k+1] V[k+1]  multiply s  compute s n p r l o
    group multiply o  write K[k+1] V[k+1]
"""


def of_size(text: str, length: int, d: int = 64) -> str:
    return re.sub(r"BATCH = .*", f"BATCH = 1, HEADS = 1, LENGTH = {length}, D = {d}", text, count=1)


def lines(text: str, written: str) -> str:
    """A spec with another schedule."""
    return re.sub(r"  schedule\n(    .*\n)+", written, text, count=1)


def spec_of(text: str, target: str = "gfx942") -> Spec:
    spec = tkgen.load(text, target=target)
    assert isinstance(spec, Spec)
    return spec


def built(text: str, target: str = "gfx942") -> Build:
    build = spec_of(text, target).build().check()
    assert build.machine_check.outcome == "right" and build.resources.clean
    return build


CASES = {
    "interleave": (WRITTEN, "gfx942"),
    "ping_pong": (LAID, "gfx942"),
    "direct": (LAID_DIRECT, "gfx950"),
    "parts": (IN_PARTS, "gfx942"),
    "plain": (lines(WRITTEN, PLAIN), "gfx950"),
}


@pytest.mark.parametrize("case", [pytest.param(c, marks=() if c in ("parts",) else pytest.mark.slow) for c in CASES])
def test_numbers_are_right(case: str) -> None:
    text, target = CASES[case]
    build = built(of_size(text, 300), target)
    for order, kind in trials(5):
        assert not run(build, kind=kind, order=order).failure


@pytest.mark.slow
def test_the_written_spec_is_as_good_as_the_derived_one() -> None:
    found, derived = (built(text) for text in (WRITTEN, DERIVED))
    assert predict(found).tflops >= predict(derived).tflops
    assert found.resources.vgpr + found.resources.agpr <= derived.resources.vgpr + derived.resources.agpr


def work(wave: Role) -> list[Op]:
    """The steps in their order, without what only the compiler is told."""
    found: list[Op] = []
    for step in wave.ops(Part.BODY):
        if isinstance(step, Equations) and found and isinstance(last := found[-1], Equations):
            same = (last.ahead, last.part, last.parts, last.last) == (step.ahead, step.part, step.parts, step.first)
            if same and not last.reads and not step.reads:
                found[-1] = replace(last, last=step.last)
                continue
        if not isinstance(step, Fence | Mix | Priority):
            found.append(step)
    return found


@pytest.mark.parametrize(
    ("written", "derived", "target"),
    [(WRITTEN, DERIVED, "gfx942"), (LAID, PING_PONG, "gfx942"), (LAID_DIRECT, DIRECT, "gfx950")],
)
def test_what_is_written_out_is_what_the_name_gives(written: str, derived: str, target: str) -> None:
    found, named = (work(spec_of(of_size(t, 256, 128), target).schedule) for t in (written, derived))
    assert [type(s) for s in found if not isinstance(s, Equations)] == [
        type(s) for s in named if not isinstance(s, Equations)
    ]
    products = [
        [(s.last, rings_of(s), s.ahead) for s in steps if isinstance(s, Equations) and s.reads]
        for steps in (found, named)
    ]
    assert products[0] == products[1]
    assert sum(isinstance(s, Barrier) for s in found) == sum(isinstance(s, Barrier) for s in named)


def failure(text: str, target: str = "gfx942") -> tuple[str, str]:
    with pytest.raises(SpecError) as caught:
        spec_of(text, target).check()
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.primary is not None
    return diagnostic.code, f"{diagnostic.message} | {diagnostic.fix.text if diagnostic.fix else ''}"


MISTAKES = {  # what is written instead of what, and what is said
    "forgotten": (" r l", " l", "E312", "`compute r` is in no line"),
    "forgotten product": ("multiply o", "", "E312", "`multiply o` is in no line"),
    "forgotten half": ("compute p half 1 r", "compute r", "E312", "`compute p part 1`"),
    "forgotten tile": ("fetch K[k+2] V[k+1]", "fetch V[k+1]", "E312", "`fetch K` is in no line"),
    "twice": ("compute s n", "compute s n n", "E312", "`compute n` is twice"),
    "half twice": ("compute p half 1", "compute p half 0", "E312", "`compute p` is twice"),
    "tile twice": ("write K[k+2]", "write K[k+2] K[k+2]", "E312", "`write K` is twice"),
    "too early": ("compute s n ", "compute n s ", "E313", "`compute n` takes `s` before it is computed"),
    "half too early": ("compute p half 1 r l o", "compute r l o p half 1", "E313", "`compute l` takes `p`"),
    "product too early": ("multiply o", "multiply o  compute o", "E312", "twice"),
    "no barrier": ("cluster fetch", "group fetch", "E314", ""),
    "wrong pass": ("K[k+2]", "K[k+1]", "E314", ""),
    "other pass": ("multiply o", "multiply o[k+1]", "E216", "only the first product"),
    "no such equation": ("compute s", "compute t", "E216", "no equation of the loop is called `t`"),
    "nothing to multiply": ("multiply o", "multiply p", "E216", "`p` is no product"),
    "no such part": ("half 1", "half 2", "E216", "2 such halves"),
    "not in parts": (" r l o", " r l half 0 o", "E216", "row by row"),
    "read of staged": ("multiply o", "read V  multiply o", "E216", "write `fetch` and `write`"),
    "a wait": ("multiply o", "multiply o  wait lds 0", "E216", "waits of a fused matmul are derived"),
    "not whole": ("multiply o", "multiply (0, *)", "E216", "write `multiply NAME`"),
    "phase of others": ("4..7", "0..3", "E309", "phase waves 4..7"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_said(mistake: str) -> None:
    old, new, code, said = MISTAKES[mistake]
    text = of_size(LAID, 256, 128)
    assert old in text
    if mistake == "no barrier":  # one can be missing, as in the derived one; not all
        text, old, new = text.replace("cluster priority", "group priority"), "cluster compute", "group compute"
    if mistake == "wrong pass":
        text, old, new = text.replace("write K[k+2]", "write K[k+1]"), "fetch K[k+2]", "fetch K[k+1]"
    found = failure(text.replace(old, new, 1))
    assert found[0] == code and said in found[1], found


def test_barriers_are_placed_where_they_are_needed() -> None:
    spec = spec_of(of_size(lines(WRITTEN, PLAIN), 256))
    assert barriers(spec.schedule.tiles.body) == 1
    assert is_right(spec, spec.schedule)


def test_nothing_is_left_out_unseen() -> None:
    spec = spec_of(of_size(WRITTEN, 256))
    assert is_right(spec, spec.schedule)
    for _, step, without in left_out(spec.schedule):
        assert not is_right(spec, without) or isinstance(step, Fence | Mix | Priority), step


def test_a_condition_of_the_whole_block_has_no_step() -> None:
    lazy = (SPECS / "attention_lazy.tk").read_text(encoding="utf-8")
    text = lazy.replace("  carry m", PLAIN.replace("compute s n p r l o", "compute s n m p l o") + "  carry m", 1)
    code, said = failure(of_size(text, 256, 128))
    assert code == "E216" and "a written schedule cannot have a `when any` in its loop" in said
