"""Kernels of equations that sum products: built, watched, and right on the emulator against what they mean."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tkgen import load
from tkgen.api import Spec
from tkgen.diagnostics import SpecError
from tkgen.execute.compare import Inputs
from tkgen.execute.launch import run, trials

SPECS = Path(__file__).parents[2] / "specs"
DUAL = """kernel dual
  dims M = 128, N = 64, K = 96
  global X : bf16[M, K]
  global G : bf16[N, K]
  global U : bf16[N, K]
  global Y : bf16[M, N]
  over m in M by 64, n in N by 64
  waves 2 x 2
  shared X, G, U
  each k in K by 32
    g = g + X[m, k] @ G[n, k].T
    u = u + X[m, k] @ U[n, k].T
  Y[m, n] = silu(g) * u
"""
BATCH = """kernel batch
  dims B = 3, H = 4, KV = 2, M = 64, N = 128, K = 64
  param GROUP = H / KV
  global Q : bf16[B, M, H, K]
  global K_ : bf16[B, N, KV, K]
  global bias : f32[H, N]
  global S : bf16[B, H, M, N]
  over b in B, h in H, m in M by 64, n in N by 64
  waves 4 along m
  shared Q, K_
  each k in K by 32
    s = s + Q[b, m, h, k] @ K_[b, n, h / GROUP, k].T
  S[b, h, m, n] = s + bias[h, n]
"""
LINE = "  waves 2 x 2\n"


def right(spec: Spec, *, orders: int = 2, **extents: int) -> None:
    build = spec.build()
    assert build.resources.vgpr_spills == 0
    for order, kind in trials(orders):
        found = run(build, kind=kind, order=order, extents=extents)
        assert found.ok, (extents, kind, found.failure)


def errors(text: str) -> list[str]:
    with pytest.raises(SpecError) as found:
        load(text).check()
    return [f"{d.code}: {d.message}" for d in found.value.diagnostics]


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_two_products_of_one_factor(target: str) -> None:
    right(load(DUAL, target=target))


@pytest.mark.parametrize("extents", [(1, 1, 1), (64, 64, 32), (65, 129, 95), (200, 70, 33)])
def test_ragged_sizes_and_one_step(extents: tuple[int, int, int]) -> None:
    text = DUAL.replace("M = 128, N = 64, K = 96", "M = dynamic, N = dynamic, K = dynamic")
    right(load(text.replace(LINE, LINE + "  tail masked\n")), **dict(zip("MNK", extents, strict=True)))


@pytest.mark.parametrize(
    "clauses",
    [
        "  registers X, G, U buffers 2 slice 16\n",
        "  unroll 3\n  grid persistent(blocks = 2)\n",
        "  schedule\n    group read X read G multiply g\n    group read U multiply u\n"
        "    cluster load X[k+1] load G[k+1] load U[k+1]\n",
    ],
    ids=["prefetched", "persistent", "written"],
)
def test_schedules(clauses: str) -> None:
    buffers = "buffers 2" if "schedule" in clauses else "buffers 1"
    right(load(DUAL.replace("shared X, G, U", f"shared X, G, U {buffers}") + clauses))


@pytest.mark.parametrize("preset", ["ping_pong", "interleave"])
def test_schedules_with_a_name(preset: str) -> None:
    waves = {"ping_pong": "4 x 2", "interleave": "2 x 2"}[preset]
    text = DUAL.replace("M = 128, N = 64", "M = 512, N = 256").replace("m in M by 64, n in N", "m in M by 256, n in N")
    text = text.replace("n in N by 64", "n in N by 128").replace(LINE, f"  waves {waves}\n")
    text = text.replace("shared X, G, U", "shared X, G, U via registers")
    right(load(text + f"  allow spills\n  schedule {preset}\n"), orders=1)


def test_a_batch_of_strided_matrices() -> None:
    right(load(BATCH))


def test_a_batch_with_ragged_rows() -> None:
    text = BATCH.replace("M = 64, N = 128", "M = dynamic, N = dynamic") + "  tail masked\n"
    for m, n in [(1, 1), (63, 65), (70, 128)]:
        right(load(text), orders=1, M=m, N=n)


def test_an_epilogue_reads_and_writes_what_it_likes() -> None:
    spec = load(SPECS / "projection.tk", {"TOKENS": 256, "OUT": 128, "IN": 96})
    right(spec)
    assert [t.name for t in spec.program.outputs] == ["H", "Y"]


def test_coordinates_and_conversions() -> None:
    text = DUAL.replace("silu(g) * u", "where(m >= n, bf16(g) - abs(u), 0.5)")
    right(load(text))
    right(load(DUAL.replace("Y[m, n] = silu(g) * u", "p = max(g, u)\n  Y[m, n] = p * p + p")))


def test_a_sum_is_stored_as_it_is_beside_what_is_made_of_it() -> None:
    outputs = DUAL.replace("  over m", "  global S : f32[M, N]\n  global T : f32[M, N]\n  over m")
    right(load(outputs + "  S[m, n] = g\n  T[m, n] = u\n"), orders=1)
    right(load(outputs.replace("  Y[m, n] =", "  S[m, n] = g\n  T[m, n] = u\n  Y[m, n] =")), orders=1)


def test_a_lost_product_is_found() -> None:
    spec = load(DUAL)
    lost = load(DUAL.replace("silu(g) * u", "silu(g) * g + 0 * u")).build()
    assert run(spec.build(), kind=Inputs.EXACT).ok and run(lost, kind=Inputs.EXACT).ok
    assert not run(replace(lost, spec=spec), kind=Inputs.EXACT).ok


B2B = """kernel b2b
  dims M = 256, N = 64, K = 128, P = 64
  global A : f16[M, K]
  global B : f16[N, K]
  global D : f16[N, P]
  global E : f16[M, P]
  over m in M by 64
  shared {shared}
  each {loop}
