"""MFMA: layouts with exact integers against numpy, arithmetic bit for bit against a model in exact rationals."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import pytest

from tests.emulate import frame
from tkgen.emulate import native

torch = pytest.importorskip("torch")
GFX950 = {
    "f32_16x16x32_f16",
    "f32_32x32x16_f16",
    "f32_16x16x32_bf16",
    "f32_32x32x16_bf16",
    "i32_16x16x64_i8",
    "i32_32x32x32_i8",
}
GFX90A = {
    "i32_32x32x8_i8",
    "i32_16x16x16_i8",
    "f32_32x32x2_2b_bf16",
    "f32_16x16x2_4b_bf16",
    "f32_4x4x2_16b_bf16",
    "f32_32x32x4_bf16",
    "f32_16x16x8_bf16",
}
LLVM_NAMES = {  # gfx90a's own spelling
    "f32_32x32x2_2b_bf16": "f32_32x32x2bf16",
    "f32_16x16x2_4b_bf16": "f32_16x16x2bf16",
    "f32_4x4x2_16b_bf16": "f32_4x4x2bf16",
    "f32_32x32x4_bf16": "f32_32x32x4bf16",
    "f32_16x16x8_bf16": "f32_16x16x8bf16",
    "i32_32x32x8_i8": "i32_32x32x8i8",
    "i32_16x16x16_i8": "i32_16x16x16i8",
    "f32_16x16x16_bf16": "f32_16x16x16bf16_1k",
    "f32_32x32x8_bf16": "f32_32x32x8bf16_1k",
}


class Mfma:
    """Shape and types of v_mfma_<d>_<M>x<N>x<K>[_<blocks>b]_<a>[_<b>]."""

    def __init__(self, name: str):
        m = re.fullmatch(r"v_mfma_(\w+?)_(\d+)x(\d+)x(\d+)(?:_(\d+)b)?_(\w+)", name)
        self.name = name.removeprefix("v_mfma_")
        self.m, self.n, self.k = (int(m[i]) for i in (2, 3, 4))
        self.blocks = int(m[5] or 1)
        kinds = m[6].split("_")
        self.a, self.b = kinds[0], kinds[-1]
        self.per_lane = self.m * self.k * self.blocks // 64
        self.target = "gfx950" if self.name in GFX950 else "gfx90a" if self.name in GFX90A else "gfx942"

    def lane(self, i: int, k: int, block: int) -> tuple[int, int]:
        """Lane and element of A(i, k); B(k, j) alike."""
        return i + self.m * (block + self.blocks * (k // self.per_lane)), k % self.per_lane

    def place(self, i: int, j: int, block: int) -> tuple[int, int]:
        """Lane and register (element, for f64) of D(i, j)."""
        if self.a == "f64":
            return (j + 16 * (i % 4), i // 4) if self.m == 16 else (j + 4 * block + 16 * i, 0)
        if self.m == 32:
            return j + 32 * (i // 4 % 2), 16 * block + 4 * (i // 8) + i % 4
        if self.m == 16:
            return j + 16 * (i // 4), 4 * block + i % 4
        return j + 4 * block, i


NAMES = sorted(n for n in native.operations() if n.startswith("v_mfma") and "f8f6f4" not in n)
BITS = {"f64": 64, "f32": 32, "xf32": 32, "f16": 16, "bf16": 16, "i8": 8, "fp8": 8, "bf8": 8}


def encode(kind: str, x: np.ndarray, target: str) -> np.ndarray:
    """Numbers as unsigned integers of the format's width."""
    t = torch.from_numpy(np.ascontiguousarray(x).astype(np.float64))
    eight = (
        {"fp8": torch.float8_e4m3fnuz, "bf8": torch.float8_e5m2fnuz}
        if target != "gfx950"
        else {"fp8": torch.float8_e4m3fn, "bf8": torch.float8_e5m2}
    )
    match kind:
        case "f64":
            return x.astype(np.float64).view(np.uint64)
        case "f32" | "xf32":
            return x.astype(np.float32).view(np.uint32)
        case "f16":
            return x.astype(np.float16).view(np.uint16)
        case "bf16":
            return t.float().bfloat16().view(torch.int16).numpy().view(np.uint16)
        case "i8":
            return x.astype(np.int8).view(np.uint8)
    return t.float().to(eight[kind]).view(torch.uint8).numpy()


