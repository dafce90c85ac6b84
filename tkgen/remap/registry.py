"""The remaps of the language, one for each module of `definitions/`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tkgen.packages import modules_of
from tkgen.remap import definitions
from tkgen.remap.spec import Permutation, Placement

REMAPS: Mapping[str, Permutation | Placement] = MappingProxyType(
    {module.SPEC.name: module.SPEC for module in modules_of(definitions)}
)
