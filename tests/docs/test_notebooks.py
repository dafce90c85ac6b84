"""The notebooks of the documentation: their cells are executed in order, and show what is stored in them.

No Jupyter is needed: a cell is Python, and its last expression is shown by `_repr_html_`, else by `repr`.
`TKGEN_BLESS=1 pytest tests/docs/test_notebooks.py` stores the outputs.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import linecache
import os
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from documentation import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
FRAME = re.compile(r'<iframe title="([^"]*)" srcdoc="([^"]*)"')


def outputs(source: str, number: int, names: dict[str, Any]) -> list[dict[str, Any]]:
    """The outputs of a cell, as a notebook stores them."""
    file = f"cell {number}"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    tree, printed = ast.parse(source), io.StringIO()
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, file, "exec"), names)
        shown = eval(compile(ast.Expression(last.value), file, "eval"), names) if last else None
    found: list[dict[str, Any]] = []
    if printed.getvalue():
        found.append({"output_type": "stream", "name": "stdout", "text": printed.getvalue().splitlines(keepends=True)})
    if shown is not None:
        html = getattr(shown, "_repr_html_", None)
        data = {"text/html": html().splitlines(keepends=True)} if html else {}
        plain = f"<{type(shown).__name__}>" if html else repr(shown)  # shown where HTML is not
        data["text/plain"] = plain.splitlines(keepends=True)
        found.append({"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": data})
    return found


def told(output: dict[str, Any]) -> object:
    """The part of an output that does not depend on the compiler: texts, and of a page its title and headings."""
    if output["output_type"] == "stream":
        return "".join(output["text"])
    data = {kind: "".join(lines) for kind, lines in output["data"].items()}
    if "text/html" not in data:
        return data
    found = FRAME.match(data["text/html"])
    assert found is not None
    return found[1], re.findall(r"<h1[^>]*>([^<]+)<", unescape(found[2]))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_show_what_is_stored(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # where `specs` is
    notebook = json.loads(path.read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    made = [outputs("".join(cell["source"]), n, names) for n, cell in enumerate(cells, 1)]
    if os.environ.get("TKGEN_BLESS"):
        for number, (cell, found) in enumerate(zip(cells, made, strict=True), 1):
            cell |= {"outputs": found, "execution_count": number}
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert [list(map(told, found)) for found in made] == [list(map(told, cell["outputs"])) for cell in cells]


def test_there_are_notebooks_and_a_page_links_each() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    assert NOTEBOOKS and all(f"(notebooks/{path.name})" in pages for path in NOTEBOOKS)
