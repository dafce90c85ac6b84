"""Jumps, calls, hardware registers, indexed registers, clocks."""

from __future__ import annotations

import numpy as np

from tests.emulate import frame
from tkgen.emulate import TraceRequest


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
