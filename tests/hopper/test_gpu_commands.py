"""`tkgen test` and `tkgen tune` on a GPU without one: all but the launch, which the equations stand in for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from gemms import gemm
from test_hopper_build import compiles
from typer.testing import CliRunner

from tkgen.backends.hopper.backend import HopperBackend
from tkgen.cli import app
from tkgen.execute import kernels
from tkgen.ir.functions import HOPPER
from tkgen.ir.rounding import TORCH

ROOT = Path(__file__).parents[2]
SOFTMAX = ROOT / "specs" / "hopper" / "h100_softmax.tk"


class Gpu:
    """Launches that compute the equations; `spoil` is what it does to an output then."""

    def __init__(self) -> None:
        self.spoil: Callable[[torch.Tensor], object] = lambda output: None
        self.poisoned: list[bool] = []

    def launcher(self, spec: Any, launch: Any, tensors: dict[str, torch.Tensor], scalars: Any, cxx: object) -> Any:
        def start() -> None:
            inputs = {t.name: tensors[t.name] for t in launch.program.reads}
            for name, (value, _) in kernels.references(launch, inputs, scalars, HOPPER).items():
                dtype = next(TORCH[t.dtype] for t in launch.program.outputs if t.name == name)
                self.poisoned.append(bool(tensors[name].isnan().all()))
                tensors[name].copy_(value.to(dtype))
                self.spoil(tensors[name])

        return start


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gpu]:
    found = Gpu()
    monkeypatch.setattr(HopperBackend, "need_gpu", lambda _: None)
    monkeypatch.setattr(HopperBackend, "launcher", lambda _, *given: found.launcher(*given))
    monkeypatch.setattr(torch.Tensor, "cuda", lambda t: t)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    yield found


def tkgen(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.tk"
    path.write_text(gemm(dims=(64, 64, 128), block=(64, 64, 64), stages=2, grid="persistent(3)"))
    return path


@compiles
def test_test_runs_sizes_of_products_on_poisoned_outputs(gpu: Gpu, tmp_path: Path) -> None:
    code, out = tkgen("test", small(tmp_path), "--device", "gpu", "--json")
    assert code == 0, out
    cases = [r["case"] for r in json.loads(out)]
    assert cases[:3] == ["proves", "figures", "M=64 N=64 K=64"] and cases[-1] == "as shipped"
    assert (
        "M=64 N=64 K=320" in cases and "M=128 N=128 K=192" in cases
    )  # two turns of the ring; four tiles, three blocks
    assert "M=65 N=128 K=320" in cases and "M=1 N=8 K=8" in cases  # ragged, in whole chunks of the copy engine
    assert len(gpu.poisoned) == 2 * (len(cases) - 2) and all(gpu.poisoned)  # of both kinds of inputs


@compiles
@pytest.mark.parametrize("spoil", [lambda y: y.view(-1)[-1:].fill_(float("nan")), lambda y: y.view(-1)[:1].add_(1)])
def test_test_says_which_size_is_wrong(gpu: Gpu, spoil: Callable[[torch.Tensor], object], tmp_path: Path) -> None:
    gpu.spoil = spoil
    path = tmp_path / "rows.tk"
    path.write_text(SOFTMAX.read_text().replace("ROWS = 32768, D = 4096", "ROWS = 5, D = 64"))
    code, out = tkgen("test", path, "--device", "gpu", "--junit", tmp_path / "junit.xml")
    assert code == 1 and "2 passed" in out
    assert "ROWS=1: exact inputs: 1 of 64 elements are wrong" in out or "0 of 64 elements are wrong, 1 NaN" in out
    assert "exact inputs" in (tmp_path / "junit.xml").read_text()


def test_without_a_gpu_the_message_is_plain() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    for command in ("test", "tune"):
        code, out = tkgen(command, SOFTMAX, "--device", "gpu")
        assert code == 3 and "no NVIDIA GPU here that torch can use" in out
    code, out = tkgen("test", ROOT / "specs" / "one_wave.tk", "--device", "gpu")
    assert code == 3 and "no AMD GPU here" in out


def test_what_a_gpu_does_not_take_is_refused(gpu: Gpu) -> None:
    code, out = tkgen("test", SOFTMAX, "--device", "gpu", "--blocks", "3")
    assert code == 2 and "a GPU launches all blocks" in out
    code, out = tkgen("test", SOFTMAX, "--device", "tpu")
    assert code == 2 and "`emulator` or `gpu`" in out


def tuned(tmp_path: Path) -> Path:
    path = tmp_path / "rows.tk"
    text = SOFTMAX.read_text().replace("ROWS = 32768, D = 4096", "ROWS = 5, D = 64")
    path.write_text(text.replace("  global X", "  tune WARPS in 1, 2, 5000\n  global X", 1))
    return path


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rounds in which candidates of fewer warps take longer; the sets of tensors that each went round."""
    sets: list[int] = []

    def raced(launches: dict[Any, list[Any]], seconds: float, rounds: int = 15) -> dict[Any, list[float]]:
        sets.extend(map(len, launches.values()))
        return {who: [(1 + n / 10) * 1e-6 / dict(who.values)["WARPS"] for n in range(3)] for who in launches}

    monkeypatch.setattr("tkgen.execute.race.raced", raced)
    monkeypatch.setattr("tkgen.execute.race.ROTATED_BYTES", 5 * (2 * 5 * 64 * 2))
    monkeypatch.setattr("tkgen.execute.gpu.median_milliseconds", lambda launch: 1e-3)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "H100")
    return sets


