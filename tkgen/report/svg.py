"""The pictures as SVG: a function each, from facts to text. `canvas.standalone` makes a file of one.

Elements carry data attributes (`data-wave`, `data-node`, `data-line`) with which the report's script links them.
Everything that came from a spec is escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tkgen.diagnostics.text import count_text
from tkgen.ir.equations import Kernel
from tkgen.ir.types import role_text
from tkgen.report.canvas import CHARACTER, Canvas, fit, number
from tkgen.report.equation_flow import equation_flow
from tkgen.report.facts import Facts
from tkgen.report.flow import FlowEdge, FlowNode
from tkgen.report.lanes_svg import pipeline
from tkgen.report.order import BlockOrder
from tkgen.report.pressure import Pressure, RoleRegisters, needs_text
from tkgen.source import Span
from tkgen.tile.scheduled import Moment, Reads

WAVE_COLOURS = 8  # later waves repeat the colours with a hatching

# Viridis (van der Walt and Smith, matplotlib), 12 of its steps: even in lightness, readable with every colour vision.
TIME_COLOURS = (
    "#440154", "#482173", "#433e85", "#38598c", "#2d708e", "#25858e", "#1e9b8a", "#2ab07f", "#52c569", "#86d549",
    "#c2df23", "#fde725",
)  # fmt: skip


PICTURES = ("ownership", "pipeline", "dataflow", "registers", "lds", "swizzle", "order", "mix", "time")


def pictures(facts: Facts, names: Iterable[str] = PICTURES) -> dict[str, str]:
    """The pictures of a kernel by name: those of which there are facts."""
    draw: dict[str, Callable[[Facts], str]] = {
        "ownership": ownership,
        "pipeline": pipeline,
        "dataflow": dataflow,
        "registers": registers,
        "lds": lds,
        "swizzle": swizzle,
        "order": order,
        "mix": mix,
        "time": time,
    }
    there: dict[str, object] = {
        "lds": facts.lds.buffers,
        "order": facts.order.sequence,
        "swizzle": facts.lds.swizzles,
        "mix": facts.mix or facts.problem.block,
        "time": facts.prediction and facts.prediction.parts,
    }
    return {name: draw[name](facts) for name in names if there.get(name, True)}


# ---------------------------------------------------------------- ownership


def ownership(facts: Facts) -> str:
    """The block's output tile by wave and fragment, and the subtiles of A (left) and B (above) that each wave reads."""
    own = facts.ownership
    rows, cols = len(own.rows), len(own.cols)
    unit = max(min(380 / max(rows, cols), 84.0), 24.0)
    depth = 150.0
    beside = depth + 18 if own.reads else 0.0
    left, top = 24 + beside, 30 + beside
    width = left + max(cols * unit, cols * unit / 2 + 6 * len(own.how)) + 20  # the words are wider than a single tile
    c = Canvas(width, top + rows * unit + 42, f"Owners of parts of a block of {facts.kernel}")
    for reads in own.reads:
        box = (24, top, depth, rows * unit) if reads.along_rows else (left, 30, cols * unit, depth)
        _operand(c, reads, *box)
    for f in own.fragments:
        x, y = left + f.col * unit, top + f.row * unit
        part = f", {'fragment ' * f.part.startswith('(')}{f.part}" if f.part else ""
        tip = f"{facts.agent} {f.wave}{part}: tile ({f.row}, {f.col}) of the block"
        c.open(data_wave=f.wave, class_="own")
        c.rect(x + 1, y + 1, unit - 2, unit - 2, wave_class(f.wave), tip, rx=3)
        if f.wave >= WAVE_COLOURS:
            c.rect(x + 1, y + 1, unit - 2, unit - 2, "hatched", rx=3)
        name = f"{facts.agent} {f.wave}" if unit > 60 else f"w{f.wave}"
        c.text(x + unit / 2, y + unit / 2 + (-1 if unit > 40 else 4), name, f"mid {'strong' if unit > 40 else 'small'}")
        if unit > 40:
            c.text(x + unit / 2, y + unit / 2 + 13, f.part, "mid small")
        c.close()
    size = f"{own.output}: {own.block[0]} x {own.block[1]}{', in part' * (not own.whole)}"
    c.text(left, top + rows * unit + 18, size, "small muted")
    c.text(left, top + rows * unit + 33, own.how, "small muted")
    return c.svg()


