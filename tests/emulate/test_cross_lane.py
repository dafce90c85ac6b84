"""Instructions that move values between lanes: DPP, SDWA, lane reads, permutations, swaps."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulate import frame

LANE = np.arange(64)
ROW, IN = LANE & ~15, LANE & 15


def data(cases: int) -> np.ndarray:
    rng = np.random.default_rng(7)
    return rng.integers(0, 1 << 32, (cases, frame.ROWS_IN, 64), dtype=np.uint32)


# The lane each lane reads, or -1.
DPP = {
    "quad_perm:[1,0,3,2]": LANE ^ 1,
    "quad_perm:[3,3,0,1]": (LANE & ~3) | np.array([3, 3, 0, 1])[LANE & 3],
    **{f"row_shl:{n}": np.where(IN + n < 16, LANE + n, -1) for n in (1, 7, 15)},
    **{f"row_shr:{n}": np.where(IN - n >= 0, LANE - n, -1) for n in (1, 8, 15)},
    **{f"row_ror:{n}": ROW | (IN - n) % 16 for n in (1, 5)},
    "wave_shl:1": np.where(LANE < 63, LANE + 1, -1),
    "wave_rol:1": (LANE + 1) % 64,
    "wave_shr:1": LANE - 1,
    "wave_ror:1": (LANE - 1) % 64,
    "row_mirror": ROW | (15 - IN),
    "row_half_mirror": (LANE & ~7) | (7 - (LANE & 7)),
    "row_bcast:15": np.where(LANE < 16, -1, ROW - 1),
    "row_bcast:31": np.where(LANE < 32, -1, 31),
    "row_newbcast:5": ROW | 5,
}
MASKS = [(0xF, 0xF, 0), (0xF, 0xF, 1), (0x5, 0xF, 1), (0xF, 0x6, 0)]


@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
def test_dpp(assemble, target):
    jobs = [(text, source, mask) for text, source in DPP.items() for mask in MASKS]
    texts = [
        f"v_mov_b32_dpp v20, v10 {t} row_mask:0x{r:x} bank_mask:0x{b:x}{' bound_ctrl:0' if bc else ''}"
        for t, _, (r, b, bc) in jobs
    ]
    inputs = data(len(jobs))
    out = frame.run_vector(assemble, texts, inputs, target)
    for i, (_, source, (row_mask, bank_mask, bound)) in enumerate(jobs):
        enabled = (row_mask >> (LANE >> 4) & 1) & (bank_mask >> (LANE >> 2 & 3) & 1) == 1
        moved = np.where(source >= 0, inputs[i, 0][source], 0)
        write = enabled & ((source >= 0) | bool(bound))
        np.testing.assert_array_equal(out[i, 0], np.where(write, moved, inputs[i, 6]), err_msg=texts[i])


def test_dpp_on_an_operation_and_inactive_lanes(assemble):
    texts = ["s_mov_b64 exec, 0x0f0f\nv_add_u32_dpp v20, v10, v12 row_shr:2 row_mask:0xf bank_mask:0xf bound_ctrl:0"]
    inputs = data(1)
    out = frame.run_vector(assemble, texts, inputs)
    exec_mask = np.array([0x0F0F >> i & 1 if i < 16 else 0 for i in range(64)], dtype=bool)
    source = LANE - 2
    good = (source >= 0) & (IN >= 2) & exec_mask[source]
    added = np.where(good, inputs[0, 0][source], 0) + inputs[0, 2]
    np.testing.assert_array_equal(out[0, 0], np.where(exec_mask, added, inputs[0, 6]))


SELECTS = {
    "BYTE_0": (0, 8),
    "BYTE_1": (8, 8),
    "BYTE_2": (16, 8),
    "BYTE_3": (24, 8),
    "WORD_0": (0, 16),
    "WORD_1": (16, 16),
    "DWORD": (0, 32),
}


def test_sdwa(assemble):
    jobs = [
        (d, u, a, b)
        for d in SELECTS
        for u in ("PAD", "SEXT", "PRESERVE")
        for a, b in (("BYTE_3", "WORD_1"), ("DWORD", "BYTE_1"))
    ]
    texts = [
        f"v_add_u32_sdwa v20, v10, sext(v12) dst_sel:{d} dst_unused:UNUSED_{u} src0_sel:{a} src1_sel:{b}"
        for d, u, a, b in jobs
    ]
    inputs = data(len(jobs))
    out = frame.run_vector(assemble, texts, inputs, "gfx90a")
    for i, (d, unused, a, b) in enumerate(jobs):
        shift, width = SELECTS[a]
        x = inputs[i, 0].astype(np.int64) >> shift & ((1 << width) - 1)
        shift, width = SELECTS[b]
        y = inputs[i, 2].astype(np.int64) >> shift & ((1 << width) - 1)
        y = np.where(y >> (width - 1), y - (1 << width), y)
        result = (x + y) & 0xFFFFFFFF
        shift, width = SELECTS[d]
        mask = ((1 << width) - 1) << shift
        want = result << shift & mask
        if unused == "PRESERVE":
            want |= inputs[i, 6].astype(np.int64) & ~mask
        elif unused == "SEXT":
            want = np.where(result >> (width - 1) & 1, want | (0xFFFFFFFF << (shift + width)) & 0xFFFFFFFF, want)
        np.testing.assert_array_equal(out[i, 0], want.astype(np.uint32), err_msg=texts[i])


def test_sdwa_compare_and_modifiers(assemble):
    inputs = data(2)
    inputs[:, [0, 2]] = np.random.default_rng(3).standard_normal((2, 2, 64)).astype(np.float32).view(np.uint32)
    texts = [
        "v_cmp_lt_f32_sdwa s[30:31], v10, v12 src0_sel:DWORD src1_sel:DWORD",
        "v_mul_f32_sdwa v20, -v10, |v12| dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:DWORD src1_sel:DWORD",
    ]
    out = frame.run_vector(assemble, texts, inputs, "gfx90a")
    a, b = inputs[0, 0].view(np.float32), inputs[0, 2].view(np.float32)
    mask = int(out[0, 3, 0]) | int(out[0, 4, 0]) << 32
    assert mask == sum(1 << i for i in range(64) if a[i] < b[i])
    a, b = inputs[1, 0].view(np.float32), inputs[1, 2].view(np.float32)
    np.testing.assert_array_equal(out[1, 0].view(np.float32), -a * np.abs(b))


def test_lane_reads_and_writes(assemble):
    texts = [
        "v_readlane_b32 s30, v10, 37",
        "s_mov_b32 s40, 12\nv_readlane_b32 s30, v10, s40",
        "v_readfirstlane_b32 s30, v10",
        "s_mov_b64 exec, 0xf000\nv_readfirstlane_b32 s30, v10",
        "s_mov_b64 exec, 0\nv_readfirstlane_b32 s30, v10",
        "s_mov_b32 s40, 0x1234\nv_writelane_b32 v20, s40, 9",
    ]
    inputs = data(len(texts))
    out = frame.run_vector(assemble, texts, inputs)
    for i, lane in enumerate((37, 12, 0, 12, 0)):
        assert out[i, 3, 0] == inputs[i, 0, lane], texts[i]
    want = inputs[5, 6].copy()
    want[9] = 0x1234
    np.testing.assert_array_equal(out[5, 0], want)


def test_accumulation_registers(assemble):
    texts = [
        "v_accvgpr_write_b32 a7, v10\nv_accvgpr_read_b32 v20, a7",
        "v_accvgpr_write_b32 a3, 17\nv_accvgpr_mov_b32 a9, a3\nv_accvgpr_read_b32 v20, a9",
        "s_mov_b64 exec, 0xff\nv_mov_b32 v20, v10",
        "v_swap_b32 v20, v10",
    ]
    inputs = data(len(texts))
    out = frame.run_vector(assemble, texts, inputs)
    np.testing.assert_array_equal(out[0, 0], inputs[0, 0])
    assert (out[1, 0] == 17).all()
    np.testing.assert_array_equal(out[2, 0], np.where(LANE < 8, inputs[2, 0], inputs[2, 6]))
    np.testing.assert_array_equal(out[3, 0], inputs[3, 0])
    np.testing.assert_array_equal(out[3, 2], inputs[3, 6])


def test_swaps_of_gfx950(assemble):
    texts = ["v_permlane32_swap_b32 v20, v10", "v_permlane16_swap_b32 v20, v10"]
    inputs = data(2)
    out = frame.run_vector(assemble, texts, inputs, "gfx950")
    for i, width in enumerate((32, 16)):
        dst, src = inputs[i, 6].copy(), inputs[i, 0].copy()
        for base in range(0, 64, 2 * width):
            low, high = slice(base, base + width), slice(base + width, base + 2 * width)
            src[low], dst[high] = dst[high].copy(), src[low].copy()
        np.testing.assert_array_equal(out[i, 0], dst)
        np.testing.assert_array_equal(out[i, 2], src)


def test_lds_permutations(assemble):
    texts = [
        "ds_bpermute_b32 v20, v12, v10\ns_waitcnt lgkmcnt(0)",
        "ds_permute_b32 v20, v12, v10\ns_waitcnt lgkmcnt(0)",
        "ds_swizzle_b32 v20, v10 offset:swizzle(SWAP,16)\ns_waitcnt lgkmcnt(0)",
        "ds_swizzle_b32 v20, v10 offset:swizzle(QUAD_PERM, 3, 2, 1, 0)\ns_waitcnt lgkmcnt(0)",
        'ds_swizzle_b32 v20, v10 offset:swizzle(BITMASK_PERM, "01pi0")\ns_waitcnt lgkmcnt(0)',
        "ds_swizzle_b32 v20, v10 offset:swizzle(ROTATE, 0, 5)\ns_waitcnt lgkmcnt(0)",
        "s_mov_b64 exec, 0xffff\nds_bpermute_b32 v20, v12, v10\ns_waitcnt lgkmcnt(0)",
        "ds_swizzle_b32 v20, v10 offset:swizzle(FFT, 1)\ns_waitcnt lgkmcnt(0)",
    ]
    inputs = data(len(texts))
    order = np.random.default_rng(5).permutation(64)
    inputs[:, 2] = 4 * order
    out = frame.run_vector(assemble, texts, inputs)
    np.testing.assert_array_equal(out[0, 0], inputs[0, 0][order])
    want = np.zeros(64, dtype=np.uint32)
    want[order] = inputs[1, 0]
    np.testing.assert_array_equal(out[1, 0], want)
    np.testing.assert_array_equal(out[2, 0], inputs[2, 0][LANE ^ 16])
    np.testing.assert_array_equal(out[3, 0], inputs[3, 0][LANE ^ 3])
    # 0: bit cleared, 1: set, p: kept, i: inverted; from the highest of five bits.
    swizzled = (LANE & 32) | 8 | (LANE & 4) | (~LANE & 2)
    np.testing.assert_array_equal(out[4, 0], inputs[4, 0][swizzled])
    np.testing.assert_array_equal(out[5, 0], inputs[5, 0][(LANE & 32) | ((LANE + 5) & 31)])
    active = LANE < 16
    want = np.where(active, np.where(order < 16, inputs[6, 0][order], 0), inputs[6, 6])
    np.testing.assert_array_equal(out[6, 0], want)
    # The order of a Fourier transform: bits reversed, but for the lowest one, which the mask keeps.
    reverse = np.array([int(f"{lane % 32:05b}"[::-1], 2) // 2 | lane % 2 | lane & 32 for lane in LANE])
    np.testing.assert_array_equal(out[7, 0], inputs[7, 0][reverse])
