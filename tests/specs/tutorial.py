"""docs/tutorial.md as data: its specs, one change after the other, and what it says of each.

`python tests/specs/tutorial.py` rewrites the tables and the error with what the compiler says now.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tkgen import api
from tkgen.diagnostics import SpecError
from tkgen.diagnostics.render import render_text

DOC = Path(__file__).parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(
    r"^```(?P<kind>tk|diff)\n(?P<text>.*?)^```\n\n(?P<claim>(?:\|[^\n]*\n)+|```text\n.*?^```$)",
    re.MULTILINE | re.DOTALL,
)
COLUMNS = ("waves", "barriers per step", "VGPRs", "LDS bytes", "other instructions per MFMA")


@dataclass(frozen=True)
class Step:
    """A spec, and what stands behind it: the numbers of its table, or the text of the error it ends in."""

    spec: str
    numbers: tuple[float, ...]
    error: str | None
    span: tuple[int, int]  # of the claim in the document


def apply(spec: str, diff: str) -> str:
    """`spec` with a diff's lines changed; each line that goes, or stays beside one that comes, stands there once."""
    lines, at = spec.splitlines(), 0
    for change in diff.splitlines():
        sign, text = change[0], change[1:]
        if sign == "+":
            lines.insert(at, text)
            at += 1
            continue
        assert lines.count(text) == 1, f"not one line of the spec: {text!r}"
        at = lines.index(text)
        if sign == "-":
            del lines[at]
        else:
            at += 1
    return "\n".join(lines) + "\n"


def steps(document: str) -> list[Step]:
    """The specs of the document in order; one that ends in an error is not built upon."""
    found: list[Step] = []
    spec = ""
    for match in BLOCK.finditer(document):
        current = match["text"] if match["kind"] == "tk" else apply(spec, match["text"])
        claim = match["claim"]
        if claim.startswith("|"):
            cells = [c.strip() for c in claim.splitlines()[2].strip("|").split("|")] if claim.count("\n") > 2 else []
            found.append(Step(current, tuple(float(c) for c in cells), None, match.span("claim")))
            spec = current
        else:
            error = claim.removeprefix("```text\n").removesuffix("```")
            found.append(Step(current, (), error, match.span("claim")))
    return found


def facts(spec: str) -> tuple[float, ...] | str:
    """The numbers of a spec's machine code in the order of COLUMNS, or the error that its build ends in."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gemm.tk"
        path.write_text(spec, encoding="utf-8")
        try:
            build = api.load(path, target="gfx942").check().build().check()
        except SpecError as error:
            return render_text(error.diagnostics).replace(f"{folder}/", "").strip() + "\n"
        loop = build.main_loop
        assert loop is not None and loop.others_per_mfma is not None
        plan = build.spec.plan
        registers = build.resources.total_vgpr
        return plan.program.waves, plan.barriers_per_step, registers, build.lds_bytes, loop.others_per_mfma


def rewrite(document: str) -> str:
    """The document with every claim as it is now."""
    for step in reversed(steps(document)):
        found = facts(step.spec)
        if isinstance(found, str):
            claim = f"```text\n{found}```"
        else:
            row = " | ".join(f"{f:.2f}" if isinstance(f, float) else str(f) for f in found)
            claim = f"| {' | '.join(COLUMNS)} |\n|{'--:|' * len(COLUMNS)}\n| {row} |\n"
        document = document[: step.span[0]] + claim + document[step.span[1] :]
    return document


if __name__ == "__main__":
    DOC.write_text(rewrite(DOC.read_text(encoding="utf-8")), encoding="utf-8")
