"""`tkgen build --library`: a spec built for each shape that a file of tuned shapes has."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import tkgen
from tkgen.cli import app
from tkgen.tune.results import TunedShape, add, fingerprint

SPEC = """kernel doubled
  dims ROWS = 4096, COLS = 1024
  param AT = 4
  tune AT in 2, 4, 8
  global X : bf16[ROWS, COLS]
  global Y : bf16[ROWS, COLS]
  over r in ROWS by AT
  waves 4
  Y[r] = 2 * X[r]
"""
SHAPE = TunedShape("doubled", fingerprint(SPEC), "gfx942", {"ROWS": 64, "COLS": 256}, {"AT": 8}, 1e-5, False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("doubled.tk").write_text(SPEC)
    add(Path("shapes.json"), SHAPE)
    add(Path("shapes.json"), replace(SHAPE, sizes={"ROWS": 16, "COLS": 512}, values={"AT": 2}))
    add(Path("shapes.json"), replace(SHAPE, target="gfx950"))
    add(Path("shapes.json"), replace(SHAPE, spec="another text"))
    return tmp_path


def build(*options: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["build", "doubled.tk", "-o", "out", "--emit", "cpp,hsaco", *options])
    return result.exit_code, result.stdout, result.stderr


def test_each_shape_of_the_file_is_built_with_its_parameters(folder: Path) -> None:
    code, said, _ = build("--library", "shapes.json", "-t", "gfx942", "--json")
    assert code == 0 and len(json.loads(said)) == 2
    entries = json.loads(Path("out/doubled.library.json").read_text())
    assert [(e["sizes"]["ROWS"], e["values"]["AT"]) for e in entries] == [(64, 8), (16, 2)]
    for entry in entries:
        assert (Path("out") / entry["files"]["hsaco"]).read_bytes()[:4] == b"\x7fELF"
        source = (Path("out") / entry["files"]["cpp"]).read_text()
        assert source == tkgen.load("doubled.tk", {**entry["sizes"], **entry["values"]}).source.text


def test_a_kernel_called_from_python_and_the_library_share_the_file(folder: Path) -> None:
    """No search: the file has the shape."""
    doubled = tkgen.jit("doubled.tk", tune=True, tuned="shapes.json")
    x = torch.randn(16, 512).bfloat16()
    assert doubled(x).equal(2 * x) and doubled.build(x).spec.defines["AT"] == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--library", "none.json"), "none.json has no shape for doubled.tk\n"),
        (("--library", "doubled.tk"), "doubled.tk is no file of tuned shapes"),
        (("--library", "shapes.json", "-t", "gfx90a"), "it has 4 for another text of it, or another target"),
    ],
)
def test_a_file_without_shapes_for_the_spec_is_named(folder: Path, options: tuple[str, ...], said: str) -> None:
    code, _, errors = build(*options)
    assert code == 2 and said in errors
