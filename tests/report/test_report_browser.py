"""The HTML report in headless Chromium: it renders, asks for nothing, and its links, keys and pictures work."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from report_specs import spec_of
from test_report_html import hostile

from tkgen.predict.prediction import Part
from tkgen.report import Facts, Prediction, facts, prediction, render_html
from tkgen.report.figures import Figure

PREDICTED = tuple(Figure(f"predict.{name}", name, 1.5, "", 0, "") for name in ("time", "tflops", "peak"))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, eight_wave_facts: Facts, ping_pong: Facts) -> str:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render_html([eight_wave_facts, ping_pong]), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def page(browser: Any, report: str) -> Any:
    browser.set_window_size(1280, 900)
    browser.get(report)
    browser.execute_script("try { localStorage.clear() } catch {}; delete document.documentElement.dataset.theme")
    return browser


def find(page: Any, selector: str) -> Any:
    return page.find_element("css selector", selector)


def count(page: Any, selector: str) -> int:
    return len(page.find_elements("css selector", selector))


def hover(page: Any, selector: str) -> None:
    page.execute_script(
        "const e = document.querySelector(arguments[0]); e.scrollIntoView({block: 'center', behavior: 'instant'});"
        "e.dispatchEvent(new MouseEvent('mouseover', {bubbles: true}));"
        "e.dispatchEvent(new MouseEvent('mouseenter', {bubbles: false}))",
        selector,
    )


def keys(page: Any, selector: str, *names: str) -> None:
    from selenium.webdriver.common.keys import Keys

    find(page, selector).send_keys(*(getattr(Keys, n, n) for n in names))


def accumulate(found: Facts) -> int:
    return next(i for i, line in enumerate(found.texts.spec, 1) if line.text.strip().startswith("accumulate"))


def test_it_renders_without_errors_or_requests(page: Any) -> None:
    assert page.title == "tkgen report: eight_wave, ping_pong"
    assert page.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert page.get_log("browser") == []
    sent = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    requests = [m["params"] for m in sent if m["method"] == "Network.requestWillBeSent"]
    urls = [r["request"]["url"] for r in requests if r["documentURL"].startswith("file:")]  # not the browser's own page
    assert urls and all(url.startswith(("file:", "data:")) for url in urls)
    for picture in ("ownership", "pipeline", "dataflow", "registers", "lds", "swizzle", "order", "mix"):
        size = find(page, f"#k0 [data-picture={picture}] svg").size
        assert size["width"] > 100 and size["height"] > 60, picture


def test_pointing_at_a_spec_line_lights_up_its_code(page: Any, eight_wave_facts: Facts) -> None:
    line = accumulate(eight_wave_facts)
    hover(page, f"#k0-spec-{line}")
    assert count(page, "#k0 [data-pane=cpp] .hit") == sum(line in c.spec for c in eight_wave_facts.texts.cpp)
    mfma = sum(i.kind == "mfma" for i in eight_wave_facts.texts.isa)
    assert count(page, "#k0 [data-pane=isa] .hit[data-kind=mfma]") == mfma
    assert f"{mfma} mfma" in find(page, "#k0 .status").text
    seen = page.execute_script(
        "const p = document.querySelector('#k0 [data-pane=isa]'), r = p.querySelector('.hit');"
        "return r.offsetTop >= p.scrollTop && r.offsetTop < p.scrollTop + p.clientHeight"
    )
    assert seen  # the other column scrolled to the first instruction
    hover(page, "#k0-spec-1")
    assert count(page, "#k0 [data-pane=isa] .hit") == 0


def test_an_instruction_leads_back_to_its_lines(page: Any, eight_wave_facts: Facts) -> None:
    index = next(i for i, line in enumerate(eight_wave_facts.texts.isa) if line.kind == "mfma")
    hover(page, f"#k0-isa-{index}")
    hits = page.find_elements("css selector", "#k0 [data-pane=spec] .hit")
    assert [h.get_attribute("data-n") for h in hits] == [str(accumulate(eight_wave_facts))]
    cpp = page.find_elements("css selector", "#k0 [data-pane=cpp] .hit")
    assert [int(c.get_attribute("data-n")) for c in cpp] == list(eight_wave_facts.texts.isa[index].cpp)


def test_a_click_holds_and_escape_lets_go(page: Any, eight_wave_facts: Facts) -> None:
    line = accumulate(eight_wave_facts)
    page.execute_script("document.querySelector(arguments[0]).click()", f"#k0-spec-{line}")
    hover(page, "#k0-spec-1")
    assert find(page, "#k0 [data-pane=spec] .hit").get_attribute("data-n") == str(line)
    keys(page, "#k0 [data-pane=spec]", "ESCAPE")
    assert count(page, "#k0 .row.hit") == 0


def test_lines_by_keyboard(page: Any, eight_wave_facts: Facts) -> None:
    keys(page, "#k0 [data-pane=spec]", *["ARROW_DOWN"] * accumulate(eight_wave_facts))
    active = find(page, "#k0 [data-pane=spec]").get_attribute("aria-activedescendant")
    assert active == f"k0-spec-{accumulate(eight_wave_facts)}"
    assert count(page, "#k0 [data-pane=isa] .hit[data-kind=mfma]") > 0
    keys(page, "#k0 [data-pane=spec]", "ENTER")
    assert count(page, "#k0 .panes.held") == 1


def test_the_main_loop_alone(page: Any, eight_wave_facts: Facts) -> None:
    page.execute_script("document.querySelector('#k0 .loop-only').click()")
    shown = page.execute_script(
        "return [...document.querySelectorAll('#k0 [data-pane=isa] .row')].filter(r => r.offsetParent).length"
    )
    assert shown == sum(line.loop for line in eight_wave_facts.texts.isa)


def test_one_kernel_at_a_time(page: Any) -> None:
    assert find(page, "#k0").is_displayed() and not find(page, "#k1").is_displayed()
    keys(page, "#tab-0", "ARROW_RIGHT")
    assert find(page, "#k1").is_displayed() and not find(page, "#k0").is_displayed()
    assert page.switch_to.active_element.get_attribute("id") == "tab-1"
    page.execute_script("location.hash = '#k0-order'")
    page.execute_async_script("setTimeout(arguments[0], 50)")
    assert find(page, "#k0").is_displayed()


def test_light_and_dark(page: Any) -> None:
    def background() -> str:
        return str(page.execute_script("return getComputedStyle(document.body).backgroundColor"))

    before = background()
    find(page, ".theme").click()
    after = background()
    assert before != after
    page.refresh()
    assert background() == after  # remembered
    find(page, ".theme").click()
    assert background() == before


def test_one_waves_tiles(page: Any) -> None:
    page.execute_script("document.querySelector('#k0 .waves button[data-wave=\"3\"]').click()")
    lit = page.find_elements("css selector", "#k0 [data-picture=ownership] .own.lit")
    assert lit and {g.get_attribute("data-wave") for g in lit} == {"3"}


def test_an_operation_shows_its_dependencies(page: Any, eight_wave_facts: Facts) -> None:
    node = next(n.position for n in eight_wave_facts.flow.nodes if n.text == "load A[k+1]")
    hover(page, f"#k0 [data-picture=pipeline] [data-node='{node}']")
    rows = page.find_elements("css selector", "#k0 .links tr.hit")
    assert {(r.get_attribute("data-source"), r.get_attribute("data-target")) for r in rows} == {
        (str(link.source), str(link.target))
        for link in eight_wave_facts.pipeline.links
        if node in (link.source, link.target)
    }
    assert count(page, "#k0 [data-picture=pipeline] .link.lit") == len(rows)
    assert count(page, "#k0 [data-picture=dataflow] .node.lit") == 2


def test_operations_by_keyboard(page: Any, eight_wave_facts: Facts) -> None:
    ops = [op for op in eight_wave_facts.pipeline.lanes[0].ops if op.node >= 0]
    keys(page, "#k0 [data-picture=pipeline]", *["ARROW_RIGHT"] * len(ops))
    assert find(page, "#k0 .op-status").text.startswith(ops[-1].text)
    inside = page.execute_script(
        "const p = document.querySelector('#k0 [data-picture=pipeline]').getBoundingClientRect();"
        "const o = document.querySelector('#k0 .op.at').getBoundingClientRect();"
        "return o.left >= p.left && o.left < p.right"
    )
    assert inside and count(page, "#k0 .links tr.hit") > 0
    keys(page, "#k0 [data-picture=pipeline]", "ENTER")
    assert find(page, "#k0 [data-pane=spec] .hit").get_attribute("data-n") == str(ops[-1].line)
    keys(page, "#k0 [data-picture=pipeline]", "ESCAPE")
    assert count(page, "#k0 .op.at") == 0


def test_an_operation_leads_to_its_line(page: Any, eight_wave_facts: Facts) -> None:
    selector = f"#k0 [data-picture=pipeline] [data-line='{accumulate(eight_wave_facts)}']"
    page.execute_script(
        "document.querySelector(arguments[0]).dispatchEvent(new MouseEvent('click', {bubbles: true}))", selector
    )
    assert find(page, "#k0 [data-pane=spec] .hit").get_attribute("data-n") == str(accumulate(eight_wave_facts))


def test_the_graph_zooms_and_moves(page: Any) -> None:
    def box() -> list[float]:
        return [float(v) for v in find(page, "#k0 .zoom svg").get_dom_attribute("viewBox").split()]

    whole = box()
    page.execute_script(
        "const b = document.querySelector('#k0 .zoom'); b.scrollIntoView({block: 'center', behavior: 'instant'});"
        "const r = b.getBoundingClientRect();"
        "const at = {deltaY: -100, clientX: r.x + 50, clientY: r.y + 50, cancelable: true};"
        "b.dispatchEvent(new WheelEvent('wheel', at))"
    )
    near = box()
    assert near[2] < whole[2] and near[3] < whole[3]
    from selenium.webdriver import ActionChains

    ActionChains(page).drag_and_drop_by_offset(find(page, "#k0 .zoom"), 60, 0).perform()
    assert box()[0] < near[0]
    keys(page, "#k0 .zoom", "0")
    assert box() == whole
    find(page, "#k0 [data-zoom=in]").click()
    assert box()[2] < whole[2]


def test_tiles_in_flight(page: Any, eight_wave_facts: Facts) -> None:
    def outline() -> str:
        return str(find(page, "#k0 [data-picture=order] .window").get_attribute("d"))

    first = outline()
    assert first
    page.execute_script(
        "const s = document.querySelector('#k0 .time'); s.value = s.max; s.dispatchEvent(new Event('input'))"
    )
    assert outline() != first
    assert find(page, "#k0 output").text.endswith(f"of {len(eight_wave_facts.order.sequence)}")


@pytest.fixture(scope="module")
def timed_report(tmp_path_factory: pytest.TempPathFactory) -> str:
    build = spec_of("ping_pong").build()
    path = tmp_path_factory.mktemp("timed") / "report.html"
    path.write_text(render_html([facts(build, prediction(build))]), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def timed(browser: Any, timed_report: str) -> Any:
    browser.set_window_size(1280, 900)
    browser.get(timed_report)
    return browser


BOX = "#k0 [data-picture=time-scale]"


def view(page: Any) -> tuple[float, float]:
    """The cycles that the timeline shows."""
    data = find(page, BOX)
    return float(data.get_attribute("data-from")), float(data.get_attribute("data-to"))


def test_the_pipeline_to_scale_begins_with_the_steady_loop(timed: Any) -> None:
    assert timed.get_log("browser") == []
    loop = timed.execute_script("return JSON.parse(document.getElementById('data').textContent)[0].time.loop")
    assert view(timed) == tuple(loop)
    assert count(timed, f"{BOX} .last") == 16  # two passes of eight barriers
    bars = timed.execute_script("return JSON.parse(document.getElementById('data').textContent)[0].time.bars")
    for wave in range(8):
        shown = [b for b in bars if b[0] == "MFMA" and b[2] == wave and b[4] >= loop[0] and b[3] <= loop[1]]
        assert count(timed, f"{BOX} .w{wave}") == len(shown) >= 8
    labels = [e.text for e in timed.find_elements("css selector", f"{BOX} text.end")]
    assert [label for label in labels if "SIMD" in label] == [f"SIMD {n} · MFMA" for n in range(4)]
    assert {f"wave {n}" for n in range(8)} <= set(labels)
    wide = timed.execute_script(  # drawn to scale: a bar's width is its cycles
        "const b = document.querySelector(arguments[0] + ' .w0'), box = document.querySelector(arguments[0]);"
        "const d = JSON.parse(document.getElementById('data').textContent)[0].time.bars[+b.dataset.bar];"
        "const scale = (box.clientWidth - 126) / (box.dataset.to - box.dataset.from);"
        "return [+b.getAttribute('width') / (d[4] - d[3]), scale]",
        BOX,
    )
    assert wide[0] == pytest.approx(wide[1], rel=0.02)


def test_the_abstract_view_is_the_second_tab(timed: Any) -> None:
    assert not find(timed, "#k0 [data-picture=pipeline]").is_displayed()
    keys(timed, "#k0-scale-tab", "ARROW_RIGHT")
    assert find(timed, "#k0 [data-picture=pipeline]").is_displayed() and not find(timed, BOX).is_displayed()
    assert timed.switch_to.active_element.get_attribute("id") == "k0-abstract-tab"


def test_pointing_at_a_wait_says_for_whom(timed: Any) -> None:
    timed.execute_script(
        "const every = [...document.querySelectorAll(arguments[0] + ' .t-barrier')];"
        "const at = every.find((b) => +b.getAttribute('width') > 40);"
        "at.scrollIntoView({block: 'center', behavior: 'instant'}); const r = at.getBoundingClientRect();"
        "at.dispatchEvent(new MouseEvent('mousemove', {bubbles: true, clientX: r.x + 5, clientY: r.y + 5}))",
        BOX,
    )
    said = find(timed, "#k0 .time-status").text
    assert "at the barrier" in said and "comes last, after multiply" in said
    assert find(timed, f"{BOX} .tip").is_displayed() and find(timed, f"{BOX} .tip").text == said
    assert count(timed, f"{BOX} .because") == 1


def test_the_timeline_by_keyboard(timed: Any) -> None:
    whole = view(timed)
    keys(timed, BOX, "+", "+")
    near = view(timed)
    assert whole[0] < near[0] < near[1] < whole[1]
    keys(timed, BOX, ">")
    assert view(timed)[0] > near[0]
    keys(timed, BOX, "HOME")
    assert view(timed)[0] <= 0 and view(timed)[1] >= whole[1]
    keys(timed, BOX, "0")
    assert view(timed) == whole
    keys(timed, BOX, "ARROW_DOWN", "ARROW_RIGHT")
    assert "SIMD 0" in find(timed, "#k0 .time-status").text and count(timed, f"{BOX} .at-hand") == 1
    for _ in range(12):
        if "multiply [k]" in find(timed, "#k0 .time-status").text:
            break
        keys(timed, BOX, "ARROW_RIGHT")
    keys(timed, BOX, "ENTER")
    line = find(timed, "#k0 [data-pane=spec] .hit").text
    assert "multiply" in line
    keys(timed, BOX, "ESCAPE")
    assert count(timed, f"{BOX} .at-hand") == 0 and find(timed, "#k0 .time-status").text == ""


def test_the_timeline_moves_by_mouse_and_buttons(timed: Any) -> None:
    from selenium.webdriver import ActionChains

    whole = view(timed)
    timed.execute_script(
        "const b = document.querySelector(arguments[0]); b.scrollIntoView({block: 'center', behavior: 'instant'});"
        "const r = b.getBoundingClientRect();"
        "b.dispatchEvent(new WheelEvent('wheel', {deltaY: -100, ctrlKey: true, clientX: r.x + 400, cancelable: true}))",
        BOX,
    )
    near = view(timed)
    assert near[1] - near[0] < whole[1] - whole[0]
    ActionChains(timed).drag_and_drop_by_offset(find(timed, f"{BOX} svg"), 80, 0).perform()
    assert view(timed)[0] < near[0]
    find(timed, "#k0 [data-time=all]").click()
    assert view(timed)[0] <= 0
    find(timed, "#k0 [data-time=loop]").click()
    assert view(timed) == whole


OVERLAPS = """
const found = [];
for (const svg of document.querySelectorAll('#k0 .picture svg')) {
  const frame = svg.getBoundingClientRect();
  const boxes = [...svg.querySelectorAll('text')].map((t) => [t, t.getBoundingClientRect()]).filter(([, b]) => b.width);
  boxes.forEach(([t, b], i) => {
    const cut = b.left < frame.left - 1 || b.right > frame.right + 1 || b.bottom > frame.bottom + 1;
    if (cut) found.push('cut: ' + t.textContent);
    for (const [u, c] of boxes.slice(i + 1)) {
      if (t.hasAttribute('transform') || u.hasAttribute('transform')) continue;  // slanted: the boxes say nothing
      const x = Math.min(b.right, c.right) - Math.max(b.left, c.left);
      const y = Math.min(b.bottom, c.bottom) - Math.max(b.top, c.top);
      if (x > 2 && y > 4) found.push(t.textContent + ' / ' + u.textContent);
    }
  });
}
return found;
"""


@pytest.mark.parametrize(
    "name", ["producer_consumer_4p8c", "hk_12c4p_3", "split_k", "persistent", "ping_pong", "one_wave"]
)
def test_labels_neither_overlap_nor_are_cut(browser: Any, tmp_path: Path, name: str) -> None:
    path = tmp_path / "labels.html"
    found = facts(spec_of(name))
    part = Part("multiplying", 100.0, 0.5), Part("LDS", 50.0, 0.3, lost=True), Part("tail", None, 0.2, lost=True)
    path.write_text(render_html([replace(found, prediction=Prediction("a model", PREDICTED, "LDS", part))]))
    browser.set_window_size(1280, 900)
    browser.get(path.as_uri())
    assert browser.execute_script(OVERLAPS) == []


@pytest.mark.parametrize("width", [1280, 600])
def test_nothing_sticks_out(page: Any, width: int) -> None:
    page.set_window_size(width, 900)
    assert (
        page.execute_script("return document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    )


def test_hostile_names_run_nothing(browser: Any, tmp_path: Path, eight_wave_facts: Facts) -> None:
    path = tmp_path / "hostile.html"
    path.write_text(render_html([hostile(eight_wave_facts)]), encoding="utf-8")
    browser.get(path.as_uri())
    assert browser.execute_script("return window.hacked") is None
    assert browser.execute_script("return document.scripts.length") == 2
    assert browser.get_log("browser") == []
