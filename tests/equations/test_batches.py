"""Batches of products under every grid, with sizes known only at run time: built, watched, right on the emulator."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from pathlib import Path

import pytest
import torch

from tkgen import load_products, operator
from tkgen.api import Spec
from tkgen.build import Build
from tkgen.diagnostics import SpecError
from tkgen.emulate import Buffer, Hollow, launch
from tkgen.execute.arguments import SizeError, packed
from tkgen.execute.cases import size_cases
from tkgen.execute.launch import run, trials
from tkgen.ir.launch import Launch
from tkgen.machine_check.launches import launches
from tkgen.predict import PredictError, Workload, lower_bound
from tkgen.report.order import block_order

HEADS = """kernel heads
  dims B = dynamic, H = dynamic, KV = dynamic, M = 64, N = 128, K = 64
  global Q : bf16[B, M, H, K]
  global K_ : bf16[B, N, KV, K]
  global S : f32[B, H, M, N]
  over b in B, h in H, m in M by 64, n in N by 64
  waves 4 along m
  shared Q, K_
  each k in K by 32
    s = s + Q[b, m, h, k] @ K_[b, n, h / 2, k].T
  S[b, h, m, n] = 0.5 * s
"""
APART = HEADS.replace("[B, M, H, K]", "[B, H, M, K]").replace("[B, N, KV, K]", "[B, KV, N, K]")
APART = APART.replace("Q[b, m, h, k]", "Q[b, h, m, k]").replace("K_[b, n, h / 2, k]", "K_[b, h / 2, n, k]")
STATIC = ("B = dynamic, H = dynamic, KV = dynamic", "B = 3, H = 4, KV = 2")
RAGGED = ("M = 64, N = 128", "M = dynamic, N = dynamic")
GRIDS = ["persistent(5)", "stream_k(5)", "split_k(2)"]
SEVERAL = {"B": 3, "H": 4, "KV": 2}


def right(spec: Spec, *, orders: int = 2, **extents: int) -> Build:
    build = spec.build()
    assert build.resources.vgpr_spills == 0
    for order, kind in trials(orders):
        found = run(build, kind=kind, order=order, extents=extents)
        assert found.ok, (extents, kind, found.failure)
    return build


def errors(text: str) -> list[str]:
    with pytest.raises(SpecError) as found:
        load_products(text).check()
    return [f"{d.code}: {d.message}" for d in found.value.diagnostics]


@pytest.mark.parametrize("text", [APART, HEADS], ids=["apart", "strided"])
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_as_many_matrices_as_run_time_says(text: str, target: str) -> None:
    build = right(load_products(text, target=target), **SEVERAL)
    for extents in ({"B": 1, "H": 2, "KV": 1}, {"B": 2, "H": 6, "KV": 3}):
        assert run(build, extents=extents).ok


@pytest.mark.parametrize("grid", GRIDS)
def test_a_batch_under_every_grid(grid: str) -> None:
    line = f"  grid {grid}\n  remap group(rows = 2)\n"
    right(load_products(HEADS + line), orders=1, **SEVERAL)
    right(load_products(APART.replace(*STATIC) + line), orders=1)


def test_rows_a_dynamic_distance_apart_go_straight_to_lds() -> None:
    text = HEADS.replace("shared Q, K_", "shared Q, K_ buffers 2 via direct\n  registers Q, K_ slice 32")
    right(load_products(text + "  grid persistent(5)\n", target="gfx950"), orders=1, **SEVERAL)


def test_a_column_maximum_and_a_number_for_each_tile_of_a_batch() -> None:
    text = "kernel cols\n  dims P = dynamic, M = 48, N = dynamic, T = dynamic, K = 64\n  global A : f32[P, M, K]\n"
    text += "  global B : f32[N, K]\n  global C : f32[P, M, N]\n  global most : f32[P, N]\n  global low : f32[P, T]\n"
    text += "  over p in P, m in M by 48, n in N by 32\n  tail masked\n  remap group(rows = 2)\n  waves 3 x 2\n"
    text += "  shared A, B\n  each k in K by 16\n    c = c + A[p, m, k] @ B[n, k].T\n  x = where(m > n, c, -c)\n"
    text += "  C[p, m, n] = x\n  most[p, n] = colmax(x)\n  low[p, n / 32] = rowmax(colmin(x))\n"
    build = right(load_products(text), orders=1, P=2, N=33, T=2)
    assert run(build, extents={"P": 1, "N": 5, "T": 1}).ok


@pytest.mark.parametrize("grid", ["persistent(5)", "stream_k(5)"])
def test_a_batch_with_ragged_matrices(grid: str) -> None:
    text = HEADS.replace(*RAGGED) + f"  tail masked\n  grid {grid}\n"
    build = right(load_products(text), orders=1, **SEVERAL, M=70, N=129)
    assert run(build, extents={"B": 1, "H": 2, "KV": 1, "M": 1, "N": 1}).ok


@pytest.mark.parametrize("grid", ["split_k(2)", "stream_k(5)"])
def test_parts_of_a_sum_that_are_rounded_each(grid: str) -> None:
    text = APART.replace("0.5 * s", "s * v[b, n]").replace("  over b", "  global v : f32[B, N]\n  over b")
    right(load_products(text.replace("K = 64", "K = 256") + f"  grid {grid}\n"), **SEVERAL)
    clauses = "kernel scaled\n  dims M = 128, N = 128, K = 256\n  global A : bf16[M, K]\n  global B : bf16[N, K]\n"
    clauses += "  global C : f32[M, N]\n  scalar alpha : f32 = 0.3\n  block 64 x 64 step 32\n  waves 2 x 2\n"
    clauses += f"  grid {grid}\n  shared A, B\n  accumulate C : f32 tile 32 x 32\n  epilogue scale(alpha)\n  store C\n"
    right(load_products(clauses))
    wrong = load_products(clauses.replace("scale(alpha)", "scale(0.2999)")).build()
    assert not run(replace(wrong, spec=load_products(clauses.replace("scale(alpha)", "scale(0.3)")))).ok


def test_one_place_of_a_tensor_under_another_grid() -> None:
    text = "kernel one\n  dims P = dynamic, M = 128, N = 64, K = 64\n  global X : bf16[M, P, K]\n"
    text += "  global W : bf16[P, N, K]\n  global Y : f32[M, N]\n  over m in M by 64, n in N by 64\n  waves 2 x 2\n"
    text += "  shared X, W\n  each k in K by 32\n    s = s + X[m, 0, k] @ W[0, n, k].T\n  Y[m, n] = s\n"
    right(load_products(text + "  grid persistent(2)\n"), orders=1, P=3)
    with pytest.raises(SizeError, match="one: P must be from 1 to 2147483647"):
        load_products(text).launch({"P": 0})


def test_tiles_of_a_dimension_that_only_run_time_knows() -> None:
    text = "kernel scaled\n  dims M = 64, N = dynamic, T = dynamic, K = 64\n  global X : bf16[M, K]\n"
    text += "  global W : bf16[N, K]\n  global Y : f32[M, N]\n  global R : f32[M, T]\n"
    text += "  over m in M by 64, n in N by 64\n  tail masked\n  waves 2 x 2\n  shared X, W\n"
    text += "  each k in K by 32\n    s = s + X[m, k] @ W[n, k].T\n  Y[m, n] = s\n  R[m, n / 64] = rowmax(s)\n"
    spec = load_products(text)
    build = right(spec, orders=1, N=130, T=3)
    with pytest.raises(SizeError, match="scaled: T must be N / 64, rounded up"):
        spec.launch({"N": 130, "T": 2})
    x, w = torch.randn(64, 64).bfloat16(), torch.randn(70, 64).bfloat16()
    y, most = operator(build, "scaled_70")(x, w)  # no input has T
    assert y.shape == (64, 70) and most.shape == (64, 2)


# ---------------------------------------------------------------- none, one, too many


@pytest.mark.parametrize("grid", ["linear", "persistent(5)", "stream_k(5)"])
def test_a_batch_of_none(grid: str) -> None:
    build = load_products(HEADS + (f"  grid {grid}\n" if grid != "linear" else "")).build()
    for extents in ({"B": 0, "H": 2, "KV": 1}, {"B": 2, "H": 0, "KV": 0}):
        found = run(build, extents=extents)
        assert found.ok and found.instructions == 0 and found.output.numel() == 0
        assert run(build, build.spec.launch(extents).sample(), extents=extents).ok
    with pytest.raises(PredictError, match="no matrices"):
        Workload.of(build, {"B": 0, "H": 2, "KV": 1})


def test_the_operator_takes_any_batch() -> None:
    name = "dynamic_heads"
    op = operator(load_products(APART).build(), name)
    for b, h in ((0, 2), (1, 2), (2, 4)):
        q, k = torch.randn(b, h, 64, 64).bfloat16(), torch.randn(b, h // 2, 128, 64).bfloat16()
        expected = 0.5 * q.float() @ k.float().repeat_interleave(2, 1).mT
        assert torch.allclose(op(q, k), expected, atol=1e-3)
    with pytest.raises(ValueError, match="KV must be H / 2"):
        op(torch.zeros(1, 4, 64, 64).bfloat16(), torch.zeros(1, 1, 128, 64).bfloat16())


@pytest.mark.parametrize(
    ("extents", "message"),
    [
        ({"B": 1, "H": 3, "KV": 1}, "H must be a multiple of 2"),
        ({"B": 1, "H": 4, "KV": 1}, "KV must be H / 2"),
        ({"B": -1, "H": 2, "KV": 1}, "B must be from 0 to 2147483647"),
        ({"B": 1 << 22, "H": 4, "KV": 2}, "B, H, M and N must make at most 16777215 output tiles"),
        ({"B": 1, "H": 1 << 20, "KV": 1 << 19}, r"H \* K must be at most 16777214"),
    ],
)
def test_sizes_that_no_launch_can_do(extents: dict[str, int], message: str) -> None:
    with pytest.raises(SizeError, match=f"heads: {message}"):
        load_products(HEADS).launch(extents)


def test_matrices_begin_beyond_4_gib() -> None:
    build = load_products(APART).build()
    extents = {"B": 70_001, "H": 4, "KV": 2}
    of = build.spec.launch(extents)
    sizes = {t.name: t.dtype.bytes * prod(of.shape(t)) for t in build.spec.program.arguments}
    assert sizes["Q"] > 1 << 31 and sizes["S"] > 1 << 33
    buffers = {name: Buffer(Hollow(size), name, name == "S") for name, size in sizes.items()}
    outcome = launch(build.hsaco, kernel=build.resources.kernel, grid=of.grid, block=of.block,
                     args=[packed(of, buffers, {})], blocks=[0, of.blocks - 1], watch=True)  # fmt: skip
    assert not outcome.findings
    written = {(w.begin, w.end) for w in outcome.written if w.block == of.blocks - 1}
    assert max(end for _, end in written) == sizes["S"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADS.replace("each k in K by 32", "each k in K by 32 part b"),
         "E230: parts of K, whose number is known only at launch, need `tail masked` and a K that is dynamic, too"),
        (HEADS.replace(*STATIC).replace("each k in K by 32", "each k in K by 32 part b") + "  grid persistent(4)\n",
         "E230: `grid persistent` distributes complete sums, and each part of K is one"),
        (HEADS.replace("K = 64", "K = dynamic") + "  tail masked\n",
         "E230: `Q` has other data between its rows, which a tail along K would reach"),
        (HEADS.replace("KV = dynamic", "KV = 2"), "E223: `h / 2` does not run over `KV` of `K_`"),
        (HEADS.replace("S : f32", "S : bf16") + "  grid stream_k(5)\n",
         "E608: `stream_k` would round `S` to bf16 at every addition of a part"),
    ],
)  # fmt: skip
def test_what_a_batch_cannot_be(text: str, message: str) -> None:
    assert message in errors(text)


# ---------------------------------------------------------------- what stands beside a kernel


@pytest.mark.parametrize("grid", ["persistent(5)", "stream_k(5)", "split_k(2)"])
def test_every_piece_of_every_matrix_has_a_block(grid: str) -> None:
    of = load_products(HEADS + f"  grid {grid}\n").launch(SEVERAL)
    done = [(p.matrix, p.row, p.col, step) for mine in of.work for p in mine for step in range(p.first, p.last)]
    assert len(done) == len(set(done)) == 12 * 1 * 2 * 2
    assert len(of.work) == of.blocks


@pytest.mark.parametrize("grid", ["", "  grid persistent(5)\n", "  grid stream_k(5)\n", "  grid split_k(2)\n"])
def test_the_machine_check_watches_several_matrices(grid: str) -> None:
    plan = load_products(HEADS + grid).plan
    watched = launches(plan)
    assert watched and max(w.launch.matrices for w in watched) > 1
    assert all(w.launch.extents["KV"] * 2 == w.launch.extents["H"] for w in watched)
    if "persistent" in grid:  # a block goes on to a third tile
        assert max(len(mine) for w in watched for mine in w.launch.work) >= 3


def test_sizes_worth_trying_fit_and_have_an_empty_batch() -> None:
    spec = load_products(HEADS)
    cases = size_cases(spec)
    assert {case["B"] for case in cases} == {0, 1, 2, 3}
    for case in cases:
        spec.launch(case)


def test_prediction_report_and_search_know_the_batch() -> None:
    build = load_products(HEADS + "  grid persistent(5)\n").build()
    found = Workload.of(build, SEVERAL)
    assert len(found.pieces) == len(set(found.pieces)) == 24
    assert (found.repeats, found.matrices, found.flops) == (5, 12, 2 * 64 * 128 * 64 * 12)
    spec = build.spec
    order = block_order(spec.program, spec.target.product, 1)
    assert order.assumed and (order.rows, order.cols) == (1, 2)
    bounds = [lower_bound(spec, {"B": b, "H": 400, "KV": 200}) for b in (1, 900)]
    assert bounds[1] > 3 * bounds[0] > 0
    added = Workload.of(load_products(HEADS + "  grid stream_k(5)\n").build(), SEVERAL)
    assert added.zeroed_bytes == 4 * 64 * 128 * 12 and len(added.pieces) == 5


def test_regression_of_a_spec_with_a_dynamic_batch(tmp_path: Path) -> None:
    from tkgen.execute.suites import regression

    path = tmp_path / "heads.tk"
    path.write_text(HEADS)
    assert [r.failure for r in regression(path, schedules=1) if r.failure] == []


def test_the_launch_of_known_sizes_is_one_of_all_matrices() -> None:
    assert Launch.known(load_products(HEADS).program) is None
    known = Launch.known(load_products(HEADS.replace(*STATIC)).program)
    assert known is not None and (known.matrix_tiles, known.all_tiles) == (2, 24)
