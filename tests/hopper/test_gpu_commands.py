"""`tkgen test` and `tkgen tune` on a GPU without one: all except the launch, which the equations stand in for."""

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
from tkgen.backends.hopper.toolchain import Compiled, Figures, Nvcc
from tkgen.cli import app
from tkgen.execute.compare import references
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
            for name, (value, _) in references(launch, inputs, scalars, HOPPER).items():
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
        assert code == 3 and "torch finds no NVIDIA GPU here" in out
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


@pytest.fixture(autouse=True)
def assembled(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Searches have machine code to read, whatever compiles and disassembles here."""
    if "tune" not in request.function.__name__:
        return
    opcodes = ["LDG.E.128", "BAR.SYNC", "HGMMA.64x64x16.F32.BF16", "UTMALDG", "EXIT"]
    sass = "\n".join(f"        /*{n * 16:04x}*/                   {name} R2, R4 ;" for n, name in enumerate(opcodes))
    code = Compiled(b"", Figures("kernel", 32, 0, 0, 64), "", sass)
    for module in ("tkgen.backends.hopper.build", "tkgen.predict.hopper"):
        monkeypatch.setattr(f"{module}.find_nvcc", lambda _: Nvcc(Path("nvcc"), "PATH", "13.0"))
    monkeypatch.setattr("tkgen.backends.hopper.build.compile_cubin", lambda *_: code)
    monkeypatch.setattr(Nvcc, "disassembler", property(lambda _: Path("cuobjdump")))


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
    assert {"tune.json", "winner.tk", "trials.jsonl"} <= {p.name for p in out.iterdir()}
    code, said = tkgen("tune", tuned(tmp_path), "--device", "gpu", "-j", 1, "-o", tmp_path / "again")
    assert code == 0 and "right on the GPU" in said and "WARPS=2" in said


def test_tune_drops_what_is_wrong(gpu: Gpu, clock: list[int], tmp_path: Path) -> None:
    gpu.spoil = lambda y: y.view(-1)[:1].add_(1)
    code, said = tkgen("tune", tuned(tmp_path), "--device", "gpu", "-j", 1, "-o", tmp_path / "out")
    assert code == 1 and "computes the right numbers" in said and not clock
    assert not (tmp_path / "out" / "winner.tk").exists()


def test_tune_measures_what_is_predicted_best_alone(gpu: Gpu, clock: list[int], tmp_path: Path) -> None:
    words = ["--device", "gpu", "--best", 1, "-j", 1, "-o", tmp_path / "out", "--json"]
    code, said = tkgen("tune", tuned(tmp_path), *words)
    assert code == 0, said
    trials = [t for t in json.loads(said)["trials"] if t["seconds"]]
    measured = [t for t in trials if t["gpu_seconds"] is not None]
    assert len(trials) == 2 and len(measured) == 1 and len(clock) == 1
    assert measured[0]["seconds"] == min(t["seconds"] for t in trials)


@pytest.mark.parametrize("kind", ["rows", "products"])
def test_tune_chooses_by_prediction_without_a_gpu(kind: str, tmp_path: Path) -> None:
    path = tuned(tmp_path)
    if kind == "products":
        path = small(tmp_path)
        text = path.read_text().replace("  block ", "  param COLS = 64\n  tune COLS in 64, 128\n  block ", 1)
        path.write_text(text.replace("64 x 64 step", "64 x COLS step").replace("tile 16 x 64", "tile 16 x COLS"))
    code, said = tkgen("tune", path, "-j", 1, "-o", tmp_path / "out")
    assert code == 0 and "predicted, right on the model of its schedule" in " ".join(said.split()), said
    found = json.loads((tmp_path / "out" / "tune.json").read_text())
    trials = [t for t in found["trials"] if t["seconds"] is not None]
    assert len(trials) == 2 and found["winner"]["seconds"] == min(t["seconds"] for t in trials)
    assert found["winner"]["verified"] and found["winner"]["gpu_seconds"] is None and found["winner"]["limiter"]
    assert "on H100 (predicted" in (tmp_path / "out" / "winner.tk").read_text()
    code, said = tkgen("tune", path, "-j", 1, "-o", tmp_path / "other", "--product", "H200")
    assert code == 0 and "on H200 (predicted" in (tmp_path / "other" / "winner.tk").read_text(), said


def test_tune_says_what_it_cannot_predict(tmp_path: Path) -> None:
    words = [tuned(tmp_path), "-o", tmp_path / "out"]
    code, out = tkgen("tune", *words, "--product", "H800")
    assert code == 2 and "sm_90a has no product 'H800'; it has H100, H200" in " ".join(out.split())
    code, out = tkgen("tune", *words, ROOT / "specs" / "one_wave.tk")
    assert code == 2 and "candidates compete on one target" in " ".join(out.split())
    assert not (tmp_path / "out").exists()
