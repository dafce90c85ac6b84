"""Tables of the benchmarks in the pages of the documentation, each between two marks that have its name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

DOCS = Path(__file__).parent.parent / "docs"


class Kind(Protocol):
    """Counts of a table by kinds."""

    @property
    def kind(self) -> str:
        """Its kind."""


K = TypeVar("K", bound=Kind)


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """A table whose first columns, `words`, are words and the others numbers."""
    rule = ["---"] * words + ["---:"] * (len(headings) - words)
    return "".join(f"| {' | '.join(line)} |\n" for line in (headings, rule, *rows))


def by_kind(found: Sequence[K]) -> Iterator[tuple[str, list[K]]]:
    """All of each kind, most of them first; the whole last, as `all`."""
    kinds = sorted({f.kind for f in found}, key=lambda kind: (-sum(f.kind == kind for f in found), kind))
    for kind in kinds:
        yield kind, [f for f in found if f.kind == kind]
    yield "all", list(found)


def put(page: str, name: str, text: str) -> None:
    """`text` between the marks `name` of a page.

    Raises:
        ValueError: the page has no such marks.
    """
    path, begin, end = DOCS / page, f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    head, rest = path.read_text(encoding="utf-8").split(begin)
    path.write_text(head + begin + text + end + rest.split(end)[1], encoding="utf-8")
