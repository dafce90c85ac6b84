"""Mutation score of machine code: who finds a wait, a barrier, a fence or a wait state that is missing.

    python benchmarks/machine_mutants.py --into FILE [SPEC...] [--target T] [--every N] [--seed S] [--minutes M]
    python benchmarks/machine_mutants.py --from FILE --write

A subject is a spec for a target at its small size (`verify`). Of its machine code each counter of each wait, each
barrier, each instruction that writes back or invalidates caches, each bit of a scope and each `s_nop` is dropped or
loosened by one (`mutating.machine_code`), one at a time. Four judges are asked (`mutating.machine_judges`). A mutant
that none of them catches is redundant where a second calculation shows that it is right
(`mutating.machine_arguments`), else it is missed. A missed one is a defect of the judges.

Subjects are taken in an order drawn from the seed, and of each about every N-th mutant, so that a run that was stopped
is a sample, too. A run goes on from what FILE has.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pages
import torch
from mutating.machine_arguments import argued
from mutating.machine_judges import JUDGES, Subject

from tkgen.api import load
from tkgen.diagnostics import SpecError
from tkgen.targets import load_target, target_names

ROOT = Path(__file__).parents[1]
SPECS = ROOT / "specs"
TARGETS = tuple(t for t in target_names() if load_target(t).architecture.startswith("CDNA"))
ORDERS = 4


@dataclass(frozen=True)
class Total:
    """The mutants that a subject has, by kind."""

    spec: str
    target: str
    mutants: dict[str, int]


@dataclass(frozen=True)
class Done:
    """A subject of which the whole sample of these options was tried."""

    spec: str
    target: str
    every: int
    seed: int


@dataclass(frozen=True)
class Seen:
    """A mutant, what each judge says of it, and the argument where all are silent.

    `kernel` numbers the kernels of the spec, `number` the mutants of the kernel. `reason` says why it is right, `fault`
    what the second calculation finds wrong.
    """

    spec: str
    target: str
    kernel: int
    number: int
    kind: str
    what: str
    verdicts: dict[str, str]
    reason: str
    fault: str
    seconds: float

    @property
    def caught(self) -> bool:
        """True if a judge finds it."""
        return any(self.verdicts.values())

    @property
    def end(self) -> str:
        """`caught`, `redundant` or `missed`."""
        return "caught" if self.caught else "redundant" if self.reason else "missed"


def subjects(paths: Sequence[Path], targets: Sequence[str], seed: int) -> list[tuple[Path, str]]:
    """Every spec with every target that takes it, in an order drawn from the seed."""
    found = [(path, target) for path in paths for target in targets if _takes(path, target)]
    random.Random(seed).shuffle(found)
    return found


def _takes(path: Path, target: str) -> bool:
    try:
        load(path, target=target).check()
    except SpecError:
        return False
    return True


def tried(subject: Subject, spec: str, target: str, kernel: int, number: int) -> Seen:
    """One mutant, judged; argued about where all judges are silent."""
    start = time.perf_counter()
    unit = subject.units[kernel]
    mutant = unit.mutants()[number]
    verdicts = subject.verdicts(kernel, mutant.words)
    found = argued(unit, mutant) if not any(verdicts.values()) else None
    reason, fault = (found.reason, found.fault) if found is not None else ("", "")
    seconds = round(time.perf_counter() - start, 2)
    return Seen(spec, target, kernel, number, mutant.kind, mutant.what, verdicts, reason, fault, seconds)


def chosen(subject: Subject, spec: str, target: str, every: int, seed: int) -> list[tuple[int, int]]:
    """The sample of a subject: kernels and numbers of about every N-th mutant."""
    rng = random.Random(f"{seed} {spec} {target}")
    numbers = [(k, n) for k, unit in enumerate(subject.units) for n in range(len(unit.mutants()))]
    return sorted(rng.sample(numbers, int(len(numbers) / every + rng.random()) if every > 1 else len(numbers)))


def sound(subject: Subject) -> str:
    """The findings of the judges in the code itself; the text must be empty."""
    found = [f"{judge}: {said}" for k in range(len(subject.units)) for judge, said in subject.verdicts(k, {}).items()
             if said]  # fmt: skip
    return "; ".join(found)


# ---------------------------------------------------------------- tables


def entries(file: Path) -> list[dict[str, Any]]:
    """The lines of a file of an earlier run as plain data; none where there is no file."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


def kept(file: Path) -> tuple[list[Total], list[Seen]]:
    """The subjects and the mutants in a file of an earlier run."""
    plain = entries(file)
    return [Total(**p) for p in plain if "mutants" in p], [Seen(**p) for p in plain if "kind" in p]


