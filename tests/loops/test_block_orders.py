"""`remap` of fused matmuls: blocks in another order compute the same, and the prediction knows what L2 then has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tkgen
from tkgen.backends.cdna.spec import Spec
from tkgen.build import Build
from tkgen.diagnostics import SpecError
from tkgen.execute.launch import run, trials
from tkgen.predict import models
from tkgen.predict.iterations import IterationModel

SPECS = Path(__file__).parents[2] / "specs/attention"
CAUSAL, PLAIN = ((SPECS / f"{name}.tk").read_text(encoding="utf-8") for name in ("attention_causal", "attention"))
SMALL = re.sub(r"BATCH = .*", "BATCH = 1, HEADS = 4, KV_HEADS = 2, LENGTH = 300, D = 64", CAUSAL, count=1)
ORDERS = ("xcd(2)", "xcd(4, chunk = 2)", "column_major", "xcd(2) | column_major", "group(rows = 3)", "reversed")


def ordered(text: str, remap: str) -> Spec:
    spec = tkgen.load(text.replace("  waves 4", f"  remap {remap}\n  waves 4", 1))
    assert isinstance(spec, Spec)
    return spec


def built(spec: Spec) -> Build:
    build = spec.build().check()
    assert build.machine_check.outcome == "right" and build.resources.clean
    return build


@pytest.mark.parametrize(
    "remap", [ORDERS[3], *(pytest.param(r, marks=pytest.mark.slow) for r in ORDERS if r != ORDERS[3])]
)
def test_numbers_are_right(remap: str) -> None:
    build = built(ordered(SMALL.replace("r =", "block_id =").replace("* r", "* block_id"), remap))
    for order, kind in trials(3):
        assert not run(build, kind=kind, order=order).failure


@pytest.mark.parametrize("remap", ORDERS)
def test_each_tile_has_one_block(remap: str) -> None:
    spec = ordered(SMALL, remap)
    launch, straight = (s.launch() for s in (spec, ordered(SMALL, "row_major")))
    places = [launch.place(block) for block in range(launch.blocks)]
    assert len({tuple(p.values()) for p in places}) == launch.blocks == straight.blocks
    assert [launch.number(place) for place in places] == list(range(launch.blocks))
    assert places != [straight.place(block) for block in range(launch.blocks)]


def test_the_longest_loops_of_causal_queries_begin_first() -> None:
    """Three tiles of queries of four heads: the last tiles make the most passes."""
    spec = ordered(SMALL, "reversed | column_major")
    launch, axis = spec.launch(), spec.layout.split
    assert [launch.place(block)[axis] for block in range(launch.blocks)] == [2] * 4 + [1] * 4 + [0] * 4


def test_queries_of_a_head_share_an_l2() -> None:
    """512 blocks, 16 of each head: round robin has each head on all XCDs, in runs of 16 on one."""
    spread, together = (
        model for remap in ("row_major", "xcd(8, chunk = 16)") for model in models(built(ordered(PLAIN, remap)))
    )
    assert isinstance(spread, IterationModel) and isinstance(together, IterationModel)
    assert together.beyond[0] < spread.beyond[0] / 4


def test_blocks_that_nobody_can_count_have_no_order() -> None:
    text = re.sub(r"LENGTH = \d+", "LENGTH = dynamic", CAUSAL, count=1)
    with pytest.raises(SpecError) as caught:
        ordered(text, "xcd(8)").check()
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "E230" and "known at build time" in diagnostic.message
