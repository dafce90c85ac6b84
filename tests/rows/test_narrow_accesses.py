"""Rows whose accesses move 2 bytes each are said, as operands of products are that are read an element at a time."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tkgen.api import load
from tkgen.cli import app

SPEC = """kernel norm
  target {target}
  dims ROWS = {rows}, D = {size}
  global X : {kind}[ROWS, D]
  global Y : {kind}[{out}]
  over r in ROWS by {by}
  waves 4
  {allow}
  Y[{place}] = X[r] * 2
"""


def text(size: int, kind: str = "bf16", by: int = 4, allow: str = "", out: str = "ROWS, D", place: str = "r",
         rows: int = 1024, target: str = "gfx942") -> str:  # fmt: skip
    return SPEC.format(size=size, kind=kind, by=by, allow=allow, out=out, place=place, rows=rows, target=target)


def warned(spec: str) -> list[tuple[str, str, str]]:
    """The tensor, its verb and the fix of each warning."""
    found = [d for d in load(spec).diagnostics if d.code == "W201"]
    said = [(re.findall(r"`(\w+)` is (\w+) one element at a time", d.message)[0], d.fix) for d in found]
    return [(*names, fix.text.split(",")[0]) for names, fix in said if fix]


@pytest.mark.parametrize("target", ["gfx942", "sm_90a"])
def test_uneven_rows_of_two_bytes_are_said(target: str) -> None:
    assert warned(text(4097, target=target)) == [("X", "read", "pad D to 4104"), ("Y", "written", "pad D to 4104")]
    (first, _) = load(text(4097, target=target)).diagnostics
    assert first.primary is not None and "D = 4097: each access moves 2 bytes" in first.primary.text


@pytest.mark.parametrize("spec", [
    text(4096), text(4104), text(4098),  # 4098: two elements, a whole register
    text(4097, kind="f32"),
    text(31),  # a row within one line of memory
    text(4097, allow="allow slow_reads"),
])  # fmt: skip
def test_even_rows_are_not(spec: str) -> None:
    assert warned(spec) == []


def test_the_fix_of_a_transposition_is_a_larger_tile() -> None:
    found = warned(text(4096, out="D, ROWS", place="D, r", by=1))
    assert found == [("Y", "written", "make tiles of `r` a multiple of 8 (`by`)")]
    assert warned(text(4096, out="D, ROWS", place="D, r", by=8)) == []


@pytest.mark.parametrize("target", ["gfx942", "sm_90a"])
def test_the_fix_pads_the_dimension(target: str, tmp_path: Path) -> None:
    """Both tensors have the same fix, which `--unsafe-fixes` applies once: a size is not tkgen's to choose."""
    path = tmp_path / "norm.tk"
    path.write_text(text(4097, target=target), "utf-8")
    assert CliRunner().invoke(app, ["check", str(path), "--fix"]).exit_code == 0
    assert path.read_text("utf-8") == text(4097, target=target)
    assert CliRunner().invoke(app, ["check", str(path), "--unsafe-fixes"]).exit_code == 0
    assert path.read_text("utf-8") == text(4104, target=target)


def test_the_fixes_are_right() -> None:
    """A padded row has chunks of 16 bytes, one without padding single elements."""
    wide = load(text(4104)).layout
    narrow = load(text(4097)).layout
    assert (wide.chunk, narrow.chunk) == (8, 1)


DYNAMIC = """kernel norm
  target {target}
  dims ROWS = dynamic, D = {size}
  global X : {kind}[ROWS, D]
  global Y : {kind}[ROWS, D]
  over r in ROWS by 4
  waves 4
  {allow}
  each i in D by 1024
    Y[r, i] = X[r, i] * 2
"""


@pytest.mark.parametrize("target", ["gfx942", "sm_90a"])
def test_rows_whose_length_only_the_launch_knows_are_said(target: str) -> None:
    """Their rows may begin anywhere, so lanes move an element at a time; with a size they move 16 bytes."""
    narrow = DYNAMIC.format(target=target, size="dynamic", kind="bf16", allow="")
    fix = "give `D` a size: a build for each"
    assert warned(narrow) == [("X", "read", fix), ("Y", "written", fix)]
    spec, wide = load(narrow), load(narrow.replace("D = dynamic", "D = 4096"))
    assert (spec.layout.chunk, wide.layout.chunk) == (1, 8)
    first = spec.diagnostics[0].primary
    assert first is not None and "D = dynamic, so rows may begin anywhere: each access moves 2 bytes" in first.text
    assert warned(narrow.replace("D = dynamic", "D = 4096")) == []
    assert warned(DYNAMIC.format(target=target, size="dynamic", kind="f32", allow="")) == []
    assert warned(DYNAMIC.format(target=target, size="dynamic", kind="bf16", allow="allow slow_reads")) == []
