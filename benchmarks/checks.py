"""What the checks cost and how near the register estimate is.

    python benchmarks/checks.py [--registers]

The first table grows a written schedule: operations, LDS buffers, phases of the waves. The largest has 16 waves, 8
buffers and more than 200 operations. `--registers` compiles all specs and compares the estimate with the machine code.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

import tkgen
from tkgen.checks import check, estimate
from tkgen.diagnostics import Severity, SpecError
from tkgen.ir.program import matrix_program as resolve
from tkgen.schedule import Plan, plan
from tkgen.source import SourceFile
from tkgen.syntax.parser import parse
from tkgen.targets import load_target

ROOT = Path(__file__).parent.parent
TARGET = load_target("gfx950")


def schedule(clusters: int, buffers: int, phases: int) -> Plan:
    """A correct schedule of 16 waves: every read and multiply in a cluster of its own, `clusters` of them empty."""
    lines = [f"    cluster load A[k+{buffers - 1}] B[k+{buffers - 1}]"] if buffers > 1 else ["    cluster load A B"]
    for t in (0, 1):
        lines += [f"    cluster read A({i}; {t})  wait lds 0" for i in range(4)]
        lines.append(f"    cluster read B(*; {t})  wait lds 0")
        lines += [f"    cluster priority high  multiply ({i}, *; {t})" for i in range(4)]
    lines += ["    cluster priority low  wait lds 0"] * clusters
    shifts = [f"  phase waves {4 * n}..{4 * n + 3} by {n} cluster{'s' * (n > 1)}" for n in range(1, phases)]
    text = "\n".join(
        [
            "kernel large",
            "  dims M = 4096, N = 4096, K = 4096",
            "  global A : bf16[M, K]",
            "  global B : bf16[N, K]",
            "  global C : f32[M, N]",
            "  block 256 x 64 step 32",
            "  waves 4 x 4",
            f"  shared A, B buffers {buffers}",
            "  registers A, B slice 16",
            "  accumulate C : f32 tile 16 x 16",
            "  store C",
            *shifts,
            "  schedule",
            *lines,
        ]
    )
    return plan(resolve(parse(SourceFile("large.tk", text + "\n"))), TARGET)


def milliseconds(made: Plan) -> tuple[float, int, int]:
    """Time of a whole check (nothing kept from before), errors and warnings."""
    times, found = [], []
    for _ in range(3):
        fresh = made.with_bodies(made.bodies)
        start = time.perf_counter()
        found = check(fresh, TARGET)
        times.append(1000 * (time.perf_counter() - start))
    errors = sum(d.severity is Severity.ERROR for d in found)
    return statistics.median(times), errors, len(found) - errors


def growth() -> Table:
    """Time over the size of the schedule."""
    result = Table(title="tkgen check, 16 waves")
    for name in ("operations", "buffers", "phases", "ms", "errors", "warnings"):
        result.add_column(name, justify="right")
    sizes = [(n, b, p) for n in (0, 8, 24) for b in (1, 8) for p in (1, 4)]
    for clusters, buffers, phases in sizes:
        made = schedule(clusters, buffers, phases)
        spent, errors, warnings = milliseconds(made)
        row = (len(made.bodies[0].ops), buffers, phases, f"{spent:.0f}", errors, warnings)
        result.add_row(*map(str, row))
    return result


def registers() -> Table:
    """The estimate beside the machine code, for every spec."""
    result = Table(title="registers per lane, allotted")
    for name in ("spec", "estimate", "compiled", "ratio"):
        result.add_column(name, justify="left" if name == "spec" else "right")
    for path in sorted((ROOT / "specs").glob("*.tk")):
        try:
            build = tkgen.load(path).build()
        except SpecError as error:
            result.add_row(path.stem, str(error), "", "")
            continue
        target = build.spec.target
        predicted = estimate(build.spec.plan, target).allotted
        real = target.allotted_registers(build.resources.vgpr, build.resources.agpr)
        result.add_row(path.stem, str(predicted), str(real), f"{predicted / real:.2f}")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--registers", action="store_true", help="compile all specs and compare the estimate")
    args = parser.parse_args()
    Console().print(registers() if args.registers else growth())


if __name__ == "__main__":
    main()
