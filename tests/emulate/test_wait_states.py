"""Pairs of instructions with one wait state too few are found, whatever runs; with enough there is nothing to find.

The numbers are those that LLVM's hazard recogniser inserts (`llc -run-pass=post-RA-hazard-rec` on each pair), for
gfx90a, gfx942 and gfx950; None where the target has no such instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.emulate import frame
from tkgen.emulate import Finding, Kind, Space

TARGETS = ("gfx90a", "gfx942", "gfx950")
Need = tuple[int | None, int | None, int | None]
XDL_4, XDL_16, XDL_32 = (
    "v_mfma_f32_4x4x4f16 v[0:3], v[100:101], v[110:111], {}",
    "v_mfma_f32_16x16x16f16 v[0:3], v[100:101], v[110:111], {}",
    "v_mfma_f32_32x32x8f16 v[0:15], v[100:101], v[110:111], {}",
)
F32_16 = "v_mfma_f32_16x16x4f32 v[0:3], v100, v110, v[0:3]"
F64_16 = "v_mfma_f64_16x16x4f64 v[0:7], v[100:101], v[110:111], v[0:7]"
F64_4 = "v_mfma_f64_4x4x4f64 v[0:1], v[100:101], v[110:111], v[0:1]"
BF16_950 = "v_mfma_f32_32x32x16_bf16 v[0:15], v[100:103], v[104:107], v[0:15]"
VALU_READS, VALU_WRITES = "v_mov_b32 v60, v1", "v_mov_b32 v1, v60"
STORE, LOAD = "global_store_dword v[50:51], v1, off", "global_load_dword v1, v[50:51], off"
A_OF, C_OF = (
    "v_mfma_f32_16x16x16f16 v[120:123], v[0:1], v[110:111], v[140:143]",
    "v_mfma_f32_16x16x16f16 v[120:123], v[100:101], v[110:111], v[2:5]",
)
C_WHOLE = "v_mfma_f32_16x16x16f16 v[0:3], v[100:101], v[110:111], v[0:3]"
READ_LANE, CMPX = "v_readlane_b32 s20, v1, 3", "v_cmpx_eq_u32 vcc, v1, v2"
DPP = "v_mov_b32_dpp v3, v1 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf"
TO_SGPR = "v_readfirstlane_b32 s20, v9"

PAIRS: list[tuple[str, str, Need]] = [
    # Results of the matrix unit: read, overwritten, stored, loaded over, multiplied, accumulated on.
    *((XDL_4.format("v[0:3]"), c, (5, 5, 5)) for c in (VALU_READS, VALU_WRITES, STORE, LOAD, A_OF)),
    *((XDL_16.format("v[0:3]"), c, (11, 7, 8)) for c in (VALU_READS, VALU_WRITES, STORE, LOAD, A_OF)),
    *((XDL_32.format("v[0:15]"), c, (19, 11, 12)) for c in (VALU_READS, VALU_WRITES, STORE, LOAD, A_OF)),
    (XDL_16.format("v[0:3]"), "ds_write_b32 v50, v1", (11, 7, 8)),
    (XDL_4.format("v[0:3]"), C_OF, (2, 3, 4)),
    (XDL_16.format("v[0:3]"), C_OF, (8, 5, 6)),
    (XDL_32.format("v[0:15]"), C_OF, (16, 9, 10)),
    (XDL_4.format("v[0:3]"), C_WHOLE, (0, 2, 2)),
    (XDL_16.format("v[0:3]"), C_WHOLE, (0, 0, 0)),
    (XDL_32.format("v[0:15]"), C_WHOLE, (16, 9, 10)),
    *((F32_16, c, (11, 10, 10)) for c in (VALU_READS, VALU_WRITES, STORE, LOAD, A_OF)),
    (F32_16, C_OF, (8, 0, 0)),
    (F32_16, "v_mfma_f32_16x16x4f32 v[2:5], v100, v110, v[2:5]", (8, 8, 8)),
    (F64_16, "v_mov_b32 v60, v1", (11, 11, 19)),
    (F64_16, "v_mov_b32 v1, v60", (11, 11, 11)),
    (F64_16, STORE, (18, 18, 18)),
    (F64_16, "v_mfma_f64_16x16x4f64 v[2:9], v[100:101], v[110:111], v[2:9]", (9, 9, 17)),
    (F64_4, STORE, (9, 9, 9)),
    (F64_4, F64_4, (4, 4, 4)),
    (F64_4, "v_fma_f64 v[20:21], v[22:23], v[24:25], v[26:27]", (2, 2, 2)),
    (BF16_950, VALU_READS, (None, None, 12)),
    ("v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[100:107], v[110:117], v[0:3]", VALU_READS, (None, None, 12)),
    (
        "v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[100:103], v[110:113], v[0:3] cbsz:4 blgp:4",
        VALU_READS,
        (None, None, 8),
    ),
    # What the matrix unit still reads as its addend.
    (XDL_4.format("v[60:63]"), "v_mov_b32 v61, v80", (1, 1, 1)),
    (XDL_16.format("v[60:63]"), "v_mov_b32 v61, v80", (7, 3, 3)),
    (XDL_32.format("v[60:75]"), "v_mov_b32 v61, v80", (15, 7, 7)),
    (XDL_16.format("v[60:63]"), "global_load_dword v61, v[80:81], off", (7, 3, 3)),
    ("v_mfma_f32_16x16x16f16 a[0:3], v[100:101], v[110:111], a[0:3]", "v_accvgpr_read_b32 v30, a2", (11, 7, 8)),
    # The vector unit before the matrix unit.
    ("v_mov_b32 v100, v9", XDL_16.format("v[0:3]"), (2, 2, 2)),
    ("v_mov_b32 v2, v9", XDL_16.format("v[0:3]"), (2, 2, 2)),
    ("v_accvgpr_write_b32 a2, v9", "v_mfma_f32_16x16x16f16 a[0:3], v[100:101], v[110:111], a[0:3]", (2, 2, 2)),
    (CMPX, XDL_16.format("v[0:3]"), (4, 4, 4)),
    # Scalar registers that the vector unit writes.
    (TO_SGPR, "buffer_load_dword v2, off, s[40:43], s20", (5, 5, 5)),
    ("v_cmp_eq_u32 vcc, v1, v2", "global_load_dword v5, v3, vcc", (5, 5, 5)),
    (CMPX, "global_load_dword v5, v[50:51], off", (5, 5, 5)),
    (TO_SGPR, "v_mov_b32 v2, s20", (0, 2, 2)),
    ("v_cmp_eq_u32 vcc, v1, v2", "v_cndmask_b32 v2, v3, v4, vcc", (0, 2, 2)),
    ("v_cmp_eq_u32 s[20:21], v1, v2", "v_cndmask_b32 v2, v3, v4, s[20:21]", (0, 2, 2)),
    ("v_add_co_u32 v5, vcc, v1, v2", "v_addc_co_u32 v2, vcc, v3, v4, vcc", (0, 2, 2)),
    (TO_SGPR, "v_readlane_b32 s21, v5, s20", (4, 4, 4)),
    (TO_SGPR, "v_writelane_b32 v7, 1, s20", (4, 4, 4)),
    (TO_SGPR, "v_writelane_b32 v7, s20, 3", (0, 2, 2)),
    ("v_cmp_eq_u32 vcc, v1, v2", "v_div_fmas_f32 v2, v3, v4, v5", (4, 4, 4)),
    # Of the ISA documents alone: compilers read neither as a number.
    ("v_cmp_eq_u32 vcc, v1, v2", "v_mov_b32 v3, src_vccz", (5, 5, 5)),
    (CMPX, "v_mov_b32 v3, src_execz", (5, 5, 5)),
    # Lanes.
    ("v_mov_b32 v1, v9", READ_LANE, (0, 1, 1)),
    (CMPX, "v_readfirstlane_b32 s20, v11", (0, 4, 4)),
    ("v_mov_b32 v1, v9", DPP, (2, 2, 2)),
    (CMPX, "v_mov_b32_dpp v3, v11 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf", (5, 5, 5)),
    ("v_mov_b32 v1, v9", "v_permlane32_swap_b32 v1, v5", (None, None, 2)),
    (CMPX, "v_permlane32_swap_b32 v11, v5", (None, None, 4)),
    # Results that are not forwarded.
    ("v_exp_f32 v1, v9", "v_mov_b32 v3, v1", (0, 1, 1)),
    ("v_exp_f32 v1, v9", "v_fmac_f32 v1, v3, v4", (0, 1, 1)),
    ("v_exp_f32 v1, v9", "v_exp_f32 v3, v1", (0, 0, 0)),
    ("v_rcp_f64 v[0:1], v[8:9]", "v_mov_b32 v3, v1", (0, 1, 1)),
    ("v_add_u16_sdwa v1, v8, v9 dst_sel:WORD_0 src0_sel:DWORD src1_sel:DWORD", "v_mov_b32 v3, v1", (0, 1, 1)),
    ("v_cvt_pk_fp8_f32 v1, v8, v9 op_sel:[0,0,1]", "v_mov_b32 v3, v1", (None, 1, 1)),
    ("v_cvt_pk_fp8_f32 v1, v8, v9", "v_mov_b32 v3, v1", (None, 0, 0)),
    ("v_cvt_sr_fp8_f32 v1, v8, v9 op_sel:[0,0,1,0]", "v_mov_b32 v3, v1", (None, 1, 1)),
    ("v_cvt_sr_bf8_f32 v1, v8, v9 op_sel:[0,0,0,1]", "v_mov_b32 v3, v1", (None, 1, 1)),
    ("v_cvt_scalef32_pk_fp4_f32 v1, v8, v9, v10 op_sel:[0,0,1,0]", "v_mov_b32 v3, v1", (None, None, 1)),
    ("v_cvt_scalef32_pk_fp4_f32 v1, v8, v9, v10", "v_mov_b32 v3, v1", (None, None, 0)),
    ("v_cvt_scalef32_sr_pk_fp4_f32 v1, v[8:9], v10, v11", "v_mov_b32 v3, v1", (None, None, 1)),
    ("v_dot2_f32_f16 v1, v8, v9, v10", "v_mov_b32 v3, v1", (3, 3, 3)),
    ("v_dot2_f32_f16 v1, v8, v9, v10", "v_mov_b32 v1, v3", (3, 3, 3)),
    ("v_dot2_f32_f16 v1, v8, v9, v10", STORE, (3, 3, 3)),
    ("v_dot2_f32_f16 v1, v8, v9, v10", "v_dot2_f32_f16 v1, v1, v9, v10", (3, 3, 3)),
    ("v_dot2_f32_f16 v1, v8, v9, v10", "v_dot2_f32_f16 v1, v8, v9, v1", (0, 0, 0)),
    # Data of a wide store, the mode, M0.
    ("global_store_dwordx4 v[50:51], v[8:11], off", "v_mov_b32 v9, v3", (1, 2, 2)),
    ("global_store_dwordx4 v[50:51], v[0:3], off", XDL_16.format("v[20:23]"), (1, 2, 2)),
    ("global_atomic_cmpswap_x2 v[50:51], v[8:11], off", "v_mov_b32 v9, v3", (1, 2, 2)),
    ("scratch_store_dwordx4 off, v[8:11], off", "v_mov_b32 v9, v3", (None, 2, 2)),
    ("buffer_store_dwordx4 v[8:11], off, s[40:43], 0", "v_mov_b32 v9, v3", (1, 2, 2)),
    ("buffer_store_dwordx4 v[8:11], off, s[40:43], s20", "v_mov_b32 v9, v3", (0, 0, 0)),
    ("ds_write_b128 v50, v[8:11]", "v_mov_b32 v9, v3", (0, 0, 0)),
    ("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 3", "s_getreg_b32 s20, hwreg(HW_REG_MODE)", (2, 2, 2)),
    ("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 3", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 6, 2), 3", (2, 2, 2)),
    ("s_mov_b32 m0, 0", "global_load_lds_dword v[50:51], off", (None, 1, 1)),
    ("s_mov_b32 m0, 0", "buffer_load_dword v1, s[40:43], 0 offen lds", (1, 1, 1)),
    ("s_mov_b32 m0, 0", "ds_read_addtid_b32 v1", (1, 1, 1)),
    ("s_mov_b32 m0, 0", "s_movrels_b32 s20, s21", (1, 1, 1)),
    ("s_mov_b32 m0, 0", "s_ttracedata", (1, 1, 1)),
]  # fmt: skip


def apart(states: int) -> str:
    """Instructions that are so many wait states."""
    return "".join(f"  s_nop {min(8, states - done) - 1}\n" for done in range(0, states, 8))


def findings(assemble: Callable[..., Path], text: str, target: str) -> list[Finding]:
    words = np.zeros(64, dtype=np.uint32)
    outcome = frame.run_body(assemble, text, words, words.copy(), target, lds=64, vgprs=208, watch=True, budget=1)
    return [f for f in outcome.findings if f.kind is Kind.WAIT_STATES]


def body(pairs: Sequence[tuple[str, str, Need]], target: int, less: int) -> str:
    """All pairs, far apart, each with `less` wait states less than it needs."""
    text = ""
    for first, second, needs in pairs:
        need = needs[target]
        assert need is not None
        text += f"{apart(24)}  {first}\n{apart(need - less)}  {second}\n"
    return text + apart(24)


@pytest.mark.parametrize("target", range(3), ids=TARGETS)
def test_one_wait_state_too_few_is_found(assemble, target):
    pairs = [p for p in PAIRS if p[2][target]]
    found = sorted(findings(assemble, body(pairs, target, 1), TARGETS[target]), key=lambda f: f.second.address)
    said = [(f.lane, f.size, f.second.text[:5], f.first.text[:5]) for f in found]
    assert said == [(needs[target], 1, first[:5], second[:5]) for first, second, needs in pairs]


@pytest.mark.parametrize("target", range(3), ids=TARGETS)
def test_enough_wait_states_are_left_alone(assemble, target):
    pairs = [p for p in PAIRS if p[2][target] is not None]
    assert [str(f) for f in findings(assemble, body(pairs, target, 0), TARGETS[target])] == []


def test_the_shortest_path_counts_whatever_runs(assemble):
    """A branch around the s_nop, and the back edge of a loop; neither is taken in the run."""
    around = f"""{apart(24)}
  {XDL_16.format("v[0:3]")}
  s_cbranch_scc1 .Lshort
{apart(7)}
.Lshort:
  v_mov_b32 v60, v1
