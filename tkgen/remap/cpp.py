"""Prints integer programs as C++: plain `int` arithmetic that a kernel inlines, with nothing to include."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tkgen.remap.expr import Const, Expr, If, Let, Op, Ref, Set, Statement, Variable, While, is_boolean, known

_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        """
        alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t
        class co_await co_return co_yield compl concept const const_cast consteval constexpr constinit
        continue decltype default delete do double dynamic_cast else enum explicit export extern false float
        for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq
        private protected public register reinterpret_cast requires return short signed sizeof static
        static_assert static_cast struct switch template this thread_local throw true try typedef typeid
        typename union unsigned using virtual void volatile wchar_t while xor xor_eq
        """,
    )
)
_LINE_LENGTH = 120

_PRECEDENCE = {"||": 2, "&&": 3, "==": 4, "<": 5, ">": 5, ">=": 5, ">>": 6, "+": 7, "-": 7, "*": 8, "/": 8, "%": 8}
_PREFIX = {"!": "!", "negate": "-"}
_SELECT, _UNARY, _ATOM = 1, 9, 10
# Pairs (outer, inner) that C++ reads right without parentheses and people do not; compilers warn of them.
_CONFUSING = {("||", "&&"), (">>", "+"), (">>", "-")}


def expression(expr: Expr) -> str:
    """`expr` as C++, with the parentheses it needs."""
    return _print(expr)[0]


def lines(statements: Sequence[Statement], indent: str) -> list[str]:
    """The statements, each line beginning with `indent`; a comment stands at the end of its line or, if long, above."""
    out: list[str] = []
    for statement in statements:
        if isinstance(statement, While):
            out.append(f"{indent}while ({expression(statement.condition)}) {{")
            out.extend(lines(statement.body, indent + "    "))
            out.append(f"{indent}}}")
        elif isinstance(statement, If):
            out.extend(_choice(statement, indent))
        elif isinstance(statement, Set):
            out.append(indent + _assignment(statement))
        else:
            out.extend(_declared(statement, indent))
    return out


def _choice(choice: If, indent: str) -> list[str]:
    """`if`, any number of `else if`, `else`."""
    out: list[str] = []
    opening = f"{indent}if"
    while True:
        out.append(f"{opening} ({expression(choice.condition)}) {{")
        out.extend(lines(choice.then, indent + "    "))
        match choice.otherwise:
            case ():
                break
            case (If() as choice,):
                opening = f"{indent}}} else if"
            case _:
                out.append(f"{indent}}} else {{")
                out.extend(lines(choice.otherwise, indent + "    "))
                break
    return [*out, f"{indent}}}"]


def declaration(name: str, value: Expr) -> str:
    """The declaration of a constant: `constexpr` where its value is known."""
    kind = "bool" if is_boolean(value) else "int"
    return f"{'const' if known(value) is None else 'constexpr'} {kind} {name} = {expression(value)};"


def _assignment(statement: Set) -> str:
    name, value = statement.name, statement.value
    if isinstance(value, Op) and value.op in ("+", "-") and _names(value.args[0], name):
        return f"{name} {value.op}= {expression(value.args[1])};"
    return f"{name} = {expression(value)};"


def _names(expr: Expr, name: str) -> bool:
    return isinstance(expr, Ref) and expr.name == name


def _declared(statement: Let | Variable, indent: str) -> list[str]:
    if isinstance(statement, Variable):
        code = f"{indent}int {statement.name} = {expression(statement.value)};"
    else:
        code = indent + declaration(statement.name, statement.value)
    if not statement.comment:
        return [code]
    line = f"{code}  // {statement.comment}"
    return [line] if len(line) <= _LINE_LENGTH else [f"{indent}// {statement.comment}", code]


def _print(expr: Expr) -> tuple[str, int]:
    """The text of `expr` and how tightly it binds."""
    if isinstance(expr, Const):
        return str(expr.value), _ATOM if expr.value >= 0 else _UNARY
    if isinstance(expr, Ref):
        return expr.name, _ATOM
    assert isinstance(expr, Op)
    args = expr.args
    if expr.op in _PREFIX:
        return _PREFIX[expr.op] + _operand(args[0], _ATOM), _UNARY
    if expr.op == "min":
        small, large = (_operand(a, _PRECEDENCE["<"] + 1) for a in args)
        return f"{small} < {large} ? {small} : {large}", _SELECT
    if expr.op == "select":
        condition, then = (_operand(a, _SELECT + 1) for a in args[:2])
        return f"{condition} ? {then} : {_operand(args[2], _SELECT)}", _SELECT
    binds = _PRECEDENCE[expr.op]
    left, right = _operand(args[0], binds, expr.op), _operand(args[1], binds + 1, expr.op)
    return f"{left} {expr.op} {right}", binds


def _operand(expr: Expr, at_least: int, outer: str = "") -> str:
    """`expr` in a place that needs it to bind at least so tightly."""
    text, binds = _print(expr)
    confusing = isinstance(expr, Op) and (outer, expr.op) in _CONFUSING
    return f"({text})" if binds < at_least or confusing else text


def check_name(name: str, dotted: bool = False) -> str:
    """`name` if C++ can call an `int` that (a member path like `g.rows` too, if `dotted`), else ValueError."""
    if not _PATH.fullmatch(name) or _KEYWORDS & set(name.split(".")) or ("." in name and not dotted):
        raise ValueError(f"`{name}` cannot name an integer in C++")
    return name
