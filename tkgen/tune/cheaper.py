"""Cheaper forms of a hot equation, each predicted: the changed spec is checked, compiled and followed like any other.

>>> found = cheaper(spec, kernel=0, hot=hot, seconds=[p.seconds])
>>> found.change, found.speedup  # ("`fast tanh` for `tanh`", 1.31)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from tkgen.api import load
from tkgen.backends.registry import backend_of
from tkgen.backends.spec import AnySpec
from tkgen.diagnostics import SpecError
from tkgen.ir.functions import FAST, FUNCTIONS
from tkgen.report.hot import Cheaper, Hot, HotLine
from tkgen.source import Span
from tkgen.syntax import ast
from tkgen.syntax.parser import parse_spec
from tkgen.toolchain.compiler import ToolchainError

OTHERS = {"gelu": "gelu_tanh"}  # functions that networks use for one another
MOST = 2  # forms of a kernel that are predicted


@dataclass(frozen=True)
class Form:
    """A cheaper form of what line `line` of a spec computes: its name, and the text of the whole spec with it."""

    change: str
    line: int
    text: str


def forms(spec: AnySpec, line: HotLine, roots: Sequence[Path] = ()) -> tuple[Form, ...]:
    """The cheaper forms of functions in a line of the spec's own file, the function with most instructions first.

    Approximations (`fast`), functions for one another (`OTHERS`), reciprocals for quotients and roots of quotients.
    """
    if line.file or not line.line:
        return ()
    parsed = parse_spec(spec.path, roots, spec.kernels[0].program.spans["kernel"].file.text)
    file, back_end = parsed.span.file, backend_of(spec.target.name).functions
    found: dict[str, list[tuple[Span, str]]] = {}
    weight: dict[str, float] = {}
    for node in _nodes(parsed):
        if node.span.file is file and node.span.line == line.line:
            for change, function, span, new in _rewritten(node, back_end):
                found.setdefault(change, []).append((span, new))
                weight[change] = line.functions.get(function, 0.0)
    order = sorted(found, key=lambda change: -weight[change])
    return tuple(Form(change, line.line, _edited(file.text, found[change])) for change in order)


def cheaper(
    spec: AnySpec, kernel: int, hot: Hot, seconds: Sequence[float], product: str | None = None,
    sizes: Mapping[str, int] | None = None, *, cxx: str | None = None, roots: tuple[Path, ...] = (),
) -> Cheaper | None:  # fmt: skip
    """The best of the cheaper forms of the line with most vector instructions; None where there is none.

    `seconds` are the predicted ones of each kernel of `spec`, `kernel` is the number of the one that `hot` is about.
    Forms that the checks refuse, or that cannot be compiled or predicted, do not count.
    """
    from tkgen.predict import PredictError, predict

    line = hot.vector_line
    found: list[Cheaper] = []
    for form in forms(spec, line, roots)[:MOST] if line is not None else ():
        try:
            other = load(spec.path, spec.defines, spec.target.name, roots, text=form.text).check()
            predicted = predict(other.build(cxx=cxx).check(), sizes, product, what_if=False)
        except (SpecError, ToolchainError, PredictError, ValueError):
            continue
        own = (predicted.kernels or (predicted,))[kernel].seconds
        found.append(Cheaper(hot.kernel, form.change, form.line, own, seconds[kernel] / own))
    return max(found, key=lambda c: c.speedup, default=None)


def with_cheaper(
    spec: AnySpec, found: Sequence[Hot], seconds: Sequence[float], product: str | None = None,
    sizes: Mapping[str, int] | None = None, cxx: str | None = None, roots: tuple[Path, ...] = (),
) -> list[Hot]:  # fmt: skip
    """The hot lines of each kernel of `spec` with the best cheaper form of each. Arguments as of `cheaper`."""
    return [
        replace(hot, cheaper=cheaper(spec, n, hot, seconds, product, sizes, cxx=cxx, roots=roots))
        for n, hot in enumerate(found)
    ]


def _rewritten(node: ast.Node, back_end: str) -> Iterator[tuple[str, str, Span, str]]:
    """The cheaper forms of an expression: what to call each, the function it is of, what it replaces, and by what."""
    match node:
        case ast.Call(name=name, fast=False):
            for other in (FAST.get(name.id, ""), OTHERS.get(name.id, "")):
                if other in FUNCTIONS and FUNCTIONS[other].cpp[back_end] != FUNCTIONS[name.id].cpp[back_end]:
                    word = FUNCTIONS[other].word
                    yield f"`{word}` for `{name.id}`", name.id, name.span, word
        case ast.Binary(op="/", left=ast.Number(value=1), right=ast.Call(name=ast.Name(id="sqrt"), args=(under,))):
            yield "`rsqrt` for `1 / sqrt`", "sqrt", node.span, f"rsqrt({under.span.text})"
        case ast.Binary(op="/", left=left, right=right) if not isinstance(right, ast.Number):
            change = "`* rcp()` for `/`"
            between = Span(node.span.file, left.span.end, right.span.start)
            before, _, after = between.text.partition("/")
            yield change, "div", between, f"{before}* rcp{after.lstrip()}{'' if '(' in after else '('}"
            if "(" not in after:
                yield change, "div", Span(node.span.file, right.span.end, right.span.end), ")"


def _nodes(node: Any) -> Iterator[ast.Node]:
    """All nodes of a tree."""
    if isinstance(node, ast.Node):
        yield node
    if is_dataclass(node) and not isinstance(node, Span | type):
        for field in fields(node):
            yield from _nodes(getattr(node, field.name))
    elif isinstance(node, tuple | list):
        for each in node:
            yield from _nodes(each)


def _edited(text: str, edits: Sequence[tuple[Span, str]]) -> str:
    for span, new in sorted(edits, key=lambda e: -e[0].start):
        text = text[: span.start] + new + text[span.end :]
    return text
