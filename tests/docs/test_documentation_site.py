"""The site: it builds without a warning, asks no other host for anything, and all its links lead somewhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, urldefrag, urlsplit

import pytest
from sampling import sample, slow

pytest.importorskip("material", reason="the documentation site needs the extra `docs`")

ROOT = Path(__file__).parents[2]
# What a browser fetches by itself: attributes of elements. A link that a reader clicks is not among them.
FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "object": "data", "embed": "src"}
# Addresses in Material's own scripts that it asks for only where a page has what they are for, and ours have none of
# these: diagrams, a repository's facts, a browser without ResizeObserver (none since 2020), a console message.
UNUSED = {
    "https://unpkg.com/mermaid": 'class="mermaid"',
    "https://api.github.com/": 'data-md-component="source"',
    "https://unpkg.com/resize-observer-polyfill": "",
    "https://bit.ly/": "",
}


@dataclass
class Page(HTMLParser):
    """Links, anchors and fetched files of a page of the site."""

    text: str
    links: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[k] for k in ("id", "name") if k in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and given.get("rel") not in ("canonical", "prev", "next"):
            self.fetched.append(given["href"])
        if tag in FETCHED and FETCHED[tag] in given:
            self.fetched.append(given[FETCHED[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    out = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "-f",
        str(ROOT / "docs/site/mkdocs.yml"),
        "-d",
        str(out),
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return out


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def test_every_page_of_the_folder_is_there(site: Path) -> None:
    for source in (ROOT / "docs").rglob("*.md"):
        if "node_modules" in source.parts:
            continue
        assert (site / source.relative_to(ROOT / "docs").with_suffix(".html")).exists()
    assert not list(site.rglob("*.py"))


@pytest.mark.parametrize("word", ["attention", "fp8", "when any", "ragged"])
def test_the_search_finds_what_cannot_be_said(word: str, site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    assert any(word in e["text"].lower() and e["location"].startswith("limits.html") for e in index["docs"])


KINDS = ("Learn", "Do one task", "Look up", "Understand")


def test_readme_and_index_have_each_page_under_its_kind() -> None:
    nav = (ROOT / "docs/site/mkdocs.yml").read_text(encoding="utf-8").split("nav:\n")[1]
    index, readme = ((ROOT / name).read_text(encoding="utf-8") for name in ("docs/index.md", "README.md"))
    for kind in KINDS:
        pages = set(re.findall(r": (\w+\.md)$", re.split(rf"  - {kind}:\n", nav)[1].split("\n  - ")[0], re.MULTILINE))
        (table,) = re.findall(rf"^\| {kind} \| \|\n(.*?)\n\n", index, re.MULTILINE | re.DOTALL)
        (row,) = re.findall(rf"^\| {kind} \| (.*)$", readme, re.MULTILINE)
        assert set(re.findall(r"\]\((\w+\.md)\)", table)) - {"compare.md"} == pages, kind
        assert set(re.findall(r"\]\(docs/(\w+\.md)\)", row)) - {"compare.md"} == pages, kind


# What people type, and the entry that must come first.
ANSWERS = {
    "autotune": "tuning.html",
    "glossary": "glossary.html",
    **{
        word: f"cookbook.html#{section}"
        for word, section in {
            "install": "install",
            "bias": "bias",
            "relu squared": "custom-activation-relu-squared",
            "soft cap": "soft-cap",
            "alibi": "alibi",
            "window": "sliding-window",
            "gqa": "gqa-and-mqa",
            "gated linear attention": "linear-attention-with-gates",
            "conv": "conv1d-with-channels-mixed",
            "causal conv1d": "causal-conv1d",
            "convolution": "2-d-convolution",
            "scan": "scan-cumulative-sum",
            "cross entropy": "cross-entropy",
            "quantise": "quantise-to-int8-with-residual-and-rms-norm",
            "quantize": "quantise-to-int8-with-residual-and-rms-norm",
            "rms norm": "quantise-to-int8-with-residual-and-rms-norm",
            "moe": "mixture-of-experts-moe",
            "top-k": "top-k-and-argmax",
            "topk": "top-k-and-argmax",
            "aot": "ahead-of-time-aot",
            "torch.compile": "torchcompile",
            "debug a race": "debug-a-race",
            "port a cuda kernel": "port-a-cuda-kernel",
        }.items()
    },
}


# What people type who look for a task, a machine or a cause, and the page or section of the first answer.
ASKED = {
    **dict.fromkeys(("flash attention", "sdpa"), "cookbook.html#attention"),
    **dict.fromkeys(("gemm", "matmul"), "cookbook.html#matrix-products"),
    **dict.fromkeys(("odd sizes", "padding", "non-multiple"), "cookbook.html#odd-sizes"),
    **dict.fromkeys(("out of registers", "spills"), "cookbook.html#out-of-registers-or-lds"),
    **dict.fromkeys(("deadlock", "race condition", "how do I debug a race"), "cookbook.html#debug-a-race"),
    **dict.fromkeys(("wrong result", "nan", "numerics"), "cookbook.html#wrong-results"),
    **dict.fromkeys(("benchmark", "profile"), "cookbook.html#benchmark-without-a-gpu"),
    **dict.fromkeys(("bank conflict", "swizzle"), "diagnostics.html#w501-accesses-to-lds-with-bank-conflicts"),
    "backward": "api.html#tkgenops",
    "lse": "cookbook.html#causal-attention",
    **dict.fromkeys(("label smoothing", "ignore_index"), "cookbook.html#cross-entropy"),
    **dict.fromkeys(("depthwise", "channels first"), "cookbook.html#causal-conv1d"),
    **dict.fromkeys(("macro", "define a function"), "language.html#function"),
    **dict.fromkeys(("rnn", "recurrent"), "language.html#recurrences"),
    **dict.fromkeys(("apply a fix", "unsafe fixes"), "agents.html#apply-a-fix"),
    "gates": "cookbook.html#linear-attention-with-gates",
    "slopes": "cookbook.html#alibi",
    **dict.fromkeys(("how do I run a kernel", "numpy", "pytorch"), "cookbook.html#run-a-kernel"),
    **dict.fromkeys(("cutlass", "composable kernel"), "compare.html"),
    **dict.fromkeys(("pytest", "ci"), "api.html#tests-of-your-own"),
    "how do I add a bias": "cookbook.html#bias",
    "how do I install this": "cookbook.html#install",
    "no gpu": "cookbook.html#install",
    "sliding window": "cookbook.html#sliding-window",
    "causal attention": "cookbook.html#causal-attention",
    "attention mask": "cookbook.html#attention-mask",
    "paged attention": "cookbook.html#decode-with-a-paged-kv-cache",
    "fp8": "cookbook.html#fp8-with-scales",
    "int4": "cookbook.html#int4-weights",
    "dynamic shapes": "cookbook.html#dynamic-sizes",
    "batched gemm": "cookbook.html#batched-product",
    "stream-k": "cookbook.html#split-k",
    "warp specialization": "cookbook.html#warp-specialisation-producer-and-consumer",
    "mamba": "cookbook.html#linear-attention-in-chunks",
    "layernorm": "cookbook.html#layer-norm",
    "softmax": "cookbook.html#softmax",
    "rope": "cookbook.html#rotary-embedding-rope",
    "transpose": "cookbook.html#transpose",
    "jit": "api.html#tkgenjit",
    "json": "agents.html#the-fields",
    "exit code": "agents.html#exit-codes",
    "vscode": "editor.html",
    "hip": "hip.html",
    "h100": "measured.html",
    "mi300x": "prediction.html",
    "limitations": "limits.html",
    "alignment": "diagnostics.html#w201-an-operand-that-is-read-one-element-at-a-time",
}


def test_the_search_answers_with_the_page_about_it(browser: Any, address: str) -> None:
    """One page, one word after the other: the first answer is a page, then its best section."""
    from selenium.webdriver.support.ui import WebDriverWait

    links = "return [...document.querySelectorAll('.md-search-result__link')].map(a => a.href)"
    browser.get("about:blank")
    browser.get(f"{address}/index.html?q=zzz")
    WebDriverWait(browser, 60).until(
        lambda b: (
            "No matching" in b.find_element("css selector", ".md-search-result__meta").get_attribute("textContent")
        )
    )
    wrong = {}
    for word, answer in {**ANSWERS, **ASKED}.items():
        for typed in ("", word):
            browser.execute_script(
                "const e = document.querySelector('.md-search__input');"
                "e.value = arguments[0]; e.dispatchEvent(new Event('keyup'))", typed,
            )  # fmt: skip
            WebDriverWait(browser, 60, 0.05).until(lambda b, typed=typed: bool(b.execute_script(links)) == bool(typed))
        found = [re.sub(r"\?h=[^#]*", "", link.split("/")[-1]).strip("#") for link in browser.execute_script(links)]
        if answer not in found[:2]:
            wrong[word] = found[:2]
    assert wrong == {}


def test_every_word_for_the_search_is_of_one_section() -> None:
    """`search.toml` gives no two sections the same word: the second would never come first."""
    words = tomllib.loads((ROOT / "docs/site/search.toml").read_text(encoding="utf-8"))
    counted = Counter(word for each in words.values() for word in each)
    assert max(counted.values()) == 1, counted.most_common(3)


def test_nothing_is_fetched_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        for address in page.fetched:
            assert not urlsplit(address).netloc, (path, address)
            assert (path.parent / unquote(urlsplit(address).path)).exists() or path.name == "404.html", (path, address)
        assert not re.search(r"@import|url\(\s*['\"]?(?:https?:)?//", page.text)
    for style in site.rglob("*.css"):
        assert not re.search(r"@import|url\(\s*['\"]?(?:https?:)?//", style.read_text(encoding="utf-8")), style
    scripts = [s for s in site.rglob("*.js") if "lunr" not in s.parts]  # those are for other languages' pages
    assert len(scripts) >= 2
    for script in scripts:
        code = re.sub(r"/\*.*?\*/", "", script.read_text(encoding="utf-8"), flags=re.DOTALL)
        for address in re.findall(r"https?://\w[\w./@-]*", code):
            use = next((mark for prefix, mark in UNUSED.items() if address.startswith(prefix)), None)
            assert use is not None, (script, address)
            assert not use or not any(use in page.text for page in pages.values()), address


def playground_examples(site: Path) -> set[str]:
    """The names of the playground's examples; of recipes and specs, where the site has no playground."""
    listed = site / "assets" / "playground" / "examples.json"
    if not listed.exists():
        recipes = re.findall(r'title="(\w+\.tk)"', (ROOT / "docs" / "cookbook.md").read_text(encoding="utf-8"))
        specs = {path.relative_to(ROOT).as_posix() for path in (ROOT / "specs").rglob("*.tk")}
        return {f"cookbook/{name}" for name in recipes} | specs
    return {name for group in json.loads(listed.read_text(encoding="utf-8"))["examples"].values() for name in group}


