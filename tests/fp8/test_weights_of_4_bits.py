"""Weights of 4 bits: two in a byte, plain or interleaved, with numbers for groups of 32 to 256 along a row."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import tkgen
from tkgen import Spec
from tkgen.diagnostics import SpecError
from tkgen.emulate import interleavings
from tkgen.execute.compare import Inputs
from tkgen.execute.launch import run
from tkgen.packing import INTERLEAVED, RANGES, pack, unpack

SPECS = Path(__file__).parents[2] / "specs" / "low_precision"
TORCH = {"bf16": torch.bfloat16, "f16": torch.float16}
REMAP = "  remap xcd(8, chunk = 16) | group(rows = 4)\n"
LARGE = (SPECS / "w4.tk").read_text(encoding="utf-8").replace(REMAP, "")
DECODE = (SPECS / "w4_decode.tk").read_text(encoding="utf-8")


def assert_right(text: str, sizes: dict[str, int | None], target: str, count: int = 2) -> None:
    """Under `count` interleavings, with both kinds of inputs."""
    build = tkgen.load(text, sizes, target).check().build()
    assert isinstance(build.spec, Spec)
    assert build.resources.vgpr_spills == build.resources.scratch_bytes == 0
    for number, order in enumerate(interleavings(count)):
        ran = run(build, order=order, kind=(Inputs.EXACT, Inputs.NORMAL)[number % 2], seed=number, workers=2)
        assert ran.ok, f"{order}: {ran.failure}"


@given(st.sampled_from(sorted(RANGES)), st.booleans(), st.integers(0, 3), st.integers(1, 3), st.integers(0, 2**31))
def test_what_is_packed_comes_back(dtype: str, interleaved: bool, rows: int, groups: int, seed: int) -> None:
    least, most = RANGES[dtype]
    shape = rows, groups * (INTERLEAVED if interleaved else 2)
    values = torch.randint(least, most + 1, shape, generator=torch.Generator().manual_seed(seed)).to(torch.int8)
    packed = pack(values, dtype, interleaved=interleaved)
    assert packed.dtype is torch.uint8 and packed.shape == (rows, shape[1] // 2)
    assert torch.equal(unpack(packed, dtype, interleaved=interleaved), values)
    again = pack(unpack(packed, dtype, interleaved=interleaved), dtype, interleaved=interleaved)
    assert torch.equal(again, packed)


def test_where_each_element_lies() -> None:
    """The order that the module's page states, one element at a time."""
    for k in range(2 * INTERLEAVED):
        row = torch.zeros(2 * INTERLEAVED, dtype=torch.int8)
        row[k] = 9
        assert int(pack(row, "u4")[k // 2]) == 9 << k % 2 * 4
        within, group = k % INTERLEAVED, k // INTERLEAVED
        word, half, quad, element = within // 32, within // 16 % 2, within // 4 % 4, within % 4
        byte = group * 64 + quad * 16 + word * 4 + [0, 2, 1, 3][element]
        packed = pack(row, "u4", interleaved=True)
        assert int(packed[byte]) == 9 << half * 4 and int(packed.count_nonzero()) == 1


@pytest.mark.parametrize(
    ("values", "dtype", "interleaved"),
    [(torch.full((2,), 16), "u4", False), (torch.full((2,), -1), "u4", False), (torch.full((2,), 8), "i4", False),
     (torch.zeros(3), "i4", False), (torch.zeros(64), "i4", True), (torch.zeros(2), "i8", False),
     (torch.full((2,), 0.5), "u4", False), (torch.full((2,), 300), "i4", False),
     (torch.full((2,), torch.nan), "u4", False)],
)  # fmt: skip
def test_what_cannot_be_packed(values: torch.Tensor, dtype: str, interleaved: bool) -> None:
    with pytest.raises(ValueError, match=r"holds|multiple|packed"):
        pack(values, dtype, interleaved=interleaved)


def test_what_cannot_be_unpacked() -> None:
    with pytest.raises(ValueError, match="uint8"):
        unpack(torch.zeros(4, dtype=torch.int8), "u4")
    with pytest.raises(ValueError, match="multiple of 128"):
        unpack(torch.zeros(32, dtype=torch.uint8), "u4", interleaved=True)


@pytest.mark.parametrize("target", ["gfx942", pytest.param("gfx950", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("text", "sizes"), [(LARGE, (72, 40, 256)), (DECODE, (7, 40, 384))], ids=["large", "decode"])
def test_the_specs_under_twenty_interleavings(text: str, sizes: tuple[int, int, int], target: str) -> None:
    """Rows and columns that do not divide, two and three K-steps."""
    assert_right(text, dict(zip("MNK", sizes, strict=True)), target, 20)


@pytest.mark.parametrize("text", [LARGE, DECODE], ids=["large", "decode"])
def test_one_step(text: str) -> None:
    assert_right(text, {"M": 16, "N": 64, "K": 128}, "gfx942")


CODES = list(product(RANGES, (True, False), TORCH, ("gfx942", "gfx950")))


@pytest.mark.parametrize(
    ("dtype", "interleaved", "wide", "target"),
    [pytest.param(*each, marks=() if at in (0, 7, 11, 12) else pytest.mark.slow) for at, each in enumerate(CODES)],
)
def test_every_code_in_every_place_against_torch(dtype: str, interleaved: bool, wide: str, target: str) -> None:
    """Products with ones and zeros give the weights back, each less its group's zero point, in units of its scale."""
    m, n, k = 128, 64, 128
    text = LARGE.replace("u4[N, K] interleaved", f"{dtype}[N, K] {'interleaved' if interleaved else ''}")
    text = text.replace("A : bf16", f"A : {wide}").replace("w = bf16", f"w = {wide}")
    build = tkgen.load(text, {"M": m, "N": n, "K": k}, target).check().build()
    generator = torch.Generator().manual_seed(3)
    least, most = RANGES[dtype]
    w = (torch.arange(n)[:, None] + torch.arange(k)[None, :]).remainder(16) + least
    assert int(w.max()) == most
    s, z = torch.rand(n, 1, generator=generator), torch.randint(-8, 16, (n, 1), generator=generator).to(torch.int8)
    operator = tkgen.operator(build, f"w4_{dtype}_{interleaved}_{wide}_{target}")
    found = operator(torch.eye(k).to(TORCH[wide]), pack(w, dtype, interleaved=interleaved), s, z)
    expected = s.repeat_interleave(128, 1) * (w.float() - z.float().repeat_interleave(128, 1))
    assert torch.equal(found, expected.bfloat16().T)


def test_some_blocks_of_the_kernel_as_shipped() -> None:
    build = tkgen.load(DECODE, {"N": 512, "K": 512}, "gfx942").check().build()
    assert isinstance(build.spec, Spec)
    assert run(build, [1, 7]).ok


WEIGHTS = """kernel weights
  dims M = 24, N = 72, K = 512, STEPS = K / 256, S = K / 32, Z = K / 64, BATCH = 2
  global X : f16[BATCH, K, M]
  global W : DTYPE[BATCH, N, K] ORDER
  global s : f16[BATCH, N, S]
  global z : i8[BATCH, Z, N]
  global t : f32[STEPS, N]
  global C : f32[BATCH, N, M]
  over b in BATCH, n in N by 64, m in M by 32
  tail masked
  waves 2 x 1
  CLAUSES
  allow slow_reads
  each k in K by 256
    w = f16((W[b, n, k] - z[b, k / 64, n]) * s[b, n, k / 32] * t[k / 256, n])
    c = c + w @ X[b, k, m]
  C[b, n, m] = c
"""


FEW = "shared W buffers 2 via registers\n  shared X"
SLICES = "shared W, X\n  registers W, X slice 128 buffers 2"
LARGE_MFMA = "shared W, X\n  accumulate c : f32 tile 32 x 32 mfma 32 x 32"
KINDS = [("u4", "interleaved", "shared W, X"), ("i4", "", FEW), ("i4", "interleaved", SLICES),
         ("i8", "", "shared W, X"), ("u4", "interleaved", LARGE_MFMA), ("u4", "", LARGE_MFMA)]  # fmt: skip


@pytest.mark.parametrize(
    ("dtype", "order", "clauses", "target"),
    [pytest.param(*kind, target, marks=() if number % 2 == at == number // 3 else pytest.mark.slow)
     for number, kind in enumerate(KINDS) for at, target in enumerate(("gfx942", "gfx950"))],
)  # fmt: skip
def test_groups_of_several_lengths_in_a_batch(dtype: str, order: str, clauses: str, target: str) -> None:
    """A left factor of f16, with numbers for 32, 64 and 256 elements of a row."""
    text = WEIGHTS.replace("DTYPE", dtype).replace("ORDER", order).replace("CLAUSES", clauses)
    assert_right(text, {}, target, 1 if dtype == "i8" else 2)


def test_rows_that_only_run_time_knows() -> None:
    text = LARGE.replace("M = 8192, N = 8192", "M = dynamic, N = dynamic")
    build = tkgen.load(text, {"K": 256}, "gfx942").check().build()
    assert isinstance(build.spec, Spec)
    ran = run(build, extents={"M": 40, "N": 200}, workers=2)
    assert ran.ok, ran.failure


MISTAKES = {
    "rows that are not interleaved whole": ("K = 8192, GROUPS = K / 32", "K = 8256, GROUPS = K / 32", "E209"),
    "half a byte": ("i4[N, K] interleaved", "i4[N, L]", "E209"),
    "a length that only run time knows": ("K = 8192, GROUPS = K / 32", "K = dynamic, GROUPS = 256", "E209"),
    "another word": ("] interleaved", "] swizzled", "E209"),
    "an order of another type": ("bf16[M, K]", "bf16[M, K] interleaved", "E209"),
    "multiplied both unchanged": ("bf16(s[n, k / 32] * W[n, k])", "W[n, k]", "E2"),
    "not rounded": ("bf16(s[n, k / 32] * W[n, k])", "(s[n, k / 32] * W[n, k])", "E204"),
    "groups of 16": ("GROUPS = K / 32", "GROUPS = K / 16", "E230"),
    "a group that no step is made of": ("GROUPS = K / 32", "GROUPS = ceil_div(K, 48)", "E223"),
    "a step of 64": ("K by 128", "K by 64", "E20"),
    "stored": ("global C : bf16", "global C : u4", "E204"),
    "scales of 4 bits": ("global s : bf16", "global s : u4", "E230"),
    "past LDS": ("shared A, W buffers 4 via registers", "shared A\n  registers W", "E230"),
    "direct": ("via registers", "via direct", "E230"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_said_where_they_are(mistake: str) -> None:
    old, new, code = MISTAKES[mistake]
    assert old in DECODE
    text = DECODE.replace(old, new)
    text = text.replace(
        "k / 32", {"groups of 16": "k / 16", "a group that no step is made of": "k / 48"}.get(mistake, "k / 32")
    )
    text = text.replace("dims M", "dims L = 8191, M") if "[N, L]" in new else text
    text = text.replace("  tail masked\n", "" if mistake == "direct" else "  tail masked\n")
    with pytest.raises(SpecError) as caught:
        tkgen.load(text, target="gfx950").check()
    found = caught.value.diagnostics[0]
    assert found.code.startswith(code) and found.primary.span is not None, str(caught.value)


ELSEWHERE = {
    "rows": "over m in M by 4\n  waves 4\n  Y[m] = X[m] * 2",
    "added to a product": "over m in M by 64, n in N by 64\n  waves 4\n  shared A, B\n  each k in K by 64\n"
    "    c = c + A[m, k] @ B[n, k].T\n  D[m, n] = c + E[m, n]",
    "attention": "over m in M by 64\n  waves 4\n  carry o : f32[m, N] = 0\n  each k in K by 64\n"
    "    p = A[m, N2] @ E[k, N2].T\n    o = o + bf16(exp(p)) @ F[k]\n  D[m] = o",
}  # fmt: skip


@pytest.mark.parametrize("target", ["gfx942", "sm_90a"])
@pytest.mark.parametrize("where", ELSEWHERE)
def test_other_kernels_do_not_read_them(where: str, target: str) -> None:
    head = "kernel other\n  dims M = 256, N = 256, K = 256, N2 = 256\n  global X : u4[M, N]\n  global Y : bf16[M, N]\n"
    tensors = {"A": "bf16[M, N2]" if where == "attention" else "bf16[M, K]", "B": "bf16[N, K]", "D": "bf16[M, N]",
               "E": "u4[K, N2]" if where == "attention" else "u4[M, N]", "F": "bf16[K, N]"}  # fmt: skip
    body = ELSEWHERE[where]
    head = head if where == "rows" else head.split("  global")[0]
    used = [f"  global {n} : {t}\n" for n, t in tensors.items() if f"{n}[" in body and where != "rows"]
    with pytest.raises(SpecError) as caught:
        tkgen.load(head + "".join(used) + "  " + body + "\n", target=target).check()
    assert any("u4" in d.message or d.primary.span for d in caught.value.diagnostics)


def test_on_hopper_warps_of_the_producer_compute_tiles() -> None:
    text = DECODE.replace("  target gfx942, gfx950\n", "").replace(" via registers", "")
    assert "tk::fill(" in tkgen.load(text, target="sm_90a").check().text
