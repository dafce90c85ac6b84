"""`tkgen verify` on kernels and references with something odd about them, each a command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tkgen.cli import app

BODIES = {
    "strided": (
        "const T *x, T *z, int rows, int cols, int pitch",
        "const int at = i / cols * pitch + i % cols; if (i < rows * cols) z[at] = 2 * x[at];",
    ),
    "square": ("T *x, int n", "if (i < n) x[i] = x[i] * x[i];"),
    "tenth": ("const T *x, T *z, int n", "if (i < n) z[i] = x[i] * x[i] + T(0.1);"),
    "one_more": ("const T *X, T *Z, int n", "if (i < n) Z[i] = X[i] + 1;"),
    "masked": ("const T *x, const T *mask, T *z, int n", "if (i < n) z[i] = __builtin_amdgcn_exp2f(x[i] + mask[i]);"),
    "eight": ("T *z, int n", "if (i < n) z[i] = 8;"),
    "past": ("const T *x, T *z, int n", "z[i] = x[i + 1];"),
}  # fmt: skip
MEANING = """
import torch
def strided(x): return torch.cat([2 * x[:, :70], torch.full((5, 10), float("nan"))], 1)
def square(x): return x * x
def tenth(x): return x * x + 0.1
def one_more(X): return X + 1
def masked(x, mask): return torch.exp2(x + mask)
def past(x): return x
def taken_out(x): return x * x[0].item()
def branches(x): return x * x if x[0] < 100 else x
def seven(): return torch.full((100,), 7.0)
"""
SPEC = """
kernel addition
  dims N = 128
  global X : bf16[N]
  global Z : bf16[N]

  over n in N by 64
  Z[n] = X[n] + 1
"""
MASK = """
import numpy as np
from tkgen.emulate import Buffer, Scalar
from tkgen.sanitize import Output
def arguments():
    generator = np.random.default_rng(0)
    mask = np.where(np.arange(100) % 3, 0, -np.inf).astype(np.float32)
    x, z = generator.standard_normal(100, dtype=np.float32), np.full(100, np.nan, np.float32)
    return [Buffer(x, "x"), Buffer(mask, "mask"), Output(z, "z"), Scalar("i32", 100)]
"""
Verify = Callable[..., Result]
AS_MEANT = "as meant, in 2 draws"


@pytest.fixture
def verify(tmp_path: Path) -> Verify:
    """Runs the command on one of the kernels, beside the function of its name or another one."""

    def run(name: str, *words: str, number: str = "float", means: str = "", grid: int = 2) -> Result:
        parameters, body = BODIES[name]
        text = (
            f'extern "C" __global__ void {name}({parameters}) {{ const int i = blockIdx.x * 64 + threadIdx.x; {body} }}'
        )
        (tmp_path / "kernel.hip").write_text(f"using T = {number};\n{text}\n")
        (tmp_path / "meaning.py").write_text(MEANING)
        (tmp_path / "mask.py").write_text(MASK)
        (tmp_path / "addition.tk").write_text(SPEC)
        reference = ("--reference", f"{tmp_path / 'meaning.py'}:{means or name}")
        meaning = ("--against", str(tmp_path / means)) if means.endswith(".tk") else reference
        given = words if words[:1] == ("--args-from",) else tuple(w for arg in words for w in ("--arg", arg))
        command = ["verify", str(tmp_path / "kernel.hip"), *meaning, "--grid", str(grid), "--block", "64", *given]
        return CliRunner().invoke(app, command)

    return run


def test_arguments_end_where_code_reads_sixteen_bytes_at_once(verify: Verify) -> None:
    result = verify("strided", "x:f32[5,80]=randn:in", "z:f32[5,80]=nan:out", "i32=5, i32=70, i32=80", grid=6)
    assert result.exit_code == 0 and AS_MEANT in result.output, result.output


@pytest.mark.parametrize("role", ["", ":out", ":inout"])
def test_what_is_written_in_place_is_given_too(verify: Verify, role: str) -> None:
    result = verify("square", f"x:f32[100]=randn{role}", "i32=100")
    assert result.exit_code == 0 and AS_MEANT in result.output, result.output


@pytest.mark.parametrize(("number", "kind"), [("double", "f64"), ("float", "f32")])
def test_a_number_of_pythons_is_of_the_type_of_the_buffers(verify: Verify, number: str, kind: str) -> None:
    result = verify("tenth", f"x:{kind}[100]=randn:in", f"z:{kind}[100]=nan:out", "i32=100", number=number)
    assert result.exit_code == 0 and AS_MEANT in result.output, result.output


@pytest.mark.parametrize("fill", ["inf", "-inf", "nan", "7"])
def test_one_number_everywhere(verify: Verify, fill: str) -> None:
    result = verify("one_more", f"X:f32[100]={fill}:in", "Z:f32[100]=nan:out", "i32=100")
    assert result.exit_code == 0 and f"X[100] = {fill}" in result.output and AS_MEANT in result.output, result.output


def test_a_mask_of_infinities(verify: Verify, tmp_path: Path) -> None:
    result = verify("masked", "--args-from", f"{tmp_path / 'mask.py'}:arguments")
    assert result.exit_code == 0 and AS_MEANT in result.output, result.output


def test_a_launch_that_stops_says_that_alone(verify: Verify) -> None:
    result = verify("past", "x:f32[100]=randn:in", "z:f32[100]=nan:out", "i32=100")
    assert result.exit_code == 1 and "STOPPED global-out-of-bounds" in result.output, result.output
    assert "WRONG" not in result.output and "depend" not in result.output, result.output


def test_numbers_that_a_reference_takes_out_of_tensors(verify: Verify) -> None:
    taken = verify("square", "x:f32[100]=randn", "i32=100", means="taken_out")
    assert taken.exit_code == 1 and "keep it in a tensor" in " ".join(taken.output.split()), taken.output
    branches = verify("square", "x:f32[100]=randn", "i32=100", means="branches")
    assert branches.exit_code == 0 and AS_MEANT in branches.output, branches.output


def test_what_depends_on_nothing_is_another_number(verify: Verify) -> None:
    result = verify("eight", "z:f32[100]=nan:out", "i32=100", means="seven")
    assert result.exit_code == 1, result.output
    assert "z[0] depends on no input, as it should, and is another number" in result.output, result.output


@pytest.mark.parametrize(
    ("given", "means", "message"),
    [
        (("X:f32[100]=randn:in", "Z:f32[90]=nan:out", "i32=90"), "addition.tk", "N is 90 in Z, and 100 in X"),
        (("X:i32[100]=randn:in", "Z:f32[100]=nan:out", "i32=9"), "addition.tk", "bf16 in the spec: a buffer of int32"),
        (("X:f32[0]=randn:in", "Z:f32[0]=nan:out", "i32=0"), "", "Z has no elements: nothing to compare"),
        (("X:f32[9]", "Z:f32[9]", "i32=0"), "", "mark outputs with `:out`"),
    ],
)  # fmt: skip
def test_buffers_that_do_not_fit(verify: Verify, given: tuple[str, ...], means: str, message: str) -> None:
    result = verify("one_more", *given, means=means)
    assert result.exit_code == 2 and message in " ".join(result.output.split()), result.output


def test_a_spec_at_the_sizes_of_the_buffers(verify: Verify) -> None:
    result = verify("one_more", "X:f32[100]=-inf:in", "Z:f32[100]=nan:out", "i32=100", means="addition.tk")
    assert result.exit_code == 0 and AS_MEANT in result.output, result.output
