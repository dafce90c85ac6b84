"""Scalar instructions: cases, and what they do by their pseudo-code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pcode

from instructions import encode
from instructions.encode import LITERAL
from instructions.machine import ALL_LANES, State
from instructions.table import Opcode, Operand
from instructions.vector import constant, copied, register
from instructions.vector_cases import INTEGERS, seed_of
from tkgen.emulate.decode import Encoding

E = Encoding
CONTROLS = (0x001F0004, 0x00200000, 0x00400000, 0x00010000, 0x0020001F, 0x007F0000, 0x00080018)
IMMEDIATES = (0, 5, 0x7FFF, 0x8000, 0xFFFF, 0x1234)


@dataclass(frozen=True)
class ScalarUse:
    """One instruction: sources and an immediate; the result is in s30."""

    opcode: Opcode
    sources: tuple[int, ...]
    immediate: int = 0
    literal: int = 0


def state_for(rng: np.random.Generator, mask: int) -> State:
    def word() -> int:
        if rng.random() < 0.4:
            return int(rng.choice(np.array([*INTEGERS, *CONTROLS], dtype=np.uint64)))
        return int(rng.integers(0, 1 << 32))

    words = [word() for _ in range(11)]
    if rng.random() < 0.15:
        words[2:4] = words[:2]
    if rng.random() < 0.15:
        words[:2] = [0, 0]
    return State(
        np.zeros((12, 64), dtype=np.uint32),
        words[:4],
        words[4] | words[5] << 32,
        mask,
        words[6],
        words[10] & 1,
        words[7] | words[8] << 32,
        words[9],
    )


def uses(opcode: Opcode, count: int) -> Iterator[tuple[ScalarUse, list[int], State]]:
    """`count` cases of an opcode, with registers, constants and literals."""
    names = [n for n in ("ssrc0", "ssrc1") if n in opcode.fields]
    for number in range(count):
        rng = seed_of(opcode, number)
        state = state_for(rng, (ALL_LANES, 0, 0x00FF_00FF_F0F0_0001, 1 << 63)[number % 4])
        codes, literal = (
            [20, 22][: len(names)],
            int(rng.choice(np.array([0x80000000, 0x12345678, 0x3F800000], dtype=np.uint64))),
        )
        if number % 3 == 2 and names:
            i = int(rng.integers(len(names)))
            wide = opcode.fields[names[i]].bits == 64
            codes[i] = int(
                rng.choice([128, 129, 192, 193, 208, 240, 243, 248, 106, 22 if wide else 124, 253, LITERAL, LITERAL])
            )
        use = ScalarUse(opcode, tuple(codes), IMMEDIATES[number % len(IMMEDIATES)], literal)
        yield use, words_of(use), state


def words_of(use: ScalarUse) -> list[int]:
    o, extra = use.opcode, [use.literal] if LITERAL in use.sources else []
    if o.encoding is E.SOP1:
        return [encode.sop1(o.number, 30, use.sources[0] if use.sources else 128), *extra]
    if o.encoding is E.SOP2:
        return [encode.sop2(o.number, 30, *use.sources), *extra]
    if o.encoding is E.SOPC:
        return [encode.sopc(o.number, *use.sources), *extra]
    return [encode.sopk(o.number, 30, use.immediate)]


def value(code: int, operand: Operand, state: State, literal: int) -> int:
    if code < 128 or code == 253:
        return register(state, code, 0, operand.bits)
    if 240 <= code <= 248:  # a float constant is one of 32 bits, or of 64
        bits = max(32, operand.bits)
        return constant(code, Operand("F", bits, 1, bits), literal)
    return constant(code, Operand("B", operand.bits, 1, operand.bits), literal)


def expected(use: ScalarUse, state: State) -> State:
    """The state after the instruction."""
    o, after = use.opcode, copied(state)
    names = [n for n in ("ssrc0", "ssrc1") if n in o.fields]
    e: dict[str, pcode.Value] = {
        f"S{i}": pcode.B(64, value(code, o.fields[n], state, use.literal))
        for i, (n, code) in enumerate(zip(names, use.sources, strict=True))
    }
    bits = o.fields["sdst"].bits if "sdst" in o.fields else 64
    e |= {
        "D0": pcode.B(bits, state.low & (1 << bits) - 1),
        "SCC": state.scc,
        "EXEC": pcode.B(64, state.exec),
        "SIMM16": pcode.B(16, use.immediate),
        "VCC": pcode.B(64, state.vcc),
        "M0": pcode.B(32, state.m0),
    }
    if o.encoding is E.SOPK:
        moves = o.name in ("s_movk_i32", "s_cmovk_i32", "s_addk_i32", "s_mulk_i32")
        e |= {
            "S1": pcode.B(16, use.immediate),
            "S0": pcode.B(16, use.immediate) if moves else pcode.B(64, state.low & 0xFFFFFFFF),
        }
    done = pcode.run(o.text or "", **e)
    if "sdst" in o.fields:
        after.low = state.low >> bits << bits | pcode.raw(done["D0"], bits)
    after.scc, after.exec = int(pcode.truth(done["SCC"])), pcode.raw(done["EXEC"], 64)
    return after


def differences(got: State, want: State) -> list[str]:
    """Differences from the expected state, in words."""
    return [
        f"{name}: 0x{getattr(got, name):x}, text 0x{getattr(want, name):x}"
        for name in ("low", "high", "scc", "exec", "vcc", "m0")
        if getattr(got, name) != getattr(want, name)
    ]
