"""The `tune` clauses of a spec: parameters and the values that a search may give them."""

from __future__ import annotations

from tkgen.diagnostics import Diagnostic, Fix, Label
from tkgen.diagnostics.suggest import suggestion
from tkgen.syntax import ast


def bindings(kernel: ast.Kernel, kind: type[ast.Param] | type[ast.Dims]) -> list[str]:
    """The names that the `param` or `dims` lines of a spec give values."""
    return [b.name.id for s in ast.flatten(kernel.body) if isinstance(s, kind) for b in s.bindings]


def tune_clauses(kernel: ast.Kernel) -> tuple[dict[str, tuple[int, ...]], list[Diagnostic]]:
    """The values of each tuned parameter, and what is wrong: names that are no parameters, values that are no sizes."""
    parameters = bindings(kernel, ast.Param)
    found: dict[str, tuple[int, ...]] = {}
    problems: list[Diagnostic] = []
    for clause in (s for s in ast.flatten(kernel.body) if isinstance(s, ast.Tune)):
        name = clause.name.id
        if name not in parameters:
            message = f"`tune` names `{name}`, which is not a parameter{suggestion(name, parameters)}"
            fix = Fix(f"declare it: `param {name} = ...`")
            problems.append(Diagnostic("E200", message, Label(clause.name.span, "not declared"), fix=fix))
        elif name in found:
            label = Label(clause.name.span, "a second clause")
            problems.append(Diagnostic("E202", f"`{name}` is tuned twice", label, fix=Fix("list all values in one")))
        values = []
        for expr in clause.values:
            if isinstance(expr, ast.Number) and isinstance(expr.value, int) and 0 < expr.value < 1 << 31:
                values.append(expr.value)
            else:
                fix = Fix("write integers from 1 up")
                message = "the values of `tune` are positive integers"
                problems.append(Diagnostic("E203", message, Label(expr.span), fix=fix))
        found[name] = tuple(dict.fromkeys(values))
    return found, problems
