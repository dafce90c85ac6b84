"""Predictions for a terminal: the result, where the time goes, memory, what would change it, as far as it is known."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from tkgen.diagnostics.text import count_text
from tkgen.predict.prediction import Comparison, Prediction

CLOCKS: Mapping[str, str] = {
    "power": "held by power", "peak": "the peak", "unknown": "the peak; none published for sustained work",
}  # fmt: skip
SHOWN = 0.0005  # parts below this share of the time are left out


def render_terminal(p: Prediction, console: Console) -> None:
    """Print a prediction."""
    console.print(f"[bold]{p.kernel}[/] {_sizes(p)} on {p.product}: {_headline(p)}", highlight=False, soft_wrap=True)
    if p.blocks:
        console.print(_launch(p), highlight=False, soft_wrap=True)
    if p.busy:
        console.print(
            f"busy: {', '.join(f'{unit} {share:.0%}' for unit, share in p.busy.items())}",
            highlight=False,
            soft_wrap=True,
        )
    width = max((len(k.kernel) for k in p.kernels), default=0)
    for k in p.kernels:
        share = f"{k.seconds / p.seconds:4.0%}"
        console.print(f"  {k.kernel:<{width}}  {share}  {_headline(k)}", highlight=False, soft_wrap=True)
    tables = (not p.kernels and _parts(p), _memory_table(p), _what_if_table(p))
    for table in tables:
        if table and table.row_count:
            console.print(table)
    for note in p.notes:
        console.print(f"note: {note}", highlight=False, soft_wrap=True)


def render_comparison(c: Comparison, console: Console) -> None:
    """Print two predictions side by side: what is known of either."""
    table = Table(title=verdict(c))
    table.add_column("")
    for p in (c.a, c.b):
        table.add_column(f"{p.kernel} {_sizes(p)} {p.product}", justify="right")

    def row(name: str, a: str, b: str) -> None:
        if a or b:
            table.add_row(name, a, b)

    a, b = c.a, c.b
    row("TFLOP/s", _tflops(a), _tflops(b))
    if a.memory_bound or b.memory_bound:
        row("GB/s", *(f"{p.gbps:.0f} ({p.share_of_copy:.0%} of a copy)" for p in (a, b)))
    row("time", time_text(a.seconds), time_text(b.seconds))
    row("limiter", a.limiter, b.limiter)
    row("clock, MHz", *("" if p.clock_mhz is None else f"{p.clock_mhz:.0f}" for p in (a, b)))
    for name in dict.fromkeys(p.loop.name for p in (a, b) if p.loop):
        cycles = (f"{p.loop.cycles:.0f}" if p.loop and p.loop.name == name else "" for p in (a, b))
        row(f"cycles per {name}", *cycles)
    shares = [{part.name: part for part in p.shares} for p in (a, b)]
    for name in dict.fromkeys([*a.parts, *b.parts, *shares[0], *shares[1]]):
        parts = [own.get(name) for own in shares]
        label = next(part.label for part in parts if part)
        row(label, *("" if part is None else f"{part.share:.1%}" for part in parts))
    hits = [{x.name: f"{x.hit_rate:.0%}" for x in p.levels[:-1]} for p in (a, b)]  # the last one has everything
    for name in dict.fromkeys([*hits[0], *hits[1]]):
        row(f"{name} hits", *(own.get(name, "") for own in hits))
    console.print(table)


def _sizes(p: Prediction) -> str:
    return " ".join(f"{name}={size}" for name, size in p.sizes)


def _tflops(p: Prediction) -> str:
    return "" if p.tflops is None else f"{'at most ' if p.upper_bound else ''}{p.tflops:.0f}"


def rates(p: Prediction) -> list[str]:
    """The rate, in bytes of a kernel that is bound by memory, and what it is compared with."""
    products = [] if p.tflops is None else [f"{p.tflops:.0f} TFLOP/s"]
    if p.memory_bound or not products:
        return [f"{p.gbps:.0f} GB/s", f"{p.share_of_copy:.0%} of what a copy reaches", *products]
    return [*products, *([] if p.share_of_peak is None else [f"{p.share_of_peak:.0%} of peak"])]


def _headline(p: Prediction) -> str:
    """The result: the rate, its time, what limits it."""
    first, *others = rates(p)
    said = [f"{time_text(p.seconds)} predicted", *others]
    bound = "upper bound " if p.upper_bound else ""
    return f"{bound}[bold]{first}[/], {', '.join(said)}, limited by [bold]{p.limiter}[/]"


def _launch(p: Prediction) -> str:
    """Blocks, the clock, an iteration of the loop."""
    each = f" of {p.loop.count:g} {p.loop.name}{'es' if p.loop.name.endswith('s') else 's'}" if p.loop else ""
    rounds = f" in {count_text(p.rounds, 'round')}" if p.rounds is not None else ""
    said = [f"{count_text(p.blocks, 'block')}{each}{rounds}, {p.resident} per {p.core}"]
    if p.clock_mhz is not None:
        said.append(f"{p.clock_mhz:.0f} MHz ({CLOCKS[p.clock_limit]})")
    if p.loop:
        said.append(f"{p.loop.cycles:.0f} cycles per {p.loop.name}, {p.loop.matrix_cycles:.0f} of them multiplying")
    return "; ".join(said)


def verdict(c: Comparison) -> str:
    """The comparison in a sentence: of times where both do the same work, else of rates."""
    a, b = (c.a.kernel, c.b.kernel) if c.a.kernel != c.b.kernel else ("the first", "the second")
    own, other = dict(c.a.sizes), dict(c.b.sizes)
    common = own.keys() & other.keys()
    if not common or any(own[name] != other[name] for name in common):
        for unit, x, y in (("TFLOP/s", c.a.tflops, c.b.tflops), ("GB/s", c.a.gbps, c.b.gbps)):
            if x and y:
                return f"{b} reaches {y / x:.2f} times the {unit} of {a}"
    return f"{b} is {c.speedup:.2f} times as fast as {a}"


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title)
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left")
    return table


def _parts(p: Prediction) -> Table:
    table = _table("where the time goes", "part", "share", *([f"per {p.loop.name}"] if p.loop else []))
    for part in p.shares:
        if part.share >= SHOWN:
            step = ["" if part.per_step is None else f"{part.per_step:.0f}"] if p.loop else []
            table.add_row(part.label, f"{part.share:.1%}", *step)
    return table


def _memory_table(p: Prediction) -> Table:
    table = _table("memory", "level", "GB", "TB/s", "hits")
    for level in p.levels:
        hits = f"{level.hit_rate:.1%}" if level != p.levels[-1] else ""
        table.add_row(level.name, f"{level.bytes / 1e9:.2f}", f"{level.tbps:.2f}", hits)
    return table


def _what_if_table(p: Prediction) -> Table:
    table = _table("what would change it", "with", "time", "faster")
    for x in p.what_if:
        if x.speedup > 1.005:
            table.add_row(x.change, time_text(x.seconds), f"{x.speedup:.2f}x")
    return table


def time_text(seconds: float) -> str:
    """Seconds as milliseconds, or microseconds below one."""
    return f"{seconds * 1e3:.3f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"
