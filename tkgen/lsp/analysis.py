"""A text as `tkgen check` sees it: resolved, scheduled, checked. Text in, data out; nothing here knows of a protocol.

>>> analyze(Request(SourceFile("/specs/a.tk", text))).diagnostics
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from tkgen.api import DEFAULT_TARGET
from tkgen.backends.form import KernelSpec
from tkgen.backends.protocol import Spec as AnySpec
from tkgen.backends.registry import backend_of
from tkgen.checks.registers import RegisterEstimate, estimate
from tkgen.diagnostics import Diagnostic, Label, Severity, SpecError
from tkgen.diagnostics.later import with_later
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.equations import Kernel
from tkgen.ir.passes import PASSES
from tkgen.ir.program import matrix_program, resolve_kernel, rewrite_kernel, type_kernel
from tkgen.ir.resolve.declarations import declarations
from tkgen.ir.resolve.names import Scope
from tkgen.ir.types import Program
from tkgen.lsp.project import BufferLoader
from tkgen.pipeline import EQUATIONS, PARSE, SCHEDULE, Parsed, along, beside
from tkgen.schedule.plan import Plan
from tkgen.source import SourceFile
from tkgen.syntax import ast
from tkgen.syntax.layout import code_lines
from tkgen.syntax.parser import UnreadError, parse_any, parse_fragment
from tkgen.syntax.statements import has_equations
from tkgen.targets.model import UnknownTargetError
from tkgen.tile.scheduled import Footprint


@dataclass(frozen=True)
class Request:
    """The input of an analysis: a buffer, the texts of the others by real path, and the options of `tkgen check`."""

    file: SourceFile
    texts: Mapping[Path, str] = field(default_factory=dict)
    include_roots: tuple[str, ...] = ()
    target: str | None = None


@dataclass(frozen=True)
class KernelFacts:
    """A kernel that begins at the offset `start`: its equations, what a block of it takes, waves by role.

    `sizes` are the values of dimensions and parameters, None where they are dynamic.
    Of one that sums products: its `program`; and where waves have K-steps of their own, its `plan` and `registers`.
    """

    start: int
    equations: Kernel | None
    footprint: Footprint | None = None
    waves: int = 0
    roles: Mapping[str, int] = field(default_factory=dict)
    sizes: Mapping[str, int | None] = field(default_factory=dict)
    program: Program | None = None
    plan: Plan | None = None
    registers: RegisterEstimate | None = None

    @property
    def threads(self) -> int:
        """Threads of a block, all roles together; 0 where its footprint is not known."""
        waves = max(sum(self.roles.values()), self.waves)
        return waves * self.footprint.wave_size if self.footprint is not None else 0


@dataclass(frozen=True)
class Analysis:
    """As far as it came: a stage that failed and those after it are None. A fragment has diagnostics only."""

    file: SourceFile
    diagnostics: tuple[Diagnostic, ...] = ()
    kernel: ast.Kernel | None = None
    program: Program | None = None
    equations: Kernel | None = None
    target: str | None = None
    plan: Plan | None = None
    registers: RegisterEstimate | None = None
    kernels: tuple[KernelFacts, ...] = ()

    def at(self, offset: int) -> KernelFacts | None:
        """The kernel to which the character at an offset belongs; the first one above all."""
        above = [kernel for kernel in self.kernels if kernel.start <= offset]
        return above[-1] if above else next(iter(self.kernels), None)


def analyze(request: Request) -> Analysis:
    """Every stage that the text allows; a spec's problems become diagnostics, never exceptions."""
    found = _stages(request)
    if not any(d.severity is Severity.ERROR for d in found.diagnostics):
        return found

    def judge(text: str) -> tuple[Diagnostic, ...]:
        return _stages(replace(request, file=SourceFile(request.file.name, text))).diagnostics

    return replace(found, diagnostics=tuple(with_later(found.diagnostics, request.file.text, judge)))


def _stages(request: Request) -> Analysis:
    """The stages of a text up to the first one that refuses it."""
    found = resolved(request.file, request.texts, request.include_roots, request.target)
    kernel, program = found.kernel, found.program
    if kernel is None or program is None or found.diagnostics:
        return found
    name = request.target or (program.targets[0] if program.targets else DEFAULT_TARGET)
    try:
        spec = backend_of(name).spec(Path(request.file.name), program, name, {})
    except UnknownTargetError as error:
        place = program.spans.get("targets", kernel.name.span)
        return replace(found, diagnostics=(Diagnostic("E200", str(error), Label(place)),))
    except SpecError as error:
        return replace(found, target=name, diagnostics=tuple(error.diagnostics))
    found = replace(found, diagnostics=tuple(spec.diagnostics))
    found = replace(found, kernels=_kernels(spec, [kernel], [found.equations]))
    if spec.plan is None:
        return found
    return replace(found, target=name, plan=spec.plan, registers=estimate(spec.plan, spec.target))


