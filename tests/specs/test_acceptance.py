"""The shipped specs that each target accepts, and the messages of the rest; `TKGEN_BLESS=1 pytest FILE` rewrites it.

One table a target in `acceptance/`: a spec that is no longer accepted, or is refused in other words, is a difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tkgen.api import load
from tkgen.diagnostics import Severity, SpecError

SPECS = Path(__file__).parents[2] / "specs"
GOLDEN = Path(__file__).parent / "acceptance"


def verdict(path: Path, target: str) -> str:
    """`accepted`, or each error of the spec with its code, on lines of their own."""
    try:
        load(path, target=target).check()
    except SpecError as error:
        errors = [d for d in error.diagnostics if d.severity is Severity.ERROR]
        assert errors
        return "".join(f"\n    {d.code} {d.message}" for d in errors)
    return " accepted"


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950", "sm_90a"])
def test_the_same_specs_are_accepted(target: str) -> None:
    paths = sorted(SPECS.rglob("*.tk"))
    table = "".join(f"{path.relative_to(SPECS).with_suffix('')}:{verdict(path, target)}\n" for path in paths)
    golden = GOLDEN / f"{target}.txt"
    if os.environ.get("TKGEN_BLESS"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(table, encoding="utf-8")
    assert table == golden.read_text(encoding="utf-8")
