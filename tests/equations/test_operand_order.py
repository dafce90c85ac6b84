"""The order of operands means nothing: masks and broadcasts name their axes in any order."""

from __future__ import annotations

import pytest

from tkgen.ir.computation import compute
from tkgen.ir.typing import typed
from tkgen.overview import overview
from tkgen.syntax.parser import parse_text

torch = pytest.importorskip("torch")

LOSS = """kernel loss
  dims T = 8, V = 64
  global X : f32[T, V]
  global W : f32[V]
  global S : f32[T]
  global Y : f32[T]
  over t in T by 4
  waves 4
  Y[t] = rowsum({})
"""
ATTENTION = """kernel attention
  dims LENGTH = 256, D = 64
  global Q : bf16[LENGTH, D]
  global K : bf16[LENGTH, D]
  global V : bf16[LENGTH, D]
  global O : f32[LENGTH, D]
  over q in LENGTH by 128
  waves 4 along q
  shared K, V buffers 2
  carry m : f32[q] = -3.4e38, l : f32[q] = 0, o : f32[q, D] = 0
  each j in LENGTH by 64 to q
    s = Q[q] @ K[j].T
    s = {}
    n = max(m, rowmax(s))
    p = exp2(s - n)
    r = exp2(m - n)
    l = l * r + rowsum(p)
    o = o * r + bf16(p) @ V[j]
    m = n
  O[q] = o / l
"""
MASKS = [
    "where(q >= j, s, -inf)", "where(j <= q, s, -inf)", "where(j > q, -inf, s)", "where(q < j, -inf, s)",
    "where(not (j > q), s, -inf)", "where(not q >= j, -inf, s)", "where(j > q or q < j, -inf, s)",
    "where(j - q > 0, -inf, s)",
]  # fmt: skip


@pytest.mark.parametrize("term", ["where({} == {}, X[t], 0)", "where({} != {}, 0, X[t])"])
@pytest.mark.parametrize("sides", [("S[t]", "coordinate(V)"), ("coordinate(V)", "S[t]")])
def test_a_comparison_may_name_either_side_first(term: str, sides: tuple[str, str]) -> None:
    x, s = torch.randn(8, 64), torch.randint(0, 64, (8,)).float()
    found = compute(typed(parse_text(LOSS.format(term.format(*sides)))).kernel, {"X": x, "S": s, "W": x[0]})
    assert torch.equal(found["Y"], x.gather(1, s.long()[:, None])[:, 0])


@pytest.mark.parametrize("term", ["W * S[t]", "S[t] * W", "W + S[t] - W", "X[t] * W * S[t]", "S[t] * (W * X[t])"])
def test_a_row_is_reduced_whatever_stands_first(term: str) -> None:
    x, w, s = torch.randn(8, 64), torch.randn(64), torch.randn(8)
    found = compute(typed(parse_text(LOSS.format(term))).kernel, {"X": x, "S": s, "W": w})
    names = {"W": w[None], "S[t]": s[:, None], "X[t]": x}
    for name, value in names.items():
        term = term.replace(name, f"v[{list(names).index(name)}]")
        assert value.dim() == 2
    wanted = eval(term, {"v": [*names.values()]})
    torch.testing.assert_close(found["Y"], wanted.expand(8, 64).sum(1))


@pytest.mark.parametrize("mask", MASKS)
def test_a_causal_mask_says_what_is_kept_or_what_is_left_out(mask: str) -> None:
    found = overview(ATTENTION.format(mask), "mask.tk")
    assert (found["proven"], found["diagnostics"]) == (True, [])


@pytest.mark.parametrize("mask", ["where(j < q, -inf, s)", "where(q > j, -inf, s)", "where(j > q, s, -inf)"])
def test_a_mask_of_the_wrong_side_is_warned_about(mask: str) -> None:
    assert [d["code"] for d in overview(ATTENTION.format(mask), "mask.tk")["diagnostics"]] == ["W203"]


def test_masks_of_both_sorts_mean_the_same() -> None:
    q, k, v = (torch.randn(256, 64).bfloat16() for _ in range(3))
    one, other = (
        compute(typed(parse_text(ATTENTION.format(MASKS[n]))).kernel, {"Q": q, "K": k, "V": v}) for n in (0, 2)
    )
    torch.testing.assert_close(one["O"], other["O"])


def test_what_states_an_order_keeps_it() -> None:
    turned = LOSS.replace("Y[t] = rowsum({})", "Y[t] = colsum(X[t].T * S[t])")
    x, s = torch.randn(8, 64), torch.randn(8)
    found = compute(typed(parse_text(turned)).kernel, {"X": x, "S": s, "W": x[0]})
    torch.testing.assert_close(found["Y"], (x * s[:, None]).sum(1))
