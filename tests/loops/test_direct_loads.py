"""Factors of loops that go to LDS directly: shapes, numbers, the proof, refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
from changed_waves import is_right, with_each

import tkgen
from tkgen.backends.cdna.spec import Spec
from tkgen.diagnostics import SpecError
from tkgen.execute.launch import run, trials
from tkgen.schedule.loop_program import barrier, bring, ring_of
from tkgen.schedule.loop_steps import unproven
from tkgen.schedule.loop_terms import unlike
from tkgen.tile.ops import Barrier, Copy, Read, Write
from tkgen.tile.program import Part, ops
from tkgen.toolchain.isa import main_loop

TEXT = (Path(__file__).parents[2] / "specs/attention/attention_direct.tk").read_text(encoding="utf-8")
SIZES = "BATCH = 2, HEADS = 16, LENGTH = 2048, D = 128"
SMALL = TEXT.replace(SIZES, "BATCH = 1, HEADS = 1, LENGTH = 256, D = 64")
assert SMALL != TEXT


def spec_of(text: str, target: str = "gfx950") -> Spec:
    spec = tkgen.load(text, target=target)
    assert isinstance(spec, Spec)
    return spec


def changed(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def right(spec: Spec) -> None:
    build = spec.build().check()
    assert build.machine_check.outcome == "right" and build.resources.clean
    for order, kind in trials(3):
        assert not run(build, kind=kind, order=order).failure


FOUR = (("by 256", "by 128"), ("waves 8", "waves 4"))
SIXTEEN = (("by 256", "by 64"), ("waves 8", "waves 4"))  # columns to a wave, and MFMAs of 16 x 16
SHAPES = {
    "eight_waves": (),
    "one_buffer": (("buffers 2", "buffers 1"),),
    "three_buffers": (("buffers 2", "buffers 3"),),
    "side_16": SIXTEEN,
    "side_16_f16": (*SIXTEEN, ("bf16", "f16")),
    "f16": (*FOUR, ("bf16", "f16")),
    "D_96": (*FOUR, ("D = 64", "D = 96")),
    "ragged": (("LENGTH = 256", "LENGTH = 300"),),
    "one_key": (*FOUR, ("LENGTH = 256", "LENGTH = 1")),
    # Keys as memory has them for the other product: what is loaded, times columns.
    "keys_turned": (("K : bf16[BATCH, HEADS, LENGTH, D]", "K : bf16[BATCH, HEADS, D, LENGTH]"),
                    ("K[b, h, j].T", "K[b, h, D, j]")),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape: str) -> None:
    right(spec_of(changed(SMALL, *SHAPES[shape])))


def test_the_loop_moves_nothing_through_registers() -> None:
    """No stores to LDS, one wait for each product and one for the loads."""
    build = spec_of(TEXT).build()
    mix, loop = build.main_loop, main_loop(build.function)
    assert mix is not None and loop is not None
    assert not mix.lds_writes and not mix.global_loads and mix.global_to_lds == {128: 4}
    assert mix.waits == 3 and mix.barriers == 1
    assert mix.others_per_mfma is not None and mix.others_per_mfma < 7.6  # Triton's: 7.62, HipKittens': 8.28


def test_what_lands_is_waited_for() -> None:
    """The proof finds a barrier that does not wait for the loads, a fetch too early, and a read too late."""
    spec = spec_of(SMALL)
    machine, found = spec.target.synchronisation, spec.schedule
    assert not any(isinstance(step, Write) for step in ops(found.nodes))
    assert [type(step) for step in found.tiles.body if isinstance(step, Read)] == [Read, Read]

    m = spec.layout
    waiting = with_each(found, lambda s: barrier() if isinstance(s, Barrier) else s)
    assert is_right(spec, found)
    assert unproven(m, waiting, machine) is not None
    early = with_each(found, lambda s: bring(m, ring_of(s), s.offset + 1) if isinstance(s, Copy) else s)
    assert unlike(m, early) is not None
    assert unproven(m, early, machine) is not None
    unread = found.with_ops(Part.BODY, (s for s in found.ops(Part.BODY) if not isinstance(s, Read)))
    assert unlike(m, unread) is not None


REFUSED = {
    "on_gfx942": ("move 4 bytes per lane on gfx942", ()),
    "one_of_two": ("`V` is not loaded via direct", (("shared K, V buffers 2 via direct",
                                                        "shared K buffers 2 via direct\n  shared V buffers 2"),)),
    "few_boxes": ("8 waves cannot divide a tile of `K` of 16 x 64", (("by 64", "by 16"),)),
    "order": ("in another order", (("V : bf16[BATCH, HEADS, LENGTH, D]", "V : bf16[BATCH, HEADS, D, LENGTH]"),
                                   ("@ V[b, h, j]", "@ V[b, h, D, j].T"))),
    "far": ("which direct loads cannot address", (("BATCH, HEADS, LENGTH, D]", "BATCH, LENGTH, HEADS, D]"),
                                                ("h, q]", "q, h]"), ("h, j]", "j, h]"),
                                                ("HEADS = 1, LENGTH = 256", "HEADS = 64, LENGTH = 524288"))),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    message, changes = REFUSED[case]
    with pytest.raises(SpecError) as raised:
        spec_of(changed(SMALL, *changes), "gfx942" if case == "on_gfx942" else "gfx950").layout  # noqa: B018
    assert message in str(raised.value)
