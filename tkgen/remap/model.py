"""Runs integer programs in Python: on one index as an `int`, or on a whole grid at once as NumPy arrays.

The program is printed as a Python function and compiled, which is some twenty times faster than walking its tree. One
text serves both: it calls `where`, `minimum`, `not_` and `any_of`, and a runtime supplies them for numbers or arrays.
In loops and choices a variable changes only in the lanes that take them (`mask_*_`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from types import CodeType, ModuleType
from typing import Any

from tkgen.remap.expr import Const, Expr, If, Op, Ref, Set, Statement, While

SCALAR: dict[str, Any] = {
    "__builtins__": {},
    "where": lambda condition, then, other: then if condition else other,
    "minimum": min,
    "not_": operator.not_,
    "any_of": bool,
}


def vector_runtime(numpy: ModuleType) -> dict[str, Any]:
    """Return the functions that a program needs to run on NumPy arrays."""
    return {
        "__builtins__": {},
        "where": numpy.where,
        "minimum": numpy.minimum,
        "not_": numpy.logical_not,
        "any_of": numpy.any,
    }


def compiled(parameters: Sequence[str], statements: Sequence[Statement], results: Sequence[Expr]) -> CodeType:
    """The program as the code of a Python module that defines `program(*parameters) -> tuple of results`."""
    text = [f"def program({', '.join(parameters)}):"]
    text.extend(_lines(statements, "", count()))
    text.append(f"    return {', '.join(_print(r) for r in results)},")
    return compile("\n".join(text), "<remap>", "exec")


def function(code: CodeType, runtime: dict[str, Any]) -> Callable[..., tuple[Any, ...]]:
    """The function that `compiled` printed, on the numbers or arrays of `runtime`."""
    namespace = dict(runtime)
    exec(code, namespace)  # names were validated and constants are integers when the program was built
    program: Callable[..., tuple[Any, ...]] = namespace["program"]
    return program


def _lines(statements: Sequence[Statement], mask: str, numbers: Iterator[int]) -> list[str]:
    """The statements where `mask` holds, or everywhere if it is empty; `numbers` tells masks apart."""
    out: list[str] = []
    for statement in statements:
        if isinstance(statement, While):
            active = f"mask_{next(numbers)}_"
            test = f"    {active} = {_print(statement.condition)}"
            body = [*_lines(statement.body, active, numbers), test]
            out.extend([test, f"    while any_of({active}):", *(f"    {line}" for line in body)])
        elif isinstance(statement, If):
            outer, holds, fails = mask or "True", f"mask_{next(numbers)}_", f"mask_{next(numbers)}_"
            out.append(f"    {holds} = {outer} & ({_print(statement.condition)})")
            out.append(f"    {fails} = {outer} & not_({holds})")
            out.extend(_lines(statement.then, holds, numbers))
            out.extend(_lines(statement.otherwise, fails, numbers))
        elif isinstance(statement, Set) and mask:
            out.append(f"    {statement.name} = where({mask}, {_print(statement.value)}, {statement.name})")
        else:
            out.append(f"    {statement.name} = {_print(statement.value)}")
    return out


def _print(expr: Expr) -> str:
    if isinstance(expr, Const):
        return str(expr.value)
    if isinstance(expr, Ref):
        return expr.name
    assert isinstance(expr, Op)
    args = [_print(a) for a in expr.args]
    calls = {"min": "minimum", "select": "where", "!": "not_", "negate": "-"}
    if expr.op in calls:
        return f"{calls[expr.op]}({', '.join(args)})"
    symbol = {"/": "//", "&&": "&", "||": "|"}.get(expr.op, expr.op)
    return f"({args[0]} {symbol} {args[1]})"
