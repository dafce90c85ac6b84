"""Reports of kernels of rows, alone and beside kernels of products: HTML, terminal, plain data."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from test_report_html import ATTACK, parsed
from typer.testing import CliRunner

import tkgen
from tkgen.build import Build
from tkgen.cli import app
from tkgen.report import Facts, facts, prediction, print_facts, render_html
from tkgen.report.texts import SpecLine
from tkgen.toolchain.compiler import ToolchainError

SPECS = Path(__file__).parents[2] / "specs" / "rows"


@pytest.fixture(scope="module")
def softmax() -> Build:
    try:
        built = tkgen.load(SPECS / "softmax.tk", {"ROWS": 4096, "D": 16384}).check().build()
    except ToolchainError as error:
        pytest.skip(f"no compiler for gfx942: {error}")
    assert isinstance(built, Build)
    return built


@pytest.fixture(scope="module")
def found(softmax: Build) -> Facts:
    return facts(softmax, prediction(softmax), softmax.report())


@pytest.fixture(scope="module")
def tree(found: Facts, eight_wave_facts: Facts) -> Any:
    return parsed(render_html([found, eight_wave_facts]))


def article(tree: Any, number: int) -> Any:
    return next(e for e in tree.iter("article") if e.get("id") == f"k{number}")


def test_both_kinds_stand_in_one_page(tree: Any) -> None:
    ids = [e.get("id") for e in tree.iter() if e.get("id")]
    assert len(ids) == len(set(ids))
    assert [e.text for e in tree.iter("button") if e.get("role") == "tab" and e.get("id", "").startswith("tab-")] == [
        "softmax", "eight_wave",
    ]  # fmt: skip
    both = ["overview", "source", "ownership", "pipeline"]
    for number, names in ((0, [*both, "prediction", "hot", "dataflow"]), (1, [*both, "dataflow"])):
        part = article(tree, number)
        sections = [e.get("id") for e in part.iter("section")]
        assert sections[: len(names)] == [f"k{number}-{name}" for name in names]
        assert [a.get("href") for a in part.iter("a")] == [f"#{s}" for s in sections]


def test_lines_lead_to_each_other(tree: Any) -> None:
    """The reduction of the spec is some lines of C++, and these are some instructions."""
    lines = [e for e in article(tree, 0).iter("div") if "row" in (e.get("class") or "").split()]
    text = {e.get("id"): "".join(e.itertext()) for e in lines}
    (maximum,) = [e.get("data-n") for e in lines if "rowmax" in text[e.get("id")] and "-spec-" in e.get("id")]
    cpp = [e for e in lines if maximum in (e.get("data-spec") or "").split() and "-cpp-" in e.get("id")]
    assert any("max::op<float>" in text[e.get("id")] or "across<base_ops::max" in text[e.get("id")] for e in cpp)
    numbers = {e.get("data-n") for e in cpp}
    isa = [e for e in lines if numbers & set((e.get("data-cpp") or "").split()) and "-isa-" in e.get("id")]
    assert any("v_max" in text[e.get("id")] for e in isa)


def test_figures_stand_side_by_side(tree: Any, softmax: Build) -> None:
    for number in (0, 1):
        rows = ["".join(e.itertext()) for e in article(tree, number).iter("tr")]
        (vgprs,) = [r for r in rows if r.startswith("VGPRs per lane") and r.count(str(softmax.resources.vgpr)) == 1]
        assert vgprs
        assert "figuresoftmaxeight_wave" in rows


def test_what_is_hostile_stays_text(found: Facts, eight_wave_facts: Facts) -> None:
    texts = replace(found.texts, spec_name=ATTACK, spec=(SpecLine(ATTACK, ATTACK, 1), *found.texts.spec))
    attacked = replace(found, kernel=ATTACK, header=ATTACK, ownership=replace(found.ownership, how=ATTACK), texts=texts)
    page = render_html([attacked, eight_wave_facts])
    tree = parsed(page)
    assert len(list(tree.iter("script"))) == 2 and not list(tree.iter("img"))
    assert "\x1b" not in page and "\u202e" not in page


def test_the_page_works_in_a_browser(browser: Any, found: Facts, eight_wave_facts: Facts, tmp_path: Path) -> None:
    """Its script finds what it needs in both kinds: a line of rows lights up others, the other kernel can be chosen."""
    path = tmp_path / "report.html"
    path.write_text(render_html([found, eight_wave_facts]), encoding="utf-8")
    browser.get_log("browser")
    browser.get(path.as_uri())
    number = next(n for n, line in enumerate(found.texts.spec, 1) if "rowmax" in line.text)
    browser.execute_script("document.querySelector(arguments[0]).click()", f"#k0-spec-{number}")
    assert "instruction" in browser.find_element("css selector", "#k0 .status").text
    assert browser.find_elements("css selector", "#k0-source [data-pane=isa] .row.hit")
    browser.find_element("css selector", "#tab-1").click()
    assert browser.find_element("css selector", "#k1-pipeline").is_displayed()
    assert not browser.find_element("css selector", "#k0-ownership").is_displayed()
    assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def test_the_terminal_shows_the_same(found: Facts) -> None:
    console = Console(record=True, width=100, file=io.StringIO())
    print_facts(found, console)
    text = " ".join(console.export_text().split())  # lines are broken where the terminal ends
    assert text.isascii()
    for shown in (found.ownership.how, "Who owns what", "VGPRs per lane", "previous build", "of the copy rate", "HBM"):
        assert shown in text, shown


def test_the_command_takes_several(tmp_path: Path) -> None:
    """Specs of both kinds: one file of all, their facts one after the other, or as data."""
    files = [str(SPECS / "elementwise.tk"), str(SPECS.parent / "one_wave.tk"), str(SPECS / "transpose.tk")]
    page = tmp_path / "all.html"
    said = CliRunner().invoke(app, ["report", *files, "-o", str(page), "--no-predict"])
    assert said.exit_code == 0, said.output
    assert all(f"{name} for gfx942" in said.output for name in ("elementwise", "one_wave", "transpose"))
    tabs = [e.text for e in parsed(page.read_text(encoding="utf-8")).iter("button") if e.get("role") == "tab"]
    assert tabs[:3] == ["elementwise", "one_wave", "transpose"]
    plain = CliRunner().invoke(app, ["report", files[0], "-o", str(page), "--json"])
    assert plain.exit_code == 0, plain.output
    (kernel,) = json.loads(plain.stdout)
    assert kernel["kernel"] == "elementwise" and kernel["prediction"]["limiter"] == "HBM"
    assert {f["key"] for f in kernel["figures"]} >= {"resources.vgpr", "instructions.total"}
