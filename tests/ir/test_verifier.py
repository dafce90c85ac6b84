"""The verifier passes the kernels there are, and finds every broken one: a kernel or more for each rule."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from equation_kernels import SPAN, Writer, attention, rmsnorm, softmax, swiglu

from tkgen.ir import verifier
from tkgen.ir.equations import (
    Argument,
    Axis,
    AxisKind,
    Bound,
    Convert,
    Coordinate,
    Kernel,
    Kind,
    Load,
    Loop,
    Map,
    Op,
    Product,
    Reduce,
    Scan,
    Sort,
    Store,
    When,
    walk,
)
from tkgen.ir.types import Dim, DType, ScalarArg, Tensor
from tkgen.ir.typing import typed
from tkgen.ir.verifier import Broken, verify
from tkgen.source import SourceFile
from tkgen.syntax.parser import parse

GOOD = {
    "softmax": softmax(),
    "rmsnorm": rmsnorm(),
    "swiglu": swiglu(),
    "attention": attention(),
    "full": attention(causal=False),
}


@pytest.mark.parametrize("name", GOOD)
def test_kernels_pass(name: str) -> None:
    assert verify(GOOD[name], "test") is GOOD[name]


def scan_of(op: Reduce, function: str, axis: Axis) -> Scan:
    """A scan in place of a reduction."""
    return Scan(replace(op.result, axes=op.argument.axes), function, axis, op.argument)


def sort_of(op: Reduce, function: str, axis: Axis, first: Axis | None) -> Sort:
    """A sort in place of a reduction."""
    return Sort(op.result, function, axis, op.argument, first)


def every(kernel: Kernel, change: Callable[[Op], Op | None]) -> Kernel:
    """With the first operation changed that `change` gives another one for."""
    done = False

    def body(ops: tuple[Op, ...]) -> tuple[Op, ...]:
        nonlocal done
        result = []
        for op in ops:
            changed = None if done else change(op)
            if changed is not None:
                done = True
                result.append(changed)
            else:
                result.append(replace(op, body=body(op.body)) if isinstance(op, Loop) else op)
        return tuple(result)

    changed = replace(kernel, body=body(kernel.body))
    assert done
    return changed


def on(kind: type, /, **fields: object) -> Callable[[Op], Op | None]:
    return lambda op: replace(op, **fields) if isinstance(op, kind) else None


def result(kind: type, /, **fields: object) -> Callable[[Op], Op | None]:
    """The operation's value changed, and nothing that uses it."""
    return lambda op: replace(op, result=replace(op.result, **fields)) if isinstance(op, kind) else None


def changed(
    kind: type, make: Callable[[Any], Op], where: Callable[[Any], bool] = lambda op: True
) -> Callable[[Op], Op | None]:
    return lambda op: make(op) if isinstance(op, kind) and where(op) else None


def mapped(function: str, make: Callable[[Any], Op]) -> Callable[[Op], Op | None]:
    return changed(Map, make, lambda op: op.function == function)


def target(**fields: object) -> Callable[[Op], Op | None]:
    """The last index of the first store."""

    def make(op: Store) -> Op:
        *rest, last = op.target.indices
        return replace(op, target=replace(op.target, indices=(*rest, replace(last, **fields))))

    return changed(Store, make)


def index(number: int, **fields: object) -> Callable[[Op], Op | None]:
    """One index of the first load."""

    def change(op: Op) -> Op | None:
        if not isinstance(op, Load) or number >= len(op.source.indices):
            return None
        indices = list(op.source.indices)
        indices[number] = replace(indices[number], **fields)
        return replace(op, source=replace(op.source, indices=tuple(indices)))

    return change


def carry(**fields: object) -> Callable[[Op], Op | None]:
    """The first carry of the loop; a field's value is a function of the carry."""

    def change(op: Op) -> Op | None:
        if not isinstance(op, Loop):
            return None
        first = replace(op.carries[0], **{n: f(op.carries[0]) for n, f in fields.items()})
        return replace(op, carries=(first, *op.carries[1:]))

    return change


def axis_of(kernel: Kernel, name: str, **fields: object) -> Kernel:
    """An axis changed wherever it stands."""
    old = next(a for a in kernel.axes if a.name == name)
    new = replace(old, **fields)

    def swap(x: object) -> object:
        if x == old:
            return new
        if isinstance(x, tuple):
            return tuple(swap(i) for i in x)
        if hasattr(x, "__dataclass_fields__") and not isinstance(x, Tensor | Dim):
            return replace(x, **{f: swap(getattr(x, f)) for f in x.__dataclass_fields__})
        return x

    changed = swap(kernel)
    assert isinstance(changed, Kernel)
    return changed


def beyond_the_loop(kernel: Kernel) -> Kernel:
    """The store takes what the last iteration defined."""
    inner = next(op for op in walk(kernel.body) if isinstance(op, Product))
    return every(kernel, lambda op: replace(op, value=inner.result) if isinstance(op, Store) else None)


