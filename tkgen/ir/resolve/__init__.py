"""AST -> typed program: names resolved, expressions evaluated, operands and fragments derived.

`names` holds what is declared and what was found wrong, `sizes` evaluates expressions, `declarations`, `waves`,
`dataflow`, `clauses` and `written` read the statements of their kind. Nothing behind this holds a node of the AST.
"""

from __future__ import annotations

from collections.abc import Mapping

from tkgen.diagnostics import Label, SpecError
from tkgen.ir.resolve import clauses, dataflow, waves
from tkgen.ir.resolve.assembly import assembled
from tkgen.ir.resolve.declarations import declarations
from tkgen.ir.resolve.names import Scope, Stop
from tkgen.ir.resolve.sizes import positive
from tkgen.ir.resolve.written import divided, scheduled
from tkgen.ir.types import Operand, Product, Program, Tensor
from tkgen.syntax import ast

__all__ = ["resolve"]


def resolve(kernel: ast.Kernel, defines: Mapping[str, int | None] | None = None, target: str | None = None) -> Program:
    """The typed program of `kernel`, with `-D` values from `defines` (None stands for `dynamic`), for `target`.

    Raises:
        SpecError: with every independent problem found.
    """
    scope = Scope(kernel, dict(defines or {}), target)
    try:
        declarations(scope)
        program = _program(scope)
    except Stop:
        program = None
    if scope.errors:
        raise SpecError(scope.errors)
    assert program is not None
    return program


def _program(scope: Scope) -> Program:
    block_at = scope.one(ast.Block, "block", "block 128 x 128 step 64")
    block = (
        positive(scope, block_at.rows, "the block's rows"),
        positive(scope, block_at.cols, "the block's columns"),
        positive(scope, block_at.step, "the K-step"),
    )
    accumulate = _accumulate(scope)
    output = _output(scope, accumulate)
    roles = waves.roles(scope, block, accumulate)
    accumulator = dataflow.accumulator(scope, accumulate, output, block, next(r for r in roles if r.multiplies))
    operands: tuple[Operand, ...] = dataflow.factors(scope, accumulate, output, block, accumulator)
    roles = waves.loads(scope, roles, operands)
    waves.stores(scope, accumulate)
    steps = clauses.epilogue(scope, output)
    grid = clauses.grid(scope)
    clauses.short_runs(scope, grid, operands)
    left, right = operands
    roles = scheduled(scope, roles, operands, {output.name: (left.name, right.name)}, accumulator)
    left, right = operands = divided(operands, roles)
    return assembled(
        scope, block, operands, (Product(output.name, left, right),), roles, accumulator, grid,
        {"block": block_at.span, "accumulate": accumulate.span},
        epilogue=steps, unused=tuple(dataflow.unused(scope, operands, steps, output)),
    )  # fmt: skip


def _accumulate(scope: Scope) -> ast.Accumulate:
    first = scope.one(ast.Accumulate, "accumulate", "accumulate C : f32 tile 32 x 32")
    for extra in scope.all(ast.Accumulate)[1:]:
        scope.error(
            "E202",
            "a kernel has one accumulator",
            extra.span,
            "a second one",
            secondary=(Label(first.span, "the first"),),
            fix="write a kernel for each product",
        )
    return first


def _output(scope: Scope, accumulate: ast.Accumulate) -> Tensor:
    output = scope.tensor_named(accumulate.name, "`accumulate`")
    if len(output.dims) != 2 or output.dims[0] == output.dims[1]:
        raise scope.error(
            "E209",
            f"the output `{output.name}` needs two different dimensions",
            accumulate.name.span,
            fix="declare it as rows and columns, `[M, N]`",
            secondary=(Label(output.span, "declared here"),),
            notes=("give equal sizes two names: `dims M = 8192, N = 8192`",),
        )
    return output
