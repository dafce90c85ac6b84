"""The tuned choice against the hand-written 256x256x64 kernel's shape, by prediction, for five products on gfx942.

    python benchmarks/tune.py [-j N] [--sizes MxNxK ...] [-o DIR]

Each product is tuned over the settings of specs/tunable.tk and specs/tunable_staged.tk and over the hand-written
schedules of ping_pong and ping_pong_wide as they are. With -o the trials stay in DIR, and a second run goes on with
them.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

import tkgen
from tkgen.predict import Prediction, predict
from tkgen.tune import Outcome, Progress, Request, tune

SPECS = Path(__file__).parent.parent / "specs"
HAND = SPECS / "ping_pong_wide.tk"
VARIANTS = tuple(SPECS / f"{name}.tk" for name in ("ping_pong_wide", "ping_pong", "tunable_staged", "tunable"))
SIZES = ((8192, 8192, 8192), (4096, 4096, 4096), (1024, 1024, 1024), (8192, 1024, 8192), (4864, 8192, 4096))
RANGES = {
    "ROWS": (64, 128, 256), "COLS": (64, 128, 256), "STEP": (64,), "WAVE_ROWS": (2, 4), "WAVE_COLS": (2, 4),
    "TILE": (32,), "SLICE": (32,), "CHUNK": (16, 32), "GROUP": (8,), "BUFFERS": (2,), "SPLIT": (1, 2, 4),
}  # fmt: skip


def sizes_of(shape: tuple[int, int, int]) -> dict[str, int]:
    return dict(zip("MNK", shape, strict=True))


def hand_shape(shape: tuple[int, int, int]) -> Prediction:
    """The hand-written shape's prediction for a product of this size."""
    return predict(tkgen.load(HAND, sizes_of(shape)).build(), what_if=False)


def tuned(shape: tuple[int, int, int], jobs: int, directory: Path | None = None) -> Outcome:
    """The search for a product of this size."""
    folder = directory / "x".join(map(str, shape)) if directory else None

    def show(step: Progress) -> None:
        if sys.stderr.isatty():
            print(f"\r{step.stage} {step.done}/{step.total}   ", end="", file=sys.stderr, flush=True)

    request = Request(
        VARIANTS, ranges=RANGES, sizes=sizes_of(shape), trials=1000, best=1, jobs=jobs,
        directory=folder, resume=folder is not None,
    )  # fmt: skip
    return tune(request, show)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--sizes", nargs="*", default=["x".join(map(str, s)) for s in SIZES])
    parser.add_argument("-o", "--out", type=Path)
    options = parser.parse_args()
    table = Table(title="predicted, gfx942 (MI300X); hand: specs/ping_pong_wide.tk, 256 x 256 x 64, 8 waves")
    for heading in ("M x N x K", "hand-written, us", "TFLOP/s", "tuned, us", "TFLOP/s", "times as fast", "choice"):
        table.add_column(heading, justify="left" if heading in ("M x N x K", "choice") else "right")
    for text in options.sizes:
        m, n, k = (int(part) for part in text.split("x"))
        hand, best = hand_shape((m, n, k)), tuned((m, n, k), options.jobs, options.out).winner
        assert best.seconds is not None and best.tflops is not None
        table.add_row(
            text, f"{hand.seconds * 1e6:.1f}", f"{hand.tflops or 0:.0f}", f"{best.seconds * 1e6:.1f}",
            f"{best.tflops:.0f}", f"{hand.seconds / best.seconds:.2f}", str(best.candidate),
        )  # fmt: skip
    Console(width=180).print(table)


if __name__ == "__main__":
    main()
