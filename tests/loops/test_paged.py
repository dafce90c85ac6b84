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
from tkgen.backends.cdna.spec import Spec
from tkgen.build import Build
from tkgen.diagnostics import SpecError
from tkgen.execute.cases import unmet
from tkgen.execute.launch import emulate as emulate_kernel
from tkgen.execute.launch import emulate_all, run, trials
from tkgen.ir.meaning import evaluate, evaluate_all
from tkgen.predict import predict
from tkgen.sequence import SequenceBuild, SequenceSpec
from tkgen.sequence.program import meaning_of

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

# Keys of each sequence in rows of its own, padded to KEYS: as `below` in tensors without pages.
PADDED = (
    PREFILL.replace("PAGES : i32[BATCH, LISTED]", "LENGTH_K : i32[BATCH]")
    .replace("bf16[CACHED, PAGE, D]", "bf16[BATCH, KEYS, D]")
    .replace("[PAGES[b, j / PAGE], j % PAGE]", "[b, j]")
    .replace("each j in KEYS", "each j in KEYS below LENGTH_K[b]")
    .replace("    p = exp2(x - n)\n", "    z = where(n > -inf, n, 0)\n    p = exp2(x - z)\n")
    .replace("exp2(m - n)", "exp2(m - z)")
    .replace("= o / l", "= where(l > 0, o / l, 0)")
)
# Packed queries, causal by their ends, and keys in pages: what a server runs that takes prompts in pieces.
CHUNKS = (
    PREFILL.replace("dims BATCH = 2,", "dims BATCH = 3, OFFSETS = BATCH + 1,")
    .replace("  global PAGES", "  global FIRST : i32[OFFSETS]\n  global LENGTH_K : i32[BATCH]\n  global PAGES")
    .replace("Q : bf16[BATCH, LENGTH", "Q : bf16[LENGTH")
    .replace("O : bf16[BATCH, LENGTH", "O : bf16[LENGTH")
    .replace("[b, q]", "[q]")
    .replace("q in LENGTH by", "q in LENGTH within FIRST[b] by")
    .replace("each j in KEYS", "each j in KEYS below LENGTH_K[b]")
    .replace("    p = exp2(x - n)\n", "    z = where(n > -inf, n, 0)\n    p = exp2(x - z)\n")
    .replace("exp2(m - n)", "exp2(m - z)")
    .replace("= o / l", "= where(l > 0, o / l, 0)")
)

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

LIMITED = (
    SUM.replace("PAGES : i32[LISTED]", "N : i32[BATCH]")
    .replace("LISTED = 2", "BATCH = 2")
    .replace("[CACHED, PAGE, N]", "[KEYS, COLS]")
    .replace("N = 64", "COLS = 64")
    .replace("[M, N]", "[BATCH, M, COLS]")
    .replace("over m in M by 64, n in N", "over b in BATCH, m in M by 64, n in COLS")
    .replace("each j in KEYS", "each j in KEYS below N[b]")
    .replace("K[PAGES[j / PAGE], j % PAGE, n]", "K[j, n]")
    .replace("C[m, n]", "C[b, m, n]")
)


def slowly(*parameters: Any) -> list[Any]:
    return [pytest.param(*(p if isinstance(p, tuple) else (p,)), marks=pytest.mark.slow) for p in parameters]


@cache
def built(target: str, **sizes: int) -> SequenceBuild:
    """Compiled, watched, without spills."""
    spec = tkgen.load(TEXT, SMALL | sizes, target=target)
    assert isinstance(spec, SequenceSpec)
    build = spec.build().check()
    assert all(k.machine_check.outcome == "right" and k.resources.clean for k in build.kernels)
    return build


