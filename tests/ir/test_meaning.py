"""Meaning of equations: against torch, in f64 to rounding; f32 arithmetic is within the bounds, mistakes are not."""

from __future__ import annotations

import math

import pytest
import torch
from equation_kernels import Writer, attention, rmsnorm, softmax, swiglu

from tkgen.ir.computation import compute
from tkgen.ir.equations import Kernel
from tkgen.ir.meaning import Result, evaluate
from tkgen.ir.rounding import TORCH

Tensors = dict[str, torch.Tensor]


def inputs(kernel: Kernel, seed: int = 0, scale: float = 1.0) -> Tensors:
    generator = torch.Generator().manual_seed(seed)
    return {
        t.name: (torch.randn([d.size or 0 for d in t.dims], generator=generator) * scale).to(TORCH[t.dtype])
        for t in kernel.inputs
    }


def insist(result: Result, computed: torch.Tensor) -> None:
    """f32 arithmetic is within the bound, element by element, and the bound is one."""
    off = (computed.double() - result.value).abs()
    same = (computed.double() == result.value) | (computed.isnan() & result.value.isnan())
    assert ((off <= result.bound) | same).all(), float((off - result.bound)[~same].max())


def agree(result: Result, expected: torch.Tensor) -> None:
    torch.testing.assert_close(result.value, expected.double(), rtol=1e-9, atol=1e-12, equal_nan=True)


# ---------------------------------------------------------------- families


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
@pytest.mark.parametrize("columns", [1, 5, 1000])
def test_softmax(columns: int, dtype: str) -> None:
    kernel = softmax(columns=columns, dtype=dtype)
    given = inputs(kernel, scale=10)
    result = evaluate(kernel, given)["Y"]
    agree(result, given["X"].double().softmax(-1))
    insist(result, compute(kernel, given)["Y"])
    lost = given["X"].double().clone()
    lost[:, -1] = -math.inf
    if columns > 1:
        wrong = (lost.softmax(-1) - result.value).abs() > result.bound
        assert wrong[:, -1].float().mean() > 0.5


def test_rmsnorm_keeps_its_residual() -> None:
    kernel = rmsnorm()
    given = inputs(kernel)
    results = evaluate(kernel, given, {"eps": 1e-5})
    x = given["X"].double() + given["R"].double()
    agree(results["R"], x)
    eps = float(torch.tensor(1e-5, dtype=torch.float32))
    mean = x.square().sum(-1, keepdim=True) * float(torch.tensor(1 / 96, dtype=torch.float32))
    agree(results["Y"], x * (mean + eps).rsqrt() * given["W"].double())
    computed = compute(kernel, given, {"eps": 1e-5})
    for name, result in results.items():
        insist(result, computed[name])
        assert (result.bound <= result.value.abs() * 2.0**-8 * 1.01 + 1e-6).all(), (
            "little more than the rounding to bf16"
        )


def test_products_that_share_a_factor() -> None:
    kernel = swiglu()
    given = inputs(kernel)
    result = evaluate(kernel, given)["Y"]
    g, u = (given["X"].double() @ given[name].double().T for name in ("G", "U"))
    agree(result, torch.nn.functional.silu(g) * u)
    insist(result, compute(kernel, given)["Y"])
    for name in ("X", "U"):
        lost = given | {name: torch.cat([given[name][:, :-1], torch.zeros_like(given[name][:, -1:])], 1)}
        wrong = (evaluate(kernel, lost)["Y"].value - result.value).abs() > result.bound
        assert wrong.float().mean() > 0.9, "a lost column shows"


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal: bool) -> None:
    kernel = attention(causal=causal)
    given = inputs(kernel)
    results = evaluate(kernel, given, {"scale": 0.25})
    q, k, v = (given[n].double() for n in "QKV")
    k, v = (t.repeat_interleave(2, 1) for t in (k, v))
    s = 0.25 * q @ k.transpose(-1, -2)
    if causal:
        s = s.masked_fill(torch.ones(200, 200, dtype=torch.bool).triu(1), -math.inf)
    agree(results["LSE"], s.logsumexp(-1))
    exact = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=0.25)
    assert (results["O"].value - exact).abs().max() < 2.0**-8, "P is rounded to bf16"
    assert (results["O"].bound < 0.05).all()
    computed = compute(kernel, given, {"scale": 0.25})
    for name, result in results.items():
        insist(result, computed[name])


def test_blocks_beyond_the_diagonal_are_not_visited() -> None:
    """Unmasked, a loop `to q` sees the keys up to the end of the block of each query."""
    kernel = attention(masked=False)
    given = inputs(kernel)
    result = evaluate(kernel, given, {"scale": 0.25})["LSE"]
    q, k = (given[n].double() for n in "QK")
    s = 0.25 * q @ k.repeat_interleave(2, 1).transpose(-1, -2)
    row, column = torch.arange(200)[:, None], torch.arange(200)[None]
    seen = column // 32 * 32 <= row // 64 * 64 + 63
    agree(result, s.masked_fill(~seen, -math.inf).logsumexp(-1))


