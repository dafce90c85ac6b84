"""The clauses of a kernel of equations without products: waves, what passes through LDS, the grid, the reference."""

from __future__ import annotations

from typing import TypeVar

from tkgen.diagnostics import Label
from tkgen.ir.equation_program import EquationProgram, Reference, Staging
from tkgen.ir.equations import Axis, AxisKind, Kernel, Product, walk
from tkgen.ir.products import has_products
from tkgen.ir.resolve import clauses
from tkgen.ir.resolve.dataflow import MOST_BUFFERS, way
from tkgen.ir.resolve.names import Scope, Stop
from tkgen.ir.resolve.said import said
from tkgen.ir.resolve.sizes import positive
from tkgen.ir.resolve.waves import wave_limit
from tkgen.ir.types import BASE_TILE, GridKind, Tensor
from tkgen.ir.typing import Typed
from tkgen.ir.typing.written import written_schedule
from tkgen.syntax import ast
from tkgen.syntax.ast import flatten

Clause = TypeVar("Clause", ast.Shared, ast.Registers)

_WITH_EQUATIONS = (
    *ast.EQUATIONS, ast.Dims, ast.Param, ast.Global, ast.Scalar, ast.Targets, ast.Remap, ast.Grid, ast.Waves,
    ast.Occupancy, ast.Allow, ast.Shared, ast.Registers, ast.Tune,
)  # fmt: skip
_INSTEAD = {
    ast.Block: "`over m in M by 128` gives the tile of a block, `each k in K by 64` its steps",
    ast.Accumulate: "a sum over the steps is `c = c + A[m, k] @ B[n, k].T`",
    ast.Epilogue: "functions stand in the equations: `C[m, n] = relu(c)`",
    ast.Store: "a store is an equation: `C[m, n] = c`",
    ast.Tail: "leave it out: what lies beyond an end is not read, and writes to it are dropped",
}


def equation_program(scope: Scope, typed: Typed) -> EquationProgram:
    """The program of equations without products; stops where a clause is wrong."""
    kernel = typed.kernel
    _foreign(scope, kernel)
    read = frozenset(t.name for t in kernel.inputs)
    count, along = _waves(scope, kernel)
    staged = _shared(scope, read)
    return EquationProgram(
        **vars(said(scope, kernel, _grid(scope), typed.unused)),
        waves=count,
        waves_along=along,
        shared=staged,
        registers=_registers(scope, read, staged),
        schedule=next((s.preset.id for s in scope.all(ast.Schedule) if s.preset is not None), None),
        reference=_reference(scope),
        written=written_schedule(scope, count),
    )


def _foreign(scope: Scope, kernel: Kernel) -> None:
    """E222 for statements that only matrix products have a use for; stops where there are any."""
    multiplies = any(isinstance(op, Product) for op in walk(kernel.body))
    products = [op.result.span for op in walk(kernel.body) if isinstance(op, Product) and op.result.span]
    equation = next(s for s in flatten(scope.kernel.body) if isinstance(s, ast.EQUATIONS))
    for statement in flatten(scope.kernel.body):
        orders = isinstance(statement, ast.Schedule | ast.Phase)
        if not isinstance(statement, _WITH_EQUATIONS) and not (orders and multiplies):
            word = statement.span.text.split()[0]
            message, label = f"`{word}` is of matrix products, and these equations have none", "such as this one"
            if multiplies:
                message = f"`{word}` is of loops that only sum products, and this one computes with what it multiplied"
                label = "such as here"
            scope.error(
                "E222", message, statement.span, secondary=(Label(products[-1] if products else equation.span, label),),
                fix=_INSTEAD.get(type(statement), "leave it out"),
            )  # fmt: skip
    if scope.errors:
        raise Stop()


