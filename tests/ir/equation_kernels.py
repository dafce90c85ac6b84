"""Kernels of equations, put together by hand: what the tests of the IR are about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tkgen.ir.equations import (
    Access,
    Argument,
    Axis,
    AxisKind,
    Bound,
    Carry,
    Constant,
    Convert,
    Coordinate,
    Index,
    Kernel,
    Kind,
    Load,
    Loop,
    Map,
    Op,
    Product,
    Reduce,
    Store,
    Update,
    Value,
    joined,
)
from tkgen.ir.functions import FUNCTIONS
from tkgen.ir.types import Dim, DType, ScalarArg, Tensor
from tkgen.source import SourceFile, Span

SPAN = Span(SourceFile("test.tk", ""), 0, 0)


@dataclass
class Writer:
    """Writes a kernel: each method adds an operation and gives its value."""

    name: str
    dims: Mapping[str, int | None]
    tensors: dict[str, Tensor] = field(default_factory=dict)
    scalars: list[ScalarArg] = field(default_factory=list)
    axes: dict[str, Axis] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    count: int = 0

    def value(
        self, axes: tuple[Axis, ...], kind: Kind = Kind.NUMBER, dtype: DType = DType.F32, name: str = ""
    ) -> Value:
        self.count += 1
        return Value(self.count, axes, name, kind, dtype)

    def dim(self, name: str) -> Dim:
        return Dim(name, self.dims[name], SPAN)

    def tensor(self, name: str, dtype: str, *dims: str) -> None:
        self.tensors[name] = Tensor(
            name, DType(next(d for d in DType if d.spelling == dtype)), tuple(map(self.dim, dims)), SPAN
        )

    def over(self, name: str, dim: str, tile: int | None = None) -> Axis:
        return self.axis(Axis(name, self.dim(dim), AxisKind.PARALLEL, tile))

    def each(self, name: str, dim: str, tile: int | None = None, until: str | None = None) -> Axis:
        end = None if until is None else Bound(until)
        return self.axis(Axis(name, self.dim(dim), AxisKind.SEQUENTIAL, tile, until=end))

    def axis(self, axis: Axis) -> Axis:
        return self.axes.setdefault(axis.name, axis)

    def access(self, name: str, places: str) -> Access:
        """`b, h / 2, q, D`: axes by name, dimensions that are taken whole, numbers."""
        indices = []
        for text, dim in zip(places.split(","), self.tensors[name].dims, strict=True):
            at, _, divisor = (part.strip() for part in text.partition("/"))
            if at.isdecimal():
                indices.append(Index(None, 1, int(at)))
            else:
                axis = self.axes.get(at) or self.axis(Axis(at, dim, AxisKind.WHOLE))
                indices.append(Index(axis, int(divisor or 1)))
        return Access(self.tensors[name], tuple(indices))

    def load(self, name: str, places: str) -> Value:
        access = self.access(name, places)
        result = self.value(access.axes, dtype=access.tensor.dtype, name=name)
        self.ops.append(Load(result, access))
        return result

    def store(self, name: str, places: str, value: Value, adds: bool = False) -> None:
        update = Update.ADD if adds else Update.SET
        self.ops.append(Store(self.access(name, places), value, update))

    def number(self, value: float) -> Value:
        result = self.value(())
        self.ops.append(Constant(result, value))
        return result

    def whole(self, value: int) -> Value:
        result = self.value((), Kind.COORDINATE)
        self.ops.append(Constant(result, value))
        return result

    def scalar(self, name: str) -> Value:
        argument = ScalarArg(name, DType.F32, None, SPAN)
        self.scalars.append(argument)
        result = self.value(())
        self.ops.append(Argument(result, argument))
        return result

    def coordinate(self, axis: str) -> Value:
        result = self.value((self.axes[axis],) if not self.axes[axis].is_index else (), Kind.COORDINATE)
        self.ops.append(Coordinate(result, self.axes[axis]))
        return result

    def map(self, function: str, *given: Value | float) -> Value:
        arguments = tuple(a if isinstance(a, Value) else self.number(a) for a in given)
        f = FUNCTIONS[function]
        whole = f.whole and all(a.kind is Kind.COORDINATE for a in arguments)
        kind = Kind.PREDICATE if f.predicate else Kind.COORDINATE if whole else Kind.NUMBER
        result = self.value(joined(*(a.axes for a in arguments)), kind)
        self.ops.append(Map(result, function, arguments))
        return result

    def convert(self, value: Value, dtype: DType) -> Value:
        result = self.value(value.axes, dtype=dtype)
        self.ops.append(Convert(result, value))
        return result

    def reduce(self, function: str, axis: str, value: Value) -> Value:
        result = self.value(tuple(a for a in value.axes if a.name != axis))
        self.ops.append(Reduce(result, function, self.axes[axis], value))
        return result

    def product(self, axis: str, left: Value, right: Value) -> Value:
        result = self.value(tuple(a for a in (*left.axes, *right.axes) if a.name != axis))
        self.ops.append(Product(result, left, right, self.axes[axis]))
        return result

    def loop(self, axis: Axis, start: list[tuple[float, str]], body: Callable[..., list[Value]]) -> list[Value]:
        """`start` has numbers and axes of the carried values, `body` gets those and gives their updates."""
        initial = [self.number(number) for number, _ in start]
        outside, self.ops = self.ops, []
        inside = [self.value(tuple(self.axes[a] for a in axes.split())) for _, axes in start]
        updates = body(*inside)
        carries = []
        for first, within, update in zip(initial, inside, updates, strict=True):
            carries.append(Carry(first, within, update, self.value(update.axes)))
        loop = Loop(axis, tuple(carries), tuple(self.ops))
        self.ops = [*outside, loop]
        return [c.result for c in carries]

    def kernel(self) -> Kernel:
        return Kernel(
            self.name, tuple(self.tensors.values()), tuple(self.scalars), tuple(self.axes.values()), tuple(self.ops)
        )


def softmax(rows: int | None = 37, columns: int | None = 100, dtype: str = "bf16") -> Kernel:
    w = Writer("softmax", {"ROWS": rows, "COLUMNS": columns})
    w.tensor("X", dtype, "ROWS", "COLUMNS")
    w.tensor("Y", dtype, "ROWS", "COLUMNS")
    w.over("t", "ROWS", 4)
    x = w.load("X", "t, COLUMNS")
    p = w.map("exp", w.map("sub", x, w.reduce("max", "COLUMNS", x)))
    w.store("Y", "t, COLUMNS", w.map("div", p, w.reduce("sum", "COLUMNS", p)))
    return w.kernel()


def rmsnorm(rows: int = 37, columns: int = 96) -> Kernel:
    """With a residual that is added first and kept."""
    w = Writer("rmsnorm", {"TOKENS": rows, "D": columns})
    for name, dtype in (("X", "bf16"), ("R", "bf16"), ("Y", "bf16")):
        w.tensor(name, dtype, "TOKENS", "D")
    w.tensor("W", "bf16", "D")
    w.over("t", "TOKENS", 4)
    x = w.map("add", w.load("X", "t, D"), w.load("R", "t, D"))
    w.store("R", "t, D", x)
    mean = w.map("mul", w.reduce("sum", "D", w.map("mul", x, x)), 1 / columns)
    scaled = w.map("mul", x, w.map("rsqrt", w.map("add", mean, w.scalar("eps"))))
    w.store("Y", "t, D", w.map("mul", scaled, w.load("W", "D")))
    return w.kernel()


def swiglu(m: int = 70, n: int = 50, k: int = 96, step: int = 32) -> Kernel:
    """Two products of one X, one output."""
    w = Writer("swiglu", {"TOKENS": m, "HIDDEN": n, "D": k})
    for name, *dims in (("X", "TOKENS", "D"), ("G", "HIDDEN", "D"), ("U", "HIDDEN", "D"), ("Y", "TOKENS", "HIDDEN")):
        w.tensor(name, "bf16", *dims)
    w.over("m", "TOKENS", 32)
    w.over("n", "HIDDEN", 32)
    k_axis = w.each("k", "D", step)

    def body(g: Value, u: Value) -> list[Value]:
        x = w.load("X", "m, k")
        return [w.map("add", s, w.product("k", x, w.load(name, "n, k"))) for s, name in ((g, "G"), (u, "U"))]

    g, u = w.loop(k_axis, [(0.0, "m n"), (0.0, "m n")], body)
    w.store("Y", "m, n", w.map("mul", w.map("silu", g), u))
    return w.kernel()


def attention(length: int = 200, keys: int = 0, *, causal: bool = True, masked: bool = True, heads: int = 4) -> Kernel:
    """Flash attention with grouped heads; `masked`: the diagonal blocks are masked."""
    w = Writer(
        "attention", {"BATCH": 2, "HEADS": heads, "KV": heads // 2, "LENGTH": length, "KEYS": keys or length, "D": 32}
    )
    w.tensor("Q", "bf16", "BATCH", "HEADS", "LENGTH", "D")
    w.tensor("K", "bf16", "BATCH", "KV", "KEYS", "D")
    w.tensor("V", "bf16", "BATCH", "KV", "KEYS", "D")
    w.tensor("O", "bf16", "BATCH", "HEADS", "LENGTH", "D")
    w.tensor("LSE", "f32", "BATCH", "HEADS", "LENGTH")
    w.over("b", "BATCH")
    w.over("h", "HEADS")
    w.over("q", "LENGTH", 64)
    j = w.each("j", "KEYS", 32, "q" if causal else None)
    query = w.load("Q", "b, h, q, D")
    scale = w.scalar("scale")
    w.axis(Axis("e", w.dim("D"), AxisKind.WHOLE))

    def body(m: Value, total: Value, o: Value) -> list[Value]:
        s = w.map("mul", scale, w.product("D", query, w.load("K", "b, h / 2, j, D")))
        if causal and masked:
            s = w.map("where", w.map("ge", w.coordinate("q"), w.coordinate("j")), s, float("-inf"))
        n = w.map("max", m, w.reduce("max", "j", s))
        p = w.map("exp", w.map("sub", s, n))
        r = w.map("exp", w.map("sub", m, n))
        product = w.product("j", w.convert(p, DType.BF16), w.load("V", "b, h / 2, j, e"))
        return [
            n,
            w.map("add", w.map("mul", total, r), w.reduce("sum", "j", p)),
            w.map("add", w.map("mul", o, r), product),
        ]

    start = [(float("-inf"), "q"), (0.0, "q"), (0.0, "q e")]
    m, total, o = w.loop(j, start, body)
    w.store("O", "b, h, q, e", w.map("div", o, total))
    w.store("LSE", "b, h, q", w.map("add", m, w.map("log", total)))
    return w.kernel()
