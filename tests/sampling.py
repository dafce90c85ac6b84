"""Samples of sweeps: some members run by default, all of them with `-m slow`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def sample(values: Iterable[Any], every: int, first: int = 0, several: bool = False) -> list[Any]:
    """Parameters of which each `every`-th, from number `first` on, runs by default; the others are slow.

    `several`: each is a tuple of the values of several parameters.
    """
    values = [value if several else (value,) for value in values]
    return [pytest.param(*value) if n % every == first else slow(*value) for n, value in enumerate(values)]


def only(values: Iterable[Any], some: Collection[Any]) -> list[Any]:
    """Parameters of which `some` run by default; the others are slow."""
    values = list(values)
    assert not [value for value in some if value not in values], "a sample of what is not there"
    return [value if value in some else slow(value) for value in values]


def slow(*values: Any) -> Any:
    """The value of a parameter, or those of several, with which a test is slow."""
    return pytest.param(*values, marks=pytest.mark.slow)
