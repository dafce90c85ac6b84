"""The formatter: one spacing for all specs, with every comment and the grouping by blank lines kept.

Two spaces per level and before the further operations of a schedule line, one space elsewhere; comments after
statements are aligned within a group of lines. Formatting a formatted file changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby

from lark import Token

from tkgen.source import SourceFile
from tkgen.syntax.grammar import OPERATIONS, parser
from tkgen.syntax.parser import parse_tree

_OPERATION_TOKENS = frozenset(word.upper() for word in OPERATIONS)
_BEFORE_CALL = frozenset({"NAME", "RSQB", "ANY"})
_ENDS_OPERAND = frozenset({"NAME", "FAST", "INT", "FLOAT", "RPAR", "RSQB", "TRANSPOSED"})
_STEP = frozenset({"PLUS", "MINUS"})
_NO_SPACE_BEFORE = frozenset({"COMMA", "RPAR", "RSQB", "SEMICOLON", "LSQB", "_DOTS", "TRANSPOSED"})
_NO_SPACE_AFTER = frozenset({"LPAR", "LSQB", "_DOTS"})


@dataclass
class _Line:
    """An output line: its indentation, the code's tokens, the comment after or instead of them.

    `statement` has the tokens of all lines of its statement.
    """

    depth: int
    tokens: list[Token] = field(default_factory=list)
    statement: list[Token] = field(default_factory=list)
    comment: str = ""
    blank_before: bool = False


def format_source(file: SourceFile) -> str:
    """The file's text in canonical form. Raises SpecError where it has syntax errors; includes are not followed."""
    parse_tree(file)
    lines = list(_lines(file.text))
    out: list[str] = []
    for _, group in groupby(_grouped(lines), key=lambda pair: pair[0]):
        out += _aligned([line for _, line in group])
    return "\n".join(out).lstrip("\n") + "\n" if out else ""


def _lines(text: str) -> Iterator[_Line]:
    """The output lines: each physical line of the input that holds code or a comment."""
    position, depth, widths = 0, 0, [0]
    line = _Line(0)
    fresh = True  # the next token starts a statement
    first = True
    for token in _tokens(text):
        if token.type == "_NL":
            fresh = True
        elif token.type == "_INDENT":
            depth += 1
        elif token.type == "_DEDENT":
            depth -= 1
        else:
            assert token.start_pos is not None and token.end_pos is not None
            gap = text[position : token.start_pos]
            if "\n" in gap or first:
                yield from _gap(gap, line, depth if fresh else depth + 1, widths)
                statement = [] if fresh else line.statement
                line = _Line(depth if fresh else depth + 1, statement=statement, blank_before=_ends_blank(gap))
                if fresh:
                    width = token.start_pos - text.rfind("\n", 0, token.start_pos) - 1
                    widths = [*widths[:depth], width]
            line.tokens.append(token)
            line.statement.append(token)
            position, fresh, first = token.end_pos, False, False
    yield from _gap(text[position:], line, 0, widths)


def _gap(gap: str, before: _Line, depth: int, widths: list[int]) -> Iterator[_Line]:
    """Finish the line before a gap with the comment after it, then the comment lines in the gap.

    A comment line belongs to the innermost body it is indented like, among those that end there; `depth` is that of
    the next line, `widths` the input's indentation per depth.
    """
    behind, *rest = gap.split("\n")
    if before.tokens:
        before.comment = behind.strip()
        yield before
    else:
        rest = [behind, *rest]
    blank = False
    for text in rest:
        comment = text.strip()
        if comment.startswith("#"):
            width = len(text) - len(text.lstrip())
            inner = before.depth if before.tokens else 0
            at = next((d for d in range(inner, depth, -1) if d < len(widths) and widths[d] <= width), depth)
            yield _Line(at, comment=comment, blank_before=blank)
        blank = not comment


def _ends_blank(gap: str) -> bool:
    """Return True if a blank line stands right before the token after the gap."""
    lines = gap.split("\n")
    return len(lines) > 2 and not lines[-2].strip()


def _tokens(text: str) -> Iterator[Token]:
    """The parser's tokens, with the types that their context gives them."""
    return parser().parse_interactive(text.rstrip(), start="file").iter_parse()


def _grouped(lines: list[_Line]) -> Iterator[tuple[int, _Line]]:
    """Lines with the number of their group: blank lines and comment lines part groups."""
    group = 0
    for line in lines:
        if line.blank_before or not line.tokens:
            group += 1
        yield group, line


def _aligned(lines: list[_Line]) -> list[str]:
    """The text of a group of lines, comments after code in one column."""
    codes = ["  " * line.depth + _spaced(line) for line in lines]
    pairs = list(zip(codes, lines, strict=True))
    column = max((len(code) + 2 for code, line in pairs if line.comment and line.tokens), default=0)
    out: list[str] = []
    for code, line in pairs:
        out += [""] * line.blank_before
        out.append((code.ljust(column) if line.tokens and line.comment else code) + line.comment)
    return out


def _spaced(line: _Line) -> str:
    """A line's tokens with canonical spaces between them."""
    text = ""
    brackets: list[str] = []  # those open in this line
    tight = all(token.type != "EQUAL" for token in line.statement)  # `A[k+1]` of a step, `X[t - 1]` of an equation
    for i, token in enumerate(line.tokens):
        if i:
            text += _space(line.tokens, i, brackets[-1] if brackets else "", tight)
        if token.type in ("LPAR", "LSQB"):
            brackets.append(str(token))
        elif token.type in ("RPAR", "RSQB"):
            del brackets[-1:]  # none where the statement was broken inside
        text += token
    return text


def _space(tokens: list[Token], i: int, bracket: str, tight: bool) -> str:
    """The space before token `i`, inside the given bracket or none; `tight`: no space between a step and its offset."""
    before, token = tokens[i - 1], tokens[i]
    if token.type in _OPERATION_TOKENS and not bracket:  # else it is one of those that a `mix` mixes
        return " " if before.type in ("CLUSTER", "GROUP") else "  "
    if token.type in _NO_SPACE_BEFORE or before.type in _NO_SPACE_AFTER:
        return ""
    if token.type == "LPAR":
        return "" if before.type in _BEFORE_CALL else " "
    if before.type == "MINUS" and (i < 2 or tokens[i - 2].type not in _ENDS_OPERAND):
        return ""  # a sign
    return "" if tight and bracket == "[" and {before.type, token.type} & _STEP else " "
