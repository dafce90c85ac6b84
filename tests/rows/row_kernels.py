"""Kernels of rows for tests: equations made by hand, and what a launch of theirs on the emulator gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import torch

from tkgen.backends.cdna import kittens
from tkgen.backends.cdna.lower.rows import RowLowering
from tkgen.emulate import Buffer, Outcome, Scalar, Struct, launch
from tkgen.ir.equations import (
    Access,
    Argument,
    Axis,
    AxisKind,
    Constant,
    Coordinate,
    Index,
    Kernel,
    Kind,
    Load,
    Map,
    Op,
    Reduce,
    Store,
    Value,
    joined,
)
from tkgen.ir.functions import FUNCTIONS
from tkgen.ir.meaning import Result, evaluate
from tkgen.ir.tensors import Dim, DType, ScalarArg, Tensor
from tkgen.schedule.rows import RowMap, map_rows
from tkgen.source import SourceFile, Span
from tkgen.targets import load_target
from tkgen.targets.model import Resources
from tkgen.toolchain.cache import default_cache
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.discover import find_compiler
from tkgen.toolchain.metadata import read_resources

TORCH = {DType.BF16: torch.bfloat16, DType.F16: torch.float16, DType.F32: torch.float32}
NOWHERE = Span(SourceFile("test.tk", ""), 0, 0)


@dataclass
class Builder:
    """Equations, one call each. Dimensions are sizes by name; None is one known only at run time."""

    name: str
    sizes: Mapping[str, int | None]
    tensors: dict[str, Tensor] = field(default_factory=dict)
    axes: dict[str, Axis] = field(default_factory=dict)
    scalars: list[ScalarArg] = field(default_factory=list)
    body: list[Op] = field(default_factory=list)
    values: int = 0

    def tensor(self, names: str, dtype: DType, *dims: str) -> None:
        """Tensors of one shape."""
        for name in names.split():
            self.tensors[name] = Tensor(name, dtype, tuple(Dim(d, self.sizes[d], NOWHERE) for d in dims), NOWHERE)

    def over(self, name: str, dim: str, by: int | None) -> None:
        """A parallel axis."""
        self.axes[name] = Axis(name, Dim(dim, self.sizes[dim], NOWHERE), AxisKind.PARALLEL, by)

    def value(self, axes: Sequence[Axis], name: str = "", kind: Kind = Kind.NUMBER) -> Value:
        """A new value."""
        self.values += 1
        return Value(self.values, tuple(axes), name, kind)

    def access(self, tensor: str, *indices: str | int) -> Access:
        """`X[t, 0]`; dimensions that are left out are taken whole."""
        found = []
        dims = self.tensors[tensor].dims
        for place, dim in enumerate(dims):
            index = indices[place] if place < len(indices) else dim.name
            if isinstance(index, int):
                found.append(Index(None, at=index))
            else:
                whole = Axis(index, dim, AxisKind.WHOLE)
                found.append(Index(self.axes.setdefault(index, whole)))
        return Access(self.tensors[tensor], tuple(found))

    def load(self, tensor: str, *indices: str | int, name: str = "") -> Value:
        """A tile of a tensor."""
        source = self.access(tensor, *indices)
        self.body.append(Load(self.value(source.axes, name), source))
        return self.body[-1].result

    def store(self, value: Value, tensor: str, *indices: str | int) -> None:
        """A tile of a tensor is written."""
        self.body.append(Store(self.access(tensor, *indices), value))

    def argument(self, name: str) -> Value:
        """A scalar of the launch."""
        self.scalars.append(ScalarArg(name, DType.F32, None, NOWHERE))
        self.body.append(Argument(self.value((), name), self.scalars[-1]))
        return self.body[-1].result

    def coordinate(self, axis: str) -> Value:
        """The places along an axis."""
        self.body.append(Coordinate(self.value((self.axes[axis],), "", Kind.COORDINATE), self.axes[axis]))
        return self.body[-1].result

    def map(self, function: str, *arguments: Value | float, name: str = "") -> Value:
        """A function of every element."""
        values = [a if isinstance(a, Value) else self._constant(a) for a in arguments]
        kind = Kind.PREDICATE if FUNCTIONS[function].predicate else Kind.NUMBER
        self.body.append(Map(self.value(joined(*(v.axes for v in values)), name, kind), function, tuple(values)))
        return self.body[-1].result

    def _constant(self, number: float) -> Value:
        self.body.append(Constant(self.value(()), float(number)))
        return self.body[-1].result

    def reduce(self, function: str, axis: str, value: Value, name: str = "") -> Value:
        """`sum`, `max` or `min` along an axis."""
        left = [a for a in value.axes if a.name != axis]
        self.body.append(Reduce(self.value(left, name), function, self.axes[axis], value))
        return self.body[-1].result

    def kernel(self) -> Kernel:
        """All of it."""
        lists = (self.tensors.values(), self.scalars, self.axes.values(), self.body)
        return Kernel(self.name, *map(tuple, lists))


def softmax(tokens: int | None, length: int, by: int, dtype: DType = DType.BF16) -> Kernel:
    """Y[t] = exp(X[t] - rowmax) / rowsum."""
    b = Builder("softmax", {"TOKENS": tokens, "D": length})
    b.tensor("X Y", dtype, "TOKENS", "D")
    b.over("t", "TOKENS", by)
    x = b.load("X", "t", name="x")
    m = b.reduce("max", "D", x, "m")
    p = b.map("exp", b.map("sub", x, m), name="p")
    b.store(b.map("div", p, b.reduce("sum", "D", p, "l")), "Y", "t")
    return b.kernel()


def rmsnorm(tokens: int | None, length: int, by: int, dtype: DType = DType.BF16) -> Kernel:
    """R[t] = x = X[t] + R[t]; Y[t] = x rsqrt(mean(x^2) + eps) W."""
    b = Builder("rmsnorm", {"TOKENS": tokens, "D": length})
    b.tensor("X R Y", dtype, "TOKENS", "D")
    b.tensor("W", dtype, "D")
    b.over("t", "TOKENS", by)
    x = b.map("add", b.load("X", "t"), b.load("R", "t"), name="x")
    b.store(x, "R", "t")
    mean = b.map("div", b.reduce("sum", "D", b.map("mul", x, x)), length)
    r = b.map("rsqrt", b.map("add", mean, b.argument("eps")), name="r")
    b.store(b.map("mul", b.map("mul", x, r), b.load("W")), "Y", "t")
    return b.kernel()


def layernorm(tokens: int | None, length: int, by: int, dtype: DType = DType.BF16) -> Kernel:
    """Y[t] = (x - mean) rsqrt(variance + 1e-5) W + B, and the means."""
    b = Builder("layernorm", {"TOKENS": tokens, "D": length})
    b.tensor("X Y", dtype, "TOKENS", "D")
    b.tensor("W B", dtype, "D")
    b.tensor("MEAN", DType.F32, "TOKENS")
    b.over("t", "TOKENS", by)
    x = b.load("X", "t", name="x")
    mean = b.map("div", b.reduce("sum", "D", x), length, name="mean")
    d = b.map("sub", x, mean, name="d")
    variance = b.map("div", b.reduce("sum", "D", b.map("mul", d, d)), length)
    r = b.map("rsqrt", b.map("add", variance, 1e-5), name="r")
    b.store(mean, "MEAN", "t")
    b.store(b.map("add", b.map("mul", b.map("mul", d, r), b.load("W")), b.load("B")), "Y", "t")
    return b.kernel()


def rotary(tokens: int, heads: int, half: int, by: tuple[int, int], dtype: DType = DType.BF16) -> Kernel:
    """Pairs (X[t, h, 0], X[t, h, 1]) turned by angles of t."""
    b = Builder("rotary", {"T": tokens, "H": heads, "TWO": 2, "HALF": half})
    b.tensor("X Y", dtype, "T", "H", "TWO", "HALF")
    b.tensor("COS SIN", DType.F32, "T", "HALF")
    b.over("t", "T", by[0])
    b.over("h", "H", by[1])
    x, y = (b.load("X", "t", "h", part) for part in (0, 1))
    c, s = b.load("COS", "t", name="c"), b.load("SIN", "t", name="s")
    b.store(b.map("sub", b.map("mul", x, c), b.map("mul", y, s)), "Y", "t", "h", 0)
    b.store(b.map("add", b.map("mul", y, c), b.map("mul", x, s)), "Y", "t", "h", 1)
    return b.kernel()


def elementwise(rows: int, cols: int, by: tuple[int, int], dtype: DType = DType.BF16) -> Kernel:
    """Y = silu(X) G."""
    b = Builder("elementwise", {"M": rows, "N": cols})
    b.tensor("X G Y", dtype, "M", "N")
    b.over("m", "M", by[0])
    b.over("n", "N", by[1])
    b.store(b.map("mul", b.map("silu", b.load("X", "m", "n")), b.load("G", "m", "n")), "Y", "m", "n")
    return b.kernel()


def transpose(rows: int, cols: int, by: tuple[int, int], dtype: DType = DType.BF16) -> Kernel:
    """Y = X, transposed."""
    b = Builder("transpose", {"M": rows, "N": cols})
    b.tensor("X", dtype, "M", "N")
    b.tensor("Y", dtype, "N", "M")
    b.over("m", "M", by[0])
    b.over("n", "N", by[1])
    b.store(b.load("X", "m", "n"), "Y", "n", "m")
    return b.kernel()


def columns(rows: int, cols: int, by: int, dtype: DType = DType.BF16) -> Kernel:
    """S[c] = colsum(X[c]): what lies side by side in memory belongs to several rows of the layout."""
    b = Builder("columns", {"ROWS": rows, "COLS": cols})
    b.tensor("X", dtype, "ROWS", "COLS")
    b.tensor("S", DType.F32, "COLS")
    b.over("c", "COLS", by)
    b.store(b.reduce("sum", "ROWS", b.load("X", "ROWS", "c")), "S", "c")
    return b.kernel()


@dataclass(frozen=True)
class Launched:
    """Tensors after one launch, and its findings."""

    layout: RowMap
    text: str
    resources: Resources
    tensors: dict[str, torch.Tensor]
    outcome: Outcome
    meaning: dict[str, Result]


def made(kernel: Kernel, waves: int, target: str) -> tuple[RowMap, str, bytes, Resources]:
    """The layout of a kernel, its source and its machine code."""
    machine = load_target(target)
    layout = map_rows(kernel, waves, machine)
    text = RowLowering(layout).source(machine).text
    result = compile_device(
        text, machine, find_compiler(machine), include_dirs=[kittens.include_dir()], cache=default_cache()
    )
    assert result.hsaco is not None
    return layout, text, result.hsaco, next(iter(read_resources(result.hsaco).values()))


def emulate(
    kernel: Kernel,
    waves: int,
    inputs: Mapping[str, torch.Tensor],
    scalars: Sequence[float] = (),
    target: str = "gfx942",
    extents: Mapping[str, int] | None = None,
) -> Launched:
    """Build `kernel` and run it under the referee; outputs begin as NaN. `extents` are those of dynamic dimensions."""
    layout, text, hsaco, resources = made(kernel, waves, target)
    sizes = {d.name: d.size or (extents or {})[d.name] for t in kernel.tensors for d in t.dims}
    tensors = {
        t.name: inputs[t.name].clone()
        if t.name in inputs
        else torch.full([sizes[d.name] for d in t.dims], torch.nan, dtype=TORCH[t.dtype])
        for t in kernel.tensors
    }
    members: list[Buffer | Scalar] = []
    for t in kernel.tensors:
        members.append(Buffer(tensors[t.name], t.name))
        members += [Scalar("u64", sizes[d.name]) for d in t.dims if d.size is None]
    members += [*(Scalar("f32", s) for s in scalars), Scalar("u64", 0)]
    blocks = prod(-(-sizes[a.dim.name] // (a.tile or 1)) for a in kernel.axes if a.kind is AxisKind.PARALLEL)
    outcome = launch(
        hsaco,
        kernel=resources.kernel,
        grid=(blocks, 1, 1),
        block=(layout.threads, 1, 1),
        args=[Struct(members)],
        watch=True,
        poison=True,
    )
    names = (s.name for s in kernel.scalars)
    meaning = evaluate(kernel, inputs, dict(zip(names, scalars, strict=True)))
    return Launched(layout, text, resources, tensors, outcome, meaning)
