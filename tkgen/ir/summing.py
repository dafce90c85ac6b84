"""Loops that do nothing but add sums along their own axis: one sum over all of it, whatever its order."""

from __future__ import annotations

from collections.abc import Sequence

from tkgen.ir.equations import Carry, Load, Loop, Map, Op, Product, Reduce, Scan, Sort, Store, When, reads, writes


def adds_to_carry(op: Op, carries: Sequence[Carry]) -> bool:
    """Return True if an operation is the sum that updates one of these carries."""
    return isinstance(op, Map) and op.function == "add" and any(op.result == c.update for c in carries)


def is_sums(loop: Loop) -> bool:
    """True if all that a loop does is to add sums along its own axis, each to a carry that nothing else reads."""
    made = {v.number: op for op in loop.body for v in writes(op)}
    apart = Store | Loop | When | Scan | Sort
    if loop.axis.bounds or loop.axis.is_index or any(isinstance(op, apart) for op in loop.body):
        return False
    loads = (op for op in loop.body if isinstance(op, Load))
    if any((i.of_tile or i.of_page) and i.axis == loop.axis for op in loads for i in op.source.indices):
        return False  # what is loaded by the tile is another number in each pass
    updates = {c.update for c in loop.carries}
    for op in loop.body:
        if isinstance(op, Product | Reduce) and op.axis == loop.axis:
            readers = [other for other in loop.body if op.result in reads(other)]
            if not all(updates.issuperset(writes(other)) for other in readers):
                return False  # something else is made of what a tile comes to, such as its maximum
    for c in loop.carries:
        update = made.get(c.update.number)
        readers = [op for op in loop.body if c.inside in reads(op)]
        if update is None or not adds_to_carry(update, (c,)) or readers != [update]:
            return False
        terms = [v for v in reads(update) if v != c.inside]
        term = made.get(terms[0].number) if len(terms) == 1 else None
        if not isinstance(term, Product | Reduce) or term.axis != loop.axis:
            return False
        if isinstance(term, Reduce) and (term.function != "sum" or loop.axis.part):
            return False
    return bool(loop.carries)