def resolved(
    file: SourceFile, texts: Mapping[Path, str], include_roots: tuple[str, ...] = (), target: str | None = None
) -> Analysis:
    """The analysis up to the typed program, which takes milliseconds for any spec.

    Types and defaults are those of `target`; None: the first one that the spec names.
    """
    loader = BufferLoader.around(file, include_roots, texts)
    try:
        if not any(line.word == "kernel" for line in code_lines(file.text)):
            parse_fragment(file, loader=loader)
            return Analysis(file)
        kernel = parse_any(file, loader=loader)
        if isinstance(kernel, ast.Sequence):
            values = {stage.name: value for stage, value in along(Parsed(kernel, target=target), SCHEDULE, after=PARSE)}
            spec, equations_of = values[SCHEDULE.name], values[EQUATIONS.name].typed()
            kernels = _kernels(spec, kernel.kernels, equations_of)
            return Analysis(file, spec.diagnostics, target=spec.target.name, kernels=kernels)
    except UnknownTargetError as error:
        return Analysis(file, (Diagnostic("E200", str(error), Label(kernel.name.span)),))
    except UnreadError as error:
        return Analysis(file, (*error.diagnostics, *beside(error, target=target)))
    except SpecError as error:
        return Analysis(file, tuple(error.diagnostics))
    typed = type_kernel(kernel, target=target)
    try:
        equations = typed.kernel if has_equations(kernel) else None
    except SpecError as error:
        return Analysis(file, tuple(error.diagnostics), kernel)
    try:
        found = resolve_kernel(rewrite_kernel(typed, PASSES))
        if isinstance(found, Program):
            return Analysis(file, (), kernel, found, equations)
        return _of_equations(Analysis(file, (), kernel, equations=equations), kernel, found, target)
    except SpecError as error:
        return Analysis(file, tuple(error.diagnostics), kernel, _unscheduled(kernel), equations)


def _of_equations(known: Analysis, kernel: ast.Kernel, found: EquationProgram, target: str | None) -> Analysis:
    """The analysis of a kernel that is not scheduled by K-steps."""
    name = target or (found.targets[0] if found.targets else DEFAULT_TARGET)
    try:
        spec = backend_of(name).spec(Path(known.file.name), found, name, {})
        return replace(known, diagnostics=tuple(spec.diagnostics), kernels=_kernels(spec, [kernel], [known.equations]))
    except UnknownTargetError as error:
        place = found.spans.get("targets", found.spans["kernel"])
        return replace(known, diagnostics=(Diagnostic("E200", str(error), Label(place)),))


def _kernels(
    spec: AnySpec, trees: Sequence[ast.Kernel], equations_of: Sequence[Kernel | None]
) -> tuple[KernelFacts, ...]:
    """The facts of each kernel of a spec, with these equations as written; without a footprint where it has errors."""
    found = []
    for each, tree, written in zip(spec.kernels, trees, equations_of, strict=True):
        program = each.program
        roles = {role.name: len(role.waves) for role in program.roles}
        waves = len(program.compute.waves) if isinstance(program, Program) else program.waves
        footprint, plan, registers = None, None, None
        if isinstance(each, KernelSpec) and not any(d.severity is Severity.ERROR for d in each.diagnostics):
            with suppress(SpecError):
                footprint, plan = each.footprint, each.plan
                registers = estimate(plan, each.target) if plan is not None else None
        equations = written if written is not None and has_equations(tree) else program.kernel
        sums = program if isinstance(program, Program) else None
        sizes = _sizes(tree, spec.target.name)
        found.append(KernelFacts(tree.span.start, equations, footprint, waves, roles, sizes, sums, plan, registers))
    return tuple(found)


def _sizes(tree: ast.Kernel, target: str) -> Mapping[str, int | None]:
    """The values of dimensions and parameters, where they can be declared."""
    scope = Scope(tree, {}, target)
    declarations(scope)
    return scope.values


def _unscheduled(kernel: ast.Kernel) -> Program | None:
    """The program without its schedule, where only that is wrong: sizes stay on the screen while one is written."""

    def rest(body: Sequence[ast.Statement]) -> tuple[ast.Statement, ...]:
        kept = (s for s in body if not isinstance(s, ast.Schedule))
        return tuple(replace(s, body=rest(s.body)) if isinstance(s, ast.Role) else s for s in kept)

    try:
        return matrix_program(replace(kernel, body=rest(kernel.body)))
    except SpecError:
        return None
