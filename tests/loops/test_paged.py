"""Attention whose keys lie in pages of a cache, which a table lists: decoding, and blocks of several waves."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hurting import CASES, assert_near, hurting
from hurting import attended as near
from torch.nn.functional import scaled_dot_product_attention

import tkgen
from tkgen import operator
from tkgen.diagnostics import SpecError
from tkgen.execute.cases import unmet
from tkgen.execute.launch import emulate as emulate_kernel
from tkgen.execute.launch import trials
from tkgen.ir.meaning import evaluate, evaluate_all
from tkgen.loops import LoopSpec
from tkgen.rows import RowBuild
from tkgen.rows.launch import row_launch
from tkgen.rows.run import run_rows
from tkgen.sequence import SequenceBuild, SequenceSpec
from tkgen.sequence.launch import sequence_launch
from tkgen.sequence.program import meaning_of
from tkgen.sequence.run import emulate, run_sequence

ROOT = Path(__file__).parents[2]
SPEC = ROOT / "specs/attention/attention_paged.tk"
D = 64
TEXT = SPEC.read_text(encoding="utf-8").replace("0.12751743", f"{math.log2(math.e) / math.sqrt(D)}")
SMALL = {"BATCH": 4, "HEADS": 8, "KV_HEADS": 2, "KEYS": 200, "D": D, "PARTS": 2, "CACHED": 18}
# Queries of four waves, all of which multiply by the same pages.
PREFILL = """kernel prefill
  dims BATCH = 2, LENGTH = 70, KEYS = 150, D = 64, PAGE = 64, CACHED = 7, LISTED = ceil_div(KEYS, PAGE)
  global PAGES : i32[BATCH, LISTED]
  global Q : bf16[BATCH, LENGTH, D]
  global K : bf16[CACHED, PAGE, D]
  global V : bf16[CACHED, PAGE, D]
  global O : bf16[BATCH, LENGTH, D]
  over b in BATCH, q in LENGTH by 64
  waves 4 along q
  shared K, V buffers 3
  registers Q
  carry m : f32[q] = -inf, l : f32[q] = 0, o : f32[q, D] = 0
  each j in KEYS by 32
    x = 0.18033688 * Q[b, q] @ K[PAGES[b, j / PAGE], j % PAGE].T
    n = max(m, rowmax(x))
    p = exp2(x - n)
    r = exp2(m - n)
    l = l * r + rowsum(p)
    o = o * r + bf16(p) @ V[PAGES[b, j / PAGE], j % PAGE]
    m = n
  O[b, q] = o / l
"""

SUM = """kernel sums
  dims M = 128, N = 64, KEYS = 128, PAGE = 64, CACHED = 7, LISTED = 2
  global PAGES : i32[LISTED]
  global A : bf16[M, KEYS]
  global K : bf16[CACHED, PAGE, N]
  global C : f32[M, N]
  over m in M by 64, n in N by 64
  waves 2 x 2
  shared A, K
  each j in KEYS by 32
    c = c + A[m, j] @ K[PAGES[j / PAGE], j % PAGE, n]
  C[m, n] = c
