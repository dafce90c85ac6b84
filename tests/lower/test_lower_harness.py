"""The harnesses: the script's arithmetic against a product by hand, the HIP program run on a fake runtime."""

from __future__ import annotations

import os
import py_compile
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from lowering import NAMES, gemm, spec_plan
from on_host import LINK_FLAGS, host_compile, needs_clang
from planning import planned
from sampling import only

from tkgen.api import load
from tkgen.backends.cdna.lower.harness import harness_cpp, harness_python
from tkgen.backends.cdna.lower.render import lower
from tkgen.ir.types import DType
from tkgen.schedule.plan import Plan

torch = pytest.importorskip("torch")
from tkgen.ir.meaning import evaluate  # noqa: E402
from tkgen.ir.rounding import TORCH, ulp  # noqa: E402

SCALED = gemm(
    "  scalar alpha : f32\n  scalar beta : f32 = 0.0\n  global D : f32[M, N]\n  global v : f32[M]\n"
    "  epilogue scale(alpha) | add(D, beta) | bias(v) | gelu_tanh\n",
    a="K, M", b="K, N", dtype="f16", out="bf16", shape="M = 128, N = dynamic, K = dynamic",
)  # fmt: skip
HOSTILE = (
    "kernel torch\n  dims lambda = 128, int = dynamic, repeats = dynamic\n  global argparse : bf16[lambda, repeats]\n"
    "  global class : bf16[int, repeats]\n  global sys : f32[lambda, int]\n  scalar seed : f32 = 2.0\n"
    "  block 128 x 128 step 32\n  waves 2 x 2\n  shared argparse, class buffers 1\n"
    "  accumulate sys : f32 tile 32 x 32\n  epilogue scale(seed)\n  store sys\n"
)


def script(text: str) -> ModuleType:
    module = ModuleType("harness")
    module.__file__ = str(Path(__file__).with_name("harness.py"))
    before = list(sys.path)
    exec(compile(text, "harness.py", "exec"), module.__dict__)
    sys.path[:] = before
    return module


# ------------------------------------------------------------ Python


@pytest.mark.parametrize("name", NAMES)
def test_every_script_compiles(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}_check.py"
    schedule = spec_plan(name)
    path.write_text(harness_python(schedule, schedule.target.name))
    py_compile.compile(str(path), doraise=True)


