"""The outcome of a search for a terminal."""

from __future__ import annotations

from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tkgen.diagnostics.text import count_text
from tkgen.tune.engine import Outcome
from tkgen.tune.plot import pareto_text
from tkgen.tune.trial import Status, Trial

SHOWN = 12


def render_terminal(outcome: Outcome, console: Console) -> None:
    """Print the fastest candidates, the Pareto front, what was rejected, and the winner."""
    fastest = [t for t in outcome.trials if t.status is Status.PREDICTED]
    console.print(_table(fastest[:SHOWN]))
    if len(fastest) > SHOWN:
        console.print(f"and {count_text(len(fastest) - SHOWN, 'slower one')}", highlight=False)
    console.print(pareto_text(outcome.trials), highlight=False, markup=False)
    console.print(_counts(outcome), highlight=False)
    for trial in (t for t in outcome.trials if t.verified is False):
        console.print(f"WRONG: {trial.candidate}: {trial.message}", highlight=False, markup=False)
    winner = outcome.winner
    console.print(
        f"[bold]{winner.candidate}[/]: {winner.rank * 1e6:.1f} us "
        f"{'measured' if winner.gpu_seconds is not None else 'predicted'}, "
        f"right on {outcome.right_on}",
        highlight=False,
    )
    for path in outcome.files.values():
        console.print(f"wrote {path}", highlight=False, markup=False)


def _counts(outcome: Outcome) -> str:
    by_status = {s: sum(t.status is s for t in outcome.trials) for s in Status}
    rejected = ", ".join(f"{code} {count}" for code, count in outcome.rejected.items())
    parts = [
        f"{count_text(outcome.space_size, 'candidate')}, {outcome.searched}",
        f"{by_status[Status.PREDICTED]} predicted",
    ]
    if rejected:
        parts.append(f"{by_status[Status.REJECTED]} rejected ({rejected})")
    if by_status[Status.BOUNDED]:
        parts.append(f"{by_status[Status.BOUNDED]} not compiled: even their lower bound is slower")
    if by_status[Status.FAILED]:
        parts.append(f"{by_status[Status.FAILED]} failed")
    return "; ".join(parts)


def _table(trials: list[Trial]) -> Table:
    """The trials as rows, `waves` per SIMD; what all of them share stands below."""
    same = frozenset.intersection(*(frozenset(t.candidate.values) for t in trials)) if len(trials) > 1 else frozenset()
    shared = " ".join(f"{n}={v}" for n, v in trials[0].candidate.values if (n, v) in same)
    caption = f"all with {shared}" if shared else None
    table = Table(title="the fastest candidates", caption=caption, box=SIMPLE_HEAD, pad_edge=False)
    several, measured = len({t.candidate.spec for t in trials}) > 1, any(t.gpu_seconds is not None for t in trials)
    table.add_column("spec" if several else "setting", overflow="fold")
    for heading in (
        "us",
        trials[0].unit if trials else "",
        "limiter",
        "regs",
        "LDS",
        "waves",
        *(("measured",) if measured else ()),
    ):
        table.add_column(heading, justify="left" if heading == "limiter" else "right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for t in trials:
        settings = " ".join(f"{n}={v}" for n, v in t.candidate.values if (n, v) not in same)
        table.add_row(
            f"{Path(t.candidate.spec).stem} {settings}" if several else settings or Path(t.candidate.spec).stem,
            f"{(t.seconds or 0) * 1e6:.1f}",
            f"{t.rate:.1f}",
            t.limiter,
            str(t.registers),
            str(t.lds_bytes),
            f"{t.waves_per_simd:g}",
            *((f"{t.gpu_seconds * 1e6:.1f}" if t.gpu_seconds is not None else "",) if measured else ()),
            {None: "", True: "right", False: "WRONG"}[t.verified],
        )
    return table
