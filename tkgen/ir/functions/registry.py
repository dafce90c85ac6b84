"""All functions by name, of every module of `definitions/`, in the order of their positions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tkgen.ir.functions import definitions
from tkgen.ir.functions.model import Function
from tkgen.packages import modules_of

_MODULES = sorted(modules_of(definitions), key=lambda module: module.POSITION)

FUNCTIONS: Mapping[str, Function] = {f.name: f for module in _MODULES for f in module.FUNCTIONS}


def helpers(names: Iterable[str], back_end: str) -> tuple[str, ...]:
    """The C++ that these functions call, each definition once."""
    used = set(names)
    return tuple(dict.fromkeys(h for f in FUNCTIONS.values() if f.name in used for h in f.helpers.get(back_end, ())))
