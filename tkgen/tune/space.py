"""The space of a search: for every spec file its parameters and the values they may take.

The values come from `tune NAME in ...` clauses and from ranges on the command line, which replace a clause's. Several
spec files are variants of one kernel: what is no number (a schedule, roles, a remap) varies from file to file, and all
candidates of all files compete.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tkgen.diagnostics import Diagnostic, Fix, Label, SpecError
from tkgen.ir.resolve import flatten, suggestion
from tkgen.syntax import ast
from tkgen.syntax.parser import parse_path
from tkgen.tune.errors import TuneError


@dataclass(frozen=True, order=True)
class Candidate:
    """One point: a spec file and a value for each of its tuned parameters."""

    spec: str
    values: tuple[tuple[str, int], ...]

    @property
    def settings(self) -> str:
        """`BM=128 BN=64`, or empty where nothing is tuned."""
        return " ".join(f"{name}={value}" for name, value in self.values)

    def __str__(self) -> str:
        return f"{Path(self.spec).stem} {self.settings}".rstrip()


@dataclass(frozen=True)
class Variant:
    """One spec file: its tuned parameters with their values, and the names its other `-D` values may set."""

    path: Path
    axes: Mapping[str, tuple[int, ...]]
    names: frozenset[str]

    @property
    def size(self) -> int:
        """Number of candidates."""
        count = 1
        for values in self.axes.values():
            count *= len(values)
        return count


@dataclass(frozen=True)
class Space:
    """All candidates of all variants."""

    variants: tuple[Variant, ...]

    @property
    def size(self) -> int:
        """Number of candidates."""
        return sum(v.size for v in self.variants)

    def __iter__(self) -> Iterator[Candidate]:
        for variant in self.variants:
            for values in itertools.product(*variant.axes.values()):
                yield Candidate(str(variant.path), tuple(zip(variant.axes, values, strict=True)))

    @classmethod
    def of(
        cls,
        specs: Sequence[Path],
        ranges: Mapping[str, Sequence[int]],
        fixed: Mapping[str, int | None],
        include_roots: Sequence[Path] = (),
    ) -> Space:
        """The space of these files. `fixed` names (`-D`) are no longer tuned.

        Raises:
            SpecError: a file cannot be parsed, or one of its `tune` clauses names nothing or no numbers.
            TuneError: a range names no parameter, holds a value twice, or is fixed at the same time.
        """
        if len(set(specs)) < len(specs):
            raise TuneError("a spec file is given twice")
        kernels = [parse_path(path, include_roots) for path in specs]
        parameters = [_bindings(kernel, ast.Param) for kernel in kernels]
        names = [[*mine, *_bindings(kernel, ast.Dims)] for kernel, mine in zip(kernels, parameters, strict=True)]
        _check_names(ranges, fixed, [n for p in parameters for n in p], [n for p in names for n in p])
        variants = []
        for path, kernel, mine, known in zip(specs, kernels, parameters, names, strict=True):
            axes = _clauses(kernel, mine) | {n: tuple(v) for n, v in ranges.items() if n in mine}
            free = {n: v for n, v in axes.items() if n not in fixed}
            variants.append(Variant(path, free, frozenset(known)))
        return cls(tuple(variants))


def _bindings(kernel: ast.Kernel, kind: type[ast.Param] | type[ast.Dims]) -> list[str]:
    return [b.name.id for s in flatten(kernel.body) if isinstance(s, kind) for b in s.bindings]


def _check_names(
    ranges: Mapping[str, Sequence[int]], fixed: Mapping[str, int | None], parameters: list[str], names: list[str]
) -> None:
    for name, values in ranges.items():
        if name not in parameters:
            reason = (
                "is a dimension of the problem, not a parameter" if name in names else "is no parameter of the spec"
            )
            known = f"; it has {', '.join(dict.fromkeys(parameters))}" if parameters else "; it has none"
            raise TuneError(f"--range {name}: `{name}` {reason}{suggestion(name, parameters) or known}")
        if name in fixed:
            raise TuneError(f"`{name}` is fixed by -D and ranges by --range; leave one out")
        if not values or len(set(values)) < len(values):
            raise TuneError(f"--range {name}: {'no value' if not values else 'a value stands twice'}")
        wrong = [v for v in values if not 0 < v < 1 << 31]
        if wrong:
            raise TuneError(f"--range {name}: {wrong[0]} is no size; values are positive and fit 31 bits")
    for name in fixed:
        if name not in names:
            raise TuneError(f"`{name}` has a value, but is nothing in these specs{suggestion(name, names)}")


def _clauses(kernel: ast.Kernel, parameters: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The `tune` clauses of a spec. Raises SpecError for names that are no parameters and values that are no sizes."""
    found: dict[str, tuple[int, ...]] = {}
    problems: list[Diagnostic] = []
    for clause in (s for s in flatten(kernel.body) if isinstance(s, ast.Tune)):
        name = clause.name.id
        if name not in parameters:
            message = f"`tune` names `{name}`, which is not a parameter{suggestion(name, parameters)}"
            fix = Fix(f"declare it: `param {name} = ...`")
            problems.append(Diagnostic("E200", message, Label(clause.name.span, "not declared"), fix=fix))
        elif name in found:
            label = Label(clause.name.span, "a second clause")
            problems.append(Diagnostic("E202", f"`{name}` is tuned twice", label, fix=Fix("list all values in one")))
        values = []
        for expr in clause.values:
            if isinstance(expr, ast.Number) and isinstance(expr.value, int) and 0 < expr.value < 1 << 31:
                values.append(expr.value)
            else:
                label = Label(expr.span)
                problems.append(Diagnostic("E203", "the values of `tune` are positive whole numbers", label))
        found[name] = tuple(dict.fromkeys(values))
    if problems:
        raise SpecError(problems)
    return found