def pack(op: Mfma, kind: str, codes: np.ndarray) -> np.ndarray:
    """[blocks, size, K] of codes -> [registers, 64] of u32."""
    bits = BITS[kind]
    lanes = np.zeros((64, op.per_lane), dtype={8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[bits])
    for block in range(op.blocks):
        for i in range(op.m):
            for k in range(op.k):
                lane, e = op.lane(i, k, block)
                lanes[lane, e] = codes[block, i, k]
    raw = lanes.view(np.uint8).reshape(64, -1)
    raw = np.pad(raw, ((0, 0), (0, -raw.shape[1] % 4)))
    return np.ascontiguousarray(raw).view(np.uint32).T


def spread(op: Mfma, c: np.ndarray) -> np.ndarray:
    """[blocks, M, N] of f32/i32/f64 -> [registers, 64]."""
    words = c.dtype.itemsize // 4
    count = op.m * op.n * op.blocks // 64
    out = np.zeros((count * words, 64), dtype=np.uint32)
    for block in range(op.blocks):
        for i in range(op.m):
            for j in range(op.n):
                lane, r = op.place(i, j, block)
                out[r * words : (r + 1) * words, lane] = np.frombuffer(c[block, i, j].tobytes(), dtype=np.uint32)
    return out


def execute(
    assemble,
    op: Mfma,
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray,
    options: str = "",
    accumulators: bool = False,
    target: str | None = None,
) -> np.ndarray:
    """Registers of D for packed A, B and spread C."""
    target = target or op.target
    inputs = np.concatenate([a, b, c])

    def registers(file: str, first: int, count: int) -> str:
        return f"{file}[{first}:{first + count - 1}]" if count > 1 else f"{file}{first}"

    names = (
        [f"v{10 + i}" for i in range(len(a))]
        + [f"v{20 + i}" for i in range(len(b))]
        + [f"v{32 + i}" for i in range(len(c))]
    )
    body = "".join(
        f"  global_load_dword {r}, v1, s[8:9]\n  s_add_u32 s8, s8, 256\n  s_addc_u32 s9, s9, 0\n" for r in names
    )
    body += "  s_waitcnt vmcnt(0)\n"
    file = "a" if accumulators else "v"
    if accumulators:
        body += "".join(f"  v_accvgpr_write_b32 a{32 + i}, v{32 + i}\n" for i in range(len(c))) + "  s_nop 1\n"
    name = LLVM_NAMES.get(op.name, op.name) if target == "gfx90a" else op.name
    sources = f"{registers('v', 10, len(a))}, {registers('v', 20, len(b))}, {registers(file, 32, len(c))}"
    body += f"  v_mfma_{name} {registers(file, 64, len(c))}, {sources} {options}\n"
    body += "  s_nop 15\n  s_nop 15\n"
    if accumulators:
        body += "".join(f"  v_accvgpr_read_b32 v{64 + i}, a{64 + i}\n" for i in range(len(c)))
    body += "".join(
        f"  global_store_dword v1, v{64 + i}, s[10:11]\n  s_add_u32 s10, s10, 256\n  s_addc_u32 s11, s11, 0\n"
        for i in range(len(c))
    )
    out = np.zeros((len(c), 64), dtype=np.uint32)
    outcome = frame.run_body(assemble, body, inputs, out, target, watch=True)
    assert outcome.completed and [str(f) for f in outcome.findings] == []
    return out


def random_case(op: Mfma, seed: int = 1):
    rng = np.random.default_rng(seed)
    dtype = np.float64 if op.a == "f64" else np.int32 if op.a == "i8" else np.float32
    limit = 4 if op.a in ("fp8", "bf8") or op.b in ("fp8", "bf8") else 8
    a, b = (rng.integers(-limit, limit + 1, (op.blocks, op.m, op.k)).astype(np.float64) for _ in range(2))
    c = rng.integers(-50, 50, (op.blocks, op.m, op.n)).astype(dtype)
    return a, b, c


@pytest.mark.parametrize("name", NAMES)
def test_layout(assemble, name):
    op = Mfma(name)
    a, b, c = random_case(op)
    packed = pack(op, op.a, encode(op.a, a, op.target)), pack(op, op.b, encode(op.b, b, op.target))
    got = execute(assemble, op, *packed, spread(op, c), accumulators=True)
    want = (a @ b.transpose(0, 2, 1) + c).astype(c.dtype)
    np.testing.assert_array_equal(got, spread(op, want))


def test_broadcast_of_blocks_and_lanes(assemble):
    """CBSZ/ABID give one block of A to several; BLGP chooses lanes of B."""
    op = Mfma("v_mfma_f32_16x16x4_4b_f16")
    a, b, c = random_case(op)
    packed_a, packed_b = pack(op, "f16", encode("f16", a, "gfx942")), pack(op, "f16", encode("f16", b, "gfx942"))
    got = execute(assemble, op, packed_a, packed_b, spread(op, c), "cbsz:2 abid:1")
    np.testing.assert_array_equal(got, spread(op, (a[[1, 1, 1, 1]] @ b.transpose(0, 2, 1) + c).astype(np.float32)))
    got = execute(assemble, op, packed_a, packed_b, spread(op, c), "blgp:1")
    np.testing.assert_array_equal(got, spread(op, (a @ b[[0, 1, 0, 1]].transpose(0, 2, 1) + c).astype(np.float32)))
    got = execute(assemble, op, packed_a, packed_b, spread(op, c), "blgp:6")
    np.testing.assert_array_equal(got, spread(op, (a @ b[[2, 2, 2, 2]].transpose(0, 2, 1) + c).astype(np.float32)))


@pytest.mark.parametrize("name", ["v_mfma_f32_16x16x16_f16", "v_mfma_i32_16x16x32_i8"])
def test_broadcast_of_blocks_that_a_shape_does_not_have(assemble, name):
    """CBSZ and ABID name the eighth of one block; there is only the first to take."""
    op = Mfma(name)
    a, b, c = random_case(op)
    packed = pack(op, op.a, encode(op.a, a, op.target)), pack(op, op.b, encode(op.b, b, op.target))
    got = execute(assemble, op, *packed, spread(op, c), "cbsz:3 abid:7")
    np.testing.assert_array_equal(got, spread(op, (a @ b.transpose(0, 2, 1) + c).astype(c.dtype)))


@pytest.mark.parametrize(
    ("name", "target"), [("v_mfma_f32_16x16x16_bf16", "gfx942"), ("v_mfma_f32_16x16x32_bf8_bf8", "gfx950")]
)
def test_a_value_without_limit_changes_its_own_row_alone(assemble, name, target):
    """Operands that are all finite, with products that are, take another way through the core than others do."""
    op = Mfma(name)
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal((1, op.m, op.k)) * 2.0 ** rng.integers(-6, 6, (1, op.m, op.k)) for _ in range(2))
    c = (rng.standard_normal((1, op.m, op.n)) * 2.0 ** rng.integers(-20, 10, (1, op.m, op.n))).astype(np.float32)

    def results(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        packed = [pack(op, kind, encode(kind, x, target)) for kind, x in ((op.a, a), (op.b, b))]
        out = execute(assemble, op, *packed, spread(op, c), target=target)
        places = [[op.place(i, j, 0) for j in range(op.n)] for i in range(op.m)]
        return np.array([[out[r, lane] for lane, r in row] for row in places], dtype=np.uint32).view(np.float32)

    plain = results(a, b)
    special = a.copy()
    special[0, 0, 0], special[0, 1, 1] = np.inf, np.nan
    got = results(special, b)
    assert (got[0] == np.copysign(np.inf, b[0, :, 0])).all() and np.isnan(got[1]).all()
    np.testing.assert_array_equal(got[2:], plain[2:])
    if op.a == "bf16":  # a product beyond f32 is infinite, though its operands are finite
        far, wide = a.copy(), b.copy()
        far[0, 3, 2], wide[0, 5, 2] = 2.0**100, 2.0**100
        got, alone = results(far, wide), results(a, wide)
        assert got[3, 5] == np.inf and np.isfinite(got[3, np.arange(16) != 5]).all()
        np.testing.assert_array_equal(got[4:], alone[4:])


def test_f64_negation(assemble):
    op = Mfma("v_mfma_f64_16x16x4_f64")
    a, b, c = random_case(op)
    got = execute(
        assemble,
        op,
        pack(op, "f64", encode("f64", a, "")),
        pack(op, "f64", encode("f64", b, "")),
        spread(op, c),
        "neg:[1,0,1]",
    )
    np.testing.assert_array_equal(got, spread(op, -a @ b.transpose(0, 2, 1) - c))


# Arithmetic: the model of arXiv 2511.10909 in exact rationals, independent of the core's.


def exponent(x: Fraction, least: int) -> int:
    if x == 0:
        return least
    n, d = abs(x.numerator), x.denominator
    e = n.bit_length() - d.bit_length()
    return max(e - (Fraction(2) ** e > abs(x)), least)


def cut(x: Fraction, unit: int, down: bool) -> Fraction:
    q = x / Fraction(2) ** unit
    return (math.floor(q) if down else math.trunc(q)) * Fraction(2) ** unit


def to_f32(x: Fraction) -> Fraction:
    if x == 0:
        return x
    unit = max(exponent(x, -126), -126) - 23
    return round(x / Fraction(2) ** unit) * Fraction(2) ** unit


def cdna3(a: list[Fraction], b: list[Fraction], c: Fraction, group: int, least: int) -> Fraction:
    for at in range(0, len(a), group):
        terms = list(zip(a[at : at + group], b[at : at + group], strict=True))
        exponents = [-126 if x * y == 0 else exponent(x, least) + exponent(y, least) for x, y in terms]
        top = max(exponents)
        total = sum(cut(x * y, top - 24, False) for x, y in terms)
        e = max(top, exponent(c, -126))
        c = to_f32(cut(total, e - 31, True) + cut(c, e - 24, True))
    return c


def cdna2(a: list[Fraction], b: list[Fraction], c: Fraction, group: int) -> Fraction:
    for at in range(0, len(a), group):
        p = [to_f32(x * y) for x, y in zip(a[at : at + group], b[at : at + group], strict=True)]
        while len(p) > 1:
            p = [to_f32(x + y) for x, y in zip(p[::2], p[1::2], strict=True)]
        c = to_f32(c + p[0])
    return c


def cdna3_fp8(a: list[Fraction], b: list[Fraction], c: Fraction, least: tuple[int, int]) -> Fraction:
    for at in range(0, len(a), 16):
        parts = []
        for odd in (0, 1):
            terms = list(zip(a[at + odd : at + 16 : 2], b[at + odd : at + 16 : 2], strict=True))
            top = max(-126 if x * y == 0 else exponent(x, least[0]) + exponent(y, least[1]) for x, y in terms)
            parts.append((sum(cut(x * y, top - 24, False) for x, y in terms), top))
        top = max(t for _, t in parts)
        total = sum(cut(s, top - 24, True) for s, _ in parts)
        e = max(top, exponent(c, -126))
        far = exponent(c, -126) < e - 25
        c = to_f32(cut(total, e - 31, True) + (0 if far else cut(c, e - 24, True)))
    return c


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("v_mfma_f32_16x16x16_f16", "gfx942"),
        ("v_mfma_f32_16x16x16_bf16", "gfx942"),
        ("v_mfma_f32_32x32x8_bf16", "gfx942"),
        ("v_mfma_f32_4x4x4_16b_f16", "gfx942"),
        ("v_mfma_f32_16x16x16_bf16", "gfx90a"),
        ("v_mfma_f32_16x16x8_bf16", "gfx90a"),
        ("v_mfma_f32_16x16x32_fp8_bf8", "gfx942"),
        ("v_mfma_f32_16x16x4_f32", "gfx942"),
        ("v_mfma_f32_16x16x8_xf32", "gfx942"),
    ],
)
def test_arithmetic(assemble, name, target):
    op = Mfma(name)
    rng = np.random.default_rng(8)
    scale = 2.0 ** rng.integers(-6, 6, (op.blocks, op.m, op.k))
    a = rng.standard_normal((op.blocks, op.m, op.k)) * scale
    b = rng.standard_normal((op.blocks, op.m, op.k)) * scale[..., ::-1]
    c = (rng.standard_normal((op.blocks, op.m, op.n)) * 2.0 ** rng.integers(-20, 10, (op.blocks, op.m, op.n))).astype(
        np.float32
    )
    codes_a, codes_b = encode(op.a, a, target), encode(op.b, b, target)
    got = execute(assemble, op, pack(op, op.a, codes_a), pack(op, op.b, codes_b), spread(op, c), target=target)

    def exact(kind: str, codes: np.ndarray) -> np.ndarray:
        if kind in ("f32", "xf32"):
            values = (codes & np.uint32(0xFFFFE000) if kind == "xf32" else codes).astype(np.uint32).view(np.float32)
        elif kind == "f16":
            values = codes.view(np.float16)
        elif kind == "bf16":
            values = (codes.astype(np.uint32) << 16).view(np.float32)
        else:
            values = (
                torch.from_numpy(codes)
                .view({"fp8": torch.float8_e4m3fnuz, "bf8": torch.float8_e5m2fnuz}[kind])
                .float()
                .numpy()
            )
        return np.vectorize(Fraction, otypes=[object])(values.astype(np.float64))

    xa, xb = exact(op.a, codes_a), exact(op.b, codes_b)
    least = {"f16": -14, "fp8": -7, "bf8": -15}
    want = np.zeros_like(c)
    picks = [(block, i, j) for block in range(op.blocks) for i in range(0, op.m, 3) for j in range(0, op.n, 3)][:120]
    registers = got.view(np.float32)
    for block, i, j in picks:
        row, column, start = list(xa[block, i]), list(xb[block, j]), Fraction(float(c[block, i, j]))
        if op.a == "f32":
            x = start
            for p, q in zip(row, column, strict=True):
                x = to_f32(x + p * q)
        elif op.a in ("fp8", "bf8"):
            x = cdna3_fp8(row, column, start, (least[op.a], least[op.b]))
        elif target == "gfx90a":
            x = cdna2(row, column, start, 2 if name.endswith("8_bf16") else 4)
        else:
            x = cdna3(row, column, start, min(op.k, 4 if op.a == "xf32" else 8), least.get(op.a, -126))
        lane, r = op.place(i, j, block)
        want[block, i, j] = float(x)
        assert registers[r, lane] == np.float32(float(x)), (block, i, j)


