"""The harnesses of kernels of rows: both references are what the equations mean, and a wrong number is found."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pytest
import torch
from on_host import LINK_FLAGS, host_compile, needs_clang
from typer.testing import CliRunner

from tkgen import load
from tkgen.backends.cdna.lower.harness import harness_cpp, harness_python
from tkgen.backends.cdna.lower.names import cpp_name
from tkgen.backends.cdna.spec import Spec
from tkgen.cli import app
from tkgen.execute.arguments import check_scalars
from tkgen.execute.compare import compare
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.meaning import evaluate
from tkgen.ir.rounding import TORCH

SPECS, ATTENTION = (Path(__file__).parents[2] / "specs" / name for name in ("rows", "attention"))
# What the specs have not: columns reduced by tiles, an index divided, numbers of rows stored, a vector in place, maps,
# rows that begin with NaN, or have nothing else.
ODD = """kernel odd
  dims H = 6, G = 2, M = 10, N = 7, TILES = 3
  global X : f16[H, M, N]
  global W : f32[G, N]
  global v : f32[M]
  global Y : f32[M, H, N]
  global T : bf16[H, M]
  global U : f32[H, M]
  scalar alpha : f32
  over h in H, m in M by 4
  waves 1
  x = where(m >= coordinate(N), X[h, m] * W[h / 3], alpha)
  l = rowmax(x)
  Y[m, h] = bf16(x - l) / rowsum(exp(x - l))
  T[h, m] = l + v[m]
  U[h, m] = rowmax(where(m < 9 and coordinate(N) > 0, x, log(-1 - abs(x))))
"""
MASKED = """kernel masked
  dims M = 10, N = 10
  global X : f32[M, N]
  global Y : f32[M, N]
  over m in M by 4
  waves 1
  x = where(m >= coordinate(N), X[m], -inf)
  e = exp(x - rowmax(x))
  Y[m] = e / rowsum(e)
"""
# Rows up to the diagonal, in a loop that ends there.
CAUSAL = """kernel causal
  dims H = 3, M = 10, N = 10
  global X : f32[H, M, N]
  global Y : f32[M]
  over m in M by 4
  waves 1
  carry a : f32[m] = -inf, l : f32[m] = 0
  each j in N by 4 to m
    x = where(m >= j, X[1, m, j], -inf)
    n = max(a, rowmax(x))
    l = l * exp(a - n) + rowsum(exp(x - n))
    a = n
  Y[m] = a + log(l)
"""
# Blocks of keys add to rows of queries, to some of which not all of them add.
ADDING = """kernel adding
  dims H = 2, M = 200, N = 150, D = 32
  global Q : bf16[H, M, D]
  global K : bf16[H, N, D]
  global Y : f32[H, M, D]
  global Z : f32[H, N, D]
  over h in H, n in N by 64
  waves 2 along n
  shared Q buffers 2
  registers K
  each m in M by 32 from n
    x = where(m >= n, Q[h, m] @ K[h, n].T, 0)
    p = bf16(0.125 * exp2(0.0625 * x))
    z = z + p.T @ Q[h, m]
    Y[h, m] += p @ K[h, n]
  Z[h, n] = z
"""
# Windows and flips, in whole rows and in a loop.
AFFINE = """kernel affine
  dims H = 3, M = 10, N = 12, SIDE = 3
  global X : f32[H, M, N]
  global F : f32[SIDE, SIDE]
  global Y : f32[H, M, N]
  over h in H, m in M by 4, n in N by 8
  waves 1
  Y[h, m, n] = sum(F[i, j] * X[h, m + i - 1, N - n - j], i in SIDE, j in SIDE) + X[h - 1, 2 * m, n]
"""
AFFINE_LOOP = """kernel affine_loop
  dims M = 10, N = 11
  global X : f32[M, N]
  global Y : f32[M]
  over m in M by 4
  waves 1
  each j in N by 4
    s = s + rowsum(X[m, j] * X[m, j - 1] + X[m + 1, N - 1 - j])
  Y[m] = s
