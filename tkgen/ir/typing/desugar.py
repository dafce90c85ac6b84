"""The equations that the clauses of a matrix product stand for: from the AST to operations, as `tkgen.ir.typing` does.

block 128 x 256 step 64                   over m in M by 128, n in N by 256
accumulate C = A * B                      each k in K by 64
                                            c = c + A[m, k] @ B[n, k].T
epilogue scale(alpha) | bias(v) | relu    c = relu(alpha * c + v[n])
store C                                   C[m, n] = c

Blocks that share the sum of a tile (`split_k`, `stream_k`) add to what stands there: together they do this.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from tkgen.diagnostics import Edit, Fix, Label
from tkgen.diagnostics.edits import line_below, without_statement
from tkgen.ir.equations import (
    Access,
    Argument,
    Axis,
    AxisKind,
    Carry,
    Constant,
    Index,
    Kernel,
    Kind,
    Load,
    Loop,
    Map,
    Op,
    Product,
    Store,
    Update,
    Value,
    joined,
)
from tkgen.ir.functions import FUNCTIONS
from tkgen.ir.resolve import clauses
from tkgen.ir.resolve.declarations import declarations
from tkgen.ir.resolve.names import Scope, Stop, statements
from tkgen.ir.resolve.sizes import positive, real
from tkgen.ir.tensors import Dim, DType, Tensor
from tkgen.ir.typing import Typed, untouched
from tkgen.ir.typing.axes import Axes
from tkgen.ir.typing.expressions import Expressions, Tile
from tkgen.ir.typing.functions import check_functions
from tkgen.ir.typing.vocabulary import fast_form
from tkgen.ir.verifier import verify
from tkgen.source import Span
from tkgen.syntax import ast
from tkgen.syntax.statements import flatten

ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu", "tanh")  # functions of one element
EPILOGUES = ("scale", "add", "bias", "mul", "clamp", *ACTIVATIONS)
ARGUMENTS = {"scale": (1, 1), "add": (1, 2), "bias": (1, 1), "mul": (1, 1), "clamp": (2, 2)}  # from, to; else none
WRITTEN = {"scale": "scale(factor)", "add": "add(tensor, factor)", "bias": "bias(vector)", "mul": "mul(tensor)",
           "clamp": "clamp(least, most)"}  # fmt: skip
EQUATION = "state the product with indices: `each k in K by 64`, `c = c + A[m, k] @ B[n, k].T`"


def desugared(scope: Scope) -> Typed:
    """Declare what a kernel of clauses declares, and give its equations; stops where any is wrong."""
    declarations(scope)
    check_functions(scope)
    if scope.errors:
        raise Stop()
    block = scope.one(ast.Block, "block", "block 128 x 128 step 64")
    sizes = (
        positive(scope, block.rows, "the block's rows"),
        positive(scope, block.cols, "the block's columns"),
        positive(scope, block.step, "the K-step"),
    )
    accumulate = _accumulate(scope)
    output = _output(scope, accumulate)
    left, right = _factors(scope, accumulate, output)
    contraction = _contraction((left, right), output)
    if contraction is None:
        raise _no_product(scope, (left, right), output, accumulate)
    dims, spans = (*output.dims, contraction), (block.rows.span, block.cols.span, block.step.span)
    m, n, k = (
        Axis(name, dim, AxisKind.SEQUENTIAL if dim is contraction else AxisKind.PARALLEL, size, span=span)
        for name, dim, size, span in zip("mnk", dims, sizes, spans, strict=True)
    )
    writer = _Writer(scope, output, m, n)
    value = writer.sums(k, left, right)
    for call in [c for e in scope.all(ast.Epilogue) for c in e.calls]:
        with suppress(Stop):  # what is wrong with the other steps is said, too
            value = writer.step(call, value)
    store = _store(scope, accumulate)
    shared = clauses.grid(scope).shares_tiles
    update = Update.ADD if shared else Update.SET
    writer.ops.append(Store(Access(output, (Index(m), Index(n))), value, update, span=store.span))
    tensors, scalars = tuple(scope.tensors.values()), tuple(scope.scalars.values())
    kernel = Kernel(scope.kernel.name.id, tensors, scalars, (m, n, k), tuple(writer.ops))
    return Typed(verify(kernel, "desugaring"), tuple(untouched(kernel)))


def known_step(scope: Scope, call: ast.Call) -> None:
    """Raises E211 for an epilogue step that does not exist."""
    own = call.name.id in scope.functions and not (call.fast or call.keywords)
    if not own and call.name.id not in EPILOGUES:
        raise scope.error(
            "E211", f"unknown epilogue step `{call.name.id}`", call.name.span,
            fix=f"the steps are {', '.join(EPILOGUES)}", known=[*scope.functions, *EPILOGUES],
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
            fix="write a separate kernel for each product",
        )
    return first


def _output(scope: Scope, accumulate: ast.Accumulate) -> Tensor:
    output = scope.tensor_named(accumulate.name, "`accumulate`")
    if len(output.dims) != 2 or output.dims[0] == output.dims[1]:
        raise scope.error(
            "E209",
            f"the output `{output.name}` needs two different dimensions",
            accumulate.name.span,
            fix=f"declare it as rows and columns, `[M, N]`, or {EQUATION}",
            secondary=(Label(output.span, "declared here"),),
            notes=("give equal sizes two names: `dims M = 8192, N = 8192`",),
        )
    return output


def _factors(scope: Scope, at: ast.Accumulate, output: Tensor) -> tuple[Tensor, Tensor]:
    """The tensors of the product: as written, or the two that `shared` names, else `shared` and `registers` together,
    ordered by the output's dims."""
    for shared in scope.all(ast.Shared):
        for name in shared.names:
            scope.tensor_named(name, "`shared`")
    for registers in scope.all(ast.Registers):
        for name in registers.names:
            scope.tensor_named(name, "`registers`")
    if at.product:
        a, b = (scope.tensor_named(n, "the product") for n in at.product)
        return a, b
    through = [n.id for s in scope.all(ast.Shared) for n in s.names]
    names = list(dict.fromkeys(through))
    if len(names) < 2:
        names = list(dict.fromkeys([*through, *(n.id for r in scope.all(ast.Registers) for n in r.names)]))
    if len(names) < 2:
        raise scope.error(
            "E205", f"only `{names[0]}` is loaded to registers" if names else "no tensor is loaded to "
                                                                              "registers", at.span,
            "a product has two operands",
            notes=("name an operand in `shared`, or only in `registers` if it bypasses LDS",),
            fix="name both, such as `shared A, B buffers 2`",
        )  # fmt: skip
    if len(names) > 2:
        raise scope.error(
            "E205", f"the product is ambiguous: `shared` and `registers` name {len(names)} tensors", at.span,
            fix=f"write it out: `accumulate {at.name.id} = A * B : f32 ...`",
        )  # fmt: skip
    first, second = (scope.tensors[n] for n in names)
    return (first, second) if output.dims[0] in first.dims else (second, first)


