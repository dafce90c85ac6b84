"""Habits from Python, torch and CUDA: each has a message that names the word of a spec, most a fix that works."""

from __future__ import annotations

import pytest
from small_specs import PRODUCT, ROWS

from tkgen.overview import overview

# (spec, what it has, what is written instead, code, a part of what is printed)
FIXED = [
    (PRODUCT, "c = c + A", "c += A", "E101", "write `c = c + ...`"),
    (PRODUCT, "c + bias[n]", "c + bias", "E225", "write `bias[n]`: the part for this tile"),
    (PRODUCT, "c + bias[n]", "c + bias[None, n]", "E223", "write `bias[n]`: axes broadcast by name"),
    (PRODUCT, "c + bias[n]", "c + bias[m]", "E223", "write `n`, which runs over `N`"),
    (PRODUCT, "c = c + A[m, k] @ B[n, k].T", "c = c + A @ B.T", "E225", "write `A[m, k]` and `B[n, k]`"),
    (PRODUCT, "c = c + A[m, k]", "c = A[m, k]", "E227", "add it up: `c = c + ...`"),
    (PRODUCT, "B[n, k].T", "B[n, k]", "E224", "write `B[n, k].T`"),
    (PRODUCT, "B[n, k].T", "B[k, n]", "E223", "write `B[n, k].T`, in the order of `B[N, K]`"),
    (PRODUCT, "A[m, k] @", "A[k, m] @", "E223", "write `A[m, k]`, in the order of `A[M, K]`"),
    (PRODUCT, "A[m, k] @", "A[k, m].T @", "E223", "write `A[m, k]`, in the order of `A[M, K]`"),
    (PRODUCT, "B : bf16[N, K]", "B : bf16[K, N]", "E223", "write `B[k, n]`, in the order of `B[K, N]`"),
    (PRODUCT, "C[m, n] =", "C[n, m] =", "E223", "write `C[m, n]`, in the order of `C[M, N]`"),
    (PRODUCT, "C[m, n] =", "C[m * 128, n] =", "E223", "write `m`: the axis counts its tiles"),
    (PRODUCT, "C[m, n] =", "C =", "E202", "write `C[m, n]`: the part for this tile"),
    (PRODUCT, "A : bf16", "A : bfloat16", "E204", "`bfloat16` is called `bf16` here"),
    (PRODUCT, "C : f32", "C : float32", "E204", "`float32` is called `f32` here"),
    (ROWS, "x * 2", "x - max(x)", "E200", "`rowmax` for a row; for a column it is `colmax`"),
    (ROWS, "x * 2", "x / sum(x)", "E200", "it is called `rowsum`"),
    (ROWS, "x * 2", "x / sum(x, -1)", "E200", "write `rowsum(x)`"),
    (ROWS, "x * 2", "x / rowsum(x, 1)", "E200", "write `rowsum(x)`"),
    (ROWS, "x * 2", "maximum(x, 0)", "E200", "it is called `max`"),
    (ROWS, "x * 2", "max(x, 0, 1)", "E200", "write `max(max(x, 0), 1)`"),
    (ROWS, "x * 2", "clamp(x, 0)", "E200", "write `max(x, 0)`, or `min(x, 0)`"),
    (ROWS, "x * 2", "(x > 0) * x", "E229", "write `where(x > 0, 1, 0)`"),
    (ROWS, "x * 2", "where(x, x, 1)", "E229", "write `(x != 0)`"),
    (ROWS, "x * 2", "min(x, INFINITY)", "E200", "`INFINITY` is written `inf`"),
    (ROWS, "x * 2", "where(True == 1, x, 0)", "E200", "`True` is written `1`"),
    (ROWS, "x * 2", "X(t)", "E200", "write `X[t]`"),
    (ROWS, "x * 2", "x[t]", "E200", "remove the index"),
    (ROWS, "Y[t] = x", "Y[t] += x", "E226", "store others with `=`"),
    (ROWS, "dims T = 64, D", "T = 64\n  dims D", "E209", "declare it: `dims T = 64`"),
    (ROWS, "  Y[t] = x * 2", "  x *= 2 + 1\n  Y[t] = x", "E101", "x = x * (2 + 1)"),
    (ROWS, "  Y[t] = x * 2", "  x -= 2\n  Y[t] = x", "E101", "there is no `-=`"),
]
# What the grammar refuses: (spec, what it has, what is written instead, code, the line that the fix makes of it).
TRANSLATED = [
    (ROWS, "x * 2", "torch.relu(x)", "E101", "Y[t] = relu(x)"),
    (ROWS, "x * 2", "F.gelu(x)", "E101", "Y[t] = gelu(x)"),
    (ROWS, "x * 2", "tl.exp(x)", "E101", "Y[t] = exp(x)"),
    (ROWS, "x * 2", "std::max(x, 0.0f)", "E101", "Y[t] = max(x, 0.0)"),
    (ROWS, "x * 2", "x / x.sum(-1)", "E101", "Y[t] = x / rowsum(x)"),
    (ROWS, "x * 2", "x - x.mean(-1, keepdim=True)", "E101", "Y[t] = x - rowmean(x)"),
    (ROWS, "x * 2", "x - x.max(dim=-1)", "E101", "Y[t] = x - rowmax(x)"),
    (ROWS, "x * 2", "x / torch.sum(x, dim=-1)", "E101", "Y[t] = x / rowsum(x)"),
    (ROWS, "x * 2", "x.exp()", "E101", "Y[t] = exp(x)"),
    (ROWS, "x * 2", "(x * 2).to(torch.bfloat16)", "E101", "Y[t] = bf16((x * 2))"),
    (ROWS, "x * 2", "x.float()", "E101", "Y[t] = f32(x)"),
    (ROWS, "x * 2", "clamp(x, min=0)", "E101", "Y[t] = max(x, 0)"),
    (ROWS, "x * 2", "gelu(x, approximate='tanh')", "E101", "Y[t] = gelu_tanh(x)"),
    (ROWS, "x * 2", "x * rowsum(x)[:, None]", "E101", "Y[t] = x * rowsum(x)"),
    (ROWS, "x * 2", "x[:, None]", "E101", "Y[t] = x"),
    (ROWS, "x * 2", "x * 1e-5f", "E101", "Y[t] = x * 1e-5"),
    (ROWS, "x * 2", "x * 1.", "E101", "Y[t] = x * 1.0"),
    (ROWS, "x * 2", "x * .5", "E101", "Y[t] = x * 0.5"),
    (ROWS, "x * 2", "x + 0x10", "E101", "Y[t] = x + 16"),
    (ROWS, "x * 2", "2x", "E101", "Y[t] = 2 * x"),
    (ROWS, "x * 2", "x × 2", "E101", "Y[t] = x * 2"),
    (ROWS, "x * 2", "x > 0 ? x : 0", "E101", "Y[t] = where(x > 0, x, 0)"),
    (ROWS, "x * 2", "x if x > 0 else 0", "E101", "Y[t] = where(x > 0, x, 0)"),
    (ROWS, "x * 2", "where(x > 0 && x < 1, x, 0)", "E101", "Y[t] = where(x > 0 and x < 1, x, 0)"),
    (ROWS, "x * 2", "where((x > 0) | (x < -1), x, 0)", "E101", "Y[t] = where((x > 0) or (x < -1), x, 0)"),
    (ROWS, "x * 2", "where(!(x > 0), x, 0)", "E101", "Y[t] = where(not (x > 0), x, 0)"),
    (ROWS, "x * 2", "where(0 < x < 1, x, 0)", "E101", "Y[t] = where(0 < x and x < 1, x, 0)"),
    (ROWS, "x * 2", "where(x = 0, 1, x)", "E101", "Y[t] = where(x == 0, 1, x)"),
    (ROWS, "x * 2", "where(x is not 0, 1, x)", "E101", "Y[t] = where(x != 0, 1, x)"),
    (ROWS, "x * 2", "x ** 2", "E101", "Y[t] = (x * x)"),
    (ROWS, "x * 2", "x * rowmean(x**2) ** -0.5", "E101", "Y[t] = x * rsqrt(rowmean((x * x)))"),
    (ROWS, "x * 2", "max(x, -float('inf'))", "E101", "Y[t] = max(x, -inf)"),
    (ROWS, "x * 2", "x // 2", "E101", "Y[t] = x / 2"),
    (ROWS, "x * 2", "x * 2  // twice", "E101", "Y[t] = x * 2  # twice"),
    (ROWS, "x * 2", "exp x", "E101", "Y[t] = exp(x)"),
    (ROWS, "x * 2", "x * 2;", "E101", "Y[t] = x * 2"),
    (ROWS, "X[t]", "X[t, :]", "E101", "x = X[t]"),
    (ROWS, "X[t]", "X[t, ...]", "E101", "x = X[t]"),
    (ROWS, "x = X[t]", "float x = X[t]", "E103", "x = X[t]"),
    (ROWS, "x = X[t]", "const x = X[t]", "E103", "x = X[t]"),
    (ROWS, "x = X[t]", "x := X[t]", "E103", "x = X[t]"),
    (ROWS, "x = X[t]", "x : f32 = X[t]", "E103", "x = X[t]"),
    (ROWS, "Y[t] = x * 2", "store(Y[t], x * 2)", "E101", "Y[t] = x * 2"),
    (ROWS, "Y[t] = x * 2", "Y(t) = x * 2", "E103", "Y[t] = x * 2"),
    (ROWS, "kernel rows", "def rows(x, y):", "E103", "kernel rows"),
    (ROWS, "kernel rows", "__global__ void rows(float *x) {", "E103", "kernel rows"),
    (ROWS, "kernel rows", "import torch\nkernel rows", "E103", ""),
    (ROWS, "kernel rows", "@triton.jit\nkernel rows", "E101", ""),
    (ROWS, "X : bf16[T, D]", "X : torch.bfloat16[T, D]", "E101", "global X : bf16[T, D]"),
    (ROWS, "X : bf16[T, D]", "bf16 X[T][D]", "E101", "global X : bf16[T, D]"),
    (ROWS, "X : bf16[T, D]", "X : bf16(T, D)", "E101", "global X : bf16[T, D]"),
    (ROWS, "over t in T by 1", "over t in T step 1", "E101", "over t in T by 1"),
    (ROWS, "over t in T by 1", "over t in T by 1:", "E101", "over t in T by 1"),
    (ROWS, "dims T = 64, D = 2048", "dims T: 64, D: 2048", "E101", "dims T = 64, D = 2048"),
    (ROWS, "dims T = 64, D = 2048", "const T = 64, D = 2048", "E103", "dims T = 64, D = 2048"),
    (ROWS, "D = 2048", "D = 2 ** 11", "E101", "dims T = 64, D = 2048"),
    (ROWS, "waves 4", "waves = 4", "E108", "waves 4"),
    (ROWS, "waves 4", "num_warps 4", "E103", "waves 4"),
    (PRODUCT, "each k in K by 64", "for k in range(0, K, 64):", "E103", "each k in K by 64"),
    (PRODUCT, "each k in K by 64", "each k in K", "E224", "each k in K by 64"),
    (PRODUCT, "each k in K by 64", "each k in range(0, K, 64)", "E209", "each k in K by 64"),
    (PRODUCT, "B[n, k].T", "B[n, k].transpose(0, 1)", "E101", "c = c + A[m, k] @ B[n, k].T"),
    (PRODUCT, "B[n, k].T", "B[n, k]^T", "E101", "c = c + A[m, k] @ B[n, k].T"),
    (PRODUCT, "c + bias[n]", "relu(c) ** 2 + bias[n]", "E101", "C[m, n] = (relu(c) * relu(c)) + bias[n]"),
    (PRODUCT, "c + bias[n]", "(c + bias[n]).relu()", "E101", "C[m, n] = relu((c + bias[n]))"),
    (PRODUCT, "C[m, n] =", "C[m][n] =", "E101", "C[m, n] = c + bias[n]"),
    (PRODUCT, "C[m, n] =", "C[m:m + 128, n] =", "E101", "C[m, n] = c + bias[n]"),
    (PRODUCT, "m in M by 128, n", "m in M by 128 n", "E101", "over m in M by 128, n in N by 128"),
    (PRODUCT, "shared A, B buffers 2", "shared A, B, buffers=2", "E101", "shared A, B buffers 2"),
    (PRODUCT, "shared A, B buffers 2", "shared A B num_stages=2", "E101", "shared A, B buffers 2"),
]
ADVISED = [
    (ROWS, "  Y[t] = x * 2", "  if x > 0\n    Y[t] = x", "E103", "`y = where(x > 0, a, b)`"),
    (ROWS, "  x = X[t]", "  for i in range(3)\n    x = X[t]", "E103", "`each k in K by 64`"),
    (ROWS, "  Y[t] = x * 2", "  return x * 2", "E103", "a result is stored: `C[m, n] = c`"),
    (ROWS, "x * 2", "softmax(x)", "E200", "`e / rowsum(e)`"),
    (ROWS, "x * 2", "softmax(x, dim=-1)", "E101", "write `Y[t] = softmax(x)`"),
    (ROWS, "x * 2", "layernorm(x)", "E200", "`d * rsqrt(rowmean(d * d) + 1e-5)`"),
    (ROWS, "x * 2", "leaky_relu(x)", "E200", "`where(x > 0, x, 0.01 * x)`"),
    (ROWS, "x * 2", 'f"{x}"', "E101", "quoted text is only for `include`"),
    (ROWS, "x * 2", "x << 1", "E101", "there is no `<<` and no `>>`: multiply by a power of two"),
    (ROWS, "x = X[t]", "x = y = X[t]", "E101", "a line defines one value"),
    (ROWS, "x = X[t]", "x = tl.load(X)", "E101", "functions and types have no prefix"),
    (ROWS, "waves 4", "threads 256", "E103", "`waves 4`"),
    (ROWS, "x * 2", "fmod(x, 2)", "E200", "write `a % b`: the remainder, with the sign of `b`"),
]


