"""LDS instructions without a text that runs: cases, and their results by a model of AMD's prose.

- `ds_swizzle_b32`: CDNA3 ISA, DS_SWIZZLE_B32; the text of RDNA 3 for its Fourier order.
- `ds_append`, `ds_consume`: the same, DS_APPEND; M0 holds the pointer (LLVM, selectDSAppendConsume; a probe asks).
- transposing reads: the layouts that rocRoller's GPU test asserts on a gfx950 (TransposeLoadsTest).
- loads into LDS: CDNA3 and CDNA4 ISA, "Memory Buffer Load to LDS" and "Flat memory, Addressing".

Each case has 2,048 bytes of LDS, which are compared afterwards with all registers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from instructions import encode
from instructions.machine import ALL_LANES, OUT, Rows, State, around, assembled, kernel, packed, unpacked
from instructions.memory import BYTES, SIZE, Notes, moved
from instructions.table import Opcode
from instructions.vector_cases import integer_bits, seed_of
from tkgen.emulate import Buffer, launch

SWIZZLES = re.compile(r"ds_swizzle_b32$")
COUNTERS = re.compile(r"ds_(append|consume)$")
TRANSPOSES = re.compile(r"ds_read_b(64|96)_tr_b(4|6|8|16)$")
TO_LDS = re.compile(r"(global|scratch)_load_lds_\w+$")
BUFFER_TO_LDS = re.compile(r"buffer_load_(ubyte|sbyte|ushort|sshort|dword|dwordx3|dwordx4)$")
LDS = 64 * BYTES
SOURCE = 3 * 1024  # bytes of the case's own registers, which the loads read
MASKS = (ALL_LANES, 0x5555_0000_F0F0_0001, 1 << 63, 0, 0xFFFF_FFFF)
MASKED = "  s_mov_b64 exec, s[48:49]\n"
SIZES = {"ubyte": 1, "sbyte": 1, "ushort": 2, "sshort": 2, "dword": 4, "dwordx3": 12, "dwordx4": 16}


@dataclass(frozen=True)
class Case:
    """One instruction with its code, the state and LDS before ([2048] bytes), and both as they should be after."""

    words: Sequence[int]
    code: str
    before: State
    lds: Rows
    want: State
    wanted: Rows
    form: str = ""


def state_for(rng: np.random.Generator, number: int) -> State:
    """Random registers, and every mask in turn."""
    rows = np.stack([integer_bits(rng, 32).astype(np.uint32) for _ in range(12)])
    return State(rows, exec=MASKS[number % len(MASKS)], m0=int(rng.integers(0, 1 << 32)))


def after(state: State, **rows: Rows) -> State:
    """The state with other rows, by number of a vector register."""
    made = state.rows.copy()
    for name, row in rows.items():
        register = int(name[1:])
        made[register - (10 if register < 18 else 12)] = row
    return State(made, [*state.scalars], state.vcc, state.exec, state.m0, state.scc, state.low, state.high)


def active(state: State) -> list[int]:
    """The lanes that EXEC names."""
    return [lane for lane in range(64) if state.exec >> lane & 1]


def long(*words: int) -> str:
    return "".join(f"  .long 0x{w:08x}\n" for w in words)


def reads_lane(offset: int, lane: int) -> int:
    """The lane that ds_swizzle_b32 reads."""
    half, at = lane // 32 * 32, lane % 32
    if offset >= 0xE000:  # Fourier: the five bits of the lane in reverse order, the mask's bits kept
        mask = offset % 32
        reverse = int(f"{at:05b}"[::-1], 2)
        return half | reverse >> mask.bit_count() | at & mask
    if offset >= 0xC000:  # rotation of the bits that the mask leaves
        by, mask = offset >> 5 & 31, offset & 31
        by = -by if offset >> 10 & 1 else by
        return half | at & mask | at + by & 31 & ~mask
    if offset >= 0x8000:  # four lanes each
        return lane // 4 * 4 + (offset >> 2 * (lane % 4) & 3)
    return half | (at & offset & 31 | offset >> 5 & 31) ^ (offset >> 10 & 31)


def swizzled(opcode: Opcode, number: int, rng: np.random.Generator, target: str) -> Case:
    """Every kind of pattern; a lane that is off gives zero."""
    state, lds = state_for(rng, number), rng.integers(0, 256, LDS).astype(np.uint8)
    kind = (0, 0x8000, 0xC000, 0xE000, 0xA000)[number // 2 % 5]
    offset = kind | int(rng.integers(0, 0x8000 if not kind else 0x2000))
    words = encode.ds(opcode.number, addr=10, dst=20, offset=offset)
    result = state.rows[8].copy()
    for lane in active(state):
        source = reads_lane(offset, lane)
        result[lane] = state.rows[0, source] if state.exec >> source & 1 else 0
    return Case(words, long(*words), state, lds, after(state, v20=result), lds, f"{kind:x}")


def counted(opcode: Opcode, number: int, rng: np.random.Generator, target: str) -> Case:
    """A counter moves by the number of active lanes, each of which gets what it was."""
    state, lds = state_for(rng, number), rng.integers(0, 256, LDS).astype(np.uint8)
    base, offset = (4 * int(x) for x in rng.integers(0, LDS // 8, 2))
    state.m0 = state.m0 & 0xFFFF0000 | base
    words = encode.ds(opcode.number, dst=20, offset=offset)
    at, lanes = base + offset, active(state)
    old = int.from_bytes(lds[at : at + 4].tobytes(), "little")
    new = old + (len(lanes) if opcode.name == "ds_append" else -len(lanes)) & 0xFFFFFFFF
    wanted = lds.copy()
    wanted[at : at + 4] = np.frombuffer(new.to_bytes(4, "little"), np.uint8)
    result = state.rows[8].copy()
    result[lanes] = old
    return Case(words, long(*words), state, lds, after(state, v20=result), wanted)


def transposed(opcode: Opcode, number: int, rng: np.random.Generator, target: str) -> Case:
    """Sixteen lanes hold a matrix of 16 columns, row after row; lane i receives its column i."""
    found = TRANSPOSES.match(opcode.name)
    assert found is not None
    bits, width = int(found[1]), int(found[2])
    state, lds = state_for(rng, number), rng.integers(0, 256, LDS).astype(np.uint8)
    state.exec, align = ALL_LANES, 16 if bits == 96 else 8
    offset = align * int(rng.integers(0, 8))
    places = rng.permutation((LDS - offset - 16) // align)[:64] * align
    state.rows[0] = places
    words = encode.ds(opcode.number, addr=10, dst=20, offset=offset)
    read = [int.from_bytes(lds[p + offset : p + offset + bits // 8].tobytes(), "little") for p in places]
    elements, columns = bits // width, 16
    results = np.zeros((bits // 32, 64), np.uint32)
    for lane in range(64):
        group, column, made = lane // 16 * 16, lane % 16, 0
        for row in range(elements):
            holder, part = divmod(row * columns + column, elements)
            made |= (read[group + holder] >> width * part & (1 << width) - 1) << width * row
        for d in range(bits // 32):
            results[d, lane] = made >> 32 * d & 0xFFFFFFFF
    want = after(state, **{f"v{20 + d}": row for d, row in enumerate(results)})
    return Case(words, long(*words), state, lds, want, lds)


def extended(data: bytes, kind: str) -> bytes:
    """The dwords that a load of a kind leaves in LDS."""
    if len(data) >= 4:
        return data
    value = int.from_bytes(data, "little", signed=kind.startswith("s"))
    return (value & 0xFFFFFFFF).to_bytes(4, "little")


def loaded(opcode: Opcode, number: int, rng: np.random.Generator, target: str) -> Case:
    """A load into LDS: the data of lane i at M0 + offset + i * 4, or i * 16 for three and four dwords."""
    kind, space = opcode.name.rsplit("_", 1)[-1], opcode.name.split("_")[0]
    state, lds = state_for(rng, number), rng.integers(0, 256, LDS).astype(np.uint8)
    size = SIZES[kind]
    step, align, memory = (16 if size > 4 else 4), min(size, 4), BYTES if space == "scratch" else SOURCE
    offset = 4 * int(rng.integers(0, 4 if space == "scratch" else 32))
    # M0 has more bits than count: of the address, and (but for buffers) below a dword.
    bits = 18 if target == "gfx950" or space != "buffer" else 16
    m0 = int(rng.integers(0, LDS - 64 * step - offset + 1))
    m0 -= m0 % 4 if space == "buffer" else 0
    state.m0 = state.m0 >> bits << bits | m0
    places = rng.integers(0, (memory - size - offset) // align + 1, 64) * align
    state.rows[0] = places
    if space == "scratch":  # each lane has its part of what LDS holds
        words = encode.flat(opcode.number, 1, addr=10, offset=offset, vector=1)
        setup = "  v_mov_b32 v41, 0\n" + moved("scratch_store_dwordx4 v41, {}, off", "vmcnt") + "\n"
        parts = [lds[lane * BYTES :][:BYTES] for lane in range(64)]
    elif space == "global":
        scalar = number % 2
        words = encode.flat(opcode.number, 2, addr=10 if scalar else 18, saddr=8 if scalar else 127, offset=offset)
        setup = "  v_mov_b32 v19, s9\n  v_add_co_u32 v18, vcc, s8, v10\n  v_addc_co_u32 v19, vcc, 0, v19, vcc\n"
        parts = [packed([state]).reshape(-1)[:SOURCE]] * 64
    else:
        records = int(rng.integers(SOURCE // 2, SOURCE)) // 4 * 4
        words = encode.mubuf(opcode.number, addr=10, resource=24, offset=offset, offen=1)
        words[0] |= 1 << 16  # LDS
        setup = f"  s_mov_b64 s[24:25], s[8:9]\n  s_mov_b32 s26, {records}\n  s_mov_b32 s27, 0x27000\n"
        parts = [packed([state]).reshape(-1)[:records]] * 64  # each dword beyond it is zero
    wanted = lds.copy()
    for lane in active(state):
        data = parts[lane][int(places[lane]) + offset :][:size].tobytes().ljust(size, b"\0")
        at = (m0 if space == "buffer" else m0 & ~3) + offset + lane * step
        wanted[at : at + max(size, 4)] = np.frombuffer(extended(data, kind), np.uint8)
    return Case(words, f"{setup}{MASKED}{long(*words)}", state, lds, after(state), wanted, space)


KINDS = (
    (SWIZZLES, swizzled),
    (COUNTERS, counted),
    (TRANSPOSES, transposed),
    (TO_LDS, loaded),
    (BUFFER_TO_LDS, loaded),
)


def models(opcode: Opcode) -> Callable[[Opcode, int, np.random.Generator, str], Case] | None:
    """The model of an opcode; None for one of another module."""
    return next((make for pattern, make in KINDS if pattern.match(opcode.name)), None)


def frame(case: Case) -> str:
    """LDS from the case, the instruction, and LDS back."""
    code = case.code if MASKED in case.code else MASKED + case.code
    return around(
        f"""
  s_add_u32 s14, s10, {OUT}
  s_addc_u32 s15, s11, 0
  v_lshlrev_b32 v3, 1, v2
  global_load_dwordx4 v[60:63], v3, s[14:15]
  global_load_dwordx4 v[64:67], v3, s[14:15] offset:16
  s_waitcnt vmcnt(0)
{moved("ds_write_b128 v3, {}", "lgkmcnt")}
{code}
  s_waitcnt vmcnt(0) lgkmcnt(0)
  s_mov_b64 exec, -1
{moved("ds_read_b128 {}, v3", "lgkmcnt")}
{moved("global_store_dwordx4 v3, {}, s[14:15]", "vmcnt")}
  s_mov_b64 exec, s[48:49]""",
        SIZE,
    )


def run(cases: Sequence[Case], target: str) -> Iterator[tuple[State, Rows]]:
    """State and LDS after each case."""
    code = assembled(kernel("".join(map(frame, cases)), target, lds=LDS, scratch=BYTES), target)
    out = np.zeros((len(cases), SIZE // 4), dtype=np.uint32)
    for raw, case in zip(out, cases, strict=True):
        raw[OUT // 4 :] = case.lds.view(np.uint32)
    inputs = packed([c.before for c in cases])
    outcome = launch(code, grid=(1, 1, 1), block=(64, 1, 1), args=[Buffer(inputs), Buffer(out)])
    assert outcome.completed and not outcome.findings, [str(f) for f in outcome.findings][:3]
    for raw, case in zip(out, cases, strict=True):
        yield unpacked(raw, case.before), raw[OUT // 4 :].view(np.uint8)


def differences(case: Case, got: State, lds: Rows) -> list[str]:
    """Differences from the expected state and LDS, in words."""
    found = [f"LDS at {at}: 0x{lds[at]:x}, expected 0x{case.wanted[at]:x}" for at in np.flatnonzero(lds != case.wanted)]
    for r in (*range(4), *range(8, 12)):
        for lane in np.flatnonzero(got.rows[r] != case.want.rows[r]):
            name = f"v{r + 10 if r < 8 else r + 12} lane {lane}"
            found.append(f"{name}: 0x{got.rows[r, lane]:x}, expected 0x{case.want.rows[r, lane]:x}")
    return found


def compare(some: Iterable[Notes], targets: Sequence[str], count: int) -> None:
    """Run the cases of some records on each target, and note what differs."""
    some = list(some)
    for target in targets:
        made = []
        for record in some:
            make = models(record.opcode)
            assert make is not None, record.opcode.name
            for number in range(count if has(record.opcode, target) else 0):
                made.append((record, make(record.opcode, number, seed_of(record.opcode, number), target)))
        for (record, case), (got, lds) in zip(made, run([c for _, c in made], target), strict=True):
            record.note(target, case.form, case.words, differences(case, got, lds))


def has(opcode: Opcode, target: str) -> bool:
    """Return True if a target has the instruction in this form (LLVM's BUFInstructions.td)."""
    wide = re.match(r"buffer_load_dwordx[34]$", opcode.name)
    return target in opcode.targets and (target == "gfx950" or not wide)
