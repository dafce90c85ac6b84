"""Payloads of numbers that integers round, pack and move bit by bit, against Python's integers.

A case reads three rows of f32, a, b and c, from v10, v11 and v12, and stores to an output of some format.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from tests.emulate.frame import kernel
from tkgen.emulate import Buffer, Outcome, launch
from tkgen.emulate.algebra import LOST, NEVER_WRITTEN, P, Q

WIDTH = {"f32": 32, "f16": 16, "fp8": 8, "i8": 8, "i32": 32, "fp6": 6, "fp4": 4}
STORE = "  global_store_dword v1, v20, s[10:11]"


def image(number: float, modulus: int) -> int:
    numerator, denominator = float(number).as_integer_ratio()
    return numerator * pow(denominator, -1, modulus) % modulus


@dataclass(frozen=True)
class Ran:
    real: np.ndarray  # rows of 64
    payload: np.ndarray  # rows of 64, two fields
    made: np.ndarray  # [64, numbers of a lane, two fields]
    outcome: Outcome


def run(assemble, body: str, form: str, *, store: str = STORE, target: str = "gfx942", scale: float = 4, size: int = 4):
    """One case; `size` bytes of each lane are the output."""
    rng = np.random.default_rng(16)
    real = (rng.standard_normal((3, 64)) * scale).astype(np.float32)
    payload = np.stack([rng.integers(1, m, 192) for m in (P, Q)], axis=1).astype(np.uint32)
    numbers = 64 * size * 8 // WIDTH[form]
    made, result = np.full((numbers, 2), NEVER_WRITTEN[0], np.uint32), np.zeros(64 * size, np.uint8)
    loads = "\n".join(f"  global_load_dword v{10 + i}, v1, s[8:9] offset:{256 * i}" for i in range(3))
    text = f"{loads}\n  s_waitcnt vmcnt(0)\n{body}\n  s_nop 7\n{store}\n"
    args = [Buffer(real, payload=payload), Buffer(result, payload=made, format=form)]
    path = assemble(kernel(text, target, lds=4096), target)
    outcome = launch(path, grid=(1, 1, 1), block=(64, 1, 1), args=args, algebra=True)
    assert outcome.completed and not outcome.findings, [str(f) for f in outcome.findings]
    return Ran(real, payload.reshape(3, 64, 2), made.reshape(64, -1, 2), outcome)


def rows(ran: Ran, places: list[int], change: Callable[[int, int], int] = lambda x, modulus: x) -> np.ndarray:
    """The payloads of these inputs side by side, changed."""
    found = np.zeros((64, len(places), 2), object)
    for at, row in enumerate(places):
        for field, modulus in enumerate((P, Q)):
            found[:, at, field] = [change(int(x), modulus) % modulus for x in ran.payload[row, :, field]]
    return found


def agree(ran: Ran, wanted: np.ndarray) -> None:
    assert ran.outcome.lost == (), ran.outcome.lost
    np.testing.assert_array_equal(ran.made[:, : wanted.shape[1]].astype(object), wanted)


# ---------------------------------------------------------------- bytes


NEAREST = "\n".join(f"v_rndne_f32 v1{i}, v1{i}\nv_cvt_i32_f32 v1{i}, v1{i}" for i in range(3))
PACKED = {
    "sdwa": "v_lshlrev_b32_sdwa v11, v15, v11 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:DWORD src1_sel:BYTE_0\n"
    "v_or_b32_sdwa v14, v10, v11 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_0 src1_sel:DWORD\n"
    "v_and_b32 v12, 0xff, v12\nv_lshl_or_b32 v20, v12, 16, v14",
    "masks": "v_and_b32 v10, 0xff, v10\nv_and_b32 v11, 0xff, v11\nv_lshl_or_b32 v14, v11, 8, v10\n"
    "v_lshlrev_b32 v12, 16, v12\nv_or_b32 v20, v14, v12",
    "sums": "v_and_b32 v10, 0xff, v10\nv_and_b32 v11, 0xff, v11\nv_and_b32 v12, 0xff, v12\n"
    "v_lshl_add_u32 v14, v11, 8, v10\nv_lshl_add_u32 v20, v12, 16, v14",
    "perm": "s_mov_b32 s20, 0xc0c0400\ns_mov_b32 s21, 0xc040100\nv_perm_b32 v14, v11, v10, s20\n"
    "v_perm_b32 v20, v12, v14, s21",
    "in lds": "ds_write_b8 v1, v10\nds_write_b8 v1, v11 offset:1\nds_write_b8 v1, v12 offset:2\nds_read_b32 v20, v1\n"
    "s_waitcnt lgkmcnt(0)",
}


@pytest.mark.parametrize("how", PACKED)
def test_roundings_to_bytes(assemble, how: str):
    agree(run(assemble, f"v_mov_b32 v15, 8\n{NEAREST}\n{PACKED[how]}", "i8"), rows(run(assemble, "", "i32"), [0, 1, 2]))


def test_a_byte_that_is_not_the_one_meant_is_another_number(assemble):
    ran = run(assemble, f"{NEAREST}\nv_add_u32 v10, 1, v10\nv_and_b32 v20, 0xff, v10", "i8")
    agree(ran, rows(ran, [0], lambda x, modulus: x + 1))
    none = run(assemble, f"{NEAREST}\nv_mul_lo_u32 v20, v10, v11", "i32")  # a product of integers is what it is
    product = np.rint(none.real[0]) * np.rint(none.real[1])
    agree(none, np.array([[[image(x, m) for m in (P, Q)]] for x in product], object))


def test_what_is_clamped_is_the_limit(assemble):
    body = f"{NEAREST}\nv_mov_b32 v13, 3\nv_med3_i32 v20, v10, -3, v13\nv_and_b32 v20, 0xff, v20"
    ran, floats = run(assemble, body, "i8"), run(
        assemble,
        "v_rndne_f32 v10, v10\nv_mov_b32 v13, 0x40400000\nv_max_f32 v10, 0xc0400000, v10\nv_min_f32 v10, v13, v10\n"
        "v_cvt_i32_f32 v20, v10\nv_and_b32 v20, 0xff, v20",
        "i8",
    )  # fmt: skip
    whole = np.rint(ran.real[0])
    own = rows(ran, [0])
    for found in (ran.made, floats.made):
        for lane in range(64):
            limit = [image(np.clip(whole[lane], -3, 3), m) for m in (P, Q)]
            if abs(whole[lane]) != 3:
                assert found[lane, 0].tolist() == (own[lane, 0].tolist() if abs(whole[lane]) < 3 else limit)
            else:
                assert found[lane, 0].tolist() in (own[lane, 0].tolist(), limit)


def test_a_rounded_float_is_a_plain_number(assemble):
    """But for conversions to integers: in sums, in memory, and added in memory."""
    nearest = "v_rndne_f32 v14, v10\n"
    lds = "ds_write_b32 v1, v11\nds_add_f32 v1, v14\nds_read_b32 v20, v1\ns_waitcnt lgkmcnt(0)"
    ran = [run(assemble, nearest + body, "f32") for body in ("v_mov_b32 v20, v14", lds, "v_add_f32 v20, v14, v11")]
    plain = np.array([[[image(x, m) for m in (P, Q)]] for x in np.rint(ran[0].real[0])], object)
    agree(ran[0], plain)
    for sums in ran[1:]:
        agree(sums, (plain + rows(sums, [1])) % np.array([P, Q], object))


# ---------------------------------------------------------------- floats put together by integers


HALF = (  # to the nearest, as integers do it: what is added to round, and the change of the exponent's bias, in one sum
    "v_bfe_u32 v14, v10, 13, 1\nv_and_b32 v15, 0x7fffffff, v10\ns_mov_b32 s20, 0xc8000fff\n"
    "v_add3_u32 v14, v15, v14, s20\nv_lshrrev_b32 v14, 13, v14\nv_lshrrev_b32 v15, 16, v10\n"
    "s_mov_b32 s21, 0x8000\nv_and_or_b32 v20, v15, s21, v14"
)
APART = HALF.replace("0xc8000fff", "0xfff").replace(
    "v_lshrrev_b32 v14", "v_add_u32 v14, 0xc8000000, v14\nv_lshrrev_b32 v14", 1
)
FP8 = (  # e4m3 of normal numbers: three bits of the fraction, a bias of 7
    "v_bfe_u32 v14, v10, 20, 1\nv_and_b32 v15, 0x7fffffff, v10\ns_mov_b32 s20, 0x7ffff\nv_add3_u32 v14, v15, v14, s20\n"
    "v_lshrrev_b32 v14, 20, v14\nv_add_u32 v14, 0xfffffc40, v14\nv_lshrrev_b32 v15, 24, v10\n"
    "s_movk_i32 s21, 0x80\nv_and_or_b32 v20, v15, s21, v14"
)


@pytest.mark.parametrize(
    ("body", "form"), [(HALF, "f16"), (APART, "f16"), (FP8, "fp8")], ids=["f16", "two sums", "fp8"]
)
def test_floats_rounded_by_integers(assemble, body: str, form: str):
    store = f"  global_store_{'short' if form == 'f16' else 'byte'} v1, v20, s[10:11]"
    ran = run(assemble, body, form, store=store)
    agree(ran, rows(ran, [0]))
    wrong = run(assemble, body.replace("0xc8000", "0xc8800").replace("0xfffffc40", "0xfffffc48"), form, store=store)
    agree(wrong, rows(wrong, [0], lambda x, modulus: 2 * x))  # an exponent that is one too large


def test_exponents_changed_by_integers(assemble):
    ran = run(assemble, "v_add_u32 v20, 0x1000000, v10", "f32")
    agree(ran, rows(ran, [0], lambda x, modulus: 4 * x))


def six(code: int, source: str) -> str:
    """e2m3 of an f32 below 7.5, in a register: units of its last place are the lowest bits of a sum."""
    v = [f"v{code + i}" for i in range(4)]
    return (
        f"v_and_b32 {v[0]}, 0x7fffffff, {source}\nv_and_b32 {v[1]}, 0x7f800000, {v[0]}\nv_max_u32 {v[1]}, 1.0, {v[1]}\n"
        f"v_add_u32 {v[2]}, 0xa000000, {v[1]}\nv_add_f32 {v[0]}, {v[0]}, {v[2]}\nv_lshrrev_b32 {v[3]}, 20, {v[1]}\n"
        f"v_sub_u32 {v[3]}, {v[3]}, {v[1]}\ns_mov_b32 s20, 0xf5fffc08\nv_add3_u32 {v[0]}, {v[3]}, {v[0]}, s20\n"
        f"v_lshrrev_b32 {v[1]}, 26, {source}\nv_and_or_b32 {v[0]}, {v[1]}, 32, {v[0]}\n"
    )


SIX = "".join(six(10 * (i + 2), f"v1{i}") for i in range(3)) + "v_mul_u32_u24 v9, 3, v0\n"
BYTES = "\n".join(f"global_store_byte v9, v2{i}, s[10:11] offset:{i}" for i in range(3))
WORD = f"v_lshrrev_b32 v21, 8, v20\nv_lshrrev_b32 v22, 16, v20\n{BYTES}"
PACKERS = {
    "or3": f"v_lshlrev_b32 v12, 12, v40\nv_lshlrev_b32 v13, 6, v30\nv_or3_b32 v20, v20, v12, v13\n{WORD}",
    "shift and or": f"v_lshl_or_b32 v14, v30, 6, v20\nv_lshl_or_b32 v20, v40, 12, v14\n{WORD}",
    "sums": f"v_lshl_add_u32 v14, v30, 6, v20\nv_lshl_add_u32 v20, v40, 12, v14\n{WORD}",
    "bytes": "v_lshl_or_b32 v20, v30, 6, v20\nv_lshlrev_b32 v13, 4, v40\nv_lshrrev_b32 v12, 2, v30\n"
    f"v_and_or_b32 v21, v12, 15, v13\nv_lshrrev_b32 v22, 4, v40\n{BYTES}",
}


@pytest.mark.parametrize("how", PACKERS)
def test_six_bits_each(assemble, how: str):
    ran = run(assemble, SIX, "fp6", store=PACKERS[how], scale=1.5, size=3)
    wanted = rows(ran, [0, 1, 2])
    np.testing.assert_array_equal(ran.made[:, :3].astype(object), wanted)
    assert ran.outcome.lost == ()


def test_lanes_that_shift_by_amounts_of_their_own(assemble):
    """Odd lanes have the second number before the third, even ones after it; the last 32 take no part in one step."""
    packed = (
        "v_lshrrev_b32 v50, 2, v1\nv_and_b32 v50, 1, v50\nv_mul_u32_u24 v50, 6, v50\nv_sub_u32 v50, 12, v50\n"
        "v_sub_u32 v51, 18, v50\nv_lshlrev_b32 v12, v50, v30\nv_lshlrev_b32 v13, v51, v40\n"
        "s_mov_b64 s[24:25], exec\ns_mov_b64 exec, 0xffffffff\nv_or3_b32 v14, v20, v12, v13\n"
        "s_not_b64 exec, exec\nv_or_b32 v14, v20, v12\nv_or_b32 v14, v14, v13\ns_mov_b64 exec, s[24:25]\n"
    )
    ran = run(assemble, SIX, "fp6", store=f"{packed}v_mov_b32 v20, v14\n{WORD}", scale=1.5, size=3)
    wanted = rows(ran, [0, 1, 2])
    wanted[::2] = wanted[::2, [0, 2, 1]]
    np.testing.assert_array_equal(ran.made[:, :3].astype(object), wanted)
    assert ran.outcome.lost == ()


def test_six_bits_with_mistakes(assemble):
    def stored(body: str, store: str) -> Ran:
        return run(assemble, body, "fp6", store=store, scale=1.5, size=3)

    exponent = stored(SIX.replace("0xf5fffc08", "0xf5fffc10", 1), PACKERS["or3"])
    assert (exponent.made[:, 0].astype(object) != rows(exponent, [0])[:, 0]).any()
    overlapping = stored(SIX, PACKERS["or3"].replace("v13, 6, v30", "v13, 5, v30"))
    assert (overlapping.made[:, 0, 0] == LOST[0]).any() and overlapping.outcome.lost
    half = stored(SIX, "global_store_byte v9, v20, s[10:11]")
    assert (half.made[:, 1] == LOST[0]).all(), "of the second number two bits are stored"


# ---------------------------------------------------------------- transposing reads


@pytest.mark.parametrize(("bits", "form", "width"), [(4, "fp4", 64), (6, "fp6", 96)])
def test_transposing_reads(assemble, bits: int, form: str, width: int):
    """Each of 16 lanes reads packed values that are 16 apart."""
    dwords, count = width // 32, width // bits
    name = f"ds_read_b{width}_tr_b{bits}"
    text = f"""
  v_mul_u32_u24 v9, {dwords}, v1
  v_lshlrev_b32 v8, {1 if width == 64 else 2}, v1
  global_load_dwordx{dwords} v[10:{9 + dwords}], v9, s[8:9]
  s_waitcnt vmcnt(0)
  ds_write_b{width} v8, v[10:{9 + dwords}]
  s_waitcnt lgkmcnt(0)
  {name} v[20:{19 + dwords}], v8
  s_waitcnt lgkmcnt(0)
  global_store_dwordx{dwords} v9, v[20:{19 + dwords}], s[10:11]
"""
    rng = np.random.default_rng(17)
    data, result = rng.integers(0, 256, 64 * width // 8).astype(np.uint8), np.zeros(64 * width // 8, np.uint8)
    numbers = 64 * count
    payload = np.stack([rng.integers(1, m, numbers) for m in (P, Q)], axis=1).astype(np.uint32)
    made = np.full((numbers, 2), NEVER_WRITTEN[0], np.uint32)
    args = [Buffer(data, payload=payload, format=form), Buffer(result, payload=made, format=form)]
    path = assemble(kernel(text, "gfx950", lds=4096), "gfx950")
    outcome = launch(path, grid=(1, 1, 1), block=(64, 1, 1), args=args, algebra=True)
    assert outcome.completed and not outcome.findings and outcome.lost == ()
    wanted = payload.reshape(4, count, 16, 2).transpose(0, 2, 1, 3).reshape(numbers, 2)
    np.testing.assert_array_equal(made, wanted)