def test_not_a_number_and_infinity(assemble):
    op = Mfma("v_mfma_f32_16x16x16_f16")
    a, b, c = random_case(op)
    a[0, 3, 5], a[0, 4, 1], b[0, 7, 2] = math.inf, -math.inf, math.nan
    b[0, :, 1] = np.abs(b[0, :, 1]) + 1
    b[0, :, 5] = np.abs(b[0, :, 5]) + 1
    got = execute(
        assemble, op, pack(op, "f16", encode("f16", a, "")), pack(op, "f16", encode("f16", b, "")), spread(op, c)
    ).view(np.float32)
    for j in range(16):
        lane, r = op.place(3, j, 0)
        assert math.isnan(got[r, lane]) if j == 7 else got[r, lane] == math.inf
        lane, r = op.place(4, j, 0)
        assert math.isnan(got[r, lane]) if j == 7 else got[r, lane] == -math.inf


FORMATS = {
    "fp8": (0, 8, 4, 3),
    "bf8": (1, 8, 5, 2),
    "fp6": (2, 6, 2, 3),
    "bf6": (3, 6, 3, 2),
    "fp4": (4, 4, 2, 1),
}  # code, bits, e, m


def small_value(code: np.ndarray, e: int, m: int) -> np.ndarray:
    """The OCP formats' values; NaN and infinity codes are not used here."""
    bias = (1 << (e - 1)) - 1
    exponent, mantissa = code >> m & ((1 << e) - 1), code & ((1 << m) - 1)
    size = np.where(
        exponent == 0, mantissa * 2.0 ** (1 - bias - m), (mantissa + (1 << m)) * 2.0 ** (exponent - bias - m)
    )
    return np.where(code >> (e + m) & 1, -size, size)


