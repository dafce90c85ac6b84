"""Conversions that the pseudocode leaves to prose, against torch and plain arithmetic; modifiers; MODE."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pcode
import pytest

from tests.emulate import frame

torch = pytest.importorskip("torch")

SPECIALS = [0.0, -0.0, 1.0, -1.0, 448.0, 240.0, 57344.0, 1e9, -1e9, 1e-3, 2**-7, 2**-10, 2**-17, -(2**-9), 0.3, 17.5]


def floats(rows: int = 1) -> np.ndarray:
    rng = np.random.default_rng(11)
    x = (rng.standard_normal((rows, 64)) * rng.choice([1e-3, 1e-2, 1, 30, 200], (rows, 64))).astype(np.float32)
    x[:, : len(SPECIALS)] = SPECIALS
    return x


def inputs_of(*rows: np.ndarray, cases: int = 1) -> np.ndarray:
    out = np.zeros((cases, frame.ROWS_IN, 64), dtype=np.uint32)
    for i, r in enumerate(rows):
        out[:, (0, 2, 4, 6)[i]] = r.view(np.uint32)
    return out


FORMATS = {
    "gfx942": (torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, 240.0, 57344.0),
    "gfx950": (torch.float8_e4m3fn, torch.float8_e5m2, 448.0, 57344.0),
}


@pytest.mark.parametrize("target", FORMATS)
def test_floats_to_eight_bits_and_back(assemble, target):
    fp8, bf8, limit8, limit5 = FORMATS[target]
    a, b = floats(2)
    texts = ["v_cvt_pk_fp8_f32 v20, v10, v12", "v_cvt_pk_bf8_f32 v20, v10, v12 op_sel:[0,0,1]"]
    inputs = inputs_of(a, b, cases=2)
    inputs[:, 6] = 0x11112222
    out = frame.run_vector(assemble, texts, inputs, target)

    def check(codes: np.ndarray, x: np.ndarray, kind, limit: float) -> None:
        inside = np.abs(x) <= limit
        want = torch.from_numpy(x.copy()).to(kind).view(torch.uint8).numpy()
        np.testing.assert_array_equal(codes[inside], want[inside])

    check(out[0, 0].astype(np.uint32) & 255, a, fp8, limit8)
    check(out[0, 0] >> 8 & 255, b, fp8, limit8)
    assert (out[0, 0] >> 16 == 0x1111).all()
    check(out[1, 0] >> 16 & 255, a, bf8, limit5)
    check(out[1, 0] >> 24, b, bf8, limit5)
    assert (out[1, 0] & 0xFFFF == 0x2222).all()

    codes = np.arange(256, dtype=np.uint32).reshape(64, 4)
    packed = codes[:, 0] | codes[:, 1] << 8 | codes[:, 2] << 16 | codes[:, 3] << 24
    texts = [
        "v_cvt_f32_fp8 v20, v10",
        "v_cvt_f32_bf8 v20, v10",
        "v_cvt_pk_f32_fp8 v[20:21], v10",
        "v_cvt_pk_f32_bf8 v[20:21], v10",
    ]
    if target == "gfx942":
        texts += ["v_cvt_f32_fp8_sdwa v20, v10 src0_sel:BYTE_3", "v_cvt_pk_f32_fp8_sdwa v[20:21], v10 src0_sel:WORD_1"]
    out = frame.run_vector(assemble, texts, inputs_of(packed, cases=len(texts)), target).view(np.float32)
    as_float = [torch.from_numpy(codes.astype(np.uint8)).view(k).float().numpy() for k in (fp8, bf8)]
    np.testing.assert_array_equal(out[0, 0], as_float[0][:, 0])
    np.testing.assert_array_equal(out[1, 0], as_float[1][:, 0])
    np.testing.assert_array_equal(out[2, :2].T, as_float[0][:, :2])
    np.testing.assert_array_equal(out[3, :2].T, as_float[1][:, :2])
    if target == "gfx942":
        np.testing.assert_array_equal(out[4, 0], as_float[0][:, 3])
        np.testing.assert_array_equal(out[5, :2].T, as_float[0][:, 2:])


def test_bfloat16_of_gfx950(assemble):
    a, b = floats(2)
    out = frame.run_vector(assemble, ["v_cvt_pk_bf16_f32 v20, v10, v12"], inputs_of(a, b), "gfx950")
    want = [torch.from_numpy(x.copy()).bfloat16().view(torch.int16).numpy().astype(np.uint16) for x in (a, b)]
    np.testing.assert_array_equal(out[0, 0], want[0] | want[1].astype(np.uint32) << 16)


def test_halves_toward_zero(assemble):
    a, b = floats(2)
    out = frame.run_vector(assemble, ["v_cvt_pkrtz_f16_f32 v20, v10, v12"], inputs_of(a, b))
    for x, code in ((a, out[0, 0] & 0xFFFF), (b, out[0, 0] >> 16)):
        half = code.astype(np.uint16).view(np.float16).astype(np.float64)
        assert (np.abs(half) <= np.abs(x)).all()
        with np.errstate(over="ignore"):
            up = np.nextafter(half.astype(np.float16), np.float16(np.inf) * np.sign(x).astype(np.float16)).astype(
                np.float64
            )
        finite = (np.abs(x) < 65504) & (x != 0)
        assert (np.abs(up)[finite] > np.abs(x)[finite]).all()
        assert (np.signbit(half) == np.signbit(x)).all()


def test_stochastic_rounding_is_between_the_neighbours(assemble):
    a = np.full(64, 1.0 + 2.0**-12, dtype=np.float32)
    random = np.random.default_rng(0).integers(0, 1 << 32, 64, dtype=np.uint32)
    out = frame.run_vector(
        assemble,
        ["v_cvt_sr_fp8_f32 v20, v10, v12", "v_cvt_sr_bf16_f32 v20, v10, v12"],
        inputs_of(a, random, cases=2),
        "gfx950",
    )
    eight = torch.from_numpy((out[0, 0] & 255).astype(np.uint8)).view(torch.float8_e4m3fn).float().numpy()
    assert set(eight.tolist()) <= {1.0, 1.125}
    sixteen = (out[1, 0] << 16).view(np.float32)
    assert set(sixteen.tolist()) == {1.0, 1.0 + 2**-7}


def test_sine_cosine_and_ldexp(assemble):
    x = np.random.default_rng(2).uniform(-200, 200, 64).astype(np.float32)
    n = np.random.default_rng(3).integers(-160, 160, 64).astype(np.int32)
    texts = ["v_sin_f32 v20, v10", "v_cos_f32 v20, v10", "v_ldexp_f32 v20, v10, v12", "v_cvt_off_f32_i4 v20, v12"]
    out = frame.run_vector(assemble, texts, inputs_of(x, n, cases=len(texts))).view(np.float32)
    turn = 2 * np.pi * (x.astype(np.float64) % 1)
    np.testing.assert_allclose(out[0, 0], np.sin(turn), atol=1e-6)
    np.testing.assert_allclose(out[1, 0], np.cos(turn), atol=1e-6)
    with np.errstate(over="ignore"):
        want = [pcode.exactly(Fraction(float(a)) * Fraction(2) ** int(b), 32).value for a, b in zip(x, n, strict=True)]
    np.testing.assert_array_equal(out[2, 0], np.array(want, dtype=np.float32))
    low = n & 15
    np.testing.assert_array_equal(out[3, 0], np.where(low > 7, low - 16, low) / 16.0)


def test_modifiers_clamp_and_output_scale(assemble):
    # Output modifiers count where subnormal results are flushed and IEEE is off (CDNA3 ISA, "Output modifiers").
    flushing = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 6), 0x10"
    preserving = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 6), 0x3f"
    a, b = floats(2)
    texts = [
        "v_add_f32_e64 v20, -v10, |v12|",
        "v_mul_f32_e64 v20, v10, v12 clamp",
        "v_mul_f32_e64 v20, v10, v12 mul:2",
        f"{flushing}\n v_mul_f32_e64 v20, v10, v12 div:2\n {preserving}",
        "v_cndmask_b32_e64 v20, -v10, v12, vcc",
        "v_add_u32_e64 v20, v10, v12 clamp",
        "v_add_i32 v20, v10, v12 clamp",
    ]
    inputs = inputs_of(a, b, cases=len(texts))
    inputs[:, 8, :2] = 0
    out = frame.run_vector(assemble, texts, inputs)
    f = out.view(np.float32)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(f[0, 0], -a + np.abs(b))
        np.testing.assert_array_equal(f[1, 0], np.clip(a * b, 0, 1))
        np.testing.assert_array_equal(f[2, 0], a * b)
        np.testing.assert_array_equal(f[3, 0], np.where(np.abs(a * b) < 2**-125, 0, a * b / 2))
    np.testing.assert_array_equal(f[4, 0], -a)
    x, y = a.view(np.uint32).astype(np.int64), b.view(np.uint32).astype(np.int64)
    np.testing.assert_array_equal(out[5, 0], np.minimum(x + y, 0xFFFFFFFF))
    x, y = a.view(np.int32).astype(np.int64), b.view(np.int32).astype(np.int64)
    np.testing.assert_array_equal(out[6, 0].view(np.int32), np.clip(x + y, -(1 << 31), (1 << 31) - 1))


def test_op_sel(assemble):
    rng = np.random.default_rng(4)
    x, y, z = (rng.standard_normal((64, 2)).astype(np.float16) for _ in range(3))
    inputs = inputs_of(*(v.view(np.uint32).ravel() for v in (x, y, z)), cases=6)
    inputs[:, 6] = 0xAAAABBBB
    texts = [
        "v_pk_fma_f16 v20, v10, v12, v14",
        "v_pk_add_f16 v20, v10, v12 op_sel:[1,0] op_sel_hi:[0,1] neg_lo:[1,0] neg_hi:[0,1]",
        "v_add_f16_e64 v20, v10, v12",
        "v_fma_f16 v20, v10, v12, v14 op_sel:[0,1,0,1]",
        "v_fma_mix_f32 v20, v10, v12, v14 op_sel:[0,1,0] op_sel_hi:[1,1,1]",
        "v_fma_mixlo_f16 v20, v10, v12, v14 op_sel_hi:[1,1,1]",
    ]
    out = frame.run_vector(assemble, texts, inputs)
    halves = out[:, 0].reshape(6, 64, 1).view(np.uint16).reshape(6, 64, 2)
    f = halves.view(np.float16)

    def fma(a, b, c, width=16):
        f16 = [pcode.F(width, float(v)) for v in (a, b, c)]
        return pcode.fma(*f16).value

    def each(a, b, c):
        return np.array([fma(*v) for v in zip(a, b, c, strict=True)], dtype=np.float16)

    for h in (0, 1):
        np.testing.assert_array_equal(f[0, :, h], each(x[:, h], y[:, h], z[:, h]))
    np.testing.assert_array_equal(f[1, :, 0], -x[:, 1] + y[:, 0])
    np.testing.assert_array_equal(f[1, :, 1], x[:, 0] - y[:, 1])
    np.testing.assert_array_equal(f[2, :, 0], x[:, 0] + y[:, 0])
    assert (halves[2, :, 1] == 0).all()  # plain 16-bit results clear the upper half
    assert (halves[3, :, 0] == 0xBBBB).all()
    np.testing.assert_array_equal(f[3, :, 1], each(x[:, 0], y[:, 1], z[:, 0]))
    want = [fma(a, b, c, 32) for a, b, c in zip(x[:, 0], y[:, 1], z[:, 0], strict=True)]
    np.testing.assert_array_equal(out[4, 0].view(np.float32), np.array(want, dtype=np.float32))
    assert (halves[5, :, 1] == 0xAAAA).all()


def test_packed_floats_pick_registers(assemble):
    a, b, c, d = floats(4)
    inputs = np.zeros((2, frame.ROWS_IN, 64), dtype=np.uint32)
    for row, x in zip((0, 1, 2, 3), (a, b, c, d), strict=True):
        inputs[:, row] = x.view(np.uint32)
    texts = [
        "v_pk_add_f32 v[20:21], v[10:11], v[12:13] op_sel:[0,1] op_sel_hi:[0,0]",
        "v_pk_mul_f32 v[20:21], v[10:11], 2.0 op_sel_hi:[1,0]",
    ]
    out = frame.run_vector(assemble, texts, inputs).view(np.float32)
    np.testing.assert_array_equal(out[0, 0], a + d)
    np.testing.assert_array_equal(out[0, 1], a + c)
    np.testing.assert_array_equal(out[1, 0], a * 2)
    np.testing.assert_array_equal(out[1, 1], b * 2)


def test_subnormals_are_flushed_when_mode_says_so(assemble):
    tiny = np.full(64, 2.0**-130, dtype=np.float32)
    one = np.full(64, 1.0, dtype=np.float32)
    flush = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0\n{}\ns_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 3"
    texts = [
        "v_mul_f32 v20, v10, v12",
        flush.format("v_mul_f32 v20, v10, v12"),
        "s_getreg_b32 s30, hwreg(HW_REG_MODE, 4, 4)",
    ]
    out = frame.run_vector(assemble, texts, inputs_of(tiny, one, cases=3))
    assert (out[0, 0].view(np.float32) == tiny).all()
    assert (out[1, 0] == 0).all()
    assert (out[2, 3] == 15).all()


def test_bit_operations_of_three_operands(assemble):
    rng = np.random.default_rng(9)
    x, y, z = (rng.integers(0, 1 << 32, 64, dtype=np.uint32) for _ in range(3))
    tables = [0x96, 0xE8, 0x1B, 0xCA]
    out = frame.run_vector(
        assemble,
        [f"v_bitop3_b32 v20, v10, v12, v14 bitop3:0x{t:x}" for t in tables],
        inputs_of(x, y, z, cases=4),
        "gfx950",
    )
    for i, t in enumerate(tables):
        want = np.zeros(64, dtype=np.uint32)
        for bit in range(32):
            index = (x >> bit & 1) << 2 | (y >> bit & 1) << 1 | (z >> bit & 1)
            want |= (np.uint32(t) >> index & 1) << np.uint32(bit)
        np.testing.assert_array_equal(out[i, 0], want)


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_division_is_correctly_rounded(build, kind):
    """The sequence of v_div_scale, v_rcp, v_fma, v_div_fmas, v_div_fixup that clang makes of a / b."""
    from tkgen.emulate import Buffer, launch

    dtype = np.float32 if kind == "f32" else np.float64
    rng = np.random.default_rng(6)
    top = 120 if kind == "f32" else 1000
    a, b = ((rng.standard_normal(512) * 2.0 ** rng.integers(-top, top, 512)).astype(dtype) for _ in range(2))
    a[:8] = [0, -0.0, math.inf, math.nan, 1, 1, dtype(np.finfo(dtype).tiny) / 4, np.finfo(dtype).max]
    b[:8] = [1, 2, 3, 1, 0, 3, 2, 0.5]
    # Divisors whose reciprocals are subnormal, and quotients that are subnormal, or next to it.
    largest = np.finfo(dtype).maxexp - 1
    b[256:] = (rng.uniform(1, 2, 256) * 2.0 ** rng.integers(largest - 2, largest + 1, 256)).astype(dtype)
    a[256:] = (rng.uniform(1, 2, 256) * 2.0 ** rng.integers(-26 if kind == "f32" else -55, 6, 256)).astype(dtype)
    out = np.zeros(512, dtype=dtype)
    path = build("arithmetic.cpp")
    outcome = launch(
        path, kernel=f"divide_{kind}", grid=(2, 1, 1), block=(256, 1, 1), args=[Buffer(a), Buffer(b), Buffer(out)]
    )
    assert outcome.completed
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out, a / b)