def _contraction(factors: tuple[Tensor, Tensor], output: Tensor) -> Dim | None:
    """The dimension that both factors have beside the output's; None where they do not make it."""
    left, right = factors
    shared = [d for d in left.dims if d in right.dims]
    good = (
        len(left.dims) == len(right.dims) == 2
        and len(shared) == 1
        and output.dims[0] in left.dims
        and output.dims[1] in right.dims
        and shared[0] not in output.dims
    )
    return shared[0] if good else None


def _no_product(scope: Scope, factors: tuple[Tensor, Tensor], output: Tensor, at: ast.Accumulate) -> Stop:
    a, b = factors
    twice = next((t.dims[0].name for t in (a, b, output) if len(set(t.dims)) < len(t.dims)), None)
    if twice is not None:
        raise scope.error(
            "E205", f"clauses identify rows, columns and the contraction by name, but `{twice}` is two of them",
            at.span, secondary=(Label(a.span), Label(b.span), Label(output.span)),
            fix=f"give each a different name, or {EQUATION}",
        )  # fmt: skip
    shape = {t.name: f"[{', '.join(d.name for d in t.dims)}]" for t in (a, b, output)}
    return scope.error(
        "E205",
        f"`{a.name}{shape[a.name]}` times `{b.name}{shape[b.name]}` is not "
        f"`{output.name}{shape[output.name]}`",
        at.span,
        secondary=(Label(a.span, "the left factor"), Label(b.span, "the right factor")),
        notes=("the left operand must have the first dimension of the output, the right operand the second, "
               "and both must share the contracted dimension",),
        fix=f"change the dimensions of `{a.name}`, `{b.name}` or `{output.name}`, or the order of the operands",
    )  # fmt: skip


