"""The report of a check, as JSON and as a page of HTML, from the results of its items."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import jinja2

from tkgen.hardware.context import CLOSE, FAILED, MEASURED, RIGHT, SKIPPED, WRONG
from tkgen.hardware.sections import chosen
from tkgen.hardware.state import Result, State
from tkgen.hardware.tables import Table, tables
from tkgen.toolchain.files import write_atomic

Report = dict[str, Any]
WORST_FIRST: Final = (FAILED, WRONG, CLOSE, MEASURED, RIGHT, SKIPPED)
EMULATED: Final = (
    "This check ran on tkgen's emulator, not on a GPU. Its times and measured figures are those of the emulation, and "
    "its instructions were compared with themselves."
)


def write(state: State, only: str, missing: Sequence[tuple[str, str, str]], page: Path | None) -> Report:
    """Write report.json and report.html into the folder, and a page of Markdown where one is asked for."""
    from tkgen.hardware.page import markdown

    names = [section.NAME for section in chosen(only)]
    results = [r for r in state.results() if r["section"] in names]
    found = report(state.identity(), results, missing)
    write_atomic(state.folder / "report.json", json.dumps(found, indent=1) + "\n")
    write_atomic(state.folder / "report.html", html(found))
    if page is not None:
        write_atomic(page, markdown(found))
    return found


def report(run: Mapping[str, Any], results: Sequence[Result], missing: Sequence[tuple[str, str, str]]) -> Report:
    """The report as plain data: `run` says what was checked, `summary` counts verdicts by section."""
    ordered = sorted(results, key=lambda r: WORST_FIRST.index(r["verdict"]))
    summary: dict[str, dict[str, int]] = {}
    for section in chosen(""):
        mine = [r["verdict"] for r in results if r["section"] == section.NAME]
        if mine:
            summary[section.NAME] = {v: mine.count(v) for v in WORST_FIRST if v in mine}
    lacking = [{"section": s, "needs": name, "to get it": install} for s, name, install in missing]
    return {
        "run": dict(run), "note": EMULATED if run["stand-in"] else "", "summary": summary, "missing": lacking,
        "results": ordered,
    }  # fmt: skip


def summary(found: Report, folder: Path) -> str:
    """A line for each section, and where the report is."""
    run = found["run"]
    lines = [f"{run['GPU']} ({run['target']}), HIP {run['HIP']}, tkgen {run['tkgen']}"]
    lines += [found["note"]] if found["note"] else []
    for section, counts in found["summary"].items():
        lines.append(f"{section}: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return "\n".join([*lines, f"report: {folder / 'report.html'}"])


def html(found: Report) -> str:
    """One file without requests; everything in it is escaped."""
    loader = jinja2.FileSystemLoader(Path(__file__).with_name("templates"))
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
    made: list[Table] = tables(found)
    return environment.get_template("report.html.jinja").render(report=found, tables=made)
