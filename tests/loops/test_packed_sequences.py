"""Attention of sequences that lie packed one after the other: any lengths, whatever the offsets hold."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hurting import CASES, assert_near, hurting
from hurting import attended as near
from sampling import sample

import tkgen
from tkgen import operator
from tkgen.backends.cdna.spec import Spec
from tkgen.build import Build
from tkgen.diagnostics import SpecError
from tkgen.execute.launch import emulate, run, trials
from tkgen.ir.meaning import evaluate
from tkgen.ir.segments import segments
from tkgen.machine_check.tile_sorts import launches, sorts_of_groups

SPEC = Path(__file__).parents[2] / "specs/attention/attention_packed.tk"
D = 64
SIZES = "SEQUENCES = 16, OFFSETS = SEQUENCES + 1, TOTAL = 8192, HEADS = 16, KV_HEADS = 4, D = 128"
PACKED = (
    SPEC.read_text(encoding="utf-8")
    .replace(SIZES, f"SEQUENCES = 5, OFFSETS = SEQUENCES + 1, TOTAL = 300, HEADS = 2, KV_HEADS = 1, D = {D}")
    .replace("0.12751743", f"{math.log2(math.e) / math.sqrt(D)}")
)
# Every query sees all keys of its sequence, of which there may be more or fewer than queries, or none.
CROSS = (
    PACKED.replace("TOTAL = 300", "TOTAL = 300, KEYS = 320")
    .replace("  global Q", "  global FIRST_K : i32[OFFSETS]\n  global Q")
    .replace("K : bf16[TOTAL", "K : bf16[KEYS")
    .replace("V : bf16[TOTAL", "V : bf16[KEYS")
    .replace("j in TOTAL within FIRST[s] by 64 to q", "j in KEYS within FIRST_K[s] by 64")
    .replace("    x = where(q >= j, x, -inf)\n", "")
    .replace("= o / l", "= where(l > 0, o / l, 0)")
)
PING_PONG = (
    CROSS.replace("by 128", "by 256")
    .replace("waves 4", "waves 8")
    .replace("  registers Q", "  schedule ping_pong\n  registers Q")
)
# The gradients of keys and values, and of queries, of each sequence by itself.
KEYS = """kernel keys
  dims SEQUENCES = 4, OFFSETS = SEQUENCES + 1, TOTAL = 320, HEADS = 2, D = 64
  global FIRST : i32[OFFSETS]
  global Q : bf16[HEADS, TOTAL, D]
  global K : bf16[HEADS, TOTAL, D]
  global V : bf16[HEADS, TOTAL, D]
  global GO : bf16[HEADS, TOTAL, D]
  global LSE2 : f32[HEADS, TOTAL]
  global DELTA : f32[HEADS, TOTAL]
  global GK : f32[HEADS, TOTAL, D]
  global GV : f32[HEADS, TOTAL, D]
  over h in HEADS, s in SEQUENCES, j in TOTAL within FIRST[s] by 128
  waves 4 along j
  shared Q, GO, LSE2, DELTA buffers 2
  registers K, V
  each q in TOTAL within FIRST[s] by 32 from j
    x = 0.18 * Q[h, q] @ K[h, j].T
    p = exp2(where(q >= j, x, -inf) - LSE2[h, q])
    gv = gv + bf16(p).T @ GO[h, q]
    gp = GO[h, q] @ V[h, j].T
    gx = p * (gp - DELTA[h, q])
    gk = gk + bf16(gx).T @ Q[h, q]
  GK[h, j] = 0.125 * gk
  GV[h, j] = gv
"""
QUERIES = (
    KEYS.split("  waves")[0]
    .replace("  global GV : f32[HEADS, TOTAL, D]\n", "")
    .replace("GK : f32", "GQ : f32")
    .replace("j in TOTAL", "q in TOTAL")
    + """  waves 4 along q
  shared K, V buffers 2
  registers Q, GO
  each j in TOTAL within FIRST[s] by 64 to q
    x = 0.18 * Q[h, q] @ K[h, j].T
    p = exp2(where(q >= j, x, -inf) - LSE2[h, q])
    gp = GO[h, q] @ V[h, j].T
    gx = p * (gp - DELTA[h, q])
    gq = gq + bf16(gx) @ K[h, j]
  GQ[h, q] = 0.125 * gq
