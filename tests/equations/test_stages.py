"""The text of `tkgen check --print-after STAGE` for a few specs, of the stages that have only digests elsewhere.

`tests/specs/test_stages_of_shipped_specs.py` has all specs: the text of equations and schedules, and those digests.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tkgen.diagnostics import SpecError
from tkgen.pipeline import PRINTED, Request, text_of

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "stages"
SHOWN = [
    ("eight_wave", "parse"),
    ("eight_wave", "resolve"),
    ("eight_wave", "graph"),
    ("bias_gelu_bf16", "resolve"),
    ("load_and_compute_waves", "resolve"),
    ("swiglu", "parse"),
    ("swiglu", "resolve"),
    ("rows/softmax", "parse"),
    ("rows/softmax", "resolve"),
    ("rows/softmax", "graph"),
    ("attention/attention_lazy", "parse"),
    ("attention/attention_lazy", "resolve"),
    ("sequences/split_k_gelu", "parse"),
    ("sequences/split_k_gelu", "resolve"),
    ("hopper/h100_norm_gradient", "graph"),
]
KINDS = [  # of every machine
    "eight_wave", "rows/softmax", "rows/long_softmax", "attention/attention", "sequences/split_k_gelu",
    "hopper/h100_lcf", "hopper/h100_softmax", "hopper/h100_attention",
]  # fmt: skip


@pytest.mark.parametrize(("spec", "stage"), SHOWN)
def test_a_stage(spec: str, stage: str) -> None:
    golden = GOLDEN / f"{Path(spec).name}.{stage}.txt"
    text = text_of(stage, Request(ROOT / "specs" / f"{spec}.tk")) + "\n"
    if os.environ.get("TKGEN_BLESS"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("spec", KINDS)
def test_every_stage_of_every_kind_is_shown(spec: str) -> None:
    """But for the graph of products on Hopper, whose schedule is no iteration of waves."""
    without = {"prove", "compile"} | ({"graph"} if spec.startswith("hopper/") and "softmax" not in spec else set())
    path = ROOT / "specs" / f"{spec}.tk"
    shown = {stage: text_of(stage, Request(path)) for stage in PRINTED if stage not in without}
    assert min(map(len, shown.values())) > 200 and len(set(shown.values())) == len(shown)
    assert "proven: " in text_of("prove", Request(path))


def test_a_wrong_spec_has_no_equations(tmp_path: Path) -> None:
    spec = tmp_path / "a.tk"
    spec.write_text("kernel a\n  dims M = 64\n  global Y : f32[M]\n  over m in M by 16\n  waves 1\n  Y[m] = X[m]\n")
    assert text_of("parse", Request(spec)).startswith("Kernel name=a")
    with pytest.raises(SpecError, match="E200"):
        text_of("equations", Request(spec))
