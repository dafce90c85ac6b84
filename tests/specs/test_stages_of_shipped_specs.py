"""Every stage of every shipped spec, for each target that it names; `TKGEN_BLESS=1 pytest FILE` rewrites the goldens.

`stages/TARGET/` holds the whole text of the equations and of the schedule of each spec. Its `digests.txt` has a digest
of the other stages, of which `lower` is missing: `generated/` holds that one.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from shipped import SPECS, shipped

from tkgen.pipeline import Request, text_of

GOLDEN = Path(__file__).parent / "stages"
WHOLE = ("equations", "schedule")
DIGESTS = ("parse", "resolve", "graph")
TABLE = "digests.txt"
TARGETS = sorted({target for _, target in shipped()})


def digest(stage: str, path: Path, target: str) -> str:
    """The first digits of the SHA-256 of a stage's text."""
    text = text_of(stage, Request(path, target=target))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def goldens(target: str) -> dict[str, str]:
    """The goldens of a target: texts by file name."""
    files, lines = dict[str, str](), list[str]()
    for path in (path for path, named in shipped() if named == target):
        for stage in WHOLE:
            files[f"{path.stem}.{stage}.txt"] = text_of(stage, Request(path, target=target)) + "\n"
        digests = ", ".join(f"{stage} {digest(stage, path, target)}" for stage in DIGESTS)
        lines.append(f"{path.relative_to(SPECS).with_suffix('')}: {digests}\n")
    return {**files, TABLE: "".join(lines)}


def differences(made: dict[str, str], stored: dict[str, str]) -> list[str]:
    """The spec and stage of each golden that differs, is missing or is left over."""
    files = sorted(f for f in made.keys() | stored.keys() if f != TABLE and made.get(f) != stored.get(f))
    found = ["{}: {}".format(*file.split(".")) for file in files]
    new, old = (dict(line.split(": ") for line in texts.get(TABLE, "").splitlines()) for texts in (made, stored))
    for spec in sorted(new.keys() | old.keys()):
        stages = set(new.get(spec, "").split(", ")) ^ set(old.get(spec, "").split(", "))
        found += [f"{spec}: {stage}" for stage in sorted({stage.split()[0] for stage in stages if stage})]
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_the_stages_are_the_same(target: str) -> None:
    folder, made = GOLDEN / target, goldens(target)
    if os.environ.get("TKGEN_BLESS"):
        folder.mkdir(parents=True, exist_ok=True)
        for file in folder.glob("*.txt"):
            if file.name not in made:
                file.unlink()
        for name, text in made.items():
            (folder / name).write_text(text, encoding="utf-8")
    stored = {file.name: file.read_text(encoding="utf-8") for file in folder.glob("*.txt")}
    different = differences(made, stored)
    assert not different, f"for {target} these differ (see `git diff` after TKGEN_BLESS=1): " + "; ".join(different)
    assert made == stored


def test_a_difference_names_its_spec_and_stage() -> None:
    stored = {"a.schedule.txt": "1\n", "b.equations.txt": "2\n", TABLE: "a: parse 1, graph 2\nd/b: parse 3\n"}
    made = {"a.schedule.txt": "0\n", "b.equations.txt": "2\n", TABLE: "a: parse 1, graph 0\nc: parse 3\n"}
    assert differences(stored, stored) == []
    assert differences(made, stored) == ["a: schedule", "a: graph", "c: parse", "d/b: parse"]
    assert differences({TABLE: ""}, stored)[:2] == ["a: schedule", "b: equations"]