def test_keys_may_be_longer_than_queries() -> None:
    kernel = attention(length=100, keys=300, causal=False)
    given = inputs(kernel)
    for name, result in evaluate(kernel, given, {"scale": 0.25}).items():
        insist(result, compute(kernel, given, {"scale": 0.25})[name])


# ---------------------------------------------------------------- infinities, NaNs, zeros


def test_a_row_masked_as_a_whole_is_nan_and_nothing_else() -> None:
    kernel = softmax(rows=8, columns=5, dtype="f32")
    x = torch.randn(8, 5)
    x[3] = -math.inf
    x[5, 2] = -math.inf
    x[6, 1] = math.nan
    result = evaluate(kernel, {"X": x})["Y"]
    agree(result, x.double().softmax(-1))
    assert result.value.isnan().any(1).tolist() == [False] * 3 + [True] + [False] * 2 + [True, False]
    assert result.value[5, 2] == 0 and (result.bound[3] == 0).all() and result.bound.isfinite().all()
    insist(result, compute(kernel, {"X": x})["Y"])


def test_a_guarded_row_masked_as_a_whole_is_what_it_is() -> None:
    """max(m, -1e30) keeps the difference a number: all weights are zero, and the log of their sum is -inf, exactly."""
    w = Writer("guarded", {"R": 3, "C": 8})
    w.tensor("X", "f32", "R", "C")
    w.tensor("L", "f32", "R")
    w.over("t", "R", 1)
    x = w.load("X", "t, C")
    m = w.map("max", w.reduce("max", "C", x), -1e30)
    w.store("L", "t", w.map("log", w.reduce("sum", "C", w.map("exp", w.map("sub", x, m)))))
    x_given = torch.randn(3, 8)
    x_given[1] = -math.inf
    result = evaluate(w.kernel(), {"X": x_given})["L"]
    assert result.value[1] == -math.inf and result.bound[1] == 0
    assert result.value[[0, 2]].isfinite().all() and (result.bound[[0, 2]] < 1e-5).all()


def test_what_f32_cannot_hold_is_infinite() -> None:
    w = Writer("square", {"N": 4})
    w.tensor("X", "f32", "N")
    w.tensor("Y", "f32", "N")
    w.over("n", "N", 4)
    x = w.load("X", "n")
    w.store("Y", "n", w.map("sqrt", w.map("mul", x, x)))
    result = evaluate(w.kernel(), {"X": torch.tensor([1e30, 1e19, -1e20, 3.0])})["Y"]
    assert result.value.isinf().tolist() == [True, False, True, False] and result.value[3] == 3


# ---------------------------------------------------------------- sharpness


def test_arithmetic_on_numbers_that_f32_holds_is_exact() -> None:
    w = Writer("exact", {"M": 8, "N": 8, "K": 64})
    w.tensor("A", "bf16", "M", "K")
    w.tensor("B", "bf16", "N", "K")
    w.tensor("C", "f32", "M", "N")
    w.over("m", "M", 8)
    w.over("n", "N", 8)
    k = w.each("k", "K", 32)
    (acc,) = w.loop(
        k, [(0.0, "m n")], lambda a: [w.map("add", a, w.product("k", w.load("A", "m, k"), w.load("B", "n, k")))]
    )
    w.store("C", "m, n", w.map("add", w.map("mul", acc, 0.5), 3.0))
    a, b = torch.randint(-8, 9, (8, 64)).bfloat16(), torch.randint(-8, 9, (8, 64)).bfloat16()
    result = evaluate(w.kernel(), {"A": a, "B": b})["C"]
    assert not result.bound.any() and torch.equal(result.value, a.double() @ b.double().T * 0.5 + 3)
    a[0, 0] = 1 / 3
    assert evaluate(w.kernel(), {"A": a, "B": b})["C"].bound.all()


def test_a_maximum_that_stays_adds_no_error() -> None:
    """The scale of the running sums is exp(0) wherever the maximum is an old one, whatever error that has."""
    short, long = (attention(length=64, keys=n, causal=False) for n in (64, 1024))
    bounds = []
    for kernel in (short, long):
        given = inputs(kernel)
        given["K"][:, :, 0] *= 20  # the first block has the maximum
        result = evaluate(kernel, given, {"scale": 0.25})["LSE"]
        bounds.append(float(result.bound.median()))
    assert bounds[1] < 4 * bounds[0]


