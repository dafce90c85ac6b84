"""Attention whose queries are the last of their sequences: queries and keys differ in number, and end together."""

from __future__ import annotations

import math
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hurting import CASES, assert_near, hurting
from hurting import attended as near
from test_paged import CHUNKS

import tkgen
from tkgen import operator
from tkgen.backends.cdna.spec import Spec
from tkgen.backends.registry import backend_of
from tkgen.build import Build
from tkgen.diagnostics import SpecError
from tkgen.execute.launch import computed, emulate, run, trials
from tkgen.execute.modelled import in_order
from tkgen.ir.meaning import evaluate
from tkgen.ir.segments import segments

SPEC = Path(__file__).parents[2] / "specs/attention/attention_chunks.tk"
D, ROWS = 64, "TOTAL = 300, KEYS = 420"
SIZES = "SEQUENCES = 16, OFFSETS = SEQUENCES + 1, TOTAL = 4096, KEYS = 16384, HEADS = 16, KV_HEADS = 4, D = 128"
SMALL = (
    SPEC.read_text(encoding="utf-8")
    .replace(
        SIZES, f"SEQUENCES = 5, OFFSETS = SEQUENCES + 1, TOTAL = 300, KEYS = 420, HEADS = 2, KV_HEADS = 1, D = {D}"
    )
    .replace("0.12751743", f"{math.log2(math.e) / math.sqrt(D)}")
)
# Queries and keys of each sequence: as many, more keys, one query, more queries than keys, no queries or no keys.
PAIRS = [
    ([64, 65, 1, 100, 70], [64, 200, 63, 30, 63]),
    ([0, 128, 0, 150, 22], [100, 0, 0, 193, 127]),
]
# The gradients of keys and values: a block of keys begins with the first query that sees one of them.
GRADIENTS = """kernel keys
  dims SEQUENCES = 4, OFFSETS = SEQUENCES + 1, TOTAL = 320, KEYS = 420, HEADS = 2, D = 64
  global FIRST : i32[OFFSETS]
  global FIRST_K : i32[OFFSETS]
  global Q : bf16[HEADS, TOTAL, D]
  global K : bf16[HEADS, KEYS, D]
  global V : bf16[HEADS, KEYS, D]
  global GO : bf16[HEADS, TOTAL, D]
  global LSE2 : f32[HEADS, TOTAL]
  global DELTA : f32[HEADS, TOTAL]
  global GK : f32[HEADS, KEYS, D]
  global GV : f32[HEADS, KEYS, D]
  over h in HEADS, s in SEQUENCES, j in KEYS within FIRST_K[s] by 128
  waves 4 along j
  shared Q, GO, LSE2, DELTA buffers 2
  registers K, V
  each q in TOTAL within FIRST[s] by 32 from j + length(q) - length(j)
    x = 0.18 * Q[h, q] @ K[h, j].T
    p = exp2(where(q + length(j) - length(q) >= j, x, -inf) - LSE2[h, q])
    gv = gv + bf16(p).T @ GO[h, q]
    gp = GO[h, q] @ V[h, j].T
    gx = p * (gp - DELTA[h, q])
    gk = gk + bf16(gx).T @ Q[h, q]
  GK[h, j] = 0.125 * gk
  GV[h, j] = gv
"""
# As many queries in each of a batch, and keys, of a number that only run time knows.
DYNAMIC = (
    SMALL.replace(
        f"TOTAL = 300, KEYS = 420, HEADS = 2, KV_HEADS = 1, D = {D}", f"TOTAL = dynamic, KEYS = dynamic, D = {D}"
    )
    .replace("  param GROUP = HEADS / KV_HEADS\n", "")
    .replace("  global FIRST : i32[OFFSETS]\n  global FIRST_K : i32[OFFSETS]\n", "")
    .replace("over h in HEADS, s in SEQUENCES, ", "over s in SEQUENCES, ")
    .replace("TOTAL, HEADS, D", "SEQUENCES, TOTAL, D")
    .replace("KEYS, KV_HEADS, D", "SEQUENCES, KEYS, D")
    .replace("[HEADS, TOTAL]", "[SEQUENCES, TOTAL]")
    .replace("[q, h]", "[s, q]")
    .replace("[j, h / GROUP]", "[s, j]")
    .replace("[h, q]", "[s, q]")
    .replace(" within FIRST[s]", "")
    .replace(" within FIRST_K[s]", "")
)
ENDS = "to q + length(j) - length(q)"
PAGED = CHUNKS.replace("in KEYS below LENGTH_K[b] by 32", f"in KEYS below LENGTH_K[b] by 32 {ENDS}").replace(
    "    n = max(m", "    x = where(q + length(j) - length(q) >= j, x, -inf)\n    n = max(m"
)
WINDOW = SMALL.replace(ENDS, f"from q + length(j) - 39 - length(q) {ENDS}").replace(
    "length(q) >= j, x", "length(q) >= j and q + length(j) - length(q) - j < 40, x"
)


