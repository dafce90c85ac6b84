"""Cost of following values in two finite fields: the emulator with it beside the emulator alone, spec by spec.

    python benchmarks/algebra.py [SPEC...] [--quick]

Each kernel runs at the sizes that `tkgen verify` takes, without the referee. Times are CPU time of the launch, the best
of three; the last column is the whole run over the algebra as a multiple of the plain one.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from rich.console import Console
from rich.table import Table

from tkgen.emulate import Interleaving, Outcome, launch
from tkgen.execute import given
from tkgen.verify.specs import case_of, chosen_cases, some_blocks

SPECS = Path(__file__).parent.parent / "specs"
CHOSEN = (
    "one_wave", "eight_wave", "ping_pong", "fp16", "fp32", "low_precision/fp8", "low_precision/mxfp8",
    "low_precision/i8", "low_precision/w4", "quantise/quantise_rows", "rows/softmax", "rows/layernorm", "rows/rotary",
    "attention/attention", "attention/attention_causal", "attention/attention_decode", "attention/attention_backward",
    "groups/grouped_gemm",
)  # fmt: skip
QUICK = CHOSEN[1], CHOSEN[10], CHOSEN[13]


def best(call: Callable[[], object], times: int = 3) -> float:
    """CPU seconds of the fastest of some calls."""
    found = []
    for _ in range(times):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return min(found)


def measure(path: Path) -> tuple[Mapping[str, int], float, float, int]:
    """Sizes, seconds without and with the algebra, and instructions, of all launches of a spec."""
    seconds = {False: 0.0, True: 0.0}
    instructions = 0

    def timed(code: Any, **options: Any) -> Outcome:
        nonlocal instructions
        bare = options | {"watch": False, "poison": False}
        for algebra in seconds:
            seconds[algebra] += best(partial(launch, code, **(bare | {"algebra": algebra})))
        outcome = launch(code, **options)
        instructions += outcome.instructions
        return outcome

    defines, note = next(iter(chosen_cases(given.Asked(path))))
    chosen = given.Asked(path, defines).chosen()
    built = chosen.spec.build(machine_check=False)
    blocks = some_blocks(chosen.launch) if note != "small" else None
    case = case_of(built, chosen.extents, chosen.scalars, blocks, note)
    with patch("tkgen.execute.launch.emulate_launch", timed):
        case.machine(case.draw(0), Interleaving())
    return case.sizes, seconds[False], seconds[True], instructions


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("specs", nargs="*", type=Path)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    paths = given.specs or [SPECS / f"{name}.tk" for name in (QUICK if given.quick else CHOSEN)]
    table = Table("spec", "sizes", "instructions", "plain, s", "algebra, s", "times")
    for path in paths:
        sizes, plain, algebra, instructions = measure(path)
        shown = " ".join(f"{n}={v}" for n, v in sizes.items())
        table.add_row(path.stem, shown, str(instructions), f"{plain:.3f}", f"{algebra:.3f}", f"{algebra / plain:.1f}")
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
