"""Specs as people from Python, Triton and CUDA write them first: each message has the word that is right here.

`FIXED` have a fix that is an edit, and the spec with it is proven; `ADVISED` have the words that the message must have.
"""

from __future__ import annotations

import pytest
import torch
from small_specs import ATTENTION, CLAUSES, PRODUCT, ROWS

from tkgen.api import load
from tkgen.diagnostics import Severity
from tkgen.overview import overview
from tkgen.syntax.habits import WRITTEN_OUT, written_out

SUM, OVER, DIMS = "c = c + A[m, k] @ B[n, k].T", "over m in M by 128, n in N by 128", "  dims M = 256, N = 256, K = 256"
TENSOR, BLOCK = "global A : bf16[M, K]", "block 128 x 128 step 64"
# (spec, what it has, what is written instead, code, the line that the fix makes of it)
FIXED = [
    (PRODUCT, OVER, "over m in M//128, n in N//128", "E101", OVER),
    (PRODUCT, SUM, "c = c + tl.dot(A[m, k], B[n, k].T)", "E101", SUM),
    (PRODUCT, SUM, "c = c + dot(A[m, k], B[n, k].T)", "E200", SUM),
    (PRODUCT, SUM, "c = tl.dot(A[m, k], B[n, k].T, c)", "E101", SUM),
    (PRODUCT, SUM, "c = c + A[m, k] @ B.T[k, n]", "E101", SUM),
    (PRODUCT, SUM, "c = c + A[m][k] @ B[n][k].T", "E101", SUM),
    (PRODUCT, SUM, "c = c + matmul(A[m, k], B[n, k].T)", "E200", SUM),
    (PRODUCT, "c + bias[n]", "c.to(C.dtype)", "E101", "C[m, n] = c"),
    (PRODUCT, "c + bias[n]", "(float)c", "E101", "C[m, n] = f32(c)"),
    (PRODUCT, "c + bias[n]", "static_cast<float>(c)", "E101", "C[m, n] = f32(c)"),
    (PRODUCT, "c + bias[n]", "c as bf16", "E101", "C[m, n] = bf16(c)"),
    (PRODUCT, "c + bias[n]", "|c|", "E101", "C[m, n] = abs(c)"),
    (PRODUCT, "c + bias[n]", "c if c > 0 else 0.1 * c", "E101", "C[m, n] = where(c > 0, c, 0.1 * c)"),
    (PRODUCT, "c + bias[n]", "c + bias[n],", "E101", "C[m, n] = c + bias[n]"),
    (PRODUCT, "c + bias[n]", "c + Bias[n]", "E200", "C[m, n] = c + bias[n]"),
    (PRODUCT, OVER, "over m in M by 128 and n in N by 128", "E101", OVER),
    (PRODUCT, OVER, "over m, n in M, N by 128", "E101", OVER),
    (PRODUCT, "  each k in K by 64\n", "  c : f32[m, n] = 0\n  each k in K by 64\n",
     "E103", "carry c : f32[m, n] = 0"),
    (PRODUCT, "  each k in K by 64\n", "  for k in range(K // 64):\n", "E103", "each k in K by 64"),
    (PRODUCT, "  each k in K by 64\n", "  for (int k = 0; k < K; k += 64) {\n", "E103", "each k in K by 64"),
    (PRODUCT, DIMS, "  dims M = N = K = 256", "E101", DIMS.strip()),
    (PRODUCT, DIMS, "  dims (M, N, K) = (256, 256, 256)", "E101", DIMS.strip()),
    (PRODUCT, DIMS, "  dims M, N, K = 256, 256, 256", "E101", DIMS.strip()),
    (PRODUCT, DIMS, "  M, N, K = 256, 256, 256", "E103", DIMS.strip()),
    (PRODUCT, DIMS, "  dims M = ?, N = 256, K = 256", "E101", "dims M = dynamic, N = 256, K = 256"),
    (PRODUCT, TENSOR, "tensor A : bf16[M, K]", "E103", TENSOR),
    (PRODUCT, TENSOR, "A : bf16[M, K]", "E103", TENSOR),
    (PRODUCT, TENSOR, "input A : bf16[M, K]", "E103", TENSOR),
    (PRODUCT, TENSOR, "global A : bf16[M x K]", "E101", TENSOR),
    (PRODUCT, TENSOR, "global A : [M, K] bf16", "E101", TENSOR),
    (PRODUCT, TENSOR, "global A[M, K] : bf16", "E101", TENSOR),
    (PRODUCT, "kernel product", "kernel my-product", "E101", "kernel my_product"),
    (PRODUCT, "shared A, B buffers 2", "shared memory A, B", "E101", "shared A, B"),
    (PRODUCT, "shared A, B buffers 2", "shared A, B 2 buffers", "E101", "shared A, B buffers 2"),
    (PRODUCT, "shared A, B buffers 2", "shared A, B double buffered", "E101", "shared A, B buffers 2"),
    (PRODUCT, "  global bias", "  scalar alpha = 1.0\n  global bias", "E101", "scalar alpha : f32 = 1.0"),
    (PRODUCT, "  global bias", "  scalar f32 alpha\n  global bias", "E101", "scalar alpha : f32"),
    (PRODUCT, "  global bias", "  BK : tl.constexpr = 64\n  global bias", "E103", "BK = 64"),
    (ROWS, "x = X[t]", "x = X[t, 0:D]", "E101", "x = X[t]"),
    (ROWS, "x * 2", "x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)",
     "E101", "Y[t] = x * rsqrt(rowmean(pow(x, 2)) + 1e-6)"),
    (ROWS, "x * 2", "sign(x)", "E200", "Y[t] = where(x > 0, 1, where(x < 0, -1, 0))"),
    (ROWS, "x * 2", "tan(x)", "E200", "Y[t] = sin(x) / cos(x)"),
    (ROWS, "x * 2", "sinh(x)", "E200", "Y[t] = (exp(x) - exp(-x)) / 2"),
    (ROWS, "x * 2", "relu6(x)", "E200", "Y[t] = clamp(x, 0, 6)"),
    (ROWS, "x * 2", "hardswish(x)", "E200", "Y[t] = x * clamp(x + 3, 0, 6) / 6"),
    (ROWS, "x * 2", "masked_fill(x, x > 0, 0)", "E200", "Y[t] = where(x > 0, 0, x)"),
    (ROWS, "x * 2", "fma(x, 2, 1)", "E200", "Y[t] = x * 2 + 1"),
    (ROWS, "  Y[t] = x * 2", "  Y[t] = x * 2\n}", "E101", ""),
    (ROWS, "  Y[t] = x * 2", "    Y[t] = x * 2", "E102", "Y[t] = x * 2"),
    (ROWS, "  waves 4", "  waves: 4", "E101", "waves 4"),
    (ROWS, "over t in T by 1", "parallel t in T by 1", "E103", "over t in T by 1"),
    (ATTENTION, "LENGTH by 64 to q", "LENGTH by 64 if j <= q", "E101", "each j in LENGTH by 64 to q"),
    (ATTENTION, "LENGTH by 64 to q", "LENGTH by 64 until q", "E101", "each j in LENGTH by 64 to q"),
    (ATTENTION, "carry m", "init m", "E103", "carry m : f32[q] = -3.4e38, l : f32[q] = 0, o : f32[q, D] = 0"),
    (ATTENTION, "where(q >= j, s, -inf)", "s.masked_fill(j > q, -inf)", "E101", "s = where(j > q, -inf, s)"),
    (ATTENTION, "where(q >= j, s, -inf)", "where(j > q, float('-inf'), s)", "E101", "s = where(j > q, -inf, s)"),
    (ATTENTION, "where(q >= j, s, -inf)", "tl.where(q[:, None] >= j[None, :], s, float(\"-inf\"))",
     "E101", "s = where(q >= j, s, -inf)"),
    (ATTENTION, "K[h / GROUP, j].T", "K[h / GROUP, j].mT", "E101", "s = scale * Q[h, q] @ K[h / GROUP, j].T"),
    (ATTENTION, "K[h / GROUP, j].T", "K[h, j].T", "E223", "s = scale * Q[h, q] @ K[h / 4, j].T"),
    (ATTENTION, "rowmax(s)", "tl.max(s, 1)", "E101", "n = max(m, rowmax(s))"),
    (ATTENTION, "bf16(p) @", "p.to(bf16) @", "E101", "o = o * r + bf16(p) @ V[h / GROUP, j]"),
    (ATTENTION, "O[h, q] = o / l", "O[h, q] = o / l[:, None]", "E101", "O[h, q] = o / l"),
    (CLAUSES, "C : f32 tile 32 x 32", "C : f32 32 x 32", "E101", "accumulate C : f32 tile 32 x 32"),
    (CLAUSES, "C : f32 tile 32 x 32", "C += A @ B", "E101", "accumulate C = A * B : f32"),
    (CLAUSES, "epilogue bias(b) | relu", "epilogue bias(b) + relu", "E101", "epilogue bias(b) | relu"),
    (CLAUSES, "epilogue bias(b) | relu", "epilogue bias(b), relu", "E101", "epilogue bias(b) | relu"),
    (CLAUSES, "epilogue bias(b) | relu", "epilogue bias(b) | ReLU", "E211", "epilogue bias(b) | relu"),
    (CLAUSES, "store C", "store C as bf16", "E101", "store C"),
    (CLAUSES, "store C", "store C[m, n]", "E101", "store C"),
    (CLAUSES, BLOCK, "block 128x128x64", "E101", BLOCK),
    (CLAUSES, BLOCK, "block 128 x 128 x 64", "E101", BLOCK),
    (CLAUSES, BLOCK, "block 128, 128, 64", "E101", BLOCK),
    (CLAUSES, BLOCK, "block (128, 128) step 64", "E101", BLOCK),
    (CLAUSES, BLOCK, "block 128 * 128 step 64", "E101", BLOCK),
    (CLAUSES, BLOCK, "tile 128 x 128 x 64", "E103", BLOCK),
    (CLAUSES, BLOCK, "block 128 x 128", "E101", BLOCK),
    (CLAUSES, "waves 4 x 2", "waves 4, 2", "E101", "waves 4 x 2"),
    (CLAUSES, "waves 4 x 2", "warpgroups 2", "E103", "waves 8"),
    (CLAUSES, "  store C", "  remap xcd 8\n  store C", "E101", "remap xcd(8)"),
    (CLAUSES, "  store C", "  grid persistent\n  store C", "E212", "grid persistent(304)"),
    (CLAUSES, "  store C", "  tail mask\n  store C", "E212", "tail masked"),
    (CLAUSES, "  store C", "  target mi300x\n  store C", "E219", "target gfx942"),
    (CLAUSES, "  store C", "  occupancy 2\n  store C", "E101", "occupancy 2 waves per simd"),
    (CLAUSES, "  store C", "  unroll\n  store C", "E101", "unroll 2"),
    (PRODUCT, SUM, "c = c + A[:, k] @ B[:, k].T", "E101", SUM),
    (PRODUCT, SUM, "c = c + einsum('mk,nk->mn', A, B)", "E101", SUM),
    (PRODUCT, SUM, "c = c + A[m, k] x B[n, k].T", "E101", SUM),
    (PRODUCT, "C[m, n] =", "C[:, n] =", "E101", "C[m, n] = c + bias[n]"),
    (PRODUCT, "C[m, n] = c + bias[n]", "if m < M and n < N: C[m, n] = c", "E103", "C[m, n] = c"),
    (PRODUCT, DIMS, "  dims M, N, K", "E101", "dims M = dynamic, N = dynamic, K = dynamic"),
    (PRODUCT, TENSOR, "global A : bf16", "E101", TENSOR),
    (PRODUCT, "kernel product", "kernel", "E101", "kernel first"),
    (ROWS, "x = X[t]", "x = X[]", "E101", "x = X[t]"),
    (ROWS, "x = X[t]", "x = X[threadIdx.x]", "E101", "x = X[t]"),
    (ROWS, "over t in T by 1", "over t < T", "E101", "over t in T by 1"),
    (ATTENTION, "m : f32[q] = -3.4e38", "m = -inf",
     "E101", "carry m : f32[q] = -inf, l : f32[q] = 0, o : f32[q, D] = 0"),
    (ROWS, "x * 2", "x << 1", "E101", "Y[t] = x * 2"),
    (ROWS, "x * 2", "x >> 2", "E101", "Y[t] = x / 4"),
    (ATTENTION, "shared K, V", "shared K, W", "E200", "shared K, V"),
    (PRODUCT, "shared A, B", "shared A, W", "E200", "shared A, B buffers 2"),
    (ATTENTION, "l : f32[q] = 0, ", "",
     "E227", "carry m : f32[q] = -3.4e38, o : f32[q, D] = 0, l : f32[q] = 0"),
    (ATTENTION, ", o : f32[q, D] = 0", "",
     "E227", "carry m : f32[q] = -3.4e38, l : f32[q] = 0, o : f32[q, D] = 0"),
    (ATTENTION, "O[h, q] = o", "O[h] = o", "E225", "O[h, q] = o / l"),
    (PRODUCT, "dims M = 256, N = 256, K = 256", "dims M = 256, N = 256", "E209", "dims M = 256, N = 256, K = dynamic"),
    (PRODUCT, "C : f32", "C : double", "E204", "global C : f32[M, N]"),
]  # fmt: skip
# The same, where the fix makes another number of lines: those that are new.
LINES = [
    (ROWS, "x = X[t]", "x = y = X[t]", "E101", ["y = X[t]", "x = y"]),
    (ROWS, "  global X : bf16[T, D]\n  global Y : bf16[T, D]", "  global X, Y : bf16[T, D]",
     "E101", ["global X : bf16[T, D]", "global Y : bf16[T, D]"]),
    (ROWS, "Y[t] = x * 2", "mean, var = rowmean(x), rowmean(x * x)\n  Y[t] = x - mean + var",
     "E103", ["mean = rowmean(x)", "var = rowmean(x * x)"]),
    (ATTENTION, "  carry m : f32[q] = -3.4e38, l : f32[q] = 0, o : f32[q, D] = 0\n", "",
     "E227", ["carry m : f32[q] = -inf, l : f32[q] = 0, o : f32[q, D] = 0"]),
]  # fmt: skip
# (spec, what it has, what is written instead, code, what is advised)
ADVISED = [
    (PRODUCT, "c + bias[n]", "-c if c < 0", "E101", "a choice is `where(x > 0, a, b)`"),
    (PRODUCT, "C[m, n] = c + bias[n]", "tl.store(C + m * N + n, c)", "E103", "a store is an equation: `C[m, n] = c`"),
    (PRODUCT, "C[m, n] = c + bias[n]", "atomicAdd(&C[m, n], c)",
     "E103", "blocks add by `T[q] += bf16(p) @ K[j]`; a sum over tiles is"),
    (PRODUCT, "C[m, n] = c + bias[n]", "pass", "E103", "a body has equations only, and every iteration executes"),
    (PRODUCT, OVER, "over m in range(M) by 128, n in range(N) by 128", "E209", "write `M`"),
    (PRODUCT, OVER, "over M by 128, N by 128", "E101", "write `over m in M by 128, n in N by 128`"),
    (PRODUCT, OVER, "m = blockIdx.x * 128", "E101", "blocks and lanes have no numbers: the name of an axis is"),
    (PRODUCT, "  each k in K by 64\n", "  c = zeros(m, n)\n  each k in K by 64\n",
     "E200", "a constant is just a number: `0`; the start value of a loop"),
    (PRODUCT, DIMS, "  dims M = 256, N = 256", "E209", "declare it: `dims K = ...`, with its size or `dynamic`"),
    (PRODUCT, TENSOR, "global A, B : bf16[M, K]", "E101", "a line declares one tensor: `global A : bf16[M, K]`"),
    (PRODUCT, TENSOR, "global A : double[M, K]", "E204", "the widest float is `f32`"),
    (PRODUCT, TENSOR, "global A : i64[M, K]", "E204", "indices and counts are `i32`"),
    (PRODUCT, TENSOR, "global A : bool[M, K]", "E204", "a mask is `i8`, with 0 and 1 (`mask.view(torch.int8)`)"),
    (PRODUCT, "kernel product", "fn product", "E103", "a file has `kernel NAME`, and its equations below"),
    (PRODUCT, "kernel product", "func product(A, B)", "E103", "a file has `kernel NAME`, and its equations below"),
    (PRODUCT, "kernel product", "template <int M>\nkernel product",
     "E103", "sizes are `dims` and `param`, which `-D NAME=VALUE`"),
    (PRODUCT, "shared A, B buffers 2", "shared A, B\n  buffers 2",
     "E103", "the number of buffers follows the operands: `shared A, B"),
    (PRODUCT, "shared A, B buffers 2", "shared A, B\n  num_stages 3",
     "E103", "the number of buffers follows the operands: `shared A, B"),
    (PRODUCT, "shared A, B buffers 2", "__shared__ float As[128][64];",
     "E103", "operands in LDS are named: `shared A, B buffers 2`"),
    (ROWS, "x * 2", "isnan(x)", "E200", "there is no test for NaN; maxima and minima ignore it, and"),
    (ROWS, "x * 2", "where(isnan(x), 0, x)", "E200", "there is no test for NaN; maxima and minima ignore it, and"),
    (ROWS, "x * 2", "any(x > 0)", "E200", "the number of elements for which it holds is"),
    (ROWS, "x * 2", "kthvalue(x, 3)", "E200", "the K-th largest of a row is `rowmin(topk(x, K))`"),
    (ROWS, "x * 2", "roll(x, 1)", "E200", "an index may be shifted: `X[t - 1]`; outside of the tensor"),
    (ROWS, "x * 2", "flip(x)", "E200", "an index may run backwards: `X[T - 1 - t]`"),
    (ROWS, "x * 2", "tril(x)", "E200", "compare the axes: `where(q >= j, s, -inf)`"),
    (ROWS, "x * 2", "quantize(x)", "E200", "write it out: `scale = rowmax(abs(x)) / 127`, and store `x"),
    (ROWS, "x * 2", "prod(x)", "E200", "reductions are `rowsum`, `rowmax`, `rowmin`, `rowmean` and"),
    (ROWS, "x * 2", "x * NaN", "E200", "there is no NaN to write"),
    (ROWS, "  Y[t] = x * 2", "  if (x > 0) Y[t] = x;",
     "E103", "element by element it is `y = where(x > 0, a, b)`; for"),
    (ROWS, "  Y[t] = x * 2", "  mean, var = rowmean(x), rowmean(x * x)\n  Y[t] = x - mean",
     "E103", "a line defines one value: `x = ...`"),
    (ROWS, "  waves 4", "  blockDim 256", "E103", "blocks and lanes have no numbers: `over m in M by 128`"),
    (ATTENTION, "where(q >= j, s, -inf)", "where(mask, s, -inf)",
     "E200", "a mask compares axes: `where(q >= j, s, -inf)`"),
    (ATTENTION, "m = n\n", "m = n\n    if causal:\n      s = 0\n",
     "E103", "element by element it is `y = where(x > 0, a, b)`; for"),
    (CLAUSES, "epilogue bias(b) | relu", "epilogue relu ** 2",
     "E101", "other formulas are a `function`: `function squared(x) = x *"),
    (CLAUSES, "epilogue bias(b) | relu", "bias b",
     "E103", "after the sum: `epilogue bias(b) | relu`, or in equations"),
    (CLAUSES, "  store C", "  schedule pingpong\n  store C", "E216", "write `ping_pong`"),
    (CLAUSES, "  store C", "  splitk 4\n  store C", "E103", "write `grid split_k(4)`"),
    (CLAUSES, "  store C", "  target H100\n  store C", "E219", "write `sm_90a`: H100 is a product"),
    (CLAUSES, "  store C", "  target sm_90\n  store C", "E219", "write `sm_90a`"),
    (CLAUSES, "  store C", "  target gfx1100\n  store C", "E219", "the targets are gfx90a, gfx942, gfx950, sm_90a"),
    (CLAUSES, "  store C", "  target cuda\n  store C", "E219", "the targets are gfx90a, gfx942, gfx950, sm_90a"),
    (CLAUSES, "  store C", "  dtype bf16\n  store C",
     "E103", "types are written where tensors and sums are declared:"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "has", "instead", "code", "line"), FIXED)
