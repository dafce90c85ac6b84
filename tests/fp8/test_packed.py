"""Products of floats of 4 and 6 bits, packed to bytes, in blocks with scales; tensors of these in torch."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import torch

import tkgen
from tkgen import Spec, mx
from tkgen.diagnostics import SpecError
from tkgen.emulate import interleavings
from tkgen.execute.compare import Inputs
from tkgen.execute.launch import run

SPECS = Path(__file__).parents[2] / "specs" / "low_precision"
FP4, FP6 = ((SPECS / f"mxfp{bits}.tk").read_text(encoding="utf-8") for bits in (4, 6))

GEMM = """kernel gemm
  target gfx950
  dims M = {m}, N = {n}, K = {k}, BLOCKS = ceil_div(K, 32), BATCH = 2, THREE = 3
  global A : {a}[BATCH, M, K]
  global B : {b}[THREE, N, K]
  global s : e8m0[BATCH, M, BLOCKS]
  global t : e8m0[N, BLOCKS]
  global C : {out}[BATCH, M, N]
  over b in BATCH, m in M by 64, n in N by 64
{clauses}
  each k in K by {step}
    c = c + (A[b, m, k] * s[b, m, k / 32]) @ (t[n, k / 32] * B[1, n, k]).T
  C[b, m, n] = c
"""
SHARED = "waves 2 x 2\nshared A, B buffers 2"


def gemm(
    clauses: str, a: str, b: str, out: str = "f32", m: int = 64, n: int = 128, k: int = 512, step: int = 256
) -> str:
    lines = "\n".join(f"  {line}" for line in clauses.splitlines())
    return GEMM.format(m=m, n=n, k=k, a=a, b=b, out=out, clauses=lines, step=step)


def assert_right(text: str, sizes: dict[str, int | None] | None = None, count: int = 2) -> None:
    """Under `count` interleavings, with exact and with other inputs, nothing found."""
    build = tkgen.load(text, sizes or {}).check().build()
    assert isinstance(build.spec, Spec)
    assert build.resources.vgpr_spills == build.resources.scratch_bytes == 0
    for number, order in enumerate(interleavings(count)):
        ran = run(build, order=order, kind=(Inputs.EXACT, Inputs.NORMAL)[number % 2], seed=number, workers=2)
        assert ran.ok, f"{order}: {ran.failure}"


# ---------------------------------------------------------------- tensors


def published(name: str) -> list[float]:
    """The numbers without a sign as the tables of OCP's MX specification have them, section 5.3.3 and 5.3.2."""
    if name == "e2m1":
        return [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    if name == "e2m3":
        return [x / 8 for x in [*range(16), *range(16, 32, 2), *range(32, 64, 4)]]
    by_exponent = [[2.0 ** (e - 3) * (1 + x / 4) for x in range(4)] for e in range(1, 8)]
    return [x / 16 for x in range(4)] + [x for row in by_exponent for x in row]


@pytest.mark.parametrize("name", mx.FORMATS)
def test_all_codes(name: str) -> None:
    bits = mx.FORMATS[name].bits
    codes = torch.arange(1 << bits, dtype=torch.uint8)
    numbers = published(name)
    wanted = torch.tensor([*numbers, *(-float(x) for x in numbers)], dtype=torch.float32)
    assert torch.equal(mx.decode(codes, name), wanted)
    assert torch.equal(mx.decode(codes, name).signbit(), wanted.signbit())
    assert torch.equal(mx.encode(wanted, name), codes)
    packed = mx.pack(wanted, name)
    assert packed.dtype is mx.FORMATS[name].stored and packed.shape[-1] == len(codes) * bits // 8
    assert torch.equal(mx.unpack(packed, name), wanted)
    stream = "".join(f"{code:0{bits}b}" for code in reversed(codes.tolist()))  # the last one in the highest bits
    assert int.from_bytes(packed.view(torch.uint8).numpy().tobytes(), "little") == int(stream, 2)


@pytest.mark.parametrize("name", mx.FORMATS)
def test_numbers_between_two_become_the_nearer_one_or_the_even_one(name: str) -> None:
    numbers = published(name)
    for code, (low, high) in enumerate(pairwise(numbers)):
        middle = (low + high) / 2
        even = low if code % 2 == 0 else high
        asked = torch.tensor([middle, middle * (1 - 2**-20), middle * (1 + 2**-20)])
        for sign in (1, -1):
            found = mx.decode(mx.encode(sign * asked, name), name)
            assert found.tolist() == [sign * even, sign * low, sign * high]
    most = numbers[-1]
    beyond = torch.tensor([most * 1.5, 1e30, torch.inf, -torch.inf])
    assert mx.decode(mx.encode(beyond, name), name).tolist() == [most, most, most, -most]


def test_two_of_four_bits_are_torchs_own_type() -> None:
    packed = mx.pack(torch.tensor([[0.5, -6.0, 1.0, 0.0]]), "e2m1")
    assert packed.dtype is torch.float4_e2m1fn_x2 and packed.shape == (1, 2)
    assert packed.view(torch.uint8).tolist() == [[0xF1, 0x02]]  # the first one low, as torch packs them


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: mx.pack(torch.zeros(2, 3), "e2m1"), "rows of e2m1 are multiples of 2, not 3"),
        (lambda: mx.pack(torch.zeros(2, 6), "e3m2"), "rows of e3m2 are multiples of 4, not 6"),
        (lambda: mx.pack(torch.tensor([0.0, torch.nan]), "e2m1"), "e2m1 has no NaN"),
        (lambda: mx.pack(torch.zeros(4), "e4m3fn"), "`e4m3fn` is no format that is packed"),
        (lambda: mx.unpack(torch.zeros(4, dtype=torch.uint8), "e2m3"), "multiples of 3 bytes, not 4"),
        (lambda: mx.unpack(torch.zeros(4), "e2m1"), "packed in torch.float4_e2m1fn_x2, not torch.float32"),
    ],
)
def test_tensors_that_cannot_be_packed(wrong: object, message: str) -> None:
    assert callable(wrong)
    with pytest.raises(ValueError, match=message):
        wrong()


