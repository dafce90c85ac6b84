"""Indexed registers, hardware registers, accumulation registers and clocks: small programs, and what they leave.

The pseudo-code of the indexed and of the hardware registers runs once its arrays of registers are given; what VGPR
indexing does to the instructions after it is the table "VGPR Indexing Details" of AMD's CDNA3 ISA document. The fields
of hardware registers are those of its chapter "Kernel State", their numbers LLVM's (AMDGPU::Hwreg).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pcode

from instructions import encode, machine
from instructions.machine import ALL_LANES, Rows, State
from instructions.memory import Notes
from instructions.table import Opcode, opcodes
from instructions.vector_cases import integer_bits, seed_of

MOVES = re.compile(r"s_movrel[sd]_b(32|64)$")
INDEXES = re.compile(r"s_set_gpr_idx_(on|off|idx|mode)$")
HARDWARE = re.compile(r"s_(getreg_b32|setreg(_imm32)?_b32)$")
ACCUMULATORS = re.compile(r"v_accvgpr_(read|write|mov)_b32$")
CLOCKS = re.compile(r"s_mem(real)?time$")
BASE, COUNT = 64, 16  # s64, ... and v64, ...: the registers that an index reaches
MASKS = (ALL_LANES, 0x5555_0000_F0F0_0001, 1 << 63, 0, 0xFFFF_FFFF)
ON = 17  # the opcode of s_set_gpr_idx_on
MODE, STATUS, HW_ID, SH_MEM_BASES, XCC_ID = 1, 2, 4, 15, 20
RUNNABLE = (  # what the interpreter reads as arrays and names of its own
    ("SGPR[addr].b32", "SGPR[addr]"),
    ("SGPR[addr].b64", "SGPR[addr]"),
    ("WAVE_MODE.GPR_IDX_EN", "INDEXES"),
    ("HwRegWriteMask(hwRegId, WAVE_STATUS.PRIV)", "WRITABLE"),
)


@dataclass(frozen=True)
class Program:
    """Assembly around one instruction, the state before, and the differences of a state after it."""

    body: str
    words: Sequence[int]
    before: State
    differences: Callable[[State], list[str]]


def text_of(opcode: Opcode) -> str:
    """The pseudo-code in a form that runs."""
    text = opcode.text or ""
    for old, new in RUNNABLE:
        text = text.replace(old, new)
    return text


def unequal(pairs: Iterable[tuple[str, int, int]]) -> list[str]:
    """Names, results and expected results as words, where they differ."""
    return [f"{name}: 0x{got:x}, expected 0x{want:x}" for name, got, want in pairs if got != want]


def state_for(rng: np.random.Generator, number: int) -> State:
    """Random registers; every lane mask in turn."""
    words = [int(x) for x in rng.integers(0, 1 << 32, 9, dtype=np.uint64)]
    rows = np.stack([integer_bits(rng, 32).astype(np.uint32) for _ in range(12)])
    mask, vcc = MASKS[number % len(MASKS)], (words[4] | words[5] << 32, 0)[number % 4 == 3]
    return State(rows, words[:4], vcc, mask, words[6], words[8] & 1, words[7], 0)


def lines(*some: str) -> str:
    return "\n".join(f"  {line}" for line in some)


def moved(opcode: Opcode, number: int, rng: np.random.Generator, target: str) -> Program:
    """s_movrels, s_movreld: lane i of v20 holds s[64 + i] afterwards."""
    wide, source = opcode.name.endswith("64"), "movrels" in opcode.name
    state, step = state_for(rng, number), 2 if opcode.name.endswith("64") else 1
    at, state.m0 = int(rng.integers(0, 4)) * step, int(rng.integers(0, 6)) * step
    field = BASE + at
    if number % 4 == 3:  # up to VCC
        field, state.m0 = 106 - 2 * (number % 3), 2 * (number % 3)
    held = [int(x) for x in rng.integers(0, 1 << 32, COUNT, dtype=np.uint64)]
    registers = {BASE + i: x for i, x in enumerate(held)}
    registers |= {102 + i: 0 for i in range(4)} | {106: state.vcc & 0xFFFFFFFF, 107: state.vcc >> 32}
    word = encode.sop1(opcode.number, 30 if source else field, field if source else 20)
    body = lines(
        "s_mov_b64 exec, s[48:49]",
        *(f"s_mov_b32 s{BASE + i}, 0x{x:x}" for i, x in enumerate(held)),
        f".long 0x{word:08x}",
        *(f"v_writelane_b32 v20, s{BASE + i}, {i}" for i in range(COUNT)),
    )

    def pair(register: int) -> int:
        return registers.get(register, 0) | (registers.get(register + 1, 0) << 32 if wide else 0)

    width = 32 * step
    data = state.scalars[0] | (state.scalars[1] << 32 if wide else 0)
    e: dict[str, pcode.Value] = {
        "SGPR": [pcode.B(width, pair(i)) for i in range(128)], "M0": pcode.B(32, state.m0),
        "SRC0": pcode.B(32, field), "DST": pcode.B(32, field), "S0": pcode.B(width, data),
        "D0": pcode.B(width, state.low & (1 << width) - 1),
    }  # fmt: skip
    done = pcode.run(text_of(opcode), **e)
    low, vcc, after = state.low, state.vcc, dict(registers)
    if source:
        low = state.low >> width << width | pcode.raw(done["D0"], width)
    else:
        to = field + state.m0
        result = pcode.raw(done["SGPR"][to], width)
        after[to] = result & 0xFFFFFFFF
        if wide:
            after[to + 1] = result >> 32
        vcc = after[106] | after[107] << 32

    def differences(got: State) -> list[str]:
        pairs = [(f"s{BASE + i}", int(got.rows[8, i]), after[BASE + i]) for i in range(COUNT)]
        return unequal([*pairs, ("s[30:31]", got.low, low), ("vcc", got.vcc, vcc), ("m0", got.m0, state.m0)])

    return Program(body, [word], state, differences)


# Vector instructions under an index: assembly, (register, bit of M0[15:12] that moves it) of the result and of the
# sources, and the result. v64 to v87 hold numbers below 256; FLOATS compute with them as f32, exactly.
Shifted = tuple[str, tuple[tuple[int, int], ...], Callable[..., Rows]]
FLOATS: tuple[Shifted, ...] = (
    ("v_fmac_f32 v64, v66, v68", ((64, 3), (66, 0), (68, 1), (64, 3)), lambda a, b, c: a * b + c),
    ("{madmk} v64, v66, 0x40a00000, v68", ((64, 3), (66, 0), (68, 2)), lambda a, b: a * 5 + b),
)
SHIFTED: tuple[Shifted, ...] = (
    ("v_mov_b32 v64, v66", ((64, 3), (66, 0)), lambda a: a),
    ("v_sub_u32 v64, v66, v68", ((64, 3), (66, 0), (68, 1)), lambda a, b: a - b),
    ("v_mad_u32_u24 v64, v66, v68, v70", ((64, 3), (66, 0), (68, 1), (70, 2)), lambda a, b, c: a * b + c),
    ("v_lshlrev_b32 v64, v66, v68", ((64, 3), (66, 0), (68, 1)), lambda a, b: b << (a & 31)),
    ("v_mul_u32_u24 v64, 9, v68", ((64, 3), (68, 1)), lambda b: 9 * b),
    *FLOATS,
)
FILLED = 24  # v64, ...


def on_text() -> str:
    """The pseudo-code of s_set_gpr_idx_on."""
    return next(text_of(o) for o in opcodes() if o.name == "s_set_gpr_idx_on")


def indexed(opcode: Opcode, number: int, rng: np.random.Generator, target: str) -> Program:
    """s_set_gpr_idx_*, and a vector instruction after it: its result in v20, the exclusive or of all in v21."""
    state, kind = state_for(rng, number), opcode.name.rsplit("_", 1)[-1]
    first, later = (int(x) for x in rng.integers(0, 9, 2))
    state.scalars[0], state.scalars[1] = state.scalars[0] & ~0xFF | first, state.scalars[1] & ~0xFF | later
    flags, new = (int(x) for x in rng.integers(0, 16, 2))
    chosen = SHIFTED[number % len(SHIFTED)]
    text, registers, f = chosen
    sopp = 0b101111111 << 23 | opcode.number << 16 | new
    word = {"on": encode.sopc(opcode.number, 20, flags), "idx": encode.sop1(opcode.number, 0, 21)}.get(kind, sopp)
    e: dict[str, pcode.Value] = {
        "M0": pcode.B(32, state.m0), "INDEXES": 0, "SRC1": pcode.B(32, flags), "SIMM16": pcode.B(16, new),
    }  # fmt: skip
    for code, data in ((on_text(), 0), (text_of(opcode), 1))[kind == "on" :]:
        done = pcode.run(code, **e, S0=pcode.B(32, state.scalars[0 if kind == "on" else data]))
        e |= {name: done[name] for name in ("M0", "INDEXES")}
    m0, enabled = pcode.raw(e["M0"], 32), int(pcode.truth(e["INDEXES"]))
    held = {64 + i: state.rows[i % 4] >> np.uint32(i // 4 * 2) & np.uint32(255) for i in range(FILLED)}
    to, *sources = (r + (m0 & 255 if enabled and m0 >> 12 + role & 1 else 0) for r, role in registers)
    active = np.array([state.exec >> lane & 1 for lane in range(64)], dtype=bool)
    after = held | {to: np.where(active, f(*(held[r] for r in sources)), held[to]).astype(np.uint32)}
    every = np.bitwise_xor.reduce(np.stack(list(after.values())))
    floats, madmk = chosen in FLOATS, "v_madmk_f32" if target == "gfx90a" else "v_fmamk_f32"

    def all_of(conversion: str) -> list[str]:
        return [f"{conversion} v{64 + i}, v{64 + i}" for i in range(FILLED) if floats]

    body = lines(
        *(f"v_bfe_u32 v{64 + i}, v{10 + i % 4}, {i // 4 * 2}, 8" for i in range(FILLED)),
        *all_of("v_cvt_f32_u32"),
        "s_mov_b64 exec, s[48:49]",
        *([f".long 0x{encode.sopc(ON, 20, flags):08x}"] if kind != "on" else []),
        f".long 0x{word:08x}",
        "s_getreg_b32 s32, hwreg(HW_REG_MODE, 27, 1)",
        text.format(madmk=madmk),
        "s_set_gpr_idx_off",
        "s_mov_b64 exec, -1",
        *all_of("v_cvt_u32_f32"),
        f"v_mov_b32 v20, v{to}",
        "v_mov_b32 v21, 0",
        *(f"v_xor_b32 v21, v21, v{64 + i}" for i in range(FILLED)),
        "s_mov_b64 exec, s[48:49]",
    )

    def differences(got: State) -> list[str]:
        pairs = [(f"v{to} lane {i}", int(got.rows[8, i]), int(after[to][i])) for i in range(64)]
        pairs += [(f"all registers of lane {i}", int(got.rows[9, i]), int(every[i])) for i in range(64)]
        return unequal([*pairs, ("m0", got.m0, m0), ("GPR_IDX_EN", got.high & 0xFFFFFFFF, enabled)])

    return Program(body, [word], state, differences)


def mode_of(state: State) -> int:
    """MODE in the frame of a case."""
    return state.mode << 4 | state.overflow << 23


ROUNDS, DEBUGS, TRAPS, SKIPS = 0xF, 1 << 11, 0x1FF << 12, 1 << 28  # of MODE: what the emulator refuses


def hardware(opcode: Opcode, number: int, rng: np.random.Generator, target: str) -> Program:
    """s_getreg, s_setreg: fields of every width, of all registers that the emulator has; MODE is restored."""
    state = state_for(rng, number)
    state.mode, state.overflow = int(rng.integers(0, 64)), int(rng.integers(0, 2))
    before, priority = mode_of(state), int(rng.integers(0, 4))
    apertures = ["s_mov_b64 s[24:25], src_private_base", "s_mov_b64 s[26:27], src_shared_base"]
    if opcode.name == "s_getreg_b32":
        choices = [MODE, MODE, STATUS, STATUS, HW_ID, SH_MEM_BASES, *([XCC_ID] if target != "gfx90a" else [])]
        register = choices[number % len(choices)]
        low, size = int(rng.integers(0, 32)), int(rng.integers(1, 33))
        if register == STATUS:
            low, size = [(0, 1), (0, 6), (3, 2), (9, 2), (9, 6), (10, 1), (16, 1), (1, 2)][number // 2 % 8]
        word = encode.sopk(opcode.number, 30, register | low << 6 | size - 1 << 11)
        body = lines("s_mov_b64 exec, s[48:49]", f"s_setprio {priority}", *apertures, f".long 0x{word:08x}",
                     "s_mov_b32 s32, s25", "s_mov_b32 s33, s27")  # fmt: skip

        def differences(got: State) -> list[str]:
            # An aperture is at its field, shifted left by 48 (LLVM, SITargetLowering::getSegmentAperture).
            bases = got.high >> 16 & 0xFFFF | got.high >> 48 << 16
            empty = (state.exec == 0) << 9 | (state.vcc == 0) << 10
            status = (
                state.scc | priority << 3 | empty | 1 << 16
            )  # the first wave of a block of one wave, alone on the GPU
            values = [pcode.B(32, 0)] * 64
            for at, value in ((MODE, before), (STATUS, status), (SH_MEM_BASES, bases)):
                values[at] = pcode.B(32, value)
            e = {"SIMM16": pcode.B(16, word & 0xFFFF), "HW_REGISTERS": values, "D0": pcode.B(32, 0)}
            want = pcode.raw(pcode.run(text_of(opcode), **e)["D0"], 32)
            low_half = got.low & 0xFFFFFFFF
            return unequal([("s30", low_half, want), ("apertures", int(bases > 0), 1), ("scc", got.scc, state.scc)])

        return Program(body, [word], state, differences)
    low = int(rng.integers(0, 32))
    size = int(rng.integers(1, 33 - low))
    value = state.scalars[0] & ~((ROUNDS | DEBUGS | TRAPS | SKIPS) >> low)
    state.scalars[0], immediate = value, opcode.name == "s_setreg_imm32_b32"
    word = encode.sopk(opcode.number, 0 if immediate else 20, MODE | low << 6 | size - 1 << 11)
    words = [word, value] if immediate else [word]
    body = lines(
        "s_mov_b64 exec, s[48:49]",
        *(f".long 0x{w:08x}" for w in words),
        "s_getreg_b32 s30, hwreg(HW_REG_MODE, 0, 32)",
        f"s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 32), 0x{before:x}",
    )
    values = [pcode.B(32, before if i == MODE else 0) for i in range(64)]
    e = {
        "SIMM16": pcode.B(16, word & 0xFFFF), "HW_REGISTERS": values, "WRITABLE": pcode.B(32, 0xFFFFFFFF),
        "S0": pcode.B(32, value), "SIMM32": pcode.B(32, value),
    }  # fmt: skip
    want = pcode.raw(pcode.run(text_of(opcode), **e)["HW_REGISTERS"][MODE], 32)
    return Program(body, words, state, lambda got: unequal([("MODE", got.low & 0xFFFFFFFF, want)]))


def accumulated(opcode: Opcode, number: int, rng: np.random.Generator, target: str) -> Program:
    """v_accvgpr_*: a move of the bits of each lane that EXEC names, which is why there is no text."""
    state = state_for(rng, number)
    kind = opcode.name.split("_")[2]
    constant = {0: None, 1: (128 + 64, 64), 2: (193, 0xFFFFFFFF), 3: (242, 0x3F800000)}[number % 4]
    if kind == "read":
        words, result = encode.vop3p(opcode.number, 20, (256 + 5,), opsel_hi=3), "v20"
    elif kind == "write":
        source = constant[0] if constant else 256 + 10
        words, result = encode.vop3p(opcode.number, 6, (source,), opsel_hi=3), "a6"
    else:
        words, result = [encode.vop1(opcode.number, 6, 256 + 5)], "a6"
    body = lines(
        "v_accvgpr_write_b32 a5, v11",
        "v_accvgpr_write_b32 a6, v12",
        "v_mov_b32 v20, v12",
        "s_mov_b64 exec, s[48:49]",
        *(f".long 0x{w:08x}" for w in words),
        "s_mov_b64 exec, -1",
        *(["v_accvgpr_read_b32 v20, a6"] if result == "a6" else []),
        "v_accvgpr_read_b32 v21, a5",
        "s_mov_b64 exec, s[48:49]",
    )
    data = state.rows[1]
    if kind == "write":
        data = np.full(64, constant[1], dtype=np.uint32) if constant else state.rows[0]

    def differences(got: State) -> list[str]:
        want = [int(data[i] if state.exec >> i & 1 else state.rows[2, i]) for i in range(64)]
        pairs = [(f"{result} lane {i}", int(got.rows[8, i]), want[i]) for i in range(64)]
        return unequal(pairs + [(f"a5 lane {i}", int(got.rows[9, i]), int(state.rows[1, i])) for i in range(64)])

    return Program(body, words, state, differences)


def timed(opcode: Opcode, number: int, rng: np.random.Generator, target: str) -> Program:
    """Two reads of a clock: the second is later by as many cycles as there are instructions between, at least."""
    state = state_for(rng, number)
    words = [0b110000 << 26 | opcode.number << 18 | 30 << 6, 0]
    second = [words[0] + (2 << 6), 0]
    between = ["s_nop 0"] * (1 + 20 * (number % 5))

    def read(code: Sequence[int]) -> list[str]:
        return [*(f".long 0x{w:08x}" for w in code), "s_waitcnt lgkmcnt(0)"]

    body = lines("s_mov_b64 exec, s[48:49]", *read(words), *between, *read(second))

    def differences(got: State) -> list[str]:
        return [] if got.high >= got.low + len(between) else [f"{got.high} after {got.low}, {len(between)} later"]

    return Program(body, words, state, differences)


KINDS = ((MOVES, moved), (INDEXES, indexed), (HARDWARE, hardware), (ACCUMULATORS, accumulated), (CLOCKS, timed))


def programs(opcode: Opcode) -> Callable[[Opcode, int, np.random.Generator, str], Program] | None:
    """The maker of an opcode's programs; None for an opcode of another module."""
    return next((make for pattern, make in KINDS if pattern.match(opcode.name)), None)


def compare(some: Iterable[Notes], targets: Sequence[str], count: int) -> None:
    """Run the programs of some records on each target, and note what differs."""
    some = list(some)
    for target in targets:
        made = [(record, program) for record in some for program in cases(record.opcode, target, count)]
        after = machine.run([(program.body, program.before) for _, program in made], target)
        for (record, program), got in zip(made, after, strict=True):
            record.note(target, "", program.words, program.differences(got))


def cases(opcode: Opcode, target: str, count: int) -> Iterator[Program]:
    """`count` programs of an opcode, if the target has it."""
    make = programs(opcode)
    assert make is not None, opcode.name
    for number in range(count if target in opcode.targets else 0):
        yield make(opcode, number, seed_of(opcode, number), target)
