"""The typed program of any kernel: of its equations, or of those that its clauses stand for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module

from tkgen.diagnostics import Diagnostic, Fix, Label, SpecError, distinct
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.equations import Kernel
from tkgen.ir.equivalence import difference
from tkgen.ir.passes import PASSES
from tkgen.ir.products import chains_products, has_products
from tkgen.ir.program_verifier import verify
from tkgen.ir.resolve.matrix import matrix
from tkgen.ir.resolve.names import Scope, Stop
from tkgen.ir.resolve.survey import survey
from tkgen.ir.types import Program
from tkgen.ir.typing import Typed, equations
from tkgen.ir.typing.clauses import equation_program
from tkgen.ir.typing.desugar import desugared, known_step
from tkgen.ir.verifier import Broken
from tkgen.ir.verifier import verify as verify_equations
from tkgen.syntax import ast
from tkgen.syntax.statements import has_equations


@dataclass(frozen=True)
class KernelEquations:
    """The typed equations of a kernel, None where they have errors; `scope` has these, and what is declared."""

    scope: Scope
    typed: Typed | None

    @property
    def kernel(self) -> Kernel:
        """The equations. Raises SpecError with every independent problem found."""
        if self.scope.errors:
            raise SpecError(self.scope.errors)
        assert self.typed is not None
        return self.typed.kernel


def type_kernel(
    kernel: ast.Kernel,
    defines: Mapping[str, int | None] | None = None,
    target: str | None = None,
    unread: frozenset[str] = frozenset(),
) -> KernelEquations:
    """Type the equations of `kernel`, or those that its clauses stand for; arguments as of `program`.

    `unread` are names in statements that could not be read: nothing is said of these.
    """
    scope = Scope(kernel, dict(defines or {}), target, broken=set(unread))
    with suppress(Stop):
        return KernelEquations(scope, equations(scope) if has_equations(kernel) else desugared(scope))
    return KernelEquations(scope, None)


def rewrite_kernel(found: KernelEquations, passes: Iterable[str]) -> KernelEquations:
    """A kernel with the equations that `passes`, modules of `tkgen.ir.passes`, make of its own.

    Raises Broken if rewritten equations break a rule, or store something else: a mistake of tkgen.
    """
    if found.typed is None or found.scope.errors:
        return found
    kernel = found.typed.kernel
    for name in passes:
        before, kernel = kernel, import_module(f"tkgen.ir.passes.{name}").run(kernel)
        verify_equations(kernel, name)
        if (other := difference(before, kernel)) is not None:
            raise Broken(kernel.name, name, "the same stores", other)
    return replace(found, typed=replace(found.typed, kernel=kernel))


def resolve_kernel(found: KernelEquations) -> Program | EquationProgram:
    """The verified program of a kernel. Raises SpecError with every independent problem, those of its equations too."""
    scope, typed = found.scope, found.typed
    program: Program | EquationProgram | None = None
    if typed is not None:
        with suppress(Stop):
            products = has_products(typed.kernel) and not chains_products(typed.kernel)
            program = matrix(scope, typed) if products else equation_program(scope, typed)
    if scope.errors or scope.broken:
        for call in (c for e in scope.all(ast.Epilogue) for c in e.calls):
            with suppress(Stop):
                known_step(scope, call)
        survey(scope)
        raise SpecError(distinct(scope.errors))
    assert program is not None
    return verify(program, "resolve") if isinstance(program, Program) else program


def program(
    kernel: ast.Kernel, defines: Mapping[str, int | None] | None = None, target: str | None = None
) -> Program | EquationProgram:
    """The program of `kernel`, with `-D` values from `defines` (None stands for `dynamic`).

    `target` is the one that it is for, where that is not for the spec to say.

    Raises:
        SpecError: with every independent problem found.
    """
    return resolve_kernel(rewrite_kernel(type_kernel(kernel, defines, target), PASSES))


def matrix_program(
    kernel: ast.Kernel, defines: Mapping[str, int | None] | None = None, target: str | None = None
) -> Program:
    """The program of a kernel of matrix products; arguments as of `program`.

    Raises:
        SpecError: as `program`; or the kernel has no product.
    """
    return of_products(kernel, program(kernel, defines, target))


def of_products(kernel: ast.Kernel, found: Program | EquationProgram) -> Program:
    """The program of `kernel`, if it is one of matrix products. Raises SpecError where it is not."""
    if isinstance(found, EquationProgram):
        label = Label(kernel.name.span, "no product in it")
        fix = Fix("`tkgen.load` accepts row kernels")
        message = f"the equations of `{kernel.name.id}` sum no products, but this function is for matrix products"
        raise SpecError(Diagnostic("E230", message, label, fix=fix))
    return found
