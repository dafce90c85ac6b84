"""gfx950's conversions with a scale (v_cvt_scalef32_*), against torch's formats and plain arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulate import frame
from tkgen.emulate import native

torch = pytest.importorskip("torch")

FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=np.float32)
EIGHT = {"fp8": (torch.float8_e4m3fn, 448.0), "bf8": (torch.float8_e5m2, 57344.0)}
WIDE = {"f32": np.uint32, "f16": np.uint16, "bf16": np.uint16}
OLD = 0x11223344
CODES = np.arange(64, dtype=np.uint32)
NAMES = sorted(n for n in native.operations() if n.startswith("v_cvt_scalef32_"))


def bits(x: np.ndarray, kind: str) -> np.ndarray:
    """Numbers as the bits of f32, f16 or bf16, in 32-bit words."""
    t = torch.from_numpy(x.astype(np.float32))
    if kind == "f32":
        return t.numpy().view(np.uint32)
    half = t.half() if kind == "f16" else t.bfloat16()
    return half.view(torch.int16).numpy().astype(np.uint16).astype(np.uint32)


def number(x: np.ndarray, kind: str) -> np.ndarray:
    if kind == "f32":
        return x.astype(np.uint32).view(np.float32)
    t = torch.from_numpy(x.astype(np.uint16).view(np.int16))
    return t.view(torch.float16 if kind == "f16" else torch.bfloat16).float().numpy()


def small_value(codes: np.ndarray, kind: str) -> np.ndarray:
    if kind == "fp4":
        return np.where(codes & 8, -1, 1) * FP4[codes & 7]
    return torch.from_numpy(codes.astype(np.uint8)).view(EIGHT[kind][0]).float().numpy()


def small_code(x: np.ndarray, kind: str) -> np.ndarray:
    """The nearest code, ties to even; fp4 has nothing beyond 6."""
    if kind == "fp4":
        distance = np.abs(np.minimum(np.abs(x), FP4[-1])[:, None] - FP4[None, :]) * 8 + (np.arange(8) & 1) * 1e-6
        return (np.argmin(distance, 1) | np.where(np.signbit(x), 8, 0)).astype(np.uint32)
    return torch.from_numpy(x.astype(np.float32)).to(EIGHT[kind][0]).view(torch.uint8).numpy().astype(np.uint32)


def run(assemble, text: str, *rows: np.ndarray) -> np.ndarray:
    """Results v20, v21 with `rows` in v10, v11, v12, ...; v20 is OLD before."""
    inputs = np.zeros((1, frame.ROWS_IN, 64), dtype=np.uint32)
    for i, row in enumerate(rows):
        inputs[0, i] = row
    inputs[0, 6] = OLD
    return frame.run_vector(assemble, [text], inputs, "gfx950")[0, :2]


SCALE = np.float32(4 * 1.75)  # only the exponent counts
SCALES = np.full(64, SCALE.view(np.uint32))


@pytest.mark.parametrize("wide", WIDE)
@pytest.mark.parametrize("small", ["fp8", "bf8", "fp4"])
def test_to_small_floats(assemble, small, wide):
    rng = np.random.default_rng(5)
    low, high = (number(bits(rng.standard_normal(64) * rng.choice([0.3, 2, 12], 64), wide), wide) for _ in range(2))
    low[:6] = [0.0, -0.0, 1.0, 5.0, -14.0, 24.0]
    if small == "fp4":  # so far beyond the largest that all differences from it are one number
        low[6:9] = [1e30, -np.inf, np.inf]
    name = f"v_cvt_scalef32_pk_{small}_{wide}"
    parts = 4 if small == "fp4" else 2
    width = 8 if small == "fp4" else 16
    for part in range(parts):
        three = "0," if wide == "f32" else ""  # the assembler wants one more for a third source
        select = f"op_sel:[0,0,{part & 1},{part >> 1}]" if small == "fp4" else f"op_sel:[0,0,{three}{part}]"
        if wide == "f32":
            got = run(
                assemble,
                f"{name} v20, v10, v12, v14 {select}",
                bits(low, wide),
                SCALES * 0,
                bits(high, wide),
                SCALES * 0,
                SCALES,
            )
        else:
            got = run(
                assemble, f"{name} v20, v10, v12 {select}", bits(low, wide) | bits(high, wide) << 16, SCALES * 0, SCALES
            )
        both = small_code(low / 4, small) | small_code(high / 4, small) << (width // 2)
        mask = ((1 << width) - 1) << width * part
        np.testing.assert_array_equal(got[0], (OLD & ~mask) | both << np.uint32(width * part))


@pytest.mark.parametrize("wide", WIDE)
@pytest.mark.parametrize("small", ["fp8", "bf8", "fp4"])
def test_from_small_floats(assemble, small, wide):
    source = np.random.default_rng(6).integers(0, 1 << 32, 64, dtype=np.uint32)
    width = 4 if small == "fp4" else 8
    for part in range(4 if small == "fp4" else 2):
        select = f"op_sel:[{part & 1},{part >> 1},0]" if small == "fp4" else f"op_sel:[{part},0,0]"
        dst = "v[20:21]" if wide == "f32" else "v20"
        got = run(assemble, f"v_cvt_scalef32_pk_{wide}_{small} {dst}, v10, v12 {select}", source, source, SCALES)
        for i in range(2):
            codes = source >> np.uint32(2 * width * part + width * i) & ((1 << width) - 1)
            value = got[i] if wide == "f32" else got[0] >> np.uint32(16 * i) & 0xFFFF
            want = number(bits(small_value(codes, small) * 4, wide), wide)
            np.testing.assert_array_equal(number(value, wide), want)


@pytest.mark.parametrize("wide", ["f32", "f16"])
@pytest.mark.parametrize("small", EIGHT)
def test_one_from_a_byte(assemble, small, wide):
    source = np.random.default_rng(7).integers(0, 1 << 32, 64, dtype=np.uint32)
    for byte in range(4):
        select = f"op_sel:[{byte & 1},{byte >> 1},0]"
        got = run(assemble, f"v_cvt_scalef32_{wide}_{small} v20, v10, v12 {select}", source, source, SCALES)
        want = number(bits(small_value(source >> np.uint32(8 * byte) & 255, small) * 4, wide), wide)
        np.testing.assert_array_equal(number(got[0] & (0xFFFF if wide == "f16" else 0xFFFFFFFF), wide), want)


@pytest.mark.parametrize("name", [n for n in NAMES if "_sr_" in n])
def test_random_rounding_takes_a_neighbour(assemble, name):
    """Of a value between two codes, either, about as often as it is near; an exact value stays."""
    small, wide = name.split("_")[-2:]
    noise = np.random.default_rng(8).integers(0, 1 << 32, 64, dtype=np.uint32)
    for x, values in (
        (4.0, {1.0}),
        (
            4.0 * 1.375 if small == "fp4" else 4.0 * 1.0625,
            {1.0, 1.5} if small == "fp4" else {1.0, 1.125} if small == "fp8" else {1.0, 1.25},
        ),
    ):
        data = bits(np.full(64, x), wide)
        if "pk" in name:
            rows = (data, data) if wide == "f32" else (data | data << 16, SCALES)
            text = f"{name} v20, {'v[10:11]' if wide == 'f32' else 'v10'}, v12, v14"
        else:
            rows, text = (data, SCALES), f"{name} v20, v10, v12, v14"
        got = run(assemble, text, *rows, noise, SCALES, SCALES)[0]
        width = 4 if small == "fp4" else 8
        found = small_value(got & ((1 << width) - 1), small)
        assert set(found.tolist()) == values
        if "pk" in name:
            assert set(small_value(got >> 4 & 15, small).tolist()) == values
        assert (got >> 8 == OLD >> 8).all()


def test_overflow_follows_the_mode(assemble):
    x = np.array([1e9, -1e9, 4 * 500.0, np.nan] * 16, dtype=np.float32).view(np.uint32)
    text = "v_cvt_scalef32_pk_{}_f32 v20, v10, v10, v14"
    for small, (_, limit) in EIGHT.items():
        free = run(assemble, text.format(small), x, x, x, x, SCALES)[0] & 255
        assert not np.isfinite(small_value(free[:2], small)).any()
        mode = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1\n  "
        saturated = small_value(run(assemble, mode + text.format(small), x, x, x, x, SCALES)[0] & 255, small)
        assert saturated[:2].tolist() == [limit, -limit] and np.isnan(saturated[3])
