"""The report of a kernel of rows as one HTML file: its layout over lanes, its figures, spec, C++ and machine code.

It holds no script: nothing in it moves. Text is escaped as in the other report (`tkgen.report.html`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from tkgen import __version__
from tkgen.report.canvas import safe
from tkgen.report.facts import Finding, finding
from tkgen.report.figures import Figure, MixEntry, figures, mix
from tkgen.report.html import code_line, environment, instruction_line, style_sheet
from tkgen.report.texts import Rows
from tkgen.rows.build import RowBuild
from tkgen.schedule.rows import RowMap
from tkgen.toolchain.files import write_atomic
from tkgen.toolchain.isa import Function, classify

LANES_SHOWN = 3  # of a row: the first ones, and the last


@dataclass(frozen=True)
class RowFacts:
    """What the page shows of a build, beside its three texts."""

    tkgen: str
    kernel: str
    header: str
    target: str
    compiler: str
    sizes: tuple[tuple[str, int | None], ...]
    headline: tuple[tuple[str, str, str], ...]
    layout: str
    lanes: tuple[tuple[str, str], ...]
    figures: tuple[tuple[Figure, Figure | None], ...]
    mix: tuple[MixEntry, ...]
    findings: tuple[Finding, ...]
    machine_check: str


def row_facts(build: RowBuild, previous: Mapping[str, Any] | None = None) -> RowFacts:
    """The facts of a build; `previous` is the report.json of an earlier one."""
    spec, report, rows = build.spec, build.report(), Rows(build.spec.kernel)
    before = {f.key: f for f in figures(previous)} if previous else {}
    return RowFacts(
        tkgen=__version__,
        kernel=spec.name,
        header=spec.program.header,
        target=spec.target.name,
        compiler=f"{build.compiler.kind.value} {build.compiler.version}",
        sizes=tuple((d.name, d.size) for d in spec.program.dims),
        headline=tuple(_headline(build)),
        layout=spec.layout.describe(),
        lanes=tuple(_lanes(spec.layout)),
        figures=tuple((f, before.get(f.key)) for f in figures(report)),
        mix=mix({"main_loop": report["instructions"]}),
        findings=tuple(finding(d, rows) for d in build.diagnostics),
        machine_check=build.machine_check.summary,
    )


def write_row_build(build: RowBuild, path: Path, previous: Mapping[str, Any] | None = None) -> None:
    """Write the report of one build to `path`, whole or not at all."""
    page = environment().get_template("rows.html.jinja")
    text = page.render(f=row_facts(build, previous), panes=_panes(build), css=Markup(style_sheet()))
    write_atomic(path, text)


def _headline(build: RowBuild) -> Iterator[tuple[str, str, str]]:
    """The numbers one looks for first: (name, value, remark)."""
    layout, r, occupancy = build.spec.layout, build.resources, build.occupancy
    yield "Tile", f"{layout.row_count} x {layout.length}", f"{layout.waves} waves, {layout.waves_of_row} to a row"
    yield "Registers", str(r.vgpr), f"per lane; {layout.registers} were predicted"
    yield "LDS", f"{build.lds_bytes} B", "for what waves tell each other" if layout.exchanges else "none is needed"
    yield "Spills", str(r.vgpr_spills + r.sgpr_spills), f"{r.scratch_bytes} B scratch per lane"
    yield "Occupancy", f"{occupancy.waves_per_simd:g}", f"waves per SIMD, {occupancy.blocks_per_cu} blocks per CU"


def _lanes(layout: RowMap) -> Iterator[tuple[str, str]]:
    """For some lanes of a row the elements that each holds."""
    shown = [*range(min(LANES_SHOWN, layout.lanes)), layout.lanes - 1]
    for lane in dict.fromkeys(shown):
        first = [(c * layout.lanes + lane) * layout.chunk for c in range(layout.chunks)]
        ranges = [f"{at}..{min(at + layout.chunk, layout.length) - 1}" for at in first if at < layout.length]
        if len(ranges) > LANES_SHOWN + 1:
            ranges = [*ranges[:LANES_SHOWN], "...", ranges[-1]]
        yield str(lane), ", ".join(ranges) or "none"


def _panes(build: RowBuild) -> list[tuple[str, Markup]]:
    """The three texts, with their names."""
    spec = build.spec
    lines = [code_line(line.text, "#") for line in Rows(spec.kernel).lines]
    cpp = [code_line(line, "//") for line in spec.source.text.rstrip("\n").split("\n")]
    isa = list(_instructions(build.function))
    return [
        (spec.path.name, _numbered(lines)),
        (f"{spec.name}.cpp", _numbered(cpp)),
        (f"{spec.target.name} code, {len(build.function.instructions)} instructions", _numbered(isa)),
    ]


def _instructions(function: Function) -> Iterator[str]:
    for instruction in function.instructions:
        text = f"{instruction.mnemonic} {', '.join(instruction.operands)}".rstrip()
        yield instruction_line(text, classify(instruction)[0])


def _numbered(lines: list[str]) -> Markup:
    """Rows of markup, numbered."""
    return Markup("\n".join(f'<div class="row"><i>{safe(str(n))}</i><code>{line}</code></div>'
                            for n, line in enumerate(lines, 1)))  # fmt: skip
