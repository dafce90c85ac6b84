"""Where a kernel was written: its files, and the parameters behind its statements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass

from tkgen.ir.types import Origins
from tkgen.source import Span
from tkgen.syntax import ast


def origins_of(kernel: ast.Kernel) -> Origins:
    """The places of `kernel` that a report shows beside what came of them."""
    statements = list(_statements(kernel))
    main = kernel.span.file
    included = {s.span.file.name: s.span.file for s in statements if s.span.file.name != main.name}
    plain = [s for s in statements if not isinstance(s, ast.Role)]
    return Origins((main, *(included[name] for name in sorted(included))), tuple(_parameters(plain)))


def _parameters(statements: Sequence[ast.Statement]) -> Iterator[tuple[Span, Span]]:
    """The statements that use a parameter, and where it is declared or tuned."""
    declared: dict[str, list[Span]] = {}
    for statement in statements:
        if isinstance(statement, ast.Param):
            for binding in statement.bindings:
                declared.setdefault(binding.name.id, []).append(statement.span)
        elif isinstance(statement, ast.Tune):
            declared.setdefault(statement.name.id, []).append(statement.span)
    if not declared:
        return
    for statement in statements:
        if not isinstance(statement, ast.Param | ast.Tune):
            for word in re.findall(r"[A-Za-z_]\w*", statement.span.text):
                yield from ((statement.span, place) for place in declared.get(word, ()))


def _statements(node: object) -> Iterator[ast.Statement]:
    if isinstance(node, tuple):
        for item in node:
            yield from _statements(item)
    elif is_dataclass(node) and not isinstance(node, Span):
        if isinstance(node, ast.Statement):
            yield node
        for field in fields(node):
            yield from _statements(getattr(node, field.name))
