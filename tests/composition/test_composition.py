"""Each cell of the table feature x kernel: `tkgen check` accepts it, or refuses it with the code of the table."""

from __future__ import annotations

import pytest
from cells import KINDS, PAGE, TARGETS, Cell, cells, page

from tkgen.api import load
from tkgen.diagnostics import Severity, SpecError

CELLS = cells()


def verdict(text: str, target: str) -> set[str]:
    """The codes of all errors of a spec for a target; empty where it is accepted."""
    try:
        load(text, target=target).check()
    except SpecError as error:
        return {d.code for d in error.diagnostics if d.severity is Severity.ERROR}
    return set()


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_a_cell_is_accepted_or_refused_as_the_table_says(cell: Cell) -> None:
    wanted = {t: {r.code} if (r := cell.refusals.get(t)) else set() for t in cell.specs}
    assert {target: verdict(text, target) for target, text in cell.specs.items()} == wanted


def test_every_cell_has_a_spec_or_a_reason() -> None:
    for cell in CELLS:
        assert cell.specs.keys() | cell.refusals.keys() == set(TARGETS), cell.name
        assert all(refusal.kind in KINDS and refusal.reason for refusal in cell.refusals.values()), cell.name


def test_no_two_cells_are_the_same_spec() -> None:
    """A change that changes nothing would make a cell of its kernel alone."""
    for target in TARGETS:
        specs = [cell.specs[target] for cell in CELLS if cell.specs]
        assert len(set(specs)) == len(specs), target


def test_the_page_is_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python tests/composition/cells.py"
