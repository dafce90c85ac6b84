"""Specs that once broke tkgen, found by benchmarks/fuzz.py and cut down; each states what must become of it."""

from __future__ import annotations

from pathlib import Path

import fuzz
import pytest
from sampling import sample

from tkgen.api import load
from tkgen.diagnostics import SpecError
from tkgen.execute.arguments import SizeError
from tkgen.execute.launch import run

HEAD = """kernel found
  dims M = 64, N = 64, K = 96
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  block 64 x 64 step 32
  waves 2 x 2
"""
BODY = "  accumulate C : f32 tile 32 x 32\n  store C\n"

REJECTED = {
    # The next step overwrites the one buffer before this step is read: no barrier could order that.
    "overwritten before it is read": (
        HEAD + "  shared A, B\n" + BODY + "  schedule barriers auto\n    cluster load A[k+1] B[k+1]  read A B\n"
        "    cluster multiply\n",
        {"E302"},
    ),
    # Fewer K-steps than blocks that share them: no step is ever done, so no barrier is ever met.
    "more parts than steps": (
        HEAD + "  grid split_k(5)\n  shared A, B\n" + BODY + "  schedule\n    cluster load A B\n"
        "    cluster read A B  multiply\n",
        {"E608"},
    ),
}


@pytest.mark.parametrize("name", REJECTED)
def test_is_rejected_with_diagnostics(name: str, tmp_path: Path) -> None:
    text, codes = REJECTED[name]
    path = tmp_path / "found.tk"
    path.write_text(text)
    with pytest.raises(SpecError) as caught:
        load(path).check()
    assert {d.code for d in caught.value.diagnostics if d.code[0] == "E"} == codes


