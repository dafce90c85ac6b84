"""Kernels of rows in the rest of the tool: the sanitizer, the operator of torch."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import tkgen
from tkgen.api import load_any
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
    """What the equations mean is what must come out: another meaning is a finding."""
    from tkgen.execute import kernels

    meant = kernels.references

    def other(*args: object) -> object:
        return {name: (value + 1, bound) for name, (value, bound) in meant(*args).items()}  # type: ignore[arg-type]

    monkeypatch.setattr(kernels, "references", other)
    result = CliRunner().invoke(app, ["sanitize", str(SPECS / "softmax.tk"), "-D", "ROWS=9 D=64", "--schedules", "1"])
    assert result.exit_code == 1
    assert "wrong" in result.output


def test_an_operator_of_rows() -> None:
    norm = tkgen.operator(load_any(SPECS / "rmsnorm.tk", {"TOKENS": None, "D": 256}).check().build())
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
