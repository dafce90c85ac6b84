"""The report of a kernel of equations as one HTML file: its layout, its figures, spec, C++ and machine code.

It holds no script: nothing in it moves. Text is escaped as in the other report (`tkgen.report.html`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from tkgen import __version__
from tkgen.loops.build import LoopBuild
from tkgen.report.canvas import safe
from tkgen.report.facts import Finding, finding
from tkgen.report.figures import Figure, MixEntry, figures, mix
from tkgen.report.html import code_line, environment, instruction_line, style_sheet
from tkgen.report.texts import Rows
from tkgen.rows.build import RowBuild
from tkgen.schedule.loops import LoopMap
from tkgen.schedule.rows import RowMap
from tkgen.toolchain.files import write_atomic
from tkgen.toolchain.isa import Function, classify

LANES_SHOWN = 3  # of a row: the first ones, and the last


@dataclass(frozen=True)
class Placement:
    """What of a tile lies where: a text, and a table of two columns."""

    title: str
    text: str
    table: str
    heads: tuple[str, str]
    rows: tuple[tuple[str, str], ...]


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
    layout: Placement
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
        layout=_placement(build),
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
    r, occupancy = build.resources, build.occupancy
    if isinstance(build, LoopBuild):
        tiles = build.spec.layout
        yield (
            "Tile",
            f"{tiles.waves} x {tiles.columns}",
            f"of {tiles.split.name} by wave, {build.barriers} barriers a pass",
        )
        yield "Registers", str(r.vgpr), f"per lane; {tiles.registers} of them through the whole loop"
        yield "LDS", f"{build.lds_bytes} B", "for the factors that move"
    else:
        layout = build.spec.rows
        yield "Tile", f"{layout.row_count} x {layout.length}", f"{layout.waves} waves, {layout.waves_of_row} to a row"
        yield "Registers", str(r.vgpr), f"per lane; {layout.registers} were predicted"
        yield "LDS", f"{build.lds_bytes} B", "for what waves tell each other" if layout.exchanges else "none is needed"
    yield "Spills", str(r.vgpr_spills + r.sgpr_spills), f"{r.scratch_bytes} B scratch per lane"
    yield "Occupancy", f"{occupancy.waves_per_simd:g}", f"waves per SIMD, {occupancy.blocks_per_cu} blocks per CU"


def _placement(build: RowBuild) -> Placement:
    if isinstance(build, LoopBuild):
        m = build.spec.layout
        return Placement(
            "Tiles over waves",
            f"{m.describe()}. Each wave has its part of {m.split.name}, which runs along the columns of all products.",
            "What takes registers and LDS through the whole loop", ("tile", "where"), tuple(_tiles(m)),
        )  # fmt: skip
    layout = build.spec.rows
    return Placement(
        "Rows over lanes",
        f"{layout.describe()}. A lane holds chunks of neighbouring elements, in turn with the other lanes of its row.",
        "Which lane has what of a row of the tile", ("lane of the row", "elements"), tuple(_lanes(layout)),
    )  # fmt: skip


def _tiles(m: LoopMap) -> Iterator[tuple[str, str]]:
    """What a loop of equations holds from pass to pass."""
    for ring in m.moving:
        yield ring.name, f"{ring.bytes} B of LDS, {ring.buffers} tiles{', turned on the way' if ring.turned else ''}"
    for load in m.held:
        yield load.source.tensor.name, f"registers, {m.lane_registers(load.result)} of a lane"
    for carry in m.loop.carries:
        yield carry.inside.name, f"registers, {m.lane_registers(carry.inside)} of a lane, handed from pass to pass"


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
