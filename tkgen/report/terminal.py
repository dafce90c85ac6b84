"""The report in a terminal: the facts as tables, bars, an ownership grid and lanes of text.

On a terminal Rich colours them; elsewhere (a pipe, a file, NO_COLOR) the same lines come out plain, in ASCII.
Spec text reaches the console as `Text`, never as markup, with control characters escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich import box
from rich.console import Console, ConsoleRenderable, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tkgen.diagnostics.text import count_text, escape
from tkgen.ir.types import role_text
from tkgen.report.facts import Facts, facts, headline, loops
from tkgen.report.figures import Figure, MixEntry
from tkgen.report.hot import Hot
from tkgen.report.hot_text import legend, said, table_of
from tkgen.report.lanes import NEXT, Lane, LaneOp, Pipeline
from tkgen.report.lds import LdsMap, served
from tkgen.report.order import BlockOrder
from tkgen.report.ownership import Ownership
from tkgen.report.placement import Placement
from tkgen.report.prediction import Prediction
from tkgen.report.pressure import Point, Pressure, needs_text

WAVE_STYLES = ("blue", "yellow", "green", "magenta", "cyan", "red", "bright_yellow", "white")
OP_STYLES = {
    "load": "blue", "fetch": "blue", "copy": "blue", "write": "yellow", "read": "green", "multiply": "magenta",
    "barrier": "bold", "wait": "dim", "priority": "dim", "zero": "cyan", "store": "cyan",
}  # fmt: skip
BAR_WIDTH = 32
GRID_LIMIT = 16  # tiles of the output matrix shown along each axis


def render_terminal(build: Any, console: Console, prediction: Prediction | None = None) -> None:
    """Print the report of a build of one kernel, or of a spec that was not compiled, to `console`."""
    print_facts(facts(build, prediction), console)


def print_facts(found: Facts, console: Console) -> None:
    """Print the report of these facts."""
    plain = not console.is_terminal
    for title, body in _sections(found, plain):
        console.print()
        console.print(shown(title, "bold"))
        console.print(Padding(body, (0, 0, 0, 2), expand=False))


def _sections(found: Facts, plain: bool) -> Iterator[tuple[str, ConsoleRenderable]]:
    yield f"{found.kernel} for {found.target}", _overview(found, plain)
    if found.findings:
        yield "Diagnostics", _lines(f"{d.severity} {d.code}: {d.message}" for d in found.findings)
    if found.layout:
        yield found.layout.title, _placement(found.layout, plain)
    if found.ownership:
        yield "Who owns what", _ownership(found.ownership, plain)
    if found.pipeline:
        yield "Pipeline", _pipeline(found.pipeline, found.schedule, plain)
        yield "Dependencies", _links(found.pipeline, plain)
    if found.pressure:
        yield "Registers", _registers(found.pressure, plain)
    if found.lds:
        yield "LDS", _lds(found.lds, plain)
    if found.order:
        yield "Block order", _order(found.order, plain)
    if found.mix:
        yield "One pass of the main loop" if loops(found) else "Instructions", _mix(found.mix, plain)
    if found.figures:
        yield "Figures", _figures(found.figures, found.previous, plain)
    if found.machine_check:
        yield "Machine code", shown(found.machine_check.removeprefix("machine code "))
    if found.prediction:
        yield "Prediction", _prediction(found.prediction, plain)
        if found.prediction.hot:
            yield "Hot lines", _hot(found.prediction.hot, plain)


# ---------------------------------------------------------------- building blocks


def shown(text: str, style: str = "") -> Text:
    """Text for the console: no markup, control characters escaped."""
    return Text(escape(text), style=style)


def _lines(lines: Iterable[str]) -> Group:
    return Group(*(shown(line) for line in lines))


def plain_table(plain: bool, *columns: str) -> Table:
    """A table; a column that begins with `>` is aligned to the right."""
    table = Table(box=None if plain else box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    for column in columns:
        right = column.startswith(">")
        table.add_column(shown(column.removeprefix(">")), justify="right" if right else "left", overflow="fold")
    return table


def bar(value: float, most: float, plain: bool, width: int = BAR_WIDTH) -> str:
    """A horizontal bar: eighths of a block on a terminal, `#` elsewhere."""
    if most <= 0 or value <= 0:
        return ""
    eighths = max(round(value / most * width * 8), 1)
    if plain:
        return "#" * max(eighths // 8, 1)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def spread(waves: Sequence[int]) -> str:
    """`0..3` or `5`."""
    return f"{waves[0]}..{waves[-1]}" if len(waves) > 1 else str(waves[0])


# ---------------------------------------------------------------- sections


def _overview(found: Facts, plain: bool) -> ConsoleRenderable:
    about = found.problem
    grid = Table.grid(padding=(0, 2, 0, 0))
    sizes = ", ".join(f"{name} = {'dynamic' if size is None else size}" for name, size in about.sizes)
    types = ", ".join(f"{name} {kind}" for name, kind in about.types)
    said = [("product", about.product), ("sizes", sizes), ("types", types)]
    if about.block:
        rows, cols, step = about.block
        said.append(("block", f"{rows} x {cols} step {step}, {count_text(about.waves, 'wave')}"))
    if found.layout:
        said += [(name.lower(), f"{value}, {remark}") for name, value, remark in headline(found)]
    if found.ownership:
        said += [("role", f"{r.name}, waves {spread(r.waves)}: {r.work}") for r in found.ownership.roles]
    for name, value in (*said, ("compiler", found.compiler)):
        if value:
            grid.add_row(shown(name, "dim"), shown(value))
    return grid


def _placement(layout: Placement, plain: bool) -> ConsoleRenderable:
    table = plain_table(plain, *layout.heads)
    for what, where in layout.rows:
        table.add_row(shown(what), shown(where))
    return Group(shown(layout.text, "dim"), table)


def _ownership(own: Ownership, plain: bool) -> ConsoleRenderable:
    """The grid of the block's tiles, `w3 1,0` for fragment (1, 0) of wave 3, and the readers of each row and column."""
    cells = {(f.row, f.col): f for f in own.fragments}
    table = Table(box=box.ASCII if plain else box.ROUNDED, show_lines=True, padding=(0, 1))
    table.add_column(shown(f"{own.a.name} read by"))
    for col in range(own.grid[1]):
        table.add_column(shown(" ".join(map(str, own.b.readers[col]))), justify="center")
    for row in range(own.grid[0]):
        texts = [shown(" ".join(map(str, own.a.readers[row])), "dim")]
        for col in range(own.grid[1]):
            f = cells.get((row, col))
            texts.append(shown(f"w{f.wave} {f.i},{f.j}", WAVE_STYLES[f.wave % len(WAVE_STYLES)]) if f else Text("-"))
        table.add_row(*texts)
    kind = "interleaved" if own.interleaved else "blocked"
    size = f"{own.output} in tiles of {own.tile[0]} x {own.tile[1]}"
    return Group(
        shown(
            f"{size}, {kind}: wave and fragment; above, who reads {own.b.name}",
            "dim",
        ),
        table,
        shown(
            f"a byte of {own.a.name} is read {own.a.times_read:g} times a K-step, of {own.b.name} {own.b.times_read:g}",
            "dim",
        ),
    )


