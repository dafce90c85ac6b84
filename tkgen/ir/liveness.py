"""Liveness: the values of a kernel that reach a store, and the kernel without the others."""

from __future__ import annotations

from dataclasses import replace

from tkgen.ir.equations import Loop, Op, Store, When, reads, writes


def live(body: tuple[Op, ...]) -> set[int]:
    """The numbers of the values that some store depends on."""
    found: set[int] = set()
    while _backwards(body, found):  # a loop's carried value may keep another alive: until nothing is added
        pass
    return found


def _backwards(body: tuple[Op, ...], found: set[int]) -> bool:
    """Add what the operations need, last first; whether that was anything new."""
    before = len(found)
    for op in reversed(body):
        if isinstance(op, Loop):
            for carry in op.carries:
                if {carry.inside.number, carry.result.number} & found:
                    found |= {carry.update.number, carry.initial.number, carry.inside.number}
            _backwards(op.body, found)
        elif isinstance(op, When):
            wanted = [c for c in op.chosen if c.result.number in found]
            found |= {v.number for c in wanted for v in (c.update, c.otherwise)}
            found |= {op.condition.number} if wanted else set()
            _backwards(op.body, found)
        elif isinstance(op, Store) or any(v.number in found for v in writes(op)):
            found |= {v.number for v in reads(op)}
    return len(found) > before


def pruned(body: tuple[Op, ...]) -> tuple[Op, ...]:
    """The operations that some store depends on."""
    return _pruned(body, live(body))


def _pruned(body: tuple[Op, ...], alive: set[int]) -> tuple[Op, ...]:
    kept: list[Op] = []
    for op in body:
        if isinstance(op, Loop):
            carries = tuple(c for c in op.carries if c.inside.number in alive)
            inner = replace(op, carries=carries, body=_pruned(op.body, alive))
            kept += [inner] * bool(inner.body)
        elif isinstance(op, When):
            chosen = tuple(c for c in op.chosen if c.result.number in alive)
            kept += [replace(op, chosen=chosen, body=_pruned(op.body, alive))] * bool(chosen)
        elif isinstance(op, Store) or any(v.number in alive for v in writes(op)):
            kept.append(op)
    return tuple(kept)
