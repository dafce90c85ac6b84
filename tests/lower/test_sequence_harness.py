"""The harnesses of sequences: each kernel held against its equations on what those before it have left."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from on_host import LINK_FLAGS, host_compile, needs_clang
from typer.testing import CliRunner

from tkgen import load
from tkgen.backends.cdna.lower.reference import DEVIATIONS
from tkgen.cli import app
from tkgen.execute.compare import references
from tkgen.execute.launch import computed
from tkgen.ir import rounding
from tkgen.sequence import SequenceSpec

ROOT = Path(__file__).parents[2]
SPLIT = ROOT / "tests/sequence/split.tk"
ROUNDS = """sequence rounds
dims M = dynamic, N = 64, K = 64
global X : f32[M, K]
global T : bf16[M, K]
global W : bf16[N, K]
global Y : f32[M, N]
scalar scale : f32 = 0.25
kernel halve
  over m in M by 4
  waves 1
  T[m] = X[m] * scale
  X[m] = X[m] - rowmax(X[m])
kernel multiply
  over m in M by 64, n in N by 64
  remap group(rows = 2)
  waves 2 x 2
  shared T, W
  each k in K by 32
    s = s + T[m, k] @ W[n, k].T
  Y[m, n] = s
"""
AGAIN = """sequence again
dims ROWS = 8, D = 64
global X : f32[ROWS, D]
global T : f32[ROWS, D]
global Y : f32[ROWS, D]
kernel first
  over r in ROWS by 4
  waves 1
  T[r] = X[r] + 1
kernel second
  over r in ROWS by 4
  waves 1
  Y[r] = T[r] * 2
  T[r] = X[r] - 1
"""


@pytest.fixture(scope="module", params=["split", "rounds"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with all that is built of a sequence."""
    folder = tmp_path_factory.mktemp(request.param)
    spec = SPLIT if request.param == "split" else folder / "rounds.tk"
    if spec != SPLIT:
        spec.write_text(ROUNDS)
    result = CliRunner().invoke(app, ["build", str(spec), "-o", str(folder), "--emit", "cpp,harness"])
    assert result.exit_code == 0, result.output
    assert {f"{request.param}_check.py", f"{request.param}_check.cpp"} <= {p.name for p in folder.iterdir()}
    return folder


def spec_of(folder: Path) -> SequenceSpec:
    path = folder / "rounds.tk"
    spec = load(path if path.exists() else SPLIT)
    assert isinstance(spec, SequenceSpec)
    return spec


def script(folder: Path, spec: SequenceSpec) -> ModuleType:
    path, before = folder / f"{spec.name}_check.py", list(sys.path)
    module = ModuleType("harness")
    module.__file__ = str(path)
    exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
    sys.path[:] = before
    return module


def launched(spec: SequenceSpec, spoilt: str = "") -> Any:
    """The emulator in place of the built module, with a value of the tensor `spoilt` off."""
    build = spec.build()

    def dispatch(*arguments: Any) -> None:
        tensors = dict(zip((t.name for t in spec.program.arguments), arguments, strict=False))
        given = {t.name: tensors[t.name].clone() for t in spec.program.reads}
        extents = {d.name: tensors["X"].shape[0] for d in spec.program.dims if d.size is None}
        launch = spec.launch(extents)
        for name, result in computed(build, launch, given, {"scale": arguments[-2]}).items():
            tensors[name].copy_(result)
            if name == spoilt:
                tensors[name].view(-1)[5] += 8

    return SimpleNamespace(dispatch=dispatch)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    class Event(SimpleNamespace):
        def record(self) -> None: ...

        def synchronize(self) -> None: ...

        def elapsed_time(self, _: object) -> float:
            return 2.0

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(gcnArchName="gfx942"))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=0))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "Event", Event)


