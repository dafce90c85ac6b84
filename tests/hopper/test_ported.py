"""Specs for CDNA, fixed for Hopper: `tkgen check --fix -t sm_90a` leaves specs that are proven, compile and are right.

The specs that it does not bring over stand in `LEFT` with the reason. A sample runs by default, all with `-m slow`.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from nvcc import compiles
from typer.testing import CliRunner

from tkgen.api import load
from tkgen.cli import app
from tkgen.diagnostics import Severity, SpecError

SPECS = Path(__file__).parents[2] / "specs"
NAMES = sorted(
    str(p.relative_to(SPECS).with_suffix("")) for p in SPECS.rglob("*.tk") if p.relative_to(SPECS).parts[0] != "hopper"
)
TARGET = "sm_90a"
OTHERS = ("gfx90a", "gfx942", "gfx950")

OTHER_TYPES = {
    "attention/attention_fp8": "is e4m3fn",
    "fp32": "does not multiply f32",
    "low_precision/mxfp4": "has no e2m1",
    "low_precision/mxfp6": "has no e2m3",
    "low_precision/mxfp8": "has no e8m0",
    "quantise/mxfp4_rows": "has no e2m1",
    "quantise/mxfp6_rows": "has no e2m3",
    "quantise/mxfp8_rows": "has no e8m0",
}
"""Specs of element types that wgmma does not take, and what is said of them."""
LEFT = {
    "attention/attention_backward_atomic": "a product sums over `j`",
    "attention/attention_lazy": "`when any` has no schedule",
    "groups/grouped_weights": "no ragged sums",
}
"""The others that are not accepted, and why."""

BROUGHT = set(NAMES) - set(LEFT) - set(OTHER_TYPES)
ALONE = {"low_precision/fp8", "attention/attention_ping_pong", "attention/attention_ping_pong_direct"}
"""Specs that CDNA no longer takes once they are fixed: its `ping_pong` wants `via registers`, or eight waves."""
SAMPLE = ["eight_wave", "linear_softmax", "skinny", "tail_clamped", "low_precision/fp8", "attention/attention_256"]
SIZES = {
    "at_bt": "M=128 N=256 K=128",
    "attention/attention": "BATCH=1 HEADS=1 LENGTH=256",
    "attention/attention_256": "BATCH=1 HEADS=1 LENGTH=200",
    "attention/attention_backward": "BATCH=1 HEADS=1 LENGTH=256",
    "attention/attention_backward_causal": "SETS=1 GROUP=2 LENGTH=200",
    "attention/attention_backward_direct": "BATCH=1 HEADS=1 LENGTH=256",
    "attention/attention_causal": "BATCH=1 HEADS=2 KV_HEADS=1 LENGTH=200",
    "attention/attention_chunks": "SEQUENCES=3 TOTAL=200 KEYS=300 HEADS=2 KV_HEADS=1",
    "attention/attention_decode": "BATCH=2 HEADS=16 KV_HEADS=2 KEYS=200 PARTS=3",
    "attention/attention_direct": "BATCH=1 HEADS=2 LENGTH=256",
    "attention/attention_f16": "BATCH=1 HEADS=1 LENGTH=256",
    "attention/attention_interleaved": "BATCH=1 HEADS=1 LENGTH=256",
    "attention/attention_mqa": "BATCH=1 HEADS=2 LENGTH=100 KEYS=200",
    "attention/attention_packed": "SEQUENCES=3 TOTAL=200 HEADS=2 KV_HEADS=1",
    "attention/attention_paged": "BATCH=2 HEADS=16 KV_HEADS=2 KEYS=200 PARTS=3 CACHED=9",
    "attention/attention_ping_pong": "BATCH=1 HEADS=1 LENGTH=256",
    "attention/attention_ping_pong_direct": "BATCH=1 HEADS=1 LENGTH=256",
    "attention/attention_window": "BATCH=1 HEADS=1 LENGTH=640",
    "attention/attention_written": "BATCH=1 HEADS=1 LENGTH=256",
    "attention/gated_delta_rule": "HEADS=1 LENGTH=200",
    "attention/linear_attention": "HEADS=1 LENGTH=200",
    "bias_gelu_bf16": "TOKENS=128 OUT=256 IN=192",
    "double_buffer": "M=256 N=128 K=192",
    "grouped_heads": "BATCH=1 HEADS=2 KV_HEADS=1 LENGTH=128 KEYS=256",
    "groups/grouped_fp8": "TOKENS=256 EXPERTS=3 OUT=128 IN=256",
    "groups/grouped_gemm": "TOKENS=256 EXPERTS=3 OUT=128 IN=128",
    "groups/grouped_persistent": "TOKENS=256 EXPERTS=3 OUT=128 IN=128",
    "groups/moe_down": "TOKENS=100 EXPERTS=3 D=128 HIDDEN=128",
    "hk_12c4p_3": "M=192 N=192 K=192",
    "hk_four_wave": "M=128 N=192 K=192",
    "linear_softmax": "TOKENS=64 D=192",
    "low_precision/fp8": "M=128 N=256 K=384",
    "low_precision/fp8_blocks": "M=128 N=256 K=384",
    "low_precision/fp8_direct": "M=128 N=256 K=384",
    "low_precision/fp8_rowwise": "M=200 N=136 K=256",
    "low_precision/i8": "M=128 N=256 K=384",
    "macro_tiles": "M=256 N=128 K=192",
    "no_lds": "M=72 N=104 K=72",
    "ping_pong": "M=256 N=256 K=320",
    "projection": "TOKENS=128 OUT=256 IN=192",
    "quantise/quantise_int8": "TOKENS=8",
    "quantise/quantise_rmsnorm": "TOKENS=8",
    "quantise/quantise_rows": "TOKENS=8",
    "quantise/quantise_swiglu": "TOKENS=8 BLOCKS=16",
    "rows/elementwise": "ROWS=16 COLS=1024",
    "rows/layernorm": "TOKENS=8",
    "rows/long_softmax": "ROWS=4 D=8192",
    "rows/norm_gradient": "TOKENS=512 D=64",
    "rows/rmsnorm": "TOKENS=8",
    "rows/rotary": "LENGTH=4",
    "rows/selective_scan": "BATCH=1 LENGTH=20 D=64",
    "rows/softmax": "ROWS=8",
    "rows/transpose": "ROWS=128 COLS=256",
    "sequences/split_k_gelu": "TOKENS=100 OUT=136 IN=1000 PARTS=3",
    "skinny": "N=192 K=256",
    "split_k": "M=128 N=128 K=512",
    "stream_k": "M=256 N=128 K=512",
    "swiglu": "TOKENS=128 HIDDEN=256 D=192",
    "tail": "M=100 N=150 K=192",
    "tail_clamped": "M=100 N=152 K=192",
    "tunable": "M=128 N=128 K=192",
    **dict.fromkeys(["groups/moe", "groups/moe_fp8"], "TOKENS=100 EXPERTS=3 D=128 HIDDEN=128"),
    **dict.fromkeys(["low_precision/w4", "low_precision/w8"], "M=256 N=256 K=256"),
    **dict.fromkeys(["low_precision/w4_decode", "low_precision/w8_decode"], "N=256 K=256"),
}
"""What they are run at, if not at 256 x 256 x 192."""


def errors(path: Path, target: str) -> str:
    """Errors of a spec for a target."""
    try:
        load(path, target=target).check()
    except SpecError as error:
        return "; ".join(d.message for d in error.diagnostics if d.severity is Severity.ERROR)
    return ""


def fixed(name: str, folder: Path) -> tuple[Path, str]:
    """A copy of a spec, fixed for Hopper, and what the command says."""
    path = folder / f"{Path(name).name}.tk"
    shutil.copy(SPECS / f"{name}.tk", path)
    return path, CliRunner().invoke(app, ["check", "--fix", "-t", TARGET, str(path)]).output


def cases(names: list[str], sample: list[str]) -> list[object]:
    return [n if n in sample else pytest.param(n, marks=pytest.mark.slow) for n in names]


@pytest.mark.parametrize("name", cases(NAMES, [*SAMPLE, "attention/attention_lazy"]))
def test_a_spec_is_accepted_once_it_is_fixed_or_the_reason_is_given(name: str, tmp_path: Path) -> None:
    path, said = fixed(name, tmp_path)
    found = errors(path, TARGET)
    if (reason := (LEFT | OTHER_TYPES).get(name)) is not None:
        assert reason in found
        return
    assert not found, found
    taken = [t for t in OTHERS if not errors(SPECS / f"{name}.tk", t)]
    kept = [t for t in taken if not errors(path, t)]
    assert kept or name in ALONE
    for target in set(taken) - set(kept):  # they are no longer named, and that is said
        assert "  target " in path.read_text(encoding="utf-8") and f"{target} no longer accepts it" in said


def test_three_of_four_specs_are_brought_over() -> None:
    assert set(LEFT) | set(OTHER_TYPES) <= set(NAMES)
    assert set(SIZES) <= BROUGHT
    page = (SPECS.parent / "docs" / "port.md").read_text(encoding="utf-8")
    assert f"Of the {len(NAMES)} specs for AMD in `specs/`, {len(BROUGHT)} are accepted" in page
    assert len(BROUGHT) >= 0.75 * len(NAMES)


@compiles
@pytest.mark.parametrize("name", cases(sorted(BROUGHT), ["double_buffer", "linear_softmax"]))
def test_what_is_fixed_compiles_without_spills(name: str, tmp_path: Path) -> None:
    path, _ = fixed(name, tmp_path)
    spec = load(path, target=TARGET)
    assert spec.build().check()  # which refuses what spills


@pytest.mark.parametrize("name", cases(sorted(BROUGHT), ["double_buffer", "linear_softmax"]))
def test_what_is_fixed_is_right_on_the_host_run(name: str, tmp_path: Path) -> None:
    path, _ = fixed(name, tmp_path)
    sizes = SIZES.get(name, "M=256 N=256 K=192")
    result = CliRunner().invoke(app, ["run", str(path), "-t", TARGET, "-D", sizes, "--schedules", "2", "--json"])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert rows and all(row["ok"] for row in rows)
