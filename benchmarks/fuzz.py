"""Differential fuzzing: random specs over the whole language; each accepted one is built, emulated and compared.

    python benchmarks/fuzz.py --seed 0 --count 300 -j 2     a table, and the seed of every failure
    python benchmarks/fuzz.py --seed 1234 --show            one seed again: its spec, and what becomes of it
    python benchmarks/fuzz.py --family all --count 900      of all families: products, sums, groups, rows, ...
    python benchmarks/fuzz.py --coverage --count 3000       what of the grammar and of the calculus is never drawn
    python benchmarks/fuzz.py --family all --count 1000 --minutes 9 -j 16 --out results
                                                            a long sweep in parts: results are kept in the folder as
                                                            they come, and the same command goes on with those missing
    python benchmarks/fuzz.py --out results --count 0       the table of what was kept

A spec is a function of its seed alone. What the checks refuse must come with diagnostics; what they accept must
compile, give the right numbers at 1, 2, 3 and many K-steps under several orders of the waves, and leave the race
referee nothing to say. Failures are of kinds: `wrong` (accepted, built, and wrong numbers, races or bytes never
written), `machine check` (accepted by the plan's checks, refused by the build), `unchecked` (the build could not tell),
`wait states` (the compiler left some out), `toolchain`, `exception`, and `silent` (a rejection that says nothing).
Registers are counted only in machine code: that a kernel spills (E405) or does not reach the occupancy that its spec
asks for (E404) is a rejection, and stands as one `when compiled` in the table. A seed that takes longer than
`--seconds` is a failure of kind `timeout`, one that ends its process - memory is bounded by `--memory` - a `crash`.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fuzzing.families import FAMILIES
from fuzzing.records import Records
from fuzzing.specs import Sample, sample
from fuzzing.verdict import KINDS, Depth, Result, Tally, attempt, judge, loaded, write
from fuzzing.workers import Limits, judge_with, judged, preload

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


@dataclass
class Quota:
    """Seeds of the families in turn, until `wanted` specs of each were accepted or failed; none twice."""

    families: Sequence[str]
    first: int
    wanted: int
    done: set[tuple[str, int]] = field(default_factory=set)
    counted: Counter[str] = field(default_factory=Counter)

    def add(self, result: Result) -> None:
        """Count a result."""
        self.done.add((result.family, result.seed))
        self.counted[result.family] += result.verdict != "rejected"

    def tasks(self) -> Iterator[tuple[str, int]]:
        """Families and seeds, as long as some family lacks specs."""
        following = dict.fromkeys(self.families, self.first)
        while lacking := [family for family in self.families if self.counted[family] < self.wanted]:
            for family in lacking:
                while (family, following[family]) in self.done:
                    following[family] += 1
                yield family, following[family]
                following[family] += 1


def sweep(
    first: int, accepted: int, jobs: int, orders: int, quick: bool = False, minutes: float = math.inf,
    families: Sequence[str] = ("matrix",), build_only: bool = False, folder: Path | None = None,
    limits: Limits = Limits(),  # noqa: B008
) -> list[Result]:  # fmt: skip
    """Seeds from `first` on, of `families` in turn, until `accepted` of each were accepted or failed, or time is up.

    Prints failures. Where a `folder` is given, results are kept there as they come, and those that it has are not
    made again.
    """
    records = Records(folder) if folder else None
    results = list(records.results) if records else []
    quota = Quota(families, first, accepted)
    for result in results:
        quota.add(result)
    start, already = time.monotonic(), len(results)
    preload()
    judge = judge_with(Depth(orders, quick, build_only))
    for result in judged(quota.tasks(), jobs, judge, limits, start + 60 * minutes):
        results.append(result)
        quota.add(result)
        if records:
            records.add(result)
        if result.verdict == "FAILED":
            print(f"{result.family} {result.seed} FAILED ({result.kind}): {result.detail}", flush=True)
        if sys.stderr.isatty():
            rate = 60 * (len(results) - already) / (time.monotonic() - start)
            shown = f"{quota.counted.total()} of {accepted * len(families)}, {len(results)} tried, {rate:.0f} a minute"
            print(shown, end="\r", file=sys.stderr, flush=True)
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
    lines.append(f"{'seconds of a processor':<28}{sum(r.cpu for r in results):>8.0f}")
    if seconds:
        lines.append(f"{'seconds':<28}{seconds:>8.0f}")
    families = sorted({r.family for r in results})
    if len(families) > 1:
        lines += _by_family(results, families)
    for family in families:
        failed = [str(r.seed) for r in results if r.verdict == "FAILED" and r.family == family]
        if failed:
            replay = f"python benchmarks/fuzz.py --family {family} --seed N --show"
            lines.append(f"failed seeds (replay: {replay}): {' '.join(failed)}")
    return "\n".join(lines)


def _by_family(results: Sequence[Result], families: Sequence[str]) -> list[str]:
    lines = [f"{'family':<12}{'accepted':>10}{'rejected':>10}{'FAILED':>10}{'CPU s each':>12}"]
    for family in families:
        own = [r for r in results if r.family == family]
        counts = Counter(r.verdict for r in own)
        each = sum(r.cpu for r in own) / max(counts["accepted"] + counts["FAILED"], 1)
        numbers = "".join(f"{counts[verdict]:>10}" for verdict in ("accepted", "rejected", "FAILED"))
        lines.append(f"{family:<12}{numbers}{each:>12.1f}")
    return lines


def _codes(result: Result) -> list[str]:
    return ["no size"] if result.detail == "no size" else result.detail.split()


def show(family: str, seed: int, depth: Depth) -> int:
    """Print a seed's spec and its fate."""
    made = FAMILIES[family](seed)
    print(made.text)
    for name, text in made.files.items():
        print(f"# {name}\n{text}")
    result = attempt(made, depth.orders, depth.quick, depth.build_only)
    print(f"{result.verdict} {result.kind} {result.detail}")
    print(f"{result.seconds:.1f} s, {result.runs} launches, {result.instructions} instructions")
    return int(result.verdict == "FAILED")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=300,
                        help="accepted specs wanted of each family; with --coverage, specs drawn")  # fmt: skip
    parser.add_argument("--orders", type=int, default=5, help="orders of the waves at each size")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so long")
    parser.add_argument("--quick", action="store_true", help="static sizes as drawn, not at other numbers of K-steps")
    parser.add_argument("--build-only", action="store_true", help="compile and check the machine code, launch nothing")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, help="the folder that keeps the results, and the table of all of them")
    parser.add_argument("--seconds", type=float, default=Limits.seconds, help="most for one seed")
    parser.add_argument("--memory", type=float, default=Limits.memory, help="GiB, most for one worker")
    parser.add_argument("--show", action="store_true", help="this one seed: its spec and its fate")
    parser.add_argument("--coverage", action="store_true", help="run the checks alone and print what is never drawn")
    parser.add_argument("--family", choices=[*FAMILIES, "all"], action="append",
                        help="products by clauses (the default), by equations, rows, ...; several, or all")  # fmt: skip
    options = parser.parse_args()
    chosen = options.family or ["matrix"]
    families = list(FAMILIES) if "all" in chosen else list(dict.fromkeys(chosen))
    depth = Depth(options.orders, options.quick, options.build_only)
    if options.show:
        return max(show(family, options.seed, depth) for family in families)
    if options.coverage:
        from fuzzing.coverage import report

        print(report(range(options.seed, options.seed + options.count)))
        return 0
    start = time.perf_counter()
    limits = Limits(options.memory, options.seconds)
    results = sweep(options.seed, options.count, options.jobs, options.orders, options.quick, options.minutes, families,
                    options.build_only, options.out, limits)  # fmt: skip
    text = table(results, time.perf_counter() - start)
    print(text)
    if options.out:
        (options.out / "table.txt").write_text(text + "\n")
    return int(any(r.verdict == "FAILED" for r in results))


if __name__ == "__main__":
    sys.exit(main())