def _pipeline(pipe: Pipeline, schedule: str, plain: bool) -> ConsoleRenderable:
    """A column per lane, a row per epoch; a barrier ends each epoch."""
    table = plain_table(plain, "epoch", *(_lane_name(lane) for lane in pipe.lanes))
    for epoch in range(pipe.epochs):
        cells = [_epoch(lane, epoch) for lane in pipe.lanes]
        table.add_row(shown(str(epoch), "dim"), *cells)
    trips = "passes" if pipe.passes is None else f"{pipe.passes} pass{'es' * (pipe.passes != 1)}"
    steps, barriers = count_text(pipe.steps_per_pass, "K-step"), count_text(pipe.barriers_per_step, "barrier")
    return Group(
        shown(f"{trips} of {steps}, {barriers} per K-step; `|` is a barrier, * the next pass", "dim"),
        shown(f"schedule {schedule}", "dim"),
        table,
    )


def _lane_name(lane: Lane) -> str:
    phase = f" phase {lane.phase}" if lane.phase else ""
    return f"{role_text(lane.role, lane.waves)}{phase}"


def _epoch(lane: Lane, epoch: int) -> Text:
    parts = []
    segment = next((o.segment for o in lane.ops if o.epoch == epoch), "")
    if segment in ("prologue", "epilogue"):
        parts.append(shown(f"{segment}: ", "dim"))
    for op in lane.ops:
        if op.epoch == epoch:
            parts.append(_op(op))
    return Text("  ").join(parts)


