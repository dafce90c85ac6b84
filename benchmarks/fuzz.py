"""Differential fuzzing: random specs over the whole language; each accepted one is built, emulated and compared.

    python benchmarks/fuzz.py --seed 0 --count 300 -j 2     a table, and the seed of every failure
    python benchmarks/fuzz.py --seed 1234 --show            one seed again: its spec, and what becomes of it
    python benchmarks/fuzz.py --family all --count 900      of all families: products, sums, groups, rows, ...
    python benchmarks/fuzz.py --coverage --count 3000       what of the grammar and of the calculus is never drawn

A spec is a function of its seed alone. What the checks refuse must come with diagnostics; what they accept must
compile, give the right numbers at 1, 2, 3 and many K-steps under several orders of the waves, and leave the race
referee nothing to say. Failures are of kinds: `wrong` (accepted, built, and wrong numbers, races or bytes never
written), `machine check` (accepted by the plan's checks, refused by the build), `unchecked` (the build could not tell),
`wait states` (the compiler left some out), `toolchain`, `exception`, and `silent` (a rejection that says nothing).
Registers are counted only in machine code: that a kernel spills (E405) or does not reach the occupancy that its spec
asks for (E404) is a rejection, and stands as one `when compiled` in the table.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path

from fuzzing.families import FAMILIES
from fuzzing.specs import Sample, sample
from fuzzing.verdict import KINDS, Result, Tally, attempt, judge, loaded, write

__all__ = ["FAMILIES", "Result", "Sample", "Tally", "attempt", "judge", "loaded", "sample", "write"]


def accepted_seeds(first: int, count: int) -> Iterator[int]:
    """The first `count` seeds from `first` on whose specs the checks accept."""
    import tempfile

    from tkgen.diagnostics import SpecError

    with tempfile.TemporaryDirectory(prefix="tkgen-fuzz-") as folder:
        while count:
            made = sample(first)
            try:
                loaded(made, write(made, Path(folder)))
            except SpecError:
                pass
            else:
                count -= 1
                yield first
            first += 1


def _try(family: str, seed: int, orders: int, quick: bool) -> Result:
    return attempt(FAMILIES[family](seed), orders, quick)


def _start() -> None:
    """A worker uses one core: torch on several is slower here. Its builds are never asked for again."""
    import torch

    torch.set_num_threads(1)
    os.environ["TKGEN_CACHE"] = ""


def sweep(
    first: int, accepted: int, jobs: int, orders: int, quick: bool = False, minutes: float = math.inf,
    families: Sequence[str] = ("matrix",),
) -> list[Result]:  # fmt: skip
    """Seeds from `first` on, of `families` in turn, until `accepted` of them were accepted or failed, or time is up.

    Prints failures.
    """
    results: list[Result] = []
    counted, seed, start = 0, first, time.perf_counter()
    with ProcessPoolExecutor(jobs, initializer=_start) as pool:
        running: set[Future[Result]] = set()
        while counted < accepted and time.perf_counter() - start < 60 * minutes:
            while len(running) < 4 * jobs:
                running.add(pool.submit(_try, families[seed % len(families)], seed, orders, quick))
                seed += 1
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for result in (future.result() for future in done):
                results.append(result)
                counted += result.verdict != "rejected"
                if result.verdict == "FAILED":
                    print(f"{counted}: seed {result.seed} FAILED ({result.kind}): {result.detail}", flush=True)
            if sys.stderr.isatty():
                rate = 60 * counted / (time.perf_counter() - start)
                shown = f"{counted} of {accepted}, {len(results)} tried, {rate:.0f} a minute"
                print(shown, end="\r", file=sys.stderr, flush=True)
        for future in running:
            future.cancel()
    return results


def table(results: Sequence[Result], seconds: float = 0.0) -> str:
    """Counts by verdict, failures by kind and seed, rejections by code, acceptance by what was drawn."""
    verdicts = Counter(r.verdict for r in results)
    rejected = [r for r in results if r.verdict == "rejected"]
    codes = Counter(code for r in rejected if not r.kind for code in _codes(r))
    registers = Counter(code for r in rejected if r.kind for code in _codes(r))
    lines = [f"{'specs':<28}{len(results):>8}"]
    lines += [f"{verdict:<28}{verdicts[verdict]:>8}" for verdict in ("accepted", "rejected", "FAILED")]
    lines += [f"  {kind:<26}{sum(r.kind == kind for r in results):>8}" for kind in KINDS]
    lines += [f"  rejected: {code:<16}{count:>8}" for code, count in sorted(codes.items())]
    lines += [f"  when compiled: {code:<11}{count:>8}" for code, count in sorted(registers.items())]
    drawn = Counter(name for r in results for name in r.features)
    taken = Counter(name for r in results if r.verdict != "rejected" for name in r.features)
    lines += [f"  accepted: {name:<32}{taken[name]:>6} of {drawn[name]}" for name in sorted(drawn)]
    lines.append(f"{'launches':<28}{sum(r.runs for r in results):>8}")
    lines.append(f"{'instructions emulated':<28}{sum(r.instructions for r in results):>8}")
    lines.append(f"{'seconds of work':<28}{sum(r.seconds for r in results):>8.0f}")
    if seconds:
        count = verdicts["accepted"] + verdicts["FAILED"]
        lines.append(f"{'accepted a minute':<28}{60 * count / seconds:>8.0f}")
    failed = [str(r.seed) for r in results if r.verdict == "FAILED"]
    if failed:
        lines.append(f"failed seeds (replay: python benchmarks/fuzz.py --seed N --show): {' '.join(failed)}")
    return "\n".join(lines)


def _codes(result: Result) -> list[str]:
    return ["no size"] if result.detail == "no size" else result.detail.split()


def show(family: str, seed: int, orders: int) -> int:
    """Print a seed's spec and its fate."""
    made = FAMILIES[family](seed)
    print(made.text)
    for name, text in made.files.items():
        print(f"# {name}\n{text}")
    result = attempt(made, orders)
    print(f"{result.verdict} {result.kind} {result.detail}")
    print(f"{result.seconds:.1f} s, {result.runs} launches, {result.instructions} instructions")
    return int(result.verdict == "FAILED")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=300, help="accepted specs wanted; with --coverage, specs drawn")
    parser.add_argument("--orders", type=int, default=5, help="orders of the waves at each size")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so long")
    parser.add_argument("--quick", action="store_true", help="static sizes as drawn, not at other numbers of K-steps")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="this one seed: its spec and its fate")
    parser.add_argument("--coverage", action="store_true", help="run the checks alone and print what is never drawn")
    parser.add_argument("--family", choices=[*FAMILIES, "all"], default="matrix",
                        help="products by clauses, by equations, rows, ...; or all in turn by seed")  # fmt: skip
    options = parser.parse_args()
    families = list(FAMILIES) if options.family == "all" else [options.family]
    if options.show:
        return show(families[options.seed % len(families)], options.seed, options.orders)
    if options.coverage:
        from fuzzing.coverage import report

        print(report(range(options.seed, options.seed + options.count)))
        return 0
    start = time.perf_counter()
    results = sweep(options.seed, options.count, options.jobs, options.orders, options.quick, options.minutes, families)
    print(table(results, time.perf_counter() - start))
    return int(any(r.verdict == "FAILED" for r in results))


if __name__ == "__main__":
    sys.exit(main())