def test_the_fix_is_a_line_of_a_proven_spec(spec: str, has: str, instead: str, code: str, line: str) -> None:
    assert has in spec
    wrong = spec.replace(has, instead, 1)
    (diagnostic,) = overview(wrong, "first.tk")["diagnostics"]
    assert diagnostic["code"] == code
    pairs = zip(wrong.splitlines(), diagnostic["fixed"].splitlines(), strict=True)
    assert [new.strip() for old, new in pairs if old != new] == [line]
    assert not [d for d in load("first.tk", text=diagnostic["fixed"]).diagnostics if d.severity is Severity.ERROR]


@pytest.mark.parametrize(("spec", "has", "instead", "code", "lines"), LINES)
def test_the_fix_is_lines_of_a_proven_spec(spec: str, has: str, instead: str, code: str, lines: list[str]) -> None:
    assert has in spec
    text = wrong = spec.replace(has, instead, 1)
    while found := overview(text, "first.tk")["diagnostics"]:
        assert found[0]["code"] == code
        text = found[0]["fixed"]
    assert [new.strip() for new in text.splitlines() if new not in wrong.splitlines()] == lines


@pytest.mark.parametrize(("spec", "has", "instead", "code", "part"), ADVISED)
def test_the_message_has_the_word_of_a_spec(spec: str, has: str, instead: str, code: str, part: str) -> None:
    assert has in spec
    diagnostic = overview(spec.replace(has, instead, 1), "first.tk")["diagnostics"][0]
    assert diagnostic["code"] == code
    assert part in " ".join(
        " ".join([diagnostic["message"], *diagnostic["notes"], (diagnostic["fix"] or {"text": ""})["text"]]).split()
    )


