"""Integer expressions of a tile program: one text, printed as C++ and evaluated where the program is proven.

They are sums, products, quotients and remainders of names and integers that are not negative, comparisons and `&&`:
there C++ and Python agree, except for how quotients and conjunctions are written.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from functools import cache

OPERATORS: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.Lt: operator.lt,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def evaluate(expression: str, values: Mapping[str, int]) -> int:
    """The value of `expression`, `values` being those of its names, in which `__` stands for `::` and for `.`.

    Raises:
        KeyError: a name without a value.
        ValueError: what is no such expression.
    """
    if expression in values:  # most are a name or a number
        return values[expression]
    return int(expression) if expression.isdecimal() else _value(_parsed(expression), values)


def renamed(expression: str, names: Mapping[str, str]) -> str:
    """The expression with other names, or with numbers, for these."""
    return re.sub(r"\w+", lambda name: names.get(name[0], name[0]), expression)


@cache
def _parsed(expression: str) -> ast.expr:
    try:
        return ast.parse(_python(expression), mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"`{expression}` is no expression of integers") from error


def _python(expression: str) -> str:
    """The expression with names that Python has, too: members and what a type has are names as a whole."""
    return re.sub(r"(\w)(?:::|\.)(\w)", r"\1__\2", expression).replace("&&", "and")


def _value(node: ast.expr, values: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name):
            return values[name]
        case ast.BinOp(left=left, op=op, right=right) | ast.Compare(left=left, ops=[op], comparators=[right]):
            if type(op) in OPERATORS:
                return int(OPERATORS[type(op)](_value(left, values), _value(right, values)))
        case ast.BoolOp(op=ast.And(), values=parts):
            return int(all(_value(part, values) for part in parts))
    raise ValueError(f"`{ast.unparse(node)}` is no expression of integers")
