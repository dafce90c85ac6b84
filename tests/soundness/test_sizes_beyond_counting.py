"""Sizes that a launch cannot have are refused before a build: `build` ended in a SizeError at what `check` accepted."""

from __future__ import annotations

import pytest

from tkgen.api import load
from tkgen.diagnostics import SpecError

ROWS = """\
kernel many_rows
  dims R = {size}, D = 32
  global X : bf16[R, D]
  global Y : bf16[R, D]
  over t in R by 64
  waves 1
  Y[t] = X[t] * 2
"""
LONG_ROWS = """\
kernel long_rows
  dims R = 2, D = {size}
  global X : bf16[R, D]
  global S : f32[R]
  over r in R by 1
  waves 1
  carry a : f32[r] = 0
  each c in D by 1024
    a = a + rowsum(X[r, c])
  S[r] = a
"""
WINDOW = """\
kernel window
  dims L = {size}, D = 64
  global Q : bf16[L, D]
  global K : bf16[L, D]
  global V : bf16[L, D]
  global O : bf16[L, D]
  over q in L by 64
  waves 4 along q
  shared K, V
  carry o : f32[q, D] = 0
  each j in L by 64 from q - 63 to q
    s = Q[q] @ K[j].T
    o = o + bf16(where(q >= j, s, 0)) @ V[j]
  O[q] = o
"""
MOST = 2**30 - 2


@pytest.mark.parametrize(("text", "target"), [(ROWS, "gfx942"), (ROWS, "sm_90a"), (LONG_ROWS, "gfx950"),
                                              (LONG_ROWS, "sm_90a"), (WINDOW, "gfx942")])  # fmt: skip
def test_a_size_that_no_launch_can_have_is_refused_by_check(text: str, target: str) -> None:
    with pytest.raises(SpecError, match=rf"E607\]: \w = {MOST + 1} is more than a 32-bit integer holds"):
        load(text.format(size=MOST + 1), None, target).check()


def test_the_largest_size_compiles() -> None:
    load(ROWS.format(size=MOST), None, "gfx942").build().check()
