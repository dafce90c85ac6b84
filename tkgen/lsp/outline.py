"""A file statement by statement: tokens with the types their context gives them, and the AST of what parses.

Unlike the parser this never refuses a text: a broken statement keeps the tokens before the error, and hides nothing on
the other lines. Editors show these while the user types.

>>> outline(SourceFile("a.tk", "dims M = 64")).statements[0].node
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from lark import Token, Tree, UnexpectedInput
from lark.indenter import DedentError

from tkgen.source import SourceFile
from tkgen.syntax import ast
from tkgen.syntax.errors import statements as raw_statements
from tkgen.syntax.grammar import FILE_WORDS, MAX_STATEMENT, parser
from tkgen.syntax.tree import Branch, TreeBuilder

LAYOUT = frozenset({"_NL", "_INDENT", "_DEDENT"})
MAX_STATEMENTS = 4000  # of a file: what lies beyond is checked as everything is, but has no symbols, hover or names

Item = ast.Statement | ast.Cluster | ast.Kernel | ast.Sequence


@dataclass(frozen=True)
class Piece:
    """A token of the file; `type` is the grammar's (`NAME`, `INT`, `BLOCK`, ...)."""

    type: str
    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Statement:
    """A statement or the header of a body.

    `inside` is the kind of body it stands in: file, kernel, role or schedule. `parent` is the index of the header above
    it. `node` is None where it does not parse; headers are nodes with empty bodies.
    """

    start: int
    end: int
    inside: str
    parent: int | None
    pieces: tuple[Piece, ...]
    node: Item | None

    @property
    def code_end(self) -> int:
        """The offset at which the code ends and blanks or a comment may follow; `end` if it does not parse."""
        return self.pieces[-1].end if self.node is not None else self.end


@dataclass(frozen=True, eq=False)
class Outline:
    """The statements of `file` in order."""

    file: SourceFile
    statements: tuple[Statement, ...]

    def statement_at(self, offset: int) -> Statement | None:
        """The statement that a character belongs to, or that ends right before it."""
        return next((s for s in self.statements if s.start <= offset <= s.end), None)

    def piece_at(self, offset: int) -> Piece | None:
        """The token at an offset; between two tokens that touch, a name or number rather than punctuation."""
        statement = self.statement_at(offset)
        touching = [p for p in statement.pieces if p.start <= offset <= p.end] if statement else []
        words = [p for p in touching if p.text[:1].isalnum() or p.text[:1] in '_"']
        return next(iter(words or touching[::-1]), None)

    @property
    def has_kernel(self) -> bool:
        """True if it is a spec; else it is a fragment for `include`."""
        return any(s.inside == "file" and s.pieces and s.pieces[0].type == "KERNEL" for s in self.statements)


@lru_cache(maxsize=256)
def outline(file: SourceFile) -> Outline:
    """The outline of any text. Remembered, because editors ask many questions about one text."""
    found: list[Statement] = []
    headers: list[tuple[str, int]] = []  # the open bodies: their kind and their header's index
    for raw in raw_statements(file, []):
        while headers and headers[-1][0] != raw.inside:
            headers.pop()
        pieces, tree = _parsed(
            file.text[raw.start : min(raw.end, raw.start + MAX_STATEMENT)].rstrip(), start_symbol(raw.inside, raw.word)
        )
        placed = tuple(
            Piece(t.type, (t.start_pos or 0) + raw.start, (t.end_pos or 0) + raw.start, str(t)) for t in pieces
        )
        node = _node(file, tree, raw.start) if tree is not None else None
        end = raw.start + len(file.text[raw.start : raw.end].rstrip())
        found.append(Statement(raw.start, end, raw.inside, headers[-1][1] if headers else None, placed, node))
        if raw.opens is not None:
            headers.append((raw.opens, len(found) - 1))
        if len(found) == MAX_STATEMENTS:
            break
    return Outline(file, tuple(found))


def start_symbol(inside: str, word: str) -> str:
    """The grammar's start symbol for a statement with this first word in a body of kind `inside`."""
    if word in FILE_WORDS:
        return f"{word}_line"
    return "cluster_line" if inside == "schedule" else "any_line"


@lru_cache(maxsize=2 * MAX_STATEMENTS)
def _parsed(text: str, start: str) -> tuple[tuple[Token, ...], Branch | None]:
    """A statement's tokens and tree. Remembered, because between two keystrokes few statements change."""
    machine = parser().parse_interactive(text, start=start)
    pieces: list[Token] = []
    try:
        for token in machine.iter_parse():
            if token.type not in LAYOUT:
                pieces.append(token)
        tree = machine.feed_eof()  # type: ignore[no-untyped-call]
    except (UnexpectedInput, DedentError):
        return tuple(pieces), None
    return tuple(pieces), tree if isinstance(tree, Tree) else None


def _node(file: SourceFile, tree: Branch, offset: int) -> Item:
    builder = TreeBuilder(file, lambda path, span: (), offset)
    match tree.data:
        case "cluster":
            return builder.cluster(tree)
        case "kernel_head":
            return builder.kernel(Tree("kernel", [tree]), "")
        case "schedule_head":
            return builder.schedule(Tree("schedule", [tree]), True)
        case "sequence":
            return ast.Sequence(builder.span(tree), builder.name(tree.children[0]), (), (), "")
        case _:
            return builder.statement(tree)
