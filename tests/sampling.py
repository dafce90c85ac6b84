"""Samples of sweeps: some members run by default, all of them with `-m slow`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def sample(values: Iterable[Any], every: int, first: int = 0) -> list[Any]:
    """Parameters of which each `every`-th, from number `first` on, runs by default; the others are slow."""
    return [value if n % every == first else slow(value) for n, value in enumerate(values)]


def only(values: Iterable[Any], some: Collection[Any]) -> list[Any]:
    """Parameters of which `some` run by default; the others are slow."""
    values = list(values)
    assert not [value for value in some if value not in values], "a sample of what is not there"
    return [value if value in some else slow(value) for value in values]


def slow(value: Any) -> Any:
    """A parameter, or a tuple of several, that runs with `-m slow` alone."""
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.slow)
