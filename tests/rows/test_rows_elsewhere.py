"""Kernels of rows in the rest of the tool: the sanitizer, the operator of torch, the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import tkgen
from tkgen.api import load
from tkgen.cli import app

SPECS = Path(__file__).parents[2] / "specs/rows"
SMALL = {
    "softmax": "ROWS=9 D=1000",
    "rmsnorm": "TOKENS=5 dropped=0.5",
    "rotary": "LENGTH=5 HEADS=17",
    "transpose": "ROWS=130 COLS=70",
}


@pytest.mark.parametrize("name", SMALL)
def test_sanitize_runs_a_spec_of_rows(name: str) -> None:
    result = CliRunner().invoke(app, ["sanitize", str(SPECS / f"{name}.tk"), "-D", SMALL[name], "--schedules", "2"])
    assert result.exit_code == 0, result.output
    assert "no findings" in result.output


def test_sanitize_compares_the_numbers_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are compared with the meaning of the equations: another meaning is a finding."""
    from tkgen.execute import compare

    meant = compare.references

    def other(*args: object) -> object:
        return {name: (value + 1, bound) for name, (value, bound) in meant(*args).items()}  # type: ignore[arg-type]

    monkeypatch.setattr(compare, "references", other)
    result = CliRunner().invoke(app, ["sanitize", str(SPECS / "softmax.tk"), "-D", "ROWS=9 D=64", "--schedules", "1"])
    assert result.exit_code == 1
    assert "wrong" in result.output