def slowly(*parameters: Any) -> list[Any]:
    return [pytest.param(*(p if isinstance(p, tuple) else (p,)), marks=pytest.mark.slow) for p in parameters]


@cache
def built(text: str, target: str = "gfx942") -> Build:
    """Compiled, watched, without spills."""
    spec = tkgen.load(text, target=target)
    assert isinstance(spec, Spec)
    build = spec.build().check()
    assert build.machine_check.outcome == "right" and build.resources.clean
    return build


def right(build: Build, orders: int, **extents: int) -> None:
    for seed, (order, kind) in enumerate(trials(orders)):
        found = run(build, seed=seed, kind=kind, order=order, extents=extents)
        assert not found.failure, (seed, extents, found.failure)


def attended(build: Build, **inputs: torch.Tensor) -> dict[str, torch.Tensor]:
    """The stores of the machine code; no findings."""
    program = build.spec.program
    scalars = {s.name: s.default or 0.0 for s in program.scalars}
    outputs, outcome = emulate(build, build.spec.launch(), inputs, scalars)
    assert not outcome.findings
    return outputs


def starts(lengths: list[int]) -> list[int]:
    return [sum(lengths[:n]) for n in range(len(lengths) + 1)]


def offsets(queries: list[int], keys: list[int]) -> dict[str, torch.Tensor]:
    return {"FIRST": torch.tensor(queries, dtype=torch.int32), "FIRST_K": torch.tensor(keys, dtype=torch.int32)}


VARIANTS = {
    "causal": (SMALL, "gfx942"),
    "direct": (SMALL.replace("buffers 2", "buffers 2 via direct"), "gfx950"),
    "window": (WINDOW, "gfx942"),
    "interleave": (SMALL.replace("  registers Q", "  schedule interleave\n  registers Q"), "gfx950"),
    "pages": (PAGED, "gfx942"),
    "gradients": (GRADIENTS, "gfx942"),
}
SOME = [VARIANTS["causal"], VARIANTS["pages"], *slowly(*list(VARIANTS.values())[1:4], VARIANTS["gradients"])]


