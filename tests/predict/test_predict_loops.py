"""Predicted times of fused matmuls: within what a device can do, and in the order that the work has."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from sampling import sample, slow
from typer.testing import CliRunner

import tkgen
from tkgen.cli import app
from tkgen.predict import Iteration, PredictError, Prediction, predict
from tkgen.predict.device import Device
from tkgen.predict.iterations import CHANGES
from tkgen.targets import load_target

SPECS = Path(__file__).parent.parent.parent / "specs" / "attention"
CLOCK = 1.0000001  # of what is compared with a bound in floating point


@cache
def predicted(name: str, length: int, target: str = "gfx942", product: str | None = None) -> Prediction:
    sizes: dict[str, int | None] = {"LENGTH": length, "BATCH": 1}
    build = tkgen.load(SPECS / f"{name}.tk", sizes, target).build(machine_check=False)
    return predict(build, None, product)


def loop_of(found: Prediction) -> Iteration:
    assert found.loop is not None and found.loop.name == "iteration"
    return found.loop


@pytest.mark.parametrize(
    "name, target, product",
    sample(
        [(name, *of) for name in ("attention", "attention_causal")
         for of in (("gfx942", "MI300X"), ("gfx942", "MI325X"), ("gfx950", "MI355X"))],
        2,
        several=True,
    ),
)  # fmt: skip
def test_no_rate_is_above_what_the_device_can_do(name: str, target: str, product: str) -> None:
    found, machine = predicted(name, 2048, target, product), load_target(target)
    device, timing = machine.product_named(product), machine.timing
    assert timing is not None and found.product == product
    peak = machine.peak_tflops("bf16", device)
    assert found.tflops and found.share_of_peak and found.clock_mhz
    assert 0.05 < found.share_of_peak < timing.matrix_efficiency
    assert found.tflops <= peak * found.clock_mhz / device.clock_mhz * timing.matrix_efficiency * CLOCK
    assert found.share_of_copy <= 1 and found.seconds > found.launch_seconds
    loop = loop_of(found)
    assert all(0 <= share <= 1 for share in found.busy.values())
    assert all(0 <= cycles <= loop.cycles for cycles in loop.lost.values())
    assert found.busy["MFMA"] + sum(loop.lost.values()) / loop.cycles == pytest.approx(1, abs=0.02)
    assert loop.matrix_cycles + sum(loop.lost.values()) == pytest.approx(loop.cycles, rel=0.02)


def test_what_costs_nothing_makes_nothing_slower_and_the_limiter_saves_most() -> None:
    found = predicted("attention", 2048)
    faster = {x.resource: x.speedup for x in found.what_if}
    assert set(faster) == set(CHANGES) and min(faster.values()) >= 1
    assert faster[found.limiter] == max(faster.values()) > 1


LENGTHS = (512, 1024, 2048, 4096)


@pytest.mark.parametrize(
    ("name", "lengths"),
    [
        ("attention", LENGTHS), ("attention_window", LENGTHS),
        *(slow(name, (*LENGTHS, 8192)) for name in ("attention", "attention_window", "attention_causal")),
    ],
)  # fmt: skip
def test_a_longer_sequence_takes_longer(name: str, lengths: tuple[int, ...]) -> None:
    times = [predicted(name, length).seconds for length in lengths]
    assert times == sorted(times) and len(set(times)) == len(times)
    if name != "attention_window":  # work grows with the square, a window's with the length
        assert times[-1] > 3 * times[-2]


def test_what_is_multiplied_is_counted() -> None:
    """All keys: 4 L L D. Causal: a block of 128 queries visits tiles of 64 keys up to its last."""
    whole, half = predicted("attention", 1024), predicted("attention_causal", 1024)
    assert whole.tflops and half.tflops
    assert loop_of(whole).count == 16 and loop_of(half).count == (2 + 4 + 6 + 8 + 10 + 12 + 14 + 16) / 8
    heads, length, depth = 16, 1024, 128
    assert whole.tflops * whole.seconds * 1e12 == pytest.approx(4 * heads * length * length * depth)
    assert half.tflops * half.seconds * 1e12 == pytest.approx(4 * heads * length * depth * loop_of(half).count * 64)


def test_what_is_not_visited_takes_no_time() -> None:
    whole, half, window = (predicted(n, 8192) for n in ("attention", "attention_causal", "attention_window"))
    assert window.seconds < half.seconds < whole.seconds
    assert loop_of(window).count < loop_of(half).count < loop_of(whole).count


def test_no_launch_is_faster_than_its_bytes() -> None:
    """Few passes of many blocks: memory sets the time."""
    found, copy_gbps = predicted("attention", 128), Device.of(load_target("gfx942")).copy_rate / 1e9
    assert found.seconds >= found.gbps * found.seconds / copy_gbps + found.launch_seconds - 1e-12


def test_the_command_and_the_report_show_it(tmp_path: Path) -> None:
    path = SPECS / "attention.tk"
    small = ["-D", "LENGTH=512 BATCH=1"]
    result = CliRunner().invoke(app, ["predict", str(path), *small])
    assert result.exit_code == 0, result.output
    assert "TFLOP/s" in result.stdout and "us predicted" in result.stdout and "limited by" in result.stdout
    result = CliRunner().invoke(app, ["predict", str(path), *small, "--json"])
    data = json.loads(result.stdout)
    assert data["loop"]["count"] == 8 and data["tflops"] > 0 and data["sizes"]["LENGTH"] == 512
    result = CliRunner().invoke(app, ["report", str(path), *small, "-o", str(tmp_path / "r.html")])
    assert result.exit_code == 0 and "no prediction" not in result.stderr
    assert "cycles per iteration" in result.stdout and "limited by" in result.stdout
    assert "cycles per iteration" in (tmp_path / "r.html").read_text()


def test_two_kernels_are_compared(tmp_path: Path) -> None:
    path, other = SPECS / "attention.tk", SPECS / "attention_causal.tk"
    result = CliRunner().invoke(app, ["predict", str(path), "-D", "LENGTH=512 BATCH=1", "--compare", str(other)])
    assert result.exit_code == 0 and "attention_causal is" in result.stdout and "times as fast as" in result.stdout


def test_a_target_without_timing_data_is_refused() -> None:
    build = tkgen.load(SPECS / "attention.tk", {"LENGTH": 512, "BATCH": 1}, "gfx90a").build(machine_check=False)
    with pytest.raises(PredictError, match="no latencies"):
        predict(build)