"""
)
LENGTHS = [[1, 63, 65, 127, 44], [0, 128, 64, 0, 108], [0, 0, 300, 0, 0], [129, 1, 1, 0, 0]]
LYING = [
    [0, 150, 60, 90, 299, 300],
    [-7, 30, 500, 600, 70, 300],
    [99, 3, 2, 1, 0, -1],
    [0, 2**31 - 1, -(2**31), 5, 6, 7],
]


def changed(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def slowly(*parameters: object) -> list[Any]:
    return [pytest.param(p, marks=pytest.mark.slow) for p in parameters]


@cache
def built(text: str, target: str = "gfx942") -> Build:
    """Compiled, watched, without spills."""
    spec = tkgen.load(text, target=target)
    assert isinstance(spec, Spec)
    build = spec.build().check()
    assert build.machine_check.outcome == "right" and build.resources.clean
    return build


def right(build: Build, orders: int = 2, **extents: int) -> None:
    for seed, (order, kind) in enumerate(trials(orders)):
        found = run(build, seed=seed, kind=kind, order=order, extents=extents)
        assert not found.failure, (seed, extents, found.failure)


def starts(lengths: list[int]) -> list[int]:
    return [sum(lengths[:n]) for n in range(len(lengths) + 1)]


def tensors(**rows: int) -> dict[str, torch.Tensor]:
    """Q, K, V with so many rows, and heads as in the specs here."""
    generator = torch.Generator().manual_seed(sum(rows.values()))
    heads = {"Q": 2, "K": 1, "V": 1}
    return {n: torch.randn(count, heads[n], D, generator=generator).bfloat16() for n, count in rows.items()}


def attended(build: Build, **inputs: torch.Tensor) -> dict[str, torch.Tensor]:
    """The stores of the machine code; no findings."""
    program = build.spec.program
    scalars = {s.name: s.default or 0.0 for s in program.scalars}
    outputs, outcome = emulate(build, build.spec.launch(), inputs, scalars)
    assert not outcome.findings
    return outputs


# ---------------------------------------------------------------- numbers


VARIANTS = [
    (PACKED, "gfx942"),
    (CROSS, "gfx950"),
    (changed(CROSS, ("buffers 2", "buffers 2 via direct")), "gfx950"),
    (changed(PACKED, ("by 64 to q", "by 64 from q - 39 to q"), ("q >= j, x", "q >= j and q - j < 40, x"),
             ("r = exp2(m - n)", "r = exp2(m - z)"),
             ("    p = exp2(x - n)", "    z = where(n > -inf, n, 0)\n    p = exp2(x - z)")),
     "gfx942"),
    (changed(CROSS, ("  registers Q", "  schedule interleave\n  registers Q")), "gfx950"),
    (changed(CROSS, ("over h in HEADS, s in SEQUENCES, q in TOTAL within FIRST[s] by 128",
                     "over s in SEQUENCES, q in TOTAL within FIRST[s] by 64, h in HEADS")), "gfx942"),
    (PING_PONG, "gfx950"),
    (KEYS, "gfx942"),
    (QUERIES, "gfx950"),
]  # fmt: skip
NAMES = ["causal", "cross", "direct", "window", "interleave", "heads last", "ping_pong", "keys", "queries"]


@pytest.mark.parametrize(("text", "target"), sample(VARIANTS, 2, several=True), ids=NAMES)
def test_sequences_of_any_length(text: str, target: str) -> None:
    right(built(text, target), 1 if text != PACKED else 3)


@pytest.mark.slow
@pytest.mark.parametrize(("text", "target"), VARIANTS, ids=NAMES)
def test_numbers_are_right_in_twenty_interleavings(text: str, target: str) -> None:
    right(built(text, target), 20)


@pytest.mark.parametrize(("lengths", "target"), [*zip(LENGTHS, ["gfx942", "gfx950"] * 2, strict=True)])
def test_each_sequence_is_attended_alone(lengths: list[int], target: str) -> None:
    """Within twice the error of torch's attention, sequence by sequence; rows of no sequence are not written."""
    first, build = starts(lengths), built(PACKED, target)
    for case in CASES if lengths is LENGTHS[0] else CASES[:1]:
        parts = [hurting(case, (1, 2, n, D), (1, 1, n, D)) if n else None for n in lengths]
        given = {n: torch.zeros(300, heads, D, dtype=torch.bfloat16) for n, heads in (("Q", 2), ("K", 1), ("V", 1))}
        for part, begin, end in zip(parts, first, first[1:], strict=False):
            for name, rows in zip("QKV", part or (), strict=False):
                given[name][begin:end] = rows[0].transpose(0, 1)
        found = attended(build, FIRST=torch.tensor(first, dtype=torch.int32), **given)
        for part, begin, end in zip(parts, first, first[1:], strict=False):
            if part is None:
                continue
            seen = torch.ones(end - begin, end - begin).tril().bool()
            meant, theirs = near(*part, seen, exact=True), near(*part, seen)
            assert_near(found["O"][begin:end].transpose(0, 1), meant, theirs, (case, begin))
        assert found["O"][first[-1] :].isnan().all()
    q, k = given["Q"][: first[1]].transpose(0, 1).double(), given["K"][: first[1]].transpose(0, 1).double()
    scores = (q @ k.transpose(-1, -2) / math.sqrt(D)).masked_fill(
        torch.ones(first[1], first[1]).triu(1).bool(), -math.inf
    )
    torch.testing.assert_close(
        found["LSE2"][:, : first[1]].double(), scores.logsumexp(-1) / math.log(2), rtol=1e-4, atol=1e-4
    )


