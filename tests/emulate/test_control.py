"""Jumps, calls, hardware registers, indexed registers, clocks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulate import frame
from tkgen.emulate import Kind, TraceRequest


def run(assemble, body: str, count: int = 4, target: str = "gfx942", **options):
    """The values left in s40..s40+count, one per lane row."""
    stores = "".join(
        f"  v_mov_b32 v10, s{40 + i}\n  global_store_dword v1, v10, s[10:11] offset:{256 * i}\n" for i in range(count)
    )
    out = np.zeros((count, 64), dtype=np.uint32)
    outcome = frame.run_body(assemble, body + stores, np.zeros(64, dtype=np.uint32), out, target, **options)
    assert outcome.completed and outcome.findings == ()
    return out[:, 0].tolist(), outcome


def test_branches(assemble):
    body = "  s_mov_b32 s40, 0\n  s_mov_b32 s41, 0\n"
    taken = {
        "s_cmp_eq_u32 s41, 0\n  s_cbranch_scc1": True,
        "s_cmp_eq_u32 s41, 0\n  s_cbranch_scc0": False,
        "s_mov_b64 vcc, 0\n  s_cbranch_vccz": True,
        "s_mov_b64 vcc, 4\n  s_cbranch_vccz": False,
        "s_mov_b64 vcc, 4\n  s_cbranch_vccnz": True,
        "s_mov_b64 exec, 0\n  s_cbranch_execz": True,
        "s_mov_b64 exec, 0\n  s_cbranch_execnz": False,
        "s_mov_b64 exec, -1\n  s_cbranch_execnz": True,
        "s_branch": True,
    }
    for i, text in enumerate(taken):
        body += f"  {text} .L{i}\n  s_bitset1_b32 s40, {i}\n.L{i}:\n"
    body += "  s_mov_b64 exec, -1\n"
    values, _ = run(assemble, body, 1)
    assert values[0] == sum(1 << i for i, t in enumerate(taken.values()) if not t)


def test_calls_and_returns(assemble):
    body = """
  s_mov_b32 s40, 1
  s_mov_b32 s41, 0
  s_call_b64 s[20:21], .Ldouble
  s_getpc_b64 s[22:23]
.Lhere:
  s_add_u32 s22, s22, .Ldouble-.Lhere
  s_addc_u32 s23, s23, 0
  s_swappc_b64 s[20:21], s[22:23]
  s_branch .Lon
.Ldouble:
  s_lshl_b32 s40, s40, 1
  s_add_u32 s41, s41, 1
  s_setpc_b64 s[20:21]
.Lon:
"""
    assert run(assemble, body, 2)[0] == [4, 2]


def test_loop_trace(assemble):
    body = """
  s_mov_b32 s40, 0
.Lloop:
  s_add_u32 s40, s40, 3
  s_cmp_lt_u32 s40, 30
  s_cbranch_scc1 .Lloop
"""
    values, outcome = run(assemble, body, 1, trace=TraceRequest())
    assert values == [30]
    assert outcome.opcodes["s_cbranch_scc1"] == 10
    indices = outcome.trace.index.tolist()
    loop = [i for i in indices if outcome.program.mnemonic(i) == "s_add_u32"]
    assert len(loop) == 10 and len(set(loop)) == 1


def test_hardware_registers(assemble):
    body = """
  s_getreg_b32 s40, hwreg(HW_REG_MODE, 4, 4)
  s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 1
  s_getreg_b32 s41, hwreg(HW_REG_MODE, 4, 4)
  s_mov_b32 s20, 2
  s_setreg_b32 hwreg(HW_REG_MODE, 6, 2), s20
  s_getreg_b32 s42, hwreg(HW_REG_MODE, 4, 4)
  s_getreg_b32 s43, hwreg(HW_REG_XCC_ID)
"""
    assert run(assemble, body)[0] == [15, 13, 9, 0]


def test_clock_moves_forward(assemble):
    body = """
  s_memtime s[40:41]
  s_nop 0
  s_memtime s[42:43]
  s_waitcnt lgkmcnt(0)
