"""Each spec of the corpus is a mistake, and what tkgen says of it is exactly the text beside it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import corpus

from tkgen.diagnostics.explain import book, codes
from tkgen.diagnostics.fixes import apply_fixes

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("spec", corpus.SPECS, ids=lambda spec: spec.stem)
def test_the_text_is_as_blessed(spec: Path) -> None:
    assert corpus.rendered(spec) == corpus.expected(spec).read_text(encoding="utf-8")


def test_there_are_enough_of_them_and_each_says_something() -> None:
    assert len(corpus.SPECS) >= 70
    assert all(corpus.expected(spec).stat().st_size for spec in corpus.SPECS)
    assert {path.stem for path in corpus.FOLDER.glob("*.txt")} == {spec.stem for spec in corpus.SPECS}


def test_every_mistake_of_the_hand_written_kernels_is_there() -> None:
    wrong = {f"k{n:02}" for n in (1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)}
    assert wrong == {spec.stem[:3] for spec in corpus.SPECS if spec.stem[0] == "k" and spec.stem[1:3].isdigit()}


def test_every_mistake_says_what_to_do() -> None:
    """A fix, or for bad syntax what was expected in its place."""
    silent = [
        f"{spec.stem}: {d.message}"
        for spec in corpus.SPECS
        for d in corpus.diagnosed(spec)
        if not d.fix and not (d.code.startswith("E1") and d.primary and "expected" in d.primary.text + d.message)
    ]
    assert not silent


FIXABLE = [spec for spec in corpus.SPECS if any(d.fix and d.fix.edits for d in corpus.diagnosed(spec))]


@pytest.mark.parametrize("spec", FIXABLE, ids=lambda spec: spec.stem)
def test_what_is_fixed_is_not_said_again(spec: Path, tmp_path: Path) -> None:
    before = corpus.diagnosed(spec)
    fixable = [d for d in before if d.fix and d.fix.edits]
    text = spec.read_text(encoding="utf-8")
    mended = tmp_path / spec.name
    mended.write_text(apply_fixes(text, fixable), encoding="utf-8")
    after = corpus.diagnosed(mended)
    fixed = {d.code for d in fixable}
    rest = {d.code for d in before} - fixed
    assert not (fixed - rest) & {d.code for d in after}, [d.message for d in after]


def test_the_documentation_is_made_from_the_pages() -> None:
    text = (ROOT / "docs" / "diagnostics.md").read_text(encoding="utf-8")
    assert text == book(), "run python tests/diagnostics/bless.py"
    assert all(f"\n## {code}: " in text for code in codes())
