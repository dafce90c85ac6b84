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
from tkgen.report.lanes import Lane, LaneOp, Pipeline
from tkgen.report.lds import LdsMap, served
from tkgen.report.order import BlockOrder
from tkgen.report.prediction import Prediction
from tkgen.report.pressure import Pressure, needs_text
from tkgen.schedule.plan import NEXT
from tkgen.tile.scheduled import Moment, Reads

WAVE_STYLES = ("blue", "yellow", "green", "magenta", "cyan", "red", "bright_yellow", "white")
OP_STYLES = {
    "load": "blue", "fetch": "blue", "copy": "blue", "write": "yellow", "read": "green", "multiply": "magenta",
    "barrier": "bold", "wait": "dim", "priority": "dim", "zero": "cyan", "store": "cyan",
}  # fmt: skip
BAR_WIDTH = 32
GRID_LIMIT = 16  # tiles of the output matrix shown along each axis
SHORT = {"accumulators": "acc", "A tiles": "A", "B tiles": "B"}
CELLS = 8  # of a block shown along its columns


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
    yield "Who owns what", _ownership(found, plain)
    yield "Pipeline", _pipeline(found.pipeline, found.schedule, plain)
    yield "Waits", _waits(found.pipeline, plain)
    yield "Dependencies", _links(found.pipeline, plain)
    yield "Registers", _registers(found.pressure, plain)
    yield found.lds.memory[0].upper() + found.lds.memory[1:], _lds(found.lds, plain)
    yield "Block order", _order(found.order, plain)
    if found.mix:
        yield "One iteration of the main loop" if loops(found) else "Instructions", _mix(found.mix, plain)
    if found.figures:
        yield "Figures", _figures(found.figures, found.previous, plain)
    if found.unordered:
        yield "Sums in memory", shown(found.unordered)
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
    said += [(name.lower(), f"{value}, {remark}") for name, value, remark in headline(found)]
    said += [("role", f"{role_text(r.name, r.waves)}: {r.work}") for r in found.roles]
    for name, value in (*said, ("compiler", found.compiler)):
        if value:
            grid.add_row(shown(name, "dim"), shown(value))
    return grid


def _ownership(found: Facts, plain: bool) -> ConsoleRenderable:
    """The grid of the block's cells, `w3 (1, 0)` for fragment (1, 0) of wave 3, and the readers of each operand."""
    own = found.ownership
    cells = {(f.row, f.col): f for f in own.fragments}
    table = Table(box=box.ASCII if plain else box.ROUNDED, show_lines=True, padding=(0, 1))
    some = range(min(len(own.rows), GRID_LIMIT)), range(min(len(own.cols), CELLS))
    table.add_column(shown("from", "dim"), overflow="fold")
    for col in some[1]:
        table.add_column(shown(str(own.cols[col])), justify="center", overflow="fold")
    for row in some[0]:
        here = [cells[row, col] for col in some[1]]
        named = [shown(f"w{f.wave} {f.part}".strip(), WAVE_STYLES[f.wave % len(WAVE_STYLES)]) for f in here]
        table.add_row(shown(str(own.rows[row]), "dim"), *named)
    part = "" if own.whole and (len(own.rows), len(own.cols)) == tuple(map(len, some)) else ", of which a part is shown"
    head = f"{own.output}, {own.block[0]} x {own.block[1]} of a block{part}: {own.how}"
    return Group(
        shown(head, "dim"),
        table,
        *(shown(f"a byte of {r.name} is read {r.times_read:g} times a step, {readers(r)}", "dim") for r in own.reads),
    )


def readers(reads: Reads) -> str:
    """The waves that read each subtile of an operand."""
    return "by " + ", ".join("+".join(map(str, waves)) for waves in reads.readers[:GRID_LIMIT])


def _pipeline(pipe: Pipeline, schedule: str, plain: bool) -> ConsoleRenderable:
    """A column per lane, a row per epoch; a barrier ends each epoch."""
    table = plain_table(plain, "epoch", *(_lane_name(lane) for lane in pipe.lanes))
    for epoch in range(pipe.epochs):
        cells = [_epoch(lane, epoch) for lane in pipe.lanes]
        table.add_row(shown(str(epoch), "dim"), *cells)
    trips = "iterations" if pipe.passes is None else count_text(pipe.passes, "iteration")
    steps, barriers = count_text(pipe.steps_per_pass, pipe.step), count_text(pipe.barriers_per_step, "barrier")
    head = [
        f"{f'{trips} of {steps}, ' * bool(schedule)}{barriers} per {pipe.step}; `|` is a barrier, * the next iteration"
    ]
    return Group(*(shown(line, "dim") for line in (*head, *([f"schedule {schedule}"] if schedule else []))), table)