"""
    (found,) = findings(assemble, around, "gfx942")
    assert (found.lane, found.size, found.space, found.offset) == (7, 6, Space.VGPR, 1)
    loop = f"""{apart(24)}
.Lloop:
  v_mov_b32 v60, v1
  s_nop 1
  {XDL_16.format("v[0:3]")}
  s_cbranch_scc1 .Lloop
"""
    (found,) = findings(assemble, loop, "gfx942")
    assert (found.size, found.first.text.split()[0]) == (6, "v_mov_b32")
    assert "too early for v1: it needs 7 wait states after v_mfma" in found.message and "6 are missing" in found.message


@pytest.mark.parametrize("second", ["ds_read_b32 v2, v1", "v_mov_b32 v1, v2"])
@pytest.mark.parametrize(("target", "needed"), [*zip(TARGETS, (11, 7, 8), strict=True)])
def test_a_result_keeps_its_wait_states_where_a_product_between_reads_it(assemble, target, needed, second):
    """As LLVM has it; the first of two that add to the same registers does not matter, if these are overwritten."""
    product = "  v_mfma_f32_16x16x16f16 {}, v[100:101], v[110:111], {}\n"
    first, reads = product.format("v[2:5]", "v[20:23]"), product.format("v[30:33]", "v[2:5]")
    text = f"{apart(24)}{first}{reads}{apart(needed - 1)}  {second}\n"
    assert findings(assemble, text, target) == []
    (found,) = findings(assemble, text.replace(apart(needed - 1), apart(needed - 2)), target)
    assert found.size == 1 and f"it needs {needed} wait states" in found.message
    before, passes = {"gfx90a": 8, "gfx942": 4, "gfx950": 4}[target], "  v_mov_b32 v2, 0\n"
    text = f"{apart(24)}{reads}{product.format('v[40:43]', 'v[2:5]')}{apart(before - 1)}{passes}"
    assert findings(assemble, text, target) == []
    (found,) = findings(assemble, text.replace(apart(before - 1), apart(before - 2)), target)
    assert found.size == 1 and f"it needs {before - 1} wait states" in found.message


def test_of_accumulators_that_overlap_the_nearest_counts(assemble):
    """As LLVM has it: the second writes all of the third's addend, so what the first wrote of it does not matter."""
    third = XDL_16.format("v[0:3]")
    text = (
        f"{apart(24)}  v_mfma_f32_16x16x16f16 v[2:5], v[100:101], v[110:111], v[2:5]\n{apart(8)}  {third}\n  {third}\n"
    )
    assert findings(assemble, text, "gfx90a") == []
    (found,) = findings(assemble, text.replace(apart(8), apart(7)), "gfx90a")
    assert found.size == 1
