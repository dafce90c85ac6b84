"""What is said of products: the help is about the tensor as it is declared, and a refusal names the true reason."""

from __future__ import annotations

import re

import pytest

import tkgen
from tkgen.diagnostics import Diagnostic, Severity, SpecError

BATCHED = """kernel batched
  dims B = 2, M = 128, N = 128, K = 64
  global A : bf16[{a}]
  global W : bf16[N, K]
  global Y : f32[B, M, N]
  over b in B, m in M by 64, n in N by 64
  waves 2 x 2
  shared A, W
  each k in K by 64
    acc = acc + {left} @ W[n, k].T
  Y[b, m, n] = acc
"""
CLAUSES = """kernel clauses
  dims D = 128, E = 128
  global A : bf16[{a}]
  global B : bf16[{b}]
  global C : f32[{c}]
  block 128 x 128 step 64
  waves 2 x 2
  shared A, B
  accumulate C = A * B : f32 tile 32 x 32
  store C
"""
TYPES = """kernel types
  dims M = 128, N = 128, K = 128
  global A : bf16[M, K]
  global B : f16[N, K]
  global C : f32[M, N]
  over m in M by 128, n in N by 128
  shared A, B buffers 2 via direct
  role producer waves 0..3
    load A, B
  role consumer waves 4..11 as 8 x 1
    accumulate c : f32 tile 16 x 128
  target sm_90a
  each k in K by 64
    c = c + A[m, k] @ B[n, k].T
  C[m, n] = c
"""


def refused(text: str) -> Diagnostic:
    """The first error of a spec."""
    with pytest.raises(SpecError) as caught:
        tkgen.load(text).check()
    return next(d for d in caught.value.diagnostics if d.severity is Severity.ERROR)


@pytest.mark.parametrize(
    ("shape", "index"), [("B, K, M", "A[b, k, m]"), ("K, B, M", "A[k, b, m]"), ("K, M", "A[k, m]")]
)
def test_the_help_for_slow_reads_keeps_the_index_of_a_batch(shape: str, index: str) -> None:
    """W201 said `[M, K]` of a tensor of three dimensions; what it says is a spec without the warning."""
    (slow,) = tkgen.load(BATCHED.format(a=shape, left=f"{index}.T")).diagnostics
    assert slow.code == "W201" and slow.fix
    told = re.search(r"`global A : bf16\[(.*?)\]` and `(.*?)` in the product", slow.fix.text)
    assert told, slow.fix
    assert not [*tkgen.load(BATCHED.format(a=told[1], left=told[2])).diagnostics]


@pytest.mark.parametrize(
    ("a", "b", "c", "code"),
    [("D, D", "E, D", "D, E", "E205"), ("E, D", "D, D", "E, D", "E205"), ("D, E", "D, E", "D, D", "E209")],
)
def test_clauses_do_not_guess_which_dimension_is_which(a: str, b: str, c: str, code: str) -> None:
    error = refused(CLAUSES.format(a=a, b=b, c=c))
    assert error.code == code and error.fix and "by indices" in error.fix.text


def test_what_is_no_matrix_instruction_is_called_so_on_every_target() -> None:
    assert refused(TYPES).message == "one product of bf16 and f16: no matrix instruction takes both"


def test_a_tensor_that_is_only_read_is_not_said_to_be_written() -> None:
    spec = BATCHED.format(a="M, K", left="A[m, k]").replace("global W", "global V : f32[N, B]\n  global W")
    error = refused(spec.replace("= acc\n", "= acc + V[n, b]\n"))
    assert error.code == "E230" and "`V[n, b]`" in error.message and "written" not in error.message
