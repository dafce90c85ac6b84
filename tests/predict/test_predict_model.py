"""Whole predictions: accounts that add up, what-ifs, comparison, output, errors, speed."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from measured_kernels import DEVICE, KERNELS, bottleneck, eight_clusters, predicted
from rich.console import Console
from sampling import slow

import tkgen
from tkgen.build import Build
from tkgen.predict import (
    Comparison,
    PredictError,
    Prediction,
    Workload,
    predict,
    predict_workload,
    render_comparison,
    render_terminal,
    tiles,
    to_json,
)
from tkgen.predict.stream import WaveStream
from tkgen.predict.timing import CuTiming, Machine, simulate
from tkgen.targets import UnknownTargetError, load_target

SPECS = Path(__file__).parents[2] / "specs"
TARGET = load_target("gfx942")


def build(name: str, **defines: int) -> Build:
    return tkgen.load(SPECS / f"{name}.tk", defines).build()


@pytest.fixture(scope="module")
def large() -> Prediction:
    return predict_workload(eight_clusters(8192), TARGET, DEVICE)


@pytest.fixture(scope="module")
def small() -> Prediction:
    return predict_workload(eight_clusters(1024), TARGET, DEVICE)


def step_of(p: Prediction) -> float:
    """The sum of the parts of a K-step."""
    assert p.loop is not None and p.loop.name == "K-step"
    return p.loop.matrix_cycles + sum(p.loop.lost.values())


def test_cycles_add_up(large: Prediction, small: Prediction) -> None:
    for p in (large, small):
        assert sum(p.parts.values()) == pytest.approx(p.seconds, rel=0.01)
        assert all(part >= 0 for part in p.parts.values())
        assert step_of(p) == pytest.approx(p.loop.cycles if p.loop else 0, rel=0.02)
        assert p.tflops == pytest.approx(2 * dict(p.sizes)["M"] ** 3 / p.seconds / 1e12)
        multiplying = p.parts["multiplying"] / p.seconds
        assert multiplying * (p.clock_mhz or 0) / 2100 == pytest.approx(p.share_of_peak, rel=0.01)


@pytest.mark.parametrize("name", ["fp32", "staged", "four_wave", "split_k"])
def test_cycles_add_up_where_blocks_share_a_cu_unevenly(name: str) -> None:
    p = predict(build(name), what_if=False)
    assert sum(p.parts.values()) == pytest.approx(p.seconds, rel=0.002)
    assert step_of(p) == pytest.approx(p.loop.cycles if p.loop else 0, rel=0.005)


def test_a_large_size_is_limited_by_multiplying_a_small_one_by_idle_cus(large: Prediction, small: Prediction) -> None:
    assert (large.limiter, large.clock_limit) == ("MFMA", "power")
    assert (small.limiter, small.clock_limit) == ("tail", "peak")


@pytest.mark.parametrize(
    ("name", "sizes", "limiter"),
    [
        ("fp32", {}, "MFMA"),  # products at an eighth of the rate
        ("subtiles_16", {}, "LDS"),  # every operand read again for every product
        ("tunable", {"M": 64, "N": 32768, "K": 8192}, "HBM"),  # skinny: B is read once and hardly used
        ("ping_pong", {"M": 305 * 256, "N": 256, "K": 8192}, "tail"),  # one block more than there are CUs
        ("tunable", {"M": 64, "N": 64, "K": 64}, "launch"),
    ],
)
def test_extremes_are_limited_by_what_they_were_made_of(name: str, sizes: dict[str, int], limiter: str) -> None:
    p = predict(build(name, **sizes), product="MI300X")
    assert p.limiter == limiter
    if limiter != "MFMA":
        assert max((part for part in p.shares if part.lost), key=lambda part: part.share).name == limiter


@pytest.mark.parametrize(("kind", "cause"), [(0, "issue"), (1, "barriers")])
def test_kernels_made_to_lose_their_time_to_one_cause_lose_it_there(kind: int, cause: str) -> None:
    p = predict_workload(replace(bottleneck(kind), blocks_per_cu=TARGET.occupancy(64, 65536, 4).blocks_per_cu), TARGET)
    assert p.parts[cause] > 0.4 * p.seconds
    helps = [w.resource for w in p.what_if if w.resource != "MFMA"]  # faster multiplies are waited for less, too
    assert helps[0] == cause


def test_what_ifs_are_ranked_and_only_help(large: Prediction, small: Prediction) -> None:
    for p in (large, small):
        speedups = [w.speedup for w in p.what_if]
        assert speedups == sorted(speedups, reverse=True) and min(speedups) >= 1
        assert {"MFMA", "LDS", "issue", "barriers", "L2", "LLC", "HBM", "tail", "fetch", "launch"} <= {
            w.resource for w in p.what_if
        }
    assert next(w for w in small.what_if if w.resource == "launch").speedup > 1.1
    assert next(w for w in large.what_if if w.resource == "clock").speedup > 1.2
    assert all(w.resource != "clock" for w in small.what_if)


def test_specs_of_every_kind_can_be_predicted() -> None:
    for name in ("one_wave", "producer_consumer_4p4c", "persistent", "subtiles_16", "fp32", "at_b"):
        p = predict(build(name), product="MI300X", what_if=False)
        assert 1 < (p.tflops or 0) < TARGET.peak_tflops("bf16")


def test_splitting_k_fills_the_gpu_where_there_are_few_tiles() -> None:
    split, streamed = (predict(build(name), product="MI300X", what_if=False) for name in ("split_k", "stream_k"))
    assert split.blocks == 4 * 64 and streamed.blocks == 304
    for p in (split, streamed):
        assert sum(p.parts.values()) == pytest.approx(p.seconds, rel=0.02)
    whole = predict_workload(
        replace(Workload.of(build("split_k")), pieces=[(r, c, 0) for r in range(8) for c in range(8)], piece_steps=128),
        TARGET,
        what_if=False,
    )
    assert split.seconds < 0.6 * whole.seconds


def test_the_kept_machine_code_is_no_better_than_what_the_spec_gives_today() -> None:
    sizes = {"M": 4096, "N": 4096, "K": 4096}
    today = predict(tkgen.load(KERNELS / "eight_clusters.tk").build(), sizes, DEVICE, what_if=False)
    assert today.tflops > 0.95 * predicted("eight_clusters", 4096).tflops


def test_dynamic_sizes_are_given() -> None:
    dynamic = build("dynamic_sizes")
    dims = {d.name: 2048 for d in dynamic.spec.program.dims if d.size is None}
    assert dims
    double = dict.fromkeys(dims, 4096)
    assert predict(dynamic, double, what_if=False).seconds > predict(dynamic, dims, what_if=False).seconds
    with pytest.raises(PredictError, match="M is dynamic: give it a size"):
        predict(dynamic)
    with pytest.raises(PredictError, match="M must be a multiple of 128"):
        predict(dynamic, double | {"M": 1000})


def test_a_larger_block_is_better_where_there_is_work_for_it() -> None:
    assert predict(build("ping_pong"), what_if=False).tflops > 1.5 * predict(build("subtiles_16"), what_if=False).tflops


def test_an_order_without_locality_is_no_faster(large: Prediction) -> None:
    work = eight_clusters(8192)
    scattered = list(work.pieces)
    random.Random(1).shuffle(scattered)
    p = predict_workload(replace(work, pieces=scattered), TARGET, DEVICE, what_if=False)
    assert p.levels[0].hit_rate < large.levels[0].hit_rate
    assert p.seconds >= 0.99 * large.seconds


def test_comparison(large: Prediction, small: Prediction) -> None:
    c = Comparison(large, small)
    assert c.speedup == pytest.approx(large.seconds / small.seconds)
    assert set(large.parts) == set(small.parts)
    assert large.parts["architecture"] > small.parts["architecture"]


def test_json_round_trip(large: Prediction, small: Prediction) -> None:
    data = json.loads(json.dumps(to_json(large)))
    assert data["tflops"] == large.tflops and data["levels"][0]["name"] == "L2"
    assert json.loads(json.dumps(to_json(Comparison(large, small))))["b"]["sizes"] == {"M": 1024, "N": 1024, "K": 1024}
    with pytest.raises(PredictError, match="finite"):
        to_json(replace(large, seconds=float("inf")))


def test_rendering_says_what_matters(large: Prediction, small: Prediction) -> None:
    out = io.StringIO()
    console = Console(file=out, width=110)
    render_terminal(large, console)
    render_comparison(Comparison(large, small), console)
    text = out.getvalue()
    for part in (
        "M=8192 N=8192 K=8192 on MI325X",
        "TFLOP/s",
        "limited by MFMA",
        "held by power",
        "lost to LDS",
        "what would change it",
    ):
        assert part in text
    assert "M=1024 N=1024 K=1024" in " ".join(text.replace("┃", " ").split())


def test_errors_are_sentences() -> None:
    with pytest.raises(UnknownTargetError, match="MI300X, MI325X"):
        predict(build("one_wave"), product="MI999")
    with pytest.raises(PredictError, match=r"gfx90a cannot be predicted: .*gfx942 and gfx950 have"):
        predict_workload(eight_clusters(1024), load_target("gfx90a"))
    crowded = replace(eight_clusters(1024), blocks_per_cu=TARGET.occupancy(64, 1 << 20, 8).blocks_per_cu)
    with pytest.raises(PredictError, match="fits on a compute unit"):
        predict_workload(crowded, TARGET)


@pytest.mark.parametrize("sizes", [(4096, 16384), slow((4096, 8192, 16384))], ids=str)
def test_a_larger_grid_costs_no_more_simulation(sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of a CU, instruction by instruction, take most of a prediction's time and are the same for every size."""
    runs: list[tuple[int, int]] = []

    def counted(streams: Sequence[WaveStream], blocks: int, machine: Machine) -> CuTiming:
        runs.append((sum(len(s.prologue) + len(s.body) + len(s.epilogue) for s in streams), blocks))
        return simulate(streams, blocks, machine)

    monkeypatch.setattr(tiles, "simulate", counted)
    by_size = []
    for size in sizes:
        runs.clear()
        predict_workload(eight_clusters(size), TARGET, DEVICE)
        by_size.append(set(runs))
        assert len(runs) < 20
    assert all(runs == by_size[0] for runs in by_size)