@pytest.mark.parametrize("m", [16, 32])
@pytest.mark.parametrize(("kind_a", "kind_b"), [("fp8", "fp8"), ("bf8", "fp4"), ("fp6", "bf6"), ("fp4", "fp4")])
@pytest.mark.parametrize("scaled", [False, True])
def test_formats_and_scales_of_gfx950(assemble, m, kind_a, kind_b, scaled):
    k = 128 if m == 16 else 64
    rng = np.random.default_rng(12)

    def operand(kind: str) -> tuple[np.ndarray, np.ndarray]:
        """Registers [8, 64] and values [m, k]."""
        _, bits, e, mantissa = FORMATS[kind]
        codes = rng.integers(0, 1 << bits, (m, k))
        if bits == 8:
            codes &= ~(1 << (e + mantissa - 1))  # keep exponents small and clear of the NaNs
        groups = 64 // m
        lanes = np.zeros((64, 32), dtype=np.int64)
        for x in range(k):
            if bits == 8:  # two runs of sixteen, half of K apart
                lane, element = x // 16 % groups, x % 16 + 16 * (x // (16 * groups))
            else:
                lane, element = x // 32, x % 32
            lanes[lane * m : (lane + 1) * m, element] = codes[:, x]
        bit_rows = (lanes[:, :, None] >> np.arange(bits) & 1).reshape(64, -1).astype(np.uint8)
        packed = np.packbits(bit_rows, axis=1, bitorder="little")
        packed = np.pad(packed, ((0, 0), (0, 32 - packed.shape[1])))
        return np.ascontiguousarray(packed).view(np.uint32).T, small_value(codes, e, mantissa)

    (a, va), (b, vb) = operand(kind_a), operand(kind_b)
    scales = rng.integers(120, 134, (2, 64, 4), dtype=np.int64)
    c = rng.integers(-50, 50, (1, m, m)).astype(np.float32)
    op = Mfma(f"v_mfma_f32_{m}x{m}x{k}_f8f6f4")
    inputs = np.concatenate(
        [a, b, spread(op, c), np.ascontiguousarray(scales.astype(np.uint8)).view(np.uint32)[..., 0]]
    )
    registers = (
        [f"v{10 + i}" for i in range(8)]
        + [f"v{20 + i}" for i in range(8)]
        + [f"v{32 + i}" for i in range(m * m // 64)]
        + ["v50", "v51"]
    )
    body = "".join(
        f"  global_load_dword {r}, v1, s[8:9]\n  s_add_u32 s8, s8, 256\n  s_addc_u32 s9, s9, 0\n" for r in registers
    )
    rows = {"fp8": 8, "bf8": 8, "fp6": 6, "bf6": 6, "fp4": 4}
    last = 31 + m * m // 64
    name = "v_mfma_scale_f32" if scaled else "v_mfma_f32"
    sources = f"v[10:{9 + rows[kind_a]}], v[20:{19 + rows[kind_b]}], v[32:{last}]"
    scale = ", v50, v51 op_sel:[1,0] op_sel_hi:[0,1]" if scaled else ""  # byte 1 for A, byte 2 for B
    formats = f"cbsz:{FORMATS[kind_a][0]} blgp:{FORMATS[kind_b][0]}"
    body += f"  s_waitcnt vmcnt(0)\n  {name}_{m}x{m}x{k}_f8f6f4 v[64:{last + 32}], {sources}{scale} {formats}\n"
    body += "  s_nop 15\n  s_nop 15\n"
    body += "".join(
        f"  global_store_dword v1, v{64 + i}, s[10:11]\n  s_add_u32 s10, s10, 256\n  s_addc_u32 s11, s11, 0\n"
        for i in range(m * m // 64)
    )
    out = np.zeros((m * m // 64, 64), dtype=np.uint32)
    outcome = frame.run_body(assemble, body, inputs, out, "gfx950", watch=True)
    assert outcome.completed and [str(f) for f in outcome.findings] == []
    if scaled:
        for values, chosen in ((va, scales[0, :, 1]), (vb, scales[1, :, 2])):
            for x in range(k):
                values[:, x] *= 2.0 ** (chosen[np.arange(m) + m * (x // 32)] - 127)
    want = (va @ vb.T)[None] + c
    np.testing.assert_allclose(
        out.view(np.float32),
        spread(op, want.astype(np.float32)).view(np.float32),
        rtol=3e-6,
        atol=1e-5 * np.abs(va).max() * np.abs(vb).max(),
    )
