"""Tables of the benchmarks in the pages of the documentation, each between two marks that have its name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """A table whose first columns, `words`, are words and the others numbers."""
    rule = ["---"] * words + ["---:"] * (len(headings) - words)
    return "".join(f"| {' | '.join(line)} |\n" for line in (headings, rule, *rows))


def put(page: str, name: str, text: str) -> None:
    """`text` between the marks `name` of a page.

    Raises:
        ValueError: the page has no such marks.
    """
    path, begin, end = DOCS / page, f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    head, rest = path.read_text(encoding="utf-8").split(begin)
    path.write_text(head + begin + text + end + rest.split(end)[1], encoding="utf-8")
