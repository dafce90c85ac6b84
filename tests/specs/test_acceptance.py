"""The shipped specs that each target accepts, and the messages of the rest; `TKGEN_BLESS=1 pytest FILE` rewrites it.

One table a target in `acceptance/`: a spec that is no longer accepted, or is refused in other words, is a difference.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from sampling import slow

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


TARGETS = ("gfx90a", "gfx942", "gfx950", "sm_90a")
PATHS = {str(path.relative_to(SPECS).with_suffix("")): path for path in sorted(SPECS.rglob("*.tk"))}


def golden(target: str) -> dict[str, str]:
    """The stored verdict of each spec."""
    text = (GOLDEN / f"{target}.txt").read_text(encoding="utf-8")
    return {name: found.removesuffix("\n") for name, found in re.findall(r"(?m)^(\S+):(.*\n(?:    .*\n)*)", text)}


@pytest.mark.parametrize("target", TARGETS)
def test_the_table_has_every_spec(target: str) -> None:
    if os.environ.get("TKGEN_BLESS"):
        GOLDEN.mkdir(exist_ok=True)
        table = "".join(f"{name}:{verdict(path, target)}\n" for name, path in PATHS.items())
        (GOLDEN / f"{target}.txt").write_text(table, encoding="utf-8")
    stored = golden(target)
    assert list(stored) == list(PATHS)
    text = "".join(f"{name}:{found}\n" for name, found in stored.items())
    assert text == (GOLDEN / f"{target}.txt").read_text(encoding="utf-8")


# Each spec is loaded for one of the targets by default, for the others in slow tests.
@pytest.mark.parametrize(
    ("target", "part"),
    [(t, part) if part == n else slow(t, part) for n, t in enumerate(TARGETS) for part in range(len(TARGETS))],
)
def test_the_same_specs_are_accepted(target: str, part: int) -> None:
    stored = golden(target)
    names = list(PATHS)[part :: len(TARGETS)]
    assert {name: verdict(PATHS[name], target) for name in names} == {name: stored.get(name) for name in names}
