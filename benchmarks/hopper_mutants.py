"""Mutants of Hopper's schedules that the proof finds, and that the model finds which runs them with data in several
orders.

    python benchmarks/hopper_mutants.py [--family products|turns|scaled|groups|outputs|clusters|loops|rows] [--every N]
                                        [--from N] [--orders N] [--list] [--jobs N] [--write]

A mutant that the proof accepts and the model finds wrong is a defect of the proof; `--list` names those, and what the
proof refuses and no order found. `--write` puts the table into docs/emulator.md. What is mutated, `mutating.hopper`
says.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

import pages
from mutating.hopper import Trial, trials

FAMILIES = dict.fromkeys(("products", "turns", "scaled", "groups", "outputs", "runs", "clusters"), 1)
FAMILIES |= {"loops": 5, "rows": 1}
"""And of how many mutants one is tried: of attention, they take long."""


def share(family: str, orders: int, every: int, first: int) -> list[Trial]:
    """A family's mutants, or a part of them, tried."""
    return list(trials(family, orders, every, first))


def tried(families: Sequence[str], orders: int, every: int, first: int, jobs: int) -> list[Trial]:
    """Those of all families, divided among processes."""
    steps = [(family, every * FAMILIES[family]) for family in families]
    parts = [(family, orders, step * jobs, first + step * n) for family, step in steps for n in range(jobs)]
    with ProcessPoolExecutor(jobs) as pool:
        return [trial for found in pool.map(share, *zip(*parts, strict=True)) for trial in found]


def markdown(found: Sequence[Trial], orders: int) -> str:
    """A row for each kind, most mutants first; the whole last."""
    some = sorted({1, min(8, orders), orders})
    by_model = [f"found by the model in {n} order{'s' if n > 1 else ''}" for n in some]
    heads = ["mutant", "tried", "right", "refused by the proof", *by_model, "accepted and wrong"]
    rows = []
    for kind, group in pages.by_kind(found):
        counts = [len(group), sum(not t.proof and not t.found for t in group), sum(bool(t.proof) for t in group)]
        counts += [sum(0 < t.found <= n for t in group) for n in some]
        rows.append([kind, *map(str, [*counts, sum(t.escaped for t in group)])])
    return pages.markdown(heads, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--family", choices=FAMILIES, action="append")
    parser.add_argument("--every", type=int, default=1, help="try every N-th mutant")
    parser.add_argument("--from", type=int, default=0, dest="first", help="skip so many mutants")
    parser.add_argument("--orders", type=int, default=24, help="orders that the model tries")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--list", action="store_true", help="name what escaped and what the proof alone finds")
    parser.add_argument("--write", action="store_true", help="put the table into docs/emulator.md")
    args = parser.parse_args()
    found = tried(args.family or FAMILIES, args.orders, args.every, args.first, args.jobs)
    for t in found if args.list else ():
        if t.escaped or (t.proof and not t.found):
            print(f"{'ESCAPED' if t.escaped else 'the proof alone'}: {t.family}: {t.kind}: {t.what}: {t.proof}")
    table = markdown(found, args.orders)
    sys.stdout.write(table)
    if args.write:
        pages.put("emulator.md", "mutants", table)


if __name__ == "__main__":
    main()
