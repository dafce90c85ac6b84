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


EQUATIONS = """kernel gemm
  dims M = 256, N = 256, K = 256
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  over m in M by 128, n in N by 128
  waves 2 x 2
  shared A, B buffers 3
  each k in K by 64
    c = c + A[m, k] @ B[n, k].T
  C[m, n] = c
"""


def test_the_help_is_in_the_words_of_the_spec(tmp_path: Path) -> None:
    spec = tmp_path / "gemm.tk"
    helps = []
    for text in (EQUATIONS, SPEC.replace('  include "tiles.tk"\n', "").replace("shared B", "shared A, B")):
        spec.write_text(text)
        (found,) = (d for d in diagnose(spec) if d.code == "E501")
        assert found.fix is not None
        helps.append(found.fix.text)
    assert helps == ["make the K-step smaller: `each k in K by 32` or use `buffers 2`",
                     "make the K-step smaller: `block 128 x 128 step 32` or use `buffers 2`"]  # fmt: skip
