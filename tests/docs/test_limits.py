"""Limits of docs/limits.md are refused, with the code that the page names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tkgen.api import load
from tkgen.diagnostics import SpecError

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
SPEC = """kernel gemm
  dims M = 1024, N = 1024, K = 1024, L = 2
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  block 128 x 128 step 64
  waves 2 x 2
  shared A, B buffers 1
  registers A, B slice 16
  accumulate C : f32 tile 32 x 32
  store C
"""
SUMS = """kernel sums
  dims H = 4, M = 1024, N = 1024, K = 1024
  global A : bf16[H, M, K]
  global B : bf16[H, N, K]
  global C : f32[H, M, N]
  over h in H, m in M by 128, n in N by 128
  waves 2 x 2
  shared A, B buffers 1
  each k in K by 64
    c = c + A[h, m, k] @ B[h, n, k].T
  C[h, m, n] = c
"""
ROWS = """kernel rows
  dims M = 1024, N = 1024
  global X : f32[M, N]
  global Y : f32[M, N]
  over m in M by 4
  waves 4
  x = X[m]
  Y[m] = x
"""
SEQUENCE = """sequence both
dims M = 1024, N = 1024
global X : f32[M, N]
global Y : f32[M, N]
global Z : f32[M, N]
kernel one
  over m in M by 4
  waves 4
  Y[m] = X[m]
kernel two
  over m in M by 4
  waves 4
  Z[m] = Y[m]
