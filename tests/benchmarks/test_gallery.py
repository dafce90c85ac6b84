"""The gallery: it has every spec, as its text and its machine code are."""

from __future__ import annotations

import re

import gallery
import pytest
from sampling import slow
from thumbnail import owners, thumbnail

import tkgen

PAGE = gallery.PAGE.read_text(encoding="utf-8")
ENTRIES = [gallery.described(path, gallery.peers()) for _, paths in gallery.specs() for path in paths]


FIGURES = ["one_wave", slow("eight_wave"), "rows/softmax", "attention/attention", "sequences/split_k_gelu"]


def row(name: str) -> str:
    (found,) = re.findall(rf"^\| !\[\]\(img/gallery/{name}\.svg\).*$", PAGE, re.MULTILINE)
    return str(found)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e.name)
def test_every_spec_is_there_as_it_is(entry: gallery.Entry) -> None:
    lines = " · ".join([str(entry.lines), *entry.peers])
    assert f": {entry.line} |" in row(entry.name)
    assert row(entry.name).endswith(f"| {lines} |")
    picture = (gallery.PICTURES / f"{entry.name}.svg").read_text(encoding="utf-8")
    assert picture == thumbnail(tkgen.load(entry.path))


def test_nothing_else_is_there() -> None:
    names = {entry.name for entry in ENTRIES}
    assert set(re.findall(r"gallery/(\w+)\.svg", PAGE)) == names
    assert {path.stem for path in gallery.PICTURES.glob("*.svg")} == names
    assert set(gallery.peers()) <= names


@pytest.mark.parametrize(
    "name", ["one_wave", slow("eight_wave"), "rows/softmax", "attention/attention", "sequences/split_k_gelu"]
)
def test_figures_are_those_of_the_machine_code(name: str) -> None:
    path = gallery.ROOT / "specs" / f"{name}.tk"
    entry = gallery.measured(gallery.described(path, {}))
    assert f"| {entry.figures} | {entry.rate} |" in row(entry.name)


def test_a_picture_shows_which_wave_has_what() -> None:
    (tile,) = owners(tkgen.load(gallery.ROOT / "specs/eight_wave.tk"))
    assert {wave for cells in tile for wave in cells} == set(range(8))
    (rows,) = owners(tkgen.load(gallery.ROOT / "specs/rows/softmax.tk"))
    assert [set(cells) for cells in rows] == [{0}, {1}, {2}, {3}]
    (shared,) = owners(tkgen.load(gallery.ROOT / "specs/rows/softmax.tk", {"D": 16384}))
    assert set(shared[0]) == {0, 1, 2, 3}
    first, second = owners(tkgen.load(gallery.ROOT / "specs/sequences/split_k_gelu.tk"))
    assert first != second
