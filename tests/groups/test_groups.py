"""Sums of products with ragged rows: built, watched, right on the emulator, whatever the offsets hold."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from sampling import sample

from tkgen import load_products, operator
from tkgen.api import Spec
from tkgen.build import Build
from tkgen.diagnostics import SpecError
from tkgen.emulate import interleavings
from tkgen.execute.launch import emulate, run, trials
from tkgen.ir.meaning import evaluate
from tkgen.ir.segments import segments

ROOT = Path(__file__).parents[2]
GROUPED = """kernel grouped
  dims TOKENS = 200, GROUPS = 5, OFFSETS = GROUPS + 1, N = 96, K = 64
  global FIRST : i32[OFFSETS]
  global X : bf16[TOKENS, K]
  global W : bf16[GROUPS, N, K]
  global Y : f32[TOKENS, N]
  over g in GROUPS, m in TOKENS within FIRST[g] by 64, n in N by 64
  tail masked
  waves 2 x 2
  shared X, W
  each k in K by 32
    y = y + X[m, k] @ W[g, n, k].T
  Y[m, n] = y
"""
# Vectors by the row and by the group, a reduction of whole rows, a tensor that is stored where it is read.
VECTORS = """kernel vectors
  dims TOKENS = 150, GROUPS = 4, OFFSETS = GROUPS + 1, N = 64, K = 48
  global FIRST : i32[OFFSETS]
  global X : bf16[TOKENS, K]
  global W : bf16[GROUPS, K, N]
  global b : bf16[GROUPS, N]
  global s : f32[TOKENS]
  global R : bf16[TOKENS, N]
  global T : f32[TOKENS]
  over g in GROUPS, m in TOKENS within FIRST[g] by 32, n in N by 64
  tail masked
  waves 2 x 2
  shared X, W buffers 2
  each k in K by 16
    y = y + X[m, k] @ W[g, k, n]
  z = s[m] * (y + b[g, n]) + R[m, n]
  T[m] = rowmax(z) + f32(m)
  R[m, n] = z
"""
# Each group sums over its own rows.
WEIGHTS = """kernel weights
  dims TOKENS = 200, GROUPS = 5, OFFSETS = GROUPS + 1, N = 64, K = 96
  global FIRST : i32[OFFSETS]
  global Y : bf16[TOKENS, N]
  global X : bf16[TOKENS, K]
  global D : f32[GROUPS, N, K]
  over g in GROUPS, n in N by 64, k in K by 64
  tail masked
  allow slow_reads
  waves 2 x 2
  shared Y, X
  each m in TOKENS within FIRST[g] by 32
    d = d + Y[m, n].T @ X[m, k]
  D[g, n, k] = d
