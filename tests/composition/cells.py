"""The table feature x kernel: a spec for each cell, and the targets that refuse it with their reasons.

`cells.toml` has the kernels and the cells; its header says how. `test_composition.py` checks each cell,
`test_composed_kernels.py` runs those that are accepted. `python tests/composition/cells.py` writes docs/composition.md.
"""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tkgen.diagnostics.explain import page as explained

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "composition.md"
TARGETS = ("gfx90a", "gfx942", "gfx950", "sm_90a")
KINDS = {"machine": "the hardware cannot do it", "computed": "the computation rules it out", "open": "not done yet"}
LABELS = {"machine": "hardware", "computed": "ruled out", "open": "not yet"}


@dataclass(frozen=True)
class Refusal:
    """Why a target refuses a cell: one of `KINDS`, the reason, and the error's code, empty where no spec can say it."""

    code: str
    kind: str
    reason: str


@dataclass(frozen=True)
class Cell:
    """A feature of a kernel: the spec that has it, by target, and the targets that refuse it."""

    feature: str
    kernel: str
    specs: Mapping[str, str]
    refusals: Mapping[str, Refusal]

    @property
    def name(self) -> str:
        return f"{self.feature} of {self.kernel}"

    @property
    def heading(self) -> str:
        return f"{self.feature[0].upper()}{self.feature[1:]}: {self.kernel}"


def _changed(text: str, change: Mapping[str, Any]) -> str:
    """The spec with the lines of `add` below its `over`, and each text of `replace` replaced everywhere."""
    if "add" in change:
        head, over, rest = text.partition("  over ")
        line, _, body = rest.partition("\n")
        text = f"{head}{over}{line}\n  {change['add']}\n{body}"
    for old, new in change.get("replace", {}).items():
        if old not in text:
            raise ValueError(f"{old!r} is not in the spec:\n{text}")
        text = text.replace(old, new)
    return text


def _refusal(found: Mapping[str, str]) -> Refusal:
    (kind,) = found.keys() & KINDS.keys()
    return Refusal(found["code"], kind, found[kind])


def _by_target(found: Mapping[str, Any]) -> dict[str, Any]:
    """Values by target, of a table whose keys are targets with blanks between."""
    named = [(target, value) for targets, value in found.items() for target in targets.split()]
    if unknown := [target for target, _ in named if target not in TARGETS]:
        raise ValueError(f"no targets: {', '.join(unknown)}")
    return dict(named)


def _cell(feature: str, kernel: str, base: str, found: Mapping[str, Any]) -> Cell:
    if "absent" in found:
        return Cell(feature, kernel, {}, dict.fromkeys(TARGETS, Refusal("", "computed", found["absent"])))
    text = _changed(found.get("spec", base), found).lstrip("\n")
    only = _by_target(found.get("only", {}))
    refusals = {target: _refusal(value) for target, value in _by_target(found.get("refused", {})).items()}
    return Cell(feature, kernel, {t: _changed(text, only.get(t, {})) for t in TARGETS}, refusals)


def cells() -> list[Cell]:
    """All cells, feature by feature, each of which has every kernel.

    Raises:
        ValueError: a change of a text that the spec does not have, or a target that there is not.
        KeyError: a feature that leaves out a kernel.
    """
    found = tomllib.loads((HERE / "cells.toml").read_text(encoding="utf-8"))
    kernels = found.pop("kernels")
    return [_cell(feature, k, base, of[k]) for feature, of in found.items() for k, base in kernels.items()]


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %"


def _counts(all_cells: Sequence[Cell]) -> str:
    lines = ["| | accepted | " + " | ".join(KINDS.values()) + " | accepted of all | accepted of the possible |"]
    lines.append("|---" * 7 + "|")
    for target in TARGETS:
        kinds = [cell.refusals[target].kind for cell in all_cells if target in cell.refusals]
        accepted, wanted = len(all_cells) - len(kinds), len(all_cells) - len(kinds) + kinds.count("open")
        numbers = [accepted, *(kinds.count(kind) for kind in KINDS)]
        shares = [_percent(accepted, len(all_cells)), _percent(accepted, wanted)]
        lines.append(f"| {target} | " + " | ".join(map(str, [*numbers, *shares])) + " |")
    return "\n".join(lines)


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _verdict(cell: Cell, target: str) -> str:
    refusal = cell.refusals.get(target)
    return "yes" if refusal is None else f"[{LABELS[refusal.kind]}](#{_anchor(cell.heading)})"


def _table(target: str, features: Mapping[str, Sequence[Cell]]) -> str:
    kernels = [cell.kernel for cell in next(iter(features.values()))]
    rows = ["", *kernels], ["---"] * (1 + len(kernels))
    verdicts = ([name, *(_verdict(cell, target) for cell in of)] for name, of in features.items())
    return f"## {target}\n\n" + "".join(f"| {' | '.join(row)} |\n" for row in (*rows, *verdicts))


def _reasons(cell: Cell) -> str:
    by_refusal: dict[Refusal, list[str]] = {}
    for target, refusal in cell.refusals.items():
        by_refusal.setdefault(refusal, []).append(target)
    lines = []
    for refusal, targets in by_refusal.items():
        code = refusal.code
        if code:
            code = f" ([{code}](diagnostics.md#{_anchor(f'{code}: {explained(code).title}')}))"
        reason = refusal.reason[0].upper() + refusal.reason[1:]
        text = f"- {', '.join(targets)}: {KINDS[refusal.kind]}{code}. {reason}."
        lines.append(textwrap.fill(text, 100, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False))
    return f"### {cell.heading}\n\n" + "\n".join(lines) + "\n"


def page() -> str:
    """The page of the table, in Markdown."""
    all_cells = cells()
    features: dict[str, list[Cell]] = {}
    for cell in all_cells:
        features.setdefault(cell.feature, []).append(cell)
    parts = [
        "# What can be combined\n",
        "This page says which feature of the language can be used in which kind of kernel, for each target.\n"
        "Every cell of the tables is a small spec. One test checks each spec; another one runs the accepted\n"
        "specs and compares them with torch. `python tests/composition/cells.py` writes this page.\n",
        "| kernel | |\n|---|---|\n"
        "| product | a [product of matrices](language.md#matrix-products) |\n"
        "| attention | a [fused matmul](language.md#fused-matmuls) |\n"
        "| rows | a [row kernel](language.md#rows), which has no product |\n"
        "| groups | a product of [groups of rows](language.md#matrix-products), such as experts; in the cell "
        '"groups", K is divided into groups, not M |\n',
        "| answer | meaning |\n|---|---|\n"
        "| yes | tkgen accepts the spec, and its results are right |\n"
        "| hardware | the hardware cannot do it |\n"
        "| ruled out | the computation has no use for the feature, or makes it impossible |\n"
        "| not yet | it could be done, but tkgen does not do it yet |\n",
        'The last column of the next table counts only cells that are "yes" or "not yet".\n',
        'In the cell "low precision" of attention, keys are the innermost dimension of the values, because\n'
        "wgmma takes 8-bit floats in no other layout. AMD targets accept both layouts.\n",
        _counts(all_cells) + "\n",
        *(_table(target, features) for target in TARGETS),
        "## Why not\n",
        *(_reasons(cell) for cell in all_cells if cell.refusals),
    ]
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
