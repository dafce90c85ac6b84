"""Harnesses where references are not plain: numbers of 8 bits, scales, groups, gathered rows, some places stored."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
import torch
from on_host import LINK_FLAGS, host_compile, needs_clang

from tkgen import load, mx
from tkgen.backends.cdna.lower.harness import DIGITS, LEAST, Checked, Kernels, harness_cpp, harness_python
from tkgen.backends.cdna.lower.names import cpp_name
from tkgen.backends.cdna.lower.reference_language import HOST_TYPES, PACKED_FLOATS, TORCH_TYPES
from tkgen.execute.arguments import check_scalars
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.meaning import Result, evaluate
from tkgen.ir.rounding import SIGNIFICANDS, TORCH, rounded
from tkgen.ir.types import DType, Program
from tkgen.sequence import SequenceSpec

SPECS = Path(__file__).parents[2] / "specs"
# Each row of a lower triangle divided by its sum: stores in a loop that ends at the diagonal, ten rows in tiles of 4.
TRIANGLE = """kernel triangle
  dims H = 2, M = 10, N = 10
  global X : f32[H, M, N]
  global Y : {dtype}[H, M, N]
  over h in H, m in M by 4
  waves 1
  carry l : f32[m] = 0
  each j in N by 4 {bounds}
    l = l + rowsum(where(m >= j, abs(X[h, m, j]), 0))
  each i in N by 4 {bounds}
    Y[h, m, i] = where(m >= i, X[h, m, i] / l, 0)
"""
# A sum of products of which tiles with a large element are halved.
DECIDED = """kernel decided
  dims M = 200, N = 150, K = 128
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  over m in M by 64, n in N by 64
  tail masked
  waves 2 x 2
  shared A, B
  each k in K by 64
    c = c + A[m, k] @ B[n, k].T
  when any(c > 12)
    c = c * 0.5
  C[m, n] = c
"""
# Weights of 8 bits with several scales in a step, and one zero point.
GROUPS_OF_32 = """kernel w8_groups
  dims M = 40, N = 72, K = 256, GROUPS = K / 32, STEPS = K / 128
  global A : bf16[M, K]
  global W : i8[N, K]
  global s : f32[N, GROUPS]
  global z : f32[N, STEPS]
  global C : bf16[M, N]
  over m in M by 64, n in N by 64
  tail masked
  waves 2 x 2
  shared A, W
  each k in K by 128
    c = c + A[m, k] @ bf16(s[n, k / 32] * (W[n, k] - z[n, k / 128])).T
  C[m, n] = c
