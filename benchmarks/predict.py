"""Predicted speed beside measured speed, and the time a prediction takes.

    python benchmarks/predict.py [--write]

`--write` also puts the comparison into docs/prediction.md.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

from measured_kernels import DEVICE, EIGHT_CLUSTERS, ELEMENT_READS, MI355X, eight_clusters, predicted
from rich.console import Console
from rich.table import Table

from tkgen.predict import predict_workload
from tkgen.targets import load_target

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs" / "prediction.md"
BEGIN, END = "<!-- comparison: begin -->\n", "<!-- comparison: end -->\n"
HEADINGS = (
    "kernel",
    "size",
    "measured",
    "predicted",
    "off by",
    "share of peak",
    "clock, MHz",
    "cycles per K-step",
    "largest loss",
)


def rows() -> Iterator[tuple[str, ...]]:
    """One row per published measurement, TFLOP/s on the device."""
    measured = [("eight clusters", "eight_clusters", size, size, t) for size, t in EIGHT_CLUSTERS.items()]
    measured += [(f"element reads, K-step {s}", "element_reads", s, 8192, t) for s, t in ELEMENT_READS.items()]
    measured += [("MI355X, ping-pong", "mi355x", size, size, t) for size, t in MI355X.items()]
    for label, name, value, size, tflops in measured:
        p = predicted(name, value)
        worst = max((part for part in p.shares if part.lost), key=lambda part: part.share)
        assert p.loop is not None
        yield (
            label,
            str(size),
            str(tflops),
            f"{p.tflops:.0f}",
            f"{p.tflops / tflops - 1:+.0%}",
            f"{p.share_of_peak:.0%}",
            f"{p.clock_mhz:.0f}",
            f"{p.loop.cycles:.0f} ({p.loop.matrix_cycles:.0f} multiplying)",
            f"{worst.name}, {worst.share:.0%}",
        )


def markdown() -> str:
    """The comparison as it stands in the documentation."""
    lines = [f"| {' | '.join(HEADINGS)} |", "|---|" + "---:|" * 7 + "---|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows())]) + "\n"


def in_docs(text: str, table: str) -> str:
    """The page with the table between its markers replaced."""
    head, rest = text.split(BEGIN)
    return head + BEGIN + table + END + rest.split(END)[1]


def main() -> None:
    table = Table(title=f"bf16 GEMM on {DEVICE} and MI355X, TFLOP/s")
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading in ("kernel", "largest loss") else "right")
    for row in rows():
        table.add_row(*row)
    console = Console()
    console.print(table)
    work = eight_clusters(8192)
    start = time.perf_counter()
    predict_workload(work, load_target("gfx942"), DEVICE)
    console.print(f"one prediction at 8192, with what would change it: {time.perf_counter() - start:.1f} s")
    if "--write" in sys.argv[1:]:
        DOCS.write_text(in_docs(DOCS.read_text(encoding="utf-8"), markdown()), encoding="utf-8")


if __name__ == "__main__":
    main()
