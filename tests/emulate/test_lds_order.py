"""A wave's own LDS operations take effect in the order of their issue, whatever its waits."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulate import frame

WAIT = "  s_waitcnt lgkmcnt(0)\n"
# CDNA3 ISA, "Data share": a wave's LDS instructions are executed in order. True: a lane reads back what it had.
CASES = {
    "write, read": ("  ds_write_b32 v1, v10\n  ds_read_b32 v20, v1\n" + WAIT, True),
    "write twice, read": ("  ds_write_b32 v1, v1\n  ds_write_b32 v1, v10\n  ds_read_b32 v20, v1\n" + WAIT, True),
    "write, read, write": ("  ds_write_b32 v1, v10\n  ds_read_b32 v20, v1\n  ds_write_b32 v1, v1\n" + WAIT, True),
    "write, atomic, read": (
        "  v_mov_b32 v5, 0\n  ds_write_b32 v1, v5\n  ds_add_u32 v1, v10\n  ds_read_b32 v20, v1\n" + WAIT, True,
    ),
    "another lane's": ("  ds_write_b32 v1, v10\n  v_xor_b32 v3, 4, v1\n  ds_read_b32 v20, v3\n" + WAIT, False),
    "a wait for the first": (
        "  ds_write_b32 v1, v10\n  ds_read_b32 v20, v1\n  ds_read_b32 v21, v1\n  s_waitcnt lgkmcnt(1)\n", True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("options", [{}, {"watch": True}, {"watch": True, "poison": True}], ids=["", "watch", "poison"])
@pytest.mark.parametrize("name", CASES)
def test_own_operations_of_lds_are_in_order(assemble, name, options):
    text, own = CASES[name]
    load = "  global_load_dword v10, v1, s[8:9]\n  s_waitcnt vmcnt(0)\n"
    given, out = np.arange(64, dtype=np.uint32) * 7 + 5, np.zeros(64, dtype=np.uint32)
    body = load + text + "  global_store_dword v1, v20, s[10:11]\n"
    outcome = frame.run_body(assemble, body, given, out, lds=1024, **options)
    assert outcome.completed and [str(f) for f in outcome.findings] == []
    np.testing.assert_array_equal(out, given if own else given.reshape(-1, 2)[:, ::-1].ravel())
