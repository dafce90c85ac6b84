"""The typed program of any kernel: of its equations, or of those that its clauses stand for."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from tkgen.diagnostics import Diagnostic, Fix, Label, SpecError
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.equations import Kernel
from tkgen.ir.products import chains_products, has_products
from tkgen.ir.program_verifier import verify
from tkgen.ir.resolve.matrix import matrix
from tkgen.ir.resolve.names import Scope, Stop
from tkgen.ir.types import Program
from tkgen.ir.typing import Typed, equations
from tkgen.ir.typing.clauses import equation_program
from tkgen.ir.typing.desugar import desugared
from tkgen.syntax import ast
from tkgen.syntax.ast import has_equations


def program(
    kernel: ast.Kernel, defines: Mapping[str, int | None] | None = None, target: str | None = None
) -> Program | EquationProgram:
    """The program of `kernel`, with `-D` values from `defines` (None stands for `dynamic`).

    `target` is the one that it is for, where that is not for the spec to say.

    Raises:
        SpecError: with every independent problem found.
    """
    scope = Scope(kernel, dict(defines or {}), target)
    found: Program | EquationProgram | None = None
    with suppress(Stop):
        typed = _typed(scope)
        if has_products(typed.kernel) and not chains_products(typed.kernel):
            found = matrix(scope, typed)
        else:
            found = equation_program(scope, typed)
    if scope.errors:
        raise SpecError(scope.errors)
    assert found is not None
    return verify(found, "resolve") if isinstance(found, Program) else found


def _typed(scope: Scope) -> Typed:
    """The equations of a kernel: its own, or those that its clauses stand for."""
    return equations(scope) if has_equations(scope.kernel) else desugared(scope)


def equations_of(
    kernel: ast.Kernel, defines: Mapping[str, int | None] | None = None, target: str | None = None
) -> Kernel:
    """What `kernel` computes: its equations, or those that its clauses stand for.

    Raises:
        SpecError: with every independent problem found.
    """
    scope = Scope(kernel, dict(defines or {}), target)
    found: Typed | None = None
    with suppress(Stop):
        found = _typed(scope)
    if scope.errors:
        raise SpecError(scope.errors)
    assert found is not None
    return found.kernel


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
        fix = Fix("`tkgen.load` takes kernels of rows")
        message = f"the equations of `{kernel.name.id}` sum no products, and this is for matrix products"
        raise SpecError(Diagnostic("E230", message, label, fix=fix))
    return found