"""
# A shift in groups, outside of which elements are zero, and a number and a coordinate of each group.
GROUPS = """kernel in_groups
  dims G = 3, ENDS = G + 1, M = 13, N = 8
  global FIRST : i32[ENDS]
  global SCALE : f32[G]
  global X : f32[M, N]
  global Y : f32[M, N]
  over g in G, m in M within FIRST[g] by 4
  waves 1
  Y[m] = (X[m - 1] - X[m + 2]) * SCALE[g] + f32(m)
"""
# The first elements in order, along rows and along columns, of numbers that are computed, and in a loop.
FIRST = """kernel top
  dims M = 10, N = 12, K = 3
  global X : f32[M, N]
  global V : f32[M, K]
  global P : i32[M, K]
  global A : i32[M]
  over m in M by 4
  waves 1
  V[m] = topk(exp(0.5 * X[m]), K)
  P[m] = argtopk(where(coordinate(N) < 3, 1, X[m]), K)
  A[m] = argmin(X[m])
"""
SORTED = """kernel ascending
  dims M = 10, N = 12
  global X : f32[M, N]
  global V : f32[M, N]
  global P : i32[M, N]
  over m in M by 4
  waves 1
  V[m] = sort(exp(0.5 * X[m]))
  P[m] = argsort(where(coordinate(N) < 3, 1, X[m]), descending)
"""
FIRST_IN_LOOP = """kernel first_in_loop
  dims M = 10, N = 11
  global X : f32[M, N]
  global Y : f32[M]
  global P : i32[M]
  over m in M by 4
  waves 1
  carry p : f32[m] = 0
  each j in N by 4
    s = s + argmax(X[m, j]) + 1
    p = argmin(X[m, j])
  Y[m] = s
  P[m] = p
"""
HEADS: dict[str, int | None] = {"BATCH": 1, "HEADS": 2, "D": 32}
LOOPS: dict[str, tuple[Path | str, dict[str, int | None]]] = {
    "long_softmax": (SPECS / "long_softmax.tk", {"ROWS": 5, "D": 5000}),
    "norm_gradient": (SPECS / "norm_gradient.tk", {"TOKENS": 600, "D": 40}),
    "causal": (CAUSAL, {}),
    "affine_loop": (AFFINE_LOOP, {}),
    "first_in_loop": (FIRST_IN_LOOP, {}),
    "adding": (ADDING, {}),
    "attention": (ATTENTION / "attention.tk", HEADS | {"LENGTH": 200}),
    "attention_causal": (ATTENTION / "attention_causal.tk", HEADS | {"KV_HEADS": 1, "LENGTH": 200}),
    "attention_lazy": (ATTENTION / "attention_lazy.tk", HEADS | {"LENGTH": 200}),
    "attention_window": (ATTENTION / "attention_window.tk", HEADS | {"LENGTH": 300, "WINDOW": 70}),
    "attention_mqa": (ATTENTION / "attention_mqa.tk", HEADS | {"LENGTH": 70, "KEYS": 200}),
}
CASES: dict[str, tuple[Path | str, dict[str, int | None]]] = {
    "softmax": (SPECS / "softmax.tk", {"ROWS": 5, "D": 40}),
    "layernorm": (SPECS / "layernorm.tk", {"TOKENS": 3, "D": 72}),
    "rmsnorm": (SPECS / "rmsnorm.tk", {"TOKENS": 6, "D": 48}),
    "rotary": (SPECS / "rotary.tk", {"LENGTH": 4, "HEADS": 3, "HALF": 8}),
    "elementwise": (SPECS / "elementwise.tk", {"ROWS": 5, "COLS": 9}),
    "transpose": (SPECS / "transpose.tk", {"ROWS": 12, "COLS": 7}),
    "odd": (ODD, {}),
    "masked": (MASKED, {}),
    "affine": (AFFINE, {}),
    "in_groups": (GROUPS, {}),
    "top": (FIRST, {}),
    "ascending": (SORTED, {}),
    **LOOPS,
}
COMPILED = ("top", "ascending", "first_in_loop", "softmax", "odd", "affine", "affine_loop", "norm_gradient", "causal")
COMPILED += ("attention_mqa",)


def program(name: str) -> EquationProgram:
    spec = load(*CASES[name]).check()
    assert isinstance(spec, Spec)
    return spec.program


def script(program: EquationProgram) -> ModuleType:
    module, before = ModuleType("harness"), list(sys.path)
    module.__file__ = str(Path(__file__).with_name("harness.py"))
    exec(compile(harness_python(program, "gfx942"), "harness.py", "exec"), module.__dict__)
    sys.path[:] = before
    return module


def meant(program: EquationProgram, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The results of the kernel, rounded to the types that it stores."""
    sizes = {d.name: d.size or 0 for d in program.dims}
    found = evaluate(program.kernel, inputs, check_scalars(program), sizes)
    return {t.name: found[t.name].value.to(TORCH[t.dtype]) for t in program.outputs}