def _operand(c: Canvas, reads: Reads, x: float, y: float, width: float, height: float) -> None:
    """An operand's tile for one K-step: subtiles split into a strip for each wave that reads them."""
    size = f"{reads.count * reads.extent} x {reads.slices * reads.slice}"
    c.text(x + width / 2, y - 8, f"{reads.name}: {size}", "mid small muted")
    for index, readers in enumerate(reads.readers):
        for s in range(reads.slices):
            if reads.along_rows:
                w, h = width / reads.slices, height / reads.count
                box = (x + s * w, y + index * h, w, h)
            else:
                w, h = width / reads.count, height / reads.slices
                box = (x + index * w, y + s * h, w, h)
            _subtile(c, reads, index, s, readers, box)


def _subtile(
    c: Canvas,
    reads: Reads,
    index: int,
    s: int,
    readers: Sequence[int],
    box: tuple[float, float, float, float],
) -> None:
    (x, y, w, h), rows = box, reads.along_rows
    who = ", ".join(map(str, readers))
    slice_ = f", K slice {s}" if reads.slices > 1 else ""
    tip = f"{reads.name} subtile {index}{slice_}: read by wave{'s' * (len(readers) > 1)} {who}"
    c.rect(x + 0.5, y + 0.5, w - 1, h - 1, "bed frame")
    strip = ((w if rows else h) - 4) / max(len(readers), 1)
    for i, wave in enumerate(readers):
        c.open(data_wave=wave, class_="own")
        sx, sy, sw, sh = (x + 2 + i * strip, y + 2, strip, h - 4) if rows else (x + 2, y + 2 + i * strip, w - 4, strip)
        c.rect(sx, sy, sw, sh, wave_class(wave), tip, style="stroke-width:.6")
        if wave >= WAVE_COLOURS:
            c.rect(sx, sy, sw, sh, "hatched")
        if sw > 15 and sh > 11:
            c.text(sx + sw / 2, sy + sh / 2 + 3.5, str(wave), "mid tiny")
        c.close()


def wave_class(wave: int) -> str:
    """The class of a wave's colour."""
    return f"w{wave % WAVE_COLOURS}"


# ---------------------------------------------------------------- dataflow

WIDEST = 300.0  # pixels of a node of equations; longer ones are squeezed
NODE_W, NODE_H, GAP_X, GAP_Y = 178.0, 42.0, 92.0, 34.0


def dataflow(facts: Facts) -> str:
    """The dataflow graph of one iteration: data flow to the right, freed buffers back to the left."""
    flow = facts.flow
    width = 48 + flow.layers * NODE_W + (flow.layers - 1) * GAP_X
    height = 84 + flow.rows * (NODE_H + GAP_Y)
    c = Canvas(width, height, f"Dataflow graph of {facts.kernel}")
    place = {n.position: (24 + n.layer * (NODE_W + GAP_X), 30 + n.row * (NODE_H + GAP_Y)) for n in flow.nodes}
    for edge in flow.edges:
        flow_edge(c, edge, place)
    for node in flow.nodes:
        _flow_node(c, node, place[node.position])
    _legend(
        c, 24, height - 16, (("raw", "read after write"), ("war", "write after read"), ("waw", "write after write"))
    )
    return c.svg()


def equation_picture(kernel: Kernel, row: Callable[[Span | None], int]) -> str:
    """The dataflow of the equations as SVG: values flow to the right; into the next iteration they flow back."""
    flow = equation_flow(kernel, row)
    width = min(WIDEST, 20 + CHARACTER * max((len(node.text) for node in flow.nodes), default=0))
    place = {n.position: (24 + n.layer * (width + GAP_X), 24 + n.row * (NODE_H + GAP_Y)) for n in flow.nodes}
    across = 48 + flow.layers * width + (flow.layers - 1) * GAP_X
    c = Canvas(across, 72 + flow.rows * (NODE_H + GAP_Y), f"Dataflow of {kernel.name}")
    for edge in flow.edges:
        flow_edge(c, edge, place, width)
    for node in flow.nodes:
        x, y = place[node.position]
        tip = f"line {node.line}: {node.text}" if node.line else node.text
        c.open(class_="node", data_node=node.position, data_line=node.line or None)
        c.rect(x, y, width, NODE_H, f"k-{node.action}", tip, rx=6)
        c.text(x + width / 2, y + NODE_H / 2 + 4, node.text, "mid mono", **fit(node.text, width - 14))
        c.close()
    return c.svg()


