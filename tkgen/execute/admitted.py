"""Sizes that a spec admits: those that a regression would like to try, changed where the spec's checks refuse them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, product

from tkgen.diagnostics import SpecError

TRIED = 64  # combinations of other sizes, for one case, until it is given up


def admitted(
    cases: Sequence[Mapping[str, int]], own: Mapping[str, int], check: Callable[[Mapping[str, int]], object]
) -> Iterator[tuple[dict[str, int], str]]:
    """Each case as the spec admits it, once; or, where it admits none like it, the case and the first refusal.

    `own` has the sizes that the spec states, and `check` raises SpecError for values of these that it refuses. Then
    sizes of other cases take the place of those of the case, as few as do, or else the spec's own.
    """
    seen: list[dict[str, int]] = []
    for case in cases:
        refusal = ""
        for sizes in islice(_like(case, cases, own), TRIED):
            try:
                check({name: sizes[name] for name in own.keys() & sizes.keys()})
            except SpecError as error:
                refusal = refusal or str(error)
                continue
            if sizes not in seen:
                seen.append(sizes)
                yield sizes, ""
            break
        else:
            yield dict(case), f"no sizes like these are admitted: {refusal}"


def _like(
    case: Mapping[str, int], cases: Sequence[Mapping[str, int]], own: Mapping[str, int]
) -> Iterator[dict[str, int]]:
    """The case, then what it becomes with other values of the sizes that the spec states: the fewest changes first."""
    yield dict(case)
    names = [name for name in case if name in own]
    choices = []
    for name in names:
        others = {other[name] for other in cases if name in other} | {own[name]}
        choices.append(sorted(others, key=lambda value, now=case[name]: (value != now, abs(value - now))))  # type: ignore[misc]
    ranked = [
        (sum(value != case[name] for name, value in zip(names, chosen, strict=True)), number, chosen)
        for number, chosen in enumerate(islice(product(*choices), 4096))
    ]
    for changes, _, chosen in sorted(ranked):
        if changes:
            yield dict(case) | dict(zip(names, chosen, strict=True))
