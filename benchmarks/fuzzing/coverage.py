"""What of the language and of the calculus the generator draws: by the checks alone, so thousands of specs a minute."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from mutating.schedules import mutants

from fuzzing.specs import Sample, sample
from fuzzing.verdict import loaded, write

# Statements of kernels of equations, which are none of matrix products with a written schedule.
EQUATIONS = ("over", "carry", "equation", "reference")
# Alternatives that no right spec of one kernel has: files without one or of several, the single lines that `tkgen fmt`
# and editors parse, tensors of three dimensions, calls with three arguments.
NOT_SENSIBLE = {
    "file -> ",
    "__file_star -> __file_star _statement",
    "__file_star -> __file_star kernel",
    "any_line -> role_line",
    "any_line -> schedule_line",
    "any_line -> statement_line",
    "__global_star -> __global_star COMMA expr",
    "__call_star -> __call_star COMMA _argument",
}


def report(seeds: Iterable[int]) -> str:
    """What `seeds` draw of the grammar, of operations and options, and of the branches of `schedule/epochs.py`.

    Of some accepted specs a mutant of each kind is judged, too: what no spec can say, such as a sum that is not zeroed,
    the calculus must find all the same.
    """
    import coverage

    from tkgen.schedule import epochs

    measured = coverage.Coverage(branch=True, include=[epochs.__file__], data_file=None)
    rules = _counted_rules()
    drawn, taken = Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="tkgen-fuzz-") as folder:
        for seed in seeds:
            made = sample(seed)
            measured.start()
            accepted = _accepted(made, Path(folder), mutated=seed % 40 == 0)
            measured.stop()
            for name in features(made):
                drawn[name] += 1
                taken[name] += accepted
    lines = ["operations and options             accepted   drawn"]
    lines += [f"  {name:<32}{taken[name]:>8}{drawn[name]:>8}" for name in sorted(drawn)]
    lines += ["grammar: alternatives never drawn"]
    apart = _of_equations()
    undrawn = {name for name, count in rules.items() if not count} - apart
    lines += [f"  {name}" for name in sorted(undrawn - NOT_SENSIBLE)] or ["  none"]
    asked = set(rules) - apart
    lines.append(f"  ({len(asked - undrawn)} of {len(asked)} drawn; {len(NOT_SENSIBLE)} have no place; "
                 f"{len(apart)} more are of kernels of equations)")  # fmt: skip
    branches = measured._analyze(epochs.__file__).missing_branch_arcs()
    source = Path(epochs.__file__).read_text().splitlines()
    lines.append("schedule/epochs.py: branches never taken")
    lines += [f"  {a} -> {b}: {source[a - 1].strip()}" for a, ends in sorted(branches.items()) for b in ends]
    return "\n".join(lines)


def _accepted(made: Sample, folder: Path, mutated: bool) -> bool:
    from tkgen.diagnostics import SpecError

    try:
        spec = loaded(made, write(made, folder))
    except SpecError:
        return False
    spec.plan.purposes()
    for mutant in {m.kind: m for m in mutants(spec.plan)}.values() if mutated else ():
        mutant.plan.conflicts()
    return True


def _counted_rules() -> Counter[str]:
    """How often each alternative of the grammar is reduced, from now on."""
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


def _of_equations() -> set[str]:
    """The alternatives that only statements of kernels of equations lead to, and sums of several names."""
    from tkgen.syntax.grammar import parser

    rules = list(parser().parser.parser.parser.callbacks)

    def reached(leave: tuple[str, ...]) -> set[str]:
        seen, new = set[str](), {"file"}
        while new:
            seen |= new
            new = {s.name for r in rules if r.origin.name in new for s in r.expansion if s.name not in leave} - seen
        return seen

    only = reached(()) - reached(EQUATIONS)
    return {_name(r) for r in rules if r.origin.name in only or {s.name for s in r.expansion} & {*only}} | {
        _name(r) for r in rules if "accumulate_star" in _name(r)
    }


def features(made: Sample) -> set[str]:
    """What a spec draws, as operations and options, by name."""
    from tkgen.diagnostics import SpecError
    from tkgen.source import SourceFile
    from tkgen.syntax import ast
    from tkgen.syntax.parser import parse

    found = set(made.features) | {f"target {made.target}"}
    try:
        kernel = parse(SourceFile("fuzz.tk", made.text))
    except SpecError:
        return found
    flat: list[Any] = []
    for statement in kernel.body:
        flat.append(statement)
        flat += statement.body if isinstance(statement, ast.Role) else []
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
