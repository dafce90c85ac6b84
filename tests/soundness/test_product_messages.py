"""Messages on products: the help is about the tensor as it is declared, and a refusal names the true reason."""

from __future__ import annotations

import re

import pytest
import torch

import tkgen
from tkgen.diagnostics import Diagnostic, Severity, SpecError
from tkgen.packing import pack

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
    assert error.code == code and error.fix and "with indices" in error.fix.text


def test_what_is_no_matrix_instruction_is_called_so_on_every_target() -> None:
    assert refused(TYPES).message == "one product of bf16 and f16: no matrix instruction accepts both"


def test_a_tensor_that_is_only_read_is_not_said_to_be_written() -> None:
    spec = BATCHED.format(a="M, K", left="A[m, k]").replace("global W", "global V : f32[N, B]\n  global W")
    error = refused(spec.replace("= acc\n", "= acc + V[n, b]\n"))
    assert error.code == "E230" and "`V[n, b]`" in error.message and "written" not in error.message


GRAM = """kernel gram
  dims M = 128, K = 64
  global A : bf16[M, K]
  global Y : f32[M, M]
  over m in M by 64, n in M by 64
  waves 2 x 2
  shared A
  each k in K by 64
    y = y + A[m, k] @ A[n, k].T
  Y[m, n] = y
"""


def test_rows_times_rows_of_one_tensor_are_two_tensors_that_a_launch_may_pass_once() -> None:
    error = refused(GRAM)
    assert error.code == "E230" and error.fix is not None
    assert error.fix.text == "declare it as two tensors; a launch may pass the same tensor for both"
    two = GRAM.replace("  global Y", "  global B : bf16[M, K]\n  global Y").replace("A[n, k]", "B[n, k]")
    rows = torch.randint(-4, 5, (128, 64), generator=torch.Generator().manual_seed(0)).bfloat16()
    found = tkgen.run(tkgen.load(two.replace("shared A", "shared A, B")).check().build(), rows, rows)
    assert isinstance(found, torch.Tensor) and found.equal(rows.float() @ rows.float().T)


WEIGHTS = """kernel weights_of_4_bits
  dims M = 128, N = 128, K = 128
  global A : i8[M, K]
  global W : {stored}[N, K]
  global C : i32[M, N]
  over m in M by 128, n in N by 128
  waves 2 x 2
  shared A, W
  each k in K by 128
    c = c + {A} @ {W}.T
  C[m, n] = c
"""


def test_both_ways_out_for_weights_of_4_bits_times_integers_are_right() -> None:
    """`i8(W)` is refused: what is computed of a factor is a float."""
    error = refused(WEIGHTS.format(stored="i4", A="A[m, k]", W="i8(W[n, k])"))
    assert error.code == "E230" and "store `W` as i8, or convert both factors to bf16" in error.message
    generator = torch.Generator().manual_seed(0)
    a, w = (torch.randint(-8, 8, (128, 128), generator=generator, dtype=torch.int8) for _ in "aw")
    meant = a.int() @ w.int().T
    for stored, left, right, weights in (
        ("i8", "A[m, k]", "W[n, k]", w), ("i4", "bf16(A[m, k])", "bf16(W[n, k])", pack(w, "i4")),
    ):  # fmt: skip
        text = WEIGHTS.format(stored=stored, A=left, W=right)
        found = tkgen.run(tkgen.load(text).check().build(), a, weights)
        assert isinstance(found, torch.Tensor) and found.equal(meant), stored
