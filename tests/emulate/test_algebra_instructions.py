"""Payloads of single instructions and idioms, against Python's integers.

A case reads three rows of f32, a, b and c, from v10, v11 and v12, and leaves what is stored in v20.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from tests.emulate.frame import kernel
from tkgen.emulate import Buffer, Outcome, launch
from tkgen.emulate.algebra import ABSENT, LOST, NEVER_WRITTEN, P, Q, hashed

RNG = np.random.default_rng(15)
LANES = np.arange(64)


@dataclass(frozen=True)
class Row:
    """The values of 64 lanes in one field, and the real numbers."""

    x: np.ndarray
    real: np.ndarray
    modulus: int

    def image(self, number: float) -> int:
        numerator, denominator = float(number).as_integer_ratio()
        return numerator * pow(denominator, -1, self.modulus) % self.modulus

    def where(self, condition: np.ndarray, other: Row) -> np.ndarray:
        return np.where(condition, self.x, other.x)


Model = Callable[[Row, Row, Row], np.ndarray]


def moved(lanes: np.ndarray) -> Model:
    return lambda a, b, c: a.x[lanes]


def same(a: Row, b: Row, c: Row) -> np.ndarray:
    return a.x


def negative(a: Row, b: Row, c: Row) -> np.ndarray:
    return -a.x


def magnitude(a: Row, b: Row, c: Row) -> np.ndarray:
    return np.where(np.signbit(a.real), -a.x, a.x)


FLOATS: dict[str, Model] = {
    "v_add_f32 v20, v10, v11": lambda a, b, c: a.x + b.x,
    "v_sub_f32 v20, v10, v11": lambda a, b, c: a.x - b.x,
    "v_subrev_f32 v20, v10, v11": lambda a, b, c: b.x - a.x,
    "v_mul_f32 v20, v10, v11": lambda a, b, c: a.x * b.x,
    "v_mul_f32 v20, 0x3dcccccd, v10": lambda a, b, c: a.x * a.image(np.float32(0.1)),
    "v_add_f32 v20, -0.5, v10": lambda a, b, c: a.x + a.image(-0.5),
    "v_add_f32 v20, v10, v11 mul:4": lambda a, b, c: (a.x + b.x) * 4,
    "v_fma_f32 v20, v10, v11, v12": lambda a, b, c: a.x * b.x + c.x,
    "v_fma_f32 v20, -v10, |v11|, v12": lambda a, b, c: -a.x * magnitude(b, b, b) + c.x,
    "v_mov_b32 v20, v12\nv_fmac_f32 v20, v10, v11": lambda a, b, c: a.x * b.x + c.x,
    "v_fmamk_f32 v20, v10, 0x40490fdb, v11": lambda a, b, c: a.x * a.image(np.float32(np.pi)) + b.x,
    "v_fmaak_f32 v20, v10, v11, 0x40490fdb": lambda a, b, c: a.x * b.x + a.image(np.float32(np.pi)),
    "v_max_f32 v20, v10, v11": lambda a, b, c: a.where(a.real > b.real, b),
    "v_min_f32 v20, v10, v11": lambda a, b, c: a.where(a.real < b.real, b),
    "v_max3_f32 v20, v10, v11, v12": lambda a, b, c: np.choose(np.argmax([a.real, b.real, c.real], 0), [a.x, b.x, c.x]),
    "v_med3_f32 v20, v10, v11, v12": lambda a, b, c: np.choose(
        np.argsort([a.real, b.real, c.real], 0)[1], [a.x, b.x, c.x]
    ),
    "v_ldexp_f32 v20, v10, -3": lambda a, b, c: a.x * a.image(0.125),
    "v_rcp_f32 v20, v10": lambda a, b, c: np.array([pow(int(x), -1, a.modulus) for x in a.x], object),
    "v_cmp_lt_f32 vcc, v10, v11\nv_cndmask_b32 v20, v10, v11, vcc": lambda a, b, c: b.where(a.real < b.real, a),
    "s_mov_b32 s20, 1\ns_set_gpr_idx_on s20, gpr_idx(SRC0)\nv_mul_f32 v20, v10, v12\ns_set_gpr_idx_off": (
        lambda a, b, c: b.x * c.x
    ),
    "s_mov_b32 s20, 1\ns_set_gpr_idx_on s20, gpr_idx(DST)\nv_add_f32 v19, v10, v11\ns_set_gpr_idx_off": (
        lambda a, b, c: a.x + b.x
    ),
    "v_pk_add_f32 v[20:21], v[10:11], v[12:13] op_sel:[1,0]": lambda a, b, c: b.x + c.x,
    "v_pk_fma_f32 v[20:21], v[10:11], v[12:13], v[10:11] neg_lo:[0,1,0]": lambda a, b, c: a.x - a.x * c.x,
    "v_fract_f32 v20, v10": lambda a, b, c: a.x - np.array([a.image(np.floor(r)) for r in a.real], object),
    # A division as compilers write it: scales, Newton's steps and the last correction are none of the fields'.
    """v_div_scale_f32 v14, s[20:21], v11, v11, v10
    v_div_scale_f32 v15, vcc, v10, v11, v10
    v_rcp_f32 v16, v14
    v_fma_f32 v17, -v14, v16, 1.0
    v_fma_f32 v16, v17, v16, v16
    v_mul_f32 v17, v15, v16
    v_fma_f32 v18, -v14, v17, v15
    v_fma_f32 v17, v18, v16, v17
    v_fma_f32 v14, -v14, v17, v15
    v_div_fmas_f32 v14, v14, v16, v17
    v_div_fixup_f32 v20, v14, v11, v10""": lambda a, b, c: a.x * [pow(int(x), -1, a.modulus) for x in b.x],
}

MOVES: dict[str, Model] = {
    "v_mov_b32 v20, v10": same,
    "v_accvgpr_write_b32 a5, v10\ns_nop 2\nv_accvgpr_read_b32 v20, a5": same,
    "v_readlane_b32 s20, v10, 7\ns_nop 4\nv_mov_b32 v20, s20": moved(np.full(64, 7)),
    "v_readfirstlane_b32 s20, v10\ns_mov_b32 s21, s20\nv_mov_b32 v20, s21": moved(np.zeros(64, int)),
    "v_swap_b32 v10, v11\nv_mov_b32 v20, v11": same,
    "v_mov_b32_dpp v20, v10 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf": moved(LANES ^ 1),
    "v_add_f32_dpp v20, v10, v11 row_ror:4 row_mask:0xf bank_mask:0xf": lambda a, b, c: (
        a.x[LANES & 48 | (LANES - 4) & 15] + b.x
    ),
    "v_xor_b32 v14, 0x80, v1\nds_bpermute_b32 v20, v14, v10\ns_waitcnt lgkmcnt(0)": moved(LANES ^ 32),
    "ds_swizzle_b32 v20, v10 offset:swizzle(SWAP,16)\ns_waitcnt lgkmcnt(0)": moved(LANES ^ 16),
    "ds_write_b32 v1, v10\nds_read_b32 v20, v1\ns_waitcnt lgkmcnt(0)": same,
    "v_lshlrev_b32 v14, 1, v1\nds_write_b64 v14, v[10:11]\n"
    "ds_read2_b32 v[20:21], v14 offset0:1\ns_waitcnt lgkmcnt(0)": (lambda a, b, c: b.x),
    "scratch_store_dword off, v10, off offset:4\ns_waitcnt vmcnt(0)\nscratch_load_dword v20, off, off offset:4\n"
    "s_waitcnt vmcnt(0)": same,
    # Signs, changed by integer instructions.
    "v_xor_b32 v20, 0x80000000, v10": negative,
    "v_and_b32 v20, 0x7fffffff, v10": magnitude,
    "v_or_b32 v20, 0x80000000, v10": lambda a, b, c: -magnitude(a, b, c),
    "v_and_b32 v15, 0x7fffffff, v11\nv_lshlrev_b32 v14, 29, v1\nv_xor_b32 v20, v14, v10": lambda a, b, c: np.where(
        LANES & 1, -a.x, a.x
    ),  # in odd lanes; an instruction before has changed others
    "v_mov_b32 v20, v10\ns_brev_b32 s20, 1\nv_xor_b32_sdwa v20, v11, s20 dst_sel:WORD_0 dst_unused:UNUSED_PRESERVE "
    "src0_sel:DWORD src1_sel:DWORD": same,  # the sign that changes is not stored
    "s_brev_b32 s20, -2\nv_bfi_b32 v20, s20, v10, v11": lambda a, b, c: np.where(
        np.signbit(a.real) != np.signbit(b.real), -a.x, a.x
    ),
    # To bf16 as gfx942 rounds it, and back.
    "v_bfe_u32 v14, v10, 16, 1\ns_movk_i32 s20, 0x7fff\n"
    "v_add3_u32 v14, v10, v14, s20\nv_and_b32 v20, 0xffff0000, v14": (same),
    "v_lshrrev_b32 v14, 16, v10\nv_lshlrev_b32 v20, 16, v14": same,
    "s_mov_b32 s20, 0x7060302\nv_perm_b32 v14, v11, v10, s20\nv_lshlrev_b32 v20, 16, v14": same,
    "s_mov_b32 s20, 0x7060302\nv_perm_b32 v14, v11, v10, s20\nv_and_b32 v20, 0xffff0000, v14": lambda a, b, c: b.x,
    "v_lshrrev_b32 v15, 16, v11\nv_alignbit_b32 v14, v15, v10, 16\nv_and_b32 v20, 0xffff0000, v14": lambda a, b, c: b.x,
    "v_and_b32 v14, 0xffff0000, v11\nv_lshrrev_b32 v15, 16, v10\n"
    "v_or_b32 v14, v15, v14\nv_lshlrev_b32 v20, 16, v14": same,
    "s_mov_b32 s20, 0xffff0000\nv_lshrrev_b32 v14, 16, v10\n"
    "v_and_or_b32 v14, v11, s20, v14\nv_lshlrev_b32 v20, 16, v14": same,
    "v_add_u32 v20, -1, v10": same,  # a neighbour, as square roots are refined
    "v_max_i32 v20, v10, v11": lambda a, b, c: a.where(a.real.view(np.int32) > b.real.view(np.int32), b),
    # Through narrower formats.
    "v_cvt_f16_f32 v14, v10\nv_cvt_f32_f16 v20, v14": same,
    "v_cvt_pkrtz_f16_f32 v14, v10, v11\nv_cvt_f32_f16_sdwa v20, v14 src0_sel:WORD_1": lambda a, b, c: b.x,
    "v_cvt_pkrtz_f16_f32 v14, v10, v11\nv_pk_mul_f16 v14, v14, v14 op_sel:[0,1] op_sel_hi:[1,0]\n"
    "v_cvt_f32_f16 v20, v14": (lambda a, b, c: a.x * b.x),
    "v_cvt_pkrtz_f16_f32 v14, v10, v11\nv_dot2_f32_f16 v20, v14, v14, v12": lambda a, b, c: a.x * a.x + b.x * b.x + c.x,
    "v_cvt_pkrtz_f16_f32 v14, v10, v11\nv_fma_mix_f32 v20, v14, -v12, v10 op_sel:[1,0,0] op_sel_hi:[1,0,0]": (
        lambda a, b, c: a.x - b.x * c.x
    ),
    "v_cvt_f16_f32 v14, v10\nds_write_b16 v1, v14\nv_mov_b32 v15, 0\nds_read_u16_d16_hi v15, v1\ns_waitcnt lgkmcnt(0)\n"
    "v_cvt_f32_f16_sdwa v20, v15 src0_sel:WORD_1": same,
    "v_mov_b32 v14, 0\nv_cvt_pk_fp8_f32 v14, v10, v11 op_sel:[0,0,1]\nv_cvt_f32_fp8_sdwa v20, v14 src0_sel:BYTE_3": (
        lambda a, b, c: b.x
    ),
    "v_mov_b32 v14, 0\nv_cvt_pk_fp8_f32 v14, v10, v11\nds_write_b8 v1, v14\nds_read_u8 v15, v1\ns_waitcnt lgkmcnt(0)\n"
    "v_cvt_f32_fp8 v20, v15": same,
    # Exponents changed by integers of 16 bits.
    "v_cvt_f16_f32 v14, v10\nv_add_u16 v14, 0x400, v14\nv_cvt_f32_f16 v20, v14": lambda a, b, c: 2 * a.x,
    "v_cvt_pkrtz_f16_f32 v14, v10, v11\ns_mov_b32 s20, 0x8000400\nv_pk_add_u16 v14, v14, s20\n"
    "v_cvt_f32_f16_sdwa v20, v14 src0_sel:WORD_1": lambda a, b, c: 4 * b.x,
    "v_cvt_pkrtz_f16_f32 v14, v10, v11\ns_mov_b32 s20, 0x8000400\nv_pk_sub_i16 v14, v14, s20 op_sel:[1,0]\n"
    "v_cvt_f32_f16 v20, v14": lambda a, b, c: b.x * b.image(0.5),
    "v_lshrrev_b32 v14, 16, v10\nv_add_u16 v14, 0x100, v14\nv_lshlrev_b32 v20, 16, v14": lambda a, b, c: 4 * a.x,
    "v_mov_b32 v14, 0\nv_cvt_pk_fp8_f32 v14, v10, v11\nv_pk_lshrrev_b16 v14, 8, v14 op_sel_hi:[0,1]\n"
    "v_cvt_f32_fp8 v20, v14": lambda a, b, c: b.x,
    "v_cvt_f64_f32 v[14:15], v10\nv_add_f64 v[14:15], v[14:15], v[14:15]\nv_cvt_f32_f64 v20, v[14:15]": (
        lambda a, b, c: 2 * a.x
    ),
}


@dataclass(frozen=True)
class Ran:
    """Real inputs and their payloads, what was stored by each case, and the outcome."""

    real: np.ndarray
    payload: np.ndarray
    made: np.ndarray
    outcome: Outcome


def run(assemble, *bodies: str, target: str = "gfx942") -> Ran:
    """The cases one after the other in one kernel."""
    loads = "\n".join(f"  global_load_dword v{10 + i}, v1, s[8:9] offset:{256 * i}" for i in range(3))
    text = "".join(
        f"{loads}\n  v_mov_b32 v13, 0\n  s_waitcnt vmcnt(0)\n{body}\n  s_nop 7\n"
        "  global_store_dword v1, v20, s[10:11]\n  s_add_u32 s10, s10, 256\n  s_addc_u32 s11, s11, 0\n"
        for body in bodies
    )
    real = (RNG.standard_normal((3, 64)) * 4).astype(np.float32)
    payload = np.stack([RNG.integers(1, m, 192) for m in (P, Q)], axis=1).astype(np.uint32)
    result, made = np.zeros(64 * len(bodies), np.float32), np.full((64 * len(bodies), 2), NEVER_WRITTEN[0], np.uint32)
    args = [Buffer(real, payload=payload), Buffer(result, payload=made)]
    path = assemble(kernel(text, target, lds=1024, scratch=16), target)
    outcome = launch(path, grid=(1, 1, 1), block=(64, 1, 1), args=args, algebra=True)
    assert outcome.completed and not outcome.findings, [str(f) for f in outcome.findings]
    return Ran(real, payload.reshape(3, 64, 2), made.reshape(len(bodies), 64, 2), outcome)


@pytest.mark.parametrize("cases", [FLOATS, MOVES], ids=["floats", "moves"])
def test_instructions(assemble, cases):
    check(run(assemble, *cases), cases)


def check(ran: Ran, cases: dict[str, Model]) -> None:
    assert ran.outcome.lost == ()
    for field, modulus in enumerate((P, Q)):
        rows = [Row(ran.payload[i, :, field].astype(object), ran.real[i], modulus) for i in range(3)]
        for made, (body, model) in zip(ran.made, cases.items(), strict=True):
            np.testing.assert_array_equal(made[:, field].astype(object), model(*rows) % modulus, body)


# Of gfx950: two bf16 in a register, the halves of one for the other; 8-bit floats side by side.
LATER: dict[str, Model] = {
    "v_cvt_pk_bf16_f32 v14, v10, v11\nv_and_b32 v20, 0xffff0000, v14": lambda a, b, c: b.x,
    "v_cvt_pk_bf16_f32 v14, v10, v11\nv_dot2_f32_bf16 v20, v14, v14, v12": lambda a, b, c: a.x * a.x + b.x * b.x + c.x,
    "v_permlane32_swap_b32 v10, v11\nv_mov_b32 v20, v11": lambda a, b, c: np.r_[a.x[32:], b.x[32:]],
    "v_cvt_pk_bf16_f32 v14, v10, v11\ns_mov_b32 s20, 0xffff\n"
    "v_bitop3_b32 v14, v14, s20, v12 bitop3:0xe2\nv_lshlrev_b32 v20, 16, v14": same,
    "v_mov_b32 v14, 0\nv_cvt_pk_fp8_f32 v14, v10, v11\nv_lshrrev_b16 v15, 8, v14\nv_lshlrev_b16 v15, 8, v15\n"
    "s_movk_i32 s20, 0xff\nv_bitop3_b16 v15, v14, v15, s20 bitop3:0xec\nv_cvt_f32_fp8 v20, v15": same,
    "v_mov_b32 v14, 0\nv_mov_b32 v15, 4.0\nv_cvt_scalef32_pk_fp4_f32 v14, v10, v11, v15\n"
    "v_cvt_scalef32_pk_f32_fp4 v[20:21], v14, v15": same,
    "v_mov_b32 v14, 0\nv_mov_b32 v15, 4.0\nv_cvt_scalef32_pk_bf8_f32 v14, v10, v11, v15\n"
    "v_cvt_f32_bf8_sdwa v20, v14 src0_sel:BYTE_1": lambda a, b, c: b.x * b.image(0.25),
}


def test_instructions_of_gfx950(assemble):
    check(run(assemble, *LATER, target="gfx950"), LATER)


def test_powers_and_functions(assemble):
    names = (("log", "log2"), ("rsq", "sqrt"), ("sqrt", "sqrt"), ("sin", "sin"), ("cos", "cos"))
    again = "v_exp_f32 v20, v10\nv_mul_f32 v20, 0x38000000, v20\nv_exp_f32 v20, v20"
    ran = run(assemble, "v_exp_f32 v20, v10", again, *(f"v_{name}_f32 v20, v10" for name, _ in names))
    powers = [pow(2, int(q), P) for q in ran.payload[0, :, 1]]
    assert powers == ran.made[0, :, 0].tolist() and set(ran.made[0, :, 1]) == {ABSENT}
    # A power of a power has no q value to take: a hash stands for it.
    inner = [x * pow(2, -15, P) % P for x in powers]
    assert ran.made[1, :, 0].tolist() == [pow(2, hashed("Q", p, 1), P) for p in inner]
    for made, (name, tag) in zip(ran.made[2:], names, strict=True):
        for field in range(2):
            want = [hashed(tag + "q" * field, int(p), field) for p in ran.payload[0, :, 0]]
            if name == "rsq":  # one through the root
                want = [pow(x, -1, (P, Q)[field]) for x in want]
            assert want == made[:, field].tolist(), name


def test_infinities_follow_the_real_numbers(assemble):
    """exp2(-inf) is zero, what is divided by infinity is zero, and a maximum forgets it."""
    ran = run(
        assemble,
        "v_mov_b32 v14, 0xff800000\nv_add_f32 v14, v10, v14\nv_exp_f32 v20, v14",
        "v_mov_b32 v14, 0x7f800000\nv_rcp_f32 v14, v14\nv_mul_f32 v20, v10, v14",
        "v_mov_b32 v14, 0xff800000\nv_max_f32 v20, v14, v10",
    )
    assert not ran.made[:2].any() and (ran.made[2] == ran.payload[0]).all()


LOSING = {
    "v_add_u32 v20, 0x40000, v10": "v_add_u32",
    "v_mul_lo_u32 v20, v10, v11": "v_mul_lo_u32",
    "v_cvt_pkrtz_f16_f32 v14, v10, v11\nv_pk_add_u16 v14, v14, 1\nv_cvt_f32_f16 v20, v14": "v_pk_add_u16",
    "v_xor_b32 v20, v10, v11": "v_xor_b32",
    "v_and_b32 v20, 0xff7fffff, v10": "v_and_b32",
    "v_xnor_b32 v14, v10, v11\nds_write_b32 v1, v14\nds_read_b32 v20, v1\ns_waitcnt lgkmcnt(0)": "v_xnor_b32",
    "v_cvt_f16_f32 v20, v10": "global_store_dword",  # a half where an f32 is meant
    "v_or_b32 v14, v10, v11\nv_mul_f32 v20, v14, v10": "v_or_b32",
    "v_alignbit_b32 v14, v11, v10, 16\nv_and_b32 v20, 0xffff0000, v14": "v_alignbit_b32",  # the lower half of an f32
}

PRODUCT = "v_mul_lo_u32 v14, v10, v11\n"  # how far to shift, of which nothing is known
LOSING |= {
    PRODUCT + shift: shift.split()[0]
    for shift in (
        "v_lshlrev_b32 v20, v14, v1",
        "v_lshrrev_b32 v20, v14, v10",
        "v_ashrrev_i32 v20, v14, v1",
        "v_lshlrev_b64 v[20:21], v14, v[0:1]",
        "v_lshl_or_b32 v20, v1, v14, v1",
        "v_lshl_add_u32 v20, v1, v14, v1",
        "v_bfe_u32 v20, v1, v14, 4",
        "v_bfe_i32 v20, v1, 4, v14",
        "v_alignbit_b32 v20, v1, v1, v14",
        "v_alignbyte_b32 v20, v1, v1, v14",
        "v_perm_b32 v20, v1, v1, v14",
    )
} | {
    f"{PRODUCT}v_readfirstlane_b32 s20, v14\ns_nop 4\n{shift} s20, s8, s20\nv_mov_b32 v20, s20": shift
    for shift in ("s_lshl_b32", "s_bfe_u32")
}


def test_what_is_lost_names_its_instruction(assemble):
    ran = run(assemble, *LOSING)
    for made, body in zip(ran.made, LOSING, strict=True):
        assert (made == LOST[0]).all(), body
    found = sorted((loss.mnemonic, loss.count) for loss in ran.outcome.lost)
    assert found == sorted((mnemonic, 64) for mnemonic in LOSING.values())


def test_inactive_lanes_keep_theirs(assemble):
    ran = run(assemble, "v_mov_b32 v20, v11\ns_mov_b64 exec, 0xff\nv_add_f32 v20, v10, v10\ns_mov_b64 exec, -1")
    assert (ran.made[0, 8:] == ran.payload[1, 8:]).all()
    assert ran.made[0, :8, 0].tolist() == [2 * int(x) % P for x in ran.payload[0, :8, 0]]