def _waves(scope: Scope, kernel: Kernel) -> tuple[int, Axis | None]:
    """How many waves a block has, and the axis along which they share its tiles."""
    if not scope.all(ast.Waves) and has_products(kernel):
        tiled_ones = [a for a in kernel.axes if a.tile is not None and a.kind is AxisKind.PARALLEL]
        if len(tiled_ones) == 1 and (tile := tiled_ones[0].tile or 0) % BASE_TILE == 0:
            return _fitting(scope, tile), tiled_ones[0]
    clause = scope.one(ast.Waves, "waves", "waves 4")
    count = positive(scope, clause.rows, "the number of waves", scope.most_waves)
    wave_limit(scope, count, clause.span)
    if clause.cols is not None:
        raise scope.error(
            "E214", "a grid of waves is of matrix products", clause.span,
            fix=f"write `waves {count}`, or `waves {count} along` an axis",
        )  # fmt: skip
    if clause.along is None:
        return count, None
    tiled = {a.name: a for a in kernel.axes if a.tile is not None and a.kind is AxisKind.PARALLEL}
    if clause.along.id not in tiled:
        raise scope.error(
            "E214", f"waves cannot stand along `{clause.along.id}`", clause.along.span, "no axis with tiles of blocks",
            fix="name an axis of `over` that has a tile: `over t in T by 4`", known=tiled,
        )  # fmt: skip
    axis = tiled[clause.along.id]
    assert axis.tile is not None
    if axis.tile % count:
        raise scope.error(
            "E214", f"{count} waves cannot share a tile of {axis.tile} along `{axis.name}`", clause.span,
            f"{axis.tile} % {count} = {axis.tile % count}",
            secondary=(Label(axis.span, f"tiles of {axis.tile}"),) if axis.span else (),
            fix="let the number of waves divide the tile",
        )  # fmt: skip
    return count, axis


def _fitting(scope: Scope, tile: int) -> int:
    """The waves that share a tile where nothing says them: of the rows of a matrix instruction each, or two of them."""
    if (groups := scope.groups) is not None:
        return tile // groups.wave_rows
    return tile // (2 * BASE_TILE) if tile % (2 * BASE_TILE) == 0 else tile // BASE_TILE


def _shared(scope: Scope, read: frozenset[str]) -> tuple[Staging, ...]:
    """The tensors whose tiles pass through LDS; `read` are those that the equations read."""
    found: dict[str, Staging] = {}
    for clause in scope.all(ast.Shared):
        buffers = 2 if scope.groups else 1
        if clause.buffers:
            buffers = positive(scope, clause.buffers, "buffers", MOST_BUFFERS)
        how = way(scope, clause)
        for tensor in _read(scope, clause, read):
            if tensor.name in found:
                raise scope.error(
                    "E202", f"two `shared` lines for `{tensor.name}`", clause.span, "again here",
                    secondary=(Label(found[tensor.name].span, "first here"),), fix="keep one of them",
                )  # fmt: skip
            found[tensor.name] = Staging(tensor, buffers, how, clause.span)
    return tuple(found.values())


def _registers(scope: Scope, read: frozenset[str], staged: tuple[Staging, ...]) -> tuple[Tensor, ...]:
    """The tensors of which the spec says that their tiles go to registers directly."""
    found: list[Tensor] = []
    through = {s.tensor.name: s for s in staged}
    for clause in scope.all(ast.Registers):
        if clause.slice or clause.buffers:
            raise scope.error(
                "E222", "slices and buffers of registers are of matrix products", clause.span,
                fix="name the tensors only",
            )  # fmt: skip
        for tensor in _read(scope, clause, read):
            if tensor.name in through:
                raise scope.error(
                    "E202", f"`{tensor.name}` goes through LDS, and to registers directly", clause.span, "directly",
                    secondary=(Label(through[tensor.name].span, "through LDS"),), fix="keep one of the two",
                )  # fmt: skip
            found.append(tensor)
    return tuple(dict.fromkeys(found))


def _read(scope: Scope, clause: Clause, read: frozenset[str]) -> list[Tensor]:
    """The tensors that a clause names, each read by an equation."""
    word = clause.span.text.split()[0]
    tensors = []
    for name in clause.names:
        tensor = scope.tensor_named(name, f"`{word}`", read)
        if tensor.name not in read:
            raise scope.error(
                "E200", f"`{word}` names `{tensor.name}`, which no equation reads", name.span,
                fix="name a tensor that is read", known=read,
            )  # fmt: skip
        tensors.append(tensor)
    return tensors


def _grid(scope: Scope) -> GridKind:
    """How the work is dealt to blocks: a tile each, or several in turn."""
    found = clauses.grid(scope)
    if found.span is not None and found.name in ("split_k", "stream_k"):
        raise scope.error(
            "E212", f"`grid {found.name}` is of matrix products", found.span,
            fix="use `linear` or `persistent(blocks)`",
        )  # fmt: skip
    return found


def _reference(scope: Scope) -> Reference | None:
    """The `reference` line: names of arguments are tensors, scalars or words of the function."""
    for clause in scope.all(ast.Reference):
        keywords = tuple(f"{name.id}={value.span.text}" for name, value in clause.call.keywords)
        arguments = (*(a.span.text for a in clause.call.args), *keywords)
        return Reference(clause.call.name.id, arguments, clause.span)
    return None
