"""The site: it builds without a warning, asks no other host for anything, and all its links lead somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

pytest.importorskip("material", reason="the documentation site needs the extra `docs`: pip install 'tkgen[docs]'")

ROOT = Path(__file__).parents[2]
# What a browser fetches by itself: attributes of elements. A link that a reader clicks is not among them.
FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "object": "data", "embed": "src"}
# Addresses in Material's own scripts that it asks for only where a page has what they are for, and ours have none of
# these: diagrams, a repository's facts, a browser without ResizeObserver (none since 2020). The others are comments.
UNUSED = {
    "https://unpkg.com/mermaid": 'class="mermaid"',
    "https://api.github.com/": 'data-md-component="source"',
    "https://unpkg.com/resize-observer-polyfill": "",
    "https://clipboardjs.com/": "",
    "https://bit.ly/": "",
}


@dataclass
class Page(HTMLParser):
    """What a page of the site names and offers."""

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
    for source in (ROOT / "docs").glob("*.md"):
        assert (site / f"{source.stem}.html").exists()
    assert not list(site.rglob("*.py"))


def test_nothing_is_fetched_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        for address in page.fetched:
            assert not urlsplit(address).netloc, (path, address)
            assert (path.parent / unquote(urlsplit(address).path)).exists() or path.name == "404.html", (path, address)
        assert not re.search(r"@import|url\(\s*['\"]?(?:https?:)?//", page.text)
    for style in site.rglob("*.css"):
        assert not re.search(r"@import|url\(\s*['\"]?(?:https?:)?//", style.read_text(encoding="utf-8")), style
    scripts = [s for s in site.rglob("*.js") if s.parent.name != "lunr"]  # those are for other languages' pages
    assert len(scripts) >= 2
    for script in scripts:
        for address in re.findall(r"https?://[\w./@-]*", script.read_text(encoding="utf-8")):
            use = next((mark for prefix, mark in UNUSED.items() if address.startswith(prefix)), None)
            assert use is not None or address == "https://", (script, address)
            assert not use or not any(use in page.text for page in pages.values()), address


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
            if anchor and to.suffix == ".html":
                assert unquote(anchor) in pages[to].anchors, (path.name, link)


def test_specs_are_coloured(pages: dict[Path, Page]) -> None:
    """`tk` blocks are highlighted with the parser's own tokens; marks for the tests do not reach a reader."""
    text = next(page.text for path, page in pages.items() if path.name == "tutorial.html")
    assert re.search(r'<span class="k">kernel</span>', text)
    assert not any(re.search(r"```|console about|tk fragment", page.text) for page in pages.values())
