"""Reductions in epilogues of products: of whole rows and columns, of tiles, and what is made of them further on."""

from __future__ import annotations

from typing import Any

import pytest

from tkgen import load
from tkgen.api import Spec
from tkgen.checks.families import check
from tkgen.diagnostics import SpecError
from tkgen.execute.launch import run, trials
from tkgen.report import facts
from tkgen.tile.ops import Barrier
from tkgen.tile.program import Part

SPEC = """kernel reduced
  dims M = {m}, N = {n}, K = {k}, ROWS = ceil_div({m}, {bm}), COLS = ceil_div({n}, {bn})
  global A : {dtype}[M, K]
  global B : {dtype}[N, K]
{tensors}
  over m in M by {bm}, n in N by {bn}
  waves {waves}
  shared A, B{shared}
{clauses}
  each k in K by 32
    s = s + A[m, k] @ B[n, k].T
{equations}
"""


def text_of(
    tensors: str, equations: str, *, sizes: tuple[int, int, int] = (128, 128, 64), block: tuple[int, int] = (64, 128),
    waves: str = "2 x 2", dtype: str = "bf16", shared: str = "", clauses: str = "",
) -> str:  # fmt: skip
    tensors = "\n".join(f"  global {t}" for t in tensors.split("; "))
    equations = "\n".join(f"  {line}" for line in equations.split("; "))
    clauses = "\n".join(f"  {c}" for c in clauses.split("; ") if c)
    names = dict(zip(("m", "n", "k"), sizes, strict=True)) | {"bm": block[0], "bn": block[1]}
    return SPEC.format(
        tensors=tensors, equations=equations, waves=waves, dtype=dtype, shared=shared, clauses=clauses, **names
    )


def spec(tensors: str, equations: str, target: str = "gfx942", **options: Any) -> Spec:
    return load(text_of(tensors, equations, **options), target=target)


def right(made: Spec, orders: int = 1) -> None:
    build = made.check().build()
    assert not build.resources.vgpr_spills and not build.resources.scratch_bytes
    for order, kind in trials(orders):
        found = run(build, kind=kind, order=order)
        assert found.ok, (kind, found.failure)


SOFTMAX = "t = rowmax(s); e = exp(s - t); l = rowsum(e); Y[m, n] = e / l; L[m] = t + log(l)"
COLUMNS = "t = colmax(s); e = exp(s - t); l = colsum(e); Y[m, n] = e / l; L[n] = t + log(l)"
TILES = "r = rowmax(abs(s)); R[m, n / {bn}] = r; Y[m, n] = s * rcp(max(r, 1e-6)); c = colmin(s); C[m / {bm}, n] = c"


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950"])
def test_softmax_of_rows_that_a_block_has_whole(target: str) -> None:
    right(spec("Y : bf16[M, N]; L : f32[M]", SOFTMAX, target=target), orders=5)


