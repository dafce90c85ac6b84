"""The pictures: well-formed, escaped, complete, readable in light and dark."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from report_specs import SPECS, spec_of

from tkgen.api import load
from tkgen.report import Facts, facts, pictures, standalone
from tkgen.report.canvas import Canvas, style

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '</text><script>alert(1)</script>"\x1b[31m\u202e&'


def parsed(picture: str) -> ET.Element:
    return ET.fromstring(standalone(picture))


@pytest.mark.parametrize(
    "name", ["eight_wave", "ping_pong", "producer_consumer_8p4c", "subtiles_16", "tail", "one_wave"]
)
def test_every_picture_is_well_formed(name: str) -> None:
    for text in pictures(facts(spec_of(name))).values():
        root = parsed(text)
        assert root.tag == f"{SVG}svg" and root.get("role") == "img" and root.get("aria-label")
        ids = [e.get("id") for e in root.iter() if e.get("id")]
        assert len(ids) == len(set(ids))


def test_standalone_pictures_need_nothing_else(ping_pong: Facts) -> None:
    for text in pictures(ping_pong).values():
        alone = standalone(text)
        assert "prefers-color-scheme: dark" in alone
        assert re.findall(r"https?://[^\"' ]+", alone) == ["http://www.w3.org/2000/svg"]
        used = set(re.findall(r"var\((--\w+)\)", alone))
        assert used <= set(re.findall(r"(--\w+):", style("pictures.css")))


def test_every_variable_has_a_dark_value() -> None:
    light, dark = (set(re.findall(r"(--\w+):", style(n))) for n in ("pictures.css", "pictures-dark.css"))
    assert light == dark


@pytest.mark.parametrize(
    "name", ["attention/attention", "rows/layernorm", "hopper/h100_lcf", "hopper/h100_attention", "linear_softmax"]
)
def test_every_kernel_has_pictures_whose_shapes_have_a_fill(name: str) -> None:
    """Operations of any kernel have a colour: a class without one would be black."""
    spec = load(SPECS / f"{name}.tk")
    drawn = pictures(facts(spec))
    assert {"ownership", "pipeline", "dataflow", "registers"} <= set(drawn)
    known = set(re.findall(r"\.(k-[a-z]+)", style("pictures.css")))
    for text in drawn.values():
        parsed(text)
        assert set(re.findall(r"\bk-[a-z-]+", text)) <= known
    lanes = ET.fromstring(drawn["pipeline"])
    ops = [g for g in lanes.iter(f"{SVG}g") if (g.get("class") or "").startswith("op")]
    assert len(ops) == sum(len(lane.ops) for lane in facts(spec).pipeline.lanes)


def test_ownership_draws_each_fragment(eight_wave_facts: Facts) -> None:
    root = parsed(pictures(eight_wave_facts)["ownership"])
    tips = [t.text or "" for t in root.iter(f"{SVG}title")]
    assert sum("fragment" in tip for tip in tips) == 16
    assert "wave 3, fragment (0, 1): tile (1, 3) of the block" in tips
    assert {g.get("data-wave") for g in root.iter(f"{SVG}g")} >= {str(w) for w in range(8)}


def test_pipeline_draws_a_lane_per_wave_and_every_dependency(ping_pong: Facts) -> None:
    root = parsed(pictures(ping_pong)["pipeline"])
    links = {g.get("data-link") for g in root.iter(f"{SVG}g") if "link" in (g.get("class") or "")}
    assert links == {str(i) for i in range(len(ping_pong.pipeline.links))}
    barriers = list(root.iter(f"{SVG}circle"))
    lanes = ping_pong.pipeline.lanes
    met = sum(len(lane.waves) * sum(op.action == "barrier" for op in lane.ops) for lane in lanes)
    assert len(barriers) == met


def test_order_paths_cover_each_tile_once(eight_wave_facts: Facts) -> None:
    root = parsed(pictures(eight_wave_facts)["order"])
    groups = [g for g in root.iter(f"{SVG}g") if g.get("class") == "cells"]
    assert len(groups) == 2
    for group in groups:
        runs = [run for p in group for run in re.findall(r"M(\d+) (\d+)h(\d+)", p.get("d") or "")]
        cells = [(int(y), int(x) + i) for x, y, n in runs for i in range(int(n))]
        assert len(cells) == len(set(cells)) == 64 * 64


def test_hostile_names_stay_text(ping_pong: Facts) -> None:
    op = replace(ping_pong.pipeline.lanes[0].ops[0], text=HOSTILE)
    lane = replace(ping_pong.pipeline.lanes[0], role=HOSTILE, ops=(op, *ping_pong.pipeline.lanes[0].ops[1:]))
    hostile = replace(
        ping_pong,
        kernel=HOSTILE,
        ownership=replace(
            ping_pong.ownership,
            output=HOSTILE,
            how=HOSTILE,
            reads=tuple(replace(reads, name=HOSTILE) for reads in ping_pong.ownership.reads),
        ),
        pipeline=replace(ping_pong.pipeline, lanes=(lane, *ping_pong.pipeline.lanes[1:])),
        flow=replace(ping_pong.flow, nodes=tuple(replace(n, text=HOSTILE) for n in ping_pong.flow.nodes)),
        lds=replace(ping_pong.lds, buffers=tuple(replace(b, name=HOSTILE) for b in ping_pong.lds.buffers)),
    )
    for text in pictures(hostile).values():
        root = parsed(text)  # raw control characters would not parse
        assert not list(root.iter(f"{SVG}script"))
        assert "\u202e" not in text and "\x1b" not in text


def test_canvas_escapes_attributes() -> None:
    c = Canvas(1, 1, HOSTILE)
    c.rect(0, 0, 1, 1, 'a" onload="x', tip=HOSTILE, data_name=HOSTILE)
    rect = next(parsed(c.svg()).iter(f"{SVG}rect"))
    assert rect.get("class") == 'a" onload="x' and rect.get("onload") is None


# ---------------------------------------------------------------- contrast (WCAG 2.2, 1.4.3)


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("sheet", ["pictures.css", "pictures-dark.css"])
def test_text_has_contrast(sheet: str) -> None:
    value = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", style(sheet)))
    fills = [value[f"w{i}"] for i in range(8)] + [value["panel"], value["soft"]]
    for fill in fills:
        assert contrast(value["ink"], fill) >= 4.5, fill
    for name in ("muted", "accent", "raw", "war", "waw", *(f"e{i}" for i in range(8))):
        assert contrast(value[name], value["panel"]) >= 4.5, name
