"""docs/remaps.md: every picture, figure and piece of C++ in it is what the remaps give today.

`TKGEN_BLESS=1 pytest tests/remap/test_remap_docs.py` writes them anew.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from tkgen.remap import REMAPS, Remap, RemapCall, compose
from tkgen.remap.measure import panels_per_window, picture

PAGE = Path(__file__).parents[2] / "docs" / "remaps.md"
FENCED = re.compile(r"(<!-- (picture|cpp): ([^\n]+) on (\w+) x (\w+) -->\n```\w+\n)(.*?)(```\n)", re.DOTALL)
TABLE = re.compile(r"(<!-- reuse: (.+) -->\n\|.*\n\|.*\n)((?:\|.*\n)+)")
COLUMN = re.compile(r"(\d+) blocks (?:of (\d+) XCDs )?on (\d+) x (\d+)")


def parse(text: str) -> Remap:
    """`xcd(8, chunk = 16) | morton`, without the real parser, which is not this test's subject."""
    calls = []
    for stage in text.split("|"):
        name, arguments = re.fullmatch(r"\s*(\w+)(?:\((.*)\))?\s*", stage).groups()
        values = [a.split("=") for a in (arguments or "").split(",") if a]
        positional = tuple(int(v[0]) for v in values if len(v) == 1)
        calls.append(RemapCall(name, {v[0].strip(): int(v[1]) for v in values if len(v) == 2}, positional))
    return compose(calls)


def fenced(match: re.Match[str]) -> str:
    opening, kind, remap, rows, cols, _, closing = match.groups()
    if kind == "picture":
        return f"{opening}{picture(parse(remap), int(rows), int(cols))}\n{closing}"
    extents = [int(e) if e.isdigit() else e for e in (rows, cols)]
    lines = parse(remap).cpp("block", *extents, indent="").statements
    return "\n".join([opening.rstrip("\n"), *lines, closing])


def table(match: re.Match[str]) -> str:
    head, columns, body = match.groups()
    rows = []
    for row in body.splitlines():
        text = row.split("`")[1]
        remap = parse(text.replace("\\|", "|"))  # a table needs its bars escaped
        figures = [
            f"{panels_per_window(remap, int(grid_rows), int(cols), int(window), int(xcds or 1)):.1f}"
            for window, xcds, grid_rows, cols in COLUMN.findall(columns)
        ]
        rows.append(f"| `{text}` | {' | '.join(figures)} |\n")
    return head + "".join(rows)


def test_the_page_is_up_to_date():
    page = PAGE.read_text()
    fresh = TABLE.sub(table, FENCED.sub(fenced, page))
    assert len(FENCED.findall(page)) >= len(REMAPS) and len(TABLE.findall(page)) == 1
    if os.environ.get("TKGEN_BLESS"):
        PAGE.write_text(fresh)
        page = fresh
    assert page == fresh


def test_every_remap_has_its_section_and_picture():
    page = PAGE.read_text()
    for spec in REMAPS.values():
        section = re.search(rf"^## {re.escape(spec.signature)}\n(.*?)^## ", page, re.DOTALL | re.MULTILINE)
        assert section, spec.signature
        assert f"picture: {spec.name}" in section[1]
        for parameter in spec.parameters:
            assert f"- `{parameter.name}`" in section[1] and f"{parameter.maximum}" in section[1]
