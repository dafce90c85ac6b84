"""The rest of a text with statements that cannot be read: what the others say is checked all the same.

A statement is blanked out. A header, whose body would have no place then, is replaced by one that can be read: as the
fix of its error writes it, else its longest beginning that is one, else one without meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lark import Token, Tree

from tkgen.diagnostics import Diagnostic
from tkgen.diagnostics.fixes import edited
from tkgen.source import SourceFile
from tkgen.syntax.errors import Statement, parses

# Headers without meaning, of which nothing is reported. `{0}` is the first name of the one that is replaced, `{1}` the
# name after it.
_EMPTY = {
    "kernel": "kernel {0}",
    "role": "role {0} waves 0..3",
    "each": "each {0} in {1} by 16",
    "schedule": "schedule",
}
_WORD = r"[A-Za-z_]\w*"


@dataclass(frozen=True)
class Readable:
    """A text in which every statement can be read: `pieces` are (start, end, start in the text, end there)."""

    text: str
    pieces: tuple[tuple[int, int, int, int], ...]

    def placed(self, tree: Tree[Token]) -> None:
        """Move the positions in a tree of the text to those of the file."""
        for each in tree.iter_subtrees():
            places = [c for c in each.children if isinstance(c, Token)]
            for place in (*places, *(() if each.meta.empty else (each.meta,))):
                place.start_pos, place.end_pos = self._place(place.start_pos), self._place(place.end_pos)

    def _place(self, offset: int | None) -> int | None:
        if offset is None:
            return None
        moved = 0
        for start, end, first, last in self.pieces:
            if offset <= first:
                break
            if offset < last:
                return min(start + offset - first, end)
            moved = end - last
        return offset + moved


def readable(file: SourceFile, wrong: Sequence[Statement], found: Sequence[Diagnostic]) -> Readable | None:
    """The text of a file without its `wrong` statements, which have the errors `found`; None where a header stays."""
    parts, pieces, at, length = list[str](), list[tuple[int, int, int, int]](), 0, 0
    for s in wrong:
        text = file.text[s.start : s.end]
        new = re.sub(r"[^\n]", " ", text) if s.opens is None else next(_headers(file, s, found), None)
        if new is None:
            return None
        parts += [file.text[at : s.start], new]
        length += s.start - at
        pieces.append((s.start, s.end, length, length + len(new)))
        at, length = s.end, length + len(new)
    return Readable("".join([*parts, file.text[at:]]), tuple(pieces))


def _headers(file: SourceFile, s: Statement, found: Sequence[Diagnostic]) -> Iterator[str]:
    """Yield headers that can be read in place of this one, the likeliest first, on one line."""
    text = file.text[s.start : s.end].rstrip()
    for d in found:
        edits = d.fix.edits if d.fix else ()
        if edits and all(s.start <= e.span.start and e.span.end <= s.end for e in edits):
            yield from _parsed(edited(file.text[: s.end], edits)[s.start :].rstrip(), s)
    begun = re.sub(rf"^{_WORD}", s.opens or "", text)
    for end in (m.end() for m in reversed(list(re.finditer(r"\w+|[^\w\s]", begun)))):
        yield from _parsed(begun[:end], s)
    names = [*re.findall(_WORD, text)[1:], "unnamed", "unnamed"]
    yield from _parsed(_EMPTY.get(s.opens or "", "").format(*names), s)


def _parsed(text: str, s: Statement) -> Iterator[str]:
    """Yield the text if it is a header of this kind."""
    if text.split()[:1] == [s.opens] and "\n" not in text and parses(text, s.inside):
        yield text
