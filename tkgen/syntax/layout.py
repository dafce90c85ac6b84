"""Indentation: which lines continue a statement, which open and close bodies.

A line that is indented further than the statement before it is that statement's body if it opens one (`kernel`,
`role`, `each`, `when`, `schedule`), and its continuation otherwise. The rule stands once, in `Levels`; the
post-lexer of the grammar and the search for errors line by line both use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from lark import Token
from lark.indenter import DedentError
from lark.lark import PostLex

OPENERS = ("kernel", "role", "each", "when", "schedule")
_OPENER_TOKENS = frozenset(word.upper() for word in OPENERS)


@dataclass
class Levels:
    """The indentation of the open bodies, outermost first."""

    widths: list[int] = field(default_factory=lambda: [0])

    def enter(self, width: int, opener: bool) -> int | None:
        """Take the next line's indentation; `opener` says whether the statement before it opens a body.

        The number of bodies opened (1) or closed (0 and below), or None where the line continues the statement.
        Raises DedentError where the line matches no open body; it then counts as in the innermost one it might mean.
        """
        if width > self.widths[-1]:
            if not opener:
                return None
            self.widths.append(width)
            return 1
        closed = 0
        while width < self.widths[-1] and len(self.widths) > 1:
            inner = self.widths.pop()
            closed -= 1
        self.widths[0] = min(self.widths[0], width)  # it is above zero after a first line that was indented
        if width > self.widths[-1]:
            self.widths.append(inner)
            raise DedentError(f"indented by {width}, the bodies around by {self.widths}")
        return closed


class Indenter(PostLex):
    """The grammar's post-lexer: line ends become _NL, _INDENT and _DEDENT, or nothing where a statement goes on.

    It accepts names everywhere, so that a misspelt keyword is one token and not a keyword's beginning with a rest.
    """

    always_accept = ("_NL", "NAME")

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        """The parser's tokens from the lexer's."""
        levels = Levels()
        first: Token | None = None  # first token of the current line
        last: Token | None = None
        for token in stream:
            if token.type != "_NL":
                if last is None and token.column and token.column > 1:
                    raise DedentError("the first line is indented")
                first, last = first or token, token
                yield token
                continue
            if first is None:
                continue  # blank lines and comments before the first statement
            indentation = token[token.rfind("\n") + 1 :]
            if "#" in indentation:
                continue  # a comment at the end of the file, no line of code follows
            change = levels.enter(len(indentation), first.type in _OPENER_TOKENS)
            if change is None:
                continue
            yield token
            for _ in range(abs(change)):
                yield Token.new_borrow_pos("_INDENT" if change > 0 else "_DEDENT", "", token)
            first = None
        if last is not None:
            if first is not None:
                yield Token.new_borrow_pos("_NL", "\n", last)
            for _ in levels.widths[1:]:
                yield Token.new_borrow_pos("_DEDENT", "", last)


@dataclass(frozen=True)
class PhysicalLine:
    """A line with code on it: offsets of its first character and of its code, its end, and its first word."""

    start: int
    code: int
    end: int
    word: str

    @property
    def width(self) -> int:
        """Columns of indentation."""
        return self.code - self.start


_LINE = re.compile(r"^([ \t]*+)(?!\r?$)(?:([A-Za-z_]\w*)|[^#])", re.MULTILINE | re.ASCII)


def code_lines(text: str) -> Iterator[PhysicalLine]:
    """The lines of `text` that hold more than blanks and a comment."""
    for match in _LINE.finditer(text):
        end = text.find("\n", match.end())
        yield PhysicalLine(match.start(), match.end(1), len(text) if end < 0 else end, match[2] or "")
