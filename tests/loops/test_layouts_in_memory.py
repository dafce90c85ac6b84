"""Tensors of fused matmuls that lie in memory in another order than their tiles, or where tables say, are refused."""

from __future__ import annotations

import pytest

import tkgen
from tkgen.diagnostics import SpecError

TEXT = """
kernel attention
  dims HEADS = 8, LENGTH = 256, KEYS = 256, D = 64
  global Q : bf16[HEADS, LENGTH, D]
  global K : bf16[HEADS, KEYS, D]
  global V : bf16[HEADS, KEYS, D]
  global S : f32[KEYS, HEADS]
  global W : f32[HEADS, LENGTH]
  global O : bf16[HEADS, LENGTH, D]
  over h in HEADS, q in LENGTH by 128
  shared K, V, S
  carry m : f32[q] = -3.4e38, l : f32[q] = 0, o : f32[q, D] = 0
  each j in KEYS by 64
    s = 0.18033688 * Q[h, q] @ K[h, j].T
    n = max(m, rowmax(s))
    p = exp2(s - n)
    r = exp2(m - n)
    l = l * r + rowsum(p)
    o = o * r + bf16(S[j, h] * p) @ V[h, j]
    m = n
  O[h, q] = W[h, q] * o / l
"""
ROW, AT = (("  global O", f"  global {table}\n  global O") for table in ("ROW : i32[LENGTH]", "AT : i32[KEYS]"))
TABLES = "but fused matmuls read only tables of pages, for operands that go through LDS"
REFUSED = {
    "output": ([("O : bf16[HEADS, LENGTH, D]", "O : bf16[LENGTH, D, HEADS]"), ("O[h, q]", "O[q, D, h]")],
               "`O` does not have `D` innermost"),
    "queries": ([("Q : bf16[HEADS, LENGTH, D]", "Q : bf16[LENGTH, D, HEADS]"), ("Q[h, q]", "Q[q, D, h]")],
                "`Q` does not have `D` innermost"),
    "keys": ([("K : bf16[HEADS, KEYS, D]", "K : bf16[KEYS, D, HEADS]"), ("K[h, j]", "K[j, D, h]")],
             "`K` has neither `j` nor `D` innermost"),
    "values": ([("V : bf16[HEADS, KEYS, D]", "V : bf16[KEYS, D, HEADS]"), ("V[h, j]", "V[j, D, h]")],
               "`V` has neither `j` nor `D` innermost"),
    "gathered keys": ([AT, ("K[h, j]", "K[h, AT[j]]")], f"`K` is indexed by `AT`, {TABLES}"),
    "gathered queries": ([ROW, ("Q[h, q]", "Q[h, ROW[q]]")], f"`Q` is indexed by `ROW`, {TABLES}"),
    "gathered numbers of keys": ([AT, ("S[j, h]", "S[AT[j], h]")], f"`S` is indexed by `AT`, {TABLES}"),
    "gathered numbers of queries": ([ROW, ("W[h, q]", "W[h, ROW[q]]")], f"`W` is indexed by `ROW`, {TABLES}"),
}  # fmt: skip


def changed(*changes: tuple[str, str]) -> str:
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("case", REFUSED)
def test_a_layout_that_no_lane_reads_is_refused(case: str) -> None:
    changes, message = REFUSED[case]
    for target in ("gfx90a", "gfx942", "gfx950"):
        with pytest.raises(SpecError) as caught:
            tkgen.load(changed(*changes), target=target).check()
        assert [(d.code, d.message) for d in caught.value.diagnostics] == [("E230", message)]


def test_an_output_whose_columns_are_no_neighbours_is_refused_on_hopper() -> None:
    plain = [("  global S : f32[KEYS, HEADS]\n", ""), (", V, S", ", V"), ("S[j, h] * ", "")]
    tkgen.load(changed(*plain), target="sm_90a").check()
    with pytest.raises(SpecError) as caught:
        tkgen.load(changed(*plain, *REFUSED["output"][0]), target="sm_90a").check()
    assert [(d.code, d.message) for d in caught.value.diagnostics] == [("E230", "`O` does not have `D` innermost")]
