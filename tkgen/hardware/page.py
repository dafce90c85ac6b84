"""A page of Markdown from a report: `docs/measured-amd.md`."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from tkgen.hardware.tables import Table, tables


def markdown(report: Mapping[str, Any]) -> str:
    """The page of a report."""
    run = report["run"]
    parts = [f"# Measured on an {run['GPU']}", "Written by `tkgen hardware-check --page PAGE`, never by hand."]
    if report["note"]:
        parts.append(f"**{_wrapped(report['note'])}**")
    parts.append(
        _wrapped(
            f"Target {run['target']}; {run['compute units']} compute units; {run['memory'] / 2**30:.0f} GiB; HIP "
            f"{run['HIP']}; tkgen {run['tkgen']}."
        )
    )
    for lack in report["missing"]:
        parts.append(f"Section `{lack['section']}` did not run: it needs {lack['needs']}.")
    for table in tables(report):
        parts += _table(table)
    return "\n\n".join(parts) + "\n"


def _table(table: Table) -> list[str]:
    found = [f"## {table.title}", *([_wrapped(table.text)] if table.text else [])]
    if table.rows:
        lines = [_row(table.headings), "|" + "---|" * len(table.headings), *map(_row, table.rows)]
        found.append("\n".join(lines))
    return found


def _row(cells: Any) -> str:
    return "| " + " | ".join(_cell(str(cell)) for cell in cells) + " |"


def _cell(text: str) -> str:
    """Text that is nothing but text in a table."""
    first = text.splitlines()[0] if text else ""
    for special in "\\`*_|<>[]":
        first = first.replace(special, f"\\{special}")
    return first


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 98, break_long_words=False, break_on_hyphens=False)