@compiles
def test_tune_times_what_is_right_and_writes_the_fastest(gpu: Gpu, clock: list[int], tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, said = tkgen("tune", tuned(tmp_path), "--device", "gpu", "-j", 1, "-o", out, "--json")
    assert code == 0, said
    found = json.loads(said)
    assert found["winner"]["values"] == {"WARPS": 2} and found["winner"]["verified"] and found["rejected"]
    assert found["winner"]["gpu_seconds"] == pytest.approx(1.1e-6 / 2) and clock == [5, 5] and all(gpu.poisoned)
    assert found["winner"]["spread"] == pytest.approx(0.2 / 1.1)
    assert found["winner"]["gbps"] == pytest.approx(2 * 5 * 64 * 2 / (1.1e-6 / 2) / 1e9)
    text = (out / "winner.tk").read_text()
    assert "WARPS = 2" in text and "  tune" not in text and "for ROWS=5 D=64 on H100 (measured 0." in text, text
    assert sorted(p.name for p in out.iterdir()) == ["tune.json", "winner.tk"]
    code, said = tkgen("tune", tuned(tmp_path), "--device", "gpu", "-j", 1, "-o", out)
    assert code == 0 and "right on the GPU" in said and "WARPS=2" in said


@compiles
def test_tune_drops_what_is_wrong(gpu: Gpu, clock: list[int], tmp_path: Path) -> None:
    gpu.spoil = lambda y: y.view(-1)[:1].add_(1)
    code, said = tkgen("tune", tuned(tmp_path), "--device", "gpu", "-j", 1, "-o", tmp_path / "out")
    assert code == 1 and "computes the right numbers" in said and not clock and not (tmp_path / "out").exists()


@pytest.mark.parametrize("words, said", [
    ([], "`--device gpu` measures all candidates"),
    (["--device", "gpu", "--trials", "2"], "there are 3 candidates"),
    (["--device", "gpu", "--resume"], "leave out --resume"),
    (["--device", "gpu", "--product", "H100"], "leave out --product"),
    (["--device", "gpu", "--executor", "ray"], "leave out --executor"),
])  # fmt: skip
def test_tune_says_what_it_cannot_do_without_predictions(gpu: Gpu, words: list[str], said: str, tmp_path: Path) -> None:
    code, out = tkgen("tune", tuned(tmp_path), *words, "-o", tmp_path / "out")
    assert code == 2 and said in " ".join(out.split()) and not (tmp_path / "out").exists()
