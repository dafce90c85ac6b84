"""Integer expressions of a tile program: one text, printed as C++ and evaluated where the program is proven.

They are sums, products, quotients and remainders of names and integers that are not negative, comparisons and `&&`:
there C++ and Python agree, except for how quotients and conjunctions are written.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import cache
from types import CodeType
from typing import Any

OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Add,
    ast.Sub: ast.Sub,
    ast.Mult: ast.Mult,
    ast.Div: ast.FloorDiv,
    ast.Mod: ast.Mod,
}
"""Operators of C++, and those of Python that do the same."""
COMPARISONS = (ast.Eq, ast.Lt, ast.Gt, ast.GtE)
NO_NAMES: dict[str, Any] = {"__builtins__": {}}


def evaluate(expression: str, values: Mapping[str, int]) -> int:
    """The value of `expression`, `values` being those of its names, in which `__` stands for `::` and for `.`.

    Raises:
        KeyError: a name without a value.
        ValueError: what is no such expression.
    """
    if expression in values:  # most are a name or a number
        return values[expression]
    if expression.isdecimal():
        return int(expression)
    try:
        return int(eval(_compiled(expression), NO_NAMES, values))
    except NameError as error:
        raise KeyError(error.name) from None


def renamed(expression: str, names: Mapping[str, str]) -> str:
    """The expression with other names, or with numbers, for these."""
    return re.sub(r"\w+", lambda name: names.get(name[0], name[0]), expression)


@cache
def _compiled(expression: str) -> CodeType:
    """The expression as code of Python, made once: a proof evaluates it for every step."""
    try:
        tree = ast.parse(_python(expression), mode="eval")
    except SyntaxError as error:
        raise ValueError(f"`{expression}` is no expression of integers") from error
    whole = ast.fix_missing_locations(ast.Expression(_checked(tree.body)))
    return compile(whole, expression, "eval")


def _python(expression: str) -> str:
    """The expression with names that Python has, too: members and what a type has are names as a whole."""
    return re.sub(r"(\w)(?:::|\.)(\w)", r"\1__\2", expression).replace("&&", "and")


def _checked(node: ast.expr) -> ast.expr:
    """The same expression with the operators of Python, all of which are among `OPERATORS`."""
    match node:
        case ast.Constant(value=int()) | ast.Name():
            return node
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return ast.BinOp(_checked(left), OPERATORS[type(op)](), _checked(right))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if isinstance(op, COMPARISONS):
            return ast.Compare(_checked(left), [op], [_checked(right)])
        case ast.BoolOp(op=ast.And(), values=parts):  # a number, as every other value
            all_of_them = ast.BoolOp(ast.And(), [_checked(part) for part in parts])
            return ast.IfExp(all_of_them, ast.Constant(1), ast.Constant(0))
    raise ValueError(f"`{ast.unparse(node)}` is no expression of integers")
