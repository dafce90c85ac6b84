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

from tkgen.diagnostics import SpecError
from tkgen.diagnostics.text import suggestion
from tkgen.ir.resolve.declarations import bindings, tune_clauses
from tkgen.syntax import ast, statements
from tkgen.syntax.parser import parse_spec
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
        kernels = [statements.together(parse_spec(path, include_roots)) for path in specs]
        parameters = [bindings(kernel, ast.Param) for kernel in kernels]
        names = [[*mine, *bindings(kernel, ast.Dims)] for kernel, mine in zip(kernels, parameters, strict=True)]
        _check_names(ranges, fixed, [n for p in parameters for n in p], [n for p in names for n in p])
        variants = []
        for path, kernel, mine, known in zip(specs, kernels, parameters, names, strict=True):
            clauses, problems = tune_clauses(kernel)
            if problems:
                raise SpecError(problems)
            axes = clauses | {n: tuple(v) for n, v in ranges.items() if n in mine}
            free = {n: v for n, v in axes.items() if n not in fixed}
            variants.append(Variant(path, free, frozenset(known)))
        return cls(tuple(variants))


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
            raise TuneError(f"--range {name}: {'no value' if not values else 'a value is repeated'}")
        wrong = [v for v in values if not 0 < v < 1 << 31]
        if wrong:
            raise TuneError(f"--range {name}: {wrong[0]} is no size; values are positive and fit 31 bits")
    for name in fixed:
        if name not in names:
            raise TuneError(f"`{name}` has a value, but is nothing in these specs{suggestion(name, names)}")
