"""The marks of an editor in a file: its outline, inlay hints, and the colours that only a parser knows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tkgen.lsp import facts
from tkgen.lsp.analysis import Analysis
from tkgen.lsp.names import occurrences
from tkgen.lsp.outline import Outline, Piece, Statement
from tkgen.syntax import ast
from tkgen.syntax.grammar import spellings


@dataclass(frozen=True)
class Symbol:
    """An entry of the outline; `kind` is a declaration's kind, `schedule`, `cluster` or `store`.

    `name_*` is what to select.
    """

    name: str
    kind: str
    detail: str
    start: int
    end: int
    name_start: int
    name_end: int
    children: list[Symbol] = field(default_factory=list)


@dataclass(frozen=True)
class Hint:
    """Text to show after the character before `offset`, and the longer story."""

    offset: int
    text: str
    tooltip: str


@dataclass(frozen=True)
class Coloured:
    """Characters with a meaning: a declaration's kind, `keyword`, `number`, `string`, `operator` or `word`."""

    start: int
    end: int
    kind: str
    declares: bool = False


def symbols(file: Outline) -> list[Symbol]:
    """The declarations of a file as a tree: the kernel, its names, roles and schedules with their lines."""
    roots: list[Symbol] = []
    headers: dict[int, Symbol] = {}  # by the header's index in the outline
    for i, statement in enumerate(file.statements):
        parent = headers.get(statement.parent) if statement.parent is not None else None
        for symbol in _of_statement(file, statement):
            (parent.children if parent else roots).append(symbol)
            if isinstance(statement.node, ast.Kernel | ast.Role | ast.Each | ast.When | ast.Schedule):
                end = _body_end(file, i)
                headers[i] = Symbol(
                    symbol.name, symbol.kind, symbol.detail, symbol.start, end, symbol.name_start, symbol.name_end
                )
                (parent.children if parent else roots)[-1] = headers[i]
    return roots


def _of_statement(file: Outline, statement: Statement) -> Iterator[Symbol]:
    text = " ".join(file.file.text[statement.start : statement.code_end].split())
    start, end = statement.start, statement.code_end
    match statement.node:
        case ast.Schedule():
            yield Symbol("schedule", "schedule", text, start, end, start, end)
        case ast.When():
            yield Symbol(text, "condition", "", start, end, start, end)
        case ast.Cluster():
            yield Symbol(text, "cluster", "", start, end, start, end)
        case ast.Equation(target=ast.Access() as part):
            yield Symbol(part.span.text, "store", text, start, end, part.span.start, part.span.end)
        case (
            ast.Kernel() | ast.Role() | ast.Dims() | ast.Param() | ast.Global() | ast.Scalar()
            | ast.Over() | ast.Each() | ast.Carry() | ast.Equation() | ast.Function()
        ):  # fmt: skip
            only = Outline(file.file, (statement,))
            for o in occurrences(only):
                if o.declares and not o.inside:
                    yield Symbol(o.name, o.declares, text, start, end, o.span.start, o.span.end)


def _body_end(file: Outline, header: int) -> int:
    """Return the offset at which the last statement under a header ends."""
    under, end = {header}, file.statements[header].code_end
    for i, statement in enumerate(file.statements[header + 1 :], header + 1):
        if statement.parent in under:
            under.add(i)
            end = statement.code_end
    return end


def hints(file: Outline, known: Analysis) -> list[Hint]:
    """The derived values worth showing all the time, after their statements."""
    found = []
    for statement in file.statements:
        if statement.node is not None and (text := facts.hint(statement.node, known, statement.start)):
            story = facts.of_statement(statement.node, known, statement.start)
            found.append(Hint(statement.code_end, text, "\n".join(story)))
    return found


def colours(file: Outline) -> list[Coloured]:
    """Every token's meaning, in order: a tensor called `step` is a tensor, not a keyword."""
    kinds = {o.key: o.declares for o in occurrences(file) if o.declares}
    named = {(o.span.start, o.span.end): o for o in occurrences(file)}
    found = []
    for statement in file.statements:
        for piece in statement.pieces:
            occurrence = named.get((piece.start, piece.end)) if piece.type == "NAME" else None
            if occurrence is not None:
                kind = kinds.get(occurrence.key, "word")
                found.append(Coloured(piece.start, piece.end, kind, bool(occurrence.declares)))
            elif kind := _kind(piece):
                found.append(Coloured(piece.start, piece.end, kind))
    return found


def _kind(piece: Piece) -> str:
    if piece.type == "NAME":
        return "word"
    if piece.type in ("INT", "FLOAT"):
        return "number"
    if piece.type == "STRING":
        return "string"
    return "keyword" if spellings().get(piece.type, "").isalpha() else ""
