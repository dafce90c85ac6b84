"""Ragged axes: what groups of rows mean, whatever their offsets hold."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from tkgen.ir.computation import compute
from tkgen.ir.equations import Kernel
from tkgen.ir.meaning import evaluate
from tkgen.ir.segments import problem, segments
from tkgen.ir.typing import typed
from tkgen.source import SourceFile
from tkgen.syntax.format import format_source
from tkgen.syntax.parser import parse_text

DECLARED = """kernel ragged
  dims TOKENS = 40, GROUPS = 5, OFFSETS = GROUPS + 1, N = 3, K = 4
  global FIRST : i32[OFFSETS]
  global X : f32[TOKENS, K]
  global W : f32[GROUPS, N, K]
  global Y : f32[TOKENS, N]
  global D : f32[GROUPS, N, K]
  global S : f32[TOKENS]
"""
PRODUCT = (
    DECLARED
    + """  over g in GROUPS, m in TOKENS within FIRST[g] by 4, n in N by 2
  each k in K by 2
    y = y + X[m, k] @ W[g, n, k].T
  Y[m, n] = y
"""
)
GRADIENT = (
    DECLARED
    + """  over g in GROUPS, n in N by 2, k in K by 2
  each m in TOKENS within FIRST[g] by 4
    d = d + Y[m, n].T @ X[m, k]
  D[g, n, k] = d
"""
)
PLACES = (
    DECLARED
    + """  over g in GROUPS, m in TOKENS within FIRST[g] by 4
  S[m] = f32(m) + 100 * f32(g)
"""
)
RUNNING = (
    DECLARED
    + """  over g in GROUPS, m in TOKENS within FIRST[g] by 4
  carry t : f32[m] = -1
  each j in TOKENS within FIRST[g] by 2 to m
    x = X[m] @ X[j].T
    t = max(t, rowmax(where(m >= j, x, 0)))
  S[m] = t
"""
)
OFFSETS = [[0, 7, 7, 20, 33, 40], [0, 0, 0, 0, 0, 0], [3, 5, 9, 9, 10, 39], [40, 40, 40, 40, 40, 40]]
LYING = [[0, 30, 10, 20, 35, 40], [-5, 3, 50, 60, 7, 40], [50, 3, 2, 1, 0, -1], [0, 2**31 - 1, -(2**31), 5, 6, 7]]


def kernel(text: str) -> Kernel:
    return typed(parse_text(text)).kernel


def inputs(offsets: list[int]) -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    shapes = {"X": (40, 4), "W": (5, 3, 4), "Y": (40, 3)}
    return {"FIRST": torch.tensor(offsets, dtype=torch.int32)} | {n: torch.randn(s) for n, s in shapes.items()}


def stored(text: str, offsets: list[int]) -> torch.Tensor:
    found, of = kernel(text), inputs(offsets)
    given = {t.name: of[t.name] for t in found.inputs}
    (name,) = (t.name for t in found.outputs)
    result = evaluate(found, given)[name]
    computed = compute(found, given)[name].double()
    assert ((result.value - computed).abs() <= result.bound.clamp(min=1e-5)).logical_or(result.value.isnan()).all()
    return result.value


@pytest.mark.parametrize("offsets", OFFSETS)
def test_rows_of_a_group_meet_its_matrix(offsets: list[int]) -> None:
    of, value = inputs(offsets), stored(PRODUCT, offsets)
    expected = torch.full((40, 3), torch.nan, dtype=torch.float64)
    for g, (first, end) in enumerate(pairwise(offsets)):
        expected[first:end] = of["X"][first:end].double() @ of["W"][g].double().T
    torch.testing.assert_close(value, expected, equal_nan=True)


@pytest.mark.parametrize("offsets", OFFSETS)
def test_a_sum_along_a_group(offsets: list[int]) -> None:
    of, value = inputs(offsets), stored(GRADIENT, offsets)
    rows = [slice(first, end) for first, end in pairwise(offsets)]
    expected = torch.stack([of["Y"][r].double().T @ of["X"][r].double() for r in rows])
    torch.testing.assert_close(value, expected)  # of an empty group zero


def test_places_are_counted_in_their_group() -> None:
    assert stored(PLACES, OFFSETS[0]).tolist() == [
        100 * g + row for g, (first, end) in enumerate(pairwise(OFFSETS[0])) for row in range(end - first)
    ]


@pytest.mark.parametrize("offsets", OFFSETS)
def test_a_loop_over_the_group_ends_at_the_tile(offsets: list[int]) -> None:
    x, value = inputs(offsets)["X"].double(), stored(RUNNING, offsets)
    expected = torch.full((40,), torch.nan, dtype=torch.float64)
    for first, end in pairwise(offsets):
        for row in range(first, end):
            seen = (x[row] @ x[first : row + 1].T).max()
            beyond = (row - first) // 4 * 4 + 4 > row - first + 1 and row + 1 < end  # a masked place gives zero
            expected[row] = torch.maximum(seen, torch.tensor(0.0 if beyond else -1.0, dtype=torch.float64))
    close = torch.isclose(value, expected, equal_nan=True)
    assert close.all()


@pytest.mark.parametrize("offsets", LYING)
def test_offsets_that_lie_are_within_bounds_and_have_no_place_twice(offsets: list[int]) -> None:
    parts = segments(offsets, 40)
    places = [place for part in parts for place in part]
    assert len(parts) == 5 and len(set(places)) == len(places) and set(places) <= set(range(40))
    assert problem(offsets, 40)
    of, value = inputs(offsets), stored(PRODUCT, offsets)
    for part, w in zip(parts, of["W"].double(), strict=True):
        torch.testing.assert_close(value[part.start : part.stop], of["X"][part.start : part.stop].double() @ w.T)
    assert value[[p for p in range(40) if p not in places]].isnan().all()


@pytest.mark.parametrize("offsets", OFFSETS)
def test_offsets_that_do_not_lie_mean_what_they_say(offsets: list[int]) -> None:
    assert segments(offsets, 40) == [range(first, end) for first, end in pairwise(offsets)]
    assert not problem(offsets, 40)


@pytest.mark.parametrize("text", [PRODUCT, GRADIENT, RUNNING])
def test_the_formatter_keeps_within(text: str) -> None:
    spread = text.replace("within FIRST[g] by", "within  FIRST[ g ]  by")
    assert spread != text and format_source(SourceFile("a.tk", spread)) == text
