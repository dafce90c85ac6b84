"""Build steps of the site that MkDocs lacks.

They remove the marks that only tests need, make the search work in pages that are opened as files, and give the
playground Python, tkgen and its examples.
"""

from __future__ import annotations

import json
import re
import shutil
import tomllib
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

# The theme's plugin `offline` puts this address into every page; `worker.js` does the same without another host.
SHIM = "https://unpkg.com/iframe-worker/shim"
WORKER = "assets/javascripts/worker.js"

ROOT = Path(__file__).parents[2]
PLAYGROUND = Path(__file__).with_name("playground")
PYTHON = PLAYGROUND / "node_modules" / "pyodide"  # installed by `make playground`
PYTHON_FILES = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
# The base install of tkgen, as far as checking and generating code need it, and Pygments to colour the code.
PACKAGES = (
    *("lark", "jinja2", "markupsafe", "networkx", "pyelftools", "msgpack", "rich", "markdown-it-py", "mdurl"),
    "pygments",
)
# Folders of `specs`, and what the playground calls them.
EXAMPLES = {
    "attention": "Attention",
    "rows": "Rows",
    "": "Products",
    "groups": "Groups and mixtures of experts",
    "low_precision": "Low precision",
    "quantise": "Quantisation",
    "sequences": "Sequences of kernels",
    "hopper": "Hopper",
}
CHOSEN = "gfx942"  # of the targets, at the start
OPENED = "specs/attention/attention.tk"
TARGETS = sorted(path.stem for path in (ROOT / "tkgen/targets").glob("*.toml"))
SPEC_LINK = re.compile(r"\[(`specs/[^`]+`)\]\(\.\./(specs/[\w/]+\.tk)\)")
RECIPE = re.compile(r"^```tk title=\"(\w+\.tk)\"\n(.*?)^```$", re.MULTILINE | re.DOTALL)  # of docs/cookbook.md
# Words of a question that say nothing about what is asked: every section has words that begin like one of these.
EMPTY = (
    *("a", "an", "and", "are", "can", "do", "does", "for", "get", "has", "have", "how", "i", "in", "is", "it", "make"),
    *("me", "my", "of", "on", "or", "should", "tell", "that", "the", "there", "to", "use", "want", "what", "when"),
    *("where", "which", "why", "with", "write", "you"),
)
# The theme's worker gets a question as a message of type 2, its words each with a `*`; this comes before its own code.
ASKED = """addEventListener("message", ({data: asked}) => {
  if (asked?.type !== 2 || typeof asked.data !== "string") return;
  const empty = new Set(EMPTY), said = asked.data.split(/\\s+/);
  const words = said.filter((word) => !empty.has(word.toLowerCase().replace(/[^a-z]/g, "")));
  if (words.length) asked.data = words.join(" ");
});
"""
# The links below the first paragraph of the first page, and the classes that `style.css` knows.
START = """<p class="tk-start">
<a class="md-button md-button--primary" href="tutorial.html">Write a first kernel</a>
<a class="md-button" href="playground.html">Try it here</a>
<a class="md-button" href="cookbook.html#install">Install</a>
</p>"""
# The weight of a word of `search.toml` beside that of a word in a title, 1000.
TAGS = 1500.0
# Pages that should come first in the search, and by how much.
BOOST = {"cookbook.md": 4, "tuning.md": 3}


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by MkDocs for every page: drop `fragment` and `about` of fences, which no highlighter knows.

    A recipe of the cookbook gets a link that opens it in the playground, and links to specs open them there.
    """
    markdown = SPEC_LINK.sub(r'<a href="playground.html#example=\2">\1</a>', markdown)
    if page.file.src_uri in BOOST:
        page.meta["search"] = {"boost": BOOST[page.file.src_uri]}
    if page.file.src_uri == "cookbook.md":
        link = r'<a href="playground.html#example=cookbook/\1">Open in the playground</a>'
        markdown = RECIPE.sub(rf"\g<0>\n\n{link}", markdown)
    return re.sub(r"^```(tk fragment|console about)$", lambda m: "```" + m[1].split()[0], markdown, flags=re.MULTILINE)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Called for the HTML of every page: take the script from the site, and mark the parts of the first page."""
    depth = page.url.count("/")
    if page.file.src_uri == "index.md":
        output = output.replace("<body ", '<body class="tk-first" ', 1)
        output = re.sub(r"(<h1.*?</p>)", lambda m: m[1] + START, output, count=1, flags=re.DOTALL)
        head, mark, pages = output.partition('<h2 id="pages">')
        output = head + mark + pages.replace("<table>", '<table class="tk-cards">')
    return output.replace(SHIM, "../" * depth + WORKER)


