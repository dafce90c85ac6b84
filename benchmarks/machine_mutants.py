"""Mutation score of machine code: who finds a wait, a barrier, a fence or a wait state that is missing.

    python benchmarks/machine_mutants.py --into FILE [SPEC...] [--target T] [--sample N] [--seed S] [--minutes M]
    python benchmarks/machine_mutants.py --from FILE --write

A subject is a spec for a target at its small size (`verify`). Of its machine code each counter of each wait, each
barrier, each instruction that writes back or invalidates caches, each bit of a scope and each `s_nop` is dropped or
loosened by one (`mutating.machine_code`), one at a time. The machine check sees each mutant. One that it accepts is
redundant where a second calculation shows that it is right (`mutating.machine_arguments`), else all judges are asked
(`mutating.machine_judges`). A mutant that none of them catches is missed: a defect of the judges.

With `--sample N` all judges are asked about every N-th mutant of a subject, drawn at random.

Subjects are taken in an order drawn from the seed, so that a run that was stopped is a sample, too. A run goes on from
what FILE has.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pages
import torch
from mutating.machine_arguments import Argued
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
    """The code objects of a subject, and the mutants that they have, by kind."""

    spec: str
    target: str
    objects: int
    mutants: dict[str, int]


@dataclass(frozen=True)
class Done:
    """A subject of which all mutants were tried, or the sample of every N-th by all judges (`sample`, else 0)."""

    spec: str
    target: str
    sample: int
    seed: int


@dataclass(frozen=True)
class Seen:
    """A mutant, what each judge that was asked says of it, and the argument where all are silent.

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
    def key(self) -> tuple[str, str, int, int]:
        """The mutant."""
        return self.spec, self.target, self.kernel, self.number

    @property
    def caught(self) -> bool:
        """True if a judge finds it."""
        return any(self.verdicts.values())

    @property
    def end(self) -> str:
        """`caught`, `redundant` or `missed`."""
        return "caught" if self.caught else "redundant" if self.reason else "missed"

    @property
    def judged(self) -> bool:
        """True if all judges were asked."""
        return len(self.verdicts) == len(JUDGES)


def subjects(paths: Sequence[Path], targets: Sequence[str], seed: int) -> Iterator[tuple[Path, str]]:
    """Every spec with every target that takes it, in an order drawn from the seed."""
    pairs = [(path, target) for path in paths for target in targets]
    random.Random(seed).shuffle(pairs)
    yield from (pair for pair in pairs if _takes(*pair))


def _takes(path: Path, target: str) -> bool:
    try:
        load(path, target=target).check()
    except SpecError:
        return False
    return True


def tried(subject: Subject, spec: str, target: str, kernel: int, number: int, everyone: bool = False) -> Seen:
    """One mutant: the machine check alone, or everyone; argued about where they are silent.

    Everyone is also asked where there is no argument.
    """
    start = time.perf_counter()
    unit = subject.units[kernel]
    mutant = unit.mutants[number]
    verdicts = _asked(subject, kernel, mutant.words, everyone)
    found = unit.arguments.of(mutant) if not any(verdicts.values()) else Argued()
    if not everyone and not any(verdicts.values()) and not found.reason:
        verdicts = subject.verdicts(kernel, mutant.words)
    seconds = round(time.perf_counter() - start, 3)
    shown = (mutant.kind, mutant.what, verdicts, found.reason, found.fault, seconds)
    return Seen(spec, target, kernel, number, *shown)


def _asked(subject: Subject, kernel: int, words: Mapping[int, int], everyone: bool) -> dict[str, str]:
    return subject.verdicts(kernel, words) if everyone else {JUDGES[0]: subject.checked(kernel, words)}