@pytest.mark.parametrize(
    ("waves", "clauses"),
    [
        pytest.param("1 x 4", "accumulate s : f32 tile 32 x 32 interleaved", marks=pytest.mark.slow),
        pytest.param("4 x 1", "accumulate s : f32 tile 16 x 32 interleaved", marks=pytest.mark.slow),
        ("2 x 4", "accumulate s : f32 tile 32 x 16 interleaved"),
        pytest.param("2 x 2", "accumulate s : f32 tile 16 x 64 blocked", marks=pytest.mark.slow),
        ("2 x 2", "accumulate s : f32 tile 32 x 32 interleaved mfma 32 x 32"),
        pytest.param("1 x 2", "accumulate s : f32 tile 64 x 32 blocked mfma 32 x 32", marks=pytest.mark.slow),
        pytest.param("1 x 1", "accumulate s : f32 tile 32 x 32", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("along", ["rows", "columns"])
def test_layouts_of_sums(waves: str, clauses: str, along: str) -> None:
    equations, tensors = (SOFTMAX, "L : f32[M]") if along == "rows" else (COLUMNS, "L : f32[N]")
    right(spec(f"Y : bf16[M, N]; {tensors}", equations, sizes=(128, 128, 32), block=(128, 128), waves=waves,
               clauses=clauses))  # fmt: skip


@pytest.mark.parametrize(
    ("sizes", "tail"),
    [
        pytest.param((1, 1, 32), "masked", marks=pytest.mark.slow),
        ((65, 100, 40), "masked"),
        pytest.param((130, 17, 33), "masked", marks=pytest.mark.slow),
        ((56, 120, 32), "clamped"),
        pytest.param((72, 96, 32), "clamped", marks=pytest.mark.slow),
    ],
)
def test_what_hangs_over_the_end_takes_no_part(sizes: tuple[int, int, int], tail: str) -> None:
    right(spec("Y : f32[M, N]; L : f32[M]", SOFTMAX, sizes=sizes, clauses=f"tail {tail}"))
    right(spec("Y : f32[M, N]; L : f32[N]", COLUMNS, sizes=(sizes[1], sizes[0], sizes[2]), block=(128, 64),
               clauses=f"tail {tail}"))  # fmt: skip


@pytest.mark.parametrize(("sizes", "tail"), [((128, 128, 64), ""), ((100, 93, 33), "tail masked")])
def test_results_of_tiles(sizes: tuple[int, int, int], tail: str) -> None:
    tensors = "Y : bf16[M, N]; R : f32[M, COLS]; C : bf16[ROWS, N]; S : f32[COLS, ROWS]"
    equations = TILES.format(bm=32, bn=64) + "; S[n / 64, m / 32] = rowmax(c) + colsum(r)"
    right(spec(tensors, equations, sizes=sizes, block=(32, 64), waves="2 x 1", clauses=tail))
    right(spec(tensors, equations, sizes=sizes, block=(32, 64), waves="1 x 2", clauses=tail))


def test_a_maximum_alone_and_of_several_sums() -> None:
    right(spec("R : f32[M, COLS]", "R[m, n / 64] = rowmax(s)", block=(64, 64)))
    text = text_of("R : f16[M, TWO]", "R[m, 0] = rowmax(s); R[m, 1] = rowmin(s - 2 * s)")
    text = text.replace("global R", "global U : bf16[N, K]\n  global R").replace("shared A, B", "shared A, B, U")
    text = text.replace("@ B[n, k].T\n", "@ B[n, k].T\n    u = u + A[m, k] @ U[n, k].T\n").replace("2 * s", "2 * u")
    text = text.replace("dims", "dims TWO = 2,")
    right(load(text))


def test_norms_behind_a_product() -> None:
    rms = "x = s + D[m, n]; D[m, n] = x; Y[m, n] = x * rsqrt(rowmean(x * x) + 1e-5) * w[n]"
    right(spec("D : bf16[M, N]; w : bf16[N]; Y : bf16[M, N]", rms))
    layer = "c = s - rowmean(s); Y[m, n] = c * rsqrt(rowmean(c * c) + 1e-5) * w[n] + v[n]; V[m] = rowmean(c * c)"
    right(spec("w : f32[N]; v : bf16[N]; Y : f16[M, N]; V : f32[M]", layer, dtype="f16"))


def test_a_dimension_that_is_taken_whole() -> None:
    text = text_of("Y : f32[M, N]; L : f32[M]", SOFTMAX, sizes=(100, 90, 64), clauses="tail masked")
    text = text.replace(", n in N by 128", "").replace("B[n, k]", "B[N, k]").replace("Y[m, n]", "Y[m]")
    right(load(text.replace("waves 2 x 2", "waves 4 x 1")))


@pytest.mark.parametrize(
    ("clauses", "shared", "waves"),
    [
        ("grid persistent(blocks = 2)", " buffers 2", "2 x 2"),
        ("registers A, B slice 16 buffers 2", " buffers 2 via registers", "2 x 2"),
        ("unroll 2; grid persistent(blocks = 1)", "", "1 x 4"),
        ("schedule; " + "  cluster read A B; " + "  cluster multiply; " + "  cluster load A[k+1] B[k+1]",
         " buffers 2", "2 x 2"),
    ],
    ids=["persistent", "staged", "one block", "written"],
)  # fmt: skip
def test_schedules(clauses: str, shared: str, waves: str) -> None:
    made = spec("Y : bf16[M, N]; L : f32[M]", SOFTMAX, sizes=(320, 128, 128), clauses=clauses, shared=shared,
                waves=waves)  # fmt: skip
    right(made, orders=3)


def test_halves_of_the_waves_a_phase_apart_are_level_before_they_hand_over() -> None:
    made = spec(
        "Y : bf16[M, N]; L : f32[M]", SOFTMAX, sizes=(512, 256, 128), block=(256, 256), waves="2 x 4",
        shared=" via registers", clauses="schedule ping_pong",
    )  # fmt: skip
    assert made.check().plan.to_text().count("catch up") == 2
    assert [(lane.phase, len(lane.ops) > 10) for lane in facts(made).pipeline.lanes] == [(0, True), (1, True)]
    right(made, orders=3)


def test_roles_meet_where_only_some_reduce() -> None:
    text = text_of("Y : bf16[M, N]; L : f32[M]", SOFTMAX, sizes=(192, 128, 128), shared=" buffers 2")
    roles = "  role loads waves 0..1\n    load A, B\n  role sums waves 2..5 as 2 x 2\n"
    roles += "    accumulate s : f32 tile 32 x 32\n"
    right(load(text.replace("  waves 2 x 2\n", roles)), orders=3)


def test_direct_loads() -> None:
    made = spec("Y : bf16[M, N]; L : f32[M]", SOFTMAX, shared=" buffers 2 via direct", target="gfx950")
    right(made, orders=3)


def test_matrices_of_a_batch() -> None:
    text = text_of("Y : f32[M, N]; L : f32[M]", SOFTMAX)
    text = text.replace("dims M", "dims H = 3, TWO = 2, M").replace("over m", "over h in H, m")
    text = text.replace("A : bf16[M", "A : bf16[H, M").replace("A[m", "A[h, m")
    text = text.replace("Y : f32[M", "Y : f32[M, H").replace("Y[m", "Y[m, h")
    text = text.replace("L : f32[M]", "L : bf16[M, H, TWO]").replace("L[m]", "L[m, h, 1]")
    right(load(text))


# ---------------------------------------------------------------- in place


def test_what_is_stored_in_place_is_not_read_again() -> None:
    right(spec("R : f32[M, N]; Y : f32[M, N]", "x = s + R[m, n]; R[m, n] = x; Y[m, n] = x * 2"))
    right(spec("R : f32[M, N]; Y : f32[M, N]", "x = s + R[m, n]; Y[m, n] = x * 2; R[m, n] = x"))
    right(spec("R : f32[M]; Y : f32[M, N]", "R[m] = max(R[m], rowmax(s)); Y[m, n] = s"))


@pytest.mark.parametrize(
    ("tensors", "equations", "message"),
    [
        ("R : f32[M, N]; Y : f32[M, N]", "x = R[m, n] + s; y = Y[m, n] + x; R[m, n] = x + y; Y[m, n] = y",
         "E230: `R` and others are stored in place, each made of all of them"),
        ("R : f32[M]; Y : f32[M, N]", "x = R[m] + rowmax(s); R[m] = x; Y[m, n] = s - x",
         "E230: `R` is stored by one wave, and others read it for more than that"),
        ("R : f32[M]; Y : f32[M, N]", "R[m] = rowmax(s + R[m]); Y[m, n] = s",
         "E230: `R` is stored by one wave, and others read it for more than that"),
    ],
)  # fmt: skip
def test_stores_in_place_that_have_no_order(tensors: str, equations: str, message: str) -> None:
    assert errors(tensors, equations) == [message]


# ---------------------------------------------------------------- mistakes


def errors(tensors: str, equations: str, **options: Any) -> list[str]:
    with pytest.raises(SpecError) as found:
        spec(tensors, equations, **options).check()
    return [f"{d.code}: {d.message}" for d in found.value.diagnostics]


@pytest.mark.parametrize(
    ("tensors", "equations", "message"),
    [
        ("R : f32[M]", "R[m] = rowmax(s)", "E226: `rowmax` along `n` would be over only the block's tile of 64"),
        ("R : f32[M, COLS]; v : f32[M]; Y : f32[M, N]", "Y[m, n] = s / rowsum(s); R[m, n / 64] = v[m]",
         "E226: `rowsum` along `n` would be over only the block's tile of 64"),
        ("R : f32[M, COLS]", "R[m, n / 64] = rowmean(s)", "E226: `rowmean` along `n` would be the mean of one tile"),
        ("R : f32[M, K]", "R[m, n / 32] = rowmax(s)", "E223: `n / 32` is not the number of a tile of `n`"),
        ("R : f32[M, M]", "R[m, n / 64] = rowmax(s)", "E223: `n / 64` does not run over `M` of `R`"),
        ("R : f32[M, COLS]", "R[m, n / 64] = s", "E225: `R[m, n / 64]` has axis [m]; the value stored has axes [m, n]"),
        ("R : f32[M, COLS]", "R[m, n / 64] = rowmax(s * R[m, n / 64])",
         "E230: `R` is read by the tile outside of the loop"),
        ("R : f32[COLS]; Y : f32[M, N]", "R[n / 64] = 1; Y[m, n] = s",
         "E602: every block along `m` writes `R[n / 64]`, each with a different value"),
    ],
)  # fmt: skip
def test_mistakes(tensors: str, equations: str, message: str) -> None:
    assert errors(tensors, equations, block=(64, 64))[0] == message


def test_what_blocks_add_up_is_not_reduced() -> None:
    found = errors("Y : f32[M, N]", "Y[m, n] = s - rowmax(s)", clauses="grid split_k(2)")
    assert found == ["E608: `max` would be applied to the partial sum of every block",
                     "E608: `sub` would be applied to the partial sum of every block"]  # fmt: skip


def test_local_memory_has_room_for_what_waves_hand_over() -> None:
    full = {"sizes": (256, 256, 64), "block": (256, 256), "waves": "2 x 4", "shared": " buffers 2"}
    equations = SOFTMAX.replace("Y[m, n] = e / l; ", "")
    found = errors("L : f32[M]", equations, **full)
    assert found == ["E501: the tiles need 73728 bytes of LDS, but a block on gfx942 has 65536"]


def test_the_proof_knows_of_the_meeting_at_which_waves_hand_over() -> None:
    made = spec("Y : bf16[M, N]; L : f32[M]", SOFTMAX, sizes=(128, 128, 128), clauses="grid persistent(blocks = 1)")
    plan = made.check().plan
    (role,), epilogue = plan.role_names, plan.waves[0].ops(Part.EPILOGUE)
    meetings = [at for at, placed in enumerate(epilogue) if isinstance(placed, Barrier)]
    assert len(meetings) == 2
    for at in meetings:
        lost = plan.with_ops(role, Part.EPILOGUE, (*epilogue[:at], *epilogue[at + 1 :]))
        assert ("RAW", "partial results") in {(c.kind, c.operand) for c in lost.conflicts()}
        assert any("partial results" in d.message for d in check(lost, made.target))


def test_some_blocks_of_many_are_compared_where_they_store() -> None:
    equations = "r = rowmax(s); R[m, n / 64] = r; S[m / 64, n / 64] = colmin(r)"
    made = spec("R : f32[M, COLS]; S : bf16[ROWS, COLS]", equations, sizes=(256, 192, 32), block=(64, 64))
    found = run(made.check().build(), [4, 11])
    assert found.ok, found.failure


# ---------------------------------------------------------------- what several statements use


NORM = "x = s + R[m, n]; mu = rowmean(x); d = x - mu; Y[m, n] = d * rsqrt(rowmean(d * d) + 1e-5) * bf16(g[n])"


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_what_rounds_share_is_loaded_and_computed_once(target: str) -> None:
    made = spec("R : bf16[M, N]; g : f32[N]; Y : bf16[M, N]", NORM, target=target)
    assert made.text.count("element_of(g.R") == 1
    right(made, orders=2)
    ragged = spec("R : bf16[M, N]; g : f32[N]; Y : bf16[M, N]", NORM, target=target, sizes=(100, 97, 50),
                  clauses="tail masked")  # fmt: skip
    right(ragged, orders=2)
    softmax = spec("Y : bf16[M, N]; L : f32[M]", SOFTMAX, target=target)
    assert softmax.text.count("exponential(") == 2  # its definition, and one call


def test_stores_share_what_they_are_made_of() -> None:
    made = spec("R : bf16[M, N]; H : bf16[M, N]; Y : f32[M, N]", "h = tanh(s); H[m, n] = h; Y[m, n] = h + R[m, n]")
    assert made.text.count("hyperbolic_tangent(") == 2
    right(made, orders=2)


@pytest.mark.parametrize(
    ("tensors", "equations"),
    [
        ("Y : f32[M, N]; Z : f32[M, N]", "e = exp(0.1 * s); Y[m, n] = e / rowsum(e); Z[m, n] = s"),
        ("Y : f32[M, N]; Z : f32[M, N]", "Z[m, n] = s; e = exp(0.1 * s); Y[m, n] = e / rowsum(e)"),
        ("R : f32[M, N]; Y : f32[M, N]", "x = s + R[m, n]; R[m, n] = x; Y[m, n] = x * rowmax(abs(x))"),
        ("Y : f32[M, N]; T : f32[M]", "c = bf16(s); t = rowsum(c); T[m] = t; Y[m, n] = where(m >= n, c - t, c + t)"),
        ("Y : f32[M, N]; Z : f32[M, N]", "x = 2 * s; y = x + rowmax(x); Y[m, n] = y + rowmin(y); Z[m, n] = x - y"),
    ],
    ids=["a sum that is stored later", "and before", "in place", "rounded", "two of one sum"],
)
def test_what_is_still_needed_is_not_overwritten(tensors: str, equations: str) -> None:
    right(spec(tensors, equations), orders=2)


def test_each_of_two_sums_makes_room_for_what_needs_it_no_more() -> None:
    text = text_of("U : bf16[N, K]; H : f32[M, N]; Y : f32[M, N]",
                   "h = silu(s) * u; w = u + 1; H[m, n] = h * rowsum(h * w); Y[m, n] = w / rowmax(w)")  # fmt: skip
    text = text.replace("shared A, B", "shared A, B, U").replace(
        "@ B[n, k].T\n", "@ B[n, k].T\n    u = u + A[m, k] @ U[n, k].T\n"
    )
    right(load(text), orders=2)