"""
GROUPED = SUMS.replace("  global A : bf16[H, M, K]", "  global FIRST : i32[ENDS]\n  global A : bf16[M, K]")
GROUPED = GROUPED.replace("H = 4", "H = 4, ENDS = H + 1").replace("C : f32[H, M", "C : f32[M").replace("C[h, m", "C[m")
GROUPED = GROUPED.replace("m in M by 128", "m in M within FIRST[h] by 128").replace("A[h, m", "A[m")
GROUPED = GROUPED.replace("  waves", "  tail masked\n  waves")
LIMITED = SUMS.replace("  global A", "  global COUNT : i32[H]\n  global A")
PLACES = ROWS.replace("  global X", "  global ROW : i32[M]\n  global FIRST : i32[ENDS]\n  global X")
PLACES = PLACES.replace("M = 1024", "H = 4, ENDS = H + 1, M = 1024")
PLACED = SUMS.replace("  global A : bf16[H, M, K]", "  global ROW : i32[M]\n  global A : bf16[M, K]")
PLACED = PLACED.replace("A[h, m", "A[ROW[m]")
WEIGHTS = SUMS.replace("B : bf16[H, N, K]", "B : u4[H, N, K]").replace("K by 64", "K by 128")
WEIGHTS = WEIGHTS.replace("B[h, n, k].T", "bf16(B[h, n, k]).T")
DIRECT = GROUPED.replace("  dims", "  target gfx950\n  dims").replace("buffers 1", "buffers 2 via direct")
SHIFTED = SUMS.replace("h in H, m in M by 128", "(h in H, m in M) by 128").replace("A[h, m, k]", "A[h, m - 1, k]")
SHIFTED = SHIFTED.replace("B : bf16[H, N, K]", "B : bf16[N, K]").replace("B[h, n, k]", "B[n, k]")
SOMETIMES = "  when any({0} > 4)\n    {0} = {0} * 0.5\n"
CHANGES = [
    ("E204", SPEC, "A : bf16", "A : fp8"),
    ("E204", SPEC, "C : f32 tile", "C : bf16 tile"),
    ("E608", SPEC, "  waves 2 x 2", "  grid split_k(2)\n  waves 2 x 2\n  epilogue relu"),
    ("E209", WEIGHTS, "K = 1024", "K = dynamic"),
    ("E221", DIRECT, "K = 1024", "K = 1020"),
    ("E224", SUMS, "each k in K by 64", "each k in K"),
    ("E226", SUMS, "  C[h", "  x = c - rowmax(c)\n  C[h"),
    ("E230", SUMS, "    c = c + A", "    c = c + (A[h, m, k] @ B[h, n, k].T) * A"),
    ("E230", SUMS, "  C[h", SOMETIMES.format("c").replace("  ", "    ", 1).replace("\n    c", "\n      c") + "  C[h"),
    ("E230", SUMS.replace("H = 4", "H = dynamic"), "K by 64", "K by 64 part h"),
    ("E406", ROWS, "  Y[m]", SOMETIMES.format("x") + "  Y[m]"),
    ("E230", GROUPED, "k in K by 64", "k in K within FIRST[h] by 64"),
    ("E406", PLACES, "m in M by 4", "h in H, m in M within FIRST[h] by 4\n  remap reversed"),
    ("E230", LIMITED, "k in K by 64", "k in K below COUNT[h] by 64"),
    ("E204", PLACES.replace("Y : f32", "Y : bf16"), "  Y[m] =", "  Y[ROW[m]] +="),
    ("E230", PLACED.replace("  shared A", "  grid split_k(2)\n  shared A"), "  C[h, m, n] =", "  C[h, ROW[m], n] +="),
    ("E230", PLACED, "shared A, B", "shared B\n  registers A"),
    ("E203", SHIFTED, "H = 4", "H = dynamic"),
    ("E223", SHIFTED, "C[h, m, n] = c", "C[h, m, n] = c + A[h, m, 0]"),
    ("E230", SHIFTED, "B[n, k]", "B[n - 1, k]"),
    ("E230", SHIFTED, "shared A, B", "shared B\n  registers A"),
    ("E230", SHIFTED, "  waves", "  tail clamped\n  waves"),
]


def codes(text: str) -> set[str]:
    try:
        return {d.code for d in load(text).check().diagnostics}
    except SpecError as error:
        return {d.code for d in error.diagnostics}


@pytest.mark.parametrize(("code", "spec", "old", "new"), CHANGES)
def test_what_cannot_be_built_is_refused_by_that_code(code: str, spec: str, old: str, new: str) -> None:
    assert not {c for c in codes(spec) if c.startswith("E")}
    changed = spec.replace(old, new, 1)
    assert changed != spec and code in codes(changed)


def test_every_code_of_the_page_is_tried() -> None:
    named = set(re.findall(r"\bE\d{3}\b", PAGE.split("## What the proof")[0]))
    assert named == {code for code, *_ in CHANGES} | {"E240"}  # tests/hopper tries all that E240 refuses


def test_what_has_run_where_is_said_in_a_sentence() -> None:
    """Until there are measurements; where there are, the pages point to them."""
    pages = {name: (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/prediction.md")}
    for name, text in {**pages, "docs/limits.md": PAGE}.items():
        assert "o tkgen kernel has run on an AMD GPU" in " ".join(text.split()), name
        assert ("measured.md" in text) == (ROOT / "docs" / "measured.md").exists() or name == "docs/limits.md", name


ROW = re.compile(r"^\| `(\w+)` \| (\d+) \| (\d+) \| (\d+) \| ([\d.]+) \| (\d+) TFLOP/s \|$", re.MULTILINE)
FIGURES = ROW.findall((ROOT / "README.md").read_text(encoding="utf-8"))


def test_the_readme_has_figures() -> None:
    assert len(FIGURES) == 3


@pytest.mark.parametrize("row", FIGURES, ids=[row[0] for row in FIGURES])
def test_the_figures_of_the_readme_are_those_of_the_code(row: tuple[str, ...]) -> None:
    from tkgen.backends.cdna.form import other_per_mfma
    from tkgen.predict import predict

    name, waves, vgprs, spills, others, tflops = row
    build = load(ROOT / "specs" / f"{name}.tk").build()
    assert build.main_loop is not None and build.spec.program.waves == int(waves)
    assert build.resources.vgpr_spills + build.resources.sgpr_spills == int(spills)
    assert build.resources.vgpr == pytest.approx(int(vgprs), rel=0.1)
    assert other_per_mfma(build.main_loop) == pytest.approx(float(others), rel=0.1)
    assert predict(build, product="MI325X").tflops == pytest.approx(int(tflops), rel=0.05)


def test_the_language_page_has_every_grid() -> None:
    from tkgen.ir.resolve.clauses import GRIDS

    page = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")
    section = page.split("### grid")[1].split("\n### ")[0]
    assert all(re.search(rf"^\| `{grid}\b", section, re.MULTILINE) for grid in GRIDS)