def _op(op: LaneOp) -> Text:
    name = "|" if op.action == "barrier" else op.text.replace("multiply", "mma")
    cycles = f" {op.cycles:.0f}cy" if op.cycles is not None else ""
    return shown(name + cycles + ("*" if op.segment == NEXT else ""), OP_STYLES.get(op.action, ""))


def _links(pipe: Pipeline, plain: bool) -> ConsoleRenderable:
    table = plain_table(plain, "kind", "in", "first", "then", ">K-steps later", "ordered by")
    for link in pipe.links:
        style = "red" if link.covered == "nothing" else ""
        table.add_row(
            *(
                shown(cell, style)
                for cell in (
                    link.kind,
                    f"{link.medium} {link.operand}",
                    link.source_text,
                    link.target_text,
                    str(link.distance),
                    link.covered,
                )
            )
        )
    return table


def _registers(found: Pressure, plain: bool) -> ConsoleRenderable:
    """Per role a bar for each operation: how many registers hold tiles, of those that every wave reserves."""
    most = max(found.allotted, *(r.peak for r in found.roles))
    kind = "compiled" if found.measured else "estimated"
    waves = count_text(found.waves_per_simd, "wave")
    head = f"every wave reserves {found.allotted} ({kind}), budget {found.budget} at {waves} per SIMD"
    parts: list[ConsoleRenderable] = [shown(head), shown(found.note, "dim")]
    for role in found.roles:
        needs = needs_text(role, found.measured)
        parts.append(shown(f"{role_text(role.role, role.waves)}: at most {role.peak} in tiles, {needs}"))
        table = plain_table(plain, "operation", ">VGPRs", "", "")
        for point in role.points:
            style = OP_STYLES.get(point.action, "")
            table.add_row(
                shown(point.text),
                shown(str(point.total)),
                shown(bar(point.total, most, plain), style),
                shown(_split(point), "dim"),
            )
        parts.append(Padding(table, (0, 0, 0, 2), expand=False))
    return Group(*parts)


def _split(point: Point) -> str:
    named = (("acc", point.accumulators), ("A", point.a), ("B", point.b), ("staging", point.staging))
    return " + ".join(f"{value} {name}" for name, value in named if value)


def _lds(found: LdsMap, plain: bool) -> ConsoleRenderable:
    table = plain_table(plain, "buffer", ">offset", ">bytes", "shape", "")
    for b in found.buffers:
        shape = f"{b.shape[0]} x {b.shape[1]} {b.dtype}"
        table.add_row(
            shown(f"{b.name}[{b.index}]"), shown(str(b.offset)), shown(str(b.bytes)), shown(shape),
            shown(bar(b.bytes, found.capacity, plain)),
        )  # fmt: skip
    access = [
        f"{a.what} with {f'{a.count} ' if a.count else ''}{a.instruction}: {served(a.ways)}" for a in found.accesses
    ]
    used = f"{found.used} of {found.capacity} bytes"
    return Group(table, shown(used, "dim"), _lines(access))