"""
    first, _, second, _ = run(assemble, body)[0]
    assert second > first


def test_indexed_registers(assemble):
    body = """
  s_mov_b32 s20, 7
  s_mov_b32 s27, 99
  s_mov_b32 m0, 7
  s_movrels_b32 s40, s20
  s_movreld_b32 s34, s27
  s_mov_b32 s42, 0
  v_mov_b32 v20, 5
  v_mov_b32 v27, 6
  s_set_gpr_idx_on s20, gpr_idx(SRC0)
  v_mov_b32 v30, v20
  s_set_gpr_idx_mode gpr_idx(DST)
  v_mov_b32 v31, v20
  s_set_gpr_idx_off
  v_readfirstlane_b32 s42, v30
  v_readfirstlane_b32 s43, v38
"""
    assert run(assemble, body)[0] == [99, 99, 6, 5]


@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
def test_an_index_moves_the_operands_that_its_mask_names(assemble, target):
    """The second register of v_madmk is its third operand; MODE itself turns the index on and off."""
    name = "v_madmk_f32" if target == "gfx90a" else "v_fmamk_f32"
    body = f"""
  v_mov_b32 v20, 1.0
  v_mov_b32 v21, 2.0
  v_mov_b32 v22, 4.0
  v_mov_b32 v23, 8.0
  s_mov_b32 s20, 1
  s_set_gpr_idx_on s20, 4
  {name} v24, v20, 0x41200000, v22
  s_set_gpr_idx_mode 2
  {name} v25, v20, 0x41200000, v22
  s_set_gpr_idx_off
  s_setreg_imm32_b32 hwreg(HW_REG_MODE, 27, 1), 1
  s_set_gpr_idx_mode 1
  v_mov_b32 v26, v20
  s_setreg_imm32_b32 hwreg(HW_REG_MODE, 27, 1), 0
  v_mov_b32 v27, v20
  v_cvt_u32_f32 v24, v24
  v_cvt_u32_f32 v25, v25
  v_cvt_u32_f32 v26, v26
  v_cvt_u32_f32 v27, v27
""" + "".join(f"  v_readfirstlane_b32 s{40 + i}, v{24 + i}\n" for i in range(4))
    assert run(assemble, body, target=target)[0] == [18, 14, 2, 1]


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("gfx942", "s_getreg_b32 s20, hwreg(HW_REG_TRAPSTS)"),
        ("gfx942", "s_getreg_b32 s20, hwreg(HW_REG_STATUS)"),
        ("gfx942", "s_getreg_b32 s20, hwreg(HW_REG_LDS_ALLOC, 12, 9)"),
        ("gfx90a", "s_getreg_b32 s20, hwreg(20)"),
        ("gfx942", "s_setreg_imm32_b32 hwreg(HW_REG_STATUS, 3, 2), 1"),
        ("gfx942", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 1"),
        ("gfx942", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 12, 7), 4"),
        ("gfx942", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 28, 1), 1"),
        ("gfx942", "s_mov_b32 s20, 0\n  s_set_gpr_idx_on s20, 1\n  v_accvgpr_write_b32 a1, v1"),
        ("gfx942", "s_mov_b32 s20, 0\n  s_set_gpr_idx_on s20, 1\n  v_mfma_f32_4x4x1_16b_f32 v[4:7], v1, v1, 0"),
        ("gfx950", "s_mov_b64 exec, -2\n  ds_read_b64_tr_b16 v[4:5], v1"),
    ],
)
def test_what_is_not_modelled_is_refused(assemble, target, text):
    words = np.zeros(64, dtype=np.uint32)
    outcome = frame.run_body(assemble, f"  {text}\n", words, words.copy(), target, lds=1024)
    assert [f.kind for f in outcome.findings] == [Kind.UNSUPPORTED] and not outcome.completed


def test_a_clock_of_the_block(assemble):
    """What one wave reads behind a barrier is later than what another has read before it."""
    body = """
  v_readfirstlane_b32 s20, v1
  s_mov_b64 s[24:25], 0
  s_cmp_lg_u32 s20, 0
  s_cbranch_scc1 .Lmeet
  s_nop 0
  s_nop 0
  s_nop 0
  s_nop 0
  s_memtime s[24:25]
  s_waitcnt lgkmcnt(0)
.Lmeet:
  s_barrier
  s_cmp_lg_u32 s20, 0
  s_cbranch_scc0 .Lstore
  s_memtime s[24:25]
  s_waitcnt lgkmcnt(0)
.Lstore:
  v_mov_b32 v10, s24
  global_store_dword v1, v10, s[10:11]
"""
    words, out = np.zeros(64, dtype=np.uint32), np.zeros(128, dtype=np.uint32)
    assert frame.run_body(assemble, body, words, out, threads=128).completed
    assert 0 < out[0] < out[64]