def test_a_predicate_within_the_error_may_be_either() -> None:
    w = Writer("near", {"N": 3})
    w.tensor("X", "f32", "N")
    w.tensor("Y", "f32", "N")
    w.over("n", "N", 4)
    near = w.map("exp", w.load("X", "n"))
    w.store("Y", "n", w.map("where", w.map("gt", near, 1.0), 100.0, -100.0))
    result = evaluate(w.kernel(), {"X": torch.tensor([-1.0, 1e-9, 1.0])})["Y"]
    assert result.value[[0, 2]].tolist() == [-100, 100]
    assert result.bound[[0, 2]].tolist() == [0, 0] and result.bound[1] >= 200


# ---------------------------------------------------------------- places


def test_a_maximum_of_each_tile_goes_where_its_tile_is() -> None:
    w = Writer("maxima", {"M": 10, "N": 70, "TILES": 3})
    w.tensor("X", "f32", "M", "N")
    w.tensor("R", "f32", "M", "TILES")
    w.tensor("Y", "f32", "M", "N")
    w.over("m", "M", 4)
    w.over("n", "N", 32)
    x = w.load("X", "m, n")
    most = w.reduce("max", "n", x)
    w.store("R", "m, n / 32", most)
    w.store("Y", "m, n", w.map("sub", x, most))
    given = torch.randn(10, 70)
    results = evaluate(w.kernel(), {"X": given})
    expected = torch.stack([given[:, i : i + 32].amax(1) for i in (0, 32, 64)], 1)
    agree(results["R"], expected)
    agree(results["Y"], given.double() - expected.repeat_interleave(32, 1)[:, :70].double())


def test_blocks_that_add_to_one_place() -> None:
    w = Writer("adding", {"M": 8, "K": 100})
    w.tensor("X", "bf16", "M", "K")
    w.tensor("S", "f32", "M")
    w.over("m", "M", 4)
    w.over("k", "K", 32)
    w.store("S", "m", w.reduce("sum", "k", w.load("X", "m, k")), adds=True)
    given = inputs(w.kernel())
    result = evaluate(w.kernel(), given)["S"]
    agree(result, given["X"].double().sum(1))
    insist(result, given["X"].float().sum(1))
    start = torch.ones(8)
    agree(evaluate(w.kernel(), given | {"S": start})["S"], 1 + given["X"].double().sum(1))
    assert (start == 1).all(), "inputs stay as they are"


def test_what_several_tiles_store_in_one_place_is_refused() -> None:
    w = Writer("wrong", {"M": 8, "K": 100})
    w.tensor("X", "bf16", "M", "K")
    w.tensor("S", "f32", "M")
    w.over("m", "M", 4)
    w.over("k", "K", 32)
    w.store("S", "m", w.reduce("sum", "k", w.load("X", "m, k")))
    with pytest.raises(ValueError, match="several tiles along k# store S in one place"):
        evaluate(w.kernel(), inputs(w.kernel()))


def test_coordinates_are_whole_numbers_beyond_f32() -> None:
    w = Writer("places", {"N": 8})
    w.tensor("Y", "f32", "N")
    w.tensor("Z", "f32", "N")
    w.over("n", "N", 4)
    first = w.whole(2**24)
    far = w.map("add", w.coordinate("n"), first)
    w.store("Y", "n", far)
    w.store("Z", "n", w.map("sub", far, first))
    results = evaluate(w.kernel(), {})
    assert torch.equal(results["Y"].value, (torch.arange(8) + 2**24).float().double())
    assert torch.equal(results["Z"].value, torch.arange(8).double())


def test_random_numbers_depend_on_the_place_alone() -> None:
    results = []
    for tile in (4, 32):
        w = Writer("dropout", {"M": 16, "N": 64})
        w.tensor("X", "f32", "M", "N")
        w.tensor("Y", "f32", "M", "N")
        w.over("m", "M", tile)
        x, zero = w.load("X", "m, N"), w.number(0.0)
        r = w.map("random", w.scalar("seed"), w.coordinate("m"), w.coordinate("N"), zero, zero)
        w.store("Y", "m, N", w.map("where", w.map("lt", r, 0.75), x, 0.0))
        results.append(evaluate(w.kernel(), {"X": torch.ones(16, 64)}, {"seed": 3.0})["Y"].value)
    assert torch.equal(*results) and 0.65 < results[0].mean() < 0.85


def test_what_is_missing_is_said() -> None:
    kernel = softmax(rows=None)
    with pytest.raises(ValueError, match="X is missing: the kernel reads it"):
        evaluate(kernel, {}, {}, {"ROWS": 4})
    with pytest.raises(ValueError, match="ROWS has no size"):
        evaluate(kernel, {})
    with pytest.raises(ValueError, match="COLUMNS is 5, but 100"):
        evaluate(kernel, {"X": torch.ones(3, 100)}, {}, {"COLUMNS": 5})
    with pytest.raises(ValueError, match="eps is missing"):
        evaluate(rmsnorm(), inputs(rmsnorm()))
