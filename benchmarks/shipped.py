"""The specs of specs/ with the targets that they name or that accept them: goldens and figures are made of these."""

from __future__ import annotations

from pathlib import Path

from tkgen.targets import known_names

SPECS = Path(__file__).parents[1] / "specs"
ACCEPTANCE = SPECS.parent / "tests" / "specs" / "acceptance"
TARGETS = known_names()


def shipped() -> list[tuple[Path, str]]:
    """Each shipped spec with each target that it names, or with gfx942 if it names none."""
    found = []
    for path in sorted(SPECS.rglob("*.tk")):
        words = [line.split("#")[0].split(None, 1) for line in path.read_text(encoding="utf-8").splitlines()]
        named = next((w[1] for w in words if len(w) == 2 and w[0] == "target"), "gfx942")
        found += [(path, target) for target in TARGETS if target in named]
    return found


def accepted() -> list[tuple[Path, str]]:
    """Each shipped spec with each target that accepts it, as the tables of `tests/specs/acceptance` say."""
    found = []
    for target in TARGETS:
        lines = (ACCEPTANCE / f"{target}.txt").read_text(encoding="utf-8").splitlines()
        found += [(SPECS / f"{line[: -len(': accepted')]}.tk", target) for line in lines if line.endswith(": accepted")]
    return found