def chosen(subject: Subject, spec: str, target: str, every: int, seed: int) -> list[tuple[int, int]]:
    """Kernels and numbers of about every N-th mutant of a subject; of all where `every` is 1 or less."""
    rng = random.Random(f"{seed} {spec} {target}")
    numbers = [(k, n) for k, unit in enumerate(subject.units) for n in range(len(unit.mutants))]
    return sorted(rng.sample(numbers, int(len(numbers) / every + rng.random()) if every > 1 else len(numbers)))


def sound(subject: Subject, everyone: bool = True) -> str:
    """The findings in the code itself, of all judges or of the machine check alone; the text must be empty."""
    found = []
    for number in range(len(subject.units)):
        verdicts = _asked(subject, number, {}, everyone)
        found += [f"{judge}: {said}" for judge, said in verdicts.items() if said]
    return "; ".join(found)


# ---------------------------------------------------------------- tables


def entries(file: Path) -> list[dict[str, Any]]:
    """The lines of a file of an earlier run as plain data; none where there is no file."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


def kept(file: Path) -> tuple[list[Total], list[Seen]]:
    """The subjects and the mutants in a file of earlier runs. Of a mutant that was tried twice all verdicts count."""
    plain = entries(file)
    seen: dict[tuple[str, str, int, int], Seen] = {}
    for each in (Seen(**p) for p in plain if "kind" in p):
        known = seen.get(each.key)
        if known is not None:
            if bool(known.verdicts[JUDGES[0]]) != bool(each.verdicts[JUDGES[0]]):
                raise ValueError(f"two verdicts of the machine check: {known}, {each}")
            reason, fault = known.reason or each.reason, known.fault or each.fault
            each = replace(each, verdicts=known.verdicts | each.verdicts, reason=reason, fault=fault)
        seen[each.key] = each
    return [Total(**p) for p in plain if "mutants" in p], list(seen.values())


def scores(seen: Sequence[Seen], heading: str, by: str) -> str:
    """A row for each kind or target, most mutants first; the whole last."""
    heads = [heading, "mutants", "caught by the machine check", "by other judges alone", "redundant", "missed"]
    rows = []
    for name, group in _groups(seen, by):
        ends = Counter(s.end for s in group)
        first = sum(bool(s.verdicts[JUDGES[0]]) for s in group)
        numbers = (len(group), first, ends["caught"] - first, ends["redundant"], ends["missed"])
        rows.append([name, *(f"{n:,}" for n in numbers)])
    return pages.markdown(heads, rows)


def judges(seen: Sequence[Seen], heading: str, by: str) -> str:
    """A row for each kind: what each judge sees by itself of the mutants that all of them saw."""
    heads = [heading, "mutants", *JUDGES, "none of them"]
    rows = []
    for name, group in _groups(seen, by):
        each = [sum(bool(s.verdicts[judge]) for s in group) for judge in JUDGES]
        rows.append([name, *(f"{n:,}" for n in (len(group), *each, sum(not s.caught for s in group)))])
    return pages.markdown(heads, rows)


def _groups(seen: Sequence[Seen], by: str) -> list[tuple[str, list[Seen]]]:
    names = [name for name, _ in Counter(getattr(s, by) for s in seen).most_common()]
    return [(name, [s for s in seen if name in ("all", getattr(s, by))]) for name in [*names, "all"]]


def savings(seen: Sequence[Seen]) -> str:
    """The redundant mutants by kind and reason."""
    counts = Counter((s.kind, s.reason) for s in seen if s.end == "redundant")
    rows = [[kind, reason, f"{count:,}"] for (kind, reason), count in counts.most_common()]
    return pages.markdown(["redundant", "because", "mutants"], rows, words=2)


def page(totals: Sequence[Total], seen: Sequence[Seen]) -> str:
    """The section of the page: what was tried, by kind and by target; what each judge sees; what is redundant."""
    every = sum(sum(t.mutants.values()) for t in totals)
    objects: Counter[str] = Counter()
    for t in totals:
        objects[t.target] += t.objects
    of_each = ", ".join(f"{count} for {name}" for name, count in sorted(objects.items()))
    several = f"{objects.total()} code objects of {len({t.spec for t in totals})} specs ({of_each})"
    tried = "The machine check saw all of them." if len(seen) == every else f"{len(seen):,} of them were tried."
    made = [textwrap.fill(f"{several} have {every:,} mutants. {tried}", 100) + "\n"]
    made += [scores(seen, "mutant", "kind"), scores(seen, "target", "target"), savings(seen)]
    known = [s for s in seen if s.judged]
    if any(s.end != "redundant" for s in known):  # else they are those that the machine check alone did not settle
        silent = sum(s.end == "redundant" for s in known)
        redundant = sum(s.end == "redundant" for s in seen)
        drawn = f"All four judges saw {len(known):,} mutants, drawn at random, "
        drawn += f"among them {silent:,} of the {redundant:,} redundant ones:"
        made += [textwrap.fill(drawn, 100) + "\n", judges(known, "mutant", "kind")]
    return "\n".join(made)


# ---------------------------------------------------------------- the run


def extend(file: Path, found: Iterable[tuple[Path, str]], sample: int, seed: int, until: float) -> None:
    """Try what the file does not have, subject after subject, until a time; with `sample` every N-th, by all judges."""
    totals, seen = kept(file)
    missed = {(s.spec, s.target) for s in seen if s.end == "missed"}  # which are tried again: a judge may know better
    done = [d for d in (Done(**p) for p in entries(file) if "sample" in p) if (d.spec, d.target) not in missed]
    known = {s.key for s in seen if (s.judged or not sample) and s.end != "missed"}
    counted = {(t.spec, t.target) for t in totals}
    with file.open("a", encoding="utf-8") as lines:

        def add(entry: Any) -> None:
            lines.write(json.dumps(asdict(entry)) + "\n")
            lines.flush()

        for path, target in found:
            spec = path.relative_to(SPECS).with_suffix("").as_posix()
            if time.time() > until:
                return
            if Done(spec, target, sample, seed) in done:
                continue
            subject = Subject.of(path, target, ORDERS)
            wanted = [c for c in chosen(subject, spec, target, sample, seed) if (spec, target, *c) not in known]
            if wanted and (said := sound(subject, bool(sample))):
                print(f"{spec} for {target}, the code itself: {said}", file=sys.stderr, flush=True)
                continue
            if (spec, target) not in counted:
                kinds = dict(Counter(m.kind for unit in subject.units for m in unit.mutants))
                add(Total(spec, target, len(subject.units), kinds))
            for kernel, number in wanted:
                entry = tried(subject, spec, target, kernel, number, bool(sample))
                add(entry)
                if entry.end == "missed":
                    print(f"missed: {spec} for {target}: {entry.kind}: {entry.what} {entry.fault}", flush=True)
            add(Done(spec, target, sample, seed))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    runs = parser.add_mutually_exclusive_group(required=True)
    runs.add_argument("--into", type=Path, help="run; add a line there for each mutant, as soon as it is known")
    runs.add_argument("--from", type=Path, dest="source", help="make the tables of such lines")
    parser.add_argument("specs", nargs="*", type=Path, default=sorted(SPECS.rglob("*.tk")))
    parser.add_argument("--target", choices=TARGETS, action="append")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="ask all judges about every N-th mutant")
    parser.add_argument("--seed", type=int, default=0, help="of the order of subjects and of the samples")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no subject after this time")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/mutants.md")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.into:
        paths = [path.resolve() for path in args.specs if "hopper" not in path.parts]
        until = time.time() + 60 * args.minutes
        extend(args.into, subjects(paths, args.target or TARGETS, args.seed), args.sample, args.seed, until)
        return
    text = page(*kept(args.source))
    sys.stdout.write(text)
    if args.write:
        pages.put("mutants.md", "mutants of machine code", text)


if __name__ == "__main__":
    main()
