"""E501: which tiles do not fit is shown at each, wherever their clauses stand."""

from __future__ import annotations

from pathlib import Path

from diagnosing import diagnose

SPEC = """kernel gemm
  dims M = 256, N = 256, K = 256
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  include "tiles.tk"
  block 128 x 128 step 64
  waves 2 x 2
  shared B buffers 3
  accumulate C : f32 tile 32 x 32
  store C
"""


def test_clauses_of_two_files_at_the_same_place_of_each_are_two(tmp_path: Path) -> None:
    spec, tiles = tmp_path / "gemm.tk", tmp_path / "tiles.tk"
    spec.write_text(SPEC)
    tiles.write_text("#" * (SPEC.index("shared B") - 1) + "\nshared A buffers 3\n")
    assert tiles.read_text().index("shared A") == SPEC.index("shared B")
    (found,) = (d for d in diagnose(spec) if d.code == "E501")
    labels = [found.primary, *found.secondary]
    assert {(Path(x.span.file.name).name, x.span.text) for x in labels} == {
        ("gemm.tk", "shared B buffers 3"), ("tiles.tk", "shared A buffers 3"),
    }  # fmt: skip
