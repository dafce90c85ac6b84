"""Values of an epilogue that several of its statements use: computed once, and kept where a sum was.

A statement reduces or stores a value, and computes what that is made of. What a later one needs, too, takes the place
of a sum in its register tiles as soon as nothing needs the sum itself any more, nor what had taken its place before: x
of a norm the place of the sum that the residual was added to, e = exp(s - rowmax(s)) that of s. So a matrix is loaded
once, and no register is needed for it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tkgen.ir.equations import Kind, Op, Reduce, Store, Value, reads
from tkgen.ir.products import Sums, needed
from tkgen.ir.tensors import DType


@dataclass(frozen=True)
class Statement:
    """Statement of an epilogue: `held` are the contents of each sum's tiles by then, `keeps` the values they get
    before.

    In the order in which they get it, as (the sum's name, the value).
    """

    op: Reduce | Store
    held: Mapping[str, Value]
    keeps: tuple[tuple[str, Value], ...]


def statements(equations: Sums) -> tuple[Statement, ...]:
    """The statements of an epilogue in their order, round by round, then what is stored."""
    ops: list[Reduce | Store] = [r for each in equations.rounds for r in each]
    ops += equations.stores
    values = [op.value if isinstance(op, Store) else op.argument for op in ops]
    held = {s.name: s.result for s in equations.sums}
    found = []
    for number, op in enumerate(ops):
        before, keeps = dict(held), list[tuple[str, Value]]()
        while kept := _kept(equations, held, values[number:]):
            held[kept[0]] = kept[1]
            keeps.append(kept)
        found.append(Statement(op, before, tuple(keeps)))
    return tuple(found)


def _kept(equations: Sums, held: Mapping[str, Value], values: Sequence[Value]) -> tuple[str, Value] | None:
    """A value of the first of `values` that others of them need, too, and the sum whose place it can take."""
    axes, ops, known = {equations.rows, equations.cols}, equations.epilogue, held.values()
    later = {op.result for op in needed(ops, *values[1:], known=known)}  # type: ignore[union-attr]
    for op in reversed(needed(ops, values[0], known=known)):
        value = op.result  # type: ignore[union-attr]
        number = value.kind is Kind.NUMBER and value.dtype is DType.F32
        if value in later and number and set(value.axes) == axes:
            for name, before in held.items():
                others = {v for n, v in held.items() if n != name} | {value}
                if before not in values and not _reads(needed(ops, *values, known=others), before):
                    return name, value
    return None


def _reads(ops: Collection[Op], value: Value) -> bool:
    return any(value in reads(op) for op in ops)
