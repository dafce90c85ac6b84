"""The comparison page shows the sources of benchmarks/, with the lines that its table states."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import pytest
from documentation import ROOT, blocks

from tkgen.sanitize.subject import from_source

PAGE = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
PEERS = ROOT / "benchmarks" / "peers"
HIPKITTENS = os.environ.get("TKGEN_HIPKITTENS", "")


def function(path: Path) -> str:
    """The source of `attention` in a module, decorators included."""
    text = path.read_text(encoding="utf-8")
    (node,) = (n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and n.name == "attention")
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    return "".join(text.splitlines(keepends=True)[first - 1 : node.end_lineno])


SOURCES = {
    "tkgen": next(b.body for b in blocks(PAGE) if b.title == "attention.tk" and b.language == "tk"),
    "Triton": function(ROOT / "benchmarks" / "triton_attention.py"),
    "TileLang": function(PEERS / "attention_tilelang.py"),
    "HipKittens": (PEERS / "attention_hipkittens.cpp").read_text(encoding="utf-8"),
}


@pytest.mark.parametrize("name", SOURCES)
def test_the_page_shows_the_kernel(name: str) -> None:
    assert SOURCES[name] in [block.body for block in blocks(PAGE)]


def test_the_table_has_the_lines_of_each_kernel() -> None:
    (row,) = re.findall(r"^\| Lines \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", PAGE, re.MULTILINE)
    unseen = re.compile(r'\s*(#(?!include).*|//.*|""".*""")?')
    counted = [sum(not unseen.fullmatch(line) for line in text.splitlines()) for text in SOURCES.values()]
    assert [int(number) for number in row] == counted


def test_the_readme_repeats_rows_of_the_page_and_the_loop() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme.split("(docs/compare.md), each short")[1].split("\n\n")[1]
    assert set(table.splitlines()[2:]) <= set(PAGE.splitlines())
    (loop,) = (block.body for block in blocks(readme) if "each j" in block.body)
    assert loop.rstrip() in "\n".join(line.removeprefix("  ") for line in SOURCES["tkgen"].splitlines())


@pytest.mark.skipif(not HIPKITTENS, reason="TKGEN_HIPKITTENS names no checkout of HipKittens")
def test_hipkittens_version_compiles_against_its_headers() -> None:
    defines = {"HIP_ENABLE_WARP_SYNC_BUILTINS": ""}
    subject = from_source(PEERS / "attention_hipkittens.cpp", "gfx950", kittens=Path(HIPKITTENS), defines=defines)
    assert [kernel.name for kernel in subject.code.kernels] == ["_Z6attend7globals"]
