"""Reductions of rows behind products on Hopper: the generated C++ on the CPU, and the model, against torch."""

from __future__ import annotations

import pytest
import torch
from gemms import gemm

from tkgen.api import load
from tkgen.backends.hopper.host.run import run
from tkgen.backends.registry import backend_of
from tkgen.diagnostics import SpecError
from tkgen.execute import modelled
from tkgen.execute.arguments import check_scalars
from tkgen.execute.given import Chosen
from tkgen.proof.execution import Order

SPEC = """kernel reduced
  target sm_90a
  dims {batch}M = {m}, N = {n}, K = {k}, COLS = ceil_div({n}, {bn})
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


REFUSED = {
    "columns": ("Y : bf16[M, N]; C : f32[N]", "t = colmax(s); Y[m, n] = s - t; C[n] = t", "", "reduces rows of sums"),
    "parts": ("Y : f32[M, N]", "t = rowmax(s); Y[m, n] = s - t", "grid split_k(2)", ""),
    "no matrix": ("L : f32[M]", "L[m] = rowmax(s)", "", "stores a matrix"),
    "bytes": ("Y : bf16[M, N]; L : fp8[M]", "t = rowmax(s); Y[m, n] = s; L[m] = t", "", "f32, bf16 or f16"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_there_is_refused(name: str) -> None:
    tensors, equations, clauses, said = REFUSED[name]
    with pytest.raises(SpecError) as raised:
        load(text_of(tensors, equations, (128, 128, 128), clauses=clauses)).check()
    assert said in str(raised.value)


def test_the_same_as_a_gemm_where_nothing_is_reduced() -> None:
    assert "rows_0" not in load(gemm()).text
