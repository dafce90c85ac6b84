"""Terms: equal formulas are one number, and sums are multisets."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tkgen.proof.terms import Term, Terms


def test_the_same_function_of_the_same_terms_is_the_same_term() -> None:
    terms = Terms()
    a, b = terms.leaf("A", 0), terms.leaf("B", 0)
    assert terms.of("product", a, b) == terms.of("product", terms.leaf("A", 0), b)
    assert len({a, b, terms.of("product", a, b), terms.of("product", b, a), terms.of("max", a, b)}) == 5


def test_what_nobody_wrote_is_equal_to_nothing() -> None:
    terms = Terms()
    assert terms.unknown() != terms.unknown()


def test_a_sum_counts_how_often() -> None:
    terms = Terms()
    a, b = terms.leaf("a"), terms.leaf("b")
    assert terms.sum([a, b]) != terms.sum([a, b, b]) != terms.sum([a, a, b])
    assert terms.sum([a]) == a and terms.sum([]) not in (a, b)
    assert dict(terms.summands(terms.sum([a, b, b]))) == {a: 1, b: 2}


Tree = int | list["Tree"]
trees = st.recursive(st.integers(0, 3), lambda inner: st.lists(inner, max_size=3), max_leaves=12)


def summed(terms: Terms, tree: Tree) -> Term:
    return terms.leaf(tree) if isinstance(tree, int) else terms.sum([summed(terms, part) for part in tree])


def leaves(tree: Tree) -> list[int]:
    return [tree] if isinstance(tree, int) else [leaf for part in tree for leaf in leaves(part)]


@given(trees, trees)
@settings(max_examples=300, deadline=None)
def test_sums_are_equal_iff_they_sum_the_same(x: Tree, y: Tree) -> None:
    terms = Terms()
    assert (summed(terms, x) == summed(terms, y)) == (sorted(leaves(x)) == sorted(leaves(y)))
