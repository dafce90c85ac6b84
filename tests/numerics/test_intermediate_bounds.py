"""Bounds of what is rounded on the way: right code was called wrong, or undecided, for each of these reasons.

`tkgen run` judges the machine code (of sm_90a: the C++ on the CPU, and the model). What the bound leaves open is held
to references of plain torch, written from the mathematics.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from executed import computed
from typer.testing import CliRunner

import tkgen
from tkgen.cli import app
from tkgen.execute.compare import compare, references
from tkgen.ir import rounding

# name -> target, seed, dims, parallel axis, waves, staging, body of the loop; but for two products, called wrong before
ADDED = {
    "scaled carry": ("gfx942", 932, "L = 192, N = 32, D = 48, E = 16", "q in L by 16", 1, "", """\
    o = o * tanh(tanh(0.75)) + bf16(clamp(s, -2, 3)) @ V[j]"""),
    "two products": ("gfx950", 0, "L = 64, N = 64, D = 48, E = 32", "q in L by 64", 4, "", """\
    o = o * tanh(0.75) + bf16(clamp(s, -2, 3)) @ V[j] + bf16(clamp(s, -1, 1)) @ V[j]"""),
    "product first": ("gfx942", 53, "L = 96, N = 96, D = 80, E = 80", "q in L by 32", 1, "", """\
    o = bf16(relu(clamp(s, -2, 3))) @ V[j] + tanh(0.5 * rowmin(exp2(min(s, 3)))) * o"""),
    "on Hopper": ("sm_90a", 5, "L = 128, N = 128, D = 128, E = 128", "q in L by 64", 4, " via direct", """\
    o = o * tanh(0.25) + bf16(abs(clamp(s, -2, 3))) @ V[j]"""),
}  # fmt: skip
SPEC = """
kernel added
  dims {dims}
  global Q : bf16[L, D]
  global K : bf16[N, D]
  global V : bf16[N, E]
  global O : {out}[L, E]
  over {over}
  waves {waves} along q
  shared K, V buffers 2{via}
  carry o : f32[q, E] = 0
  each j in N by {keys}
    s = Q[q] @ K[j].T
{body}
  O[q] = o
"""
ROOT = """
kernel roots
  target {target}
  dims R = 8, D = 256
  global X : f32[R, D]
  global Y : f32[R, D]
  over t in R by 4
  waves 4
  Y[t] = {body}
"""
SUBNORMAL = """
sequence subnormal
dims M = 64, N = 64, K = 64
global X : f32[M, K]
global A : f16[M, K]
global B : f16[N, K]
global Y : f16[M, N]

kernel first
  over t in M by 1
  waves 1
  A[t] = X[t] * 0.0001

kernel second
  over m in M by 64, n in N by 64
  waves 2 x 2
  shared A, B
  registers A, B slice 16
  each k in K by 32
    c = c + A[m, k] @ B[n, k].T
  Y[m, n] = c
