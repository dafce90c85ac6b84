"""A Pygments lexer of specs, for documentation: the tokens are the parser's own, so colours follow meaning.

pygmentize -l tk specs/eight_wave.tk
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pygments.lexer import Lexer
from pygments.token import Comment, Error, Keyword, Name, Number, Operator, Punctuation, String, Text, _TokenType

from tkgen.lsp.context import stands_for
from tkgen.lsp.names import occurrences
from tkgen.lsp.outline import Outline, Piece, Statement, outline
from tkgen.source import SourceFile
from tkgen.syntax.grammar import spellings

_DECLARING = frozenset({"DIMS", "PARAM", "GLOBAL", "SCALAR", "FUNCTION"})
_OPERATORS = frozenset({
    "PLUS", "MINUS", "TIMES", "DIVIDE", "MODULO", "EQUAL", "VBAR", "_DOTS", "COLON", "AT", "COMPARE", "TRANSPOSED",
    "UPDATE",
})  # fmt: skip
_DECLARED = {
    "kernel": Name.Function,
    "function": Name.Function,
    "role": Name.Namespace,
    "dimension": Name.Constant,
    "parameter": Name.Constant,
}
_GAP = re.compile(r"(#[^\n]*)|(\s+)|([^\s#]+)")


class TkLexer(Lexer):
    """Colours specs, fragments and single statements; what does not parse stays as it is."""

    name = "tkgen spec"
    aliases = ["tk", "tkgen"]  # noqa: RUF012 - Pygments wants a list
    filenames = ["*.tk"]  # noqa: RUF012

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, _TokenType, str]]:
        """(offset, token type, text) for the whole text."""
        file = outline(SourceFile("<text>", text))
        named = {(o.span.start, o.span.end): _DECLARED.get(o.declares, Name) for o in occurrences(file)}
        position = 0
        for statement, i, piece in _pieces(file):
            yield from _gap(text, position, piece.start)
            yield piece.start, named.get((piece.start, piece.end)) or _type(statement, i, piece), piece.text
            position = piece.end
        yield from _gap(text, position, len(text))


def _pieces(file: Outline) -> Iterator[tuple[Statement, int, Piece]]:
    for statement in file.statements:
        for i, piece in enumerate(statement.pieces):
            yield statement, i, piece


def _type(statement: Statement, i: int, piece: Piece) -> _TokenType:
    """The type of a token that is no declared name."""
    if piece.type == "NAME":
        role = stands_for(statement.pieces[:i])
        return Keyword.Type if role == "dtype" else Name.Builtin
    if piece.type in ("INT", "FLOAT"):
        return Number
    if piece.type == "STRING":
        return String
    if spellings().get(piece.type, "").isalpha():
        return Keyword.Declaration if i == 0 and piece.type in _DECLARING else Keyword
    return Operator if piece.type in _OPERATORS else Punctuation


def _gap(text: str, start: int, end: int) -> Iterator[tuple[int, _TokenType, str]]:
    """Yield the text between the parser's tokens: blanks, comments, and what it refused."""
    for match in _GAP.finditer(text, start, end):
        kind = Comment.Single if match[1] else Text.Whitespace if match[2] else Error
        yield match.start(), kind, match[0]
