"""Iterations of a loop that are not watched again: what a launch says is what it says when every iteration is."""

from __future__ import annotations

import pytest

from tests.emulate import frame
from tkgen.emulate import Buffer, Hollow, Kind, Outcome, launch

PASSES = 1500
# Two waves write a slot each, of two in turn, and read the other's; v6 is where a pass loads from. v30 was loaded.
LOOP = """
  s_mov_b32 s20, 0
  v_xor_b32 v3, 0x100, v1
  v_mov_b32 v6, v1
  v_mov_b32 v8, 0
  v_readfirstlane_b32 s24, v1
  global_load_dword v30, v1, s[8:9]
{before}
  s_waitcnt vmcnt(0)
.Lloop:
{begin}
  s_and_b32 s21, s20, 1
  s_lshl_b32 s21, s21, 9
  v_add_u32 v4, s21, v1
  v_add_u32 v5, s21, v3
  global_load_dword v2, v6, s[8:9]
  s_waitcnt vmcnt(0)
  ds_write_b32 v4, v2
  s_waitcnt lgkmcnt(0)
  s_barrier
  ds_read_b32 v7, v5
{inside}
  s_waitcnt lgkmcnt(0)
  v_add_u32 v6, 0x200, v6
  s_add_i32 s20, s20, 1
{end}
  s_cmp_{goes_on}
  s_cbranch_scc1 .Lloop
{after}
  global_store_dword v1, v7, s[10:11]
"""


def at(number: int, body: str) -> str:
    """`body` in the pass of that number alone, after the read of LDS."""
    return f"  s_waitcnt lgkmcnt(0)\n  s_cmp_eq_u32 s20, {number}\n  s_cbranch_scc0 .Lother\n{body}.Lother:\n"


def run(
    assemble, inside: str = "", size: int = 512 * PASSES, goes_on: str = f"lt_i32 s20, {PASSES}", **options
) -> Outcome:
    hooks = {name: options.pop(name, "") for name in ("before", "begin", "end", "after")}
    code = assemble(frame.kernel(LOOP.format(inside=inside, goes_on=goes_on, **hooks), lds=4096, threads=128))
    args = [Buffer(Hollow(size), "in", writable=False), Buffer(Hollow(512 * PASSES), "out")]
    return launch(code, grid=(2, 1, 1), block=(128, 1, 1), args=args, **{"watch": True, "blocks": (0,)} | options)


def said(outcome: Outcome) -> tuple[object, ...]:
    findings = [repr(f) for f in outcome.findings]
    return outcome.completed, outcome.instructions, outcome.barriers, outcome.counts.tolist(), findings


CASES: dict[str, tuple[str, set[Kind]]] = {
    "nothing": ("", set()),
    "a race in one pass": (at(700, "  ds_write_b32 v4, v7\n"), {Kind.RACE}),
    "a wait that one pass lacks": (at(701, "  ds_read_b32 v8, v5\n  v_add_u32 v9, v8, v8\n"), {Kind.READ_BEFORE_WAIT}),
    "a barrier more in one pass": (at(702, "  s_barrier\n"), set()),
    "a barrier more for one wave": (
        "  s_cmp_eq_u32 s24, 0\n  s_cselect_b32 s22, 703, -1\n"
        "  s_cmp_eq_u32 s20, s22\n  s_cbranch_scc0 .Lother\n  s_barrier\n.Lother:\n",
        {Kind.RACE, Kind.BARRIER_COUNT},
    ),
    "an LDS address that moves late": (
        "  s_lshr_b32 s22, s20, 10\n  s_lshl_b32 s22, s22, 11\n  v_add_u32 v9, s22, v5\n  ds_read_b32 v10, v9\n",
        {Kind.UNINITIALISED_LDS},
    ),
    "a load into LDS that moves late": (
        "  s_lshr_b32 s22, s20, 10\n  s_lshl_b32 s22, s22, 10\n"
        "  s_sub_i32 s22, s24, s22\n  s_add_i32 m0, s22, 0x400\n  s_nop 0\n  global_load_lds_dword v1, s[8:9]\n"
        "  s_waitcnt vmcnt(0)\n",
        {Kind.RACE},
    ),
    "lanes that are not there at a late barrier": (
        "  s_waitcnt lgkmcnt(0)\n  s_cmp_lt_u32 s20, 1000\n  s_cselect_b32 exec_lo, -1, 0xff\n  s_barrier\n"
        "  s_mov_b32 exec_lo, -1\n",
        {Kind.DIVERGENT_BARRIER},
    ),
    "lanes that come late": (
        "  v_mov_b32 v9, 0\n  s_mov_b64 exec, 15\n  ds_write_b32 v1, v9 offset:1024\n  s_cmp_lt_u32 s20, 1000\n"
        "  s_cselect_b32 exec_lo, 15, 31\n  ds_read_b32 v9, v1 offset:1024\n  s_mov_b64 exec, -1\n",
        {Kind.UNINITIALISED_LDS},
    ),
    "lanes that end early": (at(800, "  s_mov_b64 exec, 0xff\n"), set()),
    "a counter that turns": ("  s_mul_i32 s22, s20, 0x10001\n  s_and_b32 s22, s22, 7\n", set()),
    "an undefined register in one pass": (
        at(900, "  global_store_dword v1, v11, s[10:11]\n"),
        {Kind.UNINITIALISED_REGISTER},
    ),
    "a store in one pass": (at(901, "  global_store_dword v1, v7, s[10:11]\n"), set()),
    "a store in each pass": ("  s_waitcnt lgkmcnt(0)\n  global_store_dword v1, v7, s[10:11]\n", set()),
    "contents that are known": ("  s_load_dword s23, s[0:1], 0x0\n", set()),
}


