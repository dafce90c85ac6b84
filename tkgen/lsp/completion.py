"""Completion: the keywords that the parser accepts here, and the names and words that a NAME can be here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lark import UnexpectedInput
from lark.indenter import DedentError

from tkgen.lsp import words
from tkgen.lsp.context import stands_for
from tkgen.lsp.names import Occurrence, occurrences, scope_at
from tkgen.lsp.outline import LAYOUT, Outline, Piece, outline, start_symbol
from tkgen.lsp.project import Project
from tkgen.remap import REMAPS
from tkgen.source import SourceFile
from tkgen.syntax.errors import Statement, statements
from tkgen.syntax.grammar import FILE_WORDS, LINES, STATEMENTS, keywords, parser

# What declares the names that fit a place.
_FITTING = {
    "tensor": ("tensor",),
    "dimension": ("dimension",),
    "size": ("dimension", "parameter"),
    "argument": ("dimension", "parameter"),
    "sum": ("tensor", "value"),
    "axis": ("axis",),
    "index": ("axis", "dimension", "parameter", "tensor"),  # a tensor of places: `X[ROW[m], k]`
    "value": ("value", "tensor", "scalar", "axis", "dimension", "parameter", "function"),
    "epilogue": ("function",),
    "body": ("function",),
    "target": ("tensor", "value"),
}
_EXTRA = {"size": ("function",), "value": ("formula", "dtype"), "body": ("formula", "dtype")}
_IN_LOOP = ("each", "when", "carry")


@dataclass(frozen=True)
class Completion:
    """A word to insert in place of the characters `start`..`end`.

    `kind` is `keyword`, what declares the name, or the role of a word.
    """

    label: str
    kind: str
    detail: str = ""
    documentation: str = ""
    insert: str = ""
    start: int = 0
    end: int = 0


def complete(project: Project, file: SourceFile, offset: int) -> list[Completion]:
    """Return the possible words at `offset`, the likeliest first; they replace the word that is being typed there."""
    start = offset
    while start and (file.text[start - 1].isalnum() or file.text[start - 1] == "_") and file.text[start - 1].isascii():
        start -= 1
    if file.text[start:offset][:1].isdigit():
        return []
    line = file.text[file.text.rfind("\n", 0, start) + 1 : start]
    if "#" in line and line.count('"', 0, line.index("#")) % 2 == 0:
        return []  # in a comment
    prefix = SourceFile(file.name, file.text[:start] + "_")
    *_, statement = statements(prefix, [])
    found = list(_here(project, file, prefix.text, statement, start))
    unique = {(c.label, c.kind): c for c in reversed(found)}
    return [
        Completion(c.label, c.kind, c.detail, c.documentation, c.insert or c.label, start, offset)
        for c in reversed(unique.values())
    ]


def _here(project: Project, file: SourceFile, text: str, statement: Statement, start: int) -> Iterator[Completion]:
    if statement.start == start:
        bodies = {"schedule": LINES, "file": (*FILE_WORDS, *STATEMENTS), "each": _IN_LOOP, "when": ()}
        allowed = bodies.get(statement.inside, STATEMENTS)
        yield from (_keyword(word, word) for word in allowed if (word, statement.inside) != ("role", "role"))
        if statement.inside in ("kernel", "each", "when"):
            yield from _declarations(project, file, start, _FITTING["target"])
        return
    before, accepted = _accepted(text[statement.start : start], start_symbol(statement.inside, statement.word))
    if "NAME" in accepted:
        yield from _names(project, file, start, before)
    yield from (_keyword(word, statement.word) for word in keywords(accepted))


def _accepted(text: str, start: str) -> tuple[list[Piece], set[str]]:
    """The tokens of an unfinished statement, and the types that may follow; none where it is already wrong."""
    machine = parser().parse_interactive(text, start=start)
    pieces: list[Piece] = []
    try:
        for token in machine.iter_parse():
            if token.type in LAYOUT:
                break
            pieces.append(Piece(token.type, token.start_pos or 0, token.end_pos or 0, str(token)))
    except (UnexpectedInput, DedentError):
        return pieces, set()
    accepted: set[str] = machine.accepts()  # type: ignore[no-untyped-call]
    return pieces, accepted


def _names(project: Project, file: SourceFile, start: int, before: list[Piece]) -> Iterator[Completion]:
    """Names in scope and words of the language that can be the NAME after these tokens."""
    role = stands_for(before)
    if role == "argument":
        yield from _parameters(before)
    if role == "body":
        named = next(i for i, p in enumerate(before) if p.type == "RPAR")
        yield from (Completion(p.text, "argument") for p in before[2:named] if p.type == "NAME")
    of_tensors = role == "argument" and before[0].type in ("EPILOGUE", "REFERENCE")
    fitting = ("tensor", "scalar") if of_tensors else _FITTING.get(role, ())
    yield from _declarations(project, file, start, fitting)
    if role == "size" and before[0].type == "DIMS":
        yield _word("dynamic", "dynamic")
    for choice in (role, *_EXTRA.get(role, ())):
        yield from (_word(choice, name) for name in words.CHOICES.get(choice, ()))


def _declarations(project: Project, file: SourceFile, at: int, fitting: Sequence[str]) -> Iterator[Completion]:
    """The names in scope that something of these kinds declares."""
    for declared in sorted(
        _in_scope(project, file, at), key=lambda o: fitting.index(o.declares) if o.declares in fitting else -1
    ):
        if declared.declares in fitting:
            source = declared.span.file.line(declared.span.line).split("#")[0].strip()
            yield Completion(declared.name, declared.declares, source)


def _in_scope(project: Project, file: SourceFile, at: int) -> Iterable[Occurrence]:
    """The declarations of the file, of what it includes, and of the specs that include it."""
    outlines: dict[str, Outline] = {}
    for closure in (project.closure(file), *project.owners(file)):
        outlines |= {o.file.name: o for o in closure}
    found = (o for each in outlines.values() for o in occurrences(each) if o.declares)
    scopes = (0, scope_at(outline(file), at))
    return {o.key: o for o in found if o.scope in scopes}.values()


def _parameters(before: list[Piece]) -> Iterator[Completion]:
    """The keyword parameters of the remap or grid whose parentheses are open."""
    opened = max(i for i, p in enumerate(before) if p.type == "LPAR")
    called = before[opened - 1].text
    given = {p.text for p, after in zip(before[opened:], before[opened + 1 :], strict=False) if after.type == "EQUAL"}
    if before[0].type == "REMAP" and called in REMAPS:
        for parameter in REMAPS[called].parameters:
            if parameter.name not in given:
                text = f"{parameter.doc}; {parameter.minimum} to {parameter.maximum}"
                yield Completion(
                    parameter.name, "keyword parameter", REMAPS[called].signature, text, f"{parameter.name} = "
                )


def _word(role: str, name: str) -> Completion:
    meaning = words.word(role, name)
    return Completion(name, role, meaning.form if meaning else "", meaning.meaning if meaning else "")


def _keyword(name: str, statement: str) -> Completion:
    meaning = words.keyword(name, statement)
    return Completion(name, "keyword", meaning.form if meaning else "", meaning.meaning if meaning else "")
