"""`schedule auto` picks the schedule that is predicted fastest for the block and the target."""

from __future__ import annotations

from pathlib import Path

import pytest

import tkgen
from tkgen.diagnostics import SpecError
from tkgen.predict import predict

SPEC = """kernel gemm
  target {target}
  dims M = 8192, N = 8192, K = 8192
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  block {rows} x {cols} step 64
  waves {waves}
  shared A, B {shared}
  registers A, B slice 32
  accumulate C : f32 tile 32 x 32
  store C
  schedule {schedule}
"""
STAGED = {"gfx942": "buffers 1 via registers", "gfx950": "buffers 2 via direct"}


@pytest.mark.parametrize(
    ("target", "rows", "cols", "waves", "chosen"),
    [
        ("gfx942", 128, 128, 4, "simple"),
        pytest.param("gfx942", 256, 128, 8, "simple", marks=pytest.mark.slow),
        pytest.param("gfx942", 256, 256, 8, "ping_pong", marks=pytest.mark.slow),
        pytest.param("gfx942", 256, 256, 4, "interleave", marks=pytest.mark.slow),
        pytest.param("gfx950", 256, 128, 8, "ping_pong", marks=pytest.mark.slow),
        ("gfx950", 256, 256, 8, "ping_pong"),
    ],
)
def test_auto_is_the_fastest(tmp_path: Path, target: str, rows: int, cols: int, waves: int, chosen: str) -> None:
    seconds = {}
    for schedule in ("auto", "simple", "ping_pong", "interleave"):
        path = tmp_path / f"{schedule}.tk"
        path.write_text(
            SPEC.format(target=target, rows=rows, cols=cols, waves=waves, shared=STAGED[target], schedule=schedule)
        )
        try:
            build = tkgen.load(path).check().build().check()
        except SpecError:
            continue  # not for this block
        seconds[schedule] = predict(build, what_if=False).seconds
        if schedule == "auto":
            assert build.spec.plan.chosen.startswith(f"{chosen}: chosen automatically")
    assert seconds["auto"] == seconds[chosen] <= 1.005 * min(seconds.values())  # less is no difference
