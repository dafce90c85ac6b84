"""Wrong elements and their causes, as data with the sentences that people read."""

from __future__ import annotations

from dataclasses import dataclass

Run = tuple[int, int]  # the first and the last of some indices


@dataclass(frozen=True)
class Wrong:
    """Wrong elements of an output with the same kind of error.

    `kind` is `never-written`, `lost` (its payload was) or `different`. `elements` of `all` are wrong, `first` is the
    index of the first one, and `text` says where they all are.
    """

    output: str
    kind: str
    elements: int
    all: int
    first: tuple[int, ...]
    text: str

    def __str__(self) -> str:
        return f"{_KINDS[self.kind]}: {self.text}"

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        return {**vars(self), "first": list(self.first)}


_KINDS = {"never-written": "never written", "lost": "lost", "different": "not the intended value"}


@dataclass(frozen=True)
class Cause:
    """A likely cause of the wrong elements of an output, with an `element` that shows it.

    `kind` is `moved` (it holds what belongs to `owner`), `zero`, `scaled` (by `factor`), `factor` (an element of an
    input, once too often or missing), `lacks`, `twice` or `mixed` (terms of a sum, `where` are their numbers),
    `changed` (the meaning gives it with one step changed), `depends` or `independent` (of a part of an input, which it
    should not be), `constant` or `function` (another one of the same inputs). `where` has the first and the last index
    along each dimension of `input`.
    """

    kind: str
    output: str
    element: tuple[int, ...]
    text: str
    input: str = ""
    where: tuple[Run, ...] = ()
    owner: tuple[int, ...] = ()
    factor: float | None = None

    def __str__(self) -> str:
        return self.text

    def to_json(self) -> dict[str, object]:
        """Plain data; lists of indices are empty where there are none."""
        indices = {"element": list(self.element), "where": [list(r) for r in self.where], "owner": list(self.owner)}
        return vars(self) | indices