def test_queries_without_keys_are_zero() -> None:
    """Also those of the last sequence, after whose keys the tensor ends."""
    queries, given = starts([30, 70, 0, 100, 100]), tensors(Q=300, K=320, V=320)
    for text, target in ((CROSS, "gfx942"), VARIANTS[2]):
        for keys in ([64, 0, 65, 1, 150], [64, 0, 65, 151, 0]):
            first = {n: torch.tensor(x, dtype=torch.int32) for n, x in (("FIRST", queries), ("FIRST_K", starts(keys)))}
            found = attended(built(text, target), **first, **given)
            for begin, end, count in zip(queries, queries[1:], keys, strict=False):
                assert found["O"][begin:end].any(-1).all() == bool(count or begin == end)
                assert count or not found["O"][begin:end].any()
                assert count or found["LSE2"][:, begin:end].isneginf().all()


@pytest.mark.parametrize("offsets", [*LYING[2:], *slowly(starts(LENGTHS[0]), *LYING[:2])])
def test_whatever_offsets_hold_no_row_is_written_twice_or_outside(offsets: list[int]) -> None:
    """The referee sees every access; what is stored is what the offsets mean, and nothing else is touched."""
    for text, others in ((PACKED, {}), (CROSS, {"FIRST_K": torch.tensor(offsets[::-1], dtype=torch.int32)})):
        build = built(text)
        keys = 300 if text == PACKED else 320
        inputs = {"FIRST": torch.tensor(offsets, dtype=torch.int32), **others, **tensors(Q=300, K=keys, V=keys)}
        found = attended(build, **inputs)
        scalars = {s.name: s.default or 0.0 for s in build.spec.program.scalars}
        meant = evaluate(build.spec.program.kernel, inputs, scalars)["O"]
        inside = torch.zeros(300, dtype=torch.bool)
        for part in segments(offsets, 300):
            inside[part.start : part.stop] = True
        assert found["O"][~inside].isnan().all()
        assert ((found["O"].double() - meant.value).abs() <= meant.bound + meant.value.abs() / 128)[inside].all()


@pytest.mark.parametrize("total", [1, 65, *slowly(63, 127, 400)])
def test_one_build_takes_any_number_of_rows(total: int) -> None:
    right(built(changed(PACKED, ("TOTAL = 300", "TOTAL = dynamic"))), 1, TOTAL=total)


def test_keys_alone_are_packed() -> None:
    """As many queries in each sequence, and keys of any number: an index of groups is one of tensors, too."""
    text = changed(
        CROSS, ("  global FIRST : i32[OFFSETS]\n", ""), ("q in TOTAL within FIRST[s] by 128", "q in TOTAL by 64"),
        ("TOTAL = 300", "TOTAL = 70"), ("Q : bf16[TOTAL", "Q : bf16[SEQUENCES, TOTAL"), ("Q[q, h]", "Q[s, q, h]"),
        ("O : bf16[TOTAL", "O : bf16[SEQUENCES, TOTAL"), ("O[q, h]", "O[s, q, h]"),
        ("LSE2 : f32[HEADS", "LSE2 : f32[SEQUENCES, HEADS"), ("LSE2[h, q]", "LSE2[s, h, q]"), ("waves 4", "waves 2"),
    )  # fmt: skip
    build = built(text)
    right(build)
    assert not run(build, blocks=[0, 7, 19]).failure


