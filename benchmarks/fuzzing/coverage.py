"""Coverage of the language and of the calculus by the generator: the checks alone run, thousands of specs a minute."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from mutating.schedules import mutants

from fuzzing.families import FAMILIES
from fuzzing.specs import Sample
from fuzzing.verdict import loaded, write

# Alternatives that are mistakes by construction: a file without anything, something above `sequence` (E106), a product
# of clauses for several sums, which equations alone have (E202). And the single lines as which editors parse what is in
# a broken file, when `any_line` is the start symbol.
NOT_SENSIBLE = {
    "file -> ",
    "__file_star -> __file_star sequence_line",
    "accumulate -> ACCUMULATE NAME __accumulate_star EQUAL product COLON NAME tile",
    "accumulate -> ACCUMULATE NAME __accumulate_star EQUAL product COLON NAME tile mfma",
    "accumulate -> ACCUMULATE NAME __accumulate_star EQUAL product COLON NAME tile arrangement",
    "accumulate -> ACCUMULATE NAME __accumulate_star EQUAL product COLON NAME tile arrangement mfma",
    "any_line -> role_line",
    "any_line -> each_line",
    "any_line -> when_line",
    "any_line -> schedule_line",
    "any_line -> statement_line",
}
OTHERS = 4  # of so many seeds of matrix products one is tried in each of the other families, too


def report(seeds: Iterable[int]) -> str:
    """Coverage by `seeds` of the grammar, of operations and options, and of the branches of the calculus.

    Of some accepted specs a mutant of each kind is judged, too: what no spec can say, such as a sum that is not zeroed,
    the calculus must find all the same.
    """
    import coverage

    from tkgen.schedule import epochs, registers, traces

    calculus = [epochs.__file__, registers.__file__, traces.__file__]
    measured = coverage.Coverage(branch=True, include=calculus, data_file=None)
    rules = _counted_rules()
    drawn, taken = Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="tkgen-fuzz-") as folder:
        for made in _samples(seeds):
            measured.start()
            accepted = _accepted(made, Path(folder), mutated=made.seed % 40 == 0 and made.family == "matrix")
            measured.stop()
            for name in features(made, Path(folder)):
                drawn[name] += 1
                taken[name] += accepted
    lines = ["operations and options             accepted   drawn"]
    lines += [f"  {name:<32}{taken[name]:>8}{drawn[name]:>8}" for name in sorted(drawn)]
    lines += ["grammar: alternatives never drawn"]
    undrawn = {name for name, count in rules.items() if not count}
    lines += [f"  {name}" for name in sorted(undrawn - NOT_SENSIBLE)] or ["  none"]
    lines.append(f"  ({len(rules) - len(undrawn)} of {len(rules)} drawn; {len(NOT_SENSIBLE)} have no place)")
    lines.append("epochs.py, registers.py, traces.py of tkgen/schedule: branches never taken")
    for path in calculus:
        branches, source = measured._analyze(path).missing_branch_arcs(), Path(path).read_text().splitlines()
        arcs = [(a, b) for a, ends in sorted(branches.items()) for b in ends]
        lines += [f"  {Path(path).name} {a} -> {b}: {source[a - 1].strip()}" for a, b in arcs]
    return "\n".join(lines)


def _samples(seeds: Iterable[int]) -> Iterator[Sample]:
    """Samples for these seeds: a product by clauses for each, and for some of them one of each other family."""
    for seed in seeds:
        for family, draw in FAMILIES.items():
            if family == "matrix" or seed % OTHERS == 0:
                yield draw(seed)


def _accepted(made: Sample, folder: Path, mutated: bool) -> bool:
    from tkgen.diagnostics import SpecError

    try:
        spec = loaded(made, write(made, folder))
    except SpecError:
        return False
    if spec.plan is None:
        return True
    spec.plan.purposes()
    for mutant in {m.kind: m for m in mutants(spec.plan)}.values() if mutated else ():
        mutant.plan.conflicts()
    return True


def _counted_rules() -> Counter[str]:
    """A counter of the reductions of each alternative of the grammar, from now on."""
    from tkgen.syntax.grammar import parser

    callbacks: dict[Any, Callable[..., Any]] = parser().parser.parser.parser.callbacks
    counts = Counter[str]()

    def counted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(children: Any) -> Any:
            counts[name] += 1
            return call(children)

        return wrapped

    for rule, call in callbacks.items():
        name = _name(rule)
        counts[name] = 0
        callbacks[rule] = counted(name, call)
    return counts


def _name(rule: Any) -> str:
    """An alternative as text, without the numbers of the rules that the parser makes of repetitions."""
    return re.sub(r"_(star|plus)_\d+", r"_\1", f"{rule.origin.name} -> {' '.join(s.name for s in rule.expansion)}")


def features(made: Sample, folder: Path) -> set[str]:
    """Operations, statements and options of a spec, by name; the files that it includes are in `folder`."""
    from tkgen.diagnostics import SpecError
    from tkgen.syntax import ast
    from tkgen.syntax.parser import parse_spec

    found = set(made.features) | {f"target {made.target}", f"family {made.family}"}
    try:
        spec = parse_spec(folder / "fuzz.tk", text=made.text)
    except SpecError:
        return found
    flat: list[Any] = []
    pending: list[Any] = [s for k in (spec.kernels if isinstance(spec, ast.Sequence) else [spec]) for s in k.body]
    while pending:
        flat.append(pending.pop())
        pending += getattr(flat[-1], "body", ())
    found |= {f"{type(s).__name__.lower()}" for s in flat}
    for s in flat:
        match s:
            case ast.Schedule(clusters=clusters):
                for cluster in clusters:
                    found |= {_operation(op) for op in cluster.ops}
            case ast.Shared(via=via, buffers=buffers):
                found.add(f"shared via {via.id if via else 'default'}, buffers {_text(buffers)}")
            case ast.Tail(name=name):
                found.add(f"tail {name.id}")
    if made.dynamic_k:
        found.add("dynamic K")
    found |= {f"dynamic {name}" for name in made.extents}
    return found


def _text(node: Any) -> str:
    return node.span.text if node is not None else "default"


def _operation(op: Any) -> str:
    from tkgen.syntax import ast

    match op:
        case ast.Move(action=action, step=step, frags=frags, slices=slices):
            parts = [f"{action}", "ahead" if step and step.offset else "now"]
            parts += [f"fragments {_kind(frags)}"] * (frags is not None)
            parts += [f"slices {_kind(slices)}"] * (slices is not None)
            return " ".join(parts)
        case ast.Multiply(rows=rows, cols=cols, slices=slices):
            return f"multiply {_kind(rows)}, {_kind(cols)}; {_kind(slices)}"
        case ast.Wait(counter=counter, count=count):
            value = int(count.span.text)
            return f"wait {counter.id} {'0' if not value else '1-15' if value < 16 else '16 and more'}"
        case ast.Priority(level=level):
            return f"priority {level.span.text}"
    return "barrier"


def _kind(index: Any) -> str:
    if index is None:
        return "none"
    return "*" if index.first is None else "range" if index.last is not None else "one"