@pytest.mark.parametrize("text", [SCALED, HOSTILE, harness_python(spec_plan("bias_gelu_bf16"), "gfx942")])
def test_scripts_are_formatted(text: str, tmp_path: Path) -> None:
    if not shutil.which("ruff") and not (Path(sys.executable).parent / "ruff").exists():
        pytest.skip("ruff is not installed")
    path = tmp_path / "check.py"
    path.write_text(harness_python(planned(text), "gfx942") if text.startswith("kernel") else text)
    config = Path(__file__).parents[2] / "pyproject.toml"
    for command in (["format", "--check"], ["check", "--ignore", "ANN,D"]):
        run = [sys.executable, "-m", "ruff", *command, "--no-cache", "--config", str(config), str(path)]
        done = subprocess.run(run, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


def test_reference_of_a_layer() -> None:
    text = harness_python(spec_plan("bias_gelu_bf16", {"TOKENS": 128, "OUT": 256, "IN": 64}), "gfx942")
    harness = script(text)
    tensors = harness.make_tensors(harness.SIZES, "cpu")
    assert list(tensors) == ["X", "W", "bias", "Y"]
    assert {n: (tuple(t.shape), t.dtype) for n, t in tensors.items()} == {
        "X": ((128, 64), torch.bfloat16),
        "W": ((256, 64), torch.bfloat16),
        "bias": ((256,), torch.bfloat16),
        "Y": ((128, 256), torch.bfloat16),
    }
    assert torch.isnan(tensors["Y"]).all()
    x, w, bias = (tensors[n].double() for n in ("X", "W", "bias"))
    expected = torch.nn.functional.gelu(torch.einsum("tk,ok->to", x, w) + bias[None, :])
    result, bound = harness.reference(tensors, {})["Y"]
    assert result.dtype is torch.float64 and (result - expected).abs().max() < 1e-12
    assert 0 < bound.max() < 1e-4


def test_reference_with_scalars_transposes_and_dynamic_sizes() -> None:
    harness = script(harness_python(planned(SCALED), "gfx942"))
    assert harness.SIZES == {"M": 128}
    sizes = {"M": 128, "N": 64, "K": 32}
    tensors = harness.make_tensors(sizes, "cpu")
    scalars = {"alpha": 1.5, "beta": -0.25}
    a, b, d, v = (tensors[n].double() for n in ("A", "B", "D", "v"))
    summed = 1.5 * (a.T @ b) - 0.25 * d + v[:, None]
    expected = torch.nn.functional.gelu(summed, approximate="tanh")
    assert torch.allclose(harness.reference(tensors, scalars)["C"][0], expected, atol=1e-12)


def test_default_sizes_fit_the_kernel_and_zero_defaults_are_not_checked_with_zero(monkeypatch: Any) -> None:
    harness = script(harness_python(planned(SCALED.replace("step 32", "step 96")), "gfx942"))
    monkeypatch.setattr(sys, "argv", ["check"])
    given = vars(harness.parse_arguments())
    assert given["size N"] == 4096
    assert given["size K"] == 4128  # 43 steps of 96
    assert given["scalar beta"] != 0
    monkeypatch.setattr(sys, "argv", ["check", "--N", "256", "--beta", "0"])
    assert (vars(harness.parse_arguments())["size N"], vars(harness.parse_arguments())["scalar beta"]) == (256, 0)


@pytest.mark.parametrize("change", ["none", "one element", "nan", "rounding"])
def test_report(change: str, capsys: pytest.CaptureFixture[str]) -> None:
    harness = script(harness_python(planned(SCALED), "gfx942"))
    expected = torch.linspace(-300, 300, 128 * 64).reshape(128, 64)
    result = expected.to(torch.bfloat16) if change == "rounding" else expected.clone()
    if change == "one element":
        result[3, 5] += 0.0001
    if change == "nan":
        result[0, 0] = float("nan")
    right = harness.report(result, expected.double(), torch.full_like(expected, 1e-5, dtype=torch.float64))
    shown = capsys.readouterr().out
    assert right == (change in ("none", "rounding"))
    assert ("WRONG: 1 elements" in shown) == (not right)
    assert f"NaN         {int(change == 'nan')}" in shown
    if change == "one element":
        assert "max error   9.15527e-05, 3 ulp there" in shown
        assert "wrong       1 of 8192" in shown
    if change == "rounding":
        assert "max error   0.999146, 0.5 ulp there" in shown  # half a unit of bf16 at 300


def test_speed_has_the_right_unit() -> None:
    harness = script(harness_python(spec_plan("eight_wave"), "gfx942"))
    assert harness.tflops({"M": 8192, "N": 8192, "K": 8192}, 1.0) == pytest.approx(1099.5, abs=0.1)


def test_without_a_module_it_says_so(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    path = tmp_path / "eight_wave_check.py"
    path.write_text(harness_python(spec_plan("eight_wave"), "gfx942"))
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.strip() == (
        "eight_wave: no module eight_wave beside this script: build it with `tkgen build --emit module` where ROCm is "
        "installed"
    )


def test_hostile_names(tmp_path: Path, monkeypatch: Any) -> None:
    """A kernel called like a module of Python, dimensions called like keywords and like the script's own options."""
    text = harness_python(planned(HOSTILE), "gfx942")
    harness = script(text)
    monkeypatch.setattr(sys, "argv", ["check", "--repeats_", "64", "--seed_", "3", "--repeats", "7"])
    given = vars(harness.parse_arguments())
    assert (given["size repeats"], given["scalar seed"], given["repeats"], given["seed"]) == (64, 3.0, 7, 0)
    sizes = harness.SIZES | {"int": 128, "repeats": 64}
    tensors = harness.make_tensors(sizes, "cpu")
    expected = 2 * tensors["argparse"].float() @ tensors["class"].float().T
    assert torch.equal(harness.reference(tensors, {"seed": 2.0})["sys"][0], expected.double())
    (tmp_path / "torch.so").write_bytes(b"not a module")
    (tmp_path / "torch.py").write_text("raise SystemExit('the wrong torch')")
    (tmp_path / "check.py").write_text(text)
    done = subprocess.run([sys.executable, str(tmp_path / "check.py"), "--help"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# ------------------------------------------------------------ C++

# The kernel on the CPU: C = f(A Bt) of bf16 matrices; with a mistake where WRONG is in the environment.
FAKE = """
#include "{name}_check.cpp"
extern "C" char __hip_fatbin[1] = {{}};
extern "C" hipError_t hipLaunchKernel(const void *, dim3, dim3, void **arguments, size_t, hipStream_t) {{
    auto &g = *static_cast<{name}::globals *>(arguments[0]);
    const auto *a = reinterpret_cast<const brain *>(g.A.raw_ptr), *b = reinterpret_cast<const brain *>(g.B.raw_ptr);
    auto *out = g.{out}.raw_ptr;
    const int wrong = std::getenv("WRONG") ? 1 : 0, rows = g.{out}.rows(), cols = g.{out}.cols(), depth = g.A.cols();
    for (int i = 0; i < rows; ++i)
        for (int j = 0; j < cols; ++j) {{
            float sum = 0.0f;
            for (int k = 0; k < depth - wrong; ++k) sum += float(a[i * depth + k]) * float(b[j * depth + k]);
            {epilogue}
            out[i * cols + j] = sum;
        }}
    return hipSuccess;
}}
"""


def write_program(folder: Path, schedule: Plan, name: str) -> None:
    (folder / f"{name}.cpp").write_text(lower(schedule, "gfx942", f"{name}.tk").text)
    (folder / f"{name}_check.cpp").write_text(harness_cpp(schedule, "gfx942"))


@needs_clang
@pytest.mark.parametrize(
    "name", only(("at_bt", "bias_gelu_bf16", "fp16", "fp32", "tail", "one_wave"), ("bias_gelu_bf16", "tail"))
)
def test_programs_compile(name: str, tmp_path: Path) -> None:
    write_program(tmp_path, spec_plan(name), name)
    host_compile(tmp_path, f"{name}_check.cpp", "-fsyntax-only")


@needs_clang
def test_programs_with_hostile_names_compile(tmp_path: Path) -> None:
    for text, name in ((HOSTILE, "torch"), (SCALED, "gemm"), (HOSTILE.replace("kernel torch", "kernel int"), "int")):
        write_program(tmp_path, planned(text), name)
        host_compile(tmp_path, f"{name}_check.cpp", "-fsyntax-only")


@needs_clang
def test_program_runs(tmp_path: Path) -> None:
    """Right numbers give 0, a missing product gives 1, no GPU gives 2; the speed is that of the fake clock."""
    sizes: dict[str, int | None] = {"M": 128, "N": 128, "K": 64}
    write_program(tmp_path, spec_plan("alpha_beta", sizes), "alpha_beta")
    epilogue = "sum = g.alpha * sum + g.beta * g.C.raw_ptr[i * cols + j];"
    (tmp_path / "fake.cpp").write_text(FAKE.format(name="alpha_beta", out="D", epilogue=epilogue))
    host_compile(tmp_path, "fake.cpp", *LINK_FLAGS, str(tmp_path / "run"))
    results = {}
    for label, environment in (("right", {}), ("wrong", {"WRONG": "1"}), ("none", {"NO_GPU": "1"})):
        command = [tmp_path / "run", "--alpha", "0.5"]
        results[label] = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)
    assert results["right"].returncode == 0, results["right"].stdout
    assert "right\n" in results["right"].stdout
    assert "NaN         0 of all" in results["right"].stdout
    assert "time        2.0000 ms, median of 20" in results["right"].stdout
    assert "speed       0.0 TFLOP/s" in results["right"].stdout
    assert results["wrong"].returncode == 1
    assert "WRONG\n" in results["wrong"].stdout
    assert results["none"].returncode == 2
    assert results["none"].stderr == "alpha_beta: no AMD GPU found: the kernel needs one\n"


@needs_clang
def test_program_takes_sizes_and_refuses_what_the_kernel_refuses(tmp_path: Path) -> None:
    write_program(tmp_path, spec_plan("dynamic_sizes"), "dynamic_sizes")
    (tmp_path / "fake.cpp").write_text(FAKE.format(name="dynamic_sizes", out="C", epilogue=""))
    host_compile(tmp_path, "fake.cpp", *LINK_FLAGS, str(tmp_path / "run"))

    def run(*options: str) -> tuple[int, str]:
        done = subprocess.run([tmp_path / "run", *options], capture_output=True, text=True)
        return done.returncode, done.stderr or done.stdout

    assert run("--M", "128", "--N", "256", "--K", "128", "--repeats", "2")[0] == 0
    status, message = run("--M", "100", "--N", "256", "--K", "128")
    assert (status, message) == (
        2, "dynamic_sizes: cannot launch: dynamic_sizes: M must be a multiple of 128\n"
    )  # fmt: skip
    assert run("--M")[0] == run("--other", "1")[0] == run("--repeats", "0")[0] == 2


# ------------------------------------------------------------ equations

GATED = """kernel gated
  dims TOKENS = 128, HIDDEN = 128, D = 64
  global X : bf16[TOKENS, D]
  global G : bf16[HIDDEN, D]
  global U : bf16[HIDDEN, D]
  global v : f32[HIDDEN]
  global Y : bf16[TOKENS, HIDDEN]
  global S : f32[TOKENS, HIDDEN]
  scalar seed : f32 = 3.0
  over m in TOKENS by 128, n in HIDDEN by 128
  waves 2 x 2
  shared X, G, U buffers 1
  accumulate g, u : f32 tile 32 x 32
  each k in D by 32
    g = g + X[m, k] @ G[n, k].T
    u = u + X[m, k] @ U[n, k].T
  y = silu(g + v[n]) * bf16(u)
  Y[m, n] = where(random(seed, m, n) < 0.75, max(y, -4), 0)
  S[m, n] = where(m >= n, tanh(g), 0)
"""
BATCHED = """kernel batched
  dims BATCH = 3, HEADS = 4, KV = 2, M = 128, N = 128, K = 64
  global A : bf16[BATCH, HEADS, M, K]
  global B : bf16[BATCH, KV, N, K]
  global r : f32[BATCH, M]
  global C : f32[BATCH, HEADS, M, N]
  over b in BATCH, h in HEADS, m in M by 128, n in N by 128
  waves 2 x 2
  shared A, B buffers 1
  accumulate c : f32 tile 32 x 32
  each k in K by 32
    c = c + A[b, h, m, k] @ B[b, h / 2, n, k].T
  C[b, h, m, n] = c * 0.1 + r[b, m]
"""


REDUCED = """kernel reduced
  dims H = 2, M = 128, N = 128, K = 64, TWO = 2, COLS = N / 64
  global A : bf16[M, H, K]
  global B : bf16[H, N, K]
  global Y : bf16[M, H, N]
  global L : f32[H, M, TWO, COLS]
  global S : f32[COLS, H]
  over h in H, m in M by 128, n in N by 64
  waves 2 x 2
  shared A, B buffers 1
  accumulate c : f32 tile 32 x 32
  each k in K by 32
    c = c + A[m, h, k] @ B[h, n, k].T
  x = c * 0.1
  t = rowmax(x)
  l = rowsum(exp(x - t))
  Y[m, h, n] = x / l
  L[h, m, 0, n / 64] = t + log(l)
  L[h, m, 1, n / 64] = rowmin(x)
  S[n / 64, h] = colsum(t * l)
"""


def typed(text: str, tmp_path: Path) -> Plan:
    path = tmp_path / "kernel.tk"
    path.write_text(text)
    return load(path).plan


@pytest.mark.parametrize("text", [SCALED, GATED, BATCHED, REDUCED])
def test_references_are_what_the_equations_mean(text: str, tmp_path: Path) -> None:
    plan = planned(text) if text is SCALED else typed(text, tmp_path)
    harness = script(harness_python(plan, "gfx942"))
    tensors = harness.make_tensors(harness.SIZES | {"N": 128, "K": 64}, "cpu")
    scalars = {"alpha": 0.5, "beta": 2.0, "seed": 3.0}
    meant = evaluate(plan.program.kernel, {t.name: tensors[t.name] for t in plan.program.reads}, scalars)
    dtypes = {t.name: t.dtype for t in plan.program.tensors}
    for label, (value, bound) in harness.reference(tensors, scalars).items():
        name, *at = label.rstrip("]").split("[")
        if at:  # the second of its indices is a number
            at = (slice(None), slice(None), int(at[0].split(", ")[2]))
            meant[label] = replace(meant[name], value=meant[name].value[at], bound=meant[name].bound[at])
            dtypes[label], name = dtypes[name], label
        torch.testing.assert_close(value, meant[name].value, rtol=1e-12, atol=1e-12)
        f32 = meant[name].bound.clone()
        if dtypes[name] is not DType.F32:
            f32 -= ulp(meant[name].value.abs() + bound, TORCH[dtypes[name]]) / 2
        assert (bound <= 2 * f32.abs() + 1e-6 * (value.abs() + 1)).all()


@pytest.mark.parametrize("text", [GATED, BATCHED, REDUCED])
def test_scripts_of_equations_are_formatted(text: str, tmp_path: Path) -> None:
    test_scripts_are_formatted(harness_python(typed(text, tmp_path), "gfx942"), tmp_path)


@needs_clang
@pytest.mark.parametrize("text", [GATED, BATCHED, REDUCED])
def test_programs_of_equations_compile(text: str, tmp_path: Path) -> None:
    name = text.split()[1]
    write_program(tmp_path, typed(text, tmp_path), name)
    host_compile(tmp_path, f"{name}_check.cpp", "-fsyntax-only")
