"""The equations that the clauses of a matrix product stand for.

block 128 x 256 step 64                   over m in M by 128, n in N by 256
accumulate C = A * B                      each k in K by 64
                                            c = c + A[m, k] @ B[n, k].T
epilogue scale(alpha) | bias(v) | relu    c = relu(alpha * c + v[n])
store C                                   C[m, n] = c

Blocks that share the sum of a tile (`split_k`, `stream_k`) add to what stands there: together they do this.
"""

from __future__ import annotations

from dataclasses import dataclass, field

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
    Value,
    joined,
)
from tkgen.ir.functions import FUNCTIONS
from tkgen.ir.types import DType, EpilogueStep, Operand, Program, Side, Tensor
from tkgen.ir.verifier import verify
from tkgen.source import Span


def desugared(program: Program) -> Kernel:
    """The equations of a program: its own, or those of its clauses."""
    if program.equations is not None:
        return program.equations.kernel
    m, n = (
        Axis(name, dim, AxisKind.PARALLEL, tile, span=dim.span)
        for name, dim, tile in (("m", program.m, program.block[0]), ("n", program.n, program.block[1]))
    )
    k = Axis("k", program.k, AxisKind.SEQUENTIAL, program.block[2], span=program.k.span)
    writer = _Writer(program, m, n)
    value = writer.sums(k)
    for step in program.epilogue:
        value = writer.step(step, value)
    target = Access(program.accumulator.tensor, (Index(m), Index(n)))
    writer.ops.append(Store(target, value, program.adds_to_output, program.spans.get("store")))
    kernel = Kernel(program.name, program.arguments, program.scalars, (m, n, k), tuple(writer.ops))
    return verify(kernel, "desugaring")


@dataclass
class _Writer:
    """Appends operations to `ops`; each method gives the value that it defines."""

    program: Program
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

    def sums(self, k: Axis) -> Value:
        """The loop that sums the product."""
        name, span, tile = self.program.accumulator.tensor.name, self.program.accumulator.span, (self.m, self.n)
        zero = self.constant(0.0)
        outside, self.ops = self.ops, []
        inside = self.value(tile, name, span=span)
        left, right = self.factor(self.program.a, k), self.factor(self.program.b, k)
        product = self.value(tile, span=span)
        self.ops.append(Product(product, left, right, k))
        update = self.map("add", (inside, product), name, span)
        result = self.value(tile, name, span=span)
        self.ops = [*outside, Loop(k, (Carry(zero, inside, update, result),), tuple(self.ops), span)]
        return result

    def factor(self, operand: Operand, k: Axis) -> Value:
        outer = self.m if operand.side is Side.A else self.n
        return self.load(operand.tensor, (k, outer) if operand.contraction_first else (outer, k))

    def load(self, tensor: Tensor, axes: tuple[Axis, ...]) -> Value:
        access = Access(tensor, tuple(Index(axis) for axis in axes))
        result = self.value(axes, tensor.name, dtype=tensor.dtype)
        self.ops.append(Load(result, access))
        return result

    def constant(self, number: float) -> Value:
        result = self.value(())
        self.ops.append(Constant(result, number))
        return result

    def given(self, factor: float | str | None) -> Value:
        """A number or a scalar; 1 where there is none."""
        if not isinstance(factor, str):
            return self.constant(1.0 if factor is None else factor)
        scalar = next(s for s in self.program.scalars if s.name == factor)
        result = self.value((), scalar.name)
        self.ops.append(Argument(result, scalar))
        return result

    def map(self, function: str, arguments: tuple[Value, ...], name: str = "", span: Span | None = None) -> Value:
        kind = Kind.PREDICATE if FUNCTIONS[function].predicate else Kind.NUMBER
        result = self.value(joined(*(a.axes for a in arguments)), name, kind, span=span)
        self.ops.append(Map(result, function, arguments))
        return result

    def step(self, step: EpilogueStep, value: Value) -> Value:
        """What a step of the epilogue makes of a value."""
        if step.function == "scale":
            return self.map("mul", (self.given(step.factor), value), span=step.span)
        if step.function == "clamp":
            return self.map("clamp", (value, self.given(step.factor), self.given(step.most)), span=step.span)
        if step.tensor is None:
            return self.map(step.function, (value,), span=step.span)
        tensor = step.tensor
        axes = (self.m, self.n) if len(tensor.dims) == 2 else (self.m if tensor.dims[0] == self.m.dim else self.n,)
        if step.function == "mul":
            return self.map("mul", (value, self.load(tensor, axes)), span=step.span)
        if step.factor == 0:  # as in BLAS, the tensor is not read: its NaNs do not matter
            return value
        if step.factor is None:
            return self.map("add", (value, self.load(tensor, axes)), span=step.span)
        factor = self.given(step.factor)
        addend = self.map("mul", (factor, self.load(tensor, axes)), span=step.span)
        added = self.map("add", (value, addend), span=step.span)
        if not isinstance(step.factor, str):
            return added
        read = self.map("ne", (factor, self.constant(0.0)), span=step.span)
        return self.map("where", (read, added, value), span=step.span)
