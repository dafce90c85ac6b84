"""Products of 8-bit floats whose blocks of 32 along the contraction have scales: the scaled instructions of gfx950."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from sampling import sample

import tkgen
from tkgen import Spec
from tkgen.diagnostics import SpecError
from tkgen.emulate import interleavings
from tkgen.execute.compare import Inputs
from tkgen.execute.launch import run

SPEC = (Path(__file__).parents[2] / "specs" / "low_precision" / "mxfp8.tk").read_text(encoding="utf-8")

GEMM = """kernel gemm
  target gfx950
  dims M = {m}, N = {n}, K = {k}, BLOCKS = ceil_div(K, 32), BATCH = 2
  global A : {a}[BATCH, M, K]
  global B : {b}[N, K]
  global s : e8m0[BATCH, M, BLOCKS]
  global t : e8m0[3, N, BLOCKS]
  global C : {out}[BATCH, M, N]
  over b in BATCH, m in M by 64, n in N by 64
{clauses}
  each k in K by {step}
    c = c + (A[b, m, k] * s[b, m, k / 32]) @ (t[2, n, k / 32] * B[n, k]).T
  C[b, m, n] = c
"""


def gemm(
    clauses: str, a: str = "e4m3fn", b: str = "e4m3fn", out: str = "f32", m: int = 64, n: int = 128, k: int = 256,
    step: int = 128,
) -> str:  # fmt: skip
    lines = "\n".join(f"  {line.strip()}" for line in clauses.splitlines())
    text = GEMM.format(m=m, n=n, k=k, a=a, b=b, out=out, clauses=lines, step=step)
    return text.replace("e8m0[3,", "e8m0[THREE,").replace("BATCH = 2", "BATCH = 2, THREE = 3")


def assert_right(text: str, sizes: dict[str, int | None] | None = None, count: int = 2) -> None:
    """Under `count` interleavings, with exact and with other inputs."""
    build = tkgen.load(text, sizes or {}).check().build()
    assert isinstance(build.spec, Spec)
    assert build.resources.vgpr_spills == build.resources.scratch_bytes == 0
    for number, order in enumerate(interleavings(count)):
        ran = run(build, order=order, kind=(Inputs.EXACT, Inputs.NORMAL)[number % 2], seed=number, workers=2)
        assert ran.ok, f"{order}: {ran.failure}"


@pytest.mark.parametrize("count", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_the_spec_under_many_interleavings(count: int) -> None:
    assert_right(SPEC, {"M": 256, "N": 256, "K": 384}, count)


def test_the_spec_multiplies_in_scaled_instructions() -> None:
    build = tkgen.load(SPEC).check().build().check()
    assert build.resources.vgpr_spills == build.resources.scratch_bytes == 0
    used = {line.split()[0] for line in build.asm.splitlines() if line.strip().startswith("v_mfma")}
    assert used == {"v_mfma_scale_f32_16x16x128_f8f6f4"}


def test_some_blocks_of_the_kernel_as_shipped() -> None:
    build = tkgen.load(SPEC, {"M": 512, "N": 768, "K": 256}).check().build()
    assert isinstance(build.spec, Spec)
    assert run(build, [1, 4]).ok


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize(
    ("a", "b"), sample([("e4m3fn", "e5m2"), ("e5m2", "e4m3fn"), ("e5m2", "e5m2")], 2, several=True)
)
def test_formats_and_few_steps(a: str, b: str, steps: int) -> None:
    assert_right(gemm("waves 2 x 2\nshared A, B buffers 2", a, b, k=128 * steps))


@pytest.mark.parametrize(
    "clauses",
    [
        "waves 2 x 2\nshared A, B via registers\nregisters A, B slice 128",
        "waves 2 x 2\nregisters A, B slice 128 buffers 2",
        "waves 2 x 2\nshared A, B buffers 2\nregisters A, B slice 64\naccumulate c : f32 tile 32 x 32 mfma 32 x 32",
        "waves 1 x 2\nshared A, B buffers 3 via direct\naccumulate c : f32 tile 32 x 32 mfma 32 x 32",
    ],
)
def test_ways_to_registers(clauses: str) -> None:
    assert_right(gemm(clauses, step=256 if "slice 128\n" in clauses else 128, k=512))


@pytest.mark.parametrize("clauses", ["waves 2 x 2\nshared A, B buffers 2", "waves 2 x 2\nregisters A, B"])
@pytest.mark.parametrize("sizes", sample([(72, 40, 208), (33, 70, 131), (64, 64, 32)], 2))
def test_sizes_that_do_not_divide(clauses: str, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    assert_right(gemm(f"{clauses}\ntail masked", "e4m3fn", "e5m2", "bf16", m, n, k))


def test_scales_that_are_no_numbers_beyond_a_row_are_not_read() -> None:
    """The last step of a row ends within it: its missing blocks would be the next row's first ones, NaN here."""
    m, n, k = 64, 64, 160
    text = gemm("waves 2 x 2\nshared A, B buffers 2\ntail masked", m=m, n=n, k=k).replace("BATCH = 2", "BATCH = 1")
    a, b = (torch.ones(shape).to(torch.float8_e4m3fn) for shape in ((1, m, k), (n, k)))
    s, t = (torch.full(shape, 127, dtype=torch.uint8) for shape in ((1, m, k // 32), (3, n, k // 32)))
    s[0, 5, 0] = 255  # of this row alone
    found = tkgen.operator(tkgen.load(text).check().build(), "mx_rows")(
        a, b, s.view(torch.float8_e8m0fnu), t.view(torch.float8_e8m0fnu)
    )
    wanted = torch.full((1, m, n), float(k))
    wanted[0, 5] = torch.nan
    torch.testing.assert_close(found, wanted, equal_nan=True, rtol=0, atol=0)


def test_against_torch() -> None:
    """Factors unfolded by torch alone; exponents far from zero."""
    m, n, k = 256, 256, 384
    build = tkgen.load(SPEC, {"M": m, "N": n, "K": k}).check().build()
    generator = torch.Generator().manual_seed(5)
    a, b = (torch.randn(size, k, generator=generator).to(torch.float8_e4m3fn) for size in (m, n))
    s, t = (torch.exp2(torch.randint(-20, 20, (size, k // 32), generator=generator).float()) for size in (m, n))
    codes = (x.to(torch.float8_e8m0fnu) for x in (s, t))
    found = tkgen.operator(build, "mxfp8_950")(a, b, *codes)
    left, right = (x.double() * y.double().repeat_interleave(32, 1) for x, y in ((a, s), (b, t)))
    error = (found.double() - left @ right.T).abs()
    assert (error <= 2**-8 * (left @ right.T).abs() + 2**-18 * left.abs() @ right.abs().T).all()


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        ("target gfx950", "target gfx942", "E204", "gfx942 has no e4m3fn"),
        ("ceil_div(K, 32)", "ceil_div(K, 64)", "E223", "`k / 32` does not run over `K_BLOCKS` of `s`"),
        ("s[m, k / 32]", "s[m, k / 48]", "E223", "`k / 48` is not the number of a tile of `k`"),
        ("e8m0[M, K_BLOCKS]", "f32[M, K_BLOCKS]", "E223", "`k / 32` is not the number of a tile of `k`"),
        ("e8m0[N, K_BLOCKS]", "e8m0[M, K_BLOCKS]", "E223", "`n` runs over `N`, this dimension of `t` is `M`"),
        ("(t[n, k / 32] * B[n, k]).T", "B[n, k].T", "E204", "one product of f32 and e4m3fn"),
        (
            "c = c + (s[m, k / 32] * A[m, k])",
            "c = c + (s[m, k / 32] * s[m, k / 32] * A[m, k])",
            "E230",
            "a factor of a product is a tile of a tensor, of e8m0",
        ),
        ("C[m, n] = c", "C[m, n] = c * t[0, 0]", "E230", "`t` is e8m0, and such scales must multiply both operands"),
        ("by 128\n", "by 64\n", "E230", "128 of k at a time, and a slice is"),
        (" A : e4m3fn", " A : bf16", "E230", "`s` scales blocks of bf16"),
        ("waves 2 x 4", "waves 2 x 4\n  tail clamped", "E230", "would start inside a block that shares one scale"),
        ("= ceil_div(K, 32)", "= K / 64", "E223", "`k / 32` does not run over `K_BLOCKS` of `s`"),
    ],
)
def test_mistakes(old: str, new: str, code: str, message: str) -> None:
    text = SPEC.replace(old, new)
    text = text.replace("slice 128", "slice 64") if "by 64\n" in new else text
    with pytest.raises(SpecError, match=message) as raised:
        tkgen.load(text).check()
    assert {d.code for d in raised.value.diagnostics} == {code}


def test_scales_of_other_blocks() -> None:
    text = SPEC.replace("ceil_div(K, 32)", "ceil_div(K, 64)").replace("k / 32", "k / 64")
    with pytest.raises(SpecError, match=r"`s\[m, k / 64\]` is not a scale for each block of 32 along k") as raised:
        tkgen.load(text).check()
    assert {d.code for d in raised.value.diagnostics} == {"E230"}


@pytest.mark.parametrize(("types", "stored"), [(("e8m0", "bf16"), "c"), (("f32", "bf16"), "e8m0(c)")])
def test_nothing_makes_such_scales(types: tuple[str, str], stored: str) -> None:
    output, factor = types
    head = f"""kernel made
  target gfx950
  dims M = 128, N = 128, K = 128
  global A : {factor}[M, K]
  global B : {factor}[N, K]
  global C : {output}[M, N]
"""
    sums = "  over m in M by 128, n in N by 128\n  waves 2 x 2\n  shared A, B\n  each k in K by 64\n"
    equations = f"{head}{sums}    c = c + A[m, k] @ B[n, k].T\n  C[m, n] = {stored}\n"
    clauses = (
        f"{head}  block 128 x 128 step 64\n  waves 2 x 2\n  shared A, B\n  accumulate C : f32 tile 32 x 32\n  store C\n"
    )
    for text in (equations, clauses)[: 1 + (stored == "c")]:
        with pytest.raises(SpecError) as error:
            tkgen.load(text)
        (found,) = error.value.diagnostics
        assert found.code == "E204"
        assert re.search(
            r"(is e8m0|would convert results of products), and no product stores such values yet", found.message
        )