def on_post_build(config: Any, **_: Any) -> None:
    """Called at the end: put the script into the site; the page for missing pages needs none."""
    site = Path(config["site_dir"])
    _add_search_words(site)
    shutil.copy(Path(__file__).with_name("worker.js"), site / WORKER)
    _add_playground(site / "assets" / "playground")
    missing = site / "404.html"
    missing.write_text(missing.read_text(encoding="utf-8").replace(f'<script src="{SHIM}"></script>', ""), "utf-8")


def _add_search_words(site: Path) -> None:
    """Give sections the words of `search.toml` as tags, and questions only the words that count."""
    index = site / "search" / "search_index.json"
    words = tomllib.loads(Path(__file__).with_name("search.toml").read_text(encoding="utf-8"))
    found = json.loads(index.read_text(encoding="utf-8"))
    for entry in found["docs"]:
        if entry["location"] in words:
            entry["tags"] = words.pop(entry["location"])
    if words:
        raise ValueError(f"search.toml names sections that do not exist: {', '.join(words)}")
    found["config"]["fields"]["tags"]["boost"] = TAGS
    index.write_text(json.dumps(found), "utf-8")
    (worker,) = (site / "assets/javascripts/workers").glob("search.*.min.js")
    asked = ASKED.replace("EMPTY", json.dumps(EMPTY))
    worker.write_text(asked + worker.read_text(encoding="utf-8"), "utf-8")


def _add_playground(into: Path) -> None:
    """Copy the playground's files; without pyodide only those of the page, which then says what is missing."""
    into.mkdir(parents=True, exist_ok=True)
    for name in ("page.js", "page.css", "worker.js"):
        shutil.copy(PLAYGROUND / name, into)
    if not PYTHON.is_dir():
        return
    (into / "pyodide").mkdir(exist_ok=True)
    for name in PYTHON_FILES:
        shutil.copy(PYTHON / name, into / "pyodide")
    _pack(into / "packages.zip")
    cookbook = (ROOT / "docs" / "cookbook.md").read_text(encoding="utf-8")
    examples = {"Cookbook": {f"cookbook/{name}": text for name, text in RECIPE.findall(cookbook)}}
    examples |= {title: _specs(folder) for folder, title in EXAMPLES.items()}
    text = json.dumps(
        {"targets": sorted(TARGETS, key=lambda name: name != CHOSEN), "opened": OPENED, "examples": examples}
    )
    (into / "examples.json").write_text(text, encoding="utf-8")


def _specs(folder: str) -> dict[str, str]:
    """The specs of a folder below `specs`, by their paths."""
    found = sorted((ROOT / "specs" / folder).glob("*.tk"))
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in found}


def _pack(archive: Path) -> None:
    """Write tkgen with its grammar and specs, and the pure Python of the packages it needs."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in PACKAGES:
            for file in distribution(name).files or ():
                if file.suffix in (".py", ".lark") and ".." not in file.parts and "tests" not in file.parts:
                    packed.write(str(file.locate()), file.as_posix())
        for path in sorted((ROOT / "tkgen").rglob("*")):
            if path.is_file() and not {"vscode", "__pycache__"} & set(path.parts):
                packed.write(path, path.relative_to(ROOT))
        packed.write(ROOT / "grammar" / "tk.lark", "tkgen/grammar/tk.lark")
        for path in sorted((ROOT / "specs").rglob("*.tk")):
            packed.write(path, path.relative_to(ROOT))
