"""Cases of vector instructions: every form that an opcode has, with modifiers, masks, modes and operands."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from instructions import encode
from instructions.encode import DWORD, LITERAL, Dpp, Sdwa
from instructions.machine import ALL_LANES, State
from instructions.table import Opcode, Operand
from instructions.vector import VCC, Use
from tkgen.emulate.decode import Encoding

E = Encoding
SPECIAL = {
    16: [0, 0x8000, 0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7E00, 0x7D01, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0xFBFF, 0x3800,
        0xB800, 0x4248, 0x3BFF],
    32: [0, 1 << 31, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F800001, 1,
        0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F000000, 0xC0200000, 0x4F000000, 0xCF000000, 0x4F800000,
        0x3EFFFFFF, 0x477FE000, 0x477FF000, 0x38800000, 0x33000000, 0x33000001, 0x437F8000, 0x42FE0000, 0xBF000000,
        0x4B000001, 0x40490FDB],
    64: [0, 1 << 63, 0x3FF0 << 48, 0xBFF0 << 48, 0x7FF0 << 48, 0xFFF0 << 48, 0x7FF8 << 48, 0x7FF0_0000_0000_0001, 1,
        0x000F << 48, 0x0010 << 48, 0x7FEF_FFFF_FFFF_FFFF, 0x3FE0 << 48, 0xC004 << 48, 0x41E0 << 48,
        0x41EFFFFFFFE00000, 0x3810 << 48, 0x36A0 << 48, 0x47EF_FFFF_F000_0000],
}  # fmt: skip
INTEGERS = [0, 1, 2, 31, 32, 33, 63, 64, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFF, 0x800000, 0x7FFFFFFF,
    0x80000000, 0xFFFFFFFF, 0x00FF00FF, 0x80808080, 0x12345678, 0x7FFF7FFF, 0x80008000, 0xFFFFFFF0]  # fmt: skip
MODES = (0b11_1111, 0b11_0000, 0b01_1100, 0b01_0011, 0b00_0000, 0b10_0101, 0b01_1010)
MASKS = (ALL_LANES, ALL_LANES, 0x5555_5555_5555_5555, 0xFFFF_0000_F0F0_0001, 1 << 63, 0)
CONTROLS = (0x1B, 0xE4, 0xB1, 0x00, 0x101, 0x10F, 0x111, 0x118, 0x121, 0x12F, 0x130, 0x134, 0x138, 0x13C, 0x140,
    0x141, 0x142, 0x143, 0x150, 0x157,)  # fmt: skip

# VOP3 encodings with op_sel on GFX9 (LLVM: VOP3_OPSEL; the conversions of gfx940 and gfx950 take theirs in the text).
TAKES_OPSEL = re.compile(
    r"v_(mad_[fui]16|fma_f16|div_fixup_f16|mad_u32_u16|mad_i32_i16|(min|max|med)3_[fui]16|(add|sub)_i16|pack_b32_f16"
    r"|cvt_pknorm_[iu]16_f16|bitop3_b16)$"
)
IN_TEXT = re.compile(r"v_cvt_(scalef32|pk_(fp8|bf8)_f32|sr_)|v_ashr_pk")
# Integer results that CLAMP saturates.
CLAMPS = re.compile(
    r"v_((add|sub|subrev)_(u32|i32|u16|i16)|(addc?|subb?|subb?rev)_co_u32|mad_(u32_u24|i32_i24|u16|i16|u32_u16|i32_i16)"
    r"|pk_(add|sub|mad)_[ui]16|dot[248]_[iu]32_[iu]\d+)$"
)
NO_SUBWORDS = re.compile(
    r"v_(mac|fmac|dot|pk_fmac|madmk|madak|fmamk|fmaak|swap|readfirstlane|permlane|nop|clrexcp|accvgpr|cvt_(pk_)?f32_[fb][pf]8|prng|mov_b64)"
)
NO_LANES = re.compile(r"v_(madmk|madak|fmamk|fmaak|swap|readfirstlane|permlane|nop|clrexcp|accvgpr)")
REGISTERS_ONLY = re.compile(r"v_(swap|permlane|read|cvt_scalef32|cvt_(pk_)?f32_[fb][pf]8|mqsad_u32)")
NO_FLOAT_MODIFIERS = re.compile(
    r"v_(bitop3|permlane|swap|read|write|cvt_scalef32|cvt_(pk_)?f32_[fb][pf]8|cvt_sr|cvt_f32_bf16|dot2c|pk_fmac)"
)


def float_bits(rng: np.random.Generator, width: int) -> np.ndarray:
    kind = {16: np.float16, 32: np.float32, 64: np.float64}[width]
    unsigned = {16: np.uint16, 32: np.uint32, 64: np.uint64}[width]
    scale = rng.choice([1e-3, 1.0, 1.0, 100.0, 3e4 if width == 16 else 1e9], 64)
    with np.errstate(over="ignore"):
        values = (rng.standard_normal(64) * scale).astype(kind).view(unsigned).astype(np.uint64)
    wild = rng.integers(0, 1 << 63, 64, dtype=np.uint64) << np.uint64(1) | rng.integers(0, 2, 64, dtype=np.uint64)
    values = np.where(rng.random(64) < 0.25, wild, values)
    special = np.array(SPECIAL[width], dtype=np.uint64)
    values = np.where(rng.random(64) < 0.4, rng.choice(special, 64), values)
    return values & np.uint64((1 << width) - 1)


def integer_bits(rng: np.random.Generator, width: int) -> np.ndarray:
    values = rng.integers(0, 1 << 63, 64, dtype=np.uint64) << np.uint64(1) | rng.integers(0, 2, 64, dtype=np.uint64)
    low = rng.choice(np.array(INTEGERS, dtype=np.uint64), 64)
    values = np.where(rng.random(64) < 0.4, low, values)
    if width == 64:
        high = rng.choice(np.array(INTEGERS, dtype=np.uint64), 64)
        values = np.where(rng.random(64) < 0.3, low | high << np.uint64(32), values)
    return np.where(rng.random(64) < 0.15, rng.integers(0, 70, 64, dtype=np.uint64), values)


def operand_rows(rng: np.random.Generator, operand: Operand, name: str) -> list[np.ndarray]:
    """Registers of an operand, as rows of 64 dwords."""
    if "fma_mix" in name:
        word = float_bits(rng, 32)
        halves = float_bits(rng, 16) | float_bits(rng, 16) << np.uint64(16)
        bits = np.where(rng.random(64) < 0.5, word, halves)
    elif operand.floating:
        bits = float_bits(rng, operand.width) if operand.kind == "F" else float_bits(rng, 32) >> np.uint64(16)
        for k in range(1, max(operand.count, 32 // operand.width)):
            more = float_bits(rng, operand.width) if operand.kind == "F" else float_bits(rng, 32) >> np.uint64(16)
            bits = bits | (more << np.uint64(k * operand.width)) if k * operand.width < 64 else bits
    else:
        bits = integer_bits(rng, 64 if operand.bits == 64 else 32)
    rows = [(bits & np.uint64(0xFFFFFFFF)).astype(np.uint32), (bits >> np.uint64(32)).astype(np.uint32)]
    while len(rows) * 32 < operand.bits:
        rows += [rng.integers(0, 1 << 32, 64, dtype=np.uint32)]
    return rows


def state_for(rng: np.random.Generator, opcode: Opcode, exec_mask: int, mode: int) -> State:
    rows = rng.integers(0, 1 << 32, (12, 64), dtype=np.uint32)
    at = 0
    for operand in opcode.sources:
        for row in operand_rows(rng, operand, opcode.name)[: max(1, operand.bits // 32)]:
            rows[at] = row
            at += 1
        at += at % 2
    if "vdst" in opcode.fields:
        for i, row in enumerate(operand_rows(rng, opcode.fields["vdst"], opcode.name)[:4]):
            rows[8 + i] = row
    if re.search(r"ldexp", opcode.name):
        rows[opcode.sources[0].bits // 32 + opcode.sources[0].bits // 32 % 2 or 2] = (
            rng.integers(-200, 200, 64).astype(np.int32).view(np.uint32)
        )
    if opcode.name.startswith("v_div_scale"):
        keep = rng.random(64) < 0.5
        other = np.where(rng.random(64) < 0.5, 2, 4)
        for i in range(2):
            rows[i] = np.where(keep, np.where(other == 2, rows[2 + i], rows[4 + i]), rows[i])
    words = [int(x) for x in rng.integers(0, 1 << 32, 14, dtype=np.uint64)]
    scalars = words[:4]
    if opcode.sources and opcode.sources[0].floating:
        scalars = [int(x) for x in float_bits(rng, 32)[:4]]
    return State(
        rows,
        scalars,
        words[4] | words[5] << 32,
        exec_mask,
        words[6],
        words[7] & 1,
        words[8] | words[9] << 32,
        words[10] | words[11] << 32,
        mode,
        words[12] >> 7 & 1 if "8" in opcode.name else 0,
    )


def vector_sources(opcode: Opcode) -> tuple[int, ...]:
    codes, at = [], 256 + 10
    for operand in opcode.sources:
        codes.append(at)
        at += max(1, operand.bits // 32)
        at += at % 2
    return tuple(codes)


def seed_of(opcode: Opcode, number: int) -> np.random.Generator:
    return np.random.default_rng([*opcode.name.encode(), opcode.encoding.value, number])


def modifiers(rng: np.random.Generator, opcode: Opcode) -> dict[str, int]:
    """Negations and absolute values of float sources, CLAMP and OMOD where the result has them."""
    made = {}
    if not NO_FLOAT_MODIFIERS.match(opcode.name):
        floats = sum(1 << i for i, s in enumerate(opcode.sources) if s.floating and s.count == 1)
        made = {"neg": int(rng.integers(0, 8)) & floats, "abs": int(rng.integers(0, 8)) & floats}
        if opcode.name.startswith("v_div_scale"):  # the field holds the destination of the flag
            made["abs"] = 0
    d = opcode.fields.get("vdst")
    if (
        d is not None
        and d.kind == "F"
        and d.count == 1
        and not re.match(r"v_(bitop3|cmp|cvt_scalef32|dot2c|cvt_sr|div_scale|trig)", opcode.name)
    ):
        made |= {"clamp": int(rng.integers(0, 2)), "omod": int(rng.integers(0, 4))}
    elif CLAMPS.match(opcode.name):
        made["clamp"] = int(rng.integers(0, 2))
    return made


def constants(
    rng: np.random.Generator, opcode: Opcode, codes: tuple[int, ...], places: range, literal: bool
) -> tuple[tuple[int, ...], int]:
    """One source as a constant or a scalar register."""
    if REGISTERS_ONLY.match(opcode.name) or not len(places):
        return codes, 0
    i = int(rng.choice(list(places)))
    operand = opcode.sources[i]
    choices = [128, 129, 192, 193, 208]
    if (
        (operand.bits < 32 and operand.kind == "FP")
        or (operand.count > 1 and operand.width != 32)
        or "fma_mix" in opcode.name
        or operand.bits > 64
    ):
        return codes, 0
    if operand.floating or (operand.bits == 32 and operand.kind != "I"):
        choices += [240, 241, 242, 243, 246, 247, 248]
    if operand.count == 1:
        choices += [20, 22, VCC] + ([21, 124] if operand.bits <= 32 else [])
    if operand.count > 1:
        choices = [242, 245, 128]
        return codes, 0
    if literal and operand.bits <= 64:
        choices += [LITERAL] * 4
    code = int(rng.choice(choices))
    if operand.bits == 16 and code == 248 and not operand.floating:
        code = 128
    made = [*codes]
    made[i] = code
    return tuple(made), int(rng.integers(0, 1 << 32)) if rng.random() < 0.5 else int(
        rng.choice([0x3F800000, 0x7F, 0x80000000, 0x4248])
    )


def uses(opcode: Opcode, count: int) -> Iterator[tuple[Use, list[int], State]]:
    """`count` cases of each form of an opcode."""
    for form in forms(opcode):
        for number in range(count):
            rng = seed_of(opcode, number * 16 + ("e32", "dpp", "sdwa", "vop3", "packed").index(form))
            mask, mode = MASKS[number % len(MASKS)], MODES[number % len(MODES)]
            if re.match(r"v_dot2c?_f32", opcode.name):  # which flushes what it likes: undecided.toml
                mode = MODES[0]
            state = state_for(rng, opcode, mask, mode)
            use = make_use(rng, opcode, form, number)
            if "mfma" not in opcode.name:
                yield use, words_of(use), state


def forms(opcode: Opcode) -> list[str]:
    if opcode.encoding is E.VOP3:
        return ["vop3"]
    if opcode.encoding is E.VOP3P:
        return ["packed"]
    wide = any(o.bits > 32 for o in opcode.fields.values())
    made = ["e32"]
    if opcode.encoding is not E.VOPC and not NO_LANES.match(opcode.name):
        made.append("dpp")
    if not wide and not NO_SUBWORDS.match(opcode.name):
        made.append("sdwa")
    return made


def make_use(rng: np.random.Generator, opcode: Opcode, form: str, number: int) -> Use:
    codes, literal, options = vector_sources(opcode), 0, {}
    name = opcode.name
    sdst = 30 if form == "vop3" else VCC
    destination = 256 + 20
    if name.startswith("v_read"):
        destination = 30
    elif name.startswith("v_cmp"):
        destination = 30 if form == "vop3" else VCC
        sdst = destination
    if name == "v_writelane_b32":
        codes = (20, (21, 128 + 37, 124)[number % 3])
    elif name == "v_readlane_b32":
        codes = (codes[0], (21, 128 + 37, 124)[number % 3])
    if form == "e32" and number % 2 and not NO_LANES.match(name):
        codes, literal = constants(rng, opcode, codes, range(1), literal=True)
    if re.match(r"v_(fmamk|fmaak|madmk|madak)", name):
        literal = int(rng.choice(np.array([0x40490FDB, 0x3C00, 0x80000001, 0x7FC00000, 0x4248], dtype=np.uint64)))
        codes = codes[:2]
    if form == "dpp":
        full = number % 3 == 0
        wide = any(o.bits > 32 for o in opcode.fields.values())  # of which LLVM takes row_newbcast alone
        options["dpp"] = Dpp(
            0x150 + int(rng.integers(16)) if wide else CONTROLS[int(rng.integers(len(CONTROLS)))],
            15 if full else int(rng.integers(16)),
            15 if full else int(rng.integers(16)),
            bool(rng.integers(2)),
        )
        options |= {k: v & 3 for k, v in modifiers(rng, opcode).items() if k in ("neg", "abs")}
    if form == "sdwa":
        selects = tuple(int(x) for x in rng.integers(0, 7, 2))
        extends = tuple(bool(rng.integers(2)) and not o.floating for o in [*opcode.sources, *opcode.sources][:2])
        options["sdwa"] = Sdwa(selects, extends, int(rng.integers(0, 7)), int(rng.integers(0, 3)))  # type: ignore[arg-type]
        options |= modifiers(rng, opcode)
        if name.startswith("v_cmp") and number % 2:
            destination = sdst = 30
        if number % 4 == 3 and not name.startswith(("v_cndmask", "v_addc", "v_subb")):
            codes = (20, *codes[1:])
    if form == "vop3":
        if number:
            options |= modifiers(rng, opcode)
        if TAKES_OPSEL.match(name):
            options["opsel"] = int(rng.integers(16)) & (
                7 | 8 * (opcode.fields.get("vdst") is not None and opcode.fields["vdst"].bits == 16)
            )
        elif IN_TEXT.match(name):
            options["opsel"] = int(rng.integers(16)) & opsel_bits(name)
        if name.startswith("v_bitop3"):
            options |= {"neg": int(rng.integers(8)), "abs": int(rng.integers(8)), "omod": int(rng.integers(4))}
        if re.match(r"v_(addc|subb|subbrev)_co|v_cndmask", name):
            codes = (*codes[:2], (VCC, 22)[number % 2])
        elif number % 2 and not name.startswith(("v_read", "v_write")):
            codes, literal = constants(rng, opcode, codes, range(len(codes)), literal=False)
    if form == "packed":
        options["opsel"], options["opsel_hi"] = int(rng.integers(8)), int(rng.integers(8)) if number else 7
        if number and (any(s.floating for s in opcode.sources) or "fma_mix" in name):
            options |= {"neg": int(rng.integers(8)), "abs": int(rng.integers(8))}
        if number and (CLAMPS.match(name) or opcode.fields["vdst"].floating):
            options["clamp"] = int(rng.integers(2))
        if name.startswith("v_dot") and not name.startswith("v_dot2"):
            options |= {"opsel": 0, "opsel_hi": 7}
        if name == "v_pk_mov_b32":
            options |= {"opsel_hi": 7, "neg": 0, "abs": 0, "clamp": 0, "opsel": options["opsel"] & 3}
    return Use(opcode, form, codes, destination, sdst, literal=literal, **options)  # type: ignore[arg-type]


def opsel_bits(name: str) -> int:
    """The bits of op_sel that a conversion's text reads."""
    if "scalef32" in name:
        if re.search(r"_(fp8|bf8|fp4)$", name):  # from a small float: bits 0 and 1, 3 for one half of the result
            return (3 if "pk" not in name or "fp4" in name else 1) | (8 if re.search(r"scalef32_f16", name) else 0)
        return 8 if re.search(r"pk_(fp8|bf8)", name) and "sr" not in name else 12
    if re.match(r"v_cvt_sr_(fp8|bf8)", name):
        return 12
    return 0 if name.startswith("v_ashr_pk") else 8


