"""The text of `tkgen check --print-after STAGE` for a few specs, of the stages that have only digests elsewhere.

`tests/specs/test_stages_of_shipped_specs.py` has all specs: the text of equations and schedules, and those digests.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tkgen.cli.stages import Stage, stage_text
from tkgen.diagnostics import SpecError

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "stages"
SHOWN = [
    ("eight_wave", Stage.PARSE),
    ("eight_wave", Stage.RESOLVE),
    ("eight_wave", Stage.GRAPH),
    ("bias_gelu_bf16", Stage.RESOLVE),
    ("load_and_compute_waves", Stage.RESOLVE),
    ("swiglu", Stage.PARSE),
    ("swiglu", Stage.RESOLVE),
    ("rows/softmax", Stage.PARSE),
    ("rows/softmax", Stage.RESOLVE),
    ("rows/softmax", Stage.GRAPH),
    ("attention/attention_lazy", Stage.PARSE),
    ("attention/attention_lazy", Stage.RESOLVE),
    ("sequences/split_k_gelu", Stage.PARSE),
    ("sequences/split_k_gelu", Stage.RESOLVE),
    ("hopper/h100_norm_gradient", Stage.GRAPH),
]
KINDS = [  # of every machine
    "eight_wave", "rows/softmax", "rows/long_softmax", "attention/attention", "sequences/split_k_gelu",
    "hopper/h100_lcf", "hopper/h100_softmax", "hopper/h100_attention",
]  # fmt: skip


@pytest.mark.parametrize(("spec", "stage"), SHOWN)
def test_a_stage(spec: str, stage: Stage) -> None:
    golden = GOLDEN / f"{Path(spec).name}.{stage.value}.txt"
    text = stage_text(stage, ROOT / "specs" / f"{spec}.tk", None, None, None) + "\n"
    if os.environ.get("TKGEN_BLESS"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("spec", KINDS)
def test_every_stage_of_every_kind_is_shown(spec: str) -> None:
    """But for the graph of products on Hopper, whose schedule is no iteration of waves."""
    shown = {stage: stage_text(stage, ROOT / "specs" / f"{spec}.tk", None, None, None) for stage in Stage
             if stage is not Stage.GRAPH or not spec.startswith("hopper/") or "softmax" in spec}  # fmt: skip
    assert min(map(len, shown.values())) > 200 and len(set(shown.values())) == len(shown)


def test_a_wrong_spec_has_no_equations(tmp_path: Path) -> None:
    spec = tmp_path / "a.tk"
    spec.write_text("kernel a\n  dims M = 64\n  global Y : f32[M]\n  over m in M by 16\n  waves 1\n  Y[m] = X[m]\n")
    assert stage_text(Stage.PARSE, spec, None, None, None).startswith("Kernel name=a")
    with pytest.raises(SpecError, match="E200"):
        stage_text(Stage.EQUATIONS, spec, None, None, None)