def along_the_loop(kernel: Kernel) -> Kernel:
    """A coordinate of the loop, after it."""
    axis = next(a for a in kernel.axes if a.kind is AxisKind.SEQUENTIAL)
    w = Writer("late", {})
    w.count, w.axes = 1000, {axis.name: axis}
    w.coordinate(axis.name)
    return replace(kernel, body=(*kernel.body, *w.ops))


def stored_truth(kernel: Kernel) -> Kernel:
    """A kernel that stores, after the loop, if a sum is as it is."""
    *body, store = kernel.body
    assert isinstance(store, Store)
    w = Writer("truth", {})
    w.count, w.ops = 1000, body
    truth = w.map("eq", store.value, store.value)
    return replace(kernel, body=(*w.ops, replace(store, value=truth)))


def in_place() -> Kernel:
    """Each row's sum, stored where the first element stands that another reads."""
    w = Writer("in_place", {"M": 8, "N": 8})
    w.tensor("X", "f32", "M", "N")
    w.over("m", "M", 4)
    w.store("X", "m, 0", w.reduce("sum", "N", w.load("X", "m, N")))
    return w.kernel()


def half_as_far(op: Load) -> Load:
    """Divided by one less: past the end."""
    indices = tuple(replace(i, divisor=1 + i.divisor // 4) if i.divisor > 1 else i for i in op.source.indices)
    return replace(op, source=replace(op.source, indices=indices))


SOFTMAX, RMSNORM, SWIGLU, ATTENTION = (GOOD[n] for n in ("softmax", "rmsnorm", "swiglu", "attention"))
STRANGER = Axis("stranger", Dim("S", 4, SPAN), AxisKind.WHOLE)
STRANGE_LOOP = Axis("stranger", Dim("D", 96, SPAN), AxisKind.SEQUENTIAL, 8)
T, COLUMNS = SOFTMAX.axes
SOMETIMES = typed(parse(SourceFile("sometimes.tk", """kernel sometimes
  dims M = 64, N = 64
  global X : f32[M, N]
  global Y : f32[M, N]
  over m in M by 4
  waves 2
  x = X[m]
  when any(x > 4)
    x = x - rowmax(x)
  Y[m] = x
"""))).kernel  # fmt: skip
BROKEN: dict[str, tuple[str, Kernel]] = {
    "two tensors of a name": ("names", replace(SOFTMAX, tensors=(*SOFTMAX.tensors, SOFTMAX.tensors[0]))),
    "two axes of a name": ("names", replace(SOFTMAX, axes=(*SOFTMAX.axes, SOFTMAX.axes[0]))),
    "two scalars of a name": ("names", replace(RMSNORM, scalars=RMSNORM.scalars * 2)),
    "an axis of elsewhere": ("names", every(SOFTMAX, index(1, axis=STRANGER))),
    "a scalar of elsewhere": ("names", every(RMSNORM, on(Argument, scalar=ScalarArg("x", DType.F32, None, SPAN)))),
    "a tensor of elsewhere": ("names", replace(SOFTMAX, tensors=SOFTMAX.tensors[1:])),
    "a loop of elsewhere": ("names", every(SWIGLU, on(Loop, axis=STRANGE_LOOP))),
    "an empty tile": ("axis", axis_of(SOFTMAX, "t", tile=0)),
    "a whole axis in tiles": ("axis", axis_of(SOFTMAX, "COLUMNS", tile=8)),
    "a parallel axis that ends": ("axis", axis_of(SOFTMAX, "t", until=Bound("t"))),
    "an end at nothing": ("axis", axis_of(ATTENTION, "j", until=Bound("nothing"))),
    "an end at a whole axis": ("axis", axis_of(ATTENTION, "j", until=Bound("D"))),
    "a beginning at nothing": ("axis", axis_of(ATTENTION, "j", since=Bound("nothing", -3))),
    "defined twice": ("ssa", replace(SOFTMAX, body=(SOFTMAX.body[0], *SOFTMAX.body))),
    "used before": ("ssa", replace(SOFTMAX, body=SOFTMAX.body[1:])),
    "used as another": ("ssa", every(SOFTMAX, result(Load, kind=Kind.NUMBER, axes=(COLUMNS, T)))),
    "used beyond its loop": ("ssa", beyond_the_loop(SWIGLU)),
    "an update that is not there": ("ssa", every(SWIGLU, carry(update=lambda c: c.result))),
    "a loop over a whole axis": ("loop", axis_of(SWIGLU, "k", kind=AxisKind.WHOLE, tile=None)),
    "a place of the loop behind it": ("loop", along_the_loop(SWIGLU)),
    "a carry over fewer axes": (
        "carry",
        every(SWIGLU, carry(result=lambda c: replace(c.result, axes=c.result.axes[:1]))),
    ),
    "a carry of truths": ("carry", every(SWIGLU, carry(result=lambda c: replace(c.result, kind=Kind.PREDICATE)))),
    "a carry of bf16": ("carry", every(SWIGLU, carry(result=lambda c: replace(c.result, dtype=DType.BF16)))),
    "no function": ("arity", every(SOFTMAX, on(Map, function="nothing"))),
    "an argument too few": ("arity", every(SOFTMAX, mapped("sub", lambda op: replace(op, arguments=op.arguments[:1])))),
    "a number for a truth": (
        "kind",
        every(ATTENTION, mapped("where", lambda op: replace(op, arguments=op.arguments[1:2] * 3))),
    ),
    "a truth for a number": (
        "kind",
        every(ATTENTION, mapped("where", lambda op: replace(op, arguments=op.arguments[:1] * 3))),
    ),
    "a comparison of numbers": (
        "kind",
        every(ATTENTION, mapped("ge", lambda op: replace(op, result=replace(op.result, kind=Kind.NUMBER)))),
    ),
    "a coordinate as a number": ("kind", every(ATTENTION, result(Coordinate, kind=Kind.NUMBER))),
    "a load of truths": ("kind", every(SOFTMAX, result(Load, kind=Kind.PREDICATE))),
    "a truth that is stored": ("kind", stored_truth(ATTENTION)),
    "axes too few": (
        "axes",
        every(SOFTMAX, mapped("sub", lambda op: replace(op, result=replace(op.result, axes=(T,))))),
    ),
    "an axis twice": (
        "axes",
        every(SOFTMAX, mapped("sub", lambda op: replace(op, result=replace(op.result, axes=(T, COLUMNS, T))))),
    ),
    "a reduced axis that stays": ("axes", every(SOFTMAX, result(Reduce, axes=(T, COLUMNS)))),
    "a product's axis that stays": (
        "axes",
        every(ATTENTION, changed(Product, lambda op: replace(op, result=replace(op.result, axes=op.left.axes)))),
    ),
    "an index with an extent": ("axes", every(ATTENTION, result(Load, axes=ATTENTION.axes[:1]))),
    "a conversion over other axes": ("axes", every(ATTENTION, result(Convert, axes=ATTENTION.axes[2:3]))),
    "a load of another type": ("type", every(SOFTMAX, result(Load, dtype=DType.F16))),
    "a sum of another type": ("type", every(SOFTMAX, result(Reduce, dtype=DType.BF16))),
    "no reduction": ("reduction", every(SOFTMAX, on(Reduce, function="mean"))),
    "along what is not there": ("reduction", every(SOFTMAX, on(Reduce, axis=STRANGER))),
    "no scan": ("scan", every(SOFTMAX, changed(Reduce, lambda op: scan_of(op, "mean", op.axis)))),
    "a scan along what is not there": (
        "scan",
        every(SOFTMAX, changed(Reduce, lambda op: scan_of(op, "sum", STRANGER))),
    ),
    "no sort": ("sort", every(SOFTMAX, changed(Reduce, lambda op: sort_of(op, "sum", op.axis, None)))),
    "a sort along what is not there": (
        "sort",
        every(SOFTMAX, changed(Reduce, lambda op: sort_of(op, "values", STRANGER, None))),
    ),
    "first elements that the axes lack": (
        "axes",
        every(SOFTMAX, changed(Reduce, lambda op: sort_of(op, "values", op.axis, op.axis))),
    ),
    "first elements along an axis with tiles": (
        "sort",
        every(SOFTMAX, changed(Reduce, lambda op: sort_of(op, "values", op.axis, op.argument.axes[0]))),
    ),
    "a sum along one factor's axis": (
        "product",
        every(ATTENTION, changed(Product, lambda op: replace(op, axis=op.left.axes[0]))),
    ),
    "a product with itself": ("product", every(ATTENTION, changed(Product, lambda op: replace(op, right=op.left)))),
    "too few indices": (
        "rank",
        every(SOFTMAX, changed(Load, lambda op: replace(op, source=replace(op.source, indices=op.source.indices[:1])))),
    ),
    "one axis for two dimensions": ("rank", every(SOFTMAX, index(1, axis=T))),
    "an axis of another dimension": ("bounds", every(SWIGLU, index(1, axis=SWIGLU.axes[1]))),
    "a place beyond the end": ("bounds", every(SOFTMAX, index(1, axis=None, at=100))),
    "a place before the start": ("bounds", every(SOFTMAX, index(1, axis=None, at=-1))),
    "a quotient beyond the end": (
        "bounds",
        every(ATTENTION, changed(Load, half_as_far, lambda op: op.source.tensor.name == "K")),
    ),
    "divided by nothing": ("bounds", every(SOFTMAX, index(1, divisor=0))),
    "an axis without a place": ("place", every(SOFTMAX, target(axis=None))),
    "blocks that store in one place": ("place", every(ATTENTION, target(axis=None))),
    "read elsewhere than stored": ("memory", in_place()),
    "a store in a condition": (
        "when",
        every(SOMETIMES, changed(When, lambda op: replace(op, body=(*op.body, SOMETIMES.stores[0])))),
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_kernel_is_found(name: str) -> None:
    rule, kernel = BROKEN[name]
    with pytest.raises(Broken, match=r"after test: `.*` breaks the rule") as raised:
        verify(kernel, "test")
    assert raised.value.rule == rule, str(raised.value)


def test_every_rule_has_a_broken_kernel() -> None:
    stated = re.findall(r"^    (\w+)  +\S", verifier.__doc__ or "", re.MULTILINE)
    assert len(stated) == 18 and set(stated) == {rule for rule, _ in BROKEN.values()}
