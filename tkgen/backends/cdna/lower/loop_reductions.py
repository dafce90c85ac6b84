"""Reductions of a loop's tiles."""

from __future__ import annotations

from tkgen.ir.equations import Kernel, Reduce
from tkgen.ir.value_facts import ValueFacts

REDUCTIONS = {"sum": "col_sum", "max": "col_max", "min": "col_min"}
IDENTITIES = {"sum": "0.0f", "max": "-__builtin_inff()", "min": "__builtin_inff()"}
OF_NANS = {"max": ", -__builtin_inff()", "min": ", __builtin_inff()"}


def reduced(op: Reduce, kernel: Kernel, result: str, argument: str) -> str:
    """`result`, a number for each column, of the tile `argument`.

    A maximum starts with the first element: of NaNs alone it is NaN. Where that shows, it is combined with -inf, which
    the equation means.
    """
    of_nans = OF_NANS[op.function] if op.function in OF_NANS and ValueFacts(kernel).shows_nan(op) else ""
    return f"{REDUCTIONS[op.function]}({result}, {argument}{of_nans});"