"""


def added(name: str) -> tuple[str, str, int]:
    target, seed, dims, over, waves, via, body = ADDED[name]
    hopper = target == "sm_90a"
    text = SPEC.format(dims=dims, over=over, waves=waves, via=via, body=body, keys=64 if hopper else 16,
                       out="bf16" if hopper else "f32")  # fmt: skip
    return text, target, seed


def ran(tmp_path: Path, text: str, target: str, *options: str) -> None:
    path = tmp_path / "spec.tk"
    path.write_text(text)
    done = CliRunner().invoke(app, ["run", str(path), "-t", target, *options])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("name", ADDED)
def test_a_product_is_added_to_a_sum_that_is_there(name: str, tmp_path: Path) -> None:
    """Of exact products the sum is not exact where it starts at a number of another unit."""
    text, target, seed = added(name)
    ran(tmp_path, text, target, "--seed", str(seed))


def test_what_such_a_sum_may_lose_is_little() -> None:
    """Large products that cancel swallow a small carry; the bound holds that, and no product that is lost."""
    text, target, _ = added("scaled carry")
    build = tkgen.load(text, target=target).check().build()
    q, k, v = torch.zeros(192, 48), torch.zeros(32, 48), torch.zeros(32, 16)
    q[:, 0], k[:, 0] = 1.0, 1.0
    v[:16] = 2.0**-20
    v[16], v[17] = 128.0, -128.0
    inputs = [x.bfloat16() for x in (q, k, v)]
    (found,) = computed(build, *inputs)
    meant = 16 * 2.0**-20 * torch.tanh(torch.tanh(torch.tensor(0.75, dtype=torch.float64)))
    launch = build.spec.launch()
    value, bound = references(launch, dict(zip("QKV", inputs, strict=True)), {})["O"]
    assert (value - meant).abs().max() < 1e-10
    off = (found.double() - meant).abs().max().item()
    assert off > 1e-7 * meant, "the machine code rounds: this test sees nothing"
    assert compare(found, value, bound).right
    assert bound.max() < 0.01 * 128, "a product that is lost shows"


def test_a_sum_of_multiples_of_one_unit_stays_exact() -> None:
    """A carry of integers and exact products: no order rounds, and nothing is allowed."""
    text = added("scaled carry")[0].replace("o * tanh(tanh(0.75))", "o * -1")
    build = tkgen.load(text, target="gfx942").check().build()
    launch = build.spec.launch()
    generator = torch.Generator().manual_seed(0)
    inputs = {
        name: torch.randint(-3, 4, shape, generator=generator).bfloat16()
        for name, shape in (("Q", (192, 48)), ("K", (32, 48)), ("V", (32, 16)))
    }
    value, bound = references(launch, inputs, {})["O"]
    s = (inputs["Q"].double() @ inputs["K"].double().T).clamp(-2, 3)
    v = inputs["V"].double()
    assert torch.equal(value, s[:, 16:] @ v[16:] - s[:, :16] @ v[:16])
    assert not bound.any()
    assert torch.equal(computed(build, *inputs.values())[0].double(), value)


@pytest.mark.parametrize("target", ["gfx90a", "sm_90a"])
@pytest.mark.parametrize(
    "body",
    [
        "sqrt(abs(sin(X[t] * 0))) + exp(X[t])",
        "sqrt(X[t] * X[t] * 1e-39) + exp(X[t])",
        "sqrt(max(sin(X[t] * 0), 0)) + exp(X[t])",
    ],
)
def test_square_roots_near_zero_are_bounded(body: str, target: str, tmp_path: Path) -> None:
    """The slope has no bound, the root has; what is never negative does not lead to a NaN."""
    ran(tmp_path, ROOT.format(body=f"{body} + exp(X[t])", target=target), target)


def test_a_root_of_what_may_be_negative_is_undecided(tmp_path: Path) -> None:
    """Its numbers may be NaN: a difference that rounding leaves of zero."""
    path = tmp_path / "spec.tk"
    path.write_text(ROOT.format(body="sqrt(rowsum(X[t] * 0.1) - rowsum(X[t]) * 0.1) + X[t] * 0", target="gfx942"))
    spec = tkgen.load(path).check()
    inputs = {"X": torch.randn(8, 256, generator=torch.Generator().manual_seed(0))}
    ((_, bound),) = references(spec.launch(), inputs, {}).values()
    assert not bound.isfinite().all()


@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
def test_subnormal_factors_that_a_kernel_stores(target: str, tmp_path: Path) -> None:
    """Matrix units of gfx90a take f16 below 2^-14 for zero."""
    ran(tmp_path, SUBNORMAL, target)
    build = tkgen.load(SUBNORMAL, target=target).check().build()
    x, b = torch.randn(64, 64, generator=torch.Generator().manual_seed(0)), torch.eye(64).half()
    y = tkgen.run(build, x, b)
    y = y if isinstance(y, torch.Tensor) else y[-1]
    stored = (x * 1e-4).half()
    flushed = torch.where(stored.abs() < 2.0**-14, torch.zeros_like(stored), stored)
    assert not torch.equal(stored, flushed)
    assert torch.equal(y, flushed if target == "gfx90a" else stored)


@pytest.mark.parametrize(
    ("dtype", "expected", "bound", "found", "right"),
    [
        (torch.float16, 191580.6, 918927.5, -torch.inf, True),
        (torch.float16, 191580.6, 200000.0, -torch.inf, False),
        (torch.float16, 65500.0, 16.0 + 21.0, torch.inf, True),  # 65521 rounds to infinity
        (torch.float16, 65500.0, 16.0 + 19.0, torch.inf, False),  # 65519 does not
        (torch.float16, 65500.0, 16.0 + 21.0, -torch.inf, False),
        (torch.float16, 70000.0, 10000.0, 65504.0, True),
        (torch.bfloat16, 3.3e38, 1e38, torch.inf, True),
        (torch.bfloat16, 3.3e38, 1e36, torch.inf, False),
        (torch.float32, 3.4e38, 1e36, torch.inf, True),
        (torch.float32, 3.4e38, 1e34, torch.inf, False),
        (torch.float8_e5m2, 50000.0, 20000.0, torch.inf, False),  # it stops at the largest number
    ],
)
def test_infinities_within_the_bound(
    dtype: torch.dtype, expected: float, bound: float, found: float, right: bool
) -> None:
    """A number within the bound that its type has not is an infinity: no distance says so."""
    result = torch.tensor([found]).to(dtype)
    numbers = [torch.tensor([x], dtype=torch.float64) for x in (expected, bound)]
    assert compare(result, *numbers).right is right


def test_functions_of_many_elements_are_taken_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same numbers and bounds, in less memory: tensors of one number, rows, columns and truths beside all."""
    text = ROOT.format(target="gfx942", body="where(X[t] > rowsum(X[t]), sqrt(abs(X[t] - t)), exp(X[t]) * 0.5 + t)")
    launch = tkgen.load(text).check().launch()
    inputs = {"X": torch.randn(8, 256, generator=torch.Generator().manual_seed(0))}
    value, bound = references(launch, inputs, {})["Y"]
    monkeypatch.setattr(rounding, "PIECE", 300)
    again, bounded = references(launch, inputs, {})["Y"]
    assert torch.equal(value, again) and torch.equal(bound, bounded) and bound.any()