def _order(found: BlockOrder, plain: bool) -> ConsoleRenderable:
    parts: list[ConsoleRenderable] = []
    what = f"{found.remap}: {found.rows} x {found.cols} tiles{' (an example: a size is dynamic)' * found.assumed}, "
    what += f"{found.concurrent} at a time on {found.product}, {found.window} per XCD"
    parts.append(shown(what))
    if found.sequence:
        turns = [0] * len(found.sequence)
        for turn, tile in enumerate(found.sequence):
            turns[tile] = turn
        rows, cols = min(found.rows, GRID_LIMIT), min(found.cols, GRID_LIMIT)
        width = len(str(max(turns[r * found.cols + c] for r in range(rows) for c in range(cols))))
        for row in range(rows):
            line = Text()
            for col in range(cols):
                turn = turns[row * found.cols + col]
                line.append(f"{turn:>{width}} ", WAVE_STYLES[found.xcd[turn] % len(WAVE_STYLES)])
            parts.append(line)
        if (rows, cols) != (found.rows, found.cols):
            parts.append(shown(f"the first {rows} x {cols} tiles; number: turn, colour: XCD", "dim"))
    table = plain_table(plain, "order", ">panels per XCD", ">blocks per panel")
    for reuse in found.reuse:
        table.add_row(shown(reuse.name), shown(f"{reuse.panels:g}"), shown(f"{reuse.factor:g}"))
    return Group(*parts, table)


def _mix(entries: Sequence[MixEntry], plain: bool) -> ConsoleRenderable:
    table = plain_table(plain, "instructions", ">count", "", "")
    most = max(e.count for e in entries)
    for e in entries:
        table.add_row(
            shown(e.label), shown(str(e.count)), shown(bar(e.count, most, plain), "cyan"), shown(e.detail, "dim")
        )
    return table


def _prediction(found: Prediction, plain: bool) -> ConsoleRenderable:
    """Figures, where the time goes, what would change it."""
    parts: list[ConsoleRenderable] = [shown(f"by {found.by}", "dim"), *(shown(f"note: {n}") for n in found.notes)]
    if found.limiter:
        parts.append(shown(f"limited by {found.limiter}", "bold"))
    parts.append(_figures(found.figures, (), plain))
    if found.parts:
        table = plain_table(plain, "where the time goes", ">share", f">cycles per {found.step}", "")
        for i, part in enumerate(found.parts):
            step = "" if part.per_step is None else f"{part.per_step:.0f}"
            cells = (part.label, f"{part.share:.1%}", step)
            table.add_row(*map(shown, cells), shown(bar(part.share, 1, plain), "magenta" if not i else "yellow"))
        parts.append(table)
    if found.changes:
        table = plain_table(plain, "with", ">times as fast")
        for change, factor in found.changes:
            table.add_row(shown(change), shown(f"{factor:.2f}"))
        parts.append(table)
    return Group(*parts)


def _hot(hot: Hot, plain: bool) -> ConsoleRenderable:
    """Instructions, cycles and registers by line of the spec, and the hottest equation in a sentence."""
    table = table_of(hot, plain_table(plain), (*hot.lines, hot.total))
    return Group(*([shown(said(hot), "bold")] if hot.sentence else []), shown(legend(hot), "dim"), table)


def _figures(figures: Sequence[Figure], previous: Sequence[Figure], plain: bool) -> ConsoleRenderable:
    before = {f.key: f for f in previous}
    table = plain_table(plain, "figure", ">value", *([">previous build"] if before else []))
    group = ""
    for f in figures:
        if f.group != group:
            group = f.group
            table.add_row(shown(group, "dim"), Text(""), *([Text("")] if before else []))
        cells = [shown(f"  {f.label}"), shown(f.show())]
        if before:
            old = before.get(f.key)
            change = f.value - old.value if old else 0
            style = "green" if change * f.better > 0 else "red" if change * f.better < 0 else ""
            cells.append(shown(old.show() if old else "-", style))
        table.add_row(*cells)
    return table
