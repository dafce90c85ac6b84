"""Habits from Python, torch and CUDA: each has a message that names the word of a spec, most a fix that works."""

from __future__ import annotations

import pytest

from tkgen.overview import overview

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
ROWS = """kernel rows
  dims T = 64, D = 2048
  global X : bf16[T, D]
  global Y : bf16[T, D]
  over t in T by 1
  waves 4
  x = X[t]
  Y[t] = x * 2
"""
# (spec, what it has, what is written instead, code, a part of what is printed)
FIXED = [
    (PRODUCT, "c = c + A", "c += A", "E101", "write `c = c + ...`"),
    (PRODUCT, "c + bias[n]", "c + bias", "E225", "write `bias[n]`: the part that belongs to the tile"),
    (PRODUCT, "A : bf16", "A : bfloat16", "E204", "`bfloat16` is called `bf16` here"),
    (PRODUCT, "C : f32", "C : float32", "E204", "`float32` is called `f32` here"),
    (ROWS, "x * 2", "x - max(x)", "E200", "`rowmax` for that of a row; of a column it is `colmax`"),
    (ROWS, "x * 2", "x / sum(x)", "E200", "it is called `rowsum`"),
    (ROWS, "x * 2", "maximum(x, 0)", "E200", "it is called `max`"),
    (ROWS, "  Y[t] = x * 2", "  x *= 2 + 1\n  Y[t] = x", "E101", "x = x * (2 + 1)"),
    (ROWS, "  Y[t] = x * 2", "  x -= 2\n  Y[t] = x", "E101", "there is no `-=`"),
]
ADVISED = [
    (PRODUCT, "B : bf16[N, K]", "B : bf16[K, N]", "E223", "in the order of `B[K, N]`; of a factor, add or drop `.T`"),
    (PRODUCT, "c + bias[n]", "relu(c) ** 2", "E101", "multiply for whole powers, `x * x`"),
    (ROWS, "  Y[t] = x * 2", "  if x > 0\n    Y[t] = x", "E103", "`y = where(x > 0, a, b)`"),
    (ROWS, "  x = X[t]", "  for i in range(3)\n    x = X[t]", "E103", "`each k in K by 64`"),
    (ROWS, "x * 2", "x if x > 0 else 0", "E101", "a choice is `where(x > 0, a, b)`"),
    (ROWS, "x * 2", "softmax(x)", "E200", "`e / rowsum(e)`"),
    (ROWS, "x * 2", "torch.exp(x)", "E101", "functions have no prefix: `exp(x)`"),
    (ROWS, "X[t]", "X[t, :]", "E101", "leave an index out to take its dimension whole"),
    (ROWS, "x * 2", "x // 2", "E101", "division is `/`"),
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


@pytest.mark.parametrize(("spec", "has", "instead", "code", "part"), ADVISED)
def test_a_habit_names_the_word_of_a_spec(spec: str, has: str, instead: str, code: str, part: str) -> None:
    found = overview(spec.replace(has, instead, 1), "habit.tk")
    diagnostic = found["diagnostics"][0]
    assert diagnostic["code"] == code
    assert part in " ".join(diagnostic["rendered"].replace("\n          ", " ").split())
