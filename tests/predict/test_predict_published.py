"""The model against published measurements: the promise of docs/prediction.md."""

from __future__ import annotations

from pathlib import Path

import pytest
from measured_kernels import EIGHT_CLUSTERS, ELEMENT_READS, MI355X, predicted

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("size", EIGHT_CLUSTERS)
def test_eight_clusters_is_within_fifteen_percent(size: int) -> None:
    assert predicted("eight_clusters", size).tflops == pytest.approx(EIGHT_CLUSTERS[size], rel=0.15)


@pytest.mark.parametrize("size", MI355X)
def test_the_mi355x_is_within_fifteen_percent(size: int) -> None:
    """No constant of the model comes from these measurements."""
    p = predicted("mi355x", size)
    assert p.tflops == pytest.approx(MI355X[size], rel=0.15) and not p.upper_bound
    assert p.clock_limit == ("power" if size >= 4096 else "peak")


def test_element_reads_in_order_and_in_proportion() -> None:
    long, short = (predicted("element_reads", step).tflops for step in (64, 16))
    assert long > short
    assert long / short == pytest.approx(ELEMENT_READS[64] / ELEMENT_READS[16], rel=0.25)


def test_power_holds_the_clock_of_large_sizes_only() -> None:
    limits = {size: predicted("eight_clusters", size).clock_limit for size in EIGHT_CLUSTERS}
    assert limits == {1024: "peak", 2048: "peak", 4096: "power", 8192: "power", 16384: "power"}


def test_the_documented_comparison_is_what_the_benchmark_prints() -> None:
    import predict as benchmark

    page = (ROOT / "docs" / "prediction.md").read_text(encoding="utf-8")
    assert benchmark.in_docs(page, benchmark.markdown()) == page