@pytest.mark.parametrize(("text", "target"), SOME)
def test_sequences_of_any_length(text: str, target: str) -> None:
    right(built(text, target), 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_numbers_are_right_in_twenty_interleavings(name: str) -> None:
    right(built(*VARIANTS[name]), 20)


def test_source_and_blocks_of_the_shipped_kernel() -> None:
    spec = tkgen.load(SPEC)
    assert isinstance(spec, Spec) and not spec.diagnostics
    golden = SPEC.parents[2] / "generated/gfx942/attention_chunks.cpp"
    assert golden.read_text(encoding="utf-8") == spec.source.text
    launch = spec.launch()
    build = spec.build().check()
    assert build.machine_check.outcome == "right" and build.resources.clean
    assert not run(build, blocks=[3, launch.blocks - 1]).failure


@pytest.mark.parametrize(("pair", "target"), [(0, "gfx942"), *slowly((1, "gfx942"), (0, "gfx950"), (1, "gfx950"))])
def test_the_last_query_sees_all_keys_of_its_sequence(pair: int, target: str) -> None:
    """Within twice the error of torch's attention, inputs that hurt among them; a row that sees no key is zero."""
    queries, keys = PAIRS[pair]
    first, first_k, build = starts(queries), starts(keys), built(SMALL, target)
    for case in CASES:
        given = {n: torch.zeros(rows, heads, D, dtype=torch.bfloat16)
                 for n, rows, heads in (("Q", 300, 2), ("K", 420, 1), ("V", 420, 1))}  # fmt: skip
        parts = [hurting(case, (1, 2, max(n, 1), D), (1, 1, max(k, 1), D)) for n, k in zip(queries, keys, strict=True)]
        for s, (q, k, v) in enumerate(parts):
            given["Q"][first[s] : first[s + 1]] = q[0, :, : queries[s]].transpose(0, 1)
            for name, rows in (("K", k), ("V", v)):
                given[name][first_k[s] : first_k[s + 1]] = rows[0, :, : keys[s]].transpose(0, 1)
        found = attended(build, **offsets(first, first_k), **given)
        for s, (q, k, v) in enumerate(parts):
            count, all_keys = queries[s], keys[s]
            rows, sums = found["O"][first[s] : first[s + 1]].transpose(0, 1), found["LSE2"][:, first[s] : first[s + 1]]
            blind = max(count - all_keys, 0)  # queries before the first key
            assert not rows[:, :blind].any() and sums[:, :blind].isneginf().all(), (case, s)
            if blind == count:
                continue
            seen = torch.ones(count - blind, all_keys).tril(all_keys - (count - blind)).bool()
            meant, theirs = (near(q[:, :, blind:], k, v, seen, exact=exact) for exact in (True, False))
            assert_near(rows[:, blind:], meant[0], theirs[0], (case, s))


LYING = [
    ([99, 3, 2, 1, 0, -1], [0, 2**31 - 1, -(2**31), 5, 6, 7]),
    ([0, 150, 60, 90, 299, 300], [-7, 30, 500, 600, 70, 420]),
    ([0, 2**31 - 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 2**31 - 1]),
    ([-(2**31), 300, 300, 300, 300, 300], [420, 0, 0, 0, 0, -(2**31)]),
]


@pytest.mark.parametrize("lie", [LYING[0], *slowly(*((lie,) for lie in LYING[1:]))])
def test_whatever_offsets_hold_nothing_outside_is_touched(lie: tuple[list[int], list[int]]) -> None:
    """The referee sees every access; what is stored is what the offsets mean, each row once."""
    build, generator = built(SMALL), torch.Generator().manual_seed(0)
    shapes = {"Q": (300, 2, D), "K": (420, 1, D), "V": (420, 1, D)}
    inputs = {n: torch.randn(*shape, generator=generator).bfloat16() for n, shape in shapes.items()} | offsets(*lie)
    found = attended(build, **inputs)
    scalars = {s.name: s.default or 0.0 for s in build.spec.program.scalars}
    meant = evaluate(build.spec.program.kernel, inputs, scalars)["O"]
    inside = torch.zeros(300, dtype=torch.bool)
    for part in segments(lie[0], 300):
        inside[part.start : part.stop] = True
    assert found["O"][~inside].isnan().all()
    assert ((found["O"].double() - meant.value).abs() <= meant.bound + meant.value.abs() / 128)[inside].all()


def test_the_operator_looks_at_both() -> None:
    attend = operator(built(SMALL.replace("kernel attention_chunks", "kernel chunks_operator")))
    rows = [torch.randn(n, heads, D).bfloat16() for n, heads in ((300, 2), (420, 1), (420, 1))]
    for lie, message in (
        (([99, 3, 2, 1, 0, -1], [0] * 6), r"FIRST\[1\] is 3, less than the 99"),
        (([0] * 6, [0, 1, 2, 3, 4, 421]), r"FIRST_K\[5\] is 421, which is not in 0..420"),
    ):
        with pytest.raises(ValueError, match=message):
            attend(*offsets(*lie).values(), *rows)


@pytest.mark.parametrize("sizes", [{"TOTAL": 70, "KEYS": 131}, *slowly({"TOTAL": 131, "KEYS": 70})])
def test_lengths_that_only_run_time_knows(sizes: dict[str, int]) -> None:
    right(built(DYNAMIC), 2, **sizes)


def test_known_lengths_are_a_number() -> None:
    """`length` of what is known is no more than `KEYS - TOTAL`, and of one group nothing."""
    static = DYNAMIC.replace("TOTAL = dynamic, KEYS = dynamic", "TOTAL = 128, KEYS = 192")
    plain = static.replace("length(j)", "KEYS").replace("length(q)", "TOTAL")
    (head,) = {re.search(r"for \(int step.*\{", tkgen.load(text).text)[0] for text in (static, plain)}  # type: ignore[index]
    assert "(q_0 + 191) / TILE_j + 1" in head
    alike = SMALL.replace("within FIRST_K[s] by 64", "within FIRST[s] by 64").replace("j in KEYS", "j in TOTAL")
    alike = alike.replace("[KEYS,", "[TOTAL,").replace("  global FIRST_K : i32[OFFSETS]\n", "")
    assert "min(steps, (q_0 + 127) / TILE_j + 1)" in tkgen.load(alike).text


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        (ENDS, "to q + length(j)", "E223",
         "`q + length(j)` is moved by a length that is not the difference of the lengths of the two axes"),
        (ENDS, "to q + length(q) - length(j)", "E223",
         "`q + length(q) - length(j)` is moved by a length that is not the difference of the lengths of the two axes"),
        (ENDS, "to q + length(h) - length(q)", "E223", None),
        ("where(q + length(j)", "where(q + length(KEYS)", "E200", "`KEYS` is no axis"),
        ("where(q + length(j)", "where(q + length(j, q)", "E200", "`length` takes 1 argument, not 2"),
    ],
)  # fmt: skip
def test_what_people_get_wrong(old: str, new: str, code: str, message: str | None) -> None:
    assert old in SMALL
    with pytest.raises(SpecError) as caught:
        tkgen.load(SMALL.replace(old, new)).check()
    first = caught.value.diagnostics[0]
    assert first.code == code and message in (None, first.message)