def _store(scope: Scope, at: ast.Accumulate) -> ast.Store:
    """The one store of the sums, in the role that owns them."""
    found = scope.all(ast.Store)
    for store in found:
        if store.name.id != at.name.id:
            scope.error(
                "E215", f"`store {store.name.id}`, but the accumulator is `{at.name.id}`", store.name.span,
                secondary=(Label(at.name.span, "accumulated here"),),
                fix=Fix(f"store `{at.name.id}`", (Edit(store.name.span, at.name.id),)),
            )  # fmt: skip
    if not found:
        raise scope.error(
            "E215", f"`{at.name.id}` is accumulated and never stored", at.name.span,
            fix=Fix(f"add `store {at.name.id}`", line_below(at.span, f"store {at.name.id}")),
        )  # fmt: skip
    if len(found) > 1:
        scope.error(
            "E602", f"`{at.name.id}` is stored twice", found[1].span, "every element would be written twice",
            secondary=(Label(found[0].span, "first stored here"),),
            fix=Fix("remove the second store", without_statement(found[1].span)),
        )  # fmt: skip
    for role in scope.roles:
        body = list(flatten(role.body))
        if any(isinstance(s, ast.Accumulate) for s in body):
            continue
        for store in statements(ast.Store, body):
            scope.error(
                "E401", f"role `{role.name.id}` stores `{store.name.id}`, but another role has its registers",
                store.span, secondary=(Label(at.span, "these registers belong to the role that accumulates"),),
                notes=("a register tile is in the waves that loaded it; other waves cannot read it",),
                fix="move `store` to the role that accumulates",
            )  # fmt: skip
        for registers in statements(ast.Registers, body):
            scope.error(
                "E401",
                f"role `{role.name.id}` declares register tiles, but another role multiplies them",
                registers.span, secondary=(Label(at.span, "multiplied by the waves of this role"),),
                notes=("a register tile is in the waves that loaded it; other waves cannot read it",),
                fix="move `registers` to the role that accumulates",
            )  # fmt: skip
    return found[0]


