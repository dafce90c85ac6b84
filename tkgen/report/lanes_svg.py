"""The pipeline as a picture: a lane per wave, columns are epochs, dashed lines are barriers.

The first wave of each lane is drawn large with its operations' names, the waves that do the same small below it. Arcs
are dependencies, one example of each among the operations shown.
"""

from __future__ import annotations

from collections.abc import Sequence

from tkgen.report.canvas import CHARACTER, Canvas, fit, number
from tkgen.report.facts import Facts
from tkgen.report.lanes import Lane, LaneOp, Link
from tkgen.schedule.plan import NEXT, PROLOGUE

GUTTER, MAIN, THIN, ARCS = 128.0, 30.0, 7.0, 54.0
WIDEST = 260.0  # of an operation; longer texts are squeezed


def pipeline(facts: Facts) -> str:
    """A lane per wave over the prologue and one iteration of the loop; columns are epochs, dashed lines barriers."""
    pipe = facts.pipeline
    predicted = any(op.cycles is not None for lane in pipe.lanes for op in lane.ops)
    main = MAIN + (12 if predicted else 0)
    starts = _columns(pipe.lanes, pipe.epochs)
    tops, y = [], 46.0
    for lane in pipe.lanes:
        tops.append(y)
        y += main + ARCS + (len(lane.waves) - 1) * (THIN + 2) + 26
    c = Canvas(starts[-1] + 24, y + 22, f"Pipeline of {facts.kernel}")
    for epoch in range(pipe.epochs):
        if epoch % 2:
            c.rect(starts[epoch], 26, starts[epoch + 1] - starts[epoch], y - 26, "bed")
        c.text((starts[epoch] + starts[epoch + 1]) / 2, 18, f"{epoch}", "mid tiny muted")
    c.text(GUTTER - 12, 18, "epoch", "end tiny muted")
    boxes: dict[tuple[int, int], list[tuple[LaneOp, float, float, float]]] = {}
    for index, (lane, top) in enumerate(zip(pipe.lanes, tops, strict=True)):
        _lane(c, index, lane, top, main, starts, boxes)
    for epoch in range(1, pipe.epochs + 1):
        if any(op.waits == "all waves" and op.epoch == epoch - 1 for lane in pipe.lanes for op in lane.ops):
            c.line(starts[epoch], 24, starts[epoch], y - 4, "meeting", data_epoch=epoch - 1)
    for index, link in enumerate(pipe.links):
        _arc(c, index, link, boxes, tops, main)
    c.text(
        GUTTER,
        y + 12,
        "Columns are epochs; a dashed line is a barrier that all waves of the block meet at.",
        "small muted",
    )
    return c.svg()


def _columns(lanes: Sequence[Lane], epochs: int) -> list[float]:
    """Return the x coordinate at which each epoch begins, and the end of the last."""
    widths = [14.0] * epochs
    for lane in lanes:
        for epoch in range(epochs):
            widths[epoch] = max(widths[epoch], sum(_width(op) + 4 for op in lane.ops if op.epoch == epoch) + 14)
    starts = [GUTTER]
    for width in widths:
        starts.append(starts[-1] + width)
    return starts


def _width(op: LaneOp) -> float:
    if op.action == "barrier":
        return 0.0
    if op.action in ("wait", "priority"):
        words = max(28.0, 5.6 * len(_waited(op)) + 8)
        return 20.0 if op.action == "priority" else words if op.cycles is None or op.cycles < 1000 else max(words, 38.0)
    return min(max(len(_short(op)) * CHARACTER + 12, 34.0), WIDEST)


def _waited(op: LaneOp) -> str:
    """The counter, or the barrier, of a wait."""
    return " ".join(op.text.split(",")[0].split()[1:])


def _short(op: LaneOp) -> str:
    """An operation's text without the parts that its place says already."""
    return op.text.replace("multiply", "mma").replace("; ", ";")


def _lane(
    c: Canvas, index: int, lane: Lane, top: float, main: float, starts: Sequence[float],
    boxes: dict[tuple[int, int], list[tuple[LaneOp, float, float, float]]],
) -> None:  # fmt: skip
    waves = f"waves {lane.waves[0]}..{lane.waves[-1]}" if len(lane.waves) > 1 else f"wave {lane.waves[0]}"
    c.text(GUTTER - 12, top + 13, lane.role if lane.role != "waves" else waves, "end strong")
    below = waves if lane.role != "waves" else ""
    below += f"{', ' if below else ''}phase {lane.phase}" if lane.phase else ""
    c.text(GUTTER - 12, top + 27, below, "end small muted")
    if len(lane.waves) > 1:
        y = top + main + ARCS
        c.text(
            GUTTER - 12, y + 8, "the others do the same" if len(lane.waves) > 2 else "the other too", "end tiny muted"
        )
    at: dict[int, float] = {}
    cluster = -1
    segment: tuple[str, str] = ("", "")
    for op in lane.ops:
        x = at.setdefault(op.epoch, starts[op.epoch] + 8)
        width = _width(op)
        at[op.epoch] = x + width + 4
        if (op.segment, op.within) != segment and op.action != "barrier":
            segment = op.segment, op.within
            names = {
                PROLOGUE: "prologue",
                NEXT: "next iteration",
                "steady": "one iteration of the loop",
                "epilogue": "epilogue",
            }
            c.text(x, top - 4, op.within or names[op.segment], "tiny strong muted")
        elif op.cluster >= 0 and op.cluster != cluster and op.segment != PROLOGUE:
            c.text(x, top - 4, f"cluster {op.cluster}", "tiny muted")
        cluster = op.cluster
        _block(c, lane, op, x, top, width, main, starts)
        if op.node >= 0:
            boxes.setdefault((index, op.node), []).append((op, x, width, top))


