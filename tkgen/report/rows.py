"""What a report shows of a kernel of equations: its layout, its figures, spec, C++ and machine code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tkgen import __version__
from tkgen.loops.build import LoopBuild
from tkgen.report.facts import Finding, finding
from tkgen.report.figures import Figure, MixEntry, figures, mix
from tkgen.report.places import known_lines
from tkgen.report.prediction import Prediction
from tkgen.report.texts import Rows, Texts, texts, with_code
from tkgen.rows.build import RowBuild
from tkgen.schedule.loop_registers import shares, total
from tkgen.schedule.loops import LoopMap
from tkgen.schedule.rows import RowMap
from tkgen.toolchain.isa import main_loop

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
    """One kernel. `headline` are the numbers one looks for first, with a remark.

    `previous` are the figures of an earlier build of it, empty where there is none.
    """

    tkgen: str
    kernel: str
    header: str
    target: str
    compiler: str
    sizes: tuple[tuple[str, int | None], ...]
    headline: tuple[tuple[str, str, str], ...]
    layout: Placement
    texts: Texts
    figures: tuple[Figure, ...]
    mix: tuple[MixEntry, ...]
    previous: tuple[Figure, ...]
    findings: tuple[Finding, ...]
    prediction: Prediction | None
    machine_check: str


def row_facts(
    build: RowBuild, prediction: Prediction | None = None, previous: Mapping[str, Any] | None = None
) -> RowFacts:
    """The facts of a build, with a `prediction` where there is one; `previous` is the report.json of an earlier one."""
    spec, report, rows = build.spec, build.report(), Rows(build.spec.program.origins.files)
    known = texts(spec.program.origins, rows, spec.source, None, spec.name)
    lines = [(n,) if n else () for n in known_lines(build.function, spec.source, known.cpp_name)]
    loop = main_loop(build.function) if isinstance(build, LoopBuild) else None
    return RowFacts(
        tkgen=__version__,
        kernel=spec.name,
        header=spec.program.header,
        target=spec.target.name,
        compiler=f"{build.compiler.kind.value} {build.compiler.version}",
        sizes=tuple((d.name, d.size) for d in spec.program.dims),
        headline=tuple(_headline(build)),
        layout=_placement(build),
        texts=with_code(known, build.function, loop, lines, {}),
        figures=figures(report),
        mix=mix(report),
        previous=figures(previous) if previous else (),
        findings=tuple(finding(d, rows) for d in build.diagnostics),
        prediction=prediction,
        machine_check=build.machine_check.summary,
    )


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
        across = any(x.across and x.moving == ring for x in m.multiplications)
        way = ", turned on the way" * ring.turned + ", read both ways" * across
        yield ring.name, f"{ring.bytes} B of LDS, {ring.buffers} tiles{way}"
    for load in m.held:
        yield load.source.tensor.name, f"registers, {m.lane_registers(load.result)} of a lane"
    for load in m.columns_loaded:
        yield load.source.tensor.name, f"registers, {m.lane_registers(load.result)} of a lane"
    for carry in m.loop.carries:
        yield carry.inside.name, f"registers, {m.lane_registers(carry.inside)} of a lane, handed from pass to pass"
    found = shares(m)
    most = "; ".join(f"{share.what.replace('`', '')}: {share.registers}" for share in found)
    yield "all at the fullest product", f"at least {total(found)} registers of a lane: {most}"


def _lanes(layout: RowMap) -> Iterator[tuple[str, str]]:
    """For some lanes of a row the elements that each holds."""
    shown = [*range(min(LANES_SHOWN, layout.lanes)), layout.lanes - 1]
    for lane in dict.fromkeys(shown):
        first = [(c * layout.lanes + lane) * layout.chunk for c in range(layout.chunks)]
        ranges = [f"{at}..{min(at + layout.chunk, layout.length) - 1}" for at in first if at < layout.length]
        if len(ranges) > LANES_SHOWN + 1:
            ranges = [*ranges[:LANES_SHOWN], "...", ranges[-1]]
        yield str(lane), ", ".join(ranges) or "none"
