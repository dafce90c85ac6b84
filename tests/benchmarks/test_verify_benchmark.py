"""The mutants that `tkgen verify` is measured by, and how they are counted."""

from __future__ import annotations

from pathlib import Path

import pytest
import verify as benchmark
from mutating.sources import SourceMutant, mutants

GENERATED = Path(__file__).parents[2] / "generated"


def of_kind(kind: str, kernel: str) -> list[SourceMutant]:
    (path,) = GENERATED.glob(f"gfx*/**/{kernel}.cpp")
    return [m for m in mutants(path.read_text("utf-8")) if m.kind == kind]


@pytest.mark.parametrize(
    ("kind", "kernel", "new"),
    [
        ("iteration lost", "eight_wave", "if (k == 0 + (K_STEPS - 2 - 0) / 2 / 2 * 2) continue;"),
        ("slices exchanged", "eight_wave", "mma_ABt(C_acc[0][j], A_r[0][0], B_r[0][(2 - 1 - j)], C_acc[0][j]);"),
        ("slices exchanged", "eight_wave", "group<8>::load(A_s, g.A, {0, 0, 0, tile_row});"),
        ("after the tail", "tail", "const int here = e <= left ? offset + e * size : NOWHERE;"),
        ("after the tail", "attention", "1 + min(DIM_LENGTH - 0 * TILE_j, TILE_j)"),
        ("scale twice", "attention", "const float scale = tk::quiet(g.scale * g.scale);"),
        ("accumulator not zero in one lane", "rmsnorm", "v15_e[e] = laneid() == 7 ? 1.0f : 0.0f;"),
    ],
)
def test_a_mutant_changes_one_line(kind: str, kernel: str, new: str) -> None:
    found = [m for m in of_kind(kind, kernel) if new in m.new]
    assert found
    for m in found:
        before, after = m.source.split("\n"), m.text.split("\n")
        assert [i for i, (one, other) in enumerate(zip(before, after, strict=True)) if one != other] == [m.line - 1]


def test_what_numbers_miss_is_counted_of_what_is_caught() -> None:
    caught = {"spec": "a 8192", "kind": "iteration lost", "verify": False, "normal": True, "exact": False}
    caught |= {"percent": True}
    right = {"spec": "b keys", "kind": "iteration lost", "verify": True, "normal": True, "exact": True, "percent": True}
    ended = {"spec": "a", "kind": "bound by one", "stopped": True}
    rows = [caught, right | {"same": True}, right | {"same": False}, ended]
    assert benchmark.counted(rows) == [
        ["bound by one", "1", "0", "0", "0", "1", "0", "0", "0"],
        ["iteration lost", "3", "1", "1", "1", "0", "1", "0", "1"],
        ["all", "4", "1", "1", "1", "1", "1", "0", "1"],
    ]
    page = benchmark.in_docs(f"before\n{benchmark.BEGIN}\nold\n{benchmark.END}\nafter\n", benchmark.markdown(rows))
    assert page.startswith(f"before\n{benchmark.BEGIN}\n4 mutants of 2 specs, 1 of them at")
    assert page.endswith(f"| all | 4 | 1 | 1 | 1 | 1 | 1 | 0 | 1 |\n{benchmark.END}\nafter\n")
    assert benchmark.in_docs(page, benchmark.markdown(rows)) == page