def _block(
    c: Canvas, lane: Lane, op: LaneOp, x: float, top: float, width: float, main: float, starts: Sequence[float]
) -> None:
    tip = f"{op.text} - epoch {op.epoch}"
    tip += f", waits for {op.waits}" if op.waits else ""
    tip += f", complete in epoch {op.done}" if op.done is not None and op.done != op.epoch else ""
    tip += f", {op.cycles:.0f} cycles predicted" if op.cycles is not None else ""
    tip += ", placed by tkgen" if op.automatic else ""
    c.open(
        class_="op next" if op.segment == NEXT else "op",
        data_node=op.node if op.node >= 0 else None,
        data_line=op.line or None,
        data_segment=op.segment,
    )
    thin = [top + main + ARCS + i * (THIN + 2) for i in range(len(lane.waves) - 1)]
    if op.action == "barrier":
        end = starts[op.epoch + 1]
        for y, r in [(top + main / 2, 4.0), *((t + THIN / 2, 2.2) for t in thin)]:
            c.add("circle", tip=tip, cx=end, cy=y, r=r, class_="k-barrier")
    else:
        c.rect(x, top, width, main, f"k-{op.action}", tip, rx=4)
        if op.action == "load":
            c.rect(x + 1, top + main - 4, width - 2, 3, "stripe", style="pointer-events:none")
        if op.action == "wait":
            c.text(x + width / 2, top + 13, "wait", "mid tiny")
            c.text(x + width / 2, top + 24, _waited(op), "mid tiny")
            if op.cycles is not None:
                c.text(x + width / 2, top + 36, f"{op.cycles:.0f} cy", "mid tiny")
        elif op.action == "priority":
            c.text(x + width / 2, top + 19, f"p{op.text.split()[-1]}", "mid tiny")
        else:
            c.text(x + width / 2, top + 19, _short(op), "mid mono", **fit(_short(op), width - 8))
            if op.cycles is not None:
                c.text(x + width / 2, top + 34, f"{op.cycles:.0f} cy", "mid tiny")
        for y in thin:
            c.rect(x, y, width, THIN, f"k-{op.action}", tip, rx=2, style="stroke-width:.6")
        if op.action in ("fetch", "copy") and op.done is not None and op.done > op.epoch:
            last = min(op.done, len(starts) - 2)
            c.line(x + width, top + main + 5, starts[last + 1] - 6, top + main + 5, "flight")
            c.path(f"M{x + 6} {top + main}v5h{width - 6}", "flight")
    c.close()


def _arc(
    c: Canvas, index: int, link: Link, boxes: dict[tuple[int, int], list[tuple[LaneOp, float, float, float]]],
    tops: Sequence[float], main: float,
) -> None:  # fmt: skip
    """One example of a dependency among the operations shown, in the steady part if it can be."""
    pairs = [
        (x, y, first, second)
        for first in range(len(tops))
        for second in range(len(tops))
        for x in boxes.get((first, link.source), ())
        for y in boxes.get((second, link.target), ())
        if x[0].iteration is None or y[0].iteration == x[0].iteration + link.distance
    ]
    if not pairs:
        return
    rank = {"steady": 0, "prologue": 2, NEXT: 1, "epilogue": 1}
    x, y, _, _ = min(pairs, key=lambda p: (rank[p[1][0].segment] + rank[p[0][0].segment], p[2] == p[3], p[2], p[3]))
    x1, x2 = x[1] + x[2] / 2, y[1] + y[2] / 2
    y1, y2 = x[3] + main, y[3] + main
    bend = min(20 + abs(x2 - x1) * 0.06, ARCS - 4)
    kind = link.kind.lower()
    distance = f", {link.distance} K-step{'s' * (link.distance > 1)} later" if link.distance else ""
    order = f"{link.source_text} before {link.target_text}{distance}"
    tip = f"{link.kind} {link.operand} in {link.medium}: {order}; {link.covered}"
    if y1 == y2:
        up, y2 = True, y2 + 3
        knee1 = knee2 = y1 + bend
    else:
        up = y2 < y1
        y1, y2 = (x[3] - 4, y2 + 3) if up else (y1, y[3] - 2)
        knee1 = knee2 = (y1 + y2) / 2
    points = ((x1, knee1), (x2, knee2), (x2, y2))
    d = f"M{number(x1)} {number(y1 + 2)}C{' '.join(f'{number(a)} {number(b)}' for a, b in points)}"
    c.open(
        class_=f"link {'across' if link.medium in ('lds', 'shared') else 'inner'}",
        data_link=index,
        data_source=link.source,
        data_target=link.target,
    )
    c.path(d, f"edge {kind}", tip)
    c.path(f"M{number(x2)} {number(y2)}l-3.5 {6 if up else -6}h7z", f"f{kind}")
    c.close()
