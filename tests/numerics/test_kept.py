"""References are computed once for all orders of the waves, and anew for whatever else decides them."""

from __future__ import annotations

from pathlib import Path

import pytest

import tkgen
from tkgen.emulate import interleavings
from tkgen.execute import compare, launch
from tkgen.execute.compare import Inputs
from tkgen.execute.launch import kept, run

SPEC = Path(__file__).parents[2] / "specs" / "alpha_beta.tk"
SIZES: dict[str, int | None] = {"M": 128, "N": 128, "K": 64}


def test_references_are_made_once_for_each_input(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def references(*given: object, **more: object) -> dict[str, compare.Reference]:
        made.append(given)
        return compare.references(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(launch, "references", references)
    build = tkgen.load(SPEC, SIZES).check().build()
    scalars = {"alpha": 0.75, "beta": 0.5}
    for order in interleavings(3):
        for kind in Inputs:
            assert run(build, kind=kind, order=order, scalars=scalars).ok  # type: ignore[arg-type]
    assert len(made) == len(Inputs)
    others = [{"seed": 1}, {"scalars": scalars | {"beta": 2.0}}, {"kind": Inputs.NORMAL, "seed": 1}]
    for number, other in enumerate(others, 1):
        assert run(build, **{"scalars": scalars} | other).ok  # type: ignore[arg-type]
        assert len(made) == len(Inputs) + number
    assert run(tkgen.load(SPEC, SIZES).check().build(), scalars=scalars).ok  # type: ignore[arg-type]
    assert len(made) == len(Inputs) + len(others) + 1, "another program, however equal"


def test_zeros_of_both_signs_are_two_numbers() -> None:
    """A kernel may divide by them."""
    of, made = object(), []

    def make(number: float) -> dict[str, compare.Reference]:
        made.append(number)
        return {}

    for number in (0.0, -0.0, 0.0, -0.0):
        kept(of, ("alpha", number), lambda number=number: make(number))  # type: ignore[misc]
    assert str(made) == "[0.0, -0.0]"


def test_what_is_large_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr("tkgen.execute.launch._MOST", 10)
    of, made = object(), []

    def make(size: int) -> dict[str, compare.Reference]:
        made.append(size)
        return {"Y": (torch.zeros(size), torch.zeros(size))}

    for size in (10, 10, 11, 11):
        assert len(kept(of, size, lambda size=size: make(size))["Y"][0]) == size  # type: ignore[misc]
    assert made == [10, 11, 11]