def _flow_node(c: Canvas, node: FlowNode, at: tuple[float, float]) -> None:
    x, y = at
    c.open(class_="node", data_node=node.position, data_line=node.line or None)
    c.rect(x, y, NODE_W, NODE_H, f"k-{node.action}", f"operation {node.position}: {node.text}", rx=6)
    c.text(x + NODE_W / 2, y + (18 if node.waves else 26), node.text, "mid mono", **fit(node.text, NODE_W - 14))
    if node.waves:
        c.text(x + NODE_W / 2, y + 33, role_text(node.role, node.waves), "mid tiny")
    c.close()


def flow_edge(c: Canvas, edge: FlowEdge, place: dict[int, tuple[float, float]], node: float = NODE_W) -> None:
    """An edge between nodes at these places, which are `node` wide; one into a later iteration runs below them."""
    (x1, y1), (x2, y2) = place[edge.source], place[edge.target]
    kind = edge.kinds[0].lower()
    later = f" of the iteration {edge.distance} later" if edge.distance else ""
    tip = f"{'; '.join(edge.labels)}{later}"
    if x2 > x1:
        sx, sy, tx, ty = x1 + node, y1 + NODE_H / 2, x2 - 7, y2 + NODE_H / 2
        bend = (tx - sx) / 2
        d = f"M{sx} {sy}C{sx + bend} {sy} {tx - bend} {ty} {tx} {ty}"
        head = f"M{tx + 6} {ty}l-8 -4v8z"
        label = ((sx + tx) / 2, (sy + ty) / 2 - 4)
    else:
        sx, sy, tx, ty = x1 + node / 2 - 14, y1 + NODE_H, x2 + node / 2 + 14, y2 + NODE_H + 7
        drop = max(sy, ty) + 20 + 0.02 * abs(sx - tx)
        d = f"M{sx} {sy}C{sx} {drop + 8} {tx} {drop + 8} {tx} {ty}"
        head = f"M{tx} {ty - 6}l-4 8h8z"
        label = ((sx + tx) / 2, 0.25 * (sy + ty) / 2 + 0.75 * (drop + 8) - 3)
    c.open(class_="link", data_source=edge.source, data_target=edge.target)
    c.path(d, f"edge {kind}{' back' if edge.distance else ''}", tip)
    c.path(head, f"f{kind}")
    if edge.distance:
        c.text(label[0], label[1], f"+{edge.distance}", "mid tiny muted")
    c.close()


def _legend(c: Canvas, x: float, y: float, entries: Iterable[tuple[str, str]]) -> None:
    for class_, name in entries:
        c.line(x, y - 4, x + 22, y - 4, f"edge {class_}")
        c.text(x + 28, y, name, "small muted")
        x += 40 + len(name) * 6.2
    c.line(x, y - 4, x + 22, y - 4, "edge raw back")
    c.text(x + 28, y, "into a later iteration (+n)", "small muted")


# ---------------------------------------------------------------- registers

PARTS = {"accumulators": "acc", "sums": "acc", "A tiles": "tile-a", "B tiles": "tile-b", "staging": "stage"}


def part_class(found: Pressure, part: str) -> str:
    """The class of the colour of a kind of values."""
    return PARTS.get(part) or wave_class(found.parts.index(part))


