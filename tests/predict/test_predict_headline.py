"""The first lines of a prediction: an upper bound is called one, and what memory bounds is told in GB/s."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from tkgen.api import load
from tkgen.predict import Comparison, Prediction, predict, render_comparison, render_terminal
from tkgen.report import facts, prediction, render_html

SPECS = Path(__file__).parents[2] / "specs"


def predicted(name: str, product: str, **defines: int) -> Prediction:
    return predict(load(SPECS / f"{name}.tk", defines).build(), product=product, what_if=False)


def shown(p: Prediction) -> str:
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    render_terminal(p, console)
    return console.export_text()


@pytest.mark.parametrize(
    ("name", "product", "bound"),
    [
        ("hk_ping_pong", "MI350X", True),
        ("hk_ping_pong", "MI355X", False),
        ("ping_pong", "MI325X", False),
        ("fp32", "MI300X", True),
    ],
)
def test_without_a_known_power_limit_the_headline_says_upper_bound(name: str, product: str, bound: bool) -> None:
    p = predicted(name, product)
    assert p.upper_bound == bound
    assert ("upper bound" in shown(p).splitlines()[0]) == bound
    assert any("an upper bound" in note for note in p.notes) == bound


def test_a_comparison_and_a_report_say_upper_bound() -> None:
    p = predicted("hk_ping_pong", "MI350X")
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    render_comparison(Comparison(p, p), console)
    assert f"at most {p.tflops:.0f}" in console.export_text()
    build = load(SPECS / "hk_ping_pong.tk").build()
    page = render_html([facts(build, prediction(build, "MI350X"), product="MI350X")])
    assert "Predicted, upper bound" in page and "an upper bound, as the power limit is not known" in page


def test_a_skinny_product_is_told_in_gigabytes_a_second() -> None:
    p = predicted("tunable", "MI300X", M=64, N=32768, K=8192, ROWS=64)
    moved = 2 * (64 + 32768) * 8192 + 4 * 64 * 32768
    assert p.memory_bound and p.gbps == pytest.approx(moved / p.seconds / 1e9)
    assert p.share_of_copy == pytest.approx(p.gbps / (5300 * 0.8)) and 0.3 < p.share_of_copy < 1
    first = shown(p).splitlines()[0]
    assert f"{p.gbps:.0f} GB/s" in first and f"{p.share_of_copy:.0%} of what a copy reaches" in first


def test_a_large_square_product_is_not() -> None:
    p = predicted("ping_pong", "MI325X")
    assert not p.memory_bound and "GB/s" not in shown(p).splitlines()[0]