"""


def test_a_product_of_sums_teaches_the_loop_that_has_both() -> None:
    text = B2B.format(shared="A, B, D", loop="k in K by 64\n    c = c + A[m, k] @ B[N, k].T\n  E[m] = f16(c) @ D[N, P]")
    (found,) = [e for e in errors(text) if e.startswith("E230")]
    assert "a product after the loop has sums of the loop as an operand" in found
    loop = "n in N by 32\n    c = A[m, K] @ B[n, K].T\n    e = e + f16(c) @ D[n, P]\n  E[m] = e"
    assert run(load(B2B.format(shared="B, D", loop=loop)).build(), kind=Inputs.EXACT).ok


def test_each_sum_is_multiplied_once() -> None:
    schedule = (
        "  schedule\n    cluster load X load G load U\n    cluster read X read G read U\n    cluster multiply g\n"
    )
    assert any("E402: the sum in fragment (0, 0) is wrong" in e for e in errors(DUAL + schedule))
    right(load(DUAL + schedule.replace("multiply g", "multiply g multiply u")), orders=1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("silu(g) * u", "silu(g) * rowsum(X[m])"), "E230: `K` is not an axis of the tile of sums, which has m and n"),
        (("shared X, G, U", "shared X, G"), "E201: no line says how `U` gets to registers"),
        (("U : bf16", "U : f16"), "E2"),
        (
            ("+ X[m, k] @ U[n, k].T", "+ (X[m, k] @ U[n, k].T) * (X[m, k] @ G[n, k].T)"),
            "E230: `u` is not a sum of products",
        ),
        (("waves 2 x 2", "waves 4 along k"), "E200: `k` is no axis of the output tile"),
        (
            ("  each k", "  accumulate g : f32 tile 16 x 16\n  each k"),
            "E201: `accumulate` must name each sum once: u",
        ),
        (("  each k", "  store Y\n  each k"), "E202: the equations already state this"),
    ],
)
def test_mistakes(change: tuple[str, str], message: str) -> None:
    assert any(e.startswith(message) for e in errors(DUAL.replace(*change))), errors(DUAL.replace(*change))


def test_a_factor_that_is_another_for_each_tile_is_refused() -> None:
    """It was accepted, and its C++ did not compile."""
    text = DUAL.replace("global G : bf16[N, K]", "global G : bf16[TILES, N, K]").replace("G[n, k]", "G[m / 64, n, k]")
    found = errors(text.replace("K = 96", "K = 96, TILES = ceil_div(M, 64)"))
    assert found == ["E230: `G[m / 64, n, k]` is a different matrix for each tile"]


def test_split_sums_take_linear_epilogues_alone() -> None:
    split = DUAL.replace("Y : bf16", "Y : f32").replace(LINE, LINE + "  grid split_k(blocks = 3)\n")
    assert any("E608: `silu` would be applied to the partial sum of every block" in e for e in errors(split))
    one = split.replace("    u = u + X[m, k] @ U[n, k].T\n", "").replace("silu(g) * u", "0.5 * g").replace("G, U", "G")
    right(load(one.replace("  global U : bf16[N, K]\n", "")))
