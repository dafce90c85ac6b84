"""All functions by name: a new one is a module, and its place here. C++ that several share comes in this order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tkgen.ir.functions import (
    activations,
    arithmetic,
    comparison,
    dropout,
    exponential,
    powers,
    roots,
    selection,
    waves,
)
from tkgen.ir.functions.model import Function

_MODULES = (arithmetic, comparison, selection, exponential, powers, roots, activations, waves, dropout)

FUNCTIONS: Mapping[str, Function] = {f.name: f for module in _MODULES for f in module.FUNCTIONS}


def helpers(names: Iterable[str], back_end: str) -> tuple[str, ...]:
    """The C++ that these functions call, each definition once."""
    used = set(names)
    return tuple(dict.fromkeys(h for f in FUNCTIONS.values() if f.name in used for h in f.helpers.get(back_end, ())))