def test_every_link_leads_somewhere(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # its links are absolute, for a server
        for link in page.links:
            if urlsplit(link).scheme:
                continue
            place, anchor = urldefrag(link)
            to = (path.parent / unquote(place)).resolve() if place else path
            to = to / "index.html" if to.is_dir() else to
            assert to.exists(), (path.name, link)
            if anchor.startswith("example="):  # of the playground
                assert anchor.removeprefix("example=") in playground_examples(site)
            elif anchor and to.suffix == ".html":
                assert unquote(anchor) in pages[to].anchors, (path.name, link)


def test_each_spec_of_the_gallery_opens_in_the_playground(pages: dict[Path, Page]) -> None:
    (gallery,) = (page for path, page in pages.items() if path.name == "gallery.html")
    specs = {path.relative_to(ROOT).as_posix() for path in (ROOT / "specs").rglob("*.tk")}
    assert {urldefrag(link)[1].removeprefix("example=") for link in gallery.links if "#example=" in link} == specs


def test_specs_are_coloured(pages: dict[Path, Page]) -> None:
    """`tk` blocks are highlighted with the parser's own tokens; marks for the tests do not reach a reader."""
    text = next(page.text for path, page in pages.items() if path.name == "tutorial.html")
    assert re.search(r'<span class="k">kernel</span>', text)
    assert not any(re.search(r"```|console about|tk fragment", page.text) for page in pages.values())


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The site on a server of this machine."""
    handler = partial(Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and keeps silent."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Headless Chromium that reaches this machine alone."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium (pip install selenium)")
    chromium, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("needs Chromium and its driver (apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (
        *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--window-size=1280,900"),
        *("--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
        f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield chrome
    chrome.quit()


@pytest.mark.parametrize("opened", ["from a server", "as a file"])
def test_search_works_without_a_network(browser: Any, address: str, site: Path, opened: str) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    start = address if opened == "from a server" else site.as_uri()
    browser.get(f"{start}/index.html?q=poison")
    found = WebDriverWait(browser, 60).until(
        lambda b: b.execute_script("return [...document.querySelectorAll('.md-search-result__link')].map(a => a.href)")
    )
    assert any("emulator.html" in link for link in found), found
    asked = browser.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
    assert all(name.startswith((start, "data:", "blob:")) for name in asked), asked
    assert [entry for entry in browser.get_log("browser") if "favicon" not in entry["message"]] == []


@pytest.mark.parametrize("part", sample(range(4), 4))
def test_every_page_fits_a_telephone(
    part: int, browser: Any, address: str, site: Path, pages: dict[Path, Page]
) -> None:
    """At 390 px no page scrolls sideways, what sticks out is in a box that scrolls by itself, and the menu opens."""
    from selenium.webdriver.support.ui import WebDriverWait

    width = 390
    outside = """
        const scrolls = e => ['auto', 'scroll'].includes(getComputedStyle(e).overflowX)
        const boxed = e => !e.matches('article') && (scrolls(e) || boxed(e.parentElement))
        const out = e => e.getBoundingClientRect().right > arguments[0] + 1 && !boxed(e.parentElement)
        return [...document.querySelectorAll('article *')].filter(out).map(e => e.outerHTML.slice(0, 80))
    """
    metrics = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    for path in sorted(path for path in pages if path.name != "404.html")[part::4]:
        browser.get(f"{address}/{path.relative_to(site)}")
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width, path.name
        assert browser.execute_script(outside, width) == [], path.name
    sizes = "return ['p', 'td', 'pre code'].map(e => parseFloat(getComputedStyle(document.querySelector(e)).fontSize))"
    browser.get(f"{address}/index.html")
    assert min(browser.execute_script(sizes)) >= 12
    browser.execute_script("document.querySelector('label.md-header__button[for=__drawer]').click()")
    menu = "return document.querySelector('.md-sidebar--primary').getBoundingClientRect().x"
    WebDriverWait(browser, 10).until(lambda b: b.execute_script(menu) >= 0)  # it slides in
    browser.execute_script("document.querySelector('label.md-header__button[for=__drawer]').click()")
    wide = "document.querySelector('article').innerHTML += '<div style=\"width: 600px\">wide</div>'"
    browser.execute_script(wide)
    assert len(browser.execute_script(outside, width)) == 1
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.get_log("browser")  # messages of these pages are not those of another test


@pytest.mark.parametrize(("scheme", "width"), [("light", 390), slow("dark", 390), slow("light", 1280), ("dark", 1280)])
def test_text_and_code_stand_out(browser: Any, address: str, scheme: str, width: int) -> None:
    """Each word of pages has a contrast of 4.5 (WCAG AA) or more, code too, and keywords of specs have own colours."""
    metrics = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width == 390}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    wanted = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)
    browser.get(f"{address}/index.html")
    browser.execute_script("localStorage.clear()")  # the theme keeps the scheme of the visit before
    pale = """
        const rgb = text => text.match(/[\\d.]+/g).map(Number)
        const light = c => rgb(c).slice(0, 3).map(v => v / 255)
            .map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
            .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0)
        const clear = c => rgb(c).length == 4 && rgb(c)[3] == 0
        const ground = e => clear(getComputedStyle(e).backgroundColor) && e.parentElement
            ? ground(e.parentElement) : getComputedStyle(e).backgroundColor
        const contrast = e => {
            const [a, b] = [light(getComputedStyle(e).color), light(ground(e))].sort((x, y) => y - x)
            return (a + .05) / (b + .05)
        }
        const words = e => [...e.childNodes].some(n => n.nodeType == 3 && n.data.trim())
        const shown = e => words(e) && e.offsetParent && !e.matches('.headerlink')
        const all = [...document.querySelectorAll('article *, .md-tabs__link, .md-nav__link')].filter(shown)
        return [all.length, all.filter(e => contrast(e) < 4.5).map(e => [e.outerHTML.slice(0, 90), contrast(e)])]
    """
    for page in ("index.html", "tutorial.html", "diagnostics.html"):
        browser.get(f"{address}/{page}")
        assert browser.execute_script("return document.body.dataset.mdColorScheme") == (
            "slate" if scheme == "dark" else "default"
        )
        count, found = browser.execute_script(pale)
        assert count > 100
        assert found == [], page
    browser.get(f"{address}/language.html")
    colours = "return ['.k', '.nf', '.no', '.mi, .m', '.c1', '.kt'].map(c => document.querySelector(`.highlight ${c}`))"
    found = browser.execute_script(colours + ".map(e => e && getComputedStyle(e).color)")
    assert None not in found
    assert len(set(found)) == len(found), found
    browser.execute_script("document.querySelector('article p').style.color = 'rgb(122, 122, 122)'")
    assert browser.execute_script(pale)[1]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.get_log("browser")


def test_the_first_page_leads_to_all_others(browser: Any, address: str) -> None:
    """Its first screen has the links to start with, and each table of pages is cards, one a row on a telephone."""
    places = "return [...document.querySelectorAll(arguments[0])].map(e => Math.round(e.getBoundingClientRect().x))"
    for width, columns in ((390, 1), (1280, 2)):
        metrics = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width == 390}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        browser.get(f"{address}/index.html")
        start = "return document.querySelector('.tk-start').getBoundingClientRect().bottom"
        assert browser.execute_script(start) < 844
        cards = browser.execute_script(places, ".tk-cards tbody tr")
        assert len(cards) > 25
        assert len(set(cards)) >= columns
        assert width != 390 or len(set(cards)) == 1
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@dataclass
class Playground:
    """The playground in a browser."""

    browser: Any

    def wait(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds; the first answer comes once Python is loaded."""
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.browser, 240).until(lambda _: condition())

    def shown(self, part: str) -> str:
        """The text of a part of the page."""
        return str(self.browser.execute_script(f"return document.getElementById('playground-{part}').textContent"))

    def look(self, view: str) -> None:
        """Open one of the views of the spec."""
        self.browser.execute_script(f"document.querySelector('[data-view={view}]').click()")

    def misspell(self) -> None:
        """Type `wavs 4` in place of `waves 4`, and wait for its diagnostic."""
        self.browser.execute_script(
            "const e = document.getElementById('playground-editor');"
            "e.value = e.value.replace('  waves 4', '  wavs 4'); e.dispatchEvent(new Event('input'))"
        )
        self.wait(lambda: "1 error" in self.shown("status"))


