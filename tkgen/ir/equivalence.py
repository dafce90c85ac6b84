"""A check of passes over equations: rewritten equations store what the equations before them store.

Each value is the text of the operation that computes it, with the values that this reads in the same form; texts of
both kernels are numbered by one table. A value that a loop carries, or a condition chooses, is known by its number,
which passes keep; the values that it is made of are compared, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tkgen.ir.equation_text import access_text, axis_text, op_text
from tkgen.ir.equations import Kernel, Loop, Op, Store, Value, When, reads
from tkgen.ir.substitution import Named, substituted


def difference(before: Kernel, after: Kernel) -> str | None:
    """The first store, or value of a loop or condition, that is another one after the rewriting; None without any."""
    if before.body == after.body:
        return None
    texts = dict[str, int]()
    old, new = (dict(_facts(kernel.body, {}, texts, "")) for kernel in (before, after))
    stores = [[fact for fact in facts if fact.startswith("store")] for facts in (old, new)]
    if stores[0] != stores[1]:
        return next((s for s in stores[0] if s not in stores[1]), "the order of stores")
    return next((fact for fact, value in new.items() if old.get(fact) != value), None)


def _facts(
    body: tuple[Op, ...], known: dict[int, int], texts: dict[str, int], inside: str
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Each store, and each value that a loop or condition gives: what it is, and the numbers of its values."""

    def of(value: Value) -> int:
        return known.get(value.number, -1 - value.number)

    for op in body:
        if isinstance(op, Loop):
            yield from _facts(op.body, known, texts, f"{inside} each {axis_text(op.axis)} ")
            for c in op.carries:
                yield f"carry %{c.inside.number} -> %{c.result.number}", (of(c.initial), of(c.update))
        elif isinstance(op, When):
            yield from _facts(op.body, known, texts, f"{inside} when {of(op.condition)} ")
            for chosen in op.chosen:
                yield f"chosen %{chosen.result.number}", (of(op.condition), of(chosen.update), of(chosen.otherwise))
        elif isinstance(op, Store):
            yield f"store {access_text(op.target)}, {op.update}, {op.distinct}{inside}", (of(op.value),)
        else:
            plain: dict[Named, Named] = {v: Value(of(v), v.axes, "", v.kind, v.dtype) for v in reads(op)}
            anonymous = replace(substituted(op, plain), result=replace(op.result, number=0, name=""))
            known[op.result.number] = texts.setdefault(op_text(anonymous), len(texts))