"""
SMALL = {"M": 200, "N": 130, "K": 300}
GROUPS = {"EXPERTS": 5, "OUT": 136, "IN": 200}
CASES: dict[str, tuple[Path | str, dict[str, int | None]]] = {
    "fp8": (SPECS / "low_precision/fp8.tk", {"M": 256, "N": 256, "K": 256}),
    "fp8_rowwise": (SPECS / "low_precision/fp8_rowwise.tk", dict(SMALL)),
    "fp8_blocks": (SPECS / "low_precision/fp8_blocks.tk", {"M": 128, "N": 128, "K": 384}),
    "fp8_direct": (SPECS / "low_precision/fp8_direct.tk", {"M": 256, "N": 256, "K": 256}),
    "mxfp4": (SPECS / "low_precision/mxfp4.tk", {"M": 256, "N": 256, "K": 256}),
    "mxfp6": (SPECS / "low_precision/mxfp6.tk", {"M": 256, "N": 128, "K": 256}),
    "mxfp8": (SPECS / "low_precision/mxfp8.tk", {"M": 256, "N": 256, "K": 256}),
    "i8": (SPECS / "low_precision/i8.tk", {"M": 128, "N": 128, "K": 256}),
    "w8": (SPECS / "low_precision/w8.tk", dict(SMALL)),
    "w8_groups": (GROUPS_OF_32, {}),
    "w8_decode": (SPECS / "low_precision/w8_decode.tk", {"M": 16, "N": 96, "K": 300}),
    "w4": (SPECS / "low_precision/w4.tk", {"M": 128, "N": 128, "K": 256}),
    "w4_decode": (SPECS / "low_precision/w4_decode.tk", {"M": 16, "N": 96, "K": 256}),
    "grouped_gemm": (SPECS / "groups/grouped_gemm.tk", GROUPS | {"TOKENS": 500}),
    "grouped_persistent": (SPECS / "groups/grouped_persistent.tk", GROUPS | {"TOKENS": 500}),
    "grouped_weights": (SPECS / "groups/grouped_weights.tk", GROUPS | {"TOKENS": 300}),
    "moe": (SPECS / "groups/moe.tk", {"TOKENS": 150, "EXPERTS": 3, "D": 128, "HIDDEN": 128}),
    "moe_fp8": (SPECS / "groups/moe_fp8.tk", {"TOKENS": 150, "EXPERTS": 3, "D": 128, "HIDDEN": 128}),
    "quantise_int8": (SPECS / "quantise/quantise_int8.tk", {"TOKENS": 6, "D": 72}),
    "quantise_rmsnorm": (SPECS / "quantise/quantise_rmsnorm.tk", {"TOKENS": 6, "D": 72}),
    "quantise_rows": (SPECS / "quantise/quantise_rows.tk", {"TOKENS": 6, "D": 72}),
    "quantise_swiglu": (SPECS / "quantise/quantise_swiglu.tk", {"TOKENS": 6, "BLOCKS": 20, "SIDE": 16}),
    "attention_packed": (
        SPECS / "attention/attention_packed.tk",
        {"SEQUENCES": 4, "TOTAL": 500, "HEADS": 2, "KV_HEADS": 1, "D": 32},
    ),
    "attention_chunks": (
        SPECS / "attention/attention_chunks.tk",
        {"SEQUENCES": 4, "TOTAL": 300, "KEYS": 420, "HEADS": 2, "KV_HEADS": 1, "D": 32},
    ),
    "attention_paged": (
        SPECS / "attention/attention_paged.tk",
        {"BATCH": 2, "HEADS": 2, "KV_HEADS": 1, "KEYS": 160, "D": 32, "PAGE": 32, "CACHED": 8, "PARTS": 2},
    ),
    "decided": (DECIDED, {}),
    "triangle": (TRIANGLE.format(dtype="f32", bounds="to m"), {}),
    "band": (TRIANGLE.format(dtype="bf16", bounds="from m - 5 to m").replace("kernel triangle", "kernel band"), {}),
}  # fmt: skip
# Of the kernel, not of its harness: what only the code for the GPU uses.
UNUSED = ["-Wno-unused-variable", "-Wno-unused-parameter", "-Wno-unused-lambda-capture"]
DEFINES = {"gfx942": "KITTENS_CDNA3", "gfx950": "KITTENS_CDNA4"}
SOME = ("fp8_rowwise", "mxfp6", "w8_decode", "grouped_gemm", "moe", "quantise_int8", "band")
COMPILED = ("moe", "band")
EACH = [pytest.param(name, marks=[] if name in SOME else pytest.mark.slow) for name in CASES]


@dataclass(frozen=True)
class Case:
    """A kernel, or several, and what their harnesses are made of."""

    checked: Checked
    programs: tuple[Program | EquationProgram, ...]
    target: str
    text: str


@cache
def case(name: str) -> Case:
    spec = load(*CASES[name]).check()
    kernels = spec.kernels if isinstance(spec, SequenceSpec) else (spec,)
    plans = tuple(k.plan or k.program for k in kernels)
    checked = Kernels(spec.name, plans, spec.program.arguments) if isinstance(spec, SequenceSpec) else plans[0]
    return Case(checked, tuple(k.program for k in kernels), spec.target.name, spec.text)


def script(name: str) -> ModuleType:
    module, before = ModuleType("harness"), list(sys.path)
    module.__file__ = str(Path(__file__).with_name("harness.py"))
    exec(compile(harness_python(case(name).checked, case(name).target), "harness.py", "exec"), module.__dict__)
    sys.path[:] = before
    return module


def scalars_of(name: str) -> dict[str, float]:
    return {n: value for p in case(name).programs for n, value in check_scalars(p).items()}


def meant(program: Program | EquationProgram, tensors: Mapping[str, torch.Tensor]) -> dict[str, Result]:
    kernel = program.kernel if isinstance(program, EquationProgram) else program.equations.kernel
    shapes = [(t.dims, t.dtype.counted(tensors[t.name].shape)) for t in program.arguments]
    sizes = {d.name: n for dims, shape in shapes for d, n in zip(dims, shape, strict=True)}
    return evaluate(kernel, {t.name: tensors[t.name] for t in program.arguments}, check_scalars(program), sizes)


def stored(found: Mapping[str, Result], tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors after the kernel; elements that it does not store are as they were, bit by bit."""
    left = {}
    for name, result in found.items():
        value, old = result.memory.value, tensors[name]
        kind = next(d for d, dtype in TORCH.items() if dtype is old.dtype)
        new = rounded(value, kind)
        kept = value.isnan() | (value == old.double())
        left[name] = torch.where(kept.unsqueeze(-1), parts(old), parts(new)).view(old.dtype).reshape(old.shape)
    return left


