"""Instructions without a result: what each does to the order of others, and that ignoring it is found out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from tests.emulate import frame
from tkgen.emulate import Buffer, Kind, Outcome, decode, launch

NOTHING = "s_icache_inv"  # which the emulator executes as nothing


@dataclass(frozen=True)
class Seen:
    """A run: the outcome, and the first output of each lane."""

    outcome: Outcome
    out: np.ndarray

    def kinds(self) -> set[Kind]:
        return {f.kind for f in self.outcome.findings}


@dataclass(frozen=True)
class Order:
    """Code that needs one instruction, how it runs, and what is true of the run."""

    body: str
    right: Callable[[Seen], bool]
    target: str = "gfx942"
    threads: int = 64
    blocks: int = 1
    watch: bool = True
    cooperative: bool = False


def quiet(seen: Seen) -> bool:
    return seen.outcome.completed and not seen.outcome.findings


STORE = "  global_store_dword v1, v20, s[10:11]\n"
# Two waves; the first writes a dword of LDS for each lane, the second reads it.
WAVES = """
  v_readfirstlane_b32 s20, v1
  v_and_b32 v3, 0xff, v1
  s_cmp_eq_u32 s20, 0
  s_cbranch_scc0 .Lsecond
"""
WRITES = WAVES + "  ds_write_b32 v3, v1\n  s_waitcnt lgkmcnt(0)\n"
READS = ".Lend_of_first:\n  s_endpgm\n.Lsecond:\n{}  ds_read_b32 v20, v3\n  s_waitcnt lgkmcnt(0)\n" + STORE
FLAGGED = (
    WRITES
    + """
  v_mov_b32 v4, 0
  v_mov_b32 v5, 1
  s_mov_b64 exec, 1
  s_waitcnt vmcnt(0) lgkmcnt(0)
  global_atomic_or v4, v5, s[10:11] offset:1024
"""
    + READS.format(
        """
  v_mov_b32 v4, 0
  v_mov_b32 v5, 0
  s_mov_b64 exec, 1
.Lagain:
  global_atomic_or v6, v4, v5, s[10:11] offset:1024 {returns}
  s_waitcnt vmcnt(0)
  v_readfirstlane_b32 s21, v6
  s_cmp_eq_u32 s21, 1
  s_cbranch_scc0 .Lagain
  {invalidates}
  s_mov_b64 exec, -1
"""
    )
)
# Each of two blocks stores a number; behind the barrier it reads that of the other.
GRID = (
    """
  v_mov_b32 v3, 0
  v_mov_b32 v4, 7
  s_lshl_b32 s20, s2, 2
  s_xor_b32 s21, s20, 4
  s_add_u32 s20, s20, 1024
  s_add_u32 s21, s21, 1024
  v_mov_b32 v5, s20
  v_mov_b32 v6, s21
  global_store_dword v5, v4, s[10:11]
  s_waitcnt vmcnt(0)
  v_mov_b32 v8, 1
  s_mov_b32 m0, 0
  s_nop 0
  ds_gws_barrier v8 gds
  s_waitcnt lgkmcnt(0)
  global_load_dword v20, v6, s[10:11]
  s_waitcnt vmcnt(0)
  s_lshl_b32 s22, s2, 8
  v_add_u32 v1, s22, v1
"""
    + STORE
)
# Block 0 stores a row and gives a flag; block 1, on another XCD, waits for the flag and reads the row.
HANDED = """
  v_mov_b32 v4, 0
  v_mov_b32 v5, 1
  s_cmp_eq_u32 s2, 0
  s_cbranch_scc0 .Ltakes
  global_store_dword v1, v1, s[10:11]
  s_waitcnt vmcnt(0)
  buffer_wbl2 sc1
  s_waitcnt vmcnt(0)
  s_mov_b64 exec, 1
  global_store_dword v4, v5, s[10:11] offset:1024 sc1
  s_endpgm
.Ltakes:
  global_load_dword v6, v4, s[10:11] offset:1024 sc1
  s_waitcnt vmcnt(0)
  v_readfirstlane_b32 s21, v6
  s_cmp_eq_u32 s21, 1
  s_cbranch_scc0 .Ltakes
  buffer_inv sc1
  global_load_dword v20, v1, s[10:11]
  s_waitcnt vmcnt(0)
  global_store_dword v1, v20, s[10:11] offset:512