@dataclass
class _Writer:
    """Appends operations to `ops`; each method gives the value that it defines."""

    scope: Scope
    output: Tensor
    m: Axis
    n: Axis
    ops: list[Op] = field(default_factory=list)
    count: int = 0

    def value(
        self, axes: tuple[Axis, ...], name: str = "", kind: Kind = Kind.NUMBER, dtype: DType = DType.F32,
        span: Span | None = None,
    ) -> Value:  # fmt: skip
        self.count += 1
        return Value(self.count - 1, axes, name, kind, dtype, span)

    def sums(self, k: Axis, left: Tensor, right: Tensor) -> Value:
        """The loop that sums the product."""
        name, tile = self.output.name, (self.m, self.n)
        zero = self.constant(0.0)
        outside, self.ops = self.ops, []
        inside = self.value(tile, name)
        a, b = (
            self.load(tensor, tuple(k if d == k.dim else outer for d in tensor.dims))
            for tensor, outer in ((left, self.m), (right, self.n))
        )
        product = self.value(tile)
        self.ops.append(Product(product, a, b, k))
        update = self.map("add", (inside, product), name)
        result = self.value(tile, name)
        self.ops = [*outside, Loop(k, (Carry(zero, inside, update, result),), tuple(self.ops))]
        return result

    def load(self, tensor: Tensor, axes: tuple[Axis, ...]) -> Value:
        access = Access(tensor, tuple(Index(axis) for axis in axes))
        result = self.value(axes, tensor.name, dtype=tensor.dtype)
        self.ops.append(Load(result, access))
        return result

    def constant(self, number: float) -> Value:
        result = self.value(())
        self.ops.append(Constant(result, number))
        return result

    def given(self, factor: float | str) -> Value:
        """A number or a scalar."""
        if not isinstance(factor, str):
            return self.constant(factor)
        result = self.value((), factor)
        self.ops.append(Argument(result, self.scope.scalars[factor]))
        return result

    def map(self, function: str, arguments: tuple[Value, ...], name: str = "", span: Span | None = None) -> Value:
        kind = Kind.PREDICATE if FUNCTIONS[function].predicate else Kind.NUMBER
        result = self.value(joined(*(a.axes for a in arguments)), name, kind, span=span)
        self.ops.append(Map(result, function, arguments))
        return result

    def step(self, call: ast.Call, value: Value) -> Value:
        """Write an epilogue step as equations, and return its result for a value."""
        name, args, span = call.name.id, list(call.args), call.span
        known_step(self.scope, call)
        if name in self.scope.functions:
            return self.own_function(call, value)
        least, most = ARGUMENTS.get(name, (0, 0))
        if call.keywords or not least <= len(args) <= most:
            raise self.scope.error(
                "E211", f"`{name}` does not accept these arguments", span, fix=f"write `{WRITTEN.get(name, name)}`"
            )
        if name in ACTIVATIONS or call.fast:
            return self.map(fast_form(self.scope, call) if call.fast else name, (value,), span=span)
        tensor = self.tensor(name, args.pop(0)) if name in ("add", "bias", "mul") else None
        factors = [self.factor(argument) for argument in args]
        if name == "scale":
            return self.map("mul", (self.given(factors[0]), value), span=span)
        if name == "clamp":
            return self.map("clamp", (value, *(self.given(f) for f in factors)), span=span)
        assert tensor is not None
        axes = tuple(self.m if d == self.m.dim else self.n for d in tensor.dims)
        if name == "mul":
            return self.map("mul", (value, self.load(tensor, axes)), span=span)
        if not factors:
            return self.map("add", (value, self.load(tensor, axes)), span=span)
        return self.added(value, tensor, axes, factors[0], span)

    def own_function(self, call: ast.Call, value: Value) -> Value:
        """A function of the spec's own: of the value, and of numbers or scalars in parentheses."""
        others = [self.given(self.factor(argument)) for argument in call.args]
        axes = Axes(self.scope, {axis.name: axis for axis in (self.m, self.n)})
        at = Expressions(self.scope, axes, self.ops, count=self.count)
        found = at.expanded(call, [Tile(v, v.axes) for v in (value, *others)])
        self.count = at.count
        return found.value

    def added(self, value: Value, tensor: Tensor, axes: tuple[Axis, ...], by: float | str, span: Span) -> Value:
        """A tensor times a factor; as in BLAS, one of zero leaves it out: its NaNs do not matter."""
        if by == 0:
            return value
        factor = self.given(by)
        addend = self.map("mul", (factor, self.load(tensor, axes)), span=span)
        added = self.map("add", (value, addend), span=span)
        if not isinstance(by, str):
            return added
        read = self.map("ne", (factor, self.constant(0.0)), span=span)
        return self.map("where", (read, added, value), span=span)

    def tensor(self, step: str, head: ast.Expr) -> Tensor:
        """The tensor that a step names first, as large as it needs it."""
        if not isinstance(head, ast.Name):
            raise self.scope.error("E211", f"the first argument of `{step}` is a tensor", head.span,
                                   fix="name a `global`")  # fmt: skip
        tensor = self.scope.tensor_named(head, f"`{step}`")
        rows, cols = self.output.dims
        wanted = {"add": ((rows, cols),), "bias": ((rows,), (cols,)), "mul": ((rows, cols), (rows,), (cols,))}[step]
        if tensor.dims not in wanted:
            raise self.scope.error(
                "E211", f"`{step}({tensor.name})` needs a tensor shaped "
                + " or ".join(f"[{', '.join(d.name for d in w)}]" for w in wanted), head.span,
                secondary=(Label(tensor.span, "declared here"),),
                fix="use a `global` of that shape" + (", or `add` for a whole matrix" * (step == "bias")),
            )  # fmt: skip
        return tensor

    def factor(self, argument: ast.Expr) -> float | str:
        """A number, or the name of a scalar."""
        match argument:
            case ast.Number(value=value):
                return real(self.scope, argument, value)
            case ast.Unary(op="-", operand=ast.Number(value=value)):
                return -real(self.scope, argument, value)
            case ast.Name(id=scalar) if scalar in self.scope.scalars:
                return scalar
        raise self.scope.error(
            "E211", f"an argument must be a number or a scalar, not `{argument.span.text}`", argument.span,
            fix="declare `scalar alpha : f32 = 1.0`",
        )  # fmt: skip
