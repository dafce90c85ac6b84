"""Registers that hold a value in machine code, and the instruction that made each."""

from __future__ import annotations

from tkgen.toolchain.isa import Function, parse_asm
from tkgen.toolchain.liveness import fullest, relatives


def function(*lines: str) -> Function:
    body = "\n".join(line if line.endswith(":") else f"\t{line}" for line in lines)
    return parse_asm(f"\t.type f,@function\nf:\n{body}\n\ts_endpgm\n\t.size f, .-f\n")["f"]


def made(*lines: str) -> tuple[int, dict[str, int]]:
    peak = fullest(function(*lines))
    return peak.index, {f"{kind}{number}": index for (kind, number), index in peak.made.items()}


def test_a_value_is_live_from_what_makes_it_to_its_last_use() -> None:
    lines = ("v_mov_b32 v1, 1", "v_mov_b32 v2, 2", "v_add_f32 v3, v1, v2", "global_store_dword v0, v3, s[0:1]")
    assert made(*lines) == (1, {"v0": -1, "v1": 0, "v2": 1})


def test_what_a_loop_carries_is_live_in_all_of_it() -> None:
    index, found = made(
        "v_mov_b32 v5, 0", "v_mov_b32 v6, 0", ".LBB0_1:", "global_load_dwordx4 v[1:4], v0, s[0:1]",
        "v_add_f32 v5, v5, v1", "s_cbranch_scc1 .LBB0_1", "global_store_dwordx2 v0, v[5:6], s[0:1]",
    )  # fmt: skip
    # v2 to v4 are written and not read: they hold nothing after that
    assert index == 2 and found == {"v0": -1, "v1": 2, "v2": 2, "v3": 2, "v4": 2, "v5": 0, "v6": 1}


def test_stores_atomics_and_loads_to_lds_write_no_register() -> None:
    for line in ("ds_write_b64 v0, v[1:2]", "buffer_store_dwordx2 v[1:2], v0, s[0:3], 0 offen",
                 "global_atomic_add_f32 v0, v1, s[0:1]", "buffer_load_dword v0, s[0:3], 0 offen lds"):  # fmt: skip
        assert set(made("v_mov_b32 v9, 0", line)[1].values()) <= {-1, 0}
    assert made("ds_add_rtn_u64 v[8:9], v0, v1", "ds_write_b64 v3, v[8:9]")[1] == {"v3": -1, "v8": 0, "v9": 0}


def test_an_accumulator_is_read_by_what_adds_to_it() -> None:
    index, found = made("v_mov_b32 v3, 0", "v_mov_b32 v1, 1", "v_fmac_f32 v3, v1, v1", "ds_write_b32 v0, v3")
    assert index == 1 and found == {"v0": -1, "v1": 1, "v3": 0}
    multiply = "v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]"
    assert made(multiply)[1] == {f"{kind}{n}": -1 for kind, count in (("a", 16), ("v", 4)) for n in range(count)}


def test_relatives_use_a_result_as_data() -> None:
    found = relatives(function(
        "v_add_u32 v1, v0, v0",  # an address: nothing uses it as data
        "global_load_dword v2, v1, s[0:1]",
        "v_exp_f32 v3, v2",
        "s_cbranch_scc1 .LBB0_1",
        "v_mul_f32 v3, v3, v3",
        ".LBB0_1:",
        "global_store_dword v1, v3, s[0:1]",
        "buffer_store_dword v2, v1, s[0:3], 0 offen",
    ))  # fmt: skip
    assert found == [(), (2, 6), (4, 5), (), (5,), (2, 4), (1,), ()]


def test_relatives_go_round_a_loop() -> None:
    found = relatives(function(
        "v_mov_b32 v5, 0", ".LBB0_1:", "v_add_f32 v6, v5, v5", "v_mov_b32 v5, v6", "s_cbranch_scc1 .LBB0_1",
    ))  # fmt: skip
    assert found == [(1,), (2,), (1,), (), ()]