"""

ORDERS = {
    "s_nop": Order(
        "  s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 3\n  s_nop 1\n  s_getreg_b32 s20, hwreg(HW_REG_MODE, 4, 2)\n",
        quiet,
    ),
    "s_waitcnt": Order(
        "  global_load_dword v20, v1, s[8:9]\n  s_waitcnt vmcnt(0)\n  v_add_u32 v20, 1, v20\n" + STORE, quiet
    ),
    "s_barrier": Order(
        WRITES.replace(".Lsecond", ".Lmeet") + ".Lmeet:\n  s_barrier\n  ds_read_b32 v20, v3\n  s_waitcnt lgkmcnt(0)\n",
        quiet, threads=128,
    ),
    "s_endpgm": Order("", quiet),
    # The first wave runs until it stops: what the second one writes is there if it gives up its turn.
    "s_sleep": Order(
        WAVES.replace(".Lsecond", ".Lwrites")
        + "  s_sleep 2\n  ds_read_b32 v20, v3\n  s_waitcnt lgkmcnt(0)\n" + STORE
        + "  s_endpgm\n.Lwrites:\n  v_mov_b32 v20, 7\n  ds_write_b32 v3, v20\n  s_waitcnt lgkmcnt(0)\n",
        lambda seen: seen.outcome.completed and (seen.out[:64] == 7).all(), threads=128, watch=False,
    ),
    "s_setprio": Order(
        "  s_setprio 2\n  s_getreg_b32 s20, hwreg(HW_REG_STATUS, 3, 2)\n  v_mov_b32 v20, s20\n" + STORE,
        lambda seen: (seen.out[:64] == 2).all(),
    ),
    "s_trap": Order("  s_trap 2\n", lambda seen: seen.kinds() == {Kind.TRAP}),
    "s_sethalt": Order("  s_sethalt 1\n", lambda seen: seen.kinds() == {Kind.TRAP}),
    "s_sendmsg": Order("  s_sendmsg sendmsg(MSG_GS_DONE, GS_OP_NOP)\n", lambda s: s.kinds() == {Kind.UNSUPPORTED}),
    "buffer_inv": Order(FLAGGED.format(returns="sc0", invalidates="buffer_inv sc1"), quiet, threads=128),
    "buffer_wbinvl1": Order(FLAGGED.format(returns="glc", invalidates="buffer_wbinvl1"), quiet, "gfx90a", 128),
    "buffer_wbinvl1_vol": Order(FLAGGED.format(returns="glc", invalidates="buffer_wbinvl1_vol"), quiet, "gfx90a", 128),
    "buffer_wbl2": Order(HANDED, quiet, blocks=2),
    "ds_gws_barrier": Order(
        GRID, lambda seen: (seen.out[:128] == 7).all(), blocks=2, cooperative=True, watch=False,
    ),
}  # fmt: skip


def seen(assemble, order: Order) -> Seen:
    path = assemble(frame.kernel(order.body, order.target, lds=512, threads=order.threads), order.target)
    words, out = np.arange(128, dtype=np.uint32), np.zeros(512, dtype=np.uint32)
    outcome = launch(
        path, grid=(order.blocks, 1, 1), block=(order.threads, 1, 1), args=[Buffer(words), Buffer(out)],
        watch=order.watch, cooperative=order.cooperative, budget=10_000,
    )  # fmt: skip
    return Seen(outcome, out)


@pytest.mark.parametrize("name", ORDERS)
def test_an_instruction_orders(assemble, name):
    found = seen(assemble, ORDERS[name])
    assert ORDERS[name].right(found), [str(f) for f in found.outcome.findings]


@pytest.mark.parametrize("name", ORDERS)
def test_an_emulator_that_ignores_it_is_found_out(assemble, name, monkeypatch):
    real = decode._numbering

    def without(target):
        names, maps = real(target)
        assert name in names
        return tuple(NOTHING if n == name else n for n in names), maps

    monkeypatch.setattr(decode, "_numbering", without)
    assert not ORDERS[name].right(seen(assemble, ORDERS[name]))
