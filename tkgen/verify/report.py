"""Verdicts as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from tkgen.diagnostics.text import table_text
from tkgen.verify.run import Verdict


def table(verdicts: Sequence[Verdict]) -> str:
    """Verdicts of one kernel: a row for each launch, a line for all that is wrong, and what right ones prove."""
    return "\n".join(line for verdict in verdicts for line in _lines(verdict))


def _lines(v: Verdict) -> Iterator[str]:
    headings = ("schedule", "draw", ">elements", ">wrong", ">undecided", ">instructions")
    trials = ((t.schedule, t.seed, t.elements, t.wrong, t.undecided, t.instructions) for t in v.trials)
    sizes = " ".join(f"{n}={s}" for n, s in v.sizes.items())
    if v.printed:
        yield v.printed.removesuffix("\n")
    yield f"{v.name}  {sizes}{f'  ({v.note})' if v.note else ''}"
    yield from table_text(headings, (list(map(str, trial)) for trial in trials))
    for name, entries in groupby(v.wrong, key=lambda wrong: wrong.output):
        yield f"WRONG {name}: {'; '.join(map(str, entries))}"
    for cause in v.cause:
        yield f"  {cause}"
    for name, count in v.undecided.items():
        yield f"UNDECIDED {name}: {count} elements hang on choices that rounding leaves open, in every draw"
    yield from (f"STOPPED {finding}" for finding in v.findings)
    yield from (f"  {line}" for line in grouped(map(str, v.lost)))
    if v.ok:
        yield _proven(v)
    if v.unseen:
        yield f"not shown at these sizes: {'; '.join(v.unseen)}"


def _proven(v: Verdict) -> str:
    draws = f"{len(v.trials)} draw{'s' if len(v.trials) > 1 else ''}"
    if v.degree is None:
        return f"as meant, in {draws}; a wrong element as good as random escapes with probability {v.chance:.1g}"
    return f"as meant, in {draws}; a wrong element of degree {v.degree} escapes with probability {v.chance:.1g} at most"


def grouped(lost: Iterable[str]) -> list[str]:
    """Losses of the same kind once, with how many instructions have it."""
    kinds: dict[str, list[str]] = {}
    for line in lost:
        kinds.setdefault(re.sub(r"^\d+ numbers lost at 0x[0-9a-f]+ ", "", line), []).append(line)
    lines = [f"{v[0]}{f' (and {len(v) - 1} instructions like it)' if len(v) > 1 else ''}" for v in kinds.values()]
    return lines if len(lines) <= 4 else [*lines[:4], f"and {len(lines) - 4} more places"]