# What torch has for a function that specs write out.
TORCH = {
    "square": torch.square,
    "relu6": torch.nn.functional.relu6,
    "hardswish": torch.nn.functional.hardswish,
    "hardsigmoid": torch.nn.functional.hardsigmoid,
    "hardtanh": torch.nn.functional.hardtanh,
    "leaky_relu": torch.nn.functional.leaky_relu,
    "elu": torch.nn.functional.elu,
    "softplus": torch.nn.functional.softplus,
    "logsigmoid": torch.nn.functional.logsigmoid,
    "mish": torch.nn.functional.mish,
    "softsign": torch.nn.functional.softsign,
    "erfc": torch.special.erfc,
    "sign": torch.sign,
    "log10": torch.log10,
    "exp10": lambda x: 10**x,
    "tan": torch.tan,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "frac": torch.frac,
    "fma": lambda a, b, c: a * b + c,
    "masked_fill": torch.masked_fill,
    "dot": lambda a, b, c=0: a @ b + c,
    "matmul": torch.matmul,
    "mm": torch.mm,
    "bmm": torch.bmm,
}
NUMBERS = torch.tensor([-7.25, -3.0, -1.5, -0.625, 0.0, 0.5, 1.0, 2.75, 3.0, 6.5, 9.0], dtype=torch.float64)
WORDS = {
    **{
        name: getattr(torch, name)
        for name in ("abs", "exp", "exp2", "expm1", "log", "log1p", "erf", "tanh", "sin", "cos", "trunc")
    },
    "where": lambda c, a, b: torch.where(
        c, torch.as_tensor(a, dtype=torch.float64), torch.as_tensor(b, dtype=torch.float64)
    ),
    "clamp": torch.clamp,
    "max": lambda a, b: a.clamp(min=b),
    "min": lambda a, b: a.clamp(max=b),
}