def _waits(pipe: Pipeline, plain: bool) -> ConsoleRenderable:
    """A row for each operation that waits, and the budget of each loop."""
    table = plain_table(plain, "who", "where", "operation", "waits for")
    for lane in pipe.lanes:
        for op in lane.ops:
            if op.waits and op.segment != NEXT:
                table.add_row(*map(shown, (_lane_name(lane), op.within or op.segment, op.text, op.waits)))
    budgets = plain_table(plain, "who", "loop", ">operations", ">barriers", ">waits")
    for loop in pipe.loops:
        budgets.add_row(*map(shown, (loop.role, loop.title, *map(str, (loop.operations, loop.barriers, loop.waits)))))
    return Group(table, budgets)


def _lane_name(lane: Lane) -> str:
    phase = f" phase {lane.phase}" if lane.phase else ""
    return f"{role_text(lane.role, lane.waves)}{phase}"


def _epoch(lane: Lane, epoch: int) -> Text:
    parts = []
    segment, within = next(((o.segment, o.within) for o in lane.ops if o.epoch == epoch), ("", ""))
    if within or segment in ("prologue", "epilogue"):
        parts.append(shown(f"{within or segment}: ", "dim"))
    for op in lane.ops:
        if op.epoch == epoch:
            parts.append(_op(op))
    return Text("  ").join(parts)


def _op(op: LaneOp) -> Text:
    name = "|" if op.action == "barrier" else op.text.replace("multiply", "mma")
    cycles = f" {op.cycles:.0f}cy" if op.cycles is not None else ""
    return shown(name + cycles + ("*" if op.segment == NEXT else ""), OP_STYLES.get(op.action, ""))


def _links(pipe: Pipeline, plain: bool) -> ConsoleRenderable:
    table = plain_table(plain, "kind", "in", "first", "then", f">{pipe.step}s later", "ordered by")
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
    kind = "uses" if found.measured else "needs about"
    head = f"the wave with the most registers {kind} {found.used}, {found.allotted} rounded up to granules; "
    head += f"budget {found.budget}"
    head += f" at {count_text(found.sharing, 'wave')} per SIMD"
    parts: list[ConsoleRenderable] = [shown(head), shown(found.note, "dim")]
    for role in found.roles:
        needs = needs_text(role, found.measured)
        parts.append(
            shown(f"{role_text(role.role, role.waves)}: at most {role.peak} in values, {needs} of {role.reserved}")
        )
        table = plain_table(plain, "operation", ">registers", "", "")
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


def _split(point: Moment) -> str:
    return " + ".join(f"{share.registers} {SHORT.get(share.what, share.what)}" for share in point.shares)


def _lds(found: LdsMap, plain: bool) -> ConsoleRenderable:
    table = plain_table(plain, "buffer", ">offset", ">bytes", "shape", "")
    for b in found.buffers:
        table.add_row(
            shown(f"{b.name}[{b.index}]"), shown(str(b.offset)), shown(str(b.bytes)), shown(b.shape),
            shown(bar(b.bytes, found.capacity, plain)),
        )  # fmt: skip
    access = [
        f"{a.what} with {f'{a.count} ' if a.count else ''}{a.instruction}: {served(a.ways)}" for a in found.accesses
    ]
    used = f"{found.used} of {found.capacity} bytes"
    return Group(table, shown(used, "dim"), _lines(access))


def _order(found: BlockOrder, plain: bool) -> ConsoleRenderable:
    parts: list[ConsoleRenderable] = []
    matrices = f", {found.matrices} times" if found.matrices > 1 else ""
    example = " (an example: a size is dynamic)" * found.assumed
    what = f"{found.remap}: {found.rows} x {found.cols} tiles{matrices}{example}, "
    what += f"{found.concurrent} at a time on {found.product}"
    what += f", {found.window} per XCD" * (found.xcds > 1)
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
    table = plain_table(plain, "order", f">panels per {'XCD' if found.xcds > 1 else 'L2'}", ">blocks per panel")
    for reuse in found.reuse:
        table.add_row(shown(reuse.name), shown(f"{reuse.panels:g}"), shown(f"{reuse.factor:g}"))
    return Group(*parts, *([table] if found.reuse else []))


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
