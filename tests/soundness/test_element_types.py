"""Element types of products: any pair of them is right or refused with a reason, and so are numbers beside factors.

An i32 scale of a step was read as the bits of a float, one of i8 did not compile; a factor made i8 ended in a KeyError.
"""

from __future__ import annotations

import re
from itertools import product

import pytest
import torch

import tkgen
from tkgen.diagnostics import Severity, SpecError
from tkgen.ir.tensors import DType

AMD = ("gfx90a", "gfx942", "gfx950")
TYPES = [d.spelling for d in DType] + ["fp8", "bf8"]
MADE = ("bf16", "f16", "f32", "i8", "i32", "e4m3fn", "e4m3fnuz", "i4")
INTEGERS = {"i8": torch.int8, "i32": torch.int32}

BLOCKSPARSE = """kernel blocksparse
  dims M = 128, N = 128, K = 128, MB = M / 64, NB = N / 64, KB = K / 32, B = 2
  global A : bf16[M, K]
  global W : bf16[N, K]
  global MASK : {dtype}[MB, NB, KB]
  global ROW : f32[M]
  global OF : {dtype}[B]
  global C : f32[B, M, N]
  over b in B, m in M by 64, n in N by 64
  waves 2 x 2
  shared A, W
  target {target}
  each k in K by 32
    p = A[m, k] @ W[n, k].T
    c = c + MASK[m / 64, n / 64, k / 32] * p
  C[b, m, n] = c * ROW[m] + OF[b]
"""
PAIR = """kernel pair
  dims M = 64, N = 64, K = 256
  global A : {a}[M, K]
  global W : {w}[N, K]
  global C : {out}[M, N]
  over m in M by 64, n in N by 64
  {how}
  target {target}
  each k in K by 128
    c = c + A[m, k] @ {right}.T
  C[m, n] = c
"""
ON_HOPPER = """shared A, W buffers 2 via direct
  role producer waves 0..3
    load A, W
  role consumer waves 4..7 as 4 x 1
    accumulate c : f32 tile 16 x 64"""


def pair(a: str, w: str, made: str, target: str) -> str:
    """A product of these types, of W `made` another one where that is said."""
    how = ON_HOPPER if target == "sm_90a" else "waves 2 x 2\n  shared A, W"
    right = f"{made}(W[n, k])" if made else "W[n, k]"
    return PAIR.format(a=a, w=w, right=right, how=how, target=target, out="i32" if a == "i8" else "f32")


def refusal(text: str) -> list[str]:
    """The errors that a spec is refused with; none where it is accepted and C++ is generated."""
    try:
        spec = tkgen.load(text).check()
    except SpecError as error:
        found = [d for d in error.diagnostics if d.severity is Severity.ERROR]
        assert found and all(d.message and d.primary for d in found)
        return [d.message for d in found]
    assert spec.source.text if spec.target.name != "sm_90a" else spec.text
    return []


@pytest.mark.parametrize(("dtype", "target"), [("i8", "gfx90a"), ("i32", "gfx942"), ("i8", "gfx950")])
def test_integers_scale_steps_and_sums(dtype: str, target: str) -> None:
    build = tkgen.load(BLOCKSPARSE.format(dtype=dtype, target=target)).check().build()
    a, w = (torch.randint(-3, 4, (128, 128)).bfloat16() for _ in range(2))
    mask, of = (torch.randint(-3, 4, shape, dtype=INTEGERS[dtype]) for shape in ((2, 2, 4), (2,)))
    row = torch.randint(-3, 4, (128,)).float()
    found = tkgen.run(build, a, w, mask, row, of)
    spread = mask.double().repeat_interleave(64, 0).repeat_interleave(64, 1).repeat_interleave(32, 2)
    meant = torch.einsum("mk,nk,mnk->mn", a.double(), w.double(), spread) * row.double()[:, None]
    assert torch.equal(found.double(), meant + of.double()[:, None, None])


@pytest.mark.parametrize(
    ("made", "w", "target"), [("f32", "i4", "gfx90a"), ("f32", "u4", "gfx942"), ("f32", "i8", "gfx950")]
)
def test_weights_of_integers_are_made_floats(made: str, w: str, target: str) -> None:
    build = tkgen.load(pair(made, w, made, target)).build()
    least, most = DType[w.upper()].range
    a = torch.randint(-3, 4, (64, 256)).float()
    weights = torch.randint(least, most + 1, (64, 256), dtype=torch.int8)
    found = tkgen.run(build, a, weights if w == "i8" else packed(weights))
    assert torch.equal(found.double(), a.double() @ weights.double().T)


def packed(codes: torch.Tensor) -> torch.Tensor:
    """Two codes of 4 bits in a byte, the first one in its low half."""
    low, high = (codes[:, n::2].to(torch.uint8) & 15 for n in (0, 1))
    return low | high << 4


@pytest.mark.parametrize("target", [*AMD, "sm_90a"])
def test_factors_that_are_made_of_integers_are_right_or_refused(target: str) -> None:
    """Of i8 and 8-bit floats nothing is made on its way to a product: the message says so."""
    accepted = set()
    for made, w in product(MADE, ("i4", "u4", "i8")):
        why = refusal(pair(made, w, made, target))
        accepted |= {(made, w)} if not why else set()
        if made in ("i8", "i32") and (made, w) != ("i8", "i8"):
            assert re.search(rf"`W` becomes {made} on its way to a product|has no i|not have", why[0]), why
    types = ("bf16", "f16", "f32") if target in AMD else ("bf16", "f16")
    assert accepted == {(m, w) for m in types for w in ("i4", "u4", "i8")}


@pytest.mark.slow
@pytest.mark.parametrize("target", [*AMD, "sm_90a"])
def test_every_pair_of_types_is_accepted_or_refused(target: str) -> None:
    accepted = {
        (a, w, made) for a in TYPES for w in TYPES for made in ("", *MADE) if not refusal(pair(a, w, made, target))
    }
    assert ("bf16", "bf16", "") in accepted and ("bf16", "f16", "") not in accepted
