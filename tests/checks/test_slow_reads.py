"""W201 of products with odd rows: it is where, and only where, the machine code loads single elements."""

from __future__ import annotations

import re

import pytest

from tkgen.api import load

PRODUCT = """kernel product
  dims M = 517, N = 389, K = {k}
  global A : bf16[M, K]
  global B : {b}
  global C : f32[M, N]
  over m in M by 128, n in N by 128
  tail masked
  shared A, B
  each k in K by 64
    c = c + A[m, k] @ {factor}
  C[m, n] = c
"""
BY_ROWS = ("bf16[N, K]", "B[n, k].T")
BY_COLUMNS = ("bf16[K, N]", "B[k, n]")


def text(k: int, b: tuple[str, str] = BY_ROWS) -> str:
    return PRODUCT.format(k=k, b=b[0], factor=b[1])


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950"])
def test_operands_with_odd_rows_are_named_together(target: str) -> None:
    (found,) = load("odd.tk", target=target, text=text(331)).diagnostics
    assert (found.code, found.message) == (
        "W201",
        "`A` and `B` are read from global memory one element at a time",
    )
    assert found.fix is not None and found.fix.text == "pad K to 336, or accept it with `allow slow_reads`"
    assert not load("odd.tk", target=target, text=text(336)).diagnostics
    assert not load("odd.tk", target=target, text=text(331) + "  allow slow_reads\n").diagnostics


def test_each_dimension_of_odd_rows_is_a_finding() -> None:
    found = sorted(d.message for d in load("odd.tk", target="gfx942", text=text(331, BY_COLUMNS)).diagnostics)
    assert found == [
        "`A` is read from global memory one element at a time",
        "`B` is read from LDS one element at a time",
        "`B` is read from global memory one element at a time",
    ]


@pytest.mark.parametrize(("k", "single"), [(331, True), (332, True), (336, False)])
def test_the_machine_code_has_such_loads_where_it_is_said(k: int, single: bool) -> None:
    spec = load("odd.tk", target="gfx942", text=text(k))
    assert bool(spec.diagnostics) == single
    loads = re.findall(r"buffer_load_(?:ushort|short_d16|dwordx4)", spec.build().asm)
    assert loads and all((load != "buffer_load_dwordx4") == single for load in loads)
