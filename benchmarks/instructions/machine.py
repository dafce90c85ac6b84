"""Cases run on the emulator: one kernel per batch, each case a frame around one instruction.

A case gets v[10:17] and v[20:23], s[20:23], VCC, EXEC, M0, s[30:33], SCC and the mode register, and gives back
v[20:23], v[10:13], s[30:33], VCC, EXEC, SCC and M0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import numpy.typing as npt

from tkgen.emulate import Buffer, launch
from tkgen.hardware import assembly
from tkgen.targets import Target, load_target
from tkgen.toolchain.compiler import Compiler
from tkgen.toolchain.discover import find_compiler

ROWS_IN = 12  # v10..v17, v20..v23
_IN, OUT = 3 * 1024 + 64, 5 * 1024
ALL_LANES = (1 << 64) - 1
Rows = npt.NDArray[np.uint32]


@dataclass
class State:
    """Registers before or after an instruction; `rows` is [12, 64]: v10..v17, then v20..v23."""

    rows: Rows
    scalars: list[int] = field(default_factory=lambda: [0] * 4)  # s20..s23
    vcc: int = 0
    exec: int = ALL_LANES
    m0: int = 0
    scc: int = 0
    low: int = 0  # s[30:31]
    high: int = 0  # s[32:33]
    # The fields of MODE: denormals (4 bits), DX10_CLAMP, IEEE; FP16_OVFL.
    mode: int = 0b11_1111
    overflow: int = 0


def around(middle: str, step: int) -> str:
    """Assembly of a case: its state loaded, `middle`, and the state stored. The next result is `step` bytes on."""
    results = ("s30", "s31", "s32", "s33", "vcc_lo", "vcc_hi", "s34", "s35", "s56", "s57")
    moves = "\n".join(f"  v_mov_b32 v{30 + i}, {s}" for i, s in enumerate(results))
    return f"""
  global_load_dwordx4 v[10:13], v2, s[8:9]
  global_load_dwordx4 v[14:17], v2, s[8:9] offset:1024
  global_load_dwordx4 v[20:23], v2, s[8:9] offset:2048
  s_load_dwordx16 s[40:55], s[8:9], 3072
  s_waitcnt vmcnt(0) lgkmcnt(0)
  s_mov_b64 s[20:21], s[40:41]
  s_mov_b64 s[22:23], s[42:43]
  s_mov_b64 vcc, s[44:45]
  s_mov_b64 s[30:31], s[46:47]
  s_mov_b64 s[32:33], s[54:55]
  s_mov_b32 m0, s50
  s_setreg_b32 hwreg(HW_REG_MODE, 4, 6), s51
  s_bfe_u32 s56, s52, 0x10001
  s_setreg_b32 hwreg(HW_REG_MODE, 23, 1), s56
  s_bitcmp1_b32 s52, 0
{middle}
  s_cselect_b32 s56, 1, 0
  s_mov_b64 s[34:35], exec
  s_mov_b64 exec, -1
  s_mov_b32 s57, m0
{moves}
  global_store_dwordx4 v2, v[20:23], s[10:11]
  global_store_dwordx4 v2, v[10:13], s[10:11] offset:1024
  global_store_dwordx4 v2, v[30:33], s[10:11] offset:2048
  global_store_dwordx4 v2, v[34:37], s[10:11] offset:3072
  s_add_u32 s12, s10, 4096
  s_addc_u32 s13, s11, 0
  global_store_dwordx2 v2, v[38:39], s[12:13]
  s_add_u32 s8, s8, {_IN}
  s_addc_u32 s9, s9, 0
  s_add_u32 s10, s10, {step}
  s_addc_u32 s11, s11, 0
"""


def _frame(words: Sequence[int] | str) -> str:
    if isinstance(words, str):
        return around(words, OUT)
    code = "\n".join(f"  .long 0x{w:08x}" for w in words)
    return around(f"  s_mov_b64 exec, s[48:49]\n{code}", OUT)


def kernel(body: str, target: str, *, lds: int = 0, scratch: int = 0) -> str:
    """Assembly of one kernel `k`: two pointers in s[8:9] and s[10:11], lane * 16 in v2."""
    return assembly.kernel(target, "k", _ARGUMENTS + body, lds=lds, scratch=scratch, threads=64)


_ARGUMENTS = """\
  s_load_dwordx4 s[8:11], s[0:1], 0x0
  v_and_b32 v1, 0x3ff, v0
  v_lshlrev_b32 v2, 4, v1
  s_waitcnt lgkmcnt(0)
"""


@cache
def _toolchain(target: str) -> tuple[Target, Compiler]:
    found = load_target(target)
    return found, find_compiler(found)


def assembled(text: str, target: str) -> bytes:
    """The code object of an assembly text."""
    return assembly.code_of(text, *_toolchain(target))


def packed(states: Sequence[State]) -> npt.NDArray[np.uint8]:
    """The states as the kernel reads them."""
    made = np.zeros((len(states), _IN // 4), dtype=np.uint32)
    for out, s in zip(made, states, strict=True):
        for group in range(3):
            out[256 * group : 256 * group + 256] = s.rows[4 * group : 4 * group + 4].T.reshape(-1)
        words = [*s.scalars]
        for wide in (s.vcc, s.low, s.exec):
            words += [wide & 0xFFFFFFFF, wide >> 32]
        words += [s.m0, s.mode, s.scc | s.overflow << 1, 0, s.high & 0xFFFFFFFF, s.high >> 32]
        out[768:784] = words
    return made.view(np.uint8)


def unpacked(raw: npt.NDArray[np.uint32], before: State) -> State:
    """The state that a case left; what it does not store is as before."""

    def rows(group: int) -> Rows:
        return raw[256 * group : 256 * group + 256].reshape(64, 4).T

    def wide(group: int, row: int) -> int:
        return int(rows(group)[row, 0]) | int(rows(group)[row + 1, 0]) << 32

    made = before.rows.copy()
    made[8:], made[:4] = rows(0), rows(1)
    return State(
        made,
        [*before.scalars],
        wide(3, 0),
        wide(3, 2),
        int(raw[1025]),
        int(raw[1024]),
        wide(2, 0),
        wide(2, 2),
        before.mode,
        before.overflow,
    )


def run(cases: Sequence[tuple[Sequence[int] | str, State]], target: str, batch: int = 1500) -> list[State]:
    """The state after each instruction (its words, or a body of assembly; the state before)."""
    made: list[State] = []
    for first in range(0, len(cases), batch):
        some = cases[first : first + batch]
        code = assembled(kernel("".join(_frame(words) for words, _ in some), target), target)
        out = np.zeros((len(some), OUT // 4), dtype=np.uint32)
        inputs = packed([s for _, s in some])
        outcome = launch(code, grid=(1, 1, 1), block=(64, 1, 1), args=[Buffer(inputs), Buffer(out)])
        assert outcome.completed and not outcome.findings, [str(f) for f in outcome.findings][:3]
        made += [unpacked(raw, state) for raw, (_, state) in zip(out, some, strict=True)]
    return made