def test_an_operator_of_rows() -> None:
    norm = tkgen.operator(load(SPECS / "rmsnorm.tk", {"TOKENS": None, "D": 256}).check().build())
    x, residual, w = torch.randn(5, 256).bfloat16(), torch.randn(5, 256).bfloat16(), torch.randn(256).bfloat16()
    kept, y = norm(x, residual, w, dropped=0.0)
    summed = x.double() + residual.double()
    torch.testing.assert_close(kept.double(), summed, atol=0, rtol=2**-8)
    expected = summed * (summed.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * w.double()
    torch.testing.assert_close(y.double(), expected, atol=1e-6, rtol=2**-8)
    traced = torch.compile(lambda x, r: norm(x, r, w)[1] + 1, backend="eager", fullgraph=True)
    assert traced(x, residual).shape == (5, 256)
    with pytest.raises(ValueError, match="X has D = 10, expected 256"):
        norm(x[:, :10], residual, w)


def test_a_build_of_rows_writes_its_report(tmp_path: Path) -> None:
    """Twice: the second shows the figures of the first beside its own."""
    spec = tmp_path / "hostile.tk"
    text = (SPECS / "softmax.tk").read_text().replace("# Softmax of every row", "# <script>alert(1)</script> & all")
    spec.write_text(text)
    for _ in range(2):
        result = CliRunner().invoke(app, ["build", str(spec), "-o", str(tmp_path / "out")])
        assert result.exit_code == 0, result.output
    page = (tmp_path / "out/softmax.html").read_text()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "4 x 4096 by 4 waves: a wave to a row, 8 chunks of 8 for a lane" in page
    assert "The first lane of a row has its elements 0..7, 512..519, ..., 3584..3591" in page
    assert "global_load" in page or "buffer_load_dwordx4" in page
    figures = json.loads((tmp_path / "out/softmax.json").read_text())
    vgpr = figures["resources"]["vgpr"]
    assert f'<td>VGPRs per lane</td><td class="n">{vgpr}</td><td>{vgpr}\n</td>' in page


def test_the_report_of_a_kernel_of_rows(tmp_path: Path) -> None:
    out = tmp_path / "rotary.html"
    result = CliRunner().invoke(app, ["report", str(SPECS / "rotary.tk"), "-o", str(out)])
    assert result.exit_code == 0, result.output
    assert f"wrote {out}" in result.output
    assert "8 lanes to a row" in out.read_text()


def test_the_graph_of_a_kernel_of_rows() -> None:
    """Its edges are the values that operations take; where waves share a row, each reduction has a barrier."""

    def graph(*options: str) -> str:
        result = CliRunner().invoke(app, ["graph", *options])
        assert result.exit_code == 0, result.output
        return result.stdout.partition("schedule\n")[0]

    softmax, rmsnorm = str(SPECS / "softmax.tk"), str(SPECS / "rmsnorm.tk")
    text = graph(softmax)
    assert "  op 6  waves 0..3  %6 : f32[r] = sum over D of %5.e\n" in text
    assert "  RAW register %6  6 -> 7  distance 0\n" in text and "barrier" not in text
    shared = graph(softmax, "-D", "D=16384")
    assert "  RAW lds %1  1 -> 2  distance 0  barrier 0\n" in shared
    assert "  RAW lds %6  6 -> 7  distance 0  barrier 1\n" in shared
    assert (
        shared
        == CliRunner().invoke(app, ["check", softmax, "-D", "D=16384", "--print-after", "graph"]).stdout[: len(shared)]
    )
    assert graph(softmax, "--format", "dot").startswith('digraph "softmax"')
    plain = json.loads(graph(rmsnorm, "--json"))
    assert {d["kind"] for d in plain["dependencies"]} == {"RAW", "WAR"}
    names = {o["position"]: o["op"] for o in plain["operations"]}
    (kept,) = [d for d in plain["dependencies"] if d["kind"] == "WAR"]  # R is read before it is written
    assert "load R" in names[kept["source"]] and "store R" in names[kept["target"]]
    several = json.loads(graph(str(SPECS.parent / "sequences" / "split_k_gelu.tk"), "--json"))
    assert [each["kernel"] for each in several] == ["sums", "finish"]


def test_two_kernels_of_rows_are_compared(tmp_path: Path) -> None:
    """The second, with its last build: fewer waves, another layout, other instructions."""
    spec, out, page = tmp_path / "softmax.tk", tmp_path / "out", tmp_path / "diff.html"
    spec.write_text((SPECS / "softmax.tk").read_text().replace("D = 4096", "D = 512"))
    built = CliRunner().invoke(app, ["build", str(spec), "-o", str(out), "--emit", "cpp,asm,report"])
    assert built.exit_code == 0, built.output
    command = ["diff", str(spec), "--previous", str(out), "--html", str(page)]
    same = CliRunner().invoke(app, command)
    assert same.exit_code == 0 and "nothing changed" in same.output, same.output
    spec.write_text(spec.read_text().replace("waves 4", "waves 1"))
    other = CliRunner().invoke(app, command)
    assert other.exit_code == 0, other.output
    assert "per K-step" not in other.output + page.read_text()
    for shown in ("VGPRs per lane", "Instructions\n", "machine code: "):
        assert shown in other.output, shown
    both = CliRunner().invoke(app, ["diff", str(spec), str(SPECS / "softmax.tk"), "-D", "D=512", "--json"])
    assert both.exit_code == 0, both.output
    texts = {t["name"]: t for t in json.loads(both.stdout)["texts"]}
    assert any("by 1 wave:" in line for mark, line in texts["schedule"]["lines"] if mark == "-")


def test_products_of_products_have_a_harness_and_a_graph(tmp_path: Path) -> None:
    spec = str(SPECS.parent / "attention" / "attention.tk")
    built = CliRunner().invoke(app, ["build", spec, "--emit", "cpp,harness", "--no-machine-check", "-o", str(tmp_path)])
    assert built.exit_code == 0, built.output
    assert "product(" in (tmp_path / "attention_check.py").read_text()
    assert "product(" in (tmp_path / "attention_check.cpp").read_text()
    drawn = CliRunner().invoke(app, ["graph", spec])
    assert drawn.exit_code == 0 and "each j" in drawn.output, drawn.output
