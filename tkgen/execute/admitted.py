"""Sizes that a spec admits: those that a regression would like to try, changed where the spec's checks refuse them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, product

from tkgen.backends.spec import AnySpec
from tkgen.diagnostics import SpecError
from tkgen.execute.cases import size_cases

Check = Callable[[Mapping[str, int]], object]  # raises SpecError for values, of sizes that a spec states, it refuses
TRIED = 64  # combinations of other sizes, for one case, until it is given up


def admitted(
    cases: Sequence[Mapping[str, int]], own: Mapping[str, int], check: Check
) -> Iterator[tuple[dict[str, int], str]]:
    """Each case as the spec admits it, once; or, where it admits none like it, the case and the first refusal.

    `own` has the sizes that the spec states.
    """
    seen: list[dict[str, int]] = []
    for case in cases:
        sizes, refusal = like(case, cases, own, check)
        if refusal or sizes not in seen:
            seen.append(sizes)
            yield sizes, refusal


def like(
    case: Mapping[str, int], cases: Sequence[Mapping[str, int]], own: Mapping[str, int], check: Check
) -> tuple[dict[str, int], str]:
    """The case as the spec admits it; or, where it admits none like it, the case and the first refusal.

    Sizes of other cases take the place of those of the case, as few as do, or else the spec's own.
    """
    refusal = ""
    for sizes in islice(_alternatives(case, cases, own), TRIED):
        try:
            check({name: sizes[name] for name in own.keys() & sizes.keys()})
        except SpecError as error:
            refusal = refusal or error.sentences
        else:
            return sizes, ""
    return dict(case), f"no sizes near these are allowed: {refusal}"


def small(spec: AnySpec, check: Check) -> dict[str, int]:
    """Sizes at which a spec is tried first, with several tiles or rows: those of its third case, as it admits them."""
    cases = size_cases(spec)
    return like(cases[min(2, len(cases) - 1)], cases, stated(spec), check)[0] if cases else {}


def stated(spec: AnySpec) -> dict[str, int]:
    """The sizes that a spec states."""
    return {d.name: d.size for d in spec.program.dims if d.size is not None}


def _alternatives(
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
