"""Reductions of rows and columns after products on Hopper: the generated C++ on the CPU, the model, against torch."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from gemms import gemm

from tkgen.api import load
from tkgen.backends.hopper.host.run import run
from tkgen.backends.hopper.schedule import Shape, schedule, wrong
from tkgen.backends.registry import backend_of
from tkgen.diagnostics import SpecError
from tkgen.execute import modelled
from tkgen.execute.arguments import check_scalars
from tkgen.execute.given import Chosen
from tkgen.proof.execution import Order
from tkgen.proof.program import Meet, Step

SPEC = """kernel reduced
  target sm_90a
  dims {batch}M = {m}, N = {n}, K = {k}, COLS = ceil_div({n}, {bn}), ROWS = ceil_div({m}, {bm})
  global A : bf16[{of}M, K]
  global B : bf16[{of}N, K]
{tensors}
  over {over}m in M by {bm}, n in N by {bn}
{clauses}
  shared A, B buffers 3 via direct
  role producer waves 0..3
    load A, B
  role consumer waves 4..{last} as {waves} x 1
    accumulate s : f32 tile 16 x {bn}
{schedule}
  each k in K by 64
    s = s + A[{at}m, k] @ B[{at}n, k].T
{equations}
"""


def text_of(
    tensors: str, equations: str, sizes: tuple[int, int, int] = (256, 128, 128), block: tuple[int, int] = (128, 128),
    clauses: str = "", schedule: str = "", batch: int = 0,
) -> str:  # fmt: skip
    waves = block[0] // 16
    of, at, over = ("BATCH, ", "b, ", "b in BATCH, ") if batch else ("", "", "")
    return SPEC.format(
        m=sizes[0], n=sizes[1], k=sizes[2], bm=block[0], bn=block[1], last=waves + 3, waves=waves,
        batch=f"BATCH = {batch}, " if batch else "", of=of, at=at, over=over,
        tensors="\n".join(f"  global {t}" for t in tensors.split("; ")),
        equations="\n".join(f"  {e}" for e in equations.split("; ")),
        clauses="\n".join(f"  {c}" for c in clauses.split("; ") if c),
        schedule="    schedule ping_pong" if schedule else "",
    )  # fmt: skip


def right(text: str) -> None:
    spec = load(text).check()
    launch = spec.launch()
    found = Chosen(spec, launch, {}, check_scalars(launch.program))
    for executor in ("host", "model"):
        failures = [t.failure for t in modelled.trials(backend_of("sm_90a"), found, 2, executor=executor)]
        assert failures == ["", ""], executor


SOFTMAX = "t = rowmax(s); e = exp(s - t); l = rowsum(e); Y[m, n] = e / l; L[m] = t + log(l)"


@pytest.mark.parametrize(
    ("sizes", "clauses"),
    [
        ((256, 128, 128), ""),
        pytest.param((200, 104, 72), "tail masked", marks=pytest.mark.slow),
        ((65, 8, 200), "tail masked"),
        ((384, 128, 128), "grid persistent(2)"),
    ],
)
def test_softmax_of_rows_that_a_block_has_whole(sizes: tuple[int, int, int], clauses: str) -> None:
    right(text_of("Y : bf16[M, N]; L : f32[M]", SOFTMAX, sizes, clauses=clauses))


TILES = "r = rowmax(abs(s)); R[m, n / 64] = r; Y[m, n] = s * rcp(max(r, 1e-6))"


@pytest.mark.parametrize("clauses", ["", "tail masked"])
def test_a_number_of_each_row_of_each_tile(clauses: str) -> None:
    sizes = (128, 256, 64) if not clauses else (100, 232, 64)
    right(text_of("Y : bf16[M, N]; R : f32[M, COLS]", TILES, sizes, (64, 64), clauses))


def test_what_is_reduced_of_what_is_loaded_and_of_several_rounds() -> None:
    equations = (
        "x = s + BIAS[n]; q = rowsum(x * x); h = x * rsqrt(q / 128 + 1e-6) * W[n]; w = rowmax(abs(h)); "
        "Y[m, n] = h * rcp(max(w, 1e-6)); L[m] = w * S[m]; Z[m, n] = x"
    )
    tensors = "BIAS : f32[N]; W : bf16[N]; S : f32[M]; Y : bf16[M, N]; Z : bf16[M, N]; L : bf16[M]"
    right(text_of(tensors, equations, (256, 128, 64)))


def test_consumers_that_take_turns() -> None:
    right(text_of("Y : bf16[M, N]; L : f32[M]", SOFTMAX, (256, 64, 128), (128, 64), schedule="ping_pong"))


def test_batches() -> None:
    equations = "t = rowmax(s); Y[b, m, n] = s - t; L[b, m] = t"
    right(text_of("Y : bf16[BATCH, M, N]; L : f32[BATCH, M]", equations, (128, 64, 64), (64, 64), batch=3))


def test_against_torch() -> None:
    """The reference is torch's softmax of torch's product, not the equations."""
    spec = load(text_of("Y : bf16[M, N]; L : f32[M]", SOFTMAX, (128, 128, 64))).check()
    generator = torch.Generator().manual_seed(0)
    inputs = {n: torch.randn(128, 64, generator=generator).to(torch.bfloat16) for n in ("A", "B")}
    made = run(spec, spec.launch(), inputs, {}, Order())
    scores = inputs["A"].double() @ inputs["B"].double().T
    assert not made.findings
    torch.testing.assert_close(made.outputs["Y"].double(), scores.softmax(-1), atol=0.002, rtol=0.01)
    torch.testing.assert_close(made.outputs["L"].double(), scores.logsumexp(-1), atol=1e-3, rtol=1e-5)


ROW_TILES = "R : f32[ROWS, N]"
COLUMNS = {
    "sums of each tile": (f"Y : f32[M, N]; {ROW_TILES}", "Y[m, n] = s; R[m / 128, n] = colsum(s * s)"),
    "maxima of each tile, used and stored": (
        f"Y : bf16[M, N]; {ROW_TILES}",
        "t = max(colmax(abs(s)), 1e-6); Y[m, n] = s / t; R[m / 128, n] = t * rcp(448)",
    ),
    "two rounds, of what is loaded": (
        f"BIAS : f32[N]; W : bf16[N]; Y : bf16[M, N]; Z : f32[M, N]; {ROW_TILES}",
        "x = s + BIAS[n]; t = colmax(x); e = exp(x - t); l = colsum(e); Y[m, n] = e / l * W[n]; Z[m, n] = x; "
        "R[m / 128, n] = t + log(l) + BIAS[n]",
    ),
    "a number of each tile": (
        "S : f32[M]; Y : bf16[M, N]; L : f32[M, COLS]; A8 : f32[ROWS, COLS]; U : bf16[ROWS, COLS]; R : f32[ROWS, N]",
        "v = s * S[m]; c = colmax(v); t = colmax(rowmax(abs(v))); u = rowsum(colsum(v)); r = rowmin(v); "
        "Y[m, n] = v / t + u; A8[m / 128, n / 128] = t; U[m / 128, n / 128] = t - u; R[m / 128, n] = c * t + u; "
        "L[m, n / 128] = r * t - u",
    ),
    "rows and columns": (
        f"Y : bf16[M, N]; L : f32[M, COLS]; {ROW_TILES}",
        "c = colmin(s); r = rowmax(s - c); q = colsum(s * r); Y[m, n] = s * r - c; L[m, n / 128] = r; "
        "R[m / 128, n] = c + q",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("sizes", "clauses"),
    [
        ((256, 256, 128), ""),
        ((200, 232, 72), "tail masked"),
        pytest.param((65, 8, 200), "tail masked", marks=pytest.mark.slow),
        ((384, 128, 128), "grid persistent(2)"),
        pytest.param((512, 256, 64), "clusters 2 along m", marks=pytest.mark.slow),
        ((384, 128, 64), "clusters 2 along m"),
        pytest.param((128, 384, 64), "clusters 2 along n", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("kind", COLUMNS)
def test_columns_of_a_block(kind: str, sizes: tuple[int, int, int], clauses: str) -> None:
    tensors, equations = COLUMNS[kind]
    right(text_of(tensors, equations, sizes, clauses=clauses))


GROUPS = """kernel groups
  target sm_90a
  dims TOKENS = 320, EXPERTS = 4, OFFSETS = EXPERTS + 1, OUT = 128, TILES = 1, IN = 64
  global FIRST : i32[OFFSETS]
  global X : bf16[TOKENS, IN]
  global W : bf16[EXPERTS, OUT, IN]
  global S : f32[TOKENS, TILES]
  global Y : f32[TOKENS, OUT]
  over e in EXPERTS, m in TOKENS within FIRST[e] by 128, n in OUT by 128
  grid persistent(1)
  tail masked
  shared X, W
  each k in IN by 64
    y = y + X[m, k] @ W[e, n, k].T
  Y[m, n] = y
  S[m, n / 128] = rowmax(abs(y))
