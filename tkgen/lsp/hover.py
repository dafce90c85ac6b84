"""Hover texts: what a word means here, where a name was declared, and what tkgen derived from it. Markdown."""

from __future__ import annotations

import os
from dataclasses import dataclass

from tkgen.lsp import facts, words
from tkgen.lsp.analysis import Analysis
from tkgen.lsp.context import stands_for
from tkgen.lsp.names import Occurrence, occurrence_at, related
from tkgen.lsp.names import occurrences as all_names
from tkgen.lsp.outline import Outline, Piece, Statement, outline
from tkgen.lsp.project import Project
from tkgen.source import SourceFile
from tkgen.syntax import ast
from tkgen.syntax.grammar import spellings


@dataclass(frozen=True)
class Hover:
    """Markdown about the characters `start`..`end`."""

    start: int
    end: int
    markdown: str


def hover(project: Project, file: SourceFile, offset: int, known: Analysis) -> Hover | None:
    """Return the hover text of the token at `offset`; None for blanks, comments and punctuation."""
    here = outline(file)
    statement, piece = here.statement_at(offset), here.piece_at(offset)
    if statement is None or piece is None:
        return None
    text = _markdown(project, here, statement, piece, known)
    return Hover(piece.start, piece.end, text) if text else None


def _markdown(project: Project, here: Outline, statement: Statement, piece: Piece, known: Analysis) -> str:
    if piece.type == "STRING" and isinstance(statement.node, ast.Include):
        return _included(here, statement.node)
    if piece.type in ("INT", "FLOAT"):
        return _blocks("", "", facts.of_statement(statement.node, known, statement.start))
    if spellings().get(piece.type, "").isalpha():
        word = words.keyword(piece.text, statement.pieces[0].text)
        return (
            _blocks(word.form, word.meaning, facts.of_statement(statement.node, known, statement.start)) if word else ""
        )
    if piece.type != "NAME":
        return ""
    found = occurrence_at(here, piece.start)
    text = _of_name(project, here, found, statement, known) if found is not None else ""
    if text:
        return text
    before = statement.pieces[: statement.pieces.index(piece)]
    role = stands_for(before)
    for choice in (role, *_OTHER_ROLES.get(role, ())):
        if choice in words.CHOICES and (meaning := words.word(choice, piece.text)):
            return _blocks(meaning.form, meaning.meaning, facts.of_statement(statement.node, known, statement.start))
    return ""


_OTHER_ROLES = {
    "size": ("function", "dynamic"), "preset": ("automatic",), "value": ("formula", "dtype"),
    "body": ("formula", "dtype"),
}  # fmt: skip


def _of_name(project: Project, here: Outline, name: Occurrence, at: Statement, known: Analysis) -> str:
    """A name: the statement that declares it, the last one above its use, and its facts."""
    declared = [
        (file, other) for file in related(project, here, name.key) for other in all_names(file)
        if other.key == name.key and other.declares
    ]  # fmt: skip
    above = [(file, other) for file, other in declared if file is here and other.span.end <= at.start]
    for file, other in [(here, name)] if name.declares else above[-1:] or declared[:1]:
        statement = file.statement_at(other.span.start)
        source = file.file.text[statement.start : statement.code_end] if statement else other.name
        elsewhere = "" if file is here else f" in {os.path.basename(file.file.name)}"
        of_kernel = name.declares == "kernel"
        found = facts.of_statement(at.node, known, at.start) if of_kernel else facts.of_name(name.name, known, at.start)
        return _blocks(source, f"{other.declares}{elsewhere}", found)
    return ""


def _included(here: Outline, node: ast.Include) -> str:
    return _blocks(
        "", f"Statements of `{os.path.normpath(os.path.join(os.path.dirname(here.file.name), node.path))}`", []
    )


def _blocks(code: str, sentence: str, found: list[str]) -> str:
    """A code block, a sentence and a list, those that there are."""
    parts = [
        f"```tk\n{code}\n```" if code else "",
        sentence,
        "\n".join(f"- {_escaped(f)}" for f in dict.fromkeys(found)),
    ]
    return "\n\n".join(p for p in parts if p)


def _escaped(text: str) -> str:
    """A sentence in Markdown: what it says is text, not formatting."""
    return "".join("\\" + c if c in "\\`*_<>[]#|" else c for c in text)