LEAST = {
    "one more than a magnitude": "x / (abs(v) + 1)",
    "half more, under a root": "x * rsqrt(abs(v) + 0.5)",
    "the larger of it and a number": "x / max(v * v, 0.25)",
    "a logarithm of one more": "log(abs(v) + 1) * x",
}


@pytest.mark.parametrize("name", LEAST)
def test_what_is_never_below_a_number_bounds_what_it_divides(name: str) -> None:
    """The error of `v` is larger than `v`: with a denominator that may be zero for all that is known, nothing is."""
    text = ROOT.replace("  Y[t]", "  x = X[t]\n  v = (rowsum(x * 1e6) - rowsum(x) * 1e6) * 0.1\n  Y[t]")
    spec = tkgen.load(text.format(body=LEAST[name], target="gfx942"), target="gfx942")
    inputs = {"X": torch.randn(8, 256, generator=torch.Generator().manual_seed(0))}
    _, bound = references(spec.launch(), inputs, {})["Y"]
    assert bound.isfinite().all() and bound.max() > 10, "`v` has so small an error that this test sees nothing"


def test_a_denominator_that_may_be_zero_is_undecided() -> None:
    text = ROOT.replace("  Y[t]", "  x = X[t]\n  v = (rowsum(x * 1e6) - rowsum(x) * 1e6) * 0.1\n  Y[t]")
    spec = tkgen.load(text.format(body="x / abs(v)", target="gfx942"), target="gfx942")
    inputs = {"X": torch.randn(8, 256, generator=torch.Generator().manual_seed(0))}
    _, bound = references(spec.launch(), inputs, {})["Y"]
    assert bound.isinf().any()