@pytest.mark.parametrize(("word", "count"), WRITTEN_OUT)
def test_a_function_that_is_written_out_is_that_of_torch(word: str, count: int) -> None:
    """The expression that a fix writes, evaluated by Python with torch's functions."""
    if word in ("dot", "matmul", "mm", "bmm"):
        given = [torch.arange(4.0).reshape(1, 2, 2) + i for i in range(count)]
        given = given if word == "bmm" else [g[0] for g in given]
    elif word == "masked_fill":
        given = [NUMBERS, NUMBERS > 1, torch.tensor(-3.0, dtype=torch.float64)]
    elif word == "leaky_relu" and count == 2:
        given = [NUMBERS, torch.tensor(0.25, dtype=torch.float64)]
    else:
        given = [NUMBERS.abs() + 0.5 if word == "log10" else NUMBERS + i for i in range(count)]
    names = ["abc"[i] for i in range(count)]
    text = written_out(word, names)
    assert text is not None
    expected = TORCH[word](given[0], float(given[1])) if (word, count) == ("leaky_relu", 2) else TORCH[word](*given)
    found = eval(text, {**WORDS, **dict(zip(names, given, strict=True))})
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-9)


def test_the_arguments_of_a_function_that_is_written_out_keep_their_order() -> None:
    assert written_out("square", ["x + 1"]) == "((x + 1) * (x + 1))"
    assert written_out("masked_fill", ["s", "j > q", "-inf"]) == "where(j > q, -inf, s)"
    assert written_out("square", ["x", "y"]) is None
