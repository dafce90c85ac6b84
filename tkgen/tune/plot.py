"""Predicted rate against a resource: the candidates, and those that no other beats in both (the Pareto front)."""

from __future__ import annotations

from collections.abc import Sequence

from tkgen.report.canvas import Canvas, standalone
from tkgen.tune.trial import Trial

LABELS = {"registers": "registers per lane", "lds_bytes": "LDS of a block, bytes"}


def _points(trials: Sequence[Trial], resource: str) -> list[tuple[float, float, Trial]]:
    return [(float(getattr(t, resource)), t.rate, t) for t in trials if t.rate is not None]


def _unit(trials: Sequence[Trial]) -> str:
    """The unit of the rates."""
    return next((t.unit for t in trials if t.rate is not None), "TFLOP/s")


def pareto(trials: Sequence[Trial], resource: str = "registers") -> list[Trial]:
    """The trials that no other beats: none is as fast with less of `resource` (`registers` or `lds_bytes`)."""
    front: list[Trial] = []
    fastest = 0.0
    for _, rate, trial in sorted(_points(trials, resource), key=lambda p: (p[0], -p[1], p[2].candidate)):
        if rate > fastest:
            front.append(trial)
            fastest = rate
    return front


def pareto_svg(trials: Sequence[Trial], resource: str = "registers") -> str:
    """A standalone SVG: every predicted trial a dot with its settings as a tooltip, the front joined by a line."""
    width, height, left, bottom = 720.0, 420.0, 64.0, 48.0
    points, unit = _points(trials, resource), _unit(trials)
    right = max((x for x, _, _ in points), default=1) * 1.05 or 1
    top = max((y for _, y, _ in points), default=1) * 1.08 or 1

    def at(x: float, y: float) -> tuple[float, float]:
        return left + (width - left - 20) * x / right, (height - bottom) - (height - bottom - 20) * y / top

    canvas = Canvas(width, height, f"Predicted {unit} against {LABELS[resource]}")
    for rate in _ticks(top, (1, 2, 5, 10)):
        _, y = at(0, rate)
        canvas.line(left, y, width - 20, y, "grid", stroke="currentColor", stroke_opacity=0.15)
        canvas.text(left - 8, y + 4, f"{rate:g}", "label", text_anchor="end", font_size=11)
    for amount in _ticks(right, (1, 2, 4, 8)):  # registers and bytes come in powers of two
        x, y = at(amount, 0)
        canvas.text(x, y + 16, f"{amount:g}", "label", text_anchor="middle", font_size=11)
    canvas.text(left, 14, f"predicted {unit}", "label", font_size=12)
    canvas.text(width - 20, height - 10, LABELS[resource], "label", text_anchor="end", font_size=12)
    front = pareto(trials, resource)
    corners = [at(float(getattr(t, resource)), t.rate or 0.0) for t in front]
    if len(corners) > 1:
        line = " L ".join(f"{x:.1f} {y:.1f}" for x, y in corners)
        canvas.path(f"M {line}", "front", fill="none", stroke="#d97706", stroke_width=2)
    for x, y, trial in sorted(points, key=lambda p: p[2] in front):
        cx, cy = at(x, y)
        tip = f"{trial.candidate}: {y:.0f} {unit}, {x:.0f} {LABELS[resource]}"
        best = trial in front
        canvas.add("circle", None, tip, cx=cx, cy=cy, r=5 if best else 3.5, fill="#d97706" if best else "#3b82f6")
    return standalone(canvas.svg())


def _ticks(top: float, steps: Sequence[int]) -> list[float]:
    """Round numbers from 0 to `top`, at most nine: multiples of one of `steps` times a power of the last."""
    unit = 1.0
    while unit * steps[-1] * 8 < top:
        unit *= steps[-1]
    step = next(unit * s for s in steps if unit * s * 8 >= top)
    return [step * i for i in range(int(top / step) + 1)]


def pareto_text(trials: Sequence[Trial], resource: str = "registers", width: int = 64, height: int = 12) -> str:
    """The same for a terminal: `o` on the front, `.` elsewhere."""
    points = _points(trials, resource)
    if not points:
        return ""
    low, high = min(x for x, _, _ in points), max(x for x, _, _ in points)
    top = max(y for _, y, _ in points)
    front = pareto(trials, resource)
    rows = [[" "] * width for _ in range(height)]
    for x, y, trial in sorted(points, key=lambda p: p[2] in front):
        column = round((x - low) / (high - low) * (width - 1)) if high > low else 0
        rows[height - 1 - round(y / top * (height - 1))][column] = "o" if trial in front else "."
    lines = [f"{_unit(trials):>8}"]
    for i, row in enumerate(rows):
        label = f"{top * (height - 1 - i) / (height - 1):.0f}" if i % 3 == 0 or i == height - 1 else ""
        lines.append(f"{label:>8} |{''.join(row).rstrip()}")
    lines.append(" " * 9 + "+" + "-" * width)
    lines.append(f"{'':10}{low:<{width // 2}.0f}{high:>{width - width // 2}.0f}")
    lines.append(f"{'':10}{LABELS[resource]}; o: none is as fast with less")
    return "\n".join(lines)
