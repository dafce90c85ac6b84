"""The library's face before anything is built: what is there, and a spec from a file or a text."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tkgen

SPEC = Path(__file__).parents[2] / "specs" / "one_wave.tk"


def test_a_spec_from_a_text_is_the_spec_of_its_file() -> None:
    text = SPEC.read_text(encoding="utf-8")
    one, other = tkgen.load(text, {"M": 64}), tkgen.load(SPEC, {"M": 64})
    assert one.plan.to_text() == other.plan.to_text() and one.program.m.size == 64 and one.check().name == "one_wave"
    assert one.source.text.replace("<text>", SPEC.name) == other.source.text


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("one_wave.tk", "Spec"),
        ("rows/softmax.tk", "Spec"),
        ("sequences/split_k_gelu.tk", "SequenceSpec"),
        ("hopper/h100_lcf.tk", "HopperSpec"),
    ],
)
def test_every_kind_of_spec_is_loaded(path: str, kind: str) -> None:
    spec = tkgen.load(SPEC.parent / path)
    assert type(spec).__name__ == kind and spec.check() is spec
    assert spec.name == Path(path).stem and "kernel" in spec.text


@pytest.mark.parametrize(("path", "code"), [("rows/softmax.tk", "E230"), ("sequences/split_k_gelu.tk", "E231")])
def test_what_needs_a_plan_takes_products_alone(path: str, code: str) -> None:
    assert "multiply" in tkgen.load_products(SPEC).plan.to_text()
    with pytest.raises(tkgen.SpecError, match=code):
        tkgen.load_products(SPEC.parent / path)


def test_what_is_wrong_in_a_text_has_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = SPEC.read_text(encoding="utf-8")
    with pytest.raises(tkgen.SpecError) as wrong:
        tkgen.load(text.replace("store C", "stroe C"))
    (found,) = wrong.value.diagnostics
    assert found.primary is not None and found.primary.span.file.name == "<text>" and found.code == "E103"
    with pytest.raises(tkgen.SpecError, match="E100"):
        tkgen.load(text + "\0")
    (tmp_path / "part.tk").write_text("shared A, B buffers 1\n")
    included = text.replace("  shared A, B buffers 1\n", '  include "part.tk"\n')
    assert included != text
    with pytest.raises(tkgen.SpecError):
        tkgen.load(included)
    monkeypatch.chdir(tmp_path)
    assert tkgen.load(included).plan.to_text() == tkgen.load(SPEC).plan.to_text()


def test_dir_shows_what_is_imported_later() -> None:
    script = "import tkgen, sys; print(*dir(tkgen)); assert 'tkgen.api' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(tkgen.__all__) <= set(done.stdout.split())


def test_places_at_the_same_offset_of_two_files_are_two(tmp_path: Path) -> None:
    """The labels of E501: `shared A` in an include, `shared B` in the spec."""
    text = SPEC.with_name("eight_wave.tk").read_text(encoding="utf-8")
    text = text.replace("  shared A, B  buffers 1\n", '  shared B  buffers 9\n  include "a.tk"\n')
    at = text.index("shared B")
    (tmp_path / "a.tk").write_text(f"#{' ' * (at - 2)}\nshared A  buffers 9\n")
    spec = tmp_path / "spec.tk"
    spec.write_text(text)
    found = next(d for d in tkgen.load(spec).diagnostics if d.code == "E501")
    assert found.primary is not None
    labels = [found.primary.span, *(label.span for label in found.secondary)]
    assert sorted((Path(s.file.name).name, s.start) for s in labels) == [("a.tk", at), ("spec.tk", at)]