def attended(build: SequenceBuild, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """The stores of the machine code; no findings."""
    scalars = {s.name: s.default or 0.0 for s in build.spec.program.scalars}
    found, outcomes = emulate_all(build, build.spec.launch(), inputs, scalars)
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
        assert isinstance(parts, Build) and not run(parts, blocks=[0, 700]).failure


@pytest.mark.parametrize(("target", "orders"), [("gfx942", 2), ("gfx950", 2)])
def test_tables_and_lengths_of_any_kind(target: str, orders: int) -> None:
    for seed, (order, kind) in enumerate(trials(orders)):
        assert not run(built(target), seed=seed, kind=kind, order=order).failure


@pytest.mark.slow
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_numbers_are_right_in_twenty_interleavings(target: str) -> None:
    test_tables_and_lengths_of_any_kind(target, 20)


@pytest.mark.parametrize("sizes", [{"KEYS": 32, "PARTS": 1}, *slowly({"PAGE": 32}, {"PAGE": 128}, {"KV_HEADS": 8})])
def test_other_pages_and_one_pass(sizes: dict[str, int]) -> None:
    build = built("gfx942", **sizes)
    for seed, (order, kind) in enumerate(trials(2)):
        assert not run(build, seed=seed, kind=kind, order=order).failure


@pytest.mark.parametrize(("length", "target"), [(1, "gfx942"), (63, "gfx950"), (65, "gfx942"), (127, "gfx950")])
def test_errors_are_within_twice_those_of_torch(length: int, target: str) -> None:
    """Inputs that hurt, on pages in any order; what is listed after a sequence's keys has no part in the result."""
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


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_what_stands_behind_a_length_has_no_part_in_the_result(target: str) -> None:
    """NaN in the unused part of a page, in unused pages, in pages of nobody; the lengths of four sequences end in a
    tile, with a tile, in the first part and nowhere."""
    lengths = [33, 128, 5, 0]
    given = inputs(lengths)
    clean = attended(built(target), given)
    for name in ("K", "V"):
        used = torch.zeros(given[name].shape[:2], dtype=torch.bool)
        for row, length in enumerate(lengths):
            for place in range(length):
                used[given["PAGES"][row, place // 64], place % 64] = True
        given[name] = torch.where(used[..., None, None], given[name], torch.nan)
    found = attended(built(target), given)
    assert found.isfinite().all() and torch.equal(found, clean)
    q, (k, v) = (
        given["Q"][:, :, None].double(),
        (torch.nan_to_num(given[name])[given["PAGES"].long()].flatten(1, 2).transpose(1, 2).double() for name in "KV"),
    )
    for row, length in enumerate(lengths[:3]):
        exact = scaled_dot_product_attention(q[row], k[row, :, :length], v[row, :, :length], enable_gqa=True)
        torch.testing.assert_close(found[row].double(), exact[:, 0], rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("lie", [-1, -(1 << 31), 201, 256, 257, 2**31 - 1])
def test_a_length_that_lies_touches_nothing_outside(lie: int) -> None:
    """It is none or all of KEYS: the referee sees each access, and the numbers what was computed."""
    given = inputs([lie, 70, 0, lie])
    found, whole = (attended(built("gfx942"), given | {"LENGTH": torch.tensor(n, dtype=torch.int32)})
                    for n in ([lie, 70, 0, lie], [max(min(lie, 200), 0), 70, 0, max(min(lie, 200), 0)]))  # fmt: skip
    assert torch.equal(found, whole) and found[1].any() and bool(found[0].any()) == (lie > 0)


def test_tiles_behind_a_length_are_not_visited() -> None:
    """A block's instructions grow with the length of its sequence alone."""
    build, counts = built("gfx942", PARTS=1).kernels[0], []
    assert isinstance(build, Build)
    launch = build.spec.launch()
    for length in (32, 64, 200):
        outcome = emulate_kernel(build, launch, {**inputs([length] * 4)}, {"scale": 1.0})[1]
        counts.append(outcome.instructions)
    one, two, seven = counts
    assert seven - two == pytest.approx(5 * (two - one), rel=0.1)  # passes: 1, 2, 7


@pytest.mark.parametrize(
    ("text", "target"),
    [(CHUNKS, "gfx950"), *slowly((PADDED, "gfx942"), (PADDED, "gfx950"), (CHUNKS, "gfx942"))],
)
def test_lengths_of_keys_without_pages_and_beside_packed_queries(text: str, target: str) -> None:
    spec = tkgen.load(text, target=target)
    assert isinstance(spec, Spec)
    build = spec.build().check()
    assert build.machine_check.outcome == "right"
    for seed, (order, kind) in enumerate(trials(2)):
        assert not run(build, seed=seed, kind=kind, order=order).failure
    assert not run(build, blocks=[0, 1]).failure


def test_lengths_of_keys_that_go_to_lds_directly() -> None:
    spec = tkgen.load(PADDED.replace("buffers 3", "buffers 2 via direct"), target="gfx950")
    assert isinstance(spec, Spec)
    build = spec.build().check()
    for seed, (order, kind) in enumerate(trials(2)):
        assert not run(build, seed=seed, kind=kind, order=order).failure


@pytest.mark.slow
def test_a_mask_by_a_number_of_a_tensor_is_another_way_to_say_it() -> None:
    """All tiles are visited then, and what is masked must be numbers."""
    text = TEXT.replace("below LENGTH[b] ", "").replace(
        "    n = max(m", "    x = where(j < LENGTH[b], x, -inf)\n    n = max(m"
    )
    spec = tkgen.load(text, SMALL)
    assert isinstance(spec, SequenceSpec)
    given = inputs([130, 200, 1, 0])
    found, masked = attended(built("gfx942"), given), attended(spec.build().check(), given)
    torch.testing.assert_close(found, masked, rtol=2e-2, atol=4e-3)  # parts are others, and so is what is rounded


def test_an_operator_looks_at_the_lengths() -> None:
    decode = operator(built("gfx942"))
    given = inputs([200, 0, 130, 64])
    for lie in (-1, 201):
        given["LENGTH"][2] = lie
        with pytest.raises(ValueError, match=rf"LENGTH\[2\] is {lie}, which is not in 0..200"):
            decode(*(given[t.name] for t in built("gfx942").spec.program.reads))


def test_a_prediction_counts_the_passes_of_a_part() -> None:
    """Of 200 keys in tiles of 32 one of two parts has four, the other three; not all seven each."""
    found = predict(built("gfx942").kernels[0])  # type: ignore[arg-type]
    assert (found.loop.count if found.loop else 0, found.blocks) == (3.5, 4 * 2 * 2)


def test_the_host_can_ask_for_true_lengths() -> None:
    text = tkgen.load(PADDED).text
    assert 'look_between("LENGTH_K", g.LENGTH_K_.raw_ptr, int64_t(1) * DIM_BATCH, 0, DIM_KEYS);' in text


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
    assert isinstance(spec, Spec)
    build = spec.build().check()
    for seed, (order, kind) in enumerate(trials(2)):
        assert not run(build, seed=seed, kind=kind, order=order).failure
    assert not run(build, blocks=[1, 3]).failure


def test_pages_mean_what_indexing_by_them_gives() -> None:
    spec = tkgen.load(PREFILL)
    assert isinstance(spec, Spec)
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 70, 64), torch.randn(7, 64, 64), torch.randn(7, 64, 64)
    pages = torch.tensor([[6, 0, 3], [1, 1, 5]], dtype=torch.int32)
    given = {"PAGES": pages, "Q": q.bfloat16(), "K": k.bfloat16(), "V": v.bfloat16()}
    laid_k, laid_v = (given[n][pages.long()].flatten(1, 2)[:, :150].double() for n in "KV")
    expected = scaled_dot_product_attention(given["Q"].double(), laid_k, laid_v)
    torch.testing.assert_close(evaluate(spec.program.kernel, given)["O"].value, expected, rtol=2e-2, atol=2e-2)
    stored, outcome = emulate_kernel(spec.build(), spec.launch(), given, {})
    assert not outcome.findings
    torch.testing.assert_close(stored["O"].double(), expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        ("K[PAGES[b, j / PAGE], j % PAGE]", "K[PAGES[b, j / PAGE], j]", "E233",
         "`j` is not the position in a page of 64"),
        ("K[PAGES[b, j / PAGE], j % PAGE]", "K[PAGES[b, j / PAGE], j % 32]", "E233",
         "`j % 32` is not the position in a page of 64"),
        ("j in KEYS by 32", "j in KEYS by 48", "E233", "`PAGES[b, j / PAGE]` does not have one page for each tile of "
                                                       "`j`"),
        ("K[PAGES[b, j / PAGE]", "K[PAGES[j / PAGE]", "E233", "`PAGES[j / PAGE]` does not have one page for each "
                                                              "tile of `j`"),
        ("K[PAGES[b, j / PAGE]", "K[PAGES[q, j / PAGE]", "E223", None),
        ("LISTED = ceil_div(KEYS, PAGE)", "LISTED = KEYS / PAGE - 1", "E203", None),
        ("LISTED = ceil_div(KEYS, PAGE)", "LISTED = 2", "E233", "`PAGES` does not have one page for each 64 "
                                                                "positions of `j`"),
        ("KEYS = 150", "KEYS = dynamic", "E203", None),
        ("PAGES : i32", "PAGES : f32", "E233", "`PAGES` holds f32, but positions are i32"),
        ("K : bf16[CACHED, PAGE, D]", "K : bf16[PAGE, CACHED, D]", "E233",
         "`j % PAGE` is not the position in a page of 64"),
        ("each j in KEYS", "each j in KEYS below PAGES[b]", "E232", "`PAGES` holds no lengths"),
        ("each j in KEYS", "each j in KEYS below OTHER[b]", "E200", "`OTHER` is not a global tensor"),
        ("each j in KEYS", "each j in KEYS below PAGES[q]", "E223", "`below PAGES[q]` does not name an index of "
                                                                    "`over`"),
        ("  global PAGES", "  global N : i32[LISTED]\n  global PAGES", "E232",
         "`N` has a length for each position of `LISTED`, and `b` runs over `BATCH`"),
        ("q in LENGTH by 64", "q in LENGTH below N[b] by 64", "E101", None),
        ("buffers 3", "buffers 2 via direct", "E230",
         "loads from global memory to LDS move 4 bytes per lane on gfx942, but tiles are made of chunks of 16"),
    ],
)  # fmt: skip
def test_what_people_get_wrong(old: str, new: str, code: str, message: str | None) -> None:
    assert old in PREFILL
    text = PREFILL.replace(old, new)
    with pytest.raises(SpecError) as caught:
        tkgen.load(text.replace("in KEYS by", "in KEYS below N[b] by") if "global N" in new else text).check()
    first = caught.value.diagnostics[0]
    assert first.code == code and message in (None, first.message)


def test_direct_loads_and_other_kernels_do_not_read_pages() -> None:
    for text, target, message in (
        (PREFILL.replace("buffers 3", "buffers 2 via direct"), "gfx950",
         "`K` is paged, which direct loads cannot address"),
        (SUM, "gfx942", "`K` is paged, which only fused matmuls can read"),
        (LIMITED, "gfx942", "sums of products are over all of `KEYS`, or over its groups, not over its first "
                            "positions"),
    ):  # fmt: skip
        with pytest.raises(SpecError) as caught:
            tkgen.load(text, target=target).check()
        assert message in [d.message for d in caught.value.diagnostics]
