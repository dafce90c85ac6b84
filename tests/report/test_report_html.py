"""The HTML report as text: valid, self-contained, nothing of a spec in it is markup."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from report_specs import SPECS, spec_of

from tkgen.api import load
from tkgen.build import Build
from tkgen.report import Facts, diff, facts, render_diff_html, render_html, write_report
from tkgen.report.figures import Figure
from tkgen.report.html import SECTIONS, embedded_json
from tkgen.report.texts import SpecLine

html5lib = pytest.importorskip("html5lib", reason="needs html5lib (pip install html5lib)")

ATTACK = "</script></code><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>\"'&\x1b[2J\u202e"


def parsed(text: str) -> Any:
    """The document's tree; fails where the HTML standard's parser has a complaint."""
    parser = html5lib.HTMLParser(strict=False, namespaceHTMLElements=False)
    tree = parser.parse(text)
    assert not parser.errors, [
        (where, text.splitlines()[where[0] - 1][:200], what) for where, what, _ in parser.errors[:3]
    ]
    return tree


@pytest.fixture(scope="module")
def page(eight_wave_facts: Facts, ping_pong: Facts) -> str:
    return render_html([eight_wave_facts, ping_pong])


@pytest.fixture(scope="module")
def tree(page: str) -> Any:
    return parsed(page)


def hostile(found: Facts) -> Facts:
    """The facts with an attack in every name and text."""
    texts = found.texts
    return replace(
        found,
        kernel=ATTACK,
        header=ATTACK,
        compiler=ATTACK,
        texts=replace(
            texts,
            spec_name=ATTACK,
            spec=(SpecLine(ATTACK, ATTACK, 1), *texts.spec),
            cpp_name=ATTACK,
            cpp=tuple(replace(line, text=line.text + ATTACK) for line in texts.cpp),
            isa=tuple(replace(line, text=line.text + ATTACK, label=ATTACK) for line in texts.isa),
        ),
        pipeline=replace(found.pipeline, clusters=(ATTACK,), text=ATTACK),
        order=replace(found.order, remap=ATTACK),
    )


def test_the_page_is_valid_html(tree: Any) -> None:
    ids = [e.get("id") for e in tree.iter() if e.get("id")]
    assert len(ids) == len(set(ids))
    for reference in ("aria-labelledby", "aria-controls"):
        assert {e.get(reference) for e in tree.iter() if e.get(reference)} <= set(ids)


def test_sections_and_their_links(tree: Any) -> None:
    sections = {e.get("id") for e in tree.iter("section")}
    sections_of_specs = {name for name, _ in SECTIONS} - {"prediction", "hot"}
    assert sections == {f"k{k}-{name}" for k in (0, 1) for name in sections_of_specs}
    assert {a.get("href") for a in tree.iter("a")} == {f"#{s}" for s in sections} | {"#main"}


def test_the_page_asks_for_nothing(page: str, tree: Any) -> None:
    for element in tree.iter():
        for attribute in ("src", "href", "action", "srcset", "poster", "data"):
            value = element.get(attribute)
            assert value is None or value.startswith(("#", "data:,")), (element.tag, value)
    assert "@import" not in page
    assert set(re.findall(r"url\(([^)]*)\)", page)) == {"#hatch"}


def test_only_its_own_script_may_run(tree: Any) -> None:
    policy = next(e.get("content") for e in tree.iter("meta") if e.get("http-equiv") == "Content-Security-Policy")
    scripts = [e for e in tree.iter("script") if e.get("type") != "application/json"]
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].text.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy and policy.startswith("default-src 'none'")


def test_the_order_of_the_blocks_is_embedded(tree: Any, eight_wave_facts: Facts, ping_pong: Facts) -> None:
    data = json.loads(next(e.text for e in tree.iter("script") if e.get("type") == "application/json"))
    assert [tuple(d["order"]["sequence"]) for d in data] == [f.order.sequence for f in (eight_wave_facts, ping_pong)]


def test_embedded_json_cannot_end_its_element() -> None:
    text = embedded_json({"a": "</script><!-- <script> ]]> & \u2028"})
    assert not set(text) & set("<>&\u2028")
    assert json.loads(text) == {"a": "</script><!-- <script> ]]> & \u2028"}


def test_hostile_texts_stay_text(eight_wave_facts: Facts) -> None:
    text = render_html([hostile(eight_wave_facts)])
    tree = parsed(text)
    assert len(list(tree.iter("script"))) == 2
    assert not list(tree.iter("img"))
    assert not [k for e in tree.iter() for k in e.attrib if str(k).startswith("on")]
    assert next(tree.iter("h1")).text == ATTACK.replace("\x1b", "\\x1b").replace("\u202e", "\\u202e")
    assert "\x1b" not in text and "\u202e" not in text


def test_a_hostile_spec_file(tmp_path: Path) -> None:
    path = tmp_path / "<script>alert(1)<&.tk"
    path.write_text(f"# {ATTACK[:88]}\n" + (SPECS / "four_wave.tk").read_text())
    write_report([load(path)], tmp_path / "report.html")
    tree = parsed((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert len(list(tree.iter("script"))) == 2
    assert "<script>alert(1)<&.tk" in {e.text for e in tree.iter("h3")}


def test_lines_carry_their_links(tree: Any, eight_wave_facts: Facts) -> None:
    rows = [e for e in tree.iter("div") if (e.get("id") or "").startswith("k0-isa-")]
    assert len(rows) == len(eight_wave_facts.texts.isa)
    for row, line in zip(rows, eight_wave_facts.texts.isa, strict=True):
        assert tuple(map(int, (row.get("data-cpp") or "").split())) == line.cpp
        wanted = {row for cpp in line.cpp for row in eight_wave_facts.texts.cpp[cpp - 1].spec}
        assert set(map(int, (row.get("data-spec") or "").split())) == wanted


def test_a_spec_without_a_compiler() -> None:
    page = render_html([facts(spec_of("eight_wave"))])
    parsed(page)
    assert "Not compiled" in page and 'data-pane="isa"' not in page


def test_previous_figures_stand_beside_the_new(eight_wave: Build, tmp_path: Path) -> None:
    before = json.loads(json.dumps(eight_wave.report()))
    before["resources"]["vgpr"] += 8
    write_report([eight_wave], tmp_path / "r.html", previous={"eight_wave": before})
    deltas = [e for e in parsed((tmp_path / "r.html").read_text()).iter("span") if "delta" in (e.get("class") or "")]
    assert [("good" in (e.get("class") or ""), e.text) for e in deltas] == [(True, "−8")]


def test_best_of_several_kernels_is_marked(eight_wave_facts: Facts) -> None:
    worse = tuple(
        replace(f, value=f.value + 1) if f.key == "resources.vgpr_spills" else f for f in eight_wave_facts.figures
    )
    tree = parsed(render_html([eight_wave_facts, replace(eight_wave_facts, figures=worse)]))
    best = [e.text for e in tree.iter("td") if "best" in (e.get("class") or "")]
    assert best == ["0", "0"]  # once in each kernel's table


def test_nothing_half_written(eight_wave: Build, tmp_path: Path) -> None:
    (tmp_path / "r.html").mkdir()
    with pytest.raises(OSError):
        write_report([eight_wave], tmp_path / "r.html")
    assert [p.name for p in tmp_path.iterdir()] == ["r.html"]


def test_the_comparison_page(eight_wave: Build) -> None:
    page = render_diff_html(diff(eight_wave, spec_of("double_buffer")))
    tree = parsed(page)
    assert not list(tree.iter("script"))
    assert {e.text for e in tree.iter("h2")} == {"Figures", "Spec", "Schedule", "C++"}


def test_the_comparison_page_escapes(eight_wave: Build, tmp_path: Path) -> None:
    path = tmp_path / "x.tk"
    path.write_text(f"# {ATTACK[:88]}\n" + (SPECS / "eight_wave.tk").read_text())
    tree = parsed(render_diff_html(diff(eight_wave, load(path))))
    assert not list(tree.iter("script")) and not list(tree.iter("img"))


def test_figures_show_their_units() -> None:
    assert Figure("k", "LDS", 65536, "B", -1, "g").show() == "65,536 B"
    assert Figure("k", "others", 1.25, "", -1, "g").show() == "1.25"