def table(seen: Sequence[Seen], heading: str, by: str) -> str:
    """A row for each kind or target, most mutants first; the whole last."""
    heads = [heading, "tried", *JUDGES, "caught", "redundant", "missed"]
    names = [name for name, _ in Counter(getattr(s, by) for s in seen).most_common()]
    rows = []
    for name in [*names, "all"]:
        group = [s for s in seen if name in ("all", getattr(s, by))]
        ends = Counter(s.end for s in group)
        judges = [sum(bool(s.verdicts[judge]) for s in group) for judge in JUDGES]
        rows.append([name, *map(str, (len(group), *judges, ends["caught"], ends["redundant"], ends["missed"]))])
    return pages.markdown(heads, rows)


def savings(seen: Sequence[Seen]) -> str:
    """The redundant mutants by kind and reason."""
    counts = Counter((s.kind, s.reason) for s in seen if s.end == "redundant")
    rows = [[kind, reason, str(count)] for (kind, reason), count in counts.most_common()]
    return pages.markdown(["redundant", "because", "mutants"], rows, words=2)


def page(totals: Sequence[Total], seen: Sequence[Seen]) -> str:
    """The section of the page: the sample, and three tables."""
    every = sum(sum(t.mutants.values()) for t in totals)
    specs, targets = len({t.spec for t in totals}), Counter(t.target for t in totals)
    of_each = ", ".join(f"{count} for {name}" for name, count in sorted(targets.items()))
    drawn = f"{len(totals)} code objects of {specs} specs ({of_each})"
    sample = f"A sample drawn at random: {drawn} have {every:,} mutants, of which {len(seen):,} were tried.\n"
    tables = [table(seen, "mutant", "kind"), table(seen, "target", "target"), savings(seen)]
    return "\n".join([textwrap.fill(sample, 100) + "\n", *tables])


# ---------------------------------------------------------------- the run


def extend(file: Path, found: Sequence[tuple[Path, str]], every: int, seed: int, until: float) -> None:
    """Try what the file does not have, subject after subject, until a time."""
    totals, seen = kept(file)
    done = [Done(**p) for p in entries(file) if "every" in p]
    known = {(s.spec, s.target, s.kernel, s.number) for s in seen}
    counted = {(t.spec, t.target) for t in totals}
    with file.open("a", encoding="utf-8") as lines:

        def add(entry: Any) -> None:
            lines.write(json.dumps(asdict(entry)) + "\n")
            lines.flush()

        for path, target in found:
            spec = path.relative_to(SPECS).with_suffix("").as_posix()
            if time.time() > until:
                return
            if Done(spec, target, every, seed) in done:
                continue
            subject = Subject.of(path, target, ORDERS)
            wanted = [c for c in chosen(subject, spec, target, every, seed) if (spec, target, *c) not in known]
            if said := sound(subject):
                print(f"{spec} for {target}, the code itself: {said}", file=sys.stderr, flush=True)
                continue
            if (spec, target) not in counted:
                add(Total(spec, target, dict(Counter(m.kind for unit in subject.units for m in unit.mutants()))))
            for kernel, number in wanted:
                entry = tried(subject, spec, target, kernel, number)
                add(entry)
                if entry.end == "missed":
                    print(f"missed: {spec} for {target}: {entry.kind}: {entry.what} {entry.fault}", flush=True)
            add(Done(spec, target, every, seed))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    runs = parser.add_mutually_exclusive_group(required=True)
    runs.add_argument("--into", type=Path, help="run; add a line there for each mutant, as soon as it is known")
    runs.add_argument("--from", type=Path, dest="source", help="make the tables of such lines")
    parser.add_argument("specs", nargs="*", type=Path, default=sorted(SPECS.rglob("*.tk")))
    parser.add_argument("--target", choices=TARGETS, action="append")
    parser.add_argument("--every", type=int, default=10, help="try about every N-th mutant of a subject")
    parser.add_argument("--seed", type=int, default=0, help="of the order of subjects and of the samples")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no subject after this time")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/mutants.md")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.into:
        paths = [path.resolve() for path in args.specs if "hopper" not in path.parts]
        until = time.time() + 60 * args.minutes
        extend(args.into, subjects(paths, args.target or TARGETS, args.seed), args.every, args.seed, until)
        return
    text = page(*kept(args.source))
    sys.stdout.write(text)
    if args.write:
        pages.put("mutants.md", "mutants of machine code", text)


if __name__ == "__main__":
    main()
