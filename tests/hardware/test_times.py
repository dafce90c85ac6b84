"""The section of times: its operations of torch mean what the specs do, and races are judged by medians."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pytest

pytest.importorskip("torch")
pytest.importorskip("tinygrad")

import torch
from sampling import slow

from tkgen.hardware import times
from tkgen.hardware.contestants import BARS, others

NAMES = [bar.spec for bar in BARS]


@pytest.mark.parametrize("spec", [slow(name) for name in NAMES])
def test_a_bar_kernel_is_compared_and_timed_on_the_stand_in(checked, tmp_path, spec):
    got = checked("--stand-in", "--only", "times", "--item", f"{spec} small", "--into", tmp_path)
    assert got.exit_code == 0, got.output
    (result,) = json.loads((tmp_path / "report.json").read_text())["results"]
    if result["verdict"] == "skipped":
        assert "E2" in result["said"]
        return
    assert result["verdict"] == "measured" and 0 < result["distance"] < 2.0**-6
    assert result["times"]["tkgen"]["seconds"] > 0


class Clock:
    """In place of the GPU: launches take the seconds that they say."""

    def __init__(self):
        self.now = 0.0

    def synchronize(self):
        """Nothing runs on."""

    @contextmanager
    def timed(self, stream):
        start, found = self.now, []
        yield found
        found.append(self.now - start)


def test_contestants_take_turns_and_are_judged_by_medians():
    clock, order = Clock(), []

    def takes(who, seconds):
        def launch():
            order.append(who)
            clock.now += seconds

        return [launch, launch]

    def absent():
        raise RuntimeError("no such library\nhere")

    launches = {"tkgen": takes("tkgen", 2e-3), "hipBLASLt": takes("hipBLASLt", 1e-3), "other": [absent, absent]}
    launches |= {f"Triton {n}": takes(f"Triton {n}", n * 1e-3) for n in (3, 4)}
    found = times.raced(clock, launches, 0)
    result = times.told(found, 4_000_000_000, 1000, 4e-3, {})
    assert result["times"]["tkgen"]["rate"] == pytest.approx(2.0)
    assert result["times"]["other"] == {"failed": "RuntimeError: no such library"}
    assert result["ratios"] == pytest.approx({"hipBLASLt": 0.5, "Triton 3": 1.5, "Triton 4": 2.0, "predicted": 2.0})
    assert result["said"] == "2 TFLOP/s (0.5 of hipBLASLt, 2 of predicted, 1.5 of Triton)"
    turns = [order[i : i + 40] for i in range(0, len(order), 40)]
    assert len({tuple(turn) for turn in turns}) > 3  # rounds differ in their order


def test_wrong_numbers_are_told_before_times(monkeypatch):
    monkeypatch.setattr(times, "_MOST_FLOPS", 2**40)
    bar = next(bar for bar in BARS if bar.spec == "rows/softmax")
    given = {"X": torch.randn(4, 64)}
    right = given["X"].softmax(-1)

    class Held:
        def __init__(self, tensor):
            self.tensor = tensor

        def read(self):
            return self.tensor.view(-1).view(torch.uint8).numpy()

    def distance(output):
        one = times.TensorSet({"X": 0, "Y": 0}, (Held(given["X"]), Held(output)), {})
        return times._distance(bar, given, one, {"Y": output}, 0, None)

    assert distance(right) <= bar.error < distance(right * 1.1)
    assert distance(torch.full_like(right, float("nan"))) == float("inf")


def test_a_product_has_the_libraries_beside_it(monkeypatch):
    products = others(BARS[0], torch)
    assert {"hipBLASLt", "rocBLAS"} <= set(products)
    tensors = {"A": torch.randn(8, 16), "B": torch.randn(4, 16), "C": torch.empty(8, 4)}
    made = {bar.spec: bar.torch for bar in BARS}
    assert torch.equal(made["eight_wave"](tensors), tensors["A"] @ tensors["B"].T)
