"""The declarations of a kernel: dimensions, parameters, tensors, scalars."""

from __future__ import annotations

from functools import partial
from math import gcd

from tkgen.diagnostics import Diagnostic, Edit, Fix, Label
from tkgen.diagnostics.text import suggestion
from tkgen.ir.resolve.names import Scope, Stop, guarded
from tkgen.ir.resolve.sizes import element, positive, real
from tkgen.ir.tensors import GLOBAL_DIMENSIONS
from tkgen.ir.types import Dim, DType, ScalarArg, Tensor
from tkgen.source import Span
from tkgen.syntax import ast, statements
from tkgen.syntax.parser import unknown_defines
from tkgen.syntax.statements import flatten, has_equations

INTERLEAVED = 128  # elements of a row that lie interleaved (`tkgen.packing`)
MOST_DIMENSIONS = 6  # of a tensor that equations name


def declarations(scope: Scope) -> None:
    """Declare them all. The names of those that are wrong are broken, so that what needs them is left alone."""
    body = scope.kernel.body
    for statement in flatten(body):
        match statement:
            case ast.Dims(bindings=bindings) | ast.Param(bindings=bindings):
                for binding in bindings:
                    guarded(partial(_binding, scope, statement, binding))
    scope.errors += tune_clauses(scope.kernel)[1]
    scope.errors += unknown_defines(scope.kernel, scope.defines)
    for statement in flatten(body):
        match statement:
            case ast.Global() | ast.Scalar():
                declare = _tensor if isinstance(statement, ast.Global) else _scalar
                twice = statement.name.id in scope.declared
                try:
                    declare(scope, statement)  # type: ignore[arg-type]
                except Stop:
                    if not twice:
                        scope.broken.add(statement.name.id)
            case ast.Function():
                guarded(partial(_function, scope, statement))


def _binding(scope: Scope, statement: ast.Dims | ast.Param, binding: ast.Binding) -> None:
    name = binding.name.id
    scope.declare(binding.name)
    scope.broken.add(name)
    value: int | None
    if name in scope.defines:
        value = scope.defines[name]
        if value is not None and not 0 < value < 1 << 31:
            raise scope.error(
                "E210",
                f"-D {name}={value} is no size",
                binding.span,
                "must be positive, 31 bits",
                fix=f"give `{name}` a number from 1 to {(1 << 31) - 1}",
            )
    else:
        value = None if binding.value is None else positive(scope, binding.value, f"`{name}`")
    if value is None and isinstance(statement, ast.Param):
        raise scope.error(
            "E210",
            f"parameter `{name}` cannot be dynamic",
            binding.span,
            "a parameter, not a dim",
            fix=f"give it a number: -D {name}=...",
        )
    scope.values[name] = value
    scope.broken.discard(name)
    if isinstance(statement, ast.Dims):
        scope.dims[name] = Dim(name, value, binding.span)


def _function(scope: Scope, statement: ast.Function) -> None:
    scope.declare(statement.name)
    scope.functions[statement.name.id] = statement


def _tensor(scope: Scope, statement: ast.Global) -> None:
    scope.declare(statement.name)
    dtype = element(scope, statement.dtype)
    dims = []
    for extent in statement.shape:
        if isinstance(extent, ast.Name) and extent.id in scope.broken:
            raise Stop()
        if not isinstance(extent, ast.Name) or extent.id not in scope.dims:
            shown = extent.span.text
            if isinstance(extent, ast.Name):
                scope.broken.add(shown)  # said once
            raise scope.error(
                "E209",
                f"`{shown}` is not a declared dimension",
                extent.span,
                "shapes consist of names, so that tkgen knows which extents are equal",
                fix=_as_dimension(scope, extent, statement) or f"name it: `dims X = {shown}`",
                known=scope.dims,
            )
        dims.append(scope.dims[extent.id])
    most = MOST_DIMENSIONS if has_equations(scope.kernel) else 2
    if len(dims) > most:
        fix = "write a kernel for one matrix, and launch it once for each matrix of a batch"
        raise scope.error(
            "E209",
            f"`{statement.name.id}` has {len(dims)} dimensions, at most {most}",
            statement.span,
            fix="combine dimensions that are neighbors in memory" if most > 2 else fix,
        )
    together = dims[: len(dims) - GLOBAL_DIMENSIONS + 1] if len(dims) > GLOBAL_DIMENSIONS else ()
    if unknown := next((d for d in together if d.size is None), None):
        raise scope.error(
            "E209", f"`{statement.name.id}` has {len(dims)} dimensions, and `{unknown.name}` is dynamic",
            statement.span, f"the first {len(together)} are one for the kernel, whose size it knows",
            secondary=(Label(unknown.span, "dynamic"),), fix=f"give `{unknown.name}` a size",
        )  # fmt: skip
    found = Tensor(statement.name.id, dtype, tuple(dims), statement.span, statement.order is not None)
    _order(scope, found, statement.order)
    scope.tensors[statement.name.id] = found


