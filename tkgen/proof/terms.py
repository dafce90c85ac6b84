"""Terms: what a tile holds, as a formula of what was loaded; equal formulas are one number.

A program whose accesses are ordered as its meaning requires (`tkgen.proof.faults`) computes the same in every
interleaving. So one run decides what it computes, and the run may be one over terms in place of numbers: each operation
makes the term of its results from those of its arguments. A stored value is right iff its term is that of the
equations. That one comparison says that every product is summed once and no other, that sums begin at zero, that
registers, staging and buffers hold what is taken from them, that everything is stored, and once.

Terms are hash-consed (Ershov, "On programming of arithmetic operations", 1958; Filliâtre and Conchon, "Type-safe
modular hash-consing", 2006): the same function of the same terms is the same number, so comparison is that of numbers,
and a run costs a look-up an operation. Functions are taken as they are, without their laws, except for sums: the
schedule may sum in any order, so a sum is the multiset of what is summed, with the sums within it spread out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping

Term = int


class Terms:
    """The terms of one comparison."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, Term] = {}
        self._summands: dict[Term, Mapping[Term, int]] = {}
        self._formulas: list[tuple[Hashable, ...]] = []

    def leaf(self, *what: Hashable) -> Term:
        """Something that is there from the beginning."""
        return self._term(("leaf", *what))

    def unknown(self) -> Term:
        """Return a new term for an unknown value: it equals nothing else."""
        return self._term(("unknown", len(self._formulas)))

    def of(self, function: Hashable, *arguments: Term) -> Term:
        """A function of terms, whose arguments have an order."""
        return self._term(("of", function, *arguments))

    def sum(self, summands: Mapping[Term, int] | Iterable[Term]) -> Term:
        """The sum of terms, each as often as it stands there."""
        flat: Counter[Term] = Counter()
        for term, times in Counter(summands).items():
            for inner, count in self._summands.get(term, {term: 1}).items():
                flat[inner] += count * times
        if flat.total() == 1:
            return next(iter(flat.elements()))
        term = self._term(("sum", frozenset(flat.items())))
        self._summands[term] = flat
        return term

    def summands(self, term: Term) -> Mapping[Term, int]:
        """Return the summands of a sum with their counts; another term is the sum of itself."""
        return self._summands.get(term, {term: 1})

    def formula(self, term: Term) -> tuple[Hashable, ...]:
        """Return the origin of a term: `leaf`, `unknown`, `of` or `sum`, and its arguments."""
        return self._formulas[term]

    def _term(self, formula: tuple[Hashable, ...]) -> Term:
        number = self._numbers.setdefault(formula, len(self._formulas))
        if number == len(self._formulas):
            self._formulas.append(formula)
        return number
