"""Text of messages: numbers with their nouns; text from files made safe to show, and its width."""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Iterable, Sequence


def escape(text: str) -> str:
    """The text with every control, formatting and unpaired surrogate character written as `\\x1b` or `\\u202e`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if plain(c) else escaped(c) for c in text)


def plain(character: str) -> bool:
    """Return True if a character shows as itself and does nothing else to a terminal."""
    return unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp")


def escaped(character: str) -> str:
    """A character as its escape sequence in Python's notation."""
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def columns(text: str) -> int:
    """Return the number of terminal columns that printable text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in ("W", "F") else 1 for c in text
    )


def table_text(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table without borders; a heading that begins with `>` is over a column aligned to the right."""
    from rich.console import Console  # what only checks specs needs no tables
    from rich.table import Table

    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in headings:
        shown.add_column(heading.removeprefix(">"), justify="right" if heading.startswith(">") else "left")
    for row in rows:
        shown.add_row(*row)
    text = io.StringIO()
    Console(file=text, width=200, color_system=None).print(shown, highlight=False)
    return [line.rstrip() for line in text.getvalue().splitlines()]


def count_text(number: int, what: str) -> str:
    """`1 barrier`, `2 barriers`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def distance(a: str, b: str) -> int:
    """Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`, ignoring case."""
    a, b = a.lower(), b.lower()
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        above, left = row, [i]
        for j, y in enumerate(b, 1):
            cost = min(above[j] + 1, left[j - 1] + 1, above[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and y == a[i - 2]:
                cost = min(cost, before[j - 2] + 1)
            left.append(cost)
        before, row = above, left
    return row[-1]


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The word of `known` that `word` most likely means, or None: about one slip per three letters is forgiven."""
    if len(word) > 40:
        return None
    slips = max(1, len(word) // 3)
    known = list(known)
    near = [(distance(word, k), i, k) for i, k in enumerate(known) if abs(len(k) - len(word)) <= slips]
    best = min((n for n in near if n[0] <= slips and n[0] < len(word)), default=None)
    if best is not None:
        return best[2]
    begun = [k for k in known if len(word) > 3 and k.lower().startswith(word.lower())]  # `mask`, of `masked`
    return begun[0] if len(begun) == 1 else None


def suggestion(name: str, known: Iterable[str]) -> str:
    """`; did you mean ...?` where a known name is close, else empty."""
    close = nearest(name, known)
    return f"; did you mean `{close}`?" if close else ""
