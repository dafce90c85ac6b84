"""Advice as a table for people, and as data."""

from __future__ import annotations

import io
import textwrap
from typing import Any

from tkgen.sanitize.advice import Advice, Advised

_WIDTH = 120
_SOURCE = 60  # characters of a line of it


def advice_text(advised: Advised) -> str:
    """A table, a row and a reason for each change, and what all of them are predicted to save."""
    found = advised.advice
    looked = f"{_counted(advised.waits, 'wait')} and {_counted(advised.barriers, 'barrier')} looked at"
    notes = [f"note: {note}" for note in advised.notes]
    if not found:
        return "\n".join([f"advice: none; {looked}" if advised.waits or advised.barriers else "advice: none", *notes])
    head = f"advice: {len(found)} of {looked} can do with less, all together, as the referee finds"
    lines = [head, *_table(advised)]
    for number, one in enumerate(found, 1):
        source = textwrap.shorten(one.source, _SOURCE, placeholder="...")
        said = f"{number}: {source + ': ' if source else ''}{one.reason}"
        lines += textwrap.wrap(said, _WIDTH, subsequent_indent="   ", break_long_words=False, break_on_hyphens=False)
    if advised.cycles is not None:
        before, after = advised.cycles
        change = f"{before:.0f} -> {after:.0f} cycles a pass of the main loop{_percent(before, after)}"
        lines.append(f"all together, predicted: {change}")
    return "\n".join([*lines, *notes])


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' if number != 1 else ''}"


def _table(advised: Advised) -> list[str]:
    from rich.console import Console
    from rich.table import Table

    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("", "at", "address", "is", "enough"):
        shown.add_column(heading)
    shown.add_column("cycles a pass, predicted", justify="right")
    for number, one in enumerate(advised.advice, 1):
        shown.add_row(str(number), one.place, f"{one.addresses[0]:#x}", one.now, one.enough, _saved(one, advised))
    text = io.StringIO()
    Console(file=text, width=200, color_system=None).print(shown, highlight=False)
    return [line.rstrip() for line in text.getvalue().splitlines()]


def _saved(one: Advice, advised: Advised) -> str:
    if one.saved is None or advised.cycles is None:
        return "-"
    before, _ = advised.cycles
    return f"{round(-one.saved):+}{_percent(before, before - one.saved)}" if round(one.saved) else "0"


def _percent(before: float, after: float) -> str:
    return f" ({100 * (after - before) / before:+.1f} %)" if before else ""


def advice_json(advised: Advised) -> dict[str, Any]:
    """The same as plain data; cycles are predictions, of a pass of the main loop."""
    before, after = advised.cycles or (None, None)
    return {
        "advice": [
            {
                "addresses": list(one.addresses),
                "place": one.place,
                "source": one.source,
                "is": one.now,
                "enough": one.enough,
                "reason": one.reason,
                "predicted_cycles_saved": one.saved,
            }
            for one in advised.advice
        ],
        "waits": advised.waits,
        "barriers": advised.barriers,
        "predicted_cycles_per_pass": {"before": before, "after": after},
        "notes": list(advised.notes),
    }
