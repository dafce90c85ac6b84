"""Kernels without matrix products on the emulator against f64: lengths that divide nothing, inputs that hurt."""

from __future__ import annotations

import pytest
import torch
from row_kernels import (
    TORCH,
    Builder,
    Launched,
    columns,
    elementwise,
    emulate,
    layernorm,
    rmsnorm,
    rotary,
    softmax,
    transpose,
)
from sampling import sample

from tkgen.backends.cdna.lower.rows import RowLowering
from tkgen.execute.compare import compare
from tkgen.ir.tensors import DType
from tkgen.schedule.rows import map_rows
from tkgen.targets import load_target

# Half a unit in the last place of the output, and the f32 arithmetic before it.
ERROR = {DType.BF16: 2.0**-8 + 2.0**-18, DType.F16: 2.0**-11 + 2.0**-18, DType.F32: 2.0**-18}
LENGTHS = (1, 3, 17, 64, 100, 1000, 4095, 4096, 16384)


def normal(*shape: int, dtype: DType = DType.BF16, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(TORCH[dtype])


def assert_right(launched: Launched, name: str, expected: torch.Tensor, dtype: DType = DType.BF16) -> None:
    """Right numbers, nothing found, no spills."""
    found = launched.tensors[name].double()
    allowed = ERROR[dtype] * expected.abs() + 1e-7 + torch.finfo(TORCH[dtype]).tiny
    assert torch.equal(found.isnan(), expected.isnan())
    wrong = ~((found - expected).abs() <= allowed) & ~expected.isnan() & (found != expected)
    assert not wrong.any(), f"{int(wrong.sum())} of {wrong.numel()} are wrong, {launched.layout.describe()}"
    assert_as_meant(launched)
    assert launched.resources.vgpr_spills == launched.resources.scratch_bytes == 0


def assert_as_meant(launched: Launched) -> None:
    """Every output is what the equations mean, within the bound of f32 arithmetic, and nothing was found."""
    for name, meant in launched.meaning.items():
        judged = compare(launched.tensors[name], meant.value, meant.bound)
        assert judged.right, f"{name}: {judged}; {launched.layout.describe()}"
    assert not launched.outcome.findings


@pytest.mark.parametrize("length", sample(LENGTHS, 2))
def test_softmax_at_every_length(length: int) -> None:
    x = normal(6, length)
    assert_right(emulate(softmax(6, length, 4), 4, {"X": x}), "Y", x.double().softmax(-1))


def test_rows_longer_than_a_wave_are_shared_by_the_block() -> None:
    x = normal(3, 16384)
    launched = emulate(softmax(3, 16384, 1), 16, {"X": x})
    assert launched.layout.lanes == 1024
    assert_right(launched, "Y", x.double().softmax(-1))


@pytest.mark.parametrize("case", ["huge", "tiny", "equal", "masked", "dominant", "all masked", "infinite"])
@pytest.mark.parametrize("length", [37, 4096])
def test_softmax_of_inputs_that_hurt(case: str, length: int) -> None:
    x = normal(5, length)
    if case == "huge":
        x = (x.float() * 1e38).bfloat16()
    elif case == "tiny":
        x = (x.float() * 1e-38).bfloat16()
    elif case == "equal":
        x = torch.full_like(x, 88.5)
    elif case == "masked":
        x[:, length // 3 :] = -torch.inf
    elif case == "dominant":
        x[:, length // 2] = 1000.0
    elif case == "all masked":
        x[2] = -torch.inf
    else:
        x[1, 0] = torch.inf
    assert_right(emulate(softmax(5, length, 4), 4, {"X": x}), "Y", x.double().softmax(-1))


@pytest.mark.parametrize(("rows", "cols", "by", "waves", "spacing"), [
    (70, 100, 8, 2, 8), (70, 100, 64, 4, 32), (300, 100, 32, 4, 16), (300, 512, 256, 8, 4), (300, 513, 256, 8, 32),
])  # fmt: skip
def test_columns_whose_lanes_are_in_several_waves(rows: int, cols: int, by: int, waves: int, spacing: int) -> None:
    x = normal(rows, cols)
    launched = emulate(columns(rows, cols, by), waves, {"X": x})
    assert launched.layout.spacing == spacing and launched.layout.waves_of_row > 1
    assert_right(launched, "S", x.double().sum(0))


@pytest.mark.parametrize("length", [1, 24, 1000, 8192])
def test_rmsnorm_keeps_the_residual(length: int) -> None:
    inputs = {"X": normal(6, length), "R": normal(6, length, seed=1), "W": normal(length, seed=2)}
    launched = emulate(rmsnorm(6, length, 4), 4, inputs, [1e-5])
    x = inputs["X"].double() + inputs["R"].double()
    assert_right(launched, "R", x)
    scale = (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
    assert_right(launched, "Y", x * scale * inputs["W"].double())


@pytest.mark.parametrize(("length", "waves", "late"), [
    (1, 4, 0), (24, 4, 0), (1000, 4, 0), (8192, 4, 0), (8192, 2, 2),
])  # fmt: skip
def test_layernorm_and_its_means(length: int, waves: int, late: int) -> None:
    """With two waves the weights do not stay in registers."""
    inputs = {"X": normal(6, length), "W": normal(length, seed=1), "B": normal(length, seed=2)}
    launched = emulate(layernorm(6, length, 4), waves, inputs)
    assert len(launched.layout.late) == late
    x = inputs["X"].double()
    expected = torch.nn.functional.layer_norm(x, (length,), inputs["W"].double(), torch.zeros(length).double(), 1e-5)
    found = launched.tensors["Y"].double() - (expected + inputs["B"].double())
    assert (found.abs() <= 2.0**-8 * (expected.abs() + inputs["B"].double().abs()) + 1e-6).all()
    assert (launched.tensors["MEAN"] - x.mean(-1)).abs().max() < 1e-6
    assert_as_meant(launched)
    assert launched.resources.vgpr_spills == 0


@pytest.mark.parametrize("half", [20, 64])
def test_rotary_turns_pairs(half: int) -> None:
    inputs = {"X": normal(10, 6, 2, half)}
    angles = normal(10, half, dtype=DType.F32)
    inputs |= {"COS": angles.cos(), "SIN": angles.sin()}
    launched = emulate(rotary(10, 6, half, (4, 4)), 4, inputs)
    a, b = inputs["X"].double().unbind(2)
    c, s = (inputs[name].double()[:, None] for name in ("COS", "SIN"))
    assert_right(launched, "Y", torch.stack([a * c - b * s, b * c + a * s], 2))


@pytest.mark.parametrize("cols", [256, 1000, 999])
def test_elementwise_at_widths_that_do_not_divide(cols: int) -> None:
    inputs = {"X": normal(9, cols), "G": normal(9, cols, seed=1)}
    launched = emulate(elementwise(9, cols, (8, 256)), 4, inputs)
    assert_right(launched, "Y", torch.nn.functional.silu(inputs["X"].double()) * inputs["G"].double())


@pytest.mark.parametrize("dtype", [DType.BF16, DType.F32])
@pytest.mark.parametrize(("shape", "by", "waves"), [
    ((128, 192), (64, 64), 1), ((130, 200), (128, 128), 4), ((67, 91), (64, 64), 4), ((1, 300), (64, 64), 2),
])  # fmt: skip
def test_transposition_through_registers(shape: tuple[int, int], by: tuple[int, int], waves: int, dtype: DType) -> None:
    x = normal(*shape, dtype=dtype)
    launched = emulate(transpose(*shape, by, dtype), waves, {"X": x})
    assert torch.equal(launched.tensors["Y"], x.T)
    assert_as_meant(launched)
    assert launched.resources.lds_static_bytes == 0


@pytest.mark.parametrize("dtype", [DType.F16, DType.F32])
def test_other_types(dtype: DType) -> None:
    x = normal(6, 1000, dtype=dtype)
    assert_right(emulate(softmax(6, 1000, 4, dtype), 4, {"X": x}), "Y", x.double().softmax(-1), dtype)


@pytest.mark.parametrize("target", ["gfx90a", "gfx950"])
@pytest.mark.parametrize("length", [100, 16384])
def test_other_targets(target: str, length: int) -> None:
    inputs = {"X": normal(3, length), "R": normal(3, length, seed=1), "W": normal(length, seed=2)}
    launched = emulate(rmsnorm(3, length, 2), 4, inputs, [0.5], target)
    x = inputs["X"].double() + inputs["R"].double()
    assert_right(launched, "Y", x * (x.square().mean(-1, keepdim=True) + 0.5).rsqrt() * inputs["W"].double())


@pytest.mark.parametrize("tokens", [1, 7, 8])
def test_a_number_of_rows_known_at_run_time(tokens: int) -> None:
    x = normal(tokens, 96)
    launched = emulate(softmax(None, 96, 4), 2, {"X": x}, extents={"TOKENS": tokens})
    assert_right(launched, "Y", x.double().softmax(-1))


def test_columns_are_reduced_where_rows_lie_across() -> None:
    """Softmax down the columns of X[D, N]: lanes share a column, each access has several columns."""
    b = Builder("columns", {"D": 70, "N": 600})
    b.tensor("X Y", DType.BF16, "D", "N")
    b.over("n", "N", 256)
    x = b.load("X", "D", "n")
    p = b.map("exp", b.map("sub", x, b.reduce("max", "D", x)))
    b.store(b.map("div", p, b.reduce("sum", "D", p)), "Y", "D", "n")
    values = normal(70, 600)
    launched = emulate(b.kernel(), 4, {"X": values})
    assert launched.layout.across > 1
    assert_right(launched, "Y", values.double().softmax(0))


def test_coordinates_conditions_and_random_numbers() -> None:
    """Every element knows where it is, in rows and on the fast axis, whatever the layout."""
    b = Builder("places", {"M": 11, "N": 130})
    b.tensor("X Y", DType.F32, "M", "N")
    b.over("m", "M", 4)
    b.over("n", "N", 64)
    m, n = b.coordinate("m"), b.coordinate("n")
    kept = b.map("where", b.map("ge", m, n), b.load("X", "m", "n"), b.map("add", b.map("mul", n, 1000.0), m))
    b.store(kept, "Y", "m", "n")
    x = normal(11, 130, dtype=DType.F32)
    launched = emulate(b.kernel(), 2, {"X": x})
    rows, cols = torch.arange(11)[:, None], torch.arange(130)[None]
    assert torch.equal(launched.tensors["Y"], torch.where(rows >= cols, x, cols * 1000.0 + rows))
    assert_as_meant(launched)


def test_quotients_of_extreme_divisors() -> None:
    """Elements divided by something of a row go through a reciprocal, which must not overflow or lose bits."""
    b = Builder("shares", {"M": 8, "N": 64})
    b.tensor("X Y", DType.F32, "M", "N")
    b.tensor("S", DType.F32, "M")
    b.over("m", "M", 4)
    b.store(b.map("div", b.load("X", "m"), b.load("S", "m")), "Y", "m")
    x = normal(8, 64, dtype=DType.F32)
    s = torch.tensor([1e-40, 3e38, -1e-44, 2.0**-126, 7.0, torch.inf, 0.0, 1e20])
    x[0], x[1], x[2] = x[0] * 1e-40, x[1] * 1e38, x[2] * 1e-44
    launched = emulate(b.kernel(), 2, {"X": x, "S": s})
    expected = (x.double() / s.double()[:, None]).float()
    found = launched.tensors["Y"]
    assert "divisor" in launched.text
    assert torch.equal(found.isnan(), expected.isnan())
    close = (found == expected) | ((found - expected).abs() <= 1.5 * 2.0**-23 * expected.abs())
    assert (close | expected.isnan()).all()
    assert_as_meant(launched)


def test_two_exchanges_between_barriers_do_not_share_their_half() -> None:
    """The halves of the exchange alternate through all passes, also where an iteration has an odd number of them."""
    target = load_target("gfx942")
    text = RowLowering(map_rows(rmsnorm(64, 16384, 8), 4, target)).source(target).text
    assert "exchange[(0 + pass) % 2]" in text
    text = RowLowering(map_rows(softmax(64, 16384, 8), 4, target)).source(target).text
    assert "exchange[0]" in text
    assert "exchange[1]" in text
