"""All functions by name."""

from __future__ import annotations

from collections.abc import Mapping

from tkgen.ir.functions.model import Function

_MODULES: tuple[tuple[Function, ...], ...] = ()

FUNCTIONS: Mapping[str, Function] = {f.name: f for module in _MODULES for f in module}