def parts(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of each element."""
    return tensor.contiguous().unsqueeze(-1).view(torch.uint8)


def spoilt(tensor: torch.Tensor, some: torch.Tensor) -> torch.Tensor:
    """With one of some elements changed by much."""
    wrong = tensor.double().nan_to_num().flatten()
    at = int(some.flatten().nonzero()[0])
    wrong = torch.where(tensor.double().flatten().isnan(), torch.nan, wrong)
    wrong[at] = -wrong[at] if abs(wrong[at]) > 1 else 3
    return wrong.reshape(tensor.shape).to(tensor.dtype)


# ------------------------------------------------------------ Python


@pytest.mark.parametrize("name", EACH)
def test_the_script_means_what_the_equations_mean(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    harness, programs = script(name), case(name).programs
    tensors = harness.make_tensors(harness.SIZES, "cpu")
    for program in programs:
        refer = harness.reference if len(programs) == 1 else getattr(harness, f"reference_{program.name}")
        before = {n: parts(t).clone() for n, t in tensors.items()}
        results = meant(program, tensors)
        right, found = stored(results, tensors), refer(tensors, check_scalars(program))
        assert found.keys() == {t.name for t in program.outputs}
        assert all(torch.equal(before[n], parts(t)) for n, t in tensors.items())
        for label, (value, bound) in found.items():
            torch.testing.assert_close(value, results[label].value, rtol=1e-12, atol=1e-12, equal_nan=True)
            assert harness.report(right[label], value, bound), capsys.readouterr().out
            is_stored = ~value.isnan()
            size = value[is_stored].abs()
            assert (bound[is_stored] <= 1e-2 * (1 + size + size.mean())).all()  # no bound hides a mistake
            for some in (is_stored, ~is_stored):
                assert not some.any() or not harness.report(spoilt(right[label], some), value, bound)
        tensors |= right
    assert "WRONG" in capsys.readouterr().out


def test_what_is_known_of_types_is_what_torch_knows() -> None:
    whole = {d: n for d, n in DIGITS.items() if d not in PACKED_FLOATS}
    assert {getattr(torch, TORCH_TYPES[d]): n for d, n in whole.items()} == SIGNIFICANDS
    assert all(2.0**n == torch.finfo(TORCH[d]).tiny for d, n in LEAST.items() if d not in PACKED_FLOATS)
    packed = {d: mx.FORMATS[d.spelling] for d in PACKED_FLOATS}
    assert all((DIGITS[d], LEAST[d]) == (form.fraction + 1, 1 - form.bias) for d, form in packed.items())
    formats = {d.spelling: form for d, form in PACKED_FLOATS.items()}
    assert formats == {name: (f.exponent, f.fraction, f.bias) for name, f in mx.FORMATS.items()}
    assert set(DType) == set(HOST_TYPES) == set(TORCH_TYPES)


@pytest.mark.parametrize("name", EACH)
def test_scripts_are_formatted(name: str, tmp_path: Path) -> None:
    path = tmp_path / "check.py"
    path.write_text(harness_python(case(name).checked, case(name).target))
    config = Path(__file__).parents[2] / "pyproject.toml"
    for command in (["format", "--check", "--diff"], ["check", "--ignore", "ANN,D"]):
        run = [sys.executable, "-m", "ruff", *command, "--no-cache", "--config", str(config), str(path)]
        done = subprocess.run(run, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


# ------------------------------------------------------------ C++

# The launches on the CPU, in turn: each writes what it finds to files, then takes what it leaves from others.
FAKE = """
#include "{name}_check.cpp"
extern "C" char __hip_fatbin[1] = {{}};
static int turn = 0;
static void pass(const char *name, void *numbers, size_t bytes, bool back) {{
    const std::string path = std::string(std::getenv("FILES")) + "/" + name + (back ? ".out" : ".in");
    std::FILE *file = std::fopen(path.c_str(), back ? "rb" : "wb");
    if (file == nullptr) return;
    if ((back ? std::fread(numbers, 1, bytes, file) : std::fwrite(numbers, 1, bytes, file)) != bytes) std::abort();
    std::fclose(file);
}}
extern "C" hipError_t hipLaunchKernel(const void *, dim3, dim3, void **arguments, size_t, hipStream_t) {{
    switch (turn++ % {count}) {{
{launches}
    }}
    return hipSuccess;
}}
"""


def write_program(folder: Path, name: str) -> None:
    """The generated file, its harness, and launches that are none."""
    found = case(name)
    (folder / f"{name}.cpp").write_text(found.text)
    (folder / f"{name}_check.cpp").write_text(harness_cpp(found.checked, found.target))
    launches = []
    for turn, program in enumerate(found.programs):
        space = f"{name}::{cpp_name(program.name)}" if len(found.programs) > 1 else name
        lines = [f"    case {turn}: {{", f"        auto &g = *static_cast<{space}::globals *>(arguments[0]);"]
        for back, tensors in ((0, program.arguments), (1, program.outputs)):
            for t in tensors:
                size = " * ".join(map(str, [t.dtype.bytes, *t.dtype.stored([d.size or 0 for d in t.dims])]))
                file = f"{program.name}.{t.name}"
                lines.append(f'        pass("{file}", (void *)g.{cpp_name(t.name)}.raw_ptr, {size}, {back});')
        launches += [*lines, "        break;", "    }"]
    text = FAKE.format(name=name, count=len(found.programs), launches="\n".join(launches))
    (folder / "fake.cpp").write_text(text)


@needs_clang
@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in COMPILED else pytest.mark.slow) for n in CASES])
def test_the_program_means_what_the_equations_mean(name: str, tmp_path: Path) -> None:
    """Its inputs are those of every run: the first gives them, in the second all is right, then outputs are not."""
    write_program(tmp_path, name)
    host_compile(
        tmp_path,
        "fake.cpp",
        f"-D{DEFINES[case(name).target]}",
        *UNUSED,
        *LINK_FLAGS,
        str(tmp_path / "run"),
    )
    scalars = [word for n, value in scalars_of(name).items() for word in (f"--{n}", str(value))]

    def run() -> tuple[int, str]:
        command = [str(tmp_path / "run"), "--repeats", "1", "--warmup", "0", *scalars]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"FILES": str(tmp_path)})
        return done.returncode, done.stdout + done.stderr

    assert run()[0] == 1  # nothing is written
    tensors: dict[str, torch.Tensor] = {}
    outputs = []
    for program in case(name).programs:
        for t in program.arguments:
            raw = torch.frombuffer(
                bytearray((tmp_path / f"{program.name}.{t.name}.in").read_bytes()), dtype=torch.uint8
            )
            tensors.setdefault(t.name, raw.view(TORCH[t.dtype]).reshape(t.dtype.stored([d.size or 0 for d in t.dims])))
        right = stored(meant(program, tensors), tensors)
        tensors |= right
        outputs += [(tmp_path / f"{program.name}.{n}.out", values) for n, values in right.items()]

    def leave(path: Path, values: torch.Tensor) -> None:
        path.write_bytes(parts(values).numpy().tobytes())

    for path, values in outputs:
        leave(path, values)
    status, said = run()
    assert status == 0 and "WRONG" not in said, said
    for path, values in outputs:
        leave(path, (values.double() + 9).to(values.dtype))
        status, said = run()
        assert status == 1 and "WRONG" in said, said
        leave(path, values)
