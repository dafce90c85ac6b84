"""Strength of the checks: mutants of every spec's schedule, of all families, the checks' verdict, the emulator's.

    python benchmarks/mutation.py [SPEC...] [--every N] [--from N] [--orders N] [--list] [--jobs N]

A mutant that the checks accept and the emulator finds wrong is a defect of the checks. One that they reject and that is
right in every order of the waves that was tried is a false alarm; `--list` names both. `--every 10` takes a tenth of
each spec's, and `--every 10 --from 3` another one. What the families are, `mutating.subjects` says.

The false alarms there are, explained:

- E301, E302 and E304 where waves bring a tile together (`ping_pong`, `hk_ping_pong`). The proof takes a tile as one
  thing. Which of its bytes a wave brings is the headers' business; as they are, the half of the waves that runs ahead
  happens to bring just the slices that the other half does not read then.
- E304 of reads that a multiply before the barrier uses (`at_b`, producers and consumers). This compiler keeps the
  multiply, and so the wait for its registers, in front of the barrier. Nothing obliges it to.
- E308 where two groups load the same tile in turn (`ping_pong`): twice the work, but the same values.
- E309 where all waves are shifted: none runs ahead, which is no race, but not what the spec says either.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from mutating.subjects import subjects
from rich.console import Console
from rich.table import Table

from tkgen.emulate import interleavings

SPECS = Path(__file__).parent.parent / "specs"


@dataclass(frozen=True)
class Trial:
    """One mutant: the codes with which the checks reject it, and what the emulator finds wrong."""

    spec: str
    family: str
    kind: str
    what: str
    codes: tuple[str, ...]
    fault: str

    @property
    def sort(self) -> str:
        """`caught`, `escaped`, `false alarm` or `harmless`."""
        if self.codes:
            return "caught" if self.fault else "false alarm"
        return "escaped" if self.fault else "harmless"


def trials(path: Path, every: int, first: int, orders: int) -> list[Trial]:
    """All mutants of a spec, or each `every`-th from the `first`, tried. The spec itself must pass."""
    return list(_trials(path, every, first, orders))


def _trials(path: Path, every: int, first: int, orders: int) -> Iterator[Trial]:
    for subject in subjects(path, tuple(interleavings(orders))):
        if fault := subject.fault():
            raise ValueError(f"{subject.name} is wrong before anything is changed: {fault}")
        for m in islice(subject.candidates(), first, None, every):
            yield Trial(subject.name, subject.family, m.kind, m.what, m.codes(), m.fault())


def _start() -> None:
    """A worker uses one core: torch on several is slower here."""
    import torch

    torch.set_num_threads(1)


def table(found: list[Trial], by: str) -> Table:
    """Counts of the trials by spec or by kind."""
    result = Table(title=f"mutants by {by}")
    result.add_column(by)
    for name in ("mutants", "rejected", "accepted", "escaped", "false alarms"):
        result.add_column(name, justify="right")
    names = sorted({getattr(t, by) for t in found})
    for name in [*names, "all"]:
        group = [t for t in found if name == "all" or getattr(t, by) == name]
        sorts = Counter(t.sort for t in group)
        rejections = sorts["caught"] + sorts["false alarm"]
        numbers = (len(group), rejections, len(group) - rejections, sorts["escaped"], sorts["false alarm"])
        result.add_row(name, *map(str, numbers), end_section=name == names[-1])
    return result


def _every() -> list[Path]:
    """The specs of AMD's GPUs, those with fewer mutants first."""
    return [
        path for folder in ("sequences", "rows", "attention", ".") for path in sorted((SPECS / folder).glob("*.tk"))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("specs", nargs="*", type=Path, default=_every())
    parser.add_argument("--every", type=int, default=1, help="try every N-th mutant of a spec")
    parser.add_argument("--from", type=int, default=0, dest="first", help="skip so many mutants of a spec")
    parser.add_argument("--orders", type=int, default=3, help="orders of the waves to try")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--list", action="store_true", help="name what escaped and the false alarms")
    args = parser.parse_args()
    found: list[Trial] = []
    with ProcessPoolExecutor(args.jobs, initializer=_start) as pool:
        running = {pool.submit(trials, path, args.every, args.first, args.orders): path for path in args.specs}
        for done in as_completed(running):
            found += done.result()
            sorts = Counter(trial.sort for trial in done.result())
            print(f"{running[done].stem}: {len(done.result())} mutants, {sorts['escaped']} escaped, "
                  f"{sorts['false alarm']} false alarms", file=sys.stderr, flush=True)  # fmt: skip
    found.sort(key=lambda trial: trial.spec)
    console = Console()
    for sort in ("escaped", "false alarm") if args.list else ():
        for t in (t for t in found if t.sort == sort):
            codes = f" [{', '.join(t.codes)}]" if t.codes else ""
            console.print(f"{sort}: {t.spec}: {t.kind}: {t.what}{codes} {t.fault}", markup=False, soft_wrap=True)
    console.print(table(found, "spec"))
    console.print(table(found, "family"))
    console.print(table(found, "kind"))
    alarms = sum(t.sort == "false alarm" for t in found)
    console.print(f"{len(found)} mutants, {sum(t.sort == 'escaped' for t in found)} escaped, "
                  f"{alarms} false alarms ({100 * alarms / max(len(found), 1):.1f} %)")  # fmt: skip


if __name__ == "__main__":
    main()
