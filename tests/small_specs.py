"""Small specs of each kind that are right, into which tests of diagnostics put mistakes."""

PRODUCT = """kernel product
  dims M = 256, N = 256, K = 256
  global A : bf16[M, K]
  global B : bf16[N, K]
  global bias : f32[N]
  global C : f32[M, N]
  over m in M by 128, n in N by 128
  shared A, B buffers 2
  each k in K by 64
    c = c + A[m, k] @ B[n, k].T
  C[m, n] = c + bias[n]
"""
CLAUSES = """kernel gemm
  dims M = 256, N = 256, K = 256
  global A : bf16[M, K]
  global B : bf16[N, K]
  global b : bf16[N]
  global C : f32[M, N]
  block 128 x 128 step 64
  waves 4 x 2
  shared A, B buffers 2
  accumulate C : f32 tile 32 x 32
  epilogue bias(b) | relu
  store C
"""
ROWS = """kernel rows
  dims T = 64, D = 2048
  global X : bf16[T, D]
  global Y : bf16[T, D]
  over t in T by 1
  waves 4
  x = X[t]
  Y[t] = x * 2
"""
ATTENTION = """kernel attention
  dims HEADS = 8, KV_HEADS = 2, LENGTH = 512, D = 64
  param GROUP = HEADS / KV_HEADS
  global Q : bf16[HEADS, LENGTH, D]
  global K : bf16[KV_HEADS, LENGTH, D]
  global V : bf16[KV_HEADS, LENGTH, D]
  global O : bf16[HEADS, LENGTH, D]
  scalar scale : f32 = 0.18
  over h in HEADS, q in LENGTH by 128
  shared K, V
  carry m : f32[q] = -3.4e38, l : f32[q] = 0, o : f32[q, D] = 0
  each j in LENGTH by 64 to q
    s = scale * Q[h, q] @ K[h / GROUP, j].T
    s = where(q >= j, s, -inf)
    n = max(m, rowmax(s))
    p = exp2(s - n)
    r = exp2(m - n)
    l = l * r + rowsum(p)
    o = o * r + bf16(p) @ V[h / GROUP, j]
    m = n
  O[h, q] = o / l
"""
