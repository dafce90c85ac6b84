"""The stages of the compiler, in order: read this file first.

`STAGES` is the one list of them. Each stage is a function from the value that the stage before it returns to its own
value; those after `schedule` are in `tkgen/backends/stages.py`. The library (`tkgen.api`), the commands, `build` of a
spec and `--print-after` go along this list. A stage reports problems as `SpecError`, with every independent problem of
all kernels of a spec.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from tkgen.backends.stages import BUILDING, through
from tkgen.backends.stages import COMPILE as COMPILE
from tkgen.backends.stages import LOWER as LOWER
from tkgen.backends.stages import PROVE as PROVE
from tkgen.backends.stages import Lowered as Lowered
from tkgen.backends.stages import Stage as Stage
from tkgen.ir.passes import PASSES

if TYPE_CHECKING:
    from tkgen.backends.spec import AnySpec
    from tkgen.diagnostics import Diagnostic
    from tkgen.ir.equation_program import EquationProgram
    from tkgen.ir.equations import Kernel
    from tkgen.ir.program import KernelEquations
    from tkgen.ir.types import Program
    from tkgen.sequence.program import SequenceProgram
    from tkgen.syntax import ast
    from tkgen.syntax.parser import UnreadError

B = TypeVar("B")
Define: TypeAlias = "Mapping[str, int | None]"

OWN = ("E200", "E203", "E204", "E209", "E211", "E212", "E213", "E214", "E216", "E223", "E224", "E229", "E601")
"""Codes of errors that are of the place where they are found, and do not follow from what another statement lacks."""


# ---------------------------------------------------------------- the values between stages


@dataclass(frozen=True)
class Request:
    """A spec to compile: the file at `path`, or `text` in its place.

    `defines` gives dimensions and parameters other values (None: `dynamic`); `target` replaces the one in the spec.
    """

    path: str | os.PathLike[str]
    defines: Define = field(default_factory=dict)
    target: str | None = None
    roots: Sequence[str | os.PathLike[str]] = ()
    text: str | None = None


@dataclass(frozen=True)
class Parsed:
    """The syntax tree of a spec, with the options of its request; `unread` are names in statements that it lacks."""

    tree: ast.Kernel | ast.Sequence
    defines: Define = field(default_factory=dict)
    target: str | None = None
    unread: frozenset[str] = frozenset()

    @property
    def kernels(self) -> Sequence[ast.Kernel]:
        """The kernels of the spec, in order."""
        return (self.tree,) if self.alone else self.tree.kernels  # type: ignore[union-attr, return-value]

    @property
    def alone(self) -> bool:
        """Return True if the spec is one kernel, not a sequence."""
        return not hasattr(self.tree, "kernels")

    @property
    def names(self) -> frozenset[str]:
        """The names of dimensions and parameters, of all kernels."""
        from tkgen.syntax import statements

        return frozenset().union(*map(statements.bound, self.kernels))

    def own_defines(self, number: int) -> dict[str, int | None]:
        """The defines that kernel `number` has a name for; the first kernel also gets those that no kernel has."""
        from tkgen.syntax import statements

        if self.alone:
            return dict(self.defines)
        names = [statements.bound(kernel) for kernel in self.kernels]
        unknown = self.defines.keys() - set().union(*names) if number == 0 else set()
        return {name: value for name, value in self.defines.items() if name in names[number] or name in unknown}


@dataclass(frozen=True)
class TypedEquations:
    """The typed equations of each kernel. A kernel keeps its problems until `resolve` has added those it finds."""

    parsed: Parsed
    kernels: tuple[KernelEquations, ...]

    def typed(self) -> Sequence[Kernel]:
        """The equations of every kernel. Raises SpecError with the problems of all."""
        from tkgen.diagnostics import SpecError, distinct

        found, problems = _each(lambda each: each.kernel, self.kernels)
        if problems:
            raise SpecError(distinct(problems))
        return [kernel for kernel in found if kernel is not None]


@dataclass(frozen=True)
class Simplified:
    """The equations of each kernel after the passes of `tkgen.ir.passes`: by the name of the last of them, in order."""

    typed: TypedEquations
    after: Mapping[str, TypedEquations]

    @property
    def equations(self) -> TypedEquations:
        """The equations after all passes."""
        return [self.typed, *self.after.values()][-1]


@dataclass(frozen=True)
class Resolved:
    """The typed program of each kernel, None for a kernel with `problems`."""

    parsed: Parsed
    kernels: tuple[Program | EquationProgram | None, ...]
    problems: tuple[Diagnostic, ...]

    def programs(self) -> Sequence[Program | EquationProgram]:
        """The program of every kernel. Raises SpecError where a kernel has none."""
        from tkgen.diagnostics import SpecError, distinct

        if self.problems:
            raise SpecError(distinct(self.problems))
        return [program for program in self.kernels if program is not None]

    def program(self) -> Program | EquationProgram | SequenceProgram:
        """The program of the one kernel, or of the sequence. Raises SpecError as `programs`."""
        programs = self.programs()
        return programs[0] if self.parsed.alone else joined(self.parsed.tree, programs)


def joined(tree: Any, programs: Sequence[Program | EquationProgram]) -> SequenceProgram:
    """The programs of a sequence, which has this tree, as one."""
    from tkgen.sequence.program import SequenceProgram
    from tkgen.syntax import ast

    declared = tuple(s.name.id for s in tree.shared if isinstance(s, ast.Global))
    return SequenceProgram(tree.name.id, tree.header, tuple(programs), declared)


# ---------------------------------------------------------------- stages


def parse(request: Request) -> Parsed:
    """Read the text of a spec and its includes, and make its syntax tree."""
    from tkgen.diagnostics import SpecError
    from tkgen.syntax.parser import UnreadError, parse_spec

    try:
        return Parsed(parse_spec(request.path, request.roots, request.text), request.defines, request.target)
    except UnreadError as error:
        raise SpecError([*error.diagnostics, *beside(error, request.defines, request.target)]) from None


def beside(unread: UnreadError, defines: Define | None = None, target: str | None = None) -> list[Diagnostic]:
    """The errors of a spec beside its statements that cannot be read, as far as they do not follow from these."""
    if unread.rest is None:
        return []
    parsed = Parsed(unread.rest.tree, defines or {}, target, unread.rest.words)
    _, problems = _each(lambda _: resolve(simplify(type_equations(parsed))).programs(), [parsed])
    return [problem for problem in problems if problem.code in OWN and unread.rest.beside(problem)]


def type_equations(parsed: Parsed) -> TypedEquations:
    """Type the equations of each kernel; clauses such as `accumulate` become equations here."""
    from tkgen.ir.program import type_kernel

    kernels = enumerate(parsed.kernels)
    return TypedEquations(
        parsed, tuple(type_kernel(k, parsed.own_defines(n), parsed.target, parsed.unread) for n, k in kernels)
    )


def simplify(equations: TypedEquations) -> Simplified:
    """Run the passes over the equations of each kernel: they store the same with fewer operations."""
    from tkgen.ir.program import rewrite_kernel

    now, after = equations, dict[str, TypedEquations]()
    for name in PASSES:
        now = after[name] = replace(now, kernels=tuple(rewrite_kernel(k, [name]) for k in now.kernels))
    return Simplified(equations, after)


def resolve(simplified: Simplified) -> Resolved:
    """Resolve everything that a spec says around its equations, and verify the program."""
    from tkgen.ir.program import resolve_kernel

    found, problems = _each(resolve_kernel, simplified.equations.kernels)
    return Resolved(simplified.typed.parsed, tuple(found), tuple(problems))


def schedule(resolved: Resolved) -> AnySpec:
    """Choose the back end of the target, which lays out and schedules each kernel."""
    from tkgen.backends.registry import backend_of
    from tkgen.diagnostics import SpecError, distinct
    from tkgen.targets import DEFAULT_TARGET

    parsed = resolved.parsed

    def of_kernel(number: int) -> AnySpec | None:
        kernel, program = parsed.kernels[number], resolved.kernels[number]
        if program is None:
            return None
        name = parsed.target or (program.targets[0] if program.targets else DEFAULT_TARGET)
        return backend_of(name).spec(Path(kernel.name.span.file.name), program, name, parsed.own_defines(number))

    found, problems = _each(of_kernel, range(len(parsed.kernels)))
    if resolved.problems or problems:
        raise SpecError(distinct([*resolved.problems, *problems]))
    specs: tuple[AnySpec, ...] = tuple(found)
    if parsed.alone:
        return specs[0]
    from tkgen.sequence.spec import SequenceSpec

    program, target = joined(parsed.tree, [s.program for s in specs]), specs[0].target
    path = Path(parsed.tree.name.span.file.name)
    machine = backend_of(target.name)
    return SequenceSpec(path, program, target, dict(parsed.defines), machine.in_order(specs), machine.joined)


def _each(function: Callable[[Any], object], values: Iterable[Any]) -> tuple[list[Any], list[Diagnostic]]:
    """The result of `function` for each value, None where it raises SpecError, and all diagnostics of these."""
    from tkgen.diagnostics import SpecError

    results: list[Any] = []
    problems: list[Diagnostic] = []
    for value in values:
        try:
            results.append(function(value))
        except SpecError as error:
            results.append(None)
            problems += error.diagnostics
    return results, problems


# ---------------------------------------------------------------- values as text


def _tree_text(parsed: Parsed) -> str:
    from tkgen.syntax.dump import dump

    return dump(parsed.tree)


def _equations_text(equations: TypedEquations) -> str:
    from tkgen.ir.equation_text import to_text

    return _joined(map(to_text, equations.typed()))


def _passes_text(simplified: Simplified, names: Sequence[str] = PASSES) -> str:
    """The number of operations before and after the passes `names`; the equations after the last."""
    from tkgen.ir.equations import walk

    every = {"": simplified.typed, **simplified.after}
    counts = {name: sum(len([*walk(kernel.body)]) for kernel in found.typed()) for name, found in every.items()}
    before = dict(pairwise(reversed(every)))
    lines = [f"{name}: {counts[before[name]]} operations, then {counts[name]}" for name in names]
    return "\n".join([*lines, _equations_text(every[names[-1]])])


def _program_text(resolved: Resolved) -> str:
    from tkgen.ir.program_text import to_text

    return _joined(to_text(program) for program in resolved.programs())


def _schedule_text(spec: AnySpec) -> str:
    return spec.scheduled


def _graph_text(spec: AnySpec) -> str:
    from tkgen.ir.graph import to_text

    kernels: Sequence[Any] = spec.kernels
    return _joined(to_text(kernel.graph) for kernel in kernels)


def _joined(texts: Iterable[str]) -> str:
    return "\n\n".join(text.rstrip("\n") for text in texts)


# ---------------------------------------------------------------- the list

PARSE = Stage("parse", "The text of a spec and its includes becomes a syntax tree.", parse, _tree_text)
EQUATIONS = Stage(
    "equations", "Clauses become equations, and every operation gets a type and axes.", type_equations, _equations_text
)
SIMPLIFY = Stage(
    "simplify", "Passes over the equations remove operations that are not needed.", simplify,
    _passes_text, {name: partial(_passes_text, names=[name]) for name in PASSES},
)  # fmt: skip
RESOLVE = Stage(
    "resolve", "Names, sizes, tiles and choices are resolved, and the typed program is verified.", resolve,
    _program_text,
)  # fmt: skip
SCHEDULE = Stage(
    "schedule", "The target's back end lays out tiles and orders the operations of every wave: the tile program.",
    schedule, _schedule_text, {"graph": _graph_text},
)  # fmt: skip
STAGES: tuple[Stage[Any, Any], ...] = (PARSE, EQUATIONS, SIMPLIFY, RESOLVE, SCHEDULE, *BUILDING)
PRINTED = tuple(name for stage in STAGES for name in stage.prints)  # what `--print-after` takes


def stage_of(name: str) -> Stage[Any, Any]:
    """The stage that prints the text `name` of `PRINTED`. Raises KeyError for another name."""
    return {printed: stage for stage in STAGES for printed in stage.prints}[name]


def last_of(stages: Iterable[Stage[Any, Any]]) -> Stage[Any, Any]:
    """The stage that comes after the others."""
    return max(stages, key=STAGES.index)


def along(
    value: Any, to: Stage[Any, Any], after: Stage[Any, Any] | None = None
) -> Iterator[tuple[Stage[Any, Any], Any]]:
    """Run the stages up to `to`: each with its value. `value` is a request, or the value of the stage `after`.

    Raises SpecError, UnknownTargetError, OSError or ToolchainError, where a stage comes to no value.
    """
    yield from through(STAGES, value, to, after)


def run(value: Any, to: Stage[Any, B], after: Stage[Any, Any] | None = None) -> B:
    """The value of the stage `to`. Arguments and errors as of `along`."""
    result: B = [result for _, result in along(value, to, after)][-1]
    return result


def text_of(name: str, request: Request) -> str:
    """The text `name` of `PRINTED` for a spec, without line breaks at its end.

    Raises:
        SpecError: a stage up to this one finds an error.
    """
    stage = stage_of(name)
    return stage.prints[name](run(request, stage)).rstrip("\n")