@pytest.mark.usefixtures("gpu")
def test_the_script_checks_each_kernel(
    written: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = spec_of(written)
    harness = script(written, spec)
    made = harness.make_tensors
    monkeypatch.setattr(harness, "make_tensors", lambda sizes, device, seed: made(sizes, "cpu", seed))
    options = ["--warmup", "0", "--repeats", "1", "--scale", "0.75"]
    options += [] if spec.name == "split" else ["--M", "128"]
    monkeypatch.setattr(sys, "argv", ["check", *options])
    stored = {"split": ["sums: S", "finish: Y"], "rounds": ["halve: T", "halve: X", "multiply: Y"]}[spec.name]
    outcomes: Mapping[str, int] = {"": 0} | {name.split(": ")[1]: 1 for name in stored}
    for spoilt, status in outcomes.items():
        monkeypatch.setattr(harness, "load_module", lambda spoilt=spoilt: launched(spec, spoilt))
        assert harness.main() == status
        said = capsys.readouterr().out.splitlines()
        assert [line for line in said if ": " in line and not line.startswith("WRONG")] == stored
        assert any(line.startswith("WRONG") for line in said) == bool(status)
        if spoilt:
            assert said[said.index(next(n for n in stored if n.endswith(spoilt))) + 5].startswith("WRONG")
        assert said[-1].startswith("speed") and said[-1].endswith("TFLOP/s")


def test_sums_of_what_a_kernel_has_made_round() -> None:
    assert DEVIATIONS == rounding.DEVIATIONS_SQUARED


def test_sums_of_what_a_kernel_has_made_have_the_bound_of_the_meaning(tmp_path: Path) -> None:
    (tmp_path / "rounds.tk").write_text(ROUNDS)
    result = CliRunner().invoke(app, ["build", str(tmp_path / "rounds.tk"), "-o", str(tmp_path), "--emit", "harness"])
    assert result.exit_code == 0, result.output
    spec = spec_of(tmp_path)
    harness = script(tmp_path, spec)
    tensors = harness.make_tensors(harness.SIZES | {"M": 64}, "cpu")
    tensors["T"] = torch.randn(64, 64).bfloat16()
    value, bound = harness.reference_multiply(tensors, {})["Y"]
    launch = spec.launch({"M": 64}).launches[1]
    meant, allowed = references(launch, {"T": tensors["T"], "W": tensors["W"]}, {})["Y"]
    torch.testing.assert_close(value, meant, rtol=0, atol=1e-12)
    torch.testing.assert_close(bound, allowed, rtol=1e-5, atol=0)


def test_scripts_are_formatted(written: Path) -> None:
    path = written / f"{spec_of(written).name}_check.py"
    for command in (["format", "--check"], ["check", "--ignore", "ANN,D"]):
        run = [
            sys.executable,
            "-m",
            "ruff",
            *command,
            "--no-cache",
            "--config",
            str(ROOT / "pyproject.toml"),
            str(path),
        ]
        done = subprocess.run(run, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


# The kernels on the CPU, in turn; with a mistake in the one that WRONG names.
FAKES = {
    "split": """
        const auto *s = reinterpret_cast<split::sums::globals *>(arguments[0]);
        const auto *f = reinterpret_cast<split::finish::globals *>(arguments[0]);
        if (turn++ % 2 == 0) {
            for (int p = 0; p < 3; ++p) for (int m = 0; m < 64; ++m) for (int n = 0; n < 128; ++n) {
                float sum = wrong("sums") ? 1.0f : 0.0f;
                for (int k = 96 * p; k < 96 * p + 96; ++k)
                    sum += at<brain>(s->X.raw_ptr, m * 288 + k) * at<brain>(s->W.raw_ptr, n * 288 + k);
                s->S.raw_ptr[(p * 64 + m) * 128 + n] = sum;
            }
            return hipSuccess;
        }
        for (int m = 0; m < 64; ++m) for (int n = 0; n < 128; ++n) {
            float sum = 0.0f;
            for (int p = wrong("finish") ? 1 : 0; p < 3; ++p) sum += f->S.raw_ptr[(p * 64 + m) * 128 + n];
            const float x = f->scale * sum + at<brain>(f->b.raw_ptr, n);
            reinterpret_cast<brain *>(f->Y.raw_ptr)[m * 128 + n] = brain(0.5f * x * std::erfc(-0.70710678f * x));
        }
""",
    "rounds": """
        const auto *h = reinterpret_cast<rounds::halve::globals *>(arguments[0]);
        const auto *f = reinterpret_cast<rounds::multiply::globals *>(arguments[0]);
        if (turn++ % 2 == 0) {
            for (int m = 0; m < h->X.rows(); ++m) {
                float *x = h->X.raw_ptr + m * 64, most = *std::max_element(x, x + 64);
                for (int k = 0; k < 64; ++k) {
                    reinterpret_cast<brain *>(h->T.raw_ptr)[m * 64 + k] = brain(x[k] * h->scale);
                    x[k] -= wrong("halve") ? 0.0f : most;
                }
            }
            return hipSuccess;
        }
        for (int m = 0; m < f->Y.rows(); ++m) for (int n = 0; n < 64; ++n) {
            float sum = wrong("multiply") ? 0.01f : 0.0f;
            for (int k = 0; k < 64; ++k)
                sum += at<brain>(f->T.raw_ptr, m * 64 + k) * at<brain>(f->W.raw_ptr, n * 64 + k);
            f->Y.raw_ptr[m * 64 + n] = sum;
        }
""",
}
FAKE = """
#include "{name}_check.cpp"
static int turn = 0;
static bool wrong(const char *name) {{ return std::getenv("WRONG") && std::strcmp(std::getenv("WRONG"), name) == 0; }}
template <typename T> float at(const void *from, int i) {{ return float(static_cast<const T *>(from)[i]); }}
extern "C" char __hip_fatbin[1] = {{}};
extern "C" hipError_t hipLaunchKernel(const void *, dim3, dim3, void **arguments, size_t, hipStream_t) {{
{body}
    return hipSuccess;
}}
"""


@needs_clang
def test_the_program_checks_each_kernel(written: Path) -> None:
    spec = spec_of(written)
    (written / "fake.cpp").write_text(FAKE.format(name=spec.name, body=FAKES[spec.name]))
    host_compile(written, "fake.cpp", *LINK_FLAGS, str(written / "run"))
    options = [] if spec.name == "split" else ["--M", "128"]

    def run(**environment: str) -> subprocess.CompletedProcess[str]:
        command = [str(written / "run"), *options, "--repeats", "1", "--warmup", "0"]
        return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)

    right = run()
    assert right.returncode == 0, right.stdout + right.stderr
    stored = {"split": ["sums: S", "finish: Y"], "rounds": ["halve: T", "halve: X", "multiply: Y"]}[spec.name]
    assert [line for line in right.stdout.splitlines() if ": " in line] == stored
    for kernel in spec.kernels:
        wrong = run(WRONG=kernel.name)
        assert wrong.returncode == 1
        of_it = wrong.stdout.split(f"{kernel.name}: ", 1)[1]
        assert "\nWRONG\n" in of_it
        assert wrong.stdout.count("\nWRONG\n") == 1


def test_what_is_overwritten_has_no_harness(tmp_path: Path) -> None:
    (tmp_path / "again.tk").write_text(AGAIN)
    command = ["build", str(tmp_path / "again.tk"), "-o", str(tmp_path / "out"), "--emit", "harness"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 1 and "E231" in result.output and "`T` is written again" in result.output
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").glob("*check*"))
