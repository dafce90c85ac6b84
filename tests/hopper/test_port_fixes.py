"""Fixes that take out of a spec what is another machine's: each diagnostic's own edits, and comments they leave."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tkgen.api import load
from tkgen.cli import app
from tkgen.diagnostics import SpecError

HEAD = """\
kernel gemm
  dims M = 512, N = 512, K = 512
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]

"""
PLAIN = HEAD + "  block 128 x 128 step 64\n  shared A, B\n  accumulate C : f32\n  store C\n"
CASES = {
    "via registers": ("  shared A, B\n", "  shared A, B via registers\n"),
    "one buffer": ("  shared A, B\n", "  shared A, B  buffers 1  via collective  # both\n"),
    "past shared memory": ("  shared A, B\n", "  registers A, B slice 32 buffers 2\n"),
    "register tiles": ("  accumulate", "  registers A slice 32\n  registers B slice 32\n  accumulate"),
    "unroll": ("  accumulate", "  unroll 2  # steps\n  accumulate"),
    "a schedule": ("  store C\n", "  store C\n\n  schedule auto\n"),
    "an occupancy": ("  accumulate", "  occupancy 1 waves per simd\n  accumulate"),
    "a grid of waves": ("  accumulate", "  waves 2 x 2\n  accumulate"),
    "a tile": ("C : f32\n", "C : f32  tile 32 x 32 interleaved  mfma 32 x 32  # four of them\n"),
    "waves and a tile": ("  accumulate C : f32\n", "  waves 4 x 2\n  accumulate C : f32 tile 32 x 32\n"),
    "roles": (
        "  accumulate C : f32\n  store C\n",
        "  role loading waves 0..1\n    load A, B by 1 waves\n\n  role computing waves 2..5 as 2 x 2\n"
        "    accumulate C : f32 tile 32 x 32\n    # after the loop\n    store C\n",
    ),
    "loads by groups": ("  accumulate", "  load A, B by 2 waves\n  accumulate"),
    "the tallest block": ("block 128 x 128", "block 512 x 64"),
    "a tall block": ("block 128 x 128", "block 256 x 128"),
    "a wide block": ("block 128 x 128", "block 128 x 512"),
    "a block of half a warpgroup": ("block 128 x 128", "block 32 x 128"),
    "a short step": ("step 64", "step 32"),
    "a long step": ("step 64", "step 512"),
    "too many buffers": ("  shared A, B\n", "  shared A, B buffers 8\n"),
}


def fixed(text: str, folder: Path, target: str = "sm_90a") -> tuple[str, str]:
    """A spec after its fixes, and what the command says."""
    path = folder / "spec.tk"
    path.write_text(text, encoding="utf-8")
    result = CliRunner().invoke(app, ["check", "--fix", "-t", target, str(path)])
    assert result.exit_code == 0, result.output
    return path.read_text(encoding="utf-8"), result.output


def said_lines(text: str) -> list[str]:
    """The statements of a spec, without comments."""
    return [line for line in (each.split("#")[0].rstrip() for each in text.splitlines()) if line]


@pytest.mark.parametrize("what", CASES)
def test_what_is_another_machines_is_taken_out(what: str, tmp_path: Path) -> None:
    old, new = CASES[what]
    assert old in PLAIN
    text, _ = fixed(PLAIN.replace(old, new), tmp_path)
    load(text, target="sm_90a").check()
    load(text, target="gfx950").check()
    if "block" not in what and "step" not in what:
        assert said_lines(text.replace("  load A, B\n", "")) == said_lines(PLAIN)


def test_lines_of_a_schedule_go_with_it_and_what_stands_behind_stays(tmp_path: Path) -> None:
    written = PLAIN.replace("  store C\n", """\
  registers A, B slice 32

  schedule
    # the tiles of the next step

    cluster load A[k+1] B[k+1]
    group read A B  multiply slice 0
    group multiply slice 1
  # the result
  store C
""")  # fmt: skip
    text, _ = fixed(written, tmp_path)
    assert text == PLAIN.replace("  store C", "\n  # the result\n  store C")


def test_axes_of_equations_get_other_tiles(tmp_path: Path) -> None:
    text, _ = fixed(HEAD + """\
  param STEP = 32
  over m in M by 256, n in N by 256
  waves 2 x 4
  shared A, B
  each k in K by STEP
    c = c + A[m, k] @ B[n, k].T
  C[m, n] = c
""", tmp_path)  # fmt: skip
    assert "over m in M by 128, n in N by 256" in text and "each k in K by 64" in text and "waves" not in text


def test_a_target_that_no_longer_takes_a_spec_is_not_named_any_more(tmp_path: Path) -> None:
    written = PLAIN.replace("step 64", "step 16").replace("shared A, B", "shared A, B buffers 4")
    text, said = fixed(written, tmp_path)
    assert "kernel gemm\n  target gfx950, sm_90a\n" in text
    assert "gfx942 no longer accepts it: E501" in said
    text, said = fixed(written.replace("  dims", "  target gfx942\n  dims"), tmp_path)
    assert "  target sm_90a\n" in text and "written for sm_90a" in said


def test_a_target_that_takes_it_still_is_named_beside_the_new_one(tmp_path: Path) -> None:
    text, said = fixed(PLAIN.replace("  dims", "  target gfx942\n  dims"), tmp_path)
    assert "  target gfx942, sm_90a\n" in text and "no longer" not in said


@pytest.mark.parametrize("way", ["", " via direct"])
def test_gathered_rows_of_a_factor_are_loaded_by_warps_unless_the_spec_says_otherwise(way: str) -> None:
    text = (
        HEAD.replace("  global C", "  global P : i32[M]\n  global X : bf16[M, K]\n  global C")
        + f"""\
  over m in M by 128, n in N by 128
  shared X, B{way}
  each k in K by 64
    c = c + X[P[m], k] @ B[n, k].T
  C[m, n] = c
"""
    )
    text = text.replace("  global A : bf16[M, K]\n", "")
    if not way:
        load(text, target="sm_90a").check()
        return
    with pytest.raises(SpecError, match="gathered"):
        load(text, target="sm_90a").check()


def test_what_is_right_for_its_target_is_left_alone(tmp_path: Path) -> None:
    written = PLAIN.replace("  accumulate", "  waves 2 x 2\n  accumulate").replace(
        "C : f32\n  s", "C : f32 tile 32 x 32\n  s"
    )
    assert fixed(written, tmp_path, "gfx942")[0] == written