def _as_dimension(scope: Scope, extent: ast.Expr, tensor: ast.Global) -> Fix | None:
    """`dims T = 64` for an equation `T = 64`, and for a name that nothing declares; `dims ONE = 1` for `f32[1]`."""
    if isinstance(extent, ast.Number) and extent.value == 1 and scope.dims.get("ONE", extent) is extent:
        file, begin = tensor.span.file, tensor.span.start
        indent = file.text[file.text.rfind("\n", 0, begin) + 1 : begin]
        declared = Edit(Span(file, begin, begin), f"dims ONE = 1\n{indent}")
        return Fix("name it: `dims ONE = 1`", (declared, Edit(extent.span, "ONE")))
    if not isinstance(extent, ast.Name):
        return None
    name = extent.id
    for statement in scope.kernel.body:
        match statement:
            case ast.Equation(target=ast.Name(id=found), value=ast.Number()) if found == name:
                start = Span(statement.span.file, statement.span.start, statement.span.start)
                return Fix(f"declare it: `dims {statement.span.text}`", (Edit(start, "dims "),), certain=False)
    sizes = next((s for s in scope.kernel.body if isinstance(s, ast.Dims) and s.span.file == extent.span.file), None)
    after = (Edit(Span(sizes.span.file, sizes.span.end, sizes.span.end), f", {name} = dynamic"),) if sizes else ()
    return Fix(f"declare it: `dims {name} = ...`, with its size or `dynamic`", after, certain=False)


def _order(scope: Scope, tensor: Tensor, order: ast.Name | None) -> None:
    """Raises E209 for an order that tensors of its type have not, and for rows that are no whole bytes."""
    if order is not None and (order.id != "interleaved" or tensor.dtype not in (DType.I4, DType.U4)):
        raise scope.error(
            "E209", f"`{tensor.name}` of {tensor.dtype.spelling} cannot be `{order.id}`", order.span,
            notes=("tensors are row-major; rows of i4 and u4 may be `interleaved` (`tkgen.packing`)",),
            fix="leave the word out", known=("interleaved",),
        )  # fmt: skip
    if not tensor.dtype.packed:
        return
    inner, unit = tensor.dims[-1], INTERLEAVED if tensor.interleaved else 8 // gcd(8, tensor.dtype.bits)
    if inner.size is None or inner.size % unit:
        size = "known only at run time" if inner.size is None else f"{inner.size}"
        what = "is interleaved" if tensor.interleaved else "has several elements in a byte"
        raise scope.error(
            "E209", f"a row of `{tensor.name}` {what}, and `{inner.name}` is {size}", tensor.span,
            f"wants a multiple of {unit}",
            secondary=(Label(inner.span, "declared here"),),
            fix=f"give `{inner.name}` a size that is a multiple of {unit}: pad rows with zeros",
        )  # fmt: skip


def _scalar(scope: Scope, statement: ast.Scalar) -> None:
    scope.declare(statement.name)
    dtype = element(scope, statement.dtype)
    if dtype is not DType.F32:
        raise scope.error("E204", f"a scalar is f32, not {dtype.spelling}", statement.dtype.span, fix="write `f32`")
    default = statement.default
    if default is not None and not isinstance(default, ast.Number):
        raise scope.error(
            "E203",
            "the default of a scalar must be a number",
            default.span,
            fix="write a number, or remove the default",
        )
    value = None if default is None else real(scope, default, default.value)
    scope.scalars[statement.name.id] = ScalarArg(statement.name.id, dtype, value, statement.span)


def bindings(kernel: ast.Kernel, kind: type[ast.Param] | type[ast.Dims]) -> list[str]:
    """The names that the `param` or `dims` lines of a spec give values."""
    return [b.name.id for s in statements.flatten(kernel.body) if isinstance(s, kind) for b in s.bindings]


def tune_clauses(kernel: ast.Kernel) -> tuple[dict[str, tuple[int, ...]], list[Diagnostic]]:
    """The values of each tuned parameter, and what is wrong: names that are no parameters, values that are no sizes."""
    parameters = bindings(kernel, ast.Param)
    found: dict[str, tuple[int, ...]] = {}
    problems: list[Diagnostic] = []
    for clause in (s for s in statements.flatten(kernel.body) if isinstance(s, ast.Tune)):
        name = clause.name.id
        if name not in parameters:
            message = f"`tune` names `{name}`, which is not a parameter{suggestion(name, parameters)}"
            fix = Fix(f"declare it: `param {name} = ...`")
            problems.append(Diagnostic("E200", message, Label(clause.name.span, "not declared"), fix=fix))
        elif name in found:
            label = Label(clause.name.span, "a second clause")
            problems.append(
                Diagnostic("E202", f"`{name}` is tuned twice", label, fix=Fix("list all values in one line"))
            )
        values = []
        for expr in clause.values:
            if isinstance(expr, ast.Number) and isinstance(expr.value, int) and 0 < expr.value < 1 << 31:
                values.append(expr.value)
            else:
                fix = Fix("write integers from 1 up")
                message = "the values of `tune` must be positive integers"
                problems.append(Diagnostic("E203", message, Label(expr.span), fix=fix))
        found[name] = tuple(dict.fromkeys(values))
    return found, problems