"""


def slowly(*parameters: Any) -> list[Any]:
    return [pytest.param(p, marks=pytest.mark.slow) for p in parameters]


@cache
def built(target: str, **sizes: int) -> SequenceBuild:
    """Compiled, watched, without spills."""
    spec = tkgen.load(TEXT, SMALL | sizes, target=target)
    assert isinstance(spec, SequenceSpec)
    build = spec.build().check()
    assert all(k.machine_check.outcome == "right" and k.resources.clean for k in build.kernels)
    return build


def attended(build: SequenceBuild, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """What is stored; nothing was found."""
    scalars = {s.name: s.default or 0.0 for s in build.spec.program.scalars}
    found, outcomes = emulate(build, sequence_launch(build.spec), inputs, scalars)
    assert not any(outcome.findings for outcome in outcomes)
    return found["O"]


def inputs(lengths: list[int], pages: torch.Tensor | None = None, page: int = 64) -> dict[str, torch.Tensor]:
    """Queries, a cache, and a table in which no two sequences share a page, unless one is given."""
    generator = torch.Generator().manual_seed(sum(lengths))
    listed = -(-SMALL["KEYS"] // page)
    own = torch.randperm(SMALL["CACHED"], generator=generator)[: len(lengths) * listed].reshape(len(lengths), listed)
    cache = [torch.randn(SMALL["CACHED"], page, 2, D, generator=generator).bfloat16() for _ in range(2)]
    return {
        "PAGES": (own if pages is None else pages).int(),
        "LENGTH": torch.tensor(lengths, dtype=torch.int32),
        "Q": torch.randn(len(lengths), 8, D, generator=generator).bfloat16(),
        "K": cache[0],
        "V": cache[1],
    }


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_source_figures_and_machine_code(target: str) -> None:
    spec = tkgen.load(SPEC, target=target)
    assert isinstance(spec, SequenceSpec) and not spec.diagnostics
    build = spec.build().check()
    assert all(k.machine_check.outcome == "right" and k.resources.clean for k in build.kernels) and not unmet(build)
    if target == "gfx942":
        golden = ROOT / "generated" / target / "attention_paged.cpp"
        assert golden.read_text(encoding="utf-8") == spec.source.text
        parts = build.kernels[0]
        assert isinstance(parts, RowBuild) and not run_rows(parts, blocks=[0, 700]).failure


@pytest.mark.parametrize(("target", "orders"), [("gfx942", 2), ("gfx950", 2)])
def test_tables_and_lengths_of_any_kind(target: str, orders: int) -> None:
    for seed, (order, kind) in enumerate(trials(orders)):
        assert not run_sequence(built(target), seed=seed, kind=kind, order=order).failure


@pytest.mark.slow
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_numbers_are_right_in_twenty_interleavings(target: str) -> None:
    test_tables_and_lengths_of_any_kind(target, 20)


@pytest.mark.parametrize("sizes", [{"KEYS": 32, "PARTS": 1}, *slowly({"PAGE": 32}, {"PAGE": 128}, {"KV_HEADS": 8})])
def test_other_pages_and_one_pass(sizes: dict[str, int]) -> None:
    build = built("gfx942", **sizes)
    for seed, (order, kind) in enumerate(trials(2)):
        assert not run_sequence(build, seed=seed, kind=kind, order=order).failure


@pytest.mark.parametrize(("length", "target"), [(1, "gfx942"), (63, "gfx950"), (65, "gfx942"), (127, "gfx950")])
def test_errors_are_within_twice_those_of_torch(length: int, target: str) -> None:
    """Inputs that hurt, on pages in any order; what is listed behind a sequence's keys has no part in the result."""
    used = -(-length // 64)
    for case in CASES if length in (1, 63, 65) else CASES[:1]:
        q, k, v = hurting(case, (4, 8, 1, D), (4, 2, length, D))
        given = inputs([length, length, 0, length]) | {"Q": q[:, :, 0].contiguous()}
        for entry, behind in enumerate((-1, 1 << 30, -(1 << 31), 18)):
            given["PAGES"][entry, used:] = behind
        for name, rows in (("K", k), ("V", v)):
            padded = torch.zeros(4, used * 64, 2, D, dtype=torch.bfloat16)
            padded[:, :length] = rows.transpose(1, 2)
            given[name][given["PAGES"][:, :used].long()] = padded.unflatten(1, (used, 64))
        found = attended(built(target), given)
        assert not found[2].any(), case
        meant, theirs = near(q, k, v, exact=True), near(q, k, v)
        for n in (0, 1, 3):
            assert_near(found[n], meant[n], theirs[n], (case, n))


def test_a_table_that_lies_reads_zeros_and_nothing_outside() -> None:
    """The referee sees each access to memory; NaN around the cache would be seen in the numbers."""
    lying = torch.tensor([[-1, 18, 3, 2], [1 << 30, -(1 << 31), 0, 17], [5, 5, 5, 5], [2**31 - 1, -5, 19, 4]])
    given = inputs([200, 200, 130, 64], lying)
    build = built("gfx942")
    found = attended(build, given)
    scalars = {s.name: s.default or 0.0 for s in build.spec.program.scalars}
    meant = evaluate_all([meaning_of(p) for p in build.spec.program.kernels], given, scalars)["O"]
    assert ((found.double() - meant.value).abs() <= meant.bound + meant.value.abs() / 128).all()
    assert not found[3].any()  # its one page is none, and so are its values


def test_an_operator_looks_at_the_table() -> None:
    decode = operator(built("gfx942"))
    given = inputs([200, 0, 130, 64])
    given["PAGES"][1] = -1
    found = decode(*(given[t.name] for t in built("gfx942").spec.program.reads))
    assert found.isfinite().all() and not found[1].any()
    for lie in (18, -2, 1 << 30):
        given["PAGES"][2, 3] = lie
        with pytest.raises(ValueError, match=rf"PAGES\[2, 3\] is {lie}, and pages are 0 to 17, or -1 for none"):
            decode(*(given[t.name] for t in built("gfx942").spec.program.reads))


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_all_waves_of_a_block_multiply_by_one_page(target: str) -> None:
    spec = tkgen.load(PREFILL, target=target)
    assert isinstance(spec, LoopSpec)
    build = spec.build().check()
    for seed, (order, kind) in enumerate(trials(2)):
        assert not run_rows(build, seed=seed, kind=kind, order=order).failure
    assert not run_rows(build, blocks=[1, 3]).failure


def test_pages_mean_what_indexing_by_them_gives() -> None:
    spec = tkgen.load(PREFILL)
    assert isinstance(spec, LoopSpec)
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 70, 64), torch.randn(7, 64, 64), torch.randn(7, 64, 64)
    pages = torch.tensor([[6, 0, 3], [1, 1, 5]], dtype=torch.int32)
    given = {"PAGES": pages, "Q": q.bfloat16(), "K": k.bfloat16(), "V": v.bfloat16()}
    laid_k, laid_v = (given[n][pages.long()].flatten(1, 2)[:, :150].double() for n in "KV")
    expected = scaled_dot_product_attention(given["Q"].double(), laid_k, laid_v)
    torch.testing.assert_close(evaluate(spec.program.kernel, given)["O"].value, expected, rtol=2e-2, atol=2e-2)
    stored, outcome = emulate_kernel(spec.build(), row_launch(spec.program, spec.layout), given, {})
    assert not outcome.findings
    torch.testing.assert_close(stored["O"].double(), expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        ("K[PAGES[b, j / PAGE], j % PAGE]", "K[PAGES[b, j / PAGE], j]", "E233",
         "`j` is not the place in a page of 64"),
        ("K[PAGES[b, j / PAGE], j % PAGE]", "K[PAGES[b, j / PAGE], j % 32]", "E233",
         "`j % 32` is not the place in a page of 64"),
        ("j in KEYS by 32", "j in KEYS by 48", "E233", "`PAGES[b, j / PAGE]` is no page for each tile of `j`"),
        ("K[PAGES[b, j / PAGE]", "K[PAGES[j / PAGE]", "E233", "`PAGES[j / PAGE]` is no page for each tile of `j`"),
        ("K[PAGES[b, j / PAGE]", "K[PAGES[q, j / PAGE]", "E223", None),
        ("LISTED = ceil_div(KEYS, PAGE)", "LISTED = KEYS / PAGE - 1", "E203", None),
        ("LISTED = ceil_div(KEYS, PAGE)", "LISTED = 2", "E233", "`PAGES` has no page for each 64 places of `j`"),
        ("KEYS = 150", "KEYS = dynamic", "E203", None),
        ("PAGES : i32", "PAGES : f32", "E233", "`PAGES` holds f32, and places are i32"),
        ("K : bf16[CACHED, PAGE, D]", "K : bf16[PAGE, CACHED, D]", "E233",
         "`j % PAGE` is not the place in a page of 64"),
        ("buffers 3", "buffers 2 via direct", "E230",
         "loads from global memory to LDS move 4 bytes a lane on gfx942, tiles lie in chunks of 16"),
    ],
)  # fmt: skip
def test_what_people_get_wrong(old: str, new: str, code: str, message: str | None) -> None:
    assert old in PREFILL
    with pytest.raises(SpecError) as caught:
        tkgen.load(PREFILL.replace(old, new)).check()
    first = caught.value.diagnostics[0]
    assert first.code == code and message in (None, first.message)


def test_direct_loads_and_other_kernels_do_not_read_pages() -> None:
    for text, target, message in (
        (PREFILL.replace("buffers 3", "buffers 2 via direct"), "gfx950",
         "`K` lies in pages, which direct loads cannot count"),
        (SUM, "gfx942", "`K` lies in pages, which loops of products of products alone read"),
    ):  # fmt: skip
        with pytest.raises(SpecError) as caught:
            tkgen.load(text, target=target).check()
        assert message in [d.message for d in caught.value.diagnostics]
