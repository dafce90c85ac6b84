"""Specs, builds, predictions and differences as a notebook shows them."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import html5lib
import pytest

import tkgen
from tkgen.predict import Comparison, predict
from tkgen.report import diff

SPECS = Path(__file__).parents[2] / "specs"
SIZES = {"M": 256, "N": 256, "K": 192}


def page(shown: Any) -> str:
    """The page in the frame of a cell: valid HTML, without a script or anything of another host."""
    cell = shown._repr_html_()
    found = re.fullmatch(
        r'<iframe title="tkgen: [^"<>]*" srcdoc="([^"]*)" sandbox="allow-same-origin" [^<>]*></iframe>', cell
    )
    assert found is not None
    text = unescape(found[1])
    html5lib.HTMLParser(strict=True).parse(text)
    assert "<script" not in text and not re.search(r"""(src|href)=["']?http""", text)
    return text


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("eight_wave.tk", ["8192", "LDS", "no errors and no warnings"]),
        ("rows/softmax.tk", ["gfx942", "no errors and no warnings"]),
        ("sequences/split_k_gelu.tk", ["gfx942"]),
        ("hopper/h100_lcf.tk", ["sm_90a"]),
    ],
)
def test_every_kind_of_spec_has_a_page(path: str, says: list[str]) -> None:
    spec = tkgen.load(SPECS / path)
    text = page(spec)
    assert all(word in text for word in [*says, *(f">{kernel.name}</h1>" for kernel in spec.kernels)])


def test_diagnostics_and_texts_of_a_spec_are_shown_as_text() -> None:
    source = (SPECS / "eight_wave.tk").read_text().replace("buffers 1", "buffers 9")
    text = page(tkgen.load(f"# <img src=x onerror=alert(1)> & </iframe>\n{source}"))
    assert "error E501" in text and "line 15" in text and "<br>B: 9 buffers" in text and "\\x0a" not in text
    assert "<img" not in text and "&lt;img src=x" in text and "</iframe" not in text


def test_builds_predictions_and_differences_have_pages() -> None:
    build = tkgen.load(SPECS / "eight_wave.tk", SIZES).build()
    assert (
        "Spills" in page(build) and "Machine code right" in page(build) and "figures of the machine code" in page(build)
    )
    first = predict(build)
    assert "Where the time goes" in page(first) and "lost to tail" in page(first) and "MI300X" in page(first)
    other = tkgen.load(SPECS / "single_buffer.tk", SIZES).build()
    both = page(Comparison(first, predict(other)))
    assert both.count("Limited by") == 2 and "times as fast as" in both
    assert "eight_wave → single_buffer" in page(diff(build, other))
