"""Did you mean ...? The nearest known word to a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable


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
    near = [(distance(word, k), i, k) for i, k in enumerate(known) if abs(len(k) - len(word)) <= slips]
    best = min((n for n in near if n[0] <= slips and n[0] < len(word)), default=None)
    return best[2] if best else None


def suggestion(name: str, known: Iterable[str]) -> str:
    """`; did you mean ...?` where a known name is close, else empty."""
    close = nearest(name, known)
    return f"; did you mean `{close}`?" if close else ""
