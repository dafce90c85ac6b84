"""What of the language and of the calculus the generator draws: by the checks alone, so thousands of specs a minute."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from fuzzing.specs import Sample, sample
from fuzzing.verdict import loaded, write

# Alternatives that no right spec of one kernel has: files without one or of several, the single lines that `tkgen fmt`
# and editors parse, tensors of three dimensions, calls with three arguments.
NOT_SENSIBLE = {
    "file -> ",
    "__file_star_0 -> __file_star_0 _statement",
    "__file_star_0 -> __file_star_0 kernel",
    "any_line -> role_line",
    "any_line -> schedule_line",
    "any_line -> statement_line",
    "__global_star_5 -> __global_star_5 COMMA expr",
    "__call_star_13 -> __call_star_13 COMMA _argument",
}


def report(seeds: Iterable[int]) -> str:
    """What `seeds` draw of the grammar, of operations and options, and of the branches of `schedule/epochs.py`."""
    import coverage

    from tkgen.schedule import epochs

    measured = coverage.Coverage(branch=True, include=[epochs.__file__], data_file=None)
    rules = _counted_rules()
    drawn, taken = Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="tkgen-fuzz-") as folder:
        for seed in seeds:
            made = sample(seed)
            measured.start()
            accepted = _accepted(made, Path(folder))
            measured.stop()
            for name in features(made):
                drawn[name] += 1
                taken[name] += accepted
    lines = ["operations and options             accepted   drawn"]
    lines += [f"  {name:<32}{taken[name]:>8}{drawn[name]:>8}" for name in sorted(drawn)]
    lines += ["grammar: alternatives never drawn"]
    undrawn = {name for name, count in rules.items() if not count}
    lines += [f"  {name}" for name in sorted(undrawn - NOT_SENSIBLE)] or ["  none"]
    lines.append(f"  ({len(rules) - len(undrawn)} of {len(rules)} drawn; {len(NOT_SENSIBLE)} have no place)")
    branches = measured._analyze(epochs.__file__).missing_branch_arcs()
    source = Path(epochs.__file__).read_text().splitlines()
    lines.append("schedule/epochs.py: branches never taken")
    lines += [f"  {a} -> {b}: {source[a - 1].strip()}" for a, ends in sorted(branches.items()) for b in ends]
    return "\n".join(lines)


def _accepted(made: Sample, folder: Path) -> bool:
    from tkgen.diagnostics import SpecError

    try:
        spec = loaded(made, write(made, folder))
    except SpecError:
        return False
    spec.plan.purposes()
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
        name = f"{rule.origin.name} -> {' '.join(s.name for s in rule.expansion)}"
        counts[name] = 0
        callbacks[rule] = counted(name, call)
    return counts


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
