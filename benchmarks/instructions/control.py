"""Branches and jumps in small programs, and loads into scalar registers: cases, and results by the pseudo-code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pcode

from instructions import encode, machine
from instructions.machine import ALL_LANES, State
from instructions.memory import Notes
from instructions.table import Opcode
from instructions.vector_cases import seed_of

JUMPS = re.compile(r"s_(branch|cbranch_\w+|getpc_b64|setpc_b64|swappc_b64|call_b64)$")
LOADS = re.compile(r"s_(buffer_)?load_dword")
PADS = 3  # places to land before the instruction, and as many after it
FIRST = 4 * (6 + 2 * PADS)  # of the instruction, from the first instruction whose address is known
UNWRITTEN = 0x5A5A0000
BASE = 1024  # of a load, in the memory of its case
Case = tuple[str, list[int], State, dict[str, int]]


def jump(opcode: Opcode, number: int, rng: np.random.Generator) -> Case:
    """A program that lands on one of several pads; s32 tells which, in bytes from the instruction."""
    pads = [*range(-8 * PADS, 0, 8), *range(4, 4 + 8 * PADS, 8)]
    target = int(rng.choice(pads))
    immediate = (target - 4) // 4 & 0xFFFF
    if opcode.encoding.name == "SOPP":
        word = 0b101111111 << 23 | opcode.number << 16 | immediate
    elif opcode.encoding.name == "SOPK":
        word = encode.sopk(opcode.number, 30, immediate)
    else:
        word = encode.sop1(opcode.number, 30, 26)
    here = f"L_{opcode.name}_{number}"
    lands = [f"  s_movk_i32 s60, {at}\n  s_branch {here}_end\n" for at in pads]
    body = f"""
  s_mov_b64 exec, s[48:49]
  s_getpc_b64 s[24:25]
  s_movk_i32 s28, {FIRST + target}
  s_add_u32 s26, s24, s28
  s_addc_u32 s27, s25, 0
  s_mov_b64 s[30:31], s[24:25]
  s_bitcmp1_b32 s52, 0
  s_branch {here}
{"".join(lands[:PADS])}{here}:
  .long 0x{word:08x}
{"".join(lands[PADS:])}{here}_end:
  s_sub_u32 s30, s30, s24
  s_subb_u32 s31, s31, s25
  s_mov_b32 s32, s60"""
    state = State(
        np.zeros((12, 64), dtype=np.uint32),
        vcc=(0, 1 << 40, ALL_LANES)[number % 3],
        exec=(ALL_LANES, 0, 1 << 33)[number // 2 % 3],
        scc=number % 2,
    )
    return body, [word], state, {"immediate": immediate, "target": FIRST + target}


def jumped(opcode: Opcode, state: State, values: dict[str, int]) -> tuple[int, int]:
    """The bytes from the instruction to where it goes on, and s[30:31] from the known address."""
    e: dict[str, pcode.Value] = {
        "PC": pcode.B(64, FIRST), "SIMM16": pcode.B(16, values["immediate"]), "S0": pcode.B(64, values["target"]),
        "D0": pcode.B(64, 0), "SCC": state.scc, "VCCZ": pcode.B(1, int(state.vcc == 0)),
        "EXECZ": pcode.B(1, int(state.exec == 0)),
        "COND_DBG_SYS": pcode.B(1, 0), "COND_DBG_USER": pcode.B(1, 0),
    }  # fmt: skip
    done = pcode.run((opcode.text or "").replace("WAVE_STATUS.", ""), **e)
    after = pcode.raw(done["PC"], 64)
    return (after if "PC =" in (opcode.text or "") else FIRST + 4) - FIRST, pcode.raw(done["D0"], 64)


def load(opcode: Opcode, number: int, rng: np.random.Generator) -> Case:
    """A load from the memory that has the case's registers; lane i of v20 holds scalar register i of the result."""
    buffer, dwords = "buffer" in opcode.name, opcode.fields["sdata"].bits // 32
    form = number % 3  # an immediate, a register, both
    immediate = 4 * int(rng.integers(0 if buffer else -200, 200)) if form != 1 else 0
    register = 4 * int(rng.integers(0, 200)) if form else 0
    state = State(rng.integers(0, 1 << 32, (12, 64), dtype=np.uint32), [register, 0, 0, 0])
    records, stride = 4 * int(rng.integers(0, 2 * dwords + 1)) + immediate + register, 4 * (number // 3 % 2)
    first = 12 | 64 << 6 | (form == 2) << 14 | (form != 1) << 17 | opcode.number << 18 | 0b110000 << 26
    words = [first, (20 if form == 1 else immediate & 0x1FFFFF) | (20 << 25 if form == 2 else 0)]
    descriptor = f"""
  s_or_b32 s25, s25, 0x{stride << 16:x}
  s_mov_b32 s26, {records // (stride or 1)}
  s_mov_b32 s27, 0x27000"""
    body = f"""
  s_add_u32 s24, s8, {BASE}
  s_addc_u32 s25, s9, 0{descriptor if buffer else ""}
{"".join(f"  s_mov_b32 s{64 + i}, 0x{UNWRITTEN + i:x}{chr(10)}" for i in range(16))}
  .long 0x{words[0]:08x}
  .long 0x{words[1]:08x}
  s_waitcnt lgkmcnt(0)
{"".join(f"  v_writelane_b32 v20, s{64 + i}, {i}{chr(10)}" for i in range(16))}"""
    values = {"immediate": immediate, "register": register, "limit": records if buffer else 1 << 20}
    return body, words, state, values


def loaded(opcode: Opcode, state: State, values: dict[str, int]) -> list[int]:
    """The 16 scalar registers after a load; beyond the range of a buffer it gives zeros."""
    data = machine.packed([state]).reshape(-1).tolist()
    space = pcode.Memory({i: byte for i, byte in enumerate(data) if i < BASE + values["limit"]})
    unwritten = sum(UNWRITTEN + i << 32 * i for i in range(16))
    e: dict[str, pcode.Value] = {
        "MEM": space, "SBASE": pcode.B(64, BASE), "SOFFSET": pcode.B(32, values["register"]),
        "OFFSET": pcode.B(32, values["immediate"] & 0xFFFFFFFF), "SDATA": pcode.B(512, unwritten),
    }  # fmt: skip
    done = pcode.raw(pcode.run(opcode.text or "", **e)["SDATA"], 512)
    return [done >> 32 * i & 0xFFFFFFFF for i in range(16)]


def cases(opcode: Opcode, count: int) -> Iterator[Case]:
    """`count` cases of an opcode."""
    make = jump if JUMPS.match(opcode.name) else load
    for number in range(count):
        yield make(opcode, number, seed_of(opcode, number))


def differences(opcode: Opcode, before: State, values: dict[str, int], got: State) -> list[str]:
    """Differences from the text, in words."""
    if JUMPS.match(opcode.name):
        mine = (got.high & 0xFFFFFFFF) - (1 << 32 if got.high >> 31 & 1 else 0), got.low
        want = jumped(opcode, before, values)
        return [] if mine == want else [f"goes on at {mine[0]}, s[30:31] {mine[1]:#x}; text {want[0]}, {want[1]:#x}"]
    registers = [int(x) for x in got.rows[8, :16]]
    pairs = zip(registers, loaded(opcode, before, values), strict=True)
    return [f"register {i}: 0x{a:x}, text 0x{b:x}" for i, (a, b) in enumerate(pairs) if a != b]


def compare(some: Iterable[Notes], targets: Sequence[str], count: int) -> None:
    """Run the cases of some records on each target, and note what differs."""
    made = [(record, *case) for record in some for case in cases(record.opcode, count)]
    for target in targets:
        mine = [c for c in made if target in c[0].opcode.targets]
        after = machine.run([(body, state) for _, body, _, state, _ in mine], target)
        for (record, _, words, before, values), got in zip(mine, after, strict=True):
            record.note(target, "", words, differences(record.opcode, before, values, got))