def registers(facts: Facts) -> str:
    """The values that each role holds at every operation, against what every wave reserves and what it may."""
    found = facts.pressure
    width, height, left = 690.0, 190.0, 56.0
    most = max(found.allotted, *(r.peak for r in found.roles))
    top_value = found.budget if found.budget <= 2.4 * most else most * 1.25
    names = max((min(len(_short(p)), 40) for r in found.roles for p in r.points), default=0) * 3.6 + 24
    c = Canvas(width + left + 130, len(found.roles) * (height + 50 + names) + 34 + 20 * (len(found.parts) // 3),
               f"Registers of {facts.kernel}")  # fmt: skip
    y = 8.0
    for role in found.roles:
        _role_registers(c, found, role, left, y + 26, width, height, top_value)
        y += height + 50 + names
    for n, part in enumerate((*found.parts, "reserved, holding nothing")):
        x, at = left + n % 3 * 250, y + n // 3 * 20
        c.rect(x, at, 12, 12, f"{part_class(found, part)} used" if part in found.parts else "hatched")
        c.text(x + 17, at + 10, part, "small muted")
    return c.svg()


def _role_registers(
    c: Canvas, found: Pressure, role: RoleRegisters, x: float, y: float, width: float, height: float, most: float
) -> None:
    c.text(x, y - 12, role_text(role.role, role.waves), "strong")
    c.text(x + width, y - 12, _register_remark(role, found.measured), "end small muted")
    scale = height / most
    for value in _ticks(most):
        c.line(x, y + height - value * scale, x + width, y + height - value * scale, "grid")
        c.text(x - 6, y + height - value * scale + 4, str(value), "end tiny muted")
    step = width / max(len(role.points), 1)
    reserved = y + height - role.reserved * scale
    c.rect(x, reserved, width, role.reserved * scale, "hatched")
    base = [0.0] * len(role.points)
    for part in found.parts:
        values = [float(sum(s.registers for s in p.shares if s.what == part)) for p in role.points]
        if any(values):
            c.path(_area(values, base, x, y + height, step, scale), f"{part_class(found, part)} used")
        base = [b + v for b, v in zip(base, values, strict=True)]
    for i, point in enumerate(role.points):
        _register_column(c, point, x + i * step, y, step, height)
    c.line(x, reserved, x + width, reserved, "allot")
    kind = "compiled" if found.measured else "estimate"
    limit = y + height - found.budget * scale
    apart = abs(limit - reserved) > 24
    c.text(x + width + 8, reserved + (4 if apart else 16), f"reserved {role.reserved}", "small")
    c.text(x + width + 8, reserved + (16 if apart else 28), f"by every wave, {kind}", "tiny muted")
    sharing = f"at {count_text(found.sharing, 'wave')} of a SIMD"
    if found.budget <= most:
        c.line(x, limit, x + width, limit, "limit")
        c.text(x + width + 8, limit - (8 if apart else 12), f"budget {found.budget}", "small")
        c.text(x + width + 8, limit + (4 if apart else 0), sharing, "tiny muted")
    else:
        c.text(x + 4, y + 9, f"budget {found.budget} ({sharing}) lies above", "tiny muted")
    c.line(x, y + height, x + width, y + height, "axis")


def _register_remark(role: RoleRegisters, measured: bool) -> str:
    if role.peak > role.reserved:
        return f"values of {role.peak} in program order, packed into {role.reserved}"
    return f"at most {role.peak} in values, {needs_text(role, measured)} of {role.reserved}"


def _area(values: Sequence[float], base: Sequence[float], x: float, floor: float, step: float, scale: float) -> str:
    """A stepped band from `base` to `base + values`."""
    upper = [(i, b + v) for i, (b, v) in enumerate(zip(base, values, strict=True))]
    parts = [f"M{number(x)} {number(floor - base[0] * scale)}"]
    for i, value in upper:
        parts.append(f"L{number(x + i * step)} {number(floor - value * scale)}h{number(step)}")
    for i in reversed(range(len(values))):
        parts.append(f"L{number(x + (i + 1) * step)} {number(floor - base[i] * scale)}h{number(-step)}")
    return "".join(parts) + "z"


def _register_column(c: Canvas, point: Moment, x: float, y: float, step: float, height: float) -> None:
    parts = ", ".join(f"{share.registers} {share.what}" for share in point.shares)
    tip = f"{point.text} ({point.segment}): {point.total} registers of a lane{' - ' + parts if parts else ''}"
    c.rect(x, y, step, height, "used", tip, fill="transparent")
    c.rect(x + 1, y + height + 4, step - 2, 8, f"k-{point.action}", tip, rx=2, style="stroke-width:.6")
    if step > 9:
        at = (x + step / 2 + 3, y + height + 20)
        turn = f"rotate(-45 {number(at[0])} {number(at[1])})"
        c.text(*at, _short(point)[:40], "slant tiny muted", transform=turn)


def _short(point: Moment) -> str:
    """An operation's name without its fragments: `read A[k+1]`."""
    return point.text.split("(")[0].strip().replace("multiply", "mma")


def _ticks(most: float) -> list[int]:
    step = next(s for s in (8, 16, 32, 64, 128, 256) if most / s <= 6)
    return list(range(0, int(most) + 1, step))


# ---------------------------------------------------------------- LDS


def lds(facts: Facts) -> str:
    """The buffers of the block's LDS, to scale."""
    found = facts.lds
    x, y, width, height = 24.0, 30.0, 760.0, 54.0
    c = Canvas(x * 2 + width, 124, f"{found.memory} of {facts.kernel}")
    scale = width / max(found.capacity, found.used)
    names = list(dict.fromkeys(b.name for b in found.buffers))
    c.rect(x, y, width, height, "bed free")
    for buffer in found.buffers:
        class_ = ("tile-a", "tile-b")[names.index(buffer.name) % 2]
        left, size = x + buffer.offset * scale, buffer.bytes * scale
        shape = buffer.shape
        tip = f"{buffer.name}[{buffer.index}]: {shape}, {buffer.bytes} bytes at {buffer.offset}"
        c.rect(left + 1, y, size - 2, height, f"{class_} frame used", tip, rx=3)
        if size > 36:
            c.text(left + size / 2, y + 23, f"{buffer.name}[{buffer.index}]", "mid strong")
        if size > 120:
            c.text(left + size / 2, y + 40, f"{f'{shape}, ' * bool(shape)}{buffer.bytes / 1024:g} KiB", "mid tiny")
    for value in range(0, found.capacity + 1, max(found.capacity // 8, 1)):
        c.line(x + value * scale, y + height, x + value * scale, y + height + 5, "axis")
        c.text(x + value * scale, y + height + 17, f"{value / 1024:g}", "mid tiny muted")
    free = found.capacity - found.used
    c.text(x, y - 10, f"{found.used / 1024:g} of {found.capacity / 1024:g} KiB used, {free / 1024:g} KiB free", "small")
    c.text(x + width, y + height + 34, "KiB", "end tiny muted")
    return c.svg()


def swizzle(facts: Facts) -> str:
    """Draw the positions of the first rows of each tile: colour and number are the bank that a unit begins in."""
    found = facts.lds.swizzles
    cell_w, cell_h, gap = 26.0, 17.0, 56.0
    widths = [len(s.offsets[0]) * cell_w for s in found]
    rows = max(len(s.offsets) for s in found)
    c = Canvas(44 + sum(widths) + gap * len(found), 56 + rows * cell_h, f"LDS swizzle of {facts.kernel}")
    x = 44.0
    for s, width in zip(found, widths, strict=True):
        c.text(x, 14, f"{s.name}: first bank of 4 neighbouring elements", "small muted")
        for row, offsets in enumerate(s.offsets):
            if row % 2 == 0:
                c.text(x - 6, 37 + row * cell_h, f"{row}", "end tiny muted")
            for unit, offset in enumerate(offsets):
                bank = offset // s.bank_bytes % s.banks
                group = bank * 8 // s.banks
                tip = f"{s.name} row {row}, columns {4 * unit}..{4 * unit + 3}: byte {offset}, bank {bank}"
                at = (x + unit * cell_w, 24 + row * cell_h)
                c.rect(at[0] + 0.5, at[1] + 0.5, cell_w - 1, cell_h - 1, f"w{group}", tip, style="stroke-width:.5")
                c.text(at[0] + cell_w / 2, at[1] + 12, str(bank), "mid tiny", style="pointer-events:none")
        for unit in range(0, len(s.offsets[0]), 4):
            c.text(x + unit * cell_w + 2, 38 + len(s.offsets) * cell_h, f"{4 * unit}", "tiny muted")
        x += width + gap
    return c.svg()


# ---------------------------------------------------------------- block order


def order(facts: Facts) -> str:
    """The output matrix, a cell per tile: left by the time at which it is computed, right by the XCD that does."""
    found = facts.order
    side = 330.0
    unit = min(side / max(found.rows, found.cols), 34.0)
    width, height = found.cols * unit, found.rows * unit
    c = Canvas(2 * max(width, 230) + 84, height + 84, f"Block order of {facts.kernel}")
    lefts = (24.0, 24.0 + max(width, 230) + 36)
    _cells(c, found, lefts[0], unit, [t * len(TIME_COLOURS) // len(found.sequence) for t in range(len(found.sequence))],
           [{"fill": colour} for colour in TIME_COLOURS])  # fmt: skip
    _cells(c, found, lefts[1], unit, found.xcd,
           [{"class_": f"x{i % 8}"} for i in range(found.xcds)])  # fmt: skip
    c.text(lefts[0], 18, "by time", "strong")
    c.text(lefts[1], 18, f"by XCD, {found.product}", "strong")
    c.text(lefts[0] + width, 18, f"{found.rows} x {found.cols} tiles", "end small muted")
    y = 28 + height + 14
    for i, colour in enumerate(TIME_COLOURS):
        c.rect(lefts[0] + i * 12, y, 12, 10, "used", fill=colour)
    c.text(lefts[0], y + 24, "first", "tiny muted")
    c.text(lefts[0] + 144, y + 24, "last", "end tiny muted")
    for i in range(found.xcds):
        c.rect(lefts[1] + i * 28, y, 12, 10, f"x{i % 8} used")
        c.text(lefts[1] + i * 28 + 15, y + 9, str(i), "tiny muted")
    for left in lefts:
        c.rect(left, 28, width, height, "frame")
        c.path("", "window", data_left=left, data_top=28, data_unit=unit)
    if unit >= 22 and len(found.sequence) <= 256:
        for turn, tile in enumerate(found.sequence):
            x, y = lefts[1] + tile % found.cols * unit + unit / 2, 28 + tile // found.cols * unit + unit / 2 + 4
            c.text(x, y, str(turn), "mid tiny", style="fill:#fff;paint-order:stroke;stroke:#0007;stroke-width:2px")
    return c.svg()


def _cells(
    c: Canvas, found: BlockOrder, left: float, unit: float, value: Sequence[int], looks: Sequence[dict[str, str]]
) -> None:
    """A path per colour, neighbours in a row merged."""
    at = [0] * len(found.sequence)
    for turn, tile in enumerate(found.sequence):
        at[tile] = value[turn]
    paths: list[list[str]] = [[] for _ in looks]
    for row in range(found.rows):
        col = 0
        while col < found.cols:
            here, end = at[row * found.cols + col], col + 1
            while end < found.cols and at[row * found.cols + end] == here:
                end += 1
            paths[here].append(f"M{col} {row}h{end - col}v1h{col - end}z")
            col = end
    c.open(transform=f"translate({number(left)} 28) scale({unit:.4f})", class_="cells")
    for path, look in zip(paths, looks, strict=True):
        if path:
            c.add("path", d="".join(path), **look)
    c.close()


# ---------------------------------------------------------------- instruction mix


def mix(facts: Facts) -> str:
    """The instructions of one iteration of the main loop by sort."""
    entries = facts.mix
    c = Canvas(620, 24 + max(len(entries), 1) * 24, f"Instruction mix of {facts.kernel}")
    if not entries:
        c.text(
            8, 22, "No loop multiplies: the K-steps are unrolled." if facts.compiled else "Not compiled.", "small muted"
        )
        return c.svg()
    most = max(e.count for e in entries)
    for i, entry in enumerate(entries):
        y = 10 + i * 24
        c.text(112, y + 13, entry.label, "end small")
        length = 300 * entry.count / most
        c.rect(120, y, length, 17, MIX_CLASS.get(entry.key, "k-wait"), rx=3, style="stroke-width:.8")
        c.text(128 + length, y + 13, str(entry.count), "small strong")
        c.text(140 + length + 7 * len(str(entry.count)), y + 13, entry.detail, "tiny muted")
    return c.svg()


# ---------------------------------------------------------------- predicted time


def time(facts: Facts) -> str:
    """Draw the predicted time as one bar, with a part for multiplying and one for each loss."""
    assert facts.prediction is not None
    parts, width, left = facts.prediction.parts, 900.0, 8.0
    whole = sum(p.share for p in parts)
    c = Canvas(width + 2 * left, 58 + 20 * -(-len(parts) // 3), f"Predicted time of {facts.kernel}")
    x = left
    for i, part in enumerate(parts):
        length = width * part.share / max(whole, 1e-9)
        step = "" if part.per_step is None else f", {part.per_step:.0f} cycles per {facts.prediction.step}"
        look = "k-multiply" if not i else f"w{PART_COLOURS[(i - 1) % len(PART_COLOURS)]}"
        c.rect(x, 8, length, 30, look, f"{part.label}: {part.share:.1%} of the time{step}", style="stroke-width:.6")
        if length > 44:
            c.text(x + length / 2, 27, f"{part.share:.0%}", "mid strong")
        at = (left + i % 3 * 300, 50 + i // 3 * 20)
        c.rect(at[0], at[1], 12, 12, look, style="stroke-width:.6")
        c.text(at[0] + 18, at[1] + 10, f"{part.label} {part.share:.1%}{step}", "small")
        x += length
    return c.svg()


PART_COLOURS = (0, 1, 2, 5, 4, 6, 7)  # of the wave colours: all but the one of multiplying


MIX_CLASS = {
    "mfma": "k-multiply",
    "lds_reads": "k-read",
    "lds_writes": "k-write",
    "global_loads": "k-load",
    "global_to_lds": "k-load",
    "global_stores": "k-store",
    "barriers": "w5",
}