def words_of(use: Use) -> list[int]:
    """The machine words of a case."""
    opcode, codes = use.opcode, use.sources
    number, literal = opcode.number, [use.literal] if LITERAL in codes else []
    if opcode.encoding is E.VOP3:
        has_sdst = "sdst" in opcode.fields or "_co_" in opcode.name
        return encode.vop3(
            number,
            use.destination,
            codes,
            neg=use.neg,
            abs_=use.abs,
            opsel=use.opsel,
            clamp=use.clamp,
            omod=use.omod,
            sdst=use.sdst if has_sdst else None,
        )
    if opcode.encoding is E.VOP3P:
        return encode.vop3p(
            number,
            use.destination,
            codes,
            neg=use.neg,
            neg_hi=use.abs,
            opsel=use.opsel,
            opsel_hi=use.opsel_hi,
            clamp=use.clamp,
        )
    first = codes[0] if codes else 0
    second = codes[1] if len(codes) > 1 else 0
    extra = literal
    if use.dpp:
        first, extra = encode.DPP, [use.dpp.word(codes[0], use.neg, use.abs)]
    if use.sdwa:
        first = encode.SDWA
        extra = [use.sdwa.word(codes[0], second or 256, use.neg, use.abs, use.clamp, use.omod)]
        if opcode.encoding is E.VOPC:
            extra = [
                use.sdwa.compare_word(codes[0], second or 256, use.neg, use.abs, None if use.sdst == VCC else use.sdst)
            ]
    if re.match(r"v_(fmamk|fmaak|madmk|madak)", opcode.name):
        extra = [use.literal]
    if opcode.encoding is E.VOPC:
        return [encode.vopc(number, first, second), *extra]
    if opcode.encoding is E.VOP1:
        return [encode.vop1(number, use.destination, first), *extra]
    return [encode.vop2(number, use.destination, first, second), *extra]


__all__ = ["DWORD", "uses", "words_of"]
