"""The result of a vector instruction, from its pseudo-code and the chapters of AMD's CDNA3 ISA document around it.

The pseudo-code says what happens to the values of one lane. Which values these are (constants, lanes of a DPP, bytes of
an SDWA, halves of op_sel), negation, absolute values, denormals, clamping, output modifiers, and what is written of a
register under EXEC, is prose: chapters "Vector ALU Operations" and "Microcode Formats".
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

import numpy as np
import pcode

from instructions.encode import DWORD, LITERAL, Dpp, Sdwa
from instructions.machine import Rows, State
from instructions.table import Opcode, Operand

DESTINATION = 20  # v20
VCC = 106
# From GFX9 on these keep the upper half of their register, others fill it with zeros (LLVM,
# GCNSubtarget::zeroesHigh16BitsOfDest: V_MAD_F16_gfx9, V_FMA_F16_gfx9, ... are not among its cases).
KEEPS_HALF = re.compile(r"v_(mad_[fui]16|fma_f16|div_fixup_f16|ashr_pk_[iu]8_i32)$")
# Of a class a subnormal is one whatever the mode says: LLVM folds `llvm.is.fpclass` to it.
# Of the scaled conversions nothing is said.
IGNORES_MODE = re.compile(r"v_(cmpx?_class|mov|cndmask|cvt_scalef32)")
CONSTANTS = (0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0)
HALF_TURN = {16: 0x3118, 32: 0x3E22F983, 64: 0x3FC45F306DC9C882}  # 1 / (2 pi)


@dataclass(frozen=True)
class Use:
    """One instruction: an opcode with operand codes and modifiers."""

    opcode: Opcode
    form: str  # e32, dpp, sdwa, vop3, packed
    sources: tuple[int, ...]
    destination: int = 256 + DESTINATION
    sdst: int = VCC
    neg: int = 0
    abs: int = 0
    opsel: int = 0
    opsel_hi: int = 7
    clamp: int = 0
    omod: int = 0
    dpp: Dpp | None = None
    sdwa: Sdwa | None = None
    literal: int = 0


@dataclass
class Want:
    """The state after; some fields of registers are floats: equal as such, or within a tolerance."""

    state: State
    # (row, low bit, width) -> the relative and absolute tolerance; NaNs are equal whatever they hold.
    floats: dict[tuple[int, int, int], float] = field(default_factory=dict)
    unknown: Rows | None = None  # bits of rows that nothing is said of
    unknown_scalar: int = 0  # bits of sdst


def constant(code: int, operand: Operand, literal: int) -> int:
    """The bits of an inline or literal constant for an operand."""
    width = 64 if operand.bits == 64 else 32
    if 128 <= code <= 192:
        return code - 128
    if 193 <= code <= 208:
        return 192 - code & ((1 << width) - 1)
    if 240 <= code <= 248:
        if operand.kind == "BF":  # the upper half of the f32
            return constant(code, Operand("F", 32, 1, 32), literal) >> 16
        bits = operand.width if operand.floating and operand.count == 1 else width
        if code == 248:
            return HALF_TURN[bits]
        return pcode.bits_of(CONSTANTS[code - 240], bits)
    assert code == LITERAL, code
    if width == 64:
        if operand.floating:
            return literal << 32
        return literal | (0xFFFFFFFF << 32 if operand.kind == "I" and literal >> 31 else 0)
    return literal


def dpp_lane(control: int, lane: int) -> int | None:
    """The lane that a lane reads; None for no lane."""
    row, at = lane // 16 * 16, lane % 16
    if control < 0x100:  # quad_perm
        return lane // 4 * 4 + (control >> lane % 4 * 2 & 3)
    kind, n = control & 0x1F0, control & 15
    if kind == 0x100:  # row_shl
        return lane + n if at + n < 16 else None
    if kind == 0x110:  # row_shr
        return lane - n if at >= n else None
    if kind == 0x120:  # row_ror
        return row + (at + 16 - n) % 16
    if kind == 0x150:  # row_newbcast
        return row + n
    return {
        0x130: lane + 1 if lane < 63 else None,
        0x134: (lane + 1) % 64,
        0x138: lane - 1 if lane else None,
        0x13C: (lane + 63) % 64,
        0x140: row + 15 - at,
        0x141: lane // 8 * 8 + 7 - lane % 8,
        0x142: row - 1 if row else None,
        0x143: 31 if lane >= 32 else None,
    }[control]


def register(state: State, code: int, lane: int, bits: int) -> int:
    """The bits of a vector or scalar register operand."""
    if code >= 256:
        row = code - 256 - 10 if code - 256 < 18 else code - 256 - 12
        return sum(int(state.rows[row + i, lane]) << 32 * i for i in range(max(1, bits // 32)))
    wide = bits == 64
    if 20 <= code < 24:
        return state.scalars[code - 20] | (state.scalars[code - 19] << 32 if wide else 0)
    if code == VCC:
        return state.vcc if wide else state.vcc & 0xFFFFFFFF
    if code == 124:
        return state.m0
    if code in (30, 32):
        return state.low if code == 30 else state.high
    if code == 253:
        return state.scc
    raise AssertionError(code)


def selected(bits: int, select: int, extend: bool) -> int:
    if select == DWORD:
        return bits
    width = 8 if select < 4 else 16
    value = bits >> (8 * select if select < 4 else 16 * (select - 4)) & (1 << width) - 1
    return value | (0xFFFFFFFF >> width << width if extend and value >> width - 1 else 0)


def source(use: Use, i: int, operand: Operand, state: State, lane: int) -> int:
    """The bits of source `i` in a lane, its modifiers applied, denormals flushed."""
    code = use.sources[i]
    if use.dpp and i == 0:
        read = dpp_lane(use.dpp.control, lane)
        good = read is not None and state.exec >> read & 1
        value = register(state, code, read, operand.bits) if good and read is not None else 0
    elif code < 128 or (code >= 253 and code != LITERAL):
        value = register(state, code, lane, operand.bits)
    else:
        value = constant(code, operand, use.literal)
    if use.sdwa and i < 2 and "SDWA_SRC0_SEL" not in (use.opcode.text or ""):
        value = selected(value, use.sdwa.select[i], use.sdwa.extend[i])
    name = use.opcode.name
    if name.startswith("v_fma_mix"):
        return mixed(use, i, value, state.mode)
    if use.form == "packed" and operand.count == 2 and name != "v_pk_mov_b32":
        width = operand.bits // 2
        low = value >> (width if use.opsel >> i & 1 else 0) & (1 << width) - 1
        high = value >> (width if use.opsel_hi >> i & 1 else 0) & (1 << width) - 1
        if operand.kind in ("F", "BF"):
            low ^= (use.neg >> i & 1) << width - 1
            high ^= (use.abs >> i & 1) << width - 1
        halves = [flushed(half, operand, state.mode) for half in (low, high)]
        return halves[0] | halves[1] << width
    if use.form == "vop3" and operand.bits == 16 and use.opsel >> i & 1 and "OPSEL[" not in (use.opcode.text or ""):
        value >>= 16
    if operand.count == 2 and operand.kind == "F" and not IGNORES_MODE.match(name):
        return sum(
            flushed(value >> at & (1 << operand.width) - 1, operand, state.mode) << at for at in (0, operand.width)
        )
    width = operand.width if operand.floating else operand.bits
    if name.startswith("v_bitop3"):  # whose modifiers are its table
        return value
    if width in (16, 32, 64) and operand.count == 1:
        sign = 1 << width - 1
        if use.abs >> i & 1 and use.form != "packed":
            value &= ~sign
        if use.neg >> i & 1:
            value ^= sign
        if not IGNORES_MODE.match(name):
            value = flushed(value, operand, state.mode)
    return value


def mixed(use: Use, i: int, value: int, mode: int) -> int:
    """Of v_fma_mix: an f32, or (op_sel_hi) the half that op_sel names; `abs` is in the field of neg_hi."""
    at, kind = 0, Operand("F", 32, 1, 32)
    if use.opsel_hi >> i & 1:
        at, kind = 16 if use.opsel >> i & 1 else 0, Operand("F", 16, 1, 16)
    part, sign = (1 << kind.width) - 1, 1 << kind.width - 1
    bits = value >> at & part
    bits = bits & ~sign if use.abs >> i & 1 else bits
    bits = flushed(bits ^ (sign if use.neg >> i & 1 else 0), kind, mode)
    return value & ~(part << at) | bits << at


def denormal(bits: int, width: int) -> bool:
    fraction = {16: 10, 32: 23, 64: 52}[width]
    return not bits >> fraction & (1 << width - 1 - fraction) - 1


def flushed(bits: int, operand: Operand, mode: int, output: bool = False) -> int:
    """A float operand as the mode has it: MODE bits 4 and 5 are of f32, 6 and 7 of f64 and f16; 1 keeps denormals."""
    if operand.kind != "F" or operand.width not in (16, 32, 64):
        return bits
    keeps = mode >> (0 if operand.width == 32 else 2) + output & 1
    if keeps or not denormal(bits & (1 << operand.width) - 1, operand.width):
        return bits
    return bits & 1 << operand.width - 1


def output_modified(bits: int, width: int, use: Use, mode: int) -> int:
    """OMOD and CLAMP of a float result."""
    value = pcode.float_of(bits, width)
    keeps, ieee = mode >> (1 if width == 32 else 3) & 1, mode >> 5 & 1
    if use.omod and not keeps and not ieee:
        # "Output modifiers are not compatible with output denormals: if output denormals are enabled, then output
        # modifiers are ignored. [...] -0 is flushed to +0. Output modifiers are ignored if the IEEE mode bit is set."
        value = 0.0 if denormal(bits, width) else value
        value = pcode.rounded(value * (1, 2, 4, 0.5)[use.omod], width).value
    if use.clamp:
        if math.isnan(value):
            value = 0.0 if mode >> 4 & 1 else value
        else:
            value = min(max(value, 0.0), 1.0) if value != 0 else 0.0
    return pcode.bits_of(value, width)


def environment(use: Use, state: State, lane: int, values: list[int]) -> dict[str, pcode.Value]:
    """The variables of the pseudo-code in a lane."""
    e: dict[str, pcode.Value] = {f"S{i}": pcode.B(max(64, use.opcode.sources[i].bits), v) for i, v in enumerate(values)}
    e |= {
        "VCC": pcode.B(64, state.vcc),
        "EXEC": pcode.B(64, state.exec),
        "laneId": lane,
        "M0": pcode.B(32, state.m0),
        "OPSEL": pcode.B(4, use.opsel),
        "OPSEL_HI": pcode.B(3, use.opsel_hi),
        "CLAMP": use.clamp,
        "WAVE_MODE.IEEE": state.mode >> 5 & 1,
        "OVFL": state.overflow,
        "D1": pcode.B(1, 0),
        "INST.OMOD": pcode.B(2, use.omod),
        "INST.ABS": pcode.B(3, use.abs),
        "INST.NEG": pcode.B(3, use.neg),
        "S": [e[f"S{i}"] for i in range(len(values))],
        "SIMM32": pcode.B(32, use.literal),
        "SIMM16": pcode.B(16, use.literal & 0xFFFF),
    }
    if use.sdwa:
        e["SDWA_SRC0_SEL"] = pcode.B(3, use.sdwa.select[0])
    else:
        e["SDWA_SRC0_SEL"] = pcode.B(
            3, 5 if use.opsel & 1 and "cvt_pk" in use.opcode.name else (use.opsel & 1) << 1 | use.opsel >> 1 & 1
        )
    return e


def alive(use: Use, lane: int) -> bool:
    """Return True if a DPP lets a lane write."""
    return use.dpp is None or (use.dpp.row_mask >> lane // 16 & 1 and use.dpp.bank_mask >> lane // 4 % 4 & 1) > 0


def writes(use: Use, state: State, lane: int) -> bool:
    if not state.exec >> lane & 1 or not alive(use, lane):
        return False
    if use.dpp is None or use.dpp.bound:
        return True
    read = dpp_lane(use.dpp.control, lane)
    return read is not None and bool(state.exec >> read & 1)


# The hardware approximates these; the emulator rounds the exact result.
# Relative errors by width; absolute ones are negative.
APPROXIMATE = {
    re.compile(r"v_(exp|log|rcp|rsq|sqrt)_"): {16: 1e-3, 32: 2.4e-7, 64: 1e-15},
    re.compile(r"v_(sin|cos)_"): {16: -1e-3, 32: -1e-6},
    re.compile(r"v_dot2c?_f32"): {32: 4e-7},
}


def tolerance(name: str, width: int) -> float:
    return next((by_width.get(width, 0.0) for pattern, by_width in APPROXIMATE.items() if pattern.match(name)), 0.0)


def registers(state: State) -> list[list[pcode.Value]]:
    """VGPR[lane][register] of the pseudo-code, up to v23."""
    rows = {**{10 + i: i for i in range(8)}, **{20 + i: 8 + i for i in range(4)}}
    return [
        [pcode.B(32, int(state.rows[rows[r], lane])) if r in rows else pcode.B(32, 0) for r in range(24)]
        for lane in range(64)
    ]


def copied(state: State) -> State:
    return State(**{**state.__dict__, "rows": state.rows.copy(), "scalars": [*state.scalars]})


def set_sdst(use: Use, after: State, mask: int) -> None:
    if use.sdst == VCC:
        after.vcc = mask
    else:
        after.low = mask


def expected(use: Use, state: State, flavour: str) -> Want:
    """The state after the instruction; `flavour` is that of 8-bit floats on the target."""
    text = use.opcode.text
    assert text is not None
    want = Want(copied(state))
    common: dict[str, pcode.Value] = {"FLAVOUR": flavour}
    if "VGPR" in text:
        common |= {
            "VGPR": registers(state),
            "VDST": pcode.B(32, use.destination - 256),
            "SRC0": pcode.B(32, use.sources[0] - 256),
        }
        if "laneId" not in text:
            return of_wave(use, state, want, common)
    mask, seen, left_alone = 0, 0, 0
    for lane in range(64):
        if not writes(use, state, lane):
            left_alone |= (1 << lane) & state.exec
            continue
        values = [source(use, i, operand, state, lane) for i, operand in enumerate(use.opcode.sources)]
        e = environment(use, state, lane, values) | common
        bit = of_lane(use, state, lane, e, want)
        mask, seen = mask | bit << lane, seen | 1 << lane
    if has_mask(use.opcode):
        set_sdst(use, want.state, mask)
        want.unknown_scalar = left_alone
        if use.opcode.name.startswith("v_cmpx"):
            want.state.exec = mask
    return want


def has_mask(opcode: Opcode) -> bool:
    return bool(re.match(r"v_cmp|v_\w+_co_u32|v_div_scale|v_mad_[ui]64", opcode.name))


def of_wave(use: Use, state: State, want: Want, e: dict[str, pcode.Value]) -> Want:
    """An instruction whose text is of all lanes at once."""
    values = environment(use, state, 0, [])
    for i, (code, operand) in enumerate(zip(use.sources, use.opcode.sources, strict=False)):
        values[f"S{i}"] = pcode.B(
            32, register(state, code, 0, 32) if code < 128 or code >= 256 else constant(code, operand, use.literal)
        )
    done = pcode.run(use.opcode.text or "", **(values | e | {"D0": pcode.B(32, 0)}))
    for lane in range(64):
        for r in (*range(10, 18), *range(20, 24)):
            want.state.rows[r - 10 if r < 18 else r - 12, lane] = pcode.raw(done["VGPR"][lane][r], 32)
    if use.opcode.name.startswith("v_read"):
        want.state.low = state.low >> 32 << 32 | pcode.raw(done["D0"], 32)
    return want


def of_lane(use: Use, state: State, lane: int, e: dict[str, pcode.Value], want: Want) -> int:
    """Run the text for one lane; writes its registers, returns its bit of the mask."""
    name, text, d = use.opcode.name, use.opcode.text or "", use.opcode.fields.get("vdst")
    if re.match(r"v_(addc|subb|subbrev)_co|v_cndmask", name) and use.form == "vop3":
        e["VCC"] = pcode.B(64, register(state, use.sources[2], lane, 64))
    if name.startswith("v_cmp"):
        done = pcode.run(text, **(e | {"D0": pcode.B(64, 0)}))
        return pcode.raw(done["D0"], 64) >> lane & 1
    assert d is not None
    old = register(state, use.destination, lane, max(32, d.bits))
    if d.kind == "F" and re.search(r"(, |\+ )D0[.\[]", text):  # it accumulates
        for at in range(0, d.width * d.count, d.width):
            part = (1 << d.width) - 1
            old = old & ~(part << at) | flushed(old >> at & part, d, state.mode) << at
    if name.startswith("v_div_scale"):  # where the text says nothing the source stays what it is
        old = pcode.raw(e["S0"], max(32, d.bits))
    done = pcode.run(use.opcode.text or "", **(e | {"D0": pcode.B(max(32, d.bits), old)}))
    row = 8
    if "VGPR" in text and "VDST" in text:
        want.state.rows[row, lane] = pcode.raw(done["VGPR"][lane][use.destination - 256], 32)
        return 0
    result = pcode.raw(done.get("D", done["D0"]) if name.startswith("v_bitop3") else done["D0"], max(32, d.bits))
    carry = pcode.raw(done["VCC"], 64) >> lane & 1 if "_co_" in name else 0
    if use.clamp and carry:
        result = 0xFFFFFFFF if name.startswith("v_add") else 0
    put(use, state, lane, result, d, want)
    if name == "v_swap_b32":
        want.state.rows[0, lane] = pcode.raw(done["S0"], 32)
    if "_co_" in name:
        return carry
    if name.startswith("v_div_scale"):
        return int(pcode.raw(done["VCC"], 64) != 0)
    return pcode.raw(done["D1"], 1) if name.startswith("v_mad_") and "64" in name else 0


def put(use: Use, state: State, lane: int, result: int, d: Operand, want: Want) -> None:
    """Finish a result (float modifiers, denormals) and write its part of the registers."""
    name, row = use.opcode.name, 8
    high = name == "v_fma_mixhi_f16"
    owns_half = "OPSEL.u4[3]" in (use.opcode.text or "")
    low = 16 if high or (owns_half and use.opsel & 8) else 0
    elements = []
    if d.floating and d.width in (16, 32, 64):
        for k in range(d.count):
            at = low + k * d.width
            bits = result >> at & (1 << d.width) - 1
            if d.kind == "F":
                bits = output_modified(bits, d.width, use, state.mode)
                bits = bits if IGNORES_MODE.match(name) else flushed(bits, d, state.mode, output=True)
            result = result & ~((1 << d.width) - 1 << at) | bits << at
            elements.append((at, d.width))
    old = register(state, use.destination, lane, max(32, d.bits))
    if use.sdwa and "SDWA_SRC0_SEL" not in (use.opcode.text or ""):
        part = result & (1 << min(32, d.bits)) - 1
        vague = elements and (math.isnan(pcode.float_of(part, d.width)) or tolerance(name, d.width))
        result, elements = merged(use.sdwa, part, old, elements, d)
        if vague and not elements:  # a part of a float whose bits are not known
            want.unknown = np.zeros((12, 64), dtype=np.uint32) if want.unknown is None else want.unknown
            want.unknown[row, lane] = 0xFFFFFFFF
    elif name.startswith("v_cvt_scalef32_f16"):
        low = 16 if use.opsel & 8 else 0
        result, elements = old & 0xFFFF << 16 - low | (result & 0xFFFF) << low, [(low, 16)]
    elif d.bits == 16 and not owns_half and not high and name != "v_fma_mixlo_f16":
        half = result & 0xFFFF
        if use.opsel & 8 and "OPSEL[" not in (use.opcode.text or ""):
            result, elements = old & 0xFFFF | half << 16, [(16, 16)] if elements else []
        else:
            result = half | (old & 0xFFFF0000 if KEEPS_HALF.match(name) else 0)
    for i in range(max(1, d.bits // 32)):
        want.state.rows[row + i, lane] = result >> 32 * i & 0xFFFFFFFF
    for at, width in elements:
        want.floats[row + at // 32, lane, at % 32 | width << 8] = tolerance(name, width)


def merged(
    sdwa: Sdwa, result: int, old: int, elements: list[tuple[int, int]], d: Operand
) -> tuple[int, list[tuple[int, int]]]:
    """The part of the register that an SDWA writes, and what becomes of the rest."""
    if sdwa.destination == DWORD:
        return result, elements
    width = 8 if sdwa.destination < 4 else 16
    at = 8 * sdwa.destination if sdwa.destination < 4 else 16 * (sdwa.destination - 4)
    part = result & (1 << width) - 1
    rest = 0
    if sdwa.unused == 2:
        rest = old & ~((1 << width) - 1 << at)
    elif sdwa.unused == 1 and part >> width - 1:
        rest = 0xFFFFFFFF >> at + width << at + width
    return rest & 0xFFFFFFFF | part << at, [(at, 16)] if elements and width == 16 and d.bits == 16 else []


def differences(use: Use, got: State, want: Want) -> list[str]:
    """Differences from the expected state, in words: the first lane of each register, masks, SCC, M0."""
    found = []
    wrong = got.rows != want.state.rows
    if want.unknown is not None:
        wrong &= want.unknown == 0
    for r, lane in zip(*np.nonzero(wrong), strict=True):
        a, b = int(got.rows[r, lane]), int(want.state.rows[r, lane])
        for (row, of, where), most in want.floats.items():
            if of == lane and row <= r < row + max(1, (where >> 8) // 32):
                a, b = same_float(got, want.state, row, of, where, most, r, a, b)
        if a != b:
            found.append(f"v{r + 10 if r < 8 else r + 12} lane {lane}: 0x{a:x}, text 0x{b:x}")
    known = ~want.unknown_scalar
    for name in ("vcc", "exec", "low", "high", "scc", "m0"):
        a, b = getattr(got, name), getattr(want.state, name)
        if (a ^ b) & (known if has_mask(use.opcode) else -1):
            found.append(f"{name}: 0x{a:x}, text 0x{b:x}")
    return found


def same_float(
    got: State, want: State, row: int, lane: int, where: int, most: float, r: int, a: int, b: int
) -> tuple[int, int]:
    """The two dwords of row `r`, with the float field made alike where both are NaN or close."""
    at, width = where & 0xFF, where >> 8

    def bits(state: State) -> int:
        wide = int(state.rows[row, lane]) | (int(state.rows[row + 1, lane]) << 32 if width == 64 else 0)
        return wide >> at & (1 << width) - 1

    x, y = (pcode.float_of(bits(s), width) for s in (got, want))
    if most and width == 32 and not (math.isfinite(x) and math.isfinite(y)):
        return b, b  # sums in another order leave the range elsewhere
    allowed = -most if most < 0 else most * max(abs(y), 2.0**-1000)
    near = math.isfinite(x) and math.isfinite(y) and abs(x - y) <= allowed
    if not (math.isnan(x) and math.isnan(y)) and not near:
        return a, b
    if width == 64:
        return b, b
    mask = (1 << width) - 1 << at
    return a & ~mask | b & mask, b