# ---------------------------------------------------------------- blocks, commands


def test_blocks_of_the_shipped_kernel() -> None:
    """At full size: whole tiles, one that hangs over its sequence's end, one that finds nothing."""
    spec = tkgen.load(SPEC)
    assert isinstance(spec, Spec)
    launch = spec.launch()
    assert launch.blocks == (8192 + 16 * 127) // 128 * 16
    assert not run(spec.build(), blocks=[3, launch.blocks - 17, launch.blocks - 1]).failure


def test_blocks_of_each_sort_are_watched() -> None:
    spec = built(CROSS).spec
    launch, longest = (watched.launch for watched in launches(spec))
    assert launch.blocks - 1 in sorts_of_groups(launch)
    q, j = launch.program.kernel.ragged
    assert len(longest.groups[q][0]) == 300 and len(longest.groups[j][0]) == 191  # three tiles less one, of 320
    watched = [launch.place(block) for block in sorts_of_groups(launch)]
    s = launch.program.kernel.groups
    assert s is not None
    keys = [len(launch.groups[j][place[s]]) for place in watched]
    rows = [len(launch.groups[q][place[s]]) for place in watched]
    assert 1 in keys and any(not r for r in rows) and max(keys) > 64
    assert all(launch.number(launch.place(b)) == b for b in range(3))


def test_an_operator_looks_at_the_offsets() -> None:
    attend = operator(built(changed(PACKED, ("kernel attention_packed", "kernel packed_operator"))))
    given = tensors(Q=300, K=300, V=300)
    o, lse = attend(torch.tensor(starts(LENGTHS[0]), dtype=torch.int32), *given.values())
    assert o.isfinite().all() and lse.isfinite().all()
    for offsets, message in ((LYING[0], r"FIRST\[2\] is 60, less than the 150"), (LYING[1], r"FIRST\[0\] is -7")):
        with pytest.raises(ValueError, match=message):
            attend(torch.tensor(offsets, dtype=torch.int32), *given.values())


def test_the_host_can_ask_for_true_offsets() -> None:
    text = built(CROSS).spec.text
    assert 'look("FIRST", g.FIRST_.raw_ptr, 5, DIM_TOTAL);' in text
    assert 'look("FIRST_K", g.FIRST_K_.raw_ptr, 5, DIM_KEYS);' in text
    assert "check_offsets" not in tkgen.load(SPEC.with_name("attention.tk")).text


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        ("j in TOTAL within FIRST[s] by 64 to q", "j in TOTAL by 64 to q", "E232",
         "`j` is counted from the start of the dimension, `q` from the start of its group"),
        ("FIRST : i32[OFFSETS]", "FIRST : i32[SEQUENCES]", "E232",
         "`FIRST` has 5 offsets for 5 groups: it must have one more"),
        ("h in HEADS, s in SEQUENCES,", "h in HEADS,", "E223", "`within FIRST[s]` does not name an index of `over`"),
        ("O[q, h] =", "O[s, h] =", "E223", None),
        ("FIRST[s] by 64 to q", "FIRST[s] by 64 part h", "E232",
         "`j` is over a group of unknown length, which cannot be divided into parts"),
        ("  waves 4", "  grid persistent(304)\n  waves 4", "E230",
         "blocks of groups compute one tile each, so they cannot have `grid persistent`"),
    ],
)  # fmt: skip
def test_what_people_get_wrong(old: str, new: str, code: str, message: str | None) -> None:
    with pytest.raises(SpecError) as caught:
        tkgen.load(changed(PACKED, (old, new))).check()
    first = caught.value.diagnostics[0]
    assert first.code == code and message in (None, first.message)


def test_keys_with_their_rows_innermost_are_refused() -> None:
    text = changed(PACKED, ("K : bf16[TOTAL, KV_HEADS, D]", "K : bf16[KV_HEADS, D, TOTAL]"),
                   ("@ K[j, h / GROUP].T", "@ K[h / GROUP, D, j]"))  # fmt: skip
    with pytest.raises(SpecError) as caught:
        tkgen.load(text).check()
    assert [d.message for d in caught.value.diagnostics] == ["`K` has `j` innermost, but its groups have any length"]
