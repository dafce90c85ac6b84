"""Independent mistakes of a spec are all said in one run, each once, and nothing that follows from them."""

from __future__ import annotations

import pytest

from tkgen import api
from tkgen.diagnostics import SpecError

# (what has mistakes, the spec, the code and the text of each error)
SPECS = [
    (
        "a header of a kernel",
        """kernel my gemm
  dims M = 1024, N = 1000, K = 1024
  global A : bf17[M, K]
  global B : bf16[N, KK]
  global C : f32[M, N]
  block 128 x 128 step 32
  waves 2 x 2
  shared A, B buffers 1
  accumulate C : f32 tile 32 x 32
  epilogue reluu
  store C
""",
        [("E101", "gemm"), ("E204", "bf17"), ("E209", "KK"), ("E211", "reluu")],
    ),
    (
        "a header of a loop",
        """kernel attention
  dims HEADS = 64, LENGTH = 4096, D = 128
  global Q : bf16[HEADS, LENGTH, D]
  global K : bf16[HEADS, LENGTH, D]
  global V : bf17[HEADS, LENGTH, D]
  global O : bf16[HEADS, LENGTH, D]

  over h in HEADS, q in LENGTH by 128
  waves 4 along q
  shared K, V

  carry m : f32[q] = -1000000, l : f32[q] = 0, o : f32[q, D] = 0
  each j in LENGTH by 64 step 3
    s = 0.1275 * Q[h, q] @ K[h, j].T
    n = max(m, rowmaxx(s))
    p = exp2(s - n)
    r = exp2(m - n)
    l = l * r + rowsum(p)
    o = o * r + bf16(p) @ V[h, j]
    m = n
  O[h, q] = o / l
""",
        [("E101", "step"), ("E204", "bf17"), ("E200", "rowmaxx")],
    ),
    (
        "a loop as Python writes it",
        """kernel attention
  dims HEADS = 64, LENGTH = 4096, D = 128
  global Q : bf16[HEADS, LENGTH, D]
  global K : bf16[HEADS, LENGTH, D]
  global V : bf17[HEADS, LENGTH, D]
  global O : bf16[HEADS, LENGTH, D]

  over h in HEADS, q in LENGTH by 128
  waves 4 along q
  shared K, V

  carry m : f32[q] = -1000000, l : f32[q] = 0, o : f32[q, D] = 0
  for j in range(0, LENGTH, 64):
    s = 0.1275 * Q[h, q] @ K[h, j].T
    n = max(m, rowmaxx(s))
    p = exp2(s - n)
    r = exp2(m - n)
    l = l * r + rowsum(p)
    o = o * r + bf16(p) @ V[h, j]
    m = n
  O[h, q] = o / l
""",
        [("E103", "for"), ("E204", "bf17"), ("E200", "rowmaxx")],
    ),
    (
        "a header of a role",
        """kernel gemm
  dims M = 1024, N = 1024, K = 1024
  global A : bf17[M, K]
  global B : bf16[N, KK]
  global C : f32[M, N]
  block 128 x 128 step 32
  shared A, B buffers 1
  role producer wave 0..3
    load A, B
  role consumer waves 4..7 as 2 x 2
    accumulate C : f32 tile 32 x 32
    epilogue reluu
    store C
""",
        [("E101", "wave"), ("E204", "bf17"), ("E209", "KK"), ("E211", "reluu")],
    ),
    (
        "products in clauses, with statements that cannot be read",
        """kernel gemm
  dims M = 1024, N = 1000, K = 1024
  global A : bf16[M, K
  global B : bf17[N, K]
  global C : f32[M, N]
  block 128 x 128 stepp 32
  waves 2 x 2
  shared A, B bufers 1
  accumulate C : f32 tile 32 x 32
  epilogue scale(alpha) | reluu
  store C
""",
        [("E101", ""), ("E101", "stepp"), ("E101", "bufers"), ("E204", "bf17"), ("E211", "reluu")],
    ),
    (
        "declarations",
        """kernel gemm
  dims M = 1024, N = 1000, K = 1024
  global A : bf17[M, K]
  global B : bf16[N, KK]
  global C : f32[M, N]
  scalar alpha : f16 = 1.0
  block 128 x 128 step 32
  remap morton | xcdd(8)
  waves 2 x 3
  shared A, BB buffers 1
  accumulate C : f32 tile 32 x 32
  epilogue reluu
  store D
""",
        [
            ("E204", "bf17"),
            ("E209", "KK"),
            ("E204", "f16"),
            ("E211", "reluu"),
            ("E601", "xcdd(8)"),
            ("E200", "BB"),
            ("E200", "D"),
        ],
    ),
    (
        "clauses of products",
        """kernel gemm
  dims M = 1024, N = 1024, K = 1024
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  block 128 x 128 step 32
  remap morton | xcdd(8)
  grid persistant(304)
  tail maskd
  waves 2 x 3
  shared A, BB buffers 1
  registers A, B slice 24
  accumulate C : f32 tile 32 x 32
  epilogue reluu | bias(v)
  store D
""",
        [
            ("E200", "BB"),
            ("E211", "reluu"),
            ("E212", "persistant"),
            ("E212", "maskd"),
            ("E601", "xcdd(8)"),
            ("E200", "D"),
        ],
    ),
    (
        "a written schedule",
        """kernel gemm
  dims M = 1024, N = 1024, K = 1024
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  block 128 x 128 step 32
  waves 2 x 2
  shared A, B buffers 1
  registers A, B slice 16
  accumulate C : f32 tile 32 x 32
  store C
  schedule
    cluster load A Q
    cluster read A(7; 0) B(0; 9)
    cluster multiply (0, 9; 0)
    cluster wait vmm 0
    cluster priority highest
    cluster multiply slice 5
""",
        [
            ("E200", "Q"),
            ("E217", "7"),
            ("E217", "9"),
            ("E217", "9"),
            ("E216", "vmm"),
            ("E216", "highest"),
            ("E217", "5"),
        ],
    ),
    (
        "an axis",
        """kernel gemm
  dims M = 1024, N = 1024, K = 1024
  global A : bf16[M, K]
  global B : bf16[N, K]
  global bias : f32[N]
  global C : f32[M, N]
  over m in M by 128, n in NN by 128
  waves 2 x 3
  shared A, BB buffers 2
  each k in K by 64
    c = c + A[m, k] @ B[n, kk].T
  C[m, n] = reluu(c) + bias[m] + zeta
""",
        [("E209", "NN"), ("E200", "reluu"), ("E223", "m"), ("E200", "zeta"), ("E200", "BB")],
    ),
    (
        "equations of products",
        """kernel gemm
  dims M = 1024, N = 1024, K = 1024
  global A : bf16[M, K]
  global B : bf16[N, K]
  global bias : f32[N]
  global C : f32[M, N]
  over m in M by 128, n in N by 128
  waves 2 x 3
  grid persistant(304)
  shared A, BB buffers 2
  registers A slize 32
  each k in K by 64
    c = c + A[m, k] @ B[n, kk].T
  C[m, n] = reluu(c) + bias[m] + zeta
  D[m, n] = c
""",
        [
            ("E101", "slize"),
            ("E200", "kk"),
            ("E200", "reluu"),
            ("E223", "m"),
            ("E200", "zeta"),
            ("E200", "D"),
            ("E212", "persistant"),
            ("E200", "BB"),
        ],
    ),
    (
        "clauses beside equations",
        """kernel gemm
  dims M = 1024, N = 1024, K = 1024
  global A : bf16[M, K]
  global B : bf16[N, K]
  global bias : f32[N]
  global C : f32[M, N]
  over m in M by 128, n in N by 128
  waves 2 x 3
  grid persistant(304)
  shared A, BB buffers 2
  registers A slice 24
  remap xdc(8)
  each k in K by 64
    c = c + A[m, k] @ B[n, k].T
  C[m, n] = relu(c) + bias[n]
""",
        [("E206", "waves 2 x 3"), ("E212", "persistant"), ("E601", "xdc(8)"), ("E200", "BB")],
    ),
    (
        "a loop",
        """kernel attention
  dims BATCH = 16, HEADS = 64, LENGTH = 4096, D = 128
  global Q : bf16[BATCH, HEADS, LENGTH, D]
  global K : bf16[BATCH, HEADS, LENGTH, D]
  global V : bf16[BATCH, HEADS, LENGTH, D]
  global O : bf16[BATCH, HEADS, LENGTH, D]
  scalar scale : f32 = 0.0883883
  over b in BATCH, h in HEADS, q in LENGTH by 256
  waves 7 along q
  shared K, W buffers 2
  carry m : f32[q] = -3.4e38, l : f32[q] = 0, o : f32[q, D] = 0
  each j in LENGTH by 64 to qq
    s = scal * Q[b, h, q] @ K[b, h, j].T
    s = where(q >= j, s, -inf)
    n = max(m, rowmaxx(s))
    p = exp2((s - n) * LOG2E)
    r = exp2((m - n) * LOG2E)
    l = l * r + colsum(p)
    o = o * r + p @ V[b, h, j]
    m = n
  O[b, h, q] = o / ll
""",
        [("E223", "qq"), ("E200", "scal"), ("E200", "rowmaxx"), ("E200", "ll"), ("E200", "W")],
    ),
    (
        "clauses of attention",
        """kernel attention
  dims BATCH = 16, HEADS = 64, LENGTH = 4096, D = 128
  global Q : bf16[BATCH, HEADS, LENGTH, D]
  global K : bf16[BATCH, HEADS, LENGTH, D]
  global V : bf16[BATCH, HEADS, LENGTH, D]
  global O : bf16[BATCH, HEADS, LENGTH, D]
  global P : bf16[BATCH]
  scalar scale : f32 = 0.0883883
  over b in BATCH, h in HEADS, q in LENGTH by 256
  waves 7 along q
  grid persistant(300)
  remap xdc(8)
  shared K, W buffers 2
  schedule ping_pon
  carry m : f32[q] = -3.4e38, l : f32[q] = 0, o : f32[q, D] = 0
  each j in LENGTH by 64 to q
    s = scale * Q[b, h, q] @ K[b, h, j].T
    s = where(q >= j, s, -inf)
    n = max(m, rowmax(s))
    p = exp2((s - n) * LOG2E)
    r = exp2((m - n) * LOG2E)
    l = l * r + rowsum(p)
    o = o * r + bf16(p) @ V[b, h, j]
    m = n
  O[b, h, q] = o / l
""",
        [("E214", "waves 7 along q"), ("E212", "persistant"), ("E601", "xdc(8)"), ("E200", "W"), ("E216", "ping_pon")],
    ),
    (
        "statements of attention",
        """kernel attention
  dims BATCH = 16, HEADS = 64, LENGTH = 4096, D = 128
  global Q : bf16[BATCH, HEADS, LENGTH, D]
  global K : bf16[BATCH, HEADS, LENGTH, D]
  global V : bf16[BATCH HEADS, LENGTH, D]
  global O : bf16[BATCH, HEADS, LENGTH, D]
  scalar scale : f32 = 0.1
  over b in BATCH, h in HEADS, q in LENGTH by 256
  waves 8 along q
  shared K, V bufers 2
  carry m : f32[q] = -3.4e38, l : f32[q] = 0, o : f32[q, D] = 0
  each j in LENGTH by 64 to q
    s = scal * Q[b, h, q] @ K[b, h, j].T
    s = where(q >= j, s, -inf
    n = max(m, rowmax(s))
    p = exp2((s - n) * * LOG2E)
    r = exp2((m - n) * LOG2E)
    l = l * r + rowsum(p)
    o = o * r + bf16(p) @ V[b, h, j]
    m = n
  O[b, h, q] = o / / l
""",
        [("E101", "HEADS"), ("E101", "bufers"), ("E101", ""), ("E101", "*"), ("E101", "/"), ("E200", "scal")],
    ),
    (
        "rows",
        """kernel rows
  dims T = 64, D = 2048
  global X : bf16[T, D]
  global Y : bf16[T, D]
  global W : bf16[D]
  global U : f32[T]
  over t in T by 1
  waves 3 along tt
  grid persistant(3)
  remap xdc(3)
  shared Z
  x = X[t] + eps
  y = rowmaxx(x)
  z = X[t, u]
  Y[t] = x * rsqrt(rowmean(x * x)) * W
  U[t] = z + y + W
""",
        [
            ("E200", "eps"),
            ("E200", "rowmaxx"),
            ("E200", "u"),
            ("E212", "persistant"),
            ("E601", "xdc(3)"),
            ("E200", "Z"),
            ("E214", "tt"),
        ],
    ),
    (
        "clauses of rows",
        """kernel rows
  dims T = 64, D = 2048
  global X : bf16[T, D]
  global Y : bf16[T, D]
  global W : bf16[D]
  global U : f32[T]
  over t in T by 1
  waves 3 along tt
  grid persistant(3)
  remap xdc(3)
  shared Z
  reference softmx(X, -1)
  x = X[t]
  Y[t] = x * rsqrt(rowmean(x * x)) * W
""",
        [("E214", "tt"), ("E212", "persistant"), ("E601", "xdc(3)"), ("E200", "Z")],
    ),
    (
        "a sequence",
        """sequence linear_gelu
dims M = 1024, N = 1024, K = 8192, PARTS = 4
global X : bf16[M, K]
global W : bf16[N, K]
global b : bf16[N]
global S : f32[PARTS, M, N]
global Y : bf16[M, N]

kernel quarters
  over q in PARTS, m in M by 128, n in N by 128
  waves 4 x 3
  shared X, WW buffers 2
  each k in K by 64 part q
    s = s + X[m, k] @ W[n, k]
  S[q, m, n] = s

kernel finish
  over m in M by 8, n in N by 512
  waves 4
  Y[m, n] = geluu(colsum(S[PARTS, m, n]) + c[n])
""",
        [("E224", "X[m, k] @ W[n, k]"), ("E200", "WW"), ("E200", "geluu")],
    ),
    (
        "statements of a sequence",
        """sequence linear_gelu
dims M = 1024, N = 1024, K = 8192, PARTS = 4
global X : bf16[M, K]
global W : bf16[N, K]
global b : bf16[N]
global S : f32[PARTS, M, N]
global Y : bf16[M, N]

kernel quarters
  over q in PARTS, m in M by 128, n in N by 128
  waves 4 x 3
  shared X, W buffers 2
  each k in K by 64 part q
    s = s + X[m, k] @@ W[n, k].T
  S[q, m, n] = s

kernel finish
  over m in M by 8, n in N by 512
  wves 4
  Y[m, n] = gelu(colsum(S[PARTS, m, n]) + b[n]
""",
        [("E101", "@"), ("E103", "wves"), ("E101", "")],
    ),
]


@pytest.mark.parametrize(("what", "text", "errors"), SPECS, ids=[what.replace(" ", "_") for what, *_ in SPECS])
def test_all_independent_mistakes_are_said_at_once(what: str, text: str, errors: list[tuple[str, str]]) -> None:
    with pytest.raises(SpecError) as caught:
        api.load("several.tk", text=text)
    found = [(d.code, d.primary.span.text) for d in caught.value.diagnostics if d.primary]
    assert sorted(found) == sorted(errors), what
    places = [(d.code, d.primary.span) for d in caught.value.diagnostics if d.primary]
    assert len(places) == len(set(places))