@pytest.mark.parametrize("name", CASES)
def test_it_says_what_every_pass_would_say(assemble, name):
    inside, kinds = CASES[name]
    short, full = run(assemble, inside), run(assemble, inside, every_pass=True)
    assert said(short) == said(full)
    assert {f.kind for f in full.findings} == kinds


def test_what_was_not_waited_for_is_as_old_as_it_is(assemble):
    """A load into LDS on its way over a barrier, and a read of it in one iteration, before the wait of the other
    wave."""
    hooks = {
        "end": "  s_add_i32 m0, s24, 0x800\n  s_nop 0\n  global_load_lds_dword v1, s[8:9]\n  s_barrier\n",
        "begin": at(700, "  ds_read_b32 v9, v3 offset:2048\n  s_waitcnt lgkmcnt(0)\n"),
    }
    short, full = (run(assemble, every_pass=every, **hooks) for every in (False, True))
    assert said(short) == said(full)
    assert {f.kind for f in full.findings} == {Kind.RACE}


def test_what_is_unknown_may_take_longer_to_come_back(assemble):
    """A value that was loaded goes through a row of registers, one an iteration, and is an address at its end."""
    moves = "".join(f"  v_mov_b32 v{i}, v{i - 1}\n" for i in range(110, 30, -1)) + "  v_mov_b32 v30, v8\n"
    hooks = {
        "before": "".join(f"  v_mov_b32 v{i}, v1\n" for i in range(31, 111)),
        "end": moves + "  ds_read_b32 v9, v110\n",
    }
    short, full = (run(assemble, every_pass=every, **hooks) for every in (False, True))
    assert said(short) == said(full)
    assert Kind.DATA_DEPENDENT in {f.kind for f in full.findings} and 79 < full.barriers[0] < 82


def test_registers_hold_what_they_would(assemble):
    """A scalar that is loaded, and changed, in each iteration; after the loop it says how far a load goes."""
    hooks = {
        "end": "  s_load_dword s26, s[0:1], 0x0\n  s_waitcnt lgkmcnt(0)\n  s_sub_u32 s26, s26, s8\n"
        "  s_add_u32 s26, s26, s27\n  s_add_u32 s26, s26, 4\n  s_mov_b32 s27, s26\n",
        "before": "  s_mov_b32 s27, 0\n",
        "after": f"  v_mov_b32 v9, {508 * PASSES}\n  v_add_u32 v9, s26, v9\n  global_load_dword v9, v9, s[8:9]\n",
    }
    short, full = (run(assemble, every_pass=every, **hooks) for every in (False, True))
    assert said(short) == said(full)
    assert [f.kind for f in full.findings] == [Kind.GLOBAL_OUT_OF_BOUNDS]


def test_what_blocks_share_is_seen_in_every_pass(assemble):
    """The last iteration is seen too: one block stores then what others have read in an earlier one."""
    hooks = {"end": "  global_load_dword v9, v6, s[10:11]\n", "after": f"  v_add_u32 v1, {512 * 1000}, v1\n"}
    short, full = (run(assemble, every_pass=every, blocks=(0, 1), **hooks) for every in (False, True))
    assert said(short) == said(full)
    assert Kind.BLOCK_RACE in {f.kind for f in full.findings}


def test_the_end_of_a_tensor_is_found(assemble):
    short, full = (run(assemble, size=512 * PASSES - 300, every_pass=every) for every in (False, True))
    assert said(short) == said(full)
    assert [f.kind for f in full.findings] == [Kind.GLOBAL_OUT_OF_BOUNDS]
    assert full.findings[0].count == 75  # lanes, of the last pass


def test_passes_that_repeat_cost_little_of_the_budget(assemble):
    budget = 16 * PASSES
    assert not run(assemble, budget=budget).findings
    (finding,) = run(assemble, budget=budget, every_pass=True).findings
    assert finding.kind in (Kind.BUDGET, Kind.DEADLOCK)  # by where the other wave stands


@pytest.mark.parametrize("inside", ["", "  s_barrier\n  s_mov_b32 s20, -1\n"], ids=["it counts", "nothing changes"])
def test_what_never_ends_is_found_out(assemble, inside):
    again = "  s_waitcnt lgkmcnt(0)\n" + inside + "  v_mov_b32 v6, 0\n"
    outcome = run(assemble, again, goes_on="lg_u32 s20, -2", budget=100_000)
    assert not outcome.completed and {f.kind for f in outcome.findings} == {Kind.BUDGET}