# ---------------------------------------------------------------- products


@pytest.mark.parametrize(("text", "columns"), [(FP4, 256), (FP6, 128)])
@pytest.mark.parametrize("count", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_the_specs_under_interleavings(text: str, columns: int, count: int) -> None:
    assert_right(text, {"M": 256, "N": columns, "K": 768}, count)


@pytest.mark.parametrize(("text", "registers"), [(FP4, (4, 4)), (FP6, (6, 6))])
def test_the_specs_multiply_in_scaled_instructions(text: str, registers: tuple[int, int]) -> None:
    build = tkgen.load(text).check().build().check()
    assert build.resources.vgpr_spills == build.resources.scratch_bytes == 0
    used = [line.split() for line in build.asm.splitlines() if line.strip().startswith("v_mfma")]
    assert {words[0] for words in used} == {"v_mfma_scale_f32_16x16x128_f8f6f4"}

    def width(operand: str) -> int:
        first, last = operand.strip("v[],").split(":")
        return int(last) - int(first) + 1

    assert {(width(words[2]), width(words[3])) for words in used} == {registers}


def test_some_blocks_of_the_kernel_as_shipped() -> None:
    build = tkgen.load(FP4, {"M": 512, "N": 768, "K": 512}).check().build()
    assert isinstance(build.spec, Spec)
    assert run(build, [1, 4]).ok


FORMATS = ("e2m1", "e2m3", "e3m2", "e4m3fn", "e5m2")
MIXED = [(a, b) for a in FORMATS for b in FORMATS if {a, b} & set(mx.FORMATS)]


@pytest.mark.parametrize(
    ("a", "b", "steps"),
    [
        pytest.param(
            a, b, n, marks=[] if (a, b, n) in (("e2m1", "e4m3fn", 1), ("e3m2", "e2m1", 2)) else pytest.mark.slow
        )
        for a, b in MIXED
        for n in (1, 2)
    ],
)
def test_formats_and_few_steps(a: str, b: str, steps: int) -> None:
    assert_right(gemm(SHARED, a, b, k=256 * steps))


@pytest.mark.parametrize(
    ("clauses", "a", "b"),
    [
        pytest.param(
            "waves 2 x 2\nshared A, B via registers\nregisters A, B slice 128", "e2m1", "e2m1", marks=pytest.mark.slow
        ),
        ("waves 2 x 2\nregisters A, B slice 128 buffers 2", "e2m1", "e4m3fn"),
        ("waves 2 x 2\nshared A, B buffers 2\naccumulate c : f32 tile 32 x 32 mfma 32 x 32", "e3m2", "e2m1"),
        ("waves 1 x 2\nshared A, B buffers 3 via direct\naccumulate c : f32 tile 32 x 32 mfma 32 x 32", "e2m3", "e5m2"),
        pytest.param(
            "waves 2 x 2\nshared A, B via registers\nregisters A, B slice 256", "e2m3", "e2m3", marks=pytest.mark.slow
        ),
    ],
)
def test_ways_to_registers(clauses: str, a: str, b: str) -> None:
    assert_right(gemm(clauses, a, b))


@pytest.mark.parametrize(
    ("a", "sizes"),
    [
        ("e2m1", (33, 70, 260)),
        *(
            pytest.param(a, sizes, marks=pytest.mark.slow)
            for a in ("e2m1", "e2m3")
            for sizes in ((72, 40, 464), (64, 64, 32), (33, 70, 260))
        ),
    ],
)
def test_sizes_that_do_not_divide(a: str, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    assert_right(gemm(f"{SHARED}\ntail masked", a, "e2m1", "bf16", m, n, k))


def test_rows_past_the_end_without_lds() -> None:
    assert_right(gemm("waves 2 x 2\nregisters A, B\ntail masked", "e2m1", "e2m1", "f32", 33, 70, 262))


@pytest.mark.parametrize("names", [("e2m1", "e2m1"), ("e2m3", "e3m2")])
def test_every_code_times_one(names: tuple[str, str]) -> None:
    """A row of each code against columns of ones, through the machine code: what the tables say."""
    text = gemm(SHARED, *names, m=64, n=64, k=256).replace("BATCH = 2", "BATCH = 1").replace("THREE = 3", "THREE = 2")
    run_it = tkgen.operator(tkgen.load(text).check().build(), f"codes_{names[0]}")
    one = torch.full((64, 8), 127, dtype=torch.uint8).view(torch.float8_e8m0fnu)
    for name, turned in zip(names, (False, True), strict=True):
        numbers = mx.decode(torch.arange(64) % (1 << mx.FORMATS[name].bits), name)
        codes = torch.zeros(64, 256)
        codes[torch.arange(64), torch.arange(64) * 37 % 256] = numbers  # each in another place
        ones = torch.ones(64, 256)
        a, b = (ones, codes) if turned else (codes, ones)
        found = run_it(mx.pack(a, names[0])[None], mx.pack(torch.stack([b, b]), names[1]), one[None], one)
        wanted = numbers[None, :] if turned else numbers[:, None]
        assert torch.equal(found[0], wanted.expand(64, 64))


def test_against_torch() -> None:
    """Factors unpacked and unfolded by torch alone; exponents far from zero."""
    m, n, k = 256, 256, 512
    build = tkgen.load(FP4, {"M": m, "N": n, "K": k}).check().build()
    generator = torch.Generator().manual_seed(5)
    codes = [torch.randint(0, 16, (size, k), generator=generator, dtype=torch.uint8) for size in (m, n)]
    a, b = ((c[:, 0::2] | c[:, 1::2] << 4).view(torch.float4_e2m1fn_x2) for c in codes)
    table = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64)
    table = torch.cat([table, -table])
    s, t = (torch.exp2(torch.randint(-20, 20, (size, k // 32), generator=generator).float()) for size in (m, n))
    found = tkgen.operator(build, "mxfp4_950")(a, b, *(x.to(torch.float8_e8m0fnu) for x in (s, t)))
    left, right = (table[c.long()] * y.double().repeat_interleave(32, 1) for c, y in zip(codes, (s, t), strict=True))
    error = (found.double() - left @ right.T).abs()
    assert (error <= 2**-8 * (left @ right.T).abs() + 2**-18 * left.abs() @ right.abs().T).all()


def test_a_tensor_that_is_not_packed_is_refused() -> None:
    build = tkgen.load(FP4, {"M": 256, "N": 256, "K": 256}).check().build()
    s = torch.ones(256, 8).to(torch.float8_e8m0fnu)
    a = torch.zeros(256, 128)
    with pytest.raises(ValueError, match=r"A is e2m1, not torch\.float32"):
        tkgen.operator(build, "refused_fp4")(a, a, s, s)


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        ("target gfx950", "target gfx942", "E204", "gfx942 has no e2m1"),
        ("(s[m, k / 32] * A[m, k]) @ (t[n, k / 32] * B[n, k]).T", "A[m, k] @ B[n, k].T", "E230",
         "`A` is e2m1: blocks of both operands must have scales"),
        ("(t[n, k / 32] * B[n, k]).T", "B[n, k].T", "E204", "one product of f32 and e2m1"),
        ("K by 256", "K by 192", "E208", "multiples of 128"),
        ("slice 128", "slice 64", "E208", "multiples of 128"),
        ("A : e2m1[M, K]", "A : e2m1[K, M]", "E204", "stored with `K` first"),
        (" K = 8192, K_BLOCKS = ceil_div(K, 32)", " K = 8191, K_BLOCKS = ceil_div(K, 32)", "E209",
         "a row of `A` has several elements in a byte, and `K` is 8191"),
        ("C : bf16", "C : e2m1", "E204", "`C` is e2m1, and no product stores such values yet"),
        ("C[m, n] = c", "C[m, n] = e3m2(c)", "E204",
         "`e3m2` converts to e3m2, a packed type that only stores create"),
        ("C[m, n] = c", "C[m, n] = c * A[m, 0]", "E230", "`A` is e2m1, which can only be an operand of a product"),
        ("shared A, B buffers 2 via direct\n  registers A, B slice 128", "registers A, B", "", ""),
    ],
)  # fmt: skip
def test_mistakes(old: str, new: str, code: str, message: str) -> None:
    text = FP4.replace(old, new).replace("A[m, k])", "A[k, m].T)" if "[K, M]" in new else "A[m, k])")
    assert text != FP4
    if not code:
        tkgen.load(text).check()
        return
    with pytest.raises(SpecError, match=message) as raised:
        tkgen.load(text).check()
    assert {d.code for d in raised.value.diagnostics} == {code}


def test_six_bits_go_through_lds() -> None:
    text = FP6.replace("  shared A, B buffers 2 via direct\n  registers A, B slice 256\n", "  registers A, B\n")
    with pytest.raises(SpecError, match="`A` of e2m3 must go to registers through LDS") as raised:
        tkgen.load(text).check()
    assert {d.code for d in raised.value.diagnostics} == {"E230"}


def test_clauses_have_no_scales_of_blocks() -> None:
    text = """kernel clauses
  target gfx950
  dims M = 256, N = 256, K = 256
  global A : e2m1[M, K]
  global B : e2m1[N, K]
  global C : f32[M, N]
  block 128 x 128 step 128
  waves 2 x 2
  shared A, B
  accumulate C : f32 tile 32 x 32
  store C
"""
    with pytest.raises(SpecError, match="`A` is e2m1: blocks of both operands must have scales") as raised:
        tkgen.load(text).check()
    assert {d.code for d in raised.value.diagnostics} == {"E230"}


def test_rows_hold_no_packed_numbers() -> None:
    text = """kernel rows
  target gfx950
  dims M = 64, D = 64
  global S : e2m1[M, D]
  global Y : f32[M, D]
  over m in M by 4
  waves 4
  Y[m] = S[m]
"""
    with pytest.raises(
        SpecError, match="`S` is e2m1, which can only be used to compute an operand of a matrix product"
    ):
        tkgen.load(text).check()
