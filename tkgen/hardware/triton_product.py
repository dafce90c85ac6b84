"""A plain matrix product in Triton, for comparisons: blocks in groups of rows, pointers, dots in f32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def _product(  # type: ignore[no-untyped-def]
    a, b, c, m, n, k, am, ak, bk, bn, cm,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    rows, cols = tl.cdiv(m, ROWS), tl.cdiv(n, COLUMNS)
    band = tile // (GROUP * cols)
    height = min(rows - band * GROUP, GROUP)
    row = band * GROUP + tile % (GROUP * cols) % height
    col = tile % (GROUP * cols) // height
    i = (row * ROWS + tl.arange(0, ROWS)) % m
    j = (col * COLUMNS + tl.arange(0, COLUMNS)) % n
    at = tl.arange(0, STEP)
    left = a + i[:, None] * am + at[None, :] * ak
    right = b + at[:, None] * bk + j[None, :] * bn
    sums = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for _ in range(0, tl.cdiv(k, STEP)):  # k is a multiple of STEP
        sums = tl.dot(tl.load(left), tl.load(right), sums)
        left += STEP * ak
        right += STEP * bk
    i = row * ROWS + tl.arange(0, ROWS)
    j = col * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(c + i[:, None] * cm + j[None, :], sums.to(c.dtype.element_ty), mask=(i[:, None] < m) & (j[None, :] < n))


def start(a: Any, b: Any, c: Any, configuration: tuple[int, int, int, int, int]) -> Callable[[], None]:
    """A function that launches the product on tensors, `b` as K x N whatever its strides.

    A configuration has the rows, columns and K-step of a block, warps, and stages.
    """
    rows, cols, step, warps, stages = configuration
    m, k = a.shape
    n = b.shape[1]
    grid = (triton.cdiv(m, rows) * triton.cdiv(n, cols),)

    def launch() -> None:
        _product[grid](
            a, b, c, m, n, k, a.stride(0), a.stride(1), b.stride(0), b.stride(1), c.stride(0),
            rows, cols, step, 8, num_warps=warps, num_stages=stages,
        )  # fmt: skip

    return launch
