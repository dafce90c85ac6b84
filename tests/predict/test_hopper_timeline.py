"""The pipeline to scale for Hopper: an iteration takes the predicted time, and no bar contradicts the ring."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hopper_builds import SPECS, built, loop_code, product_code, sass

from tkgen.predict import models
from tkgen.predict.hopper.iterations import IterationModel
from tkgen.predict.hopper.throughput import ThroughputModel
from tkgen.predict.hopper.tiles import TileModel
from tkgen.report import facts, prediction
from tkgen.report.html import render_html
from tkgen.report.modelled import modelled
from tkgen.report.timeline import Bar, Timeline

ROWS = ["S2R", "LDG.E.128", "FADD", "BAR.SYNC", *["FFMA"] * 60, "STG.E.128"]


def drawn(name: str, code: str, **values: int) -> tuple[Timeline, object]:
    (model,) = models(built(name, code, **values), None, None)
    return modelled(model, model.prediction()), model


def of(found: Timeline, track: str, agent: int | None = None) -> list[Bar]:
    return [b for b in found.bars if b.track == track and agent in (None, b.wave)]


@pytest.mark.parametrize("name", ["h100_lcf", "h100_ping_pong", "h100_block_scaled", "h100_fp8_blocks", "h100_swiglu"])
def test_k_steps_take_the_predicted_time_and_their_copies_come_before(name: str) -> None:
    found, model = drawn(name, product_code())
    assert isinstance(model, TileModel) and found.names[0] == "producer"
    step = model.tiles.steps(model.tiles.rounds[0], found.clock_mhz * 1e6)
    period = step.longest * found.clock_mhz * 1e6
    assert all(b - a == pytest.approx(period, rel=1e-3) for a, b in pairwise(found.passes))
    assert found.loop[1] - found.loop[0] == pytest.approx(2 * period, rel=1e-3)
    products = of(found, "MFMA")
    for a, b in pairwise(products):
        assert a.end <= b.start + 0.2, "one unit multiplies for one consumer at a time"
    copies = of(found, "memory", 0)
    for number, start in enumerate(found.passes[:-1]):
        assert copies[number].end <= start + 0.2, "a step begins when its stage is full"
    stages = model.tiling.stages
    for first, again in zip(copies, copies[stages:], strict=False):
        assert again.start >= first.end - 0.2, "a stage is filled again after it was used"


def test_consumers_in_turn_store_while_the_other_multiplies() -> None:
    found, model = drawn("h100_ping_pong", product_code())
    assert isinstance(model, TileModel)
    first, second = (of(found, "MFMA", c) for c in (1, 2))
    (leaving,) = (b for b in of(found, "self", 1) if b.text == "sums become outputs")
    assert first[-1].end <= second[0].start + 0.2 and leaving.start < second[-1].end
    waits = {b.text for b in of(found, "wait", 2) if b.end <= second[0].start + 0.2}
    assert waits == {"its turn"}


def test_steps_that_are_left_out_are_named() -> None:
    long, _ = drawn("h100_lcf", product_code())
    short, _ = drawn("h100_lcf", product_code(), K=512)
    assert "K-steps 24 to 127 of a tile are like those before them" in long.known
    assert "left out" not in short.known and len(short.passes) == 8 + 1
    assert all("not traced" in found.known for found in (long, short))


def test_iterations_of_attention_take_the_predicted_time() -> None:
    found, model = drawn("h100_attention", loop_code())
    assert isinstance(model, IterationModel)
    period = max(model.pass_cycles)
    assert all(b - a == pytest.approx(period, rel=1e-3) for a, b in pairwise(found.passes))
    for a, b in pairwise(of(found, "MFMA")):
        assert a.end <= b.start + 0.2
    mine = of(found, "MFMA", 1)
    assert [b.text for b in mine[:4]] == ["multiply K", "multiply V"] * 2
    assert {b.text.split(" of ")[0] for b in of(found, "memory", 0)} == {"copy K", "copy V"}
    text = (SPECS / "h100_attention.tk").read_text().splitlines()
    assert "@ K[" in text[mine[0].line - 1] and "@ V[" in text[mine[1].line - 1]
    (_, consumer, _) = found.times
    assert 0 < consumer.multiplying < 1


def test_blocks_of_rows_share_an_sm() -> None:
    found, model = drawn("h100_softmax", sass(*ROWS))
    assert isinstance(model, ThroughputModel) and found.units == ("",) and not of(found, "MFMA")
    assert found.names == tuple(f"block {n}" for n in range(len(found.names))) and len(found.names) > 1
    work = of(found, "self", 0)
    clock = found.clock_mhz * 1e6
    assert work[1].start - work[0].start == pytest.approx(model.busy_seconds(clock) * clock / model.turns, rel=1e-3)
    assert {"loads", "memory and other blocks"} <= {b.text for b in of(found, "wait", 0)}


@pytest.mark.parametrize(("name", "code"), [
    ("h100_lcf", product_code()), ("h100_attention", loop_code()), ("h100_rmsnorm", sass(*ROWS)),
])  # fmt: skip
def test_reports_have_the_picture_and_say_what_it_is(name: str, code: str) -> None:
    build = built(name, code)
    found = prediction(build)
    assert found.timeline is not None and found.changes, "what would change the time is beside the picture"
    page = render_html([facts(build, found)])
    assert "modelled from the schedule, not traced" in page and 'data-picture="time-scale"' in page
    assert "--trace" not in page and "MFMA" not in page.split('id="data"')[0].split("</style>")[-1]
