"""Comparisons, all false of NaN but `ne`, and what is made of truths. Exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tkgen.ir.functions.model import BACK_ENDS, Function

if TYPE_CHECKING:
    from torch import Tensor


def _turn(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Errors that together reach the distance of both may turn the comparison."""
    distance = 1 / (a - b).abs()
    return distance, distance


def _any(*arguments: Tensor) -> tuple[Tensor, ...]:
    """One wrong truth may make the result wrong."""
    return tuple(a.new_ones(()).double() for a in arguments)


def _comparison(name: str, doc: str, operator: str, meaning: Callable[[Tensor, Tensor], Tensor]) -> Function:
    text = f"{{0}} {operator} {{1}}"
    cpp = dict.fromkeys(BACK_ENDS, text)
    return Function(name, 2, doc, meaning, _turn, cpp, text, operator=operator, predicate=True, whole=True)


def _logic(name: str, arity: int, doc: str, meaning: Callable[..., Tensor], cpp: str, torch: str) -> Function:
    every = dict.fromkeys(BACK_ENDS, cpp)
    return Function(name, arity, doc, meaning, _any, every, torch, operator=name, takes="predicate", predicate=True)


POSITION = 2
FUNCTIONS = (
    _comparison("lt", "Less.", "<", lambda a, b: a < b),
    _comparison("le", "Less or equal.", "<=", lambda a, b: a <= b),
    _comparison("gt", "Greater.", ">", lambda a, b: a > b),
    _comparison("ge", "Greater or equal.", ">=", lambda a, b: a >= b),
    _comparison("eq", "Equal.", "==", lambda a, b: a == b),
    _comparison("ne", "Not equal.", "!=", lambda a, b: a != b),
    # No `&&`: of that clang makes a branch where the second truth is costly to find out, and lanes differ.
    _logic("and", 2, "Both.", lambda a, b: a & b, "bool({0}) & bool({1})", "{0} & {1}"),
    _logic("or", 2, "One or both.", lambda a, b: a | b, "bool({0}) | bool({1})", "{0} | {1}"),
    _logic("not", 1, "The negation.", lambda a: ~a, "!{0}", "~{0}"),
)