WALK = """kernel rows
  dims R = dynamic, C = dynamic
  global X : f32[R, C]
  global Y : f32[R, C]
  over r in R by 4
  waves 4
  each j in C by 64
    Y[r, j] = X[r, j] * length(r) + length(j)
"""


def test_no_loop_of_rows_nor_product_goes_by_lengths_of_run_time() -> None:
    rows = WALK.replace("C by 64", "C by 64 to r + length(j) - length(r)")
    sums = """kernel sums
  dims M = dynamic, N = 128, K = 128
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  over m in M by 64, n in N by 64
  waves 2 x 2
  shared A, B
  each k in K by 32
    c = c + A[m, k] @ B[n, k].T
  C[m, n] = c * length(m)
"""
    for text in (rows, sums):
        with pytest.raises(SpecError) as caught:
            tkgen.load(text).check()
        assert caught.value.diagnostics[0].code in ("E406", "E230")


@pytest.mark.parametrize("target", ["gfx942", "sm_90a"])
def test_lengths_of_rows_are_numbers(target: str) -> None:
    spec = tkgen.load(WALK, target=target).check()
    backend, launch, x = backend_of(target), spec.launch({"R": 7, "C": 70}), torch.arange(490.0).reshape(7, 70)
    if backend.interpreter is None:
        made = [computed(spec.build(), launch, {"X": x}, {})]
    else:
        runs = [(e, *e.orders(1)) for e in backend.executors.values()]
        made = [in_order(e, spec, launch, {"X": x}, {}, order).outputs for e, order in runs]
    assert all(torch.equal(found["Y"], x * 7 + 70) for found in made)
