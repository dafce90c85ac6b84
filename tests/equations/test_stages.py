"""What stands between the stages of the compiler, for a few specs: `tkgen check --print-after STAGE`, written down."""

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
    ("eight_wave", Stage.EQUATIONS),
    ("eight_wave", Stage.RESOLVE),
    ("eight_wave", Stage.GRAPH),
    ("eight_wave", Stage.SCHEDULE),
    ("alpha_beta", Stage.EQUATIONS),
    ("bias_gelu_bf16", Stage.EQUATIONS),
    ("bias_gelu_bf16", Stage.RESOLVE),
    ("load_and_compute_waves", Stage.RESOLVE),
    ("ping_pong", Stage.SCHEDULE),
    ("swiglu", Stage.PARSE),
    ("swiglu", Stage.EQUATIONS),
    ("swiglu", Stage.RESOLVE),
    ("swiglu", Stage.SCHEDULE),
    ("rows/softmax", Stage.PARSE),
    ("rows/softmax", Stage.EQUATIONS),
    ("rows/softmax", Stage.RESOLVE),
    ("rows/softmax", Stage.GRAPH),
    ("rows/softmax", Stage.SCHEDULE),
    ("rows/long_softmax", Stage.SCHEDULE),
    ("attention/attention_lazy", Stage.PARSE),
    ("attention/attention_lazy", Stage.EQUATIONS),
    ("attention/attention_lazy", Stage.RESOLVE),
    ("attention/attention_lazy", Stage.SCHEDULE),
    ("sequences/split_k_gelu", Stage.PARSE),
    ("sequences/split_k_gelu", Stage.EQUATIONS),
    ("sequences/split_k_gelu", Stage.RESOLVE),
    ("sequences/split_k_gelu", Stage.SCHEDULE),
    ("hopper/h100_lcf", Stage.SCHEDULE),
    ("hopper/h100_norm_gradient", Stage.GRAPH),
    ("hopper/h100_norm_gradient", Stage.SCHEDULE),
    ("hopper/h100_attention_causal", Stage.SCHEDULE),
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
