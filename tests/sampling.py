"""Samples of sweeps: some members run by default, all of them with `-m slow`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

Parameters = type(pytest.param())


def sample(values: Iterable[Any], every: int, first: int = 0, several: bool = False) -> list[Any]:
    """Parameters of which each `every`-th, from number `first` on, runs by default; the others are slow.

    `several`: each is a tuple of the values of several parameters. Those that are slow already are not counted.
    """
    found, number = [], 0
    for value in values:
        made = value if isinstance(value, Parameters) else pytest.param(*(value if several else (value,)))
        if not any(mark.name == "slow" for mark in made.marks):
            if number % every != first:
                made = pytest.param(*made.values, marks=[*made.marks, pytest.mark.slow], id=made.id)
            number += 1
        found.append(made)
    return found


def only(values: Iterable[Any], some: Collection[Any]) -> list[Any]:
    """Parameters of which `some` run by default; the others are slow."""
    values = list(values)
    assert not [value for value in some if value not in values], "a sample of what is not there"
    return [value if value in some else slow(value) for value in values]


def slow(*values: Any) -> Any:
    """The value of a parameter, or those of several, with which a test is slow."""
    return pytest.param(*values, marks=pytest.mark.slow)