def test_the_specs_are_right_as_they_are() -> None:
    for spec in (PRODUCT, ROWS):
        assert overview(spec, "habit.tk")["proven"]


@pytest.mark.parametrize(("spec", "has", "instead", "code", "part"), FIXED)
def test_the_fix_of_a_habit_leaves_a_proven_spec(spec: str, has: str, instead: str, code: str, part: str) -> None:
    found = overview(spec.replace(has, instead, 1), "habit.tk")
    (diagnostic,) = found["diagnostics"]
    assert diagnostic["code"] == code
    assert part in " ".join(diagnostic["rendered"].split())
    assert overview(diagnostic["fixed"], "habit.tk")["proven"]


@pytest.mark.parametrize(("spec", "has", "instead", "code", "line"), TRANSLATED)
def test_a_statement_of_another_language_is_translated(spec: str, has: str, instead: str, code: str, line: str) -> None:
    assert has in spec
    wrong = spec.replace(has, instead, 1)
    (diagnostic,) = overview(wrong, "habit.tk")["diagnostics"]
    assert diagnostic["code"] == code
    fixed = diagnostic["fixed"].splitlines()
    changed = [new.strip() for old, new in zip(wrong.splitlines(), fixed, strict=True) if old != new]
    assert changed == [line]
    assert overview(diagnostic["fixed"], "habit.tk")["proven"]


@pytest.mark.parametrize(("spec", "has", "instead", "code", "part"), ADVISED)
def test_a_habit_names_the_word_of_a_spec(spec: str, has: str, instead: str, code: str, part: str) -> None:
    found = overview(spec.replace(has, instead, 1), "habit.tk")
    diagnostic = found["diagnostics"][0]
    assert diagnostic["code"] == code
    assert part in " ".join(diagnostic["rendered"].replace("\n          ", " ").split())
