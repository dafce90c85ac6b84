"""The specs that tests of the report draw."""

from __future__ import annotations

from pathlib import Path

from tkgen.api import Spec, load

SPECS = Path(__file__).parents[2] / "specs"


def spec_of(name: str, **defines: int | None) -> Spec:
    """A bundled spec with its `-D` values."""
    return load(SPECS / f"{name}.tk", defines)