# ------------------------------------------------------------ Python


@pytest.mark.parametrize("name", CASES)
def test_the_script_means_what_the_equations_mean(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    spec = program(name)
    harness = script(spec)
    tensors = harness.make_tensors(harness.SIZES, "cpu")
    assert list(tensors) == [t.name for t in spec.arguments]
    right = meant(spec, {t.name: tensors[t.name] for t in spec.reads})
    found = harness.reference(tensors, check_scalars(spec))
    for label, (value, bound) in found.items():
        part = right[label.split("[")[0]]
        if "[" in label:  # the third index of rotary's is a number
            part = part[:, :, int(label.split(", ")[2])]
        assert compare(part, value, bound + value.abs() * 2.0**-8).right
        most = 1e-2 if name in LOOPS else 1e-4  # factors that a loop makes of products may round to another bf16
        assert ((bound <= most * (1 + value.abs())) | value.isnan()).all()  # and no bound hides a mistake
        assert harness.report(part, value, bound)
        assert not harness.report(part + 0.25, value, bound)
    assert "WRONG" in capsys.readouterr().out


@pytest.mark.parametrize("name", CASES)
def test_scripts_are_formatted(name: str, tmp_path: Path) -> None:
    path = tmp_path / "check.py"
    path.write_text(harness_python(program(name), "gfx942"))
    config = Path(__file__).parents[2] / "pyproject.toml"
    for command in (["format", "--check"], ["check", "--ignore", "ANN,D"]):
        run = [sys.executable, "-m", "ruff", *command, "--no-cache", "--config", str(config), str(path)]
        done = subprocess.run(run, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


def test_the_speed_is_that_of_what_is_moved() -> None:
    spec = program("rmsnorm")
    harness = script(spec)
    tensors = harness.make_tensors({"TOKENS": 1024, "D": 1024}, "cpu")
    assert harness.gbps(tensors, 1.0) == pytest.approx((4 * 2 * 1024 * 1024 + 2 * 1024) * 1e-6)  # X, R twice, Y; W


def test_dynamic_sizes_are_options_of_a_size_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = load(SPECS / "rotary.tk", {"LENGTH": None, "HEADS": None}).check()
    assert isinstance(spec, Spec)
    harness = script(spec.program)
    monkeypatch.setattr(sys, "argv", ["check", "--HEADS", "8"])
    given = vars(harness.parse_arguments())
    assert (given["size LENGTH"], given["size HEADS"]) == (1024, 8)  # 4096 x 4096 heads of 128 would be 4 GB


# ------------------------------------------------------------ C++

# The launch on the CPU: it writes what the kernel reads to files, then takes what it leaves from others.
FAKE = """
#include "{name}_check.cpp"
extern "C" char __hip_fatbin[1] = {{}};
template <typename T> void pass(const char *name, T *numbers, size_t count, bool back) {{
    const std::string path = std::string(std::getenv("FILES")) + "/" + name + (back ? ".out" : ".in");
    std::FILE *file = std::fopen(path.c_str(), back ? "rb" : "wb");
    if (file == nullptr) return;
    const size_t size = sizeof(T);
    const size_t done = back ? std::fread(numbers, size, count, file) : std::fwrite(numbers, size, count, file);
    if (done != count || std::fclose(file) != 0) std::abort();
}}
extern "C" hipError_t hipMemsetAsync(void *p, int value, size_t n, hipStream_t) {{ return hipMemset(p, value, n); }}
extern "C" hipError_t hipLaunchKernel(const void *, dim3, dim3, void **arguments, size_t, hipStream_t) {{
    auto &g = *static_cast<{name}::globals *>(arguments[0]);
{passes}
    return hipSuccess;
}}
"""


def write_program(folder: Path, name: str) -> EquationProgram:
    """The generated file, its harness, and a launch that is none."""
    spec = load(*CASES[name]).check()
    assert isinstance(spec, Spec)
    (folder / f"{name}.cpp").write_text(spec.text)
    (folder / f"{name}_check.cpp").write_text(harness_cpp(spec.program, "gfx942"))
    sizes = {t.name: " * ".join(str(d.size) for d in t.dims) for t in spec.program.arguments}
    pairs = [(t, "false") for t in spec.program.reads] + [(t, "true") for t in spec.program.outputs]
    passes = [f'    pass("{t.name}", g.{cpp_name(t.name)}.raw_ptr, {sizes[t.name]}, {back});' for t, back in pairs]
    (folder / "fake.cpp").write_text(FAKE.format(name=name, passes="\n".join(passes)))
    return spec.program


@needs_clang
@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in COMPILED else pytest.mark.slow) for n in CASES])
def test_the_program_means_what_the_equations_mean(name: str, tmp_path: Path) -> None:
    """Its inputs are those of every run: the first gives them, in the second all is right, in the third one is not."""
    spec = write_program(tmp_path, name)
    unused = (
        ["-Wno-unused-variable"] if name.startswith(("attention", "in_groups")) else []
    )  # places that a kernel needs for masks
    host_compile(tmp_path, "fake.cpp", *unused, *LINK_FLAGS, str(tmp_path / "run"))
    options = {n: f"--{n}_" if n == "seed" else f"--{n}" for n in check_scalars(spec)}  # --seed is the script's own
    scalars = [word for n, value in check_scalars(spec).items() for word in (options[n], str(value))]

    def run() -> tuple[int, str]:
        command = [str(tmp_path / "run"), "--repeats", "1", "--warmup", "0", *scalars]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"FILES": str(tmp_path)})
        return done.returncode, done.stdout + done.stderr

    assert run()[0] == 1  # nothing is written: NaNs, or the inputs that should have changed
    inputs = {}
    for t in spec.reads:
        shape = [d.size or 0 for d in t.dims]
        inputs[t.name] = torch.frombuffer(bytearray((tmp_path / f"{t.name}.in").read_bytes()), dtype=TORCH[t.dtype])
        inputs[t.name] = inputs[t.name].reshape(shape)
    right = meant(spec, inputs)
    for tensor, values in right.items():
        (tmp_path / f"{tensor}.out").write_bytes(values.contiguous().view(torch.uint8).numpy().tobytes())
    status, said = run()
    assert status == 0 and "WRONG" not in said and "GB/s" in said, said
    last = spec.outputs[-1].name
    wrong = right[last] + 0.25
    (tmp_path / f"{last}.out").write_bytes(wrong.contiguous().view(torch.uint8).numpy().tobytes())
    status, said = run()
    assert status == 1 and "WRONG" in said, said


# ------------------------------------------------------------ the command


def test_a_build_writes_both(tmp_path: Path) -> None:
    spec = str(SPECS / "softmax.tk")
    result = CliRunner().invoke(app, ["build", spec, "-D", "D=64", "--emit", "cpp,harness", "-o", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert {p.name for p in tmp_path.iterdir()} >= {"softmax.cpp", "softmax_check.py", "softmax_check.cpp"}
    compile((tmp_path / "softmax_check.py").read_text(), "softmax_check.py", "exec")