@pytest.fixture
def playground(browser: Any, address: str, site: Path) -> Iterator[Playground]:
    """The playground with a shipped spec, which is proven; at the end the browser has no message."""
    if not (site / "assets" / "playground" / "pyodide").exists():
        pytest.skip("needs pyodide (make playground)")
    browser.get(f"{address}/playground.html#example=specs/rows/rmsnorm.tk&target=gfx950")
    opened = Playground(browser)
    opened.wait(lambda: opened.shown("status") == PROVEN)
    yield opened
    assert [entry for entry in browser.get_log("browser") if "favicon" not in entry["message"]] == []


PROVEN = "gfx950: 0 errors, 0 warnings"


def test_the_playground_answers_while_one_types(playground: Playground) -> None:
    """A shipped spec is proven in the browser; a mistake has its diagnostic, and the button of its fix removes it."""
    for view, part in (("diagnostics", "Proven"), ("equations", "kernel rmsnorm"), ("source", "#include")):
        playground.look(view)
        assert part in playground.shown("output")
    playground.look("dataflow")
    drawn = "const i = document.querySelector('#playground-output img'); return i && i.complete && i.naturalWidth"
    playground.wait(lambda: playground.browser.execute_script(drawn))
    playground.misspell()
    playground.look("diagnostics")
    assert "error[E103]" in playground.shown("output")
    playground.browser.execute_script("document.querySelector('#playground-output button').click()")
    playground.wait(lambda: playground.shown("status") == PROVEN)


@pytest.mark.slow
def test_a_link_to_the_playground_carries_its_spec(playground: Playground) -> None:
    """A link opened anew has the spec that was typed, and another link in the same tab replaces it."""
    browser, wait = playground.browser, playground.wait
    playground.misspell()
    browser.execute_script("document.getElementById('playground-link').click()")
    wait(lambda: "spec=" in browser.current_url)
    carried = browser.current_url
    browser.get("about:blank")
    browser.get(carried)
    wait(lambda: "1 error" in playground.shown("status"))
    browser.execute_script("location.hash = 'example=cookbook/conv1d.tk'")
    wait(lambda: playground.shown("status").endswith(": 0 errors, 0 warnings"))
    assert "kernel conv1d" in browser.execute_script("return document.getElementById('playground-editor').value")
    browser.execute_script("location.hash = 'spec=cut'")
    wait(lambda: "The link is incomplete" in playground.shown("status"))
    wait(lambda: "0 errors" in playground.shown("status"))
