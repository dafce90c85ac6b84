"""The remaps of the language: a new one is one module and one entry here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tkgen.remap import column_major, group, hilbert, morton, reversed, row_major, xcd
from tkgen.remap.spec import Permutation, Placement

_MODULES = (row_major, column_major, group, morton, hilbert, xcd, reversed)

REMAPS: Mapping[str, Permutation | Placement] = MappingProxyType({m.SPEC.name: m.SPEC for m in _MODULES})
