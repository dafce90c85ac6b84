"""Reductions of a loop's tiles, as ThunderKittens has them."""

from __future__ import annotations

from collections.abc import Iterator

from tkgen.ir.equations import Kernel, Reduce
from tkgen.ir.value_facts import ValueFacts

REDUCTIONS = {"sum": "col_sum", "max": "col_max", "min": "col_min"}
FILLS = {"max": "neg_infty", "min": "pos_infty"}


def reduced(op: Reduce, kernel: Kernel, result: str, argument: str) -> Iterator[str]:
    """`result`, a number for each column, of the tile `argument`.

    ThunderKittens starts a maximum with the first element: of NaNs alone it is NaN. Where that shows, the code starts
    with -inf, as the equation does.
    """
    start = ""
    if op.function in FILLS and ValueFacts(kernel).shows_nan(op):
        yield f"{FILLS[op.function]}({result});"
        start = f", {result}"
    yield f"{REDUCTIONS[op.function]}({result}, {argument}{start});"
