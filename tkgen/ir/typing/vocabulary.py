"""The words of equations: functions, reductions, constants."""

from __future__ import annotations

import math

from tkgen.ir.equations import Axis, Kind
from tkgen.ir.functions import FAST, FUNCTIONS
from tkgen.ir.resolve.names import Scope
from tkgen.ir.resolve.sizes import ELEMENTS
from tkgen.ir.typing.axes import LENGTH
from tkgen.syntax import ast

CONSTANTS = {"inf": math.inf, "LOG2E": math.log2(math.e)}
REDUCTIONS = tuple(f"{along}{what}" for along in ("row", "col") for what in ("sum", "max", "min", "mean"))
SCANS = {"cumsum": "sum", "cumprod": "prod", "cummax": "max", "cummin": "min"}  # and what they join by
SORTED = ("topk", "argtopk", "sort", "argsort", "argmax", "argmin")
LARGEST = "largest"  # `largest(fp8)`: the largest number of a type, on the target that the kernel is for
PLACE = "coordinate"  # `coordinate(D)`: the place along a dimension that is taken whole
BINARY = {f.operator: f for f in FUNCTIONS.values() if f.arity == 2}
UNARY = {f.operator: f for f in FUNCTIONS.values() if f.arity == 1}
CALLS = {f.name: f for f in FUNCTIONS.values() if not (f.operator or f.internal or f.fast_of)}
OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq", "and": "or", "or": "and"}
WORDS = {Kind.PREDICATE: "a truth", Kind.NUMBER: "a number", Kind.COORDINATE: "a coordinate"}
OF_AXES = (PLACE, LENGTH)  # what these take is the name of an axis
BUILT_IN = frozenset((*CALLS, *REDUCTIONS, *SCANS, *SORTED, *ELEMENTS, *OF_AXES, LARGEST, *CONSTANTS))


def fast_form(scope: Scope, node: ast.Call) -> str:
    """The name of the cheaper form of a function that follows `fast`; E200 where it has none."""
    word = node.name.id
    if word in FAST:
        return FAST[word]
    message = f"`{word}` has no cheaper form"
    if word not in CALLS:
        message = f"`fast` takes a function{' of the language' * (word in scope.functions)}, not `{word}`"
    raise scope.error(
        "E200", message, node.name.span, "it is no faster",
        fix=f"drop `fast`; these have one: {', '.join(FAST)}", known=() if word in CALLS else FAST,
    )  # fmt: skip


def axes_text(axes: tuple[Axis, ...]) -> str:
    """`[q, D]`."""
    return f"[{', '.join(a.name for a in axes)}]"