"""


def test_numbers_of_rows_end_with_their_group() -> None:
    """Rows of no group stay as they are: the last tile of a group before them hangs over."""
    spec = load(GROUPS).check()
    generator = torch.Generator().manual_seed(0)
    first = torch.tensor([5, 100, 100, 230, 250], dtype=torch.int32)
    inputs = {"FIRST": first, "X": torch.randn(320, 64, generator=generator).bfloat16(),
              "W": torch.randn(4, 128, 64, generator=generator).bfloat16()}  # fmt: skip
    sums = torch.full((320, 128), torch.nan, dtype=torch.float64)
    for e, (begin, end) in enumerate(pairwise(first.tolist())):
        sums[begin:end] = inputs["X"][begin:end].double() @ inputs["W"][e].double().T
    wanted = {"Y": sums, "S": sums.abs().amax(1, keepdim=True)}
    for made in (run(spec, spec.launch(), inputs, {}, Order()), spec.modelled(spec.launch(), inputs, {}, Order())):
        assert not made.findings
        for name, value in wanted.items():
            torch.testing.assert_close(made.outputs[name].double(), value, atol=1e-3, rtol=1e-4, equal_nan=True)


def test_numbers_of_which_nothing_is_reduced() -> None:
    equations = "Y[m, n] = s; L[m] = S[m] * 2; R[m / 128, n] = T[n] + 1"
    right(text_of("S : f32[M]; T : f32[N]; Y : bf16[M, N]; L : f32[M]; R : f32[ROWS, N]", equations, (384, 128, 64),
                  clauses="grid persistent(2)"))  # fmt: skip


@pytest.mark.parametrize("clauses", ["clusters 2 along m", "clusters 2 along n"])
def test_blocks_of_a_cluster_beyond_the_end_store_no_numbers(clauses: str) -> None:
    right(text_of("Y : bf16[M, N]; L : f32[M, COLS]", "t = rowmax(s); Y[m, n] = s - t; L[m, n / 128] = t",
                  (384, 384, 64), clauses=clauses))  # fmt: skip


@pytest.mark.parametrize("sizes", [(128, 128, 64), (100, 72, 64), (3, 128, 64)])
def test_columns_that_a_block_has_whole(sizes: tuple[int, int, int]) -> None:
    tail = "tail masked" if sizes[0] < 128 else ""
    softmax = "t = colmax(s); e = exp(s - t); l = colsum(e); Y[m, n] = e / l; L[n] = t"
    right(text_of("Y : bf16[M, N]; L : f32[N]", softmax, sizes, clauses=tail))
    of_all = "t = colmax(rowmax(abs(s))); u = rowsum(colsum(s)); Y[m, n] = s / t + u"
    right(text_of("Y : f32[M, N]", of_all, sizes, clauses=tail))


@pytest.mark.parametrize("block", [(64, 64), (192, 128), (128, 256)])
def test_columns_of_blocks_of_one_to_three_consumers(block: tuple[int, int]) -> None:
    equations = f"t = colmax(abs(s)); Y[m, n] = s / max(t, 1e-6); R[m / {block[0]}, n] = t"
    right(text_of(f"Y : bf16[M, N]; {ROW_TILES}", equations, (3 * block[0], 256, 64), block))


def test_columns_of_batches_and_of_sizes_that_run_time_knows() -> None:
    equations = "Y[b, m, n] = s; R[b, m / 128, n] = colsum(s)"
    right(text_of(f"Y : bf16[BATCH, M, N]; {ROW_TILES}".replace("[ROWS", "[BATCH, ROWS"), equations, batch=3))
    equations = "t = colmax(abs(s + 1)); Y[m, n] = s / t; R[m / 128, n] = t"
    text = text_of(f"Y : f32[M, N]; {ROW_TILES}", equations, (200, 128, 128), clauses="tail masked")
    spec = load(text.replace("N = 128", "N = dynamic")).check()
    launch = spec.launch({"N": 72})
    found = Chosen(spec, launch, {}, check_scalars(launch.program))
    for executor in ("host", "model"):
        failures = [t.failure for t in modelled.trials(backend_of("sm_90a"), found, 2, executor=executor)]
        assert failures == ["", ""], executor


TORCH_COLUMNS = "t = colmax(abs(s + 2)); Y[m, n] = s / t; R[m / 128, n] = colsum(s + 2); T[m / 128, n] = t"
FLAWS = {
    "a row beyond the end": ("tk::before{200}", "tk::before{256}"),
    "a consumer's part": ("[consumer * WARPGROUP_WARPS + warpgroup::warpid()]", "[warpgroup::warpid()]"),
    "a warp's part": ("[consumer * WARPGROUP_WARPS + warpgroup::warpid()]", "[consumer * WARPGROUP_WARPS]"),
    "a meeting of all": ("consumers::sync(CONSUMERS + 1);", ""),
    "another column": ("c - tile_col * BLOCK_COLS)", "(c - tile_col * BLOCK_COLS) % 64)"),
    "columns of some threads": ("tile_col * BLOCK_COLS, [&](int col", "tile_col * BLOCK_COLS + 1, [&](int col"),
    "nothing": ("", ""),
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_columns_against_torch(flaw: str) -> None:
    tensors = f"Y : f32[M, N]; T : f32[ROWS, N]; {ROW_TILES}"
    spec = load(text_of(tensors, TORCH_COLUMNS, (200, 232, 64), clauses="tail masked")).check()
    generator = torch.Generator().manual_seed(0)
    inputs = {
        name: torch.randn(size, 64, generator=generator).to(torch.bfloat16) for name, size in (("A", 200), ("B", 232))
    }
    sums = inputs["A"].double() @ inputs["B"].double().T
    tiles = [x + 2 for x in sums.split(128)]
    scaled = torch.cat([(x - 2) / x.abs().amax(0) for x in tiles])
    old, new = FLAWS[flaw]
    assert old in spec.text
    same = True
    for order in (Order(), Order("last", frozenset()), Order("first")):
        made = run(spec, spec.launch(), inputs, {}, order, text=spec.text.replace(old, new), limit=60)
        same &= not made.findings and torch.allclose(made.outputs["Y"].double(), scaled, atol=1e-4, rtol=1e-4)
        same &= torch.allclose(made.outputs["R"].double(), torch.stack([x.sum(0) for x in tiles]), atol=1e-2, rtol=1e-4)
    assert same == (flaw == "nothing")


@pytest.mark.parametrize("left_out", [0, 1])
def test_the_proof_needs_both_meetings_of_all_consumers(left_out: int) -> None:
    """The first orders parts before what is made of them; the second orders that before its use, and the next parts."""
    shape = Shape(stages=2, consumers=2, steps=3, panels=2, buffers=2, rounds=(True,), warps=1)
    loop = schedule(shape)
    assert wrong(loop) is None

    def without(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        met = [n for n, step in enumerate(steps) if isinstance(step, Meet) and step.meeting == "consumers 0"]
        return tuple(step for n, step in enumerate(steps) if n not in met[left_out::2])

    agents = tuple(replace(agent, body=without(agent.body)) for agent in loop.agents)
    advance = loop.advance | {"consumers 0": loop.advance["consumers 0"] // 2}
    assert wrong(replace(loop, agents=agents, advance=advance)) is not None


REFUSED = {
    "columns in turn": ("Y : bf16[M, N]", "Y[m, n] = s - colmax(s)", "ping_pong", "take turns"),
    "columns of parts": ("Y : f32[M, N]", "Y[m, n] = s - colmax(s)", "grid split_k(2)", ""),
    "parts": ("Y : f32[M, N]", "t = rowmax(s); Y[m, n] = s - t", "grid split_k(2)", ""),
    "bytes": ("Y : bf16[M, N]; L : fp8[M]", "t = rowmax(s); Y[m, n] = s; L[m] = t", "", "f32, bf16 or f16"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_there_is_refused(name: str) -> None:
    tensors, equations, clauses, said = REFUSED[name]
    with pytest.raises(SpecError) as raised:
        schedule, clauses = (clauses, "") if clauses == "ping_pong" else ("", clauses)
        load(text_of(tensors, equations, (128, 128, 128), clauses=clauses, schedule=schedule)).check()
    assert said in str(raised.value)


def test_the_same_as_a_gemm_where_nothing_is_reduced() -> None:
    assert "rows_0" not in load(gemm()).text
