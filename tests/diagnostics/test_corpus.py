"""Each spec of the corpus is a mistake, and what tkgen says of it is exactly the text beside it."""

from __future__ import annotations

import re
from pathlib import Path

import corpus
import pytest
from bless import book

from tkgen.diagnostics.explain import codes
from tkgen.diagnostics.fixes import apply_fixes
from tkgen.diagnostics.render import render_text
from tkgen.targets import load_target, target_names

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


def test_every_race_has_its_interleaving_as_data() -> None:
    """Two waves, what each does where, and how many barriers they have passed: as the note says it."""
    races = [d for spec in corpus.SPECS for d in corpus.diagnosed(spec) if d.code in ("E301", "E302", "E304")]
    assert len(races) >= 10
    for found in races:
        first, second = found.interleaving
        assert first.span is not None and second.span is not None and found.primary is not None
        assert second.span == found.primary.span
        assert first.agent in found.notes[0] and second.agent in found.notes[0]
        assert first.barriers is not None and second.barriers is not None and f"{second.barriers}" in found.notes[0]


FIXABLE = [spec for spec in corpus.SPECS if any(d.fix and d.fix.edits for d in corpus.diagnosed(spec))]


@pytest.mark.parametrize("spec", FIXABLE, ids=lambda spec: spec.stem)
def test_what_is_fixed_is_not_said_again(spec: Path, tmp_path: Path) -> None:
    before = corpus.diagnosed(spec)
    fixable = [d for d in before if d.fix and d.fix.edits]
    text = spec.read_text(encoding="utf-8")
    mended = tmp_path / spec.name
    mended.write_text(apply_fixes(text, fixable, guesses=True), encoding="utf-8")
    after = corpus.diagnosed(mended)
    fixed = {d.code for d in fixable}
    rest = {d.code for d in before if d not in fixable}
    assert not (fixed - rest) & {d.code for d in after}, [d.message for d in after]
    assert not {d.message for d in fixable} & {d.message for d in after}


MISSPELT = {
    "shared A": "shared Aa", "bf16[N, K]": "bf61[N, K]", "f32[M, N]": "f32[M, NN]", "via collective": "via colective",
    "relu": "rellu", "grid linear": "grid linaer", "tail masked": "tail maksed", "allow spills": "allow spils",
    "xcd(": "xdc(", "chunk = 16": "chank = 16", "min(64": "mim(64", "SLICE": "SLCIE", "store C": "sotre C",
}  # fmt: skip
SPELT = """kernel gemm
  dims M = 1024, N = 1024, K = 1024
  param STEP = 32
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  block 128 x 128 step min(64, STEP)
  remap xcd(8, chunk = 16)
  grid linear
  tail masked
  allow spills
  waves 2 x 2
  shared A, B buffers 1 via collective
  registers A, B slice STEP
  accumulate C : f32 tile 32 x 32
  epilogue relu
  store C
"""


@pytest.mark.parametrize("right", MISSPELT)
def test_every_misspelt_word_can_be_mended_by_an_editor(right: str, tmp_path: Path) -> None:
    """`did you mean` comes with the edit that writes it."""
    spec = tmp_path / "spec.tk"
    good = SPELT.replace("slice STEP", "slice SLICE").replace("STEP = 32", "STEP = 32, SLICE = 32")
    spec.write_text(good)
    assert not [d for d in corpus.diagnosed(spec) if d.code.startswith("E")]
    assert good.count(right) == (2 if right == "SLICE" else 1)
    wrong = MISSPELT[right].join(good.rsplit(right, 1))
    spec.write_text(wrong)
    found = corpus.diagnosed(spec)
    assert any("did you mean" in render_text([d]) or (d.fix and d.fix.text.startswith("write `")) for d in found)
    assert apply_fixes(wrong, found, guesses=True) == good


# A number of a GPU in a message: "gfx942 has 512", "a block on gfx942 has 65536", "1/8 of the rate on gfx942".
OF_HARDWARE = re.compile(r"(?:gfx9\w+|MI\d+\w*) (?:has|cannot) |rate of \w+ on gfx")


def test_what_is_said_of_hardware_names_its_source() -> None:
    sources = {s for name in target_names() for s in load_target(name).sources.values()}
    said = [d for spec in corpus.SPECS for d in corpus.diagnosed(spec)]
    of_hardware = [d for d in said if OF_HARDWARE.search(" ".join((d.message, *d.notes)))]
    assert {d.code for d in of_hardware} == {"E204", "E218", "E403", "E404", "E501", "W202", "W601"}
    for d in of_hardware:
        assert any(note.startswith("source of ") and note.split(": ", 1)[1] in sources for note in d.notes), d
    assert not [d for d in said if "the hardware" in d.message]


def test_the_documentation_is_made_from_the_pages() -> None:
    text = (ROOT / "docs" / "diagnostics.md").read_text(encoding="utf-8")
    assert text == book(), "run python tests/diagnostics/bless.py"
    assert all(f"\n## {code}: " in text for code in codes())
