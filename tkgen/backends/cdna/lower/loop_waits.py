"""Wait states that the compiler misses after products of a loop: where `settle` must precede a branch.

The registers of an MFMA must not be touched for some wait states after it. LLVM's GCNHazardRecognizer enters each block
once while it searches for them: where two paths of different length meet, it may count those of the longer path alone
(docs/case-studies/wait-states.md). So no code branches while a result may be under way that could be used too early.

A result needs no `settle` in two cases, because the MFMAs of a kernel have one shape and end in order. First, something
before the branch uses it: a product that starts there, or what is kept. Second, everything that uses it also uses a
product that the kernel starts later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tkgen.ir.equations import Loop, Op, Value, reads
from tkgen.schedule.loops import LoopMap

Part = tuple[int, int]  # number, of how many
WHOLE: Part = (0, 1)
SETTLE = "tk::settle();"


class UnderWay:
    """Products whose results may be in flight at the next statement.

    `made` has the operation that defines each value, `users` the operations that read it.
    """

    def __init__(self, m: LoopMap, made: Mapping[Value, Op], users: Mapping[Value, Sequence[Op]]):
        self.made, self.users = made, users
        self.onto = {x.onto: x.result for x in m.multiplications}
        self.sums = {x.product.result: x.result for x in m.multiplications}
        aside = [*(x.product.result for x in m.exchanges), *(x.product.result for x in m.outside)]
        self.sums |= {value: value for value in aside}
        self.carries = m.loop.carries
        self.early = m.early.result if m.early is not None else None
        products = {x.result for x in m.multiplications} | set(aside)
        self.products = products - {self.early}
        self._here: set[tuple[Value | None, Part]] = set()  # multiplied since the last branch
        self._done: set[Value] = set()  # multiplied in this iteration
        self._before = False  # in the iteration before

    def multiply(self, value: Value | None, part: Part = WHOLE) -> None:
        """Note a product, or a part of its rows; None for one that belongs to the next iteration."""
        self._here.add((value, part))
        if value is not None and part[0] + 1 == part[1]:
            self._done.add(value)

    def store(self, value: Value) -> None:
        """Note that a result goes to memory, so it has arrived."""
        self._here.discard((value, WHOLE))

    def begin_iteration(self) -> None:
        """Enter the loop's body, after another iteration of it."""
        self._here.clear()
        self._done.clear()
        updates = {c.update for c in self.carries} & self.products
        self._before = self.early is not None or any(self._used_at_once(v) for v in updates)

    def before_branch(self, kept: Value | None = None, part: Part = WHOLE) -> Iterator[str]:
        """The statement that a branch needs before it, if any; `kept`, or a part of its rows, is computed by then."""
        needed = self._products_of([kept]) if kept is not None else set[Value]()
        arrived = {(v, p) for v, p in self._here if v in needed and part in (WHOLE, p)}
        factors = self._products_of(
            [f for v, p in self._here if v is not None and p == WHOLE for f in self._factors(v)]
        )
        left = [v for v, p in self._here - arrived if not (v in factors and p == WHOLE)]
        if any(v is None or self._used_at_once(v) for v in left) or (self._before and not arrived):
            yield SETTLE
        self._here.clear()
        self._before = False

    def _used_at_once(self, value: Value) -> bool:
        """Return True if something may use a result before the kernel needs a product that starts later."""
        users = self.users.get(value, [])
        return not users or any(self._uses_at_once(user, value) for user in users)

    def _uses_at_once(self, user: Op, value: Value) -> bool:
        if isinstance(user, Loop):  # the next iteration uses it
            inside = [c.inside for c in self.carries if c.update == value]
            return any(self._next_uses_at_once(op, v) for v in inside for op in self.users.get(v, []))
        return not self._products_of(reads(user)) - self._done - {value}

    def _next_uses_at_once(self, user: Op, inside: Value) -> bool:
        if isinstance(user, Loop):
            return True
        if inside in self.onto and self.onto[inside] in map(self._sum, self._results(user)):
            return False  # as what an MFMA adds to: the hardware waits
        return not self._products_of([v for v in reads(user) if v != inside])

    def _factors(self, value: Value) -> tuple[Value, ...]:
        """Operands of a product."""
        product = next(p for p, result in self.sums.items() if value in (p, result))
        return reads(self.made[product])

    def _results(self, op: Op) -> list[Value]:
        return [value for value, made in self.made.items() if made is op]

    def _sum(self, value: Value) -> Value:
        return self.sums.get(value, value)

    def _products_of(self, values: Sequence[Value]) -> set[Value]:
        """All products of this iteration from which `values` are computed."""
        seen, todo = set[Value](), list(values)
        while todo:
            value = todo.pop()
            made = self.made.get(value)
            if value not in seen and made is not None and not isinstance(made, Loop):
                seen.add(value)
                todo.extend(reads(made))
        return seen & self.products
