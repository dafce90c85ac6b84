"""The report of a check, from the results of its items."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tkgen.hardware.sections import chosen
from tkgen.hardware.state import State
from tkgen.toolchain.files import write_atomic

Report = dict[str, Any]


def write(state: State, only: str, missing: Sequence[tuple[str, str, str]]) -> Report:
    """Write report.json into the folder."""
    names = [section.NAME for section in chosen(only)]
    results = [r for r in state.results() if r["section"] in names]
    found: Report = {"run": state.identity(), "missing": [list(m) for m in missing], "results": results}
    write_atomic(state.folder / "report.json", json.dumps(found, indent=1) + "\n")
    return found


def summary(report: Report, folder: Path) -> str:
    """A line for each section."""
    lines = []
    for section in dict.fromkeys(r["section"] for r in report["results"]):
        verdicts = [r["verdict"] for r in report["results"] if r["section"] == section]
        lines.append(f"{section}: " + ", ".join(f"{verdicts.count(v)} {v}" for v in dict.fromkeys(verdicts)))
    return "\n".join([*lines, f"report: {folder / 'report.json'}"])
