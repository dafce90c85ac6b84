"""Predictions for a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from tkgen.checks.words import count_text
from tkgen.predict.model import Comparison, Prediction


def render_terminal(p: Prediction, console: Console) -> None:
    """Print a prediction: the result, where the time goes, memory, and what would change it."""
    m, n, k = p.sizes
    clock = {"power": "held by power", "peak": "the peak", "unknown": "the peak; none published for sustained work"}[
        p.clock_limit
    ]
    console.print(f"[bold]{p.kernel}[/] {m} x {n} x {k} on {p.product}: {_headline(p)}", highlight=False)
    console.print(
        f"{count_text(p.blocks, 'block')} in {count_text(p.rounds, 'round')}, {p.blocks_per_cu} per CU; "
        f"{p.clock_mhz:.0f} MHz ({clock}); "
        f"{p.cycles_per_step:.0f} cycles per K-step, {p.matrix_cycles_per_step:.0f} of them multiplying",
        highlight=False,
    )
    console.print(_cycles_table(p))
    console.print(_memory_table(p))
    if p.what_if:
        console.print(_what_if_table(p))
    for note in p.notes:
        console.print(f"note: {note}", highlight=False)


def render_comparison(c: Comparison, console: Console) -> None:
    """Print two predictions side by side."""
    table = Table(title=_verdict(c))
    table.add_column("")
    for p in (c.a, c.b):
        table.add_column(f"{p.kernel} {'x'.join(map(str, p.sizes))} {p.product}", justify="right")
    table.add_row("TFLOP/s", *(f"{'at most ' if p.upper_bound else ''}{p.tflops:.0f}" for p in (c.a, c.b)))
    if c.a.memory_bound or c.b.memory_bound:
        table.add_row("GB/s", *(f"{p.gbps:.0f} ({p.share_of_copy:.0%} of a copy)" for p in (c.a, c.b)))
    table.add_row("time", *(_time(p.seconds) for p in (c.a, c.b)))
    table.add_row("limiter", c.a.limiter, c.b.limiter)
    table.add_row("clock, MHz", *(f"{p.clock_mhz:.0f}" for p in (c.a, c.b)))
    table.add_row("cycles per K-step", *(f"{p.cycles_per_step:.0f}" for p in (c.a, c.b)))
    for name in c.saved_cycles:
        table.add_row(f"lost to {name}", *(f"{p.lost_cycles.get(name, 0) / p.cycles:.1%}" for p in (c.a, c.b)))
    for a, b in zip(c.a.levels[:-1], c.b.levels[:-1], strict=True):  # HBM has everything
        table.add_row(f"{a.name} hits", f"{a.hit_rate:.0%}", f"{b.hit_rate:.0%}")
    console.print(table)


def _headline(p: Prediction) -> str:
    """The result: a kernel that is bound by memory in GB/s, any other in TFLOP/s, its time, what limits it."""
    share = f"{p.share_of_peak:.0%} of peak"
    rates = [f"{p.tflops:.0f} TFLOP/s", _time(p.seconds), share]
    if p.memory_bound:
        rates = [f"{p.gbps:.0f} GB/s", _time(p.seconds), f"{p.share_of_copy:.0%} of the copy rate", rates[0]]
    bound = "upper bound " if p.upper_bound else ""
    return f"{bound}[bold]{rates[0]}[/], {', '.join(rates[1:])}, limited by [bold]{p.limiter}[/]"


def _verdict(c: Comparison) -> str:
    """The comparison in a sentence: of times where both do the same work, else of rates."""
    a, b = (c.a.kernel, c.b.kernel) if c.a.kernel != c.b.kernel else ("the first", "the second")
    if c.a.sizes == c.b.sizes:
        return f"{b} is {c.speedup:.2f} times as fast as {a}"
    return f"{b} reaches {c.b.tflops / c.a.tflops:.2f} times the TFLOP/s of {a}"


def _cycles_table(p: Prediction) -> Table:
    table = Table(title="where the cycles go")
    for heading in ("cause", "share", "per K-step"):
        table.add_column(heading, justify="left" if heading == "cause" else "right")
    table.add_row("multiplying", f"{p.matrix_cycles / p.cycles:.1%}", f"{p.matrix_cycles_per_step:.0f}")
    for name, cycles in sorted(p.lost_cycles.items(), key=lambda item: -item[1]):
        step = p.lost_per_step.get(name)
        if cycles >= 0.0005 * p.cycles:
            table.add_row(f"lost to {name}", f"{cycles / p.cycles:.1%}", "" if step is None else f"{step:.0f}")
    return table


def _memory_table(p: Prediction) -> Table:
    table = Table(title="memory")
    for heading in ("level", "GB", "TB/s", "hits"):
        table.add_column(heading, justify="left" if heading == "level" else "right")
    for level in p.levels:
        hits = f"{level.hit_rate:.1%}" if level.name != "HBM" else ""
        table.add_row(level.name, f"{level.bytes / 1e9:.2f}", f"{level.tbps:.2f}", hits)
    return table


def _what_if_table(p: Prediction) -> Table:
    table = Table(title="what would change it")
    for heading in ("with", "time", "faster"):
        table.add_column(heading, justify="left" if heading == "with" else "right")
    for x in p.what_if:
        if x.speedup > 1.005:
            table.add_row(x.change, _time(x.seconds), f"{x.speedup:.2f}x")
    return table


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"
