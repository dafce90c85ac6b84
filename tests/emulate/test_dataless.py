"""Launches without data: what depends on the contents of a buffer stops them, whatever way it takes; the rest runs."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulate import frame
from tkgen.emulate import Buffer, Hollow, Kind, Outcome, launch

LOAD = "  global_load_dword v2, v1, s[8:9]\n  s_waitcnt vmcnt(0)\n"
SCALAR = "  s_load_dword s20, s[8:9], 0x0\n  s_waitcnt lgkmcnt(0)\n"
USE = "  global_load_dword v9, v3, s[8:9]\n  s_waitcnt vmcnt(0)\n"  # v3 is an address here
BRANCH = "  s_cbranch_scc1 .Lover\n.Lover:\n"


def run(assemble, body: str, blocks: tuple[int, ...] = (0,), **options) -> Outcome:
    code = assemble(frame.kernel(body, lds=4096, scratch=64))
    args = [Buffer(Hollow(1 << 33), "in", writable=False), Buffer(Hollow(1 << 33), "out")]
    return launch(code, grid=(4, 1, 1), block=(64, 1, 1), args=args, blocks=blocks, **{"watch": True} | options)


DATA = LOAD + "  v_readfirstlane_b32 s20, v2\n"
# What the compiler does with scalars that it has no registers for: of v4 lane 3 alone has data.
SPILLED = "  v_mov_b32 v4, 0\n  v_writelane_b32 v4, 4, 2\n  v_writelane_b32 v4, s20, 3\n  s_nop 1\n"
THROUGH = "  scratch_store_dword off, v4, off\n  scratch_load_dword v4, off, off\n  s_waitcnt vmcnt(0)\n"
# A pair of which the upper half has data.
PAIR = LOAD + "  v_mov_b32 v4, 0\n  v_mov_b32 v5, v2\n  scratch_store_dwordx2 off, v[4:5], off\n" \
    "  scratch_load_dwordx2 v[4:5], off, off\n  s_waitcnt vmcnt(0)\n"  # fmt: skip
LANE_2 = "  v_readlane_b32 s21, v4, 2\n  s_nop 3\n  v_mov_b32 v3, s21\n"


DEPENDENT = {
    "a branch on VCC": LOAD + "  v_cmp_eq_u32 vcc, 0, v2\n  s_cbranch_vccnz .Lover\n.Lover:\n",
    "a branch on SCC": SCALAR + "  s_cmp_eq_u32 s20, 0\n" + BRANCH,
    "a branch on a result's SCC": SCALAR + "  s_and_b32 s21, s20, 1\n" + BRANCH,
    "a branch on a carry": SCALAR + "  s_add_u32 s21, s20, 1\n  s_addc_u32 s22, 0, 0\n  s_cmp_eq_u32 s22, 0\n" + BRANCH,
    "a choice by SCC": SCALAR + "  s_cmp_eq_u32 s20, 0\n  s_cselect_b32 s21, 0, 1\n  s_cmp_eq_u32 s21, 0\n" + BRANCH,
    "EXEC": LOAD + "  v_cmp_eq_u32 vcc, 0, v2\n  s_and_saveexec_b64 s[20:21], vcc\n",
    "EXEC by v_cmpx": LOAD + "  v_cmpx_eq_u32 vcc, 0, v2\n",
    "EXEC by a move": LOAD + "  v_cmp_eq_u32 s[20:21], 0, v2\n  s_mov_b64 exec, s[20:21]\n",
    "an address": LOAD + "  v_mov_b32 v3, v2\n" + USE,
    "a sum as an address": LOAD + "  v_add_u32 v3, v2, v1\n" + USE,
    "a carry in an address": LOAD + "  v_add_co_u32 v4, vcc, v2, v2\n  v_mov_b32 v5, 0\n"
    "  v_addc_co_u32 v3, vcc, v5, v5, vcc\n" + USE,
    "a choice as an address": LOAD + "  v_cmp_eq_u32 vcc, 0, v2\n  v_mov_b32 v4, 0\n  v_mov_b32 v5, 4\n"
    "  v_cndmask_b32 v3, v4, v5, vcc\n" + USE,
    "the upper half of a product": LOAD + "  v_mov_b32 v6, v1\n  v_mov_b32 v7, v2\n"
    "  v_mad_u64_u32 v[4:5], s[20:21], v1, 1, v[6:7]\n  v_mov_b32 v3, v5\n" + USE,
    "one lane": LOAD + "  v_readfirstlane_b32 s20, v2\n  v_mov_b32 v3, s20\n" + USE,
    "the first lane that is on": LOAD + "  v_mov_b32 v3, v2\n  s_mov_b64 exec, 0xff\n  v_mov_b32 v3, 0\n"
    "  s_mov_b64 exec, 0xff00\n  v_readfirstlane_b32 s20, v3\n  s_mov_b64 exec, -1\n  v_mov_b32 v3, s20\n" + USE,
    "another lane": LOAD + "  ds_bpermute_b32 v3, v1, v2\n  s_waitcnt lgkmcnt(0)\n" + USE,
    "an LDS address": LOAD + "  ds_read_b32 v3, v2\n",
    "through LDS": LOAD + "  ds_write_b32 v1, v2\n  s_waitcnt lgkmcnt(0)\n"
    "  ds_read_b32 v3, v1\n  s_waitcnt lgkmcnt(0)\n" + USE,
    "through scratch": LOAD + "  scratch_store_dword off, v2, off\n"
    "  scratch_load_dword v3, off, off\n  s_waitcnt vmcnt(0)\n" + USE,
    "through an accumulator": LOAD + "  v_accvgpr_write_b32 a0, v2\n  s_nop 1\n  v_accvgpr_read_b32 v3, a0\n" + USE,
    "a matrix product": LOAD + "  v_mov_b32 v4, 0\n  v_mov_b32 v5, 0\n  v_mov_b32 v6, 0\n  v_mov_b32 v7, 0\n"
    "  v_mfma_f32_4x4x1_16b_f32 v[4:7], v2, v2, v[4:7]\n  s_nop 15\n  v_mov_b32 v3, v4\n" + USE,
    "M0 of a load into LDS": SCALAR + "  s_mov_b32 m0, s20\n  global_load_lds_dword v1, s[8:9]\n",
    "what an atomic gives back": "  v_mov_b32 v2, 1\n  global_atomic_add v3, v1, v2, s[10:11] sc0\n"
    "  s_waitcnt vmcnt(0)\n" + USE,
    "a lane that was written": DATA + "  v_mov_b32 v3, 0\n  v_writelane_b32 v3, s20, 5\n" + USE,
    "one of a register's lanes": DATA + SPILLED + "  v_readlane_b32 s21, v4, 3\n  v_mov_b32 v3, s21\n" + USE,
    "one of a register's lanes, through scratch": DATA + SPILLED + THROUGH + "  v_readlane_b32 s21, v4, 3\n"
    "  v_mov_b32 v3, s21\n" + USE,
    "whichever lane data says, of some that are known": DATA + SPILLED + "  s_nop 3\n  v_readlane_b32 s21, v4, s20\n"
    "  v_mov_b32 v3, s21\n" + USE,
    "whichever lane data says, written": DATA + "  v_mov_b32 v4, 0\n  s_nop 3\n  v_writelane_b32 v4, 0, s20\n"
    "  v_mov_b32 v3, v4\n" + USE,
    "the half of a pair that data was spilled in": PAIR + "  v_mov_b32 v3, v5\n" + USE,
    "where half of the lanes kept it": LOAD + "  v_mov_b32 v3, v2\n  s_mov_b64 exec, 0xff\n  v_mov_b32 v3, 0\n"
    "  s_mov_b64 exec, -1\n" + USE,
}  # fmt: skip

INDEPENDENT = {
    "nothing of it": LOAD + "  v_add_f32 v3, v2, v2\n  global_store_dword v1, v3, s[10:11]\n",
    "a choice that is stored": LOAD + "  v_cmp_eq_u32 vcc, 0, v2\n  s_nop 1\n  v_cndmask_b32 v3, 0, v2, vcc\n"
    "  global_store_dword v1, v3, s[10:11]\n",
    "a register that was overwritten": LOAD + "  v_mov_b32 v2, 0\n  v_mov_b32 v3, v2\n" + USE,
    "an SCC that was set again": SCALAR + "  s_and_b32 s21, s20, 1\n  s_cmp_eq_u32 s8, s8\n" + BRANCH,
    "an SCC over which a mask was moved": LOAD + "  s_cmp_eq_u32 s8, s8\n  v_cmp_eq_u32 s[20:21], 0, v2\n"
    "  s_mov_b64 vcc, s[20:21]\n" + BRANCH,
    "the lower half of a product": LOAD + "  v_mov_b32 v6, v1\n  v_mov_b32 v7, v2\n"
    "  v_mad_u64_u32 v[4:5], s[20:21], v1, 1, v[6:7]\n  v_mov_b32 v3, v4\n" + USE,
    "a known value through scratch": "  scratch_store_dword off, v1, off\n  scratch_load_dword v3, off, off\n"
    "  s_waitcnt vmcnt(0)\n" + USE,
    "lanes that are off": LOAD + "  v_mov_b32 v3, v2\n  s_mov_b64 exec, 0xff\n  v_mov_b32 v3, 0\n" + USE,
    "the first lane, which alone is known": LOAD + "  v_mov_b32 v3, v2\n  s_mov_b64 exec, 0xff\n  v_mov_b32 v3, 0\n"
    "  s_nop 3\n  v_readfirstlane_b32 s20, v3\n  s_mov_b64 exec, -1\n  s_nop 3\n  v_mov_b32 v3, s20\n" + USE,
    "a lane beside an unknown one": DATA + SPILLED + LANE_2 + USE,
    "a lane beside an unknown one, through scratch": DATA + SPILLED + THROUGH + LANE_2 + USE,
    "the half of a pair beside data, through scratch": PAIR + "  v_mov_b32 v3, v4\n" + USE,
    "a known value of another lane": "  ds_bpermute_b32 v3, v1, v1\n  s_waitcnt lgkmcnt(0)\n" + USE,
}


@pytest.mark.parametrize("watch", [True, False])
@pytest.mark.parametrize("name", DEPENDENT)
def test_what_depends_on_data_stops_the_launch(assemble, name, watch):
    outcome = run(assemble, DEPENDENT[name], watch=watch)
    assert not outcome.completed
    assert {f.kind for f in outcome.findings} - {Kind.WAIT_STATES} == {Kind.DATA_DEPENDENT}


@pytest.mark.parametrize("name", INDEPENDENT)
def test_what_does_not_runs(assemble, name):
    outcome = run(assemble, INDEPENDENT[name])
    assert outcome.completed and not outcome.findings


@pytest.mark.parametrize(
    "body, depends",
    [
        ("  s_cmp_eq_u32 s2, 0\n" + BRANCH, True),
        ("  s_lshl_b32 s20, s2, 2\n  v_mov_b32 v3, s20\n  v_mov_b32 v4, 0\n  ds_write_b32 v3, v4\n", True),
        ("  s_mov_b32 m0, s2\n  global_load_lds_dword v1, s[8:9]\n", True),
        ("  v_cmp_eq_u32 vcc, s2, v1\n  s_and_saveexec_b64 s[20:21], vcc\n", True),
        ("  s_lshl_b32 s20, s2, 8\n  v_add_u32 v3, s20, v1\n" + USE, False),
        (LOAD + "  v_add_u32 v3, s2, v2\n  global_store_dword v1, v3, s[10:11]\n", False),
    ],
    ids=["a branch", "an LDS address", "M0", "EXEC", "an address in a tensor", "data"],
)
def test_whether_the_block_decides_is_found_out(assemble, body, depends):
    outcome = run(assemble, body, blocks=(1,))
    assert outcome.completed and outcome.block_dependent is depends


def test_blocks_beyond_the_grid(assemble):
    """The kernel takes the grid for what it is; only the number of its block goes on."""
    code = assemble(frame.kernel("  v_mov_b32 v3, s2\n  global_store_dword v1, v3, s[10:11]\n"))
    out = np.zeros(64, np.uint32)
    args = [Buffer(np.zeros(64, np.uint32)), Buffer(out)]
    launch(code, grid=(4, 1, 1), block=(64, 1, 1), args=args, blocks=(9,), beyond=10)
    assert (out == 9).all()


def test_addresses_are_judged_as_ever(assemble):
    """Hollow tensors have ends, and bytes that nothing wrote are told."""
    outside = "  s_add_u32 s9, s9, 2\n" + LOAD
    assert {f.kind for f in run(assemble, outside).findings} == {Kind.GLOBAL_OUT_OF_BOUNDS}
    unwritten = "  ds_read_b32 v3, v1\n  s_waitcnt lgkmcnt(0)\n"
    assert {f.kind for f in run(assemble, unwritten).findings} == {Kind.UNINITIALISED_LDS}
    unwaited = "  global_load_dword v2, v1, s[8:9]\n  v_add_f32 v3, v2, v2\n"
    assert {f.kind for f in run(assemble, unwaited).findings} == {Kind.READ_BEFORE_WAIT}