STREAM_K = HEAD.replace("M = 64", "M = dynamic") + "  grid stream_k(5)\n  shared A, B\n" + BODY
# clang takes the wait of a fence away at the head of a loop that is entered with no LDS access pending.
LATE_WRITE = """kernel found
  dims M = dynamic, N = 384, K = dynamic
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  block 192 x 128 step 64
  remap column_major
  waves 3 x 1
  shared A, B buffers 1 via registers
  registers A, B slice 64
  accumulate C : f32 tile 32 x 32
  store C
"""
DIRECT = """kernel found
  dims M = {m}, N = {n}, K = {k}
  global A : f16[{a}]
  global B : f16[K, N]
  global C : f16[M, N]
  block {block} step 64
  allow slow_reads, low_occupancy
  target gfx950
"""
# clang adds no wait states within assembly: a scalar that the vector unit has just written is read too early there.
SCALAR_TOO_EARLY = (
    DIRECT.format(m="64", n="dynamic", k="384", a="M, K", block="64 x 64")
    + """  grid persistent(1)
  shared A, B buffers 3 via direct
  role producer waves 0..7
    load A, B
  role consumer waves 8..11 as 2 x 2
    registers A, B slice 32 buffers 2
    accumulate C : f32 tile 16 x 16
    store C
"""
)
# clang keeps the K-step behind the loop in a vector register, where the assembly of a direct load needs a scalar one.
SCALAR_IN_VECTOR_REGISTER = (
    DIRECT.format(m="256", n="256", k="dynamic", a="K, M", block="128 x 128")
    + """  waves 8 x 1
  shared A, B via direct
  registers A, B slice 32 buffers 2
  accumulate C : f32 tile 16 x 32 interleaved
  store C
  schedule
    group read B(0..1; 0) B(2..3; 0)  copy A  wait vm 0  wait lds 2  barrier
    group read A(*; 0)
    group read B(0..1; 1)  read A(*; 1)  read B(2..3; 1)
    cluster multiply (*, 0..1; 0)  multiply (*, 2; 0)  wait lds 2  wait lds 0  wait vm 0
    group multiply (*, 3; 0)
    cluster multiply (*, 0..1; 1)  copy B[k+1]  wait vm 1  wait lds 0  wait vm 0
    group multiply (*, 2..3; 1)
"""
)
# Two reductions of one fragment load a matrix each, whose code stood in one scope.
TWO_REDUCTIONS_LOAD = """kernel found
  dims M = 32, N = 29, K = 45
  dims COLS = ceil_div(N, 32), ROWS = ceil_div(M, 32)
  global A : f16[K, M]
  global B : f16[N, K]
  global D : f32[M, N]
  global R : bf16[M, COLS]
  global C : bf16[ROWS, N]
  global Y : bf16[M, N]
  over m in M by 32, n in N by 32
  tail masked
  waves 1 x 1
  shared A, B buffers 2 via registers
  accumulate g : f32 tile 32 x 32 interleaved
  each k in K by 16
    g = g + A[k, m].T @ B[n, k].T
  v0 = rowmin(g * 0.5 + (max(sigmoid((D[m, n])), (where(D[m, n] > 0, g, 0.5)))))
  v1 = rowsum(g * 0.5 + D[m, n])
  v2 = colmin(D[m, n] * 0.5 + rsqrt(abs((sigmoid((D[m, n])))) + 0.5))
  R[m, n / 32] = v0 + v1
  C[m / 32, n] = v2
  Y[m, n] = D[m, n] * 0.5 + (min((D[m, n] * g), (max(g, D[m, n])))) + 0 * (g)
"""
# A division: a mask that was moved to VCC counted as data that a later branch depends on.
DIVISION = """kernel found
  dims R = 2, D = 16384
  global X : f16[R, D]
  global Z : f16[R, D]
  global Y : f32[R, D]
  over t in R by 8
  waves 2
  v0 = X[t] * 0.5 + (relu((Z[t])) - sqrt(abs((X[t]))))
  X[t] = Z[t] * 0.5 + (max((X[t] / (abs(v0) + 1)), f16((v0))))
  Y[t] = v0 * 0.5 + clamp((silu((Z[t]))), -1, 1.5)
"""
# A choice between a number and a costly function, of which clang made a branch on data.
COSTLY_CHOICE = """kernel found
  dims R = 8, D = 2
  global X : f32[R, D]
  global Z : f16[R, D]
  global w : bf16[D]
  global Y : f32[R, D]
  over t in R by 2
  waves 2 along t
  v1 = Z[t] * 0.5 + X[t]
  v2 = Z[t] * 0.5 + (where((v1 + v1) > 0, tanh((v1)), 0.5))
  Y[t] = v2 * 0.5 + w
"""
# A clamp between two reductions of the tile: of two choices clang made a branch on data.
CLAMP_OF_A_REDUCTION = """kernel found
  dims M = dynamic, N = 1, K = (264 - 8)
  dims P = 2, COLS = ceil_div(N, 16)
  global A : f32[K, M]
  global Bg : f32[K, N]
  global v : bf16[M]
  global R : bf16[P, M, COLS]
  global Y : f16[P, M, N]
  scalar s : f32 = 0.5
  over p in P, m in M by 32, n in N by 16
  tail masked
  allow slow_reads
  target gfx90a
  waves 2 x 1
  shared A, Bg
  registers A slice 16
  registers Bg slice 16
  accumulate g : f32 tile 16 x 16
  each k in K by 64 part p
    g = g + A[k, m].T @ Bg[k, n]
  v0 = rowmin(g * 0.5 + (where((g + g) < 1 and not relu((g)) >= 0.25, 0.5, 2)))
  v1 = rowmax(g * 0.5 + g)
  R[p, m, n / 16] = v0 + v1
  Y[p, m, n] = g * 0.5 + (abs((v0)) + clamp((v0), -1, 1.5)) + 0 * (g)
"""
# Two truths, the second one costly: of `||` clang made a branch on data.
COSTLY_TRUTH = """kernel found
  dims R = 27, D = 16
  global X : f16[R, D]
  global Y : bf16[D, R]
  over t in R by 32, c in D by 16
  waves 4 along t
  v = X[t, c] / (abs(X[t, c]) + 1)
  Y[c, t] = where(X[t, c] != 0 or log(abs(v) + 1) <= -1, -1, 1.5)
"""
# One group of lanes, and rows that are turned side by side: the constant of their number was left out.
ONE_GROUP_ACROSS = """kernel found
  dims R = 9, D = 56
  global X : f16[R, D]
  global Y : f32[D, R]
  over t in R by 8, c in D by 32
  waves 8 along t
  Y[c, t] = X[t, c] * 0.5
"""
ACCEPTED = {
    "rows side by side in one group of lanes": fuzz.Sample(1, ONE_GROUP_ACROSS, target="gfx950", family="rows"),
    "a matrix loaded for two reductions of a fragment": fuzz.Sample(1, TWO_REDUCTIONS_LOAD, step=16, ragged=3),
    "a row that is divided": fuzz.Sample(1, DIVISION, family="rows"),
    "a costly function chosen by element": fuzz.Sample(1, COSTLY_CHOICE, target="gfx950", family="rows"),
    "a clamp of a reduction": fuzz.Sample(
        1, CLAMP_OF_A_REDUCTION, target="gfx90a", extents={"M": (28, 44, 1, 32)}, step=64, family="sums"
    ),
    "two truths of which one is costly": fuzz.Sample(1, COSTLY_TRUTH, family="rows"),
    "writes complete before the barrier at the loop's head": fuzz.Sample(
        1, LATE_WRITE, extents={"M": (192,)}, dynamic_k=True, step=64
    ),
    "stream_k over a number of tiles known at launch": fuzz.Sample(1, STREAM_K, extents={"M": (128,)}),
    "a scalar that assembly reads soon after the vector unit wrote it": fuzz.Sample(
        1, SCALAR_TOO_EARLY, target="gfx950", extents={"N": (64,)}, step=64
    ),
    "a scalar for assembly that the compiler keeps in a vector register": fuzz.Sample(
        1, SCALAR_IN_VECTOR_REGISTER, target="gfx950", dynamic_k=True, step=64
    ),
}


@pytest.mark.parametrize("name", sample(ACCEPTED, 2))
def test_is_right(name: str) -> None:
    made = ACCEPTED[name]
    result = fuzz.attempt(made, orders=2 if made.family == "matrix" else 4)
    assert (result.verdict, result.detail) == ("accepted", "") and result.runs >= 4


def test_clamped_tails_do_not_cover_a_ragged_sum(tmp_path: Path) -> None:
    text = HEAD.replace("K = 96", "K = dynamic") + "  tail clamped\n  shared A, B\n" + BODY
    path = tmp_path / "found.tk"
    path.write_text(text)
    build = load(path).build()
    with pytest.raises(SizeError, match="K must be a multiple of 32"):
        run(build, extents={"K": 40})