"""
LYING = [
    [0, 150, 60, 90, 199, 200],
    [-7, 30, 500, 600, 70, 200],
    [99, 3, 2, 1, 0, -1],
    [0, 2**31 - 1, -(2**31), 5, 6, 7],
]
PLAIN = [[0, 64, 64, 70, 199, 200], [0, 0, 0, 0, 0, 0], [3, 5, 9, 9, 10, 199], [200] * 6, [0, 200, 200, 200, 200, 200]]


def changed(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def errors(text: str) -> list[str]:
    try:
        return [f"{d.code}: {d.message}" for d in load_products(text).check().diagnostics]
    except SpecError as error:
        return [f"{d.code}: {d.message}" for d in error.diagnostics]


def right(spec: Spec, orders: int = 2, **extents: int) -> Build:
    build = spec.check().build()
    assert build.resources.vgpr_spills == 0
    for seed, (order, kind) in enumerate(trials(orders)):
        found = run(build, seed=seed, kind=kind, order=order, extents=extents)
        assert found.ok, (extents, kind, found.failure)
    return build


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize("grid", ["", "  grid persistent(3)\n", "  grid split_k(2)\n"])
def test_groups_of_any_length(target: str, grid: str) -> None:
    right(load_products(GROUPED + grid, target=target))


@pytest.mark.parametrize("grid", ["", "  grid persistent(2)\n  remap group(rows = 2)\n"])
@pytest.mark.parametrize("k", sample([16, 32, 50, 112], 2))
def test_vectors_and_reductions_of_groups(grid: str, k: int) -> None:
    right(load_products(changed(VECTORS, ("K = 48", f"K = {k}")) + grid))


@pytest.mark.parametrize("grid", ["", "  grid persistent(3)\n"])
def test_rows_that_only_run_time_knows(grid: str) -> None:
    build = load_products(changed(GROUPED, ("TOKENS = 200", "TOKENS = dynamic")) + grid).check().build()
    for tokens in (1, 63, 64, 65, 333):
        assert run(build, extents={"TOKENS": tokens}, seed=tokens).ok


@pytest.mark.parametrize("grid", ["", "  grid persistent(3)\n", "  grid split_k(2)\n"])
def test_whatever_offsets_hold_no_row_is_written_twice_or_outside(grid: str) -> None:
    build = load_products(GROUPED + grid).check().build()
    launch, program = build.spec.launch(), build.spec.program
    torch.manual_seed(0)
    x, w = torch.randn(200, 64).bfloat16(), torch.randn(5, 96, 64).bfloat16()
    for offsets in (*PLAIN, *LYING):
        inputs = {"FIRST": torch.tensor(offsets, dtype=torch.int32), "X": x, "W": w}
        results, outcome = emulate(build, launch, inputs, {})
        assert not outcome.findings, (offsets, outcome.findings)
        meant = evaluate(program.equations.kernel, inputs)["Y"]
        inside = torch.zeros(200, dtype=torch.bool)
        for part in segments(offsets, 200):
            inside[part.start : part.stop] = True
        beside = results["Y"][~inside]  # left alone, but zero where blocks add to the output
        assert ((beside == 0) if "split_k" in grid else beside.isnan()).all() and not results["Y"][inside].isnan().any()
        assert ((results["Y"].double() - meant.value).abs()[inside] <= meant.bound[inside]).all()


SUMMED = [
    ("shared Y, X", "shared Y, X buffers 2"), ("shared Y, X", "shared Y, X buffers 3 via registers"),
    ("  waves", "  unroll 3\n  waves"), ("  waves", "  grid persistent(3)\n  waves"),
    ("TOKENS = 200", "TOKENS = dynamic"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("target", "change"), sample([("gfx950", ("", "")), *(("gfx942", change) for change in SUMMED)], 2, several=True)
)
def test_groups_are_summed_over(change: tuple[str, str], target: str) -> None:
    sizes = {"TOKENS": 200} if "dynamic" in change[1] else {}
    build = right(load_products(changed(WEIGHTS, change), target=target), **sizes)
    launch = build.spec.launch(sizes)
    assert run(build, launch.sample(), extents=sizes).ok
    torch.manual_seed(0)
    x, y = torch.randn(200, 96).bfloat16(), torch.randn(200, 64).bfloat16()
    for offsets in (*PLAIN, *LYING):
        inputs = {"FIRST": torch.tensor(offsets, dtype=torch.int32), "Y": y, "X": x}
        results, outcome = emulate(build, launch, inputs, {})
        assert not outcome.findings, (offsets, outcome.findings)
        parts = [slice(part.start, part.stop) for part in segments(offsets, 200)]
        expected = torch.stack([y[p].float().T @ x[p].float() for p in parts])
        torch.testing.assert_close(results["D"], expected, rtol=1e-4, atol=1e-4)


def test_tiles_are_each_in_one_group_and_no_more_than_blocks() -> None:
    spec = load_products(GROUPED)
    for offsets in (*PLAIN, *LYING):
        launch = spec.launch().of_groups({"FIRST": offsets})
        (groups,) = launch.groups.values()
        rows = [row for part in groups for row in part]
        assert len(rows) == len(set(rows))
        pieces = [piece for mine in launch.work for piece in mine]
        assert len(pieces) <= launch.blocks == (200 + 5 * 63) // 64 * 2
        assert all(piece.row * 64 < len(groups[piece.matrix]) for piece in pieces)


def test_blocks_alone() -> None:
    build = load_products(GROUPED).check().build()
    for blocks in (build.spec.launch().sample(), (0, 3, build.spec.launch().blocks - 1)):
        assert run(build, blocks).ok


def test_an_operator_looks_at_the_offsets() -> None:
    build = load_products(changed(GROUPED, ("kernel grouped", "kernel grouped_operator"))).check().build()
    grouped = operator(build)
    x, w = torch.randn(200, 64).bfloat16(), torch.randn(5, 96, 64).bfloat16()
    y = grouped(torch.tensor(PLAIN[0], dtype=torch.int32), x, w)
    torch.testing.assert_close(y[64:70], x[64:70].float() @ w[2].float().T, rtol=1e-4, atol=1e-4)
    for offsets, message in (
        (LYING[0], r"FIRST\[2\] is 60, less than the 150 before it"),
        (LYING[1], r"FIRST\[0\] is -7"),
    ):
        with pytest.raises(ValueError, match=message):
            grouped(torch.tensor(offsets, dtype=torch.int32), x, w)
    with pytest.raises(ValueError, match="FIRST is i32"):
        grouped(torch.tensor(PLAIN[0]), x, w)


def test_groups_that_share_a_matrix() -> None:
    """No tensor has a dimension of groups; found by the fuzz."""
    for grid in ("", "  grid persistent(3)\n"):
        right(load_products(changed(GROUPED, ("W : bf16[GROUPS, N", "W : bf16[N"), ("W[g, n, k]", "W[n, k]")) + grid))


MISTAKES = [
    ("  tail masked\n", "", "E604: groups of TOKENS have any length, so their last tiles reach into the next group"),
    ("tail masked", "tail clamped", "E230: a tile that is moved into its group would write rows of the previous group"),
    ("  tail masked", "  grid stream_k(2)\n  tail masked",
     "E230: `grid stream_k` divides a known number of tiles, but groups have as many as they need"),
    ("k in K by 32", "k in K within FIRST[g] by 32",
     "E230: the rows and the contraction are ragged, but only one of them may be"),
    ("m in TOKENS within FIRST[g] by 64, n in N by 64", "m in TOKENS by 64, n in N within FIRST[g] by 64",
     "E230: `n` is ragged, but in a product only the rows or the contraction may be"),
    ("n in N by 64", "h in HEADS, n in N by 64", "E602: every block along `h` writes `Y[m, n]`, each with a "
                                                 "different value"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), MISTAKES)
def test_what_people_get_wrong(old: str, new: str, message: str) -> None:
    assert not errors(GROUPED)
    assert message in errors(changed(GROUPED, (old, new), ("N = 96", "HEADS = 2, N = 96")))


@pytest.mark.parametrize("grid", ["", "  grid persistent(3)\n"])
def test_many_interleavings(grid: str) -> None:
    build = load_products(VECTORS + grid).check().build()
    summed = load_products(changed(WEIGHTS, ("shared Y, X", "shared Y, X buffers 2")) + grid).check().build()
    for number, order in enumerate(interleavings(20)):
        assert run(build, seed=number, order=order).ok and run(summed, seed=number, order=order).ok


@pytest.mark.parametrize("name", ["grouped_gemm", "grouped_persistent", "grouped_weights"])
def test_the_specs(name: str) -> None:
    sizes: dict[str, int | None] = {"TOKENS": 200, "EXPERTS": 3, "OUT": 136, "IN": 72}
    right(load_products(ROOT / "specs" / "groups" / f"{name}.tk", defines=sizes), orders=3)
