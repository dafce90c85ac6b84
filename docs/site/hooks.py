"""What the site's build does beside MkDocs: marks for the tests are dropped, search works in pages opened as files."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

# The theme's plugin `offline` puts this address into every page; the file of our own does the same from the site.
SHIM = "https://unpkg.com/iframe-worker/shim"
WORKER = "assets/javascripts/worker.js"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs for every page: drop `fragment` and `about` of fences, which no highlighter knows."""
    return re.sub(r"^```(tk fragment|console about)$", lambda m: "```" + m[1].split()[0], markdown, flags=re.MULTILINE)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Called for the HTML of every page: take the script from the site."""
    depth = page.url.count("/")
    return output.replace(SHIM, "../" * depth + WORKER)


def on_post_build(config: Any, **_: Any) -> None:
    """Called at the end: put the script into the site; the page for what is missing needs none."""
    site = Path(config["site_dir"])
    shutil.copy(Path(__file__).with_name("worker.js"), site / WORKER)
    missing = site / "404.html"
    missing.write_text(missing.read_text(encoding="utf-8").replace(f'<script src="{SHIM}"></script>', ""), "utf-8")
