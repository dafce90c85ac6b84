"""LDS, flat, global, scratch and buffer instructions: cases, and their results by the pseudo-code.

Each lane has 32 bytes of memory of its own, which are compared afterwards with all registers. Addresses, ranges of
buffers and masks are prose (CDNA3 ISA, "Flat memory", "Vector memory buffer", "Data share"); the text says what happens
at an address.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pcode

from instructions import encode
from instructions.machine import ALL_LANES, OUT, Rows, State, around, assembled, kernel, packed, unpacked
from instructions.table import Opcode
from instructions.vector import copied, registers
from instructions.vector_cases import float_bits, integer_bits, seed_of
from tkgen.emulate import Buffer, launch
from tkgen.emulate.decode import Encoding

E = Encoding
ENCODINGS = (E.DS, E.FLAT, E.GLOBAL, E.SCRATCH, E.MUBUF, E.SMEM, E.MTBUF)
BYTES = 32  # of a lane
SIZE = OUT + 64 * BYTES
MASKS = (ALL_LANES, 0x5555_5555_5555_5555, 0xFFFF_0000_F0F0_0001, ALL_LANES, 1 << 63, 0)


@dataclass(frozen=True)
class Access:
    """One instruction, its immediate offset, and the place in memory that each lane accesses."""

    opcode: Opcode
    words: tuple[int, ...]
    offset: int
    address: tuple[int, ...]  # in bytes; -1 is beyond the range of a buffer
    returns: bool
    second: tuple[int, int] = (0, 0)  # offset0, offset1 of a pair


def size_of(opcode: Opcode) -> int:
    """Bytes of one access of an instruction."""
    name = opcode.name
    for pattern, size in (
        (r"byte|_[ui]8|b8", 1),
        (r"short|_[ui]16|b16", 2),
        (r"dwordx3|b96", 12),
        (r"dwordx4|b128", 16),
    ):
        if re.search(pattern, name) and "pk_add" not in name:
            return size
    return (
        8
        if re.search(r"x2|64", name.removeprefix("ds_read2st64_").removeprefix("ds_write2st64_").replace("st64", ""))
        else 4
    )


def accesses(opcode: Opcode, number: int, rng: np.random.Generator) -> tuple[Access, State, Rows]:
    """Case `number` of an opcode, the state before, and memory as [64, 8] dwords."""
    size = size_of(opcode)
    pair = re.match(r"ds_(read2|write2|wrxchg2)", opcode.name) is not None
    space = BYTES - size * (2 if pair else 1)
    align = min(size, 4) if "atomic" not in opcode.name and not opcode.name.startswith("ds_") else min(size, 8)
    align = size if opcode.name.startswith("ds_") and size in (8, 16) else align
    inner = rng.integers(0, space // align + 1, 64) * align
    place = np.arange(64) * BYTES + inner
    rows = rng.integers(0, 1 << 32, (12, 64), dtype=np.uint32)
    memory = rng.integers(0, 1 << 32, (64, BYTES // 4), dtype=np.uint32)
    fill(rng, opcode, rows, memory, inner)
    state = State(rows, exec=MASKS[number % len(MASKS)], m0=int(rng.integers(0, 4)) * 4)
    acc = 0
    offset = (0, 16, 4, 64, 8)[number % 5]
    if opcode.encoding is E.DS:
        access = of_lds(opcode, place, offset, pair, size)
        if "st64" in opcode.name:  # the second part is in the memory of a later lane, which is off
            state.exec &= sum(1 << lane for lane in range(64) if lane // (2 * size) % 2 == 0)
        if "addtid" in opcode.name:
            state.m0 = 64
        else:
            rows[0] = place if pair else place - access.offset if (place >= access.offset).all() else place
            if not pair and not (place >= access.offset).all():
                access = of_lds(opcode, place, 0, pair, size)
    elif opcode.encoding is E.MUBUF:
        access = of_buffer(opcode, place, number, state, size)
    elif opcode.encoding is E.SCRATCH:
        offset = (0, 4, 8)[number % 3]
        inner = np.maximum(inner, offset)
        inner -= inner % align
        inner = np.where(inner < offset, inner + align * math.ceil(offset / align), inner)
        inner = np.minimum(inner, space)
        if (inner < offset).any():
            offset = 0
        rows[0] = inner - offset
        words = encode.flat(opcode.number, 1, addr=10, data=12, dst=20, offset=offset, vector=1, acc=acc)
        access = Access(opcode, tuple(words), offset, tuple(int(x) for x in np.arange(64) * BYTES + inner), True)
    else:
        access = of_flat(opcode, place, number, rows)
    return access, state, memory


def fill(rng: np.random.Generator, opcode: Opcode, rows: Rows, memory: Rows, inner: Rows) -> None:
    """Data and memory of the type that the instruction computes with; half of the comparisons find equal values."""
    kind = re.search(r"(bf16|f16|f32|f64)$", opcode.name)
    for lane_rows in (rows[2:6],):
        for i in range(0, 4, 2):
            if kind:
                width = {"bf16": 32, "f16": 16, "f32": 32, "f64": 64}[kind[1]]
                bits = float_bits(rng, width)
                if kind[1] in ("f16", "bf16"):
                    half = (
                        (lambda: float_bits(rng, 16))
                        if kind[1] == "f16"
                        else (lambda: float_bits(rng, 32) >> np.uint64(16))
                    )
                    bits = half() | half() << np.uint64(16)
            else:
                bits = integer_bits(rng, 64)
            lane_rows[i], lane_rows[i + 1] = bits & np.uint64(0xFFFFFFFF), bits >> np.uint64(32)
    if kind:
        for column in range(0, BYTES // 4, 2):
            bits = float_bits(rng, 64 if kind[1] == "f64" else 16 if kind[1] == "f16" else 32)
            memory[:, column] = bits & np.uint64(0xFFFFFFFF)
            memory[:, column + 1] = bits >> np.uint64(32) if kind[1] == "f64" else float_bits(rng, 32).astype(np.uint32)
    if re.search(r"cmp", opcode.name):
        wide = 2 if size_of(opcode) == 8 else 1
        for lane in np.flatnonzero(rng.random(64) < 0.5):
            at = int(inner[lane]) // 4
            compared = 2 if opcode.name.startswith("ds_") else 2 + wide
            for k in range(wide):
                rows[compared + k, lane] = memory[lane, at + k]


def of_lds(opcode: Opcode, place: Rows, offset: int, pair: bool, size: int) -> Access:
    address, second = place.copy(), (0, 0)
    if pair:
        second = (0, 1)
        code = second[0] | second[1] << 8
    elif "addtid" in opcode.name:
        code, address = offset, 64 + offset + 4 * np.arange(64)
    else:
        code = offset
    words = encode.ds(opcode.number, addr=10, data=12, data2=14, dst=20, offset=code)
    return Access(opcode, tuple(words), code, tuple(int(x) for x in address), True, second)


def of_flat(opcode: Opcode, place: Rows, number: int, rows: Rows) -> Access:
    segment = 0 if opcode.encoding is E.FLAT else 2
    scalar = segment == 2 and number % 2 == 1
    offset = (0, 16, 40, 4, 8)[number % 5]
    if segment == 2 and number % 5 == 2:
        offset = -32
    rows[0] = (place - offset).astype(np.int64).astype(np.uint32) if not scalar or offset >= 0 else place + 32
    address = place
    if scalar and (place < offset).any():
        rows[0], address = place, place
        offset = 0
    returns = number % 3 != 2 or "atomic" not in opcode.name
    words = encode.flat(
        opcode.number,
        segment,
        addr=10 if scalar else 18,
        data=12,
        dst=20,
        saddr=14 if scalar else 127 if segment else 0,
        offset=offset,
        sc0=int("atomic" in opcode.name and returns),
    )
    return Access(opcode, tuple(words), offset, tuple(int(x) for x in address), returns)


def of_buffer(opcode: Opcode, place: Rows, number: int, state: State, size: int) -> Access:
    """Raw and structured buffers; a part of the lanes is beyond the records."""
    kind = ("offen", "idxen", "both", "raw")[number % 4]
    scalar, records, stride = 8, 64 * BYTES, 0
    inner = place % BYTES
    address = place.astype(np.int64)
    offset = 4 * (number % 3)
    returns = number % 3 != 2 or "atomic" not in opcode.name
    rows = state.rows
    if kind == "offen":
        rows[0] = (place - offset - scalar).astype(np.int64).astype(np.uint32)
        if (place < offset + scalar).any():
            offset = scalar = 0
            rows[0] = place
        records = 40 * BYTES
        address = np.where(place + size > records, -1, place)
    elif kind == "raw":  # the same address for all: one lane only
        state.exec &= 1 << 7
        offset, scalar = int(inner[7]), 7 * BYTES
        address = np.full(64, 7 * BYTES + int(inner[7]))
    else:
        stride, records = BYTES, 50
        scalar = 0
        inner = inner if kind == "both" else np.zeros(64, dtype=np.int64)
        offset = 0
        rows[0] = np.arange(64)
        rows[1] = inner
        address = np.where(np.arange(64) >= records, -1, np.arange(64) * BYTES + inner)
    state.scalars = [scalar, stride << 16, records, 0x00027000]
    words = encode.mubuf(
        opcode.number,
        addr=10,
        data=20 if "load" in opcode.name else 12,
        resource=24,
        soffset=20,
        offset=offset,
        offen=int(kind in ("offen", "both")),
        idxen=int(kind in ("idxen", "both")),
        sc0=int("atomic" in opcode.name and returns),
    )
    return Access(opcode, tuple(words), offset, tuple(int(x) for x in address), returns)


def moved(text: str, counter: str) -> str:
    """Two instructions for the 32 bytes of a lane, and the wait for them."""
    both = [text.format(registers) + f" offset:{at}" for registers, at in (("v[60:63]", 0), ("v[64:67]", 16))]
    return "".join(f"  {one}\n" for one in both) + f"  s_waitcnt {counter}(0)"


def frame(access: Access, target: str) -> str:
    """Registers, LDS or scratch from the case, the instruction, and all of it back."""
    words = list(access.words)
    before = after = ""
    if access.opcode.encoding is E.DS:
        before = moved("ds_write_b128 v3, {}", "lgkmcnt")
        after = moved("ds_read_b128 {}, v3", "lgkmcnt")
    elif access.opcode.encoding is E.SCRATCH:
        if target == "gfx90a":  # where there is no bit for the vector address
            words[0] &= ~(1 << 13)
        before = "  v_mov_b32 v41, 0\n" + moved("scratch_store_dwordx4 v41, {}, off", "vmcnt")
        after = moved("scratch_load_dwordx4 {}, v41, off", "vmcnt")
    if after:
        after += "\n" + moved("global_store_dwordx4 v3, {}, s[14:15]", "vmcnt")
    code = "\n".join(f"  .long 0x{w:08x}" for w in words)
    return around(
        f"""
  s_add_u32 s14, s10, {OUT}
  s_addc_u32 s15, s11, 0
  v_lshlrev_b32 v3, 1, v2
  global_load_dwordx4 v[60:63], v3, s[14:15]
  global_load_dwordx4 v[64:67], v3, s[14:15] offset:16
  s_mov_b64 s[24:25], s[14:15]
  s_or_b32 s25, s25, s21
  s_mov_b64 s[26:27], s[22:23]
  v_mov_b32 v19, s15
  v_ashrrev_i32 v40, 31, v10
  v_add_co_u32 v18, vcc, s14, v10
  v_addc_co_u32 v19, vcc, v40, v19, vcc
  s_waitcnt vmcnt(0)
{before}
  s_mov_b64 exec, s[48:49]
{code}
  s_waitcnt vmcnt(0) lgkmcnt(0)
  s_mov_b64 exec, -1
{after}""",
        SIZE,
    )


def expected(access: Access, before: State, memory: Rows) -> tuple[State, Rows]:
    """The state and memory afterwards."""
    o, after = access.opcode, copied(before)
    text, name = o.text or "", access.opcode.name
    space = pcode.Memory(dict(enumerate(memory.view(np.uint8).reshape(-1).tolist())))
    if re.match(r"ds_b?permute", name):
        values = registers(before)
        e = {"VGPR": values, "EXEC": pcode.B(64, before.exec), "ADDR": pcode.B(32, 10), "DATA0": pcode.B(32, 12)}
        done = pcode.run(text, **e, VDST=pcode.B(32, 20), OFFSET=pcode.B(16, access.offset))
        for lane in range(64):
            after.rows[8, lane] = pcode.raw(done["VGPR"][lane][20], 32)
        return after, memory
    loads = re.search(r"load|read", name) is not None
    stores = re.search(r"store|write", name) is not None
    gives = loads or (access.returns and not stores and (o.encoding is not E.DS or "rtn" in name))
    first = 2 if o.encoding is E.MUBUF and not loads else 8  # buffers give back into their data
    dwords = max(1, o.fields["vdst"].bits // 32) if "vdst" in o.fields else max(1, size_of(o) // 4)
    if "cmpswap" in name:
        dwords = size_of(o) // 4
    for lane in range(64):
        if not before.exec >> lane & 1:
            continue
        row = [int(x) for x in before.rows[:, lane]]
        data = sum(row[2 + i] << 32 * i for i in range(4))
        old = sum(row[first + i] << 32 * i for i in range(4 if first == 8 else 2))
        at = access.address[lane]
        if at < 0:  # beyond a buffer
            if gives:
                for i in range(dwords):
                    after.rows[first + i, lane] = 0 if "d16" not in name else partly(name, row[first])
            continue
        base = at - access.offset if o.encoding is E.DS and "CalcDsAddr" in text else at
        e = {
            "MEM": space,
            "ADDR": base,
            "ADDR_BASE": pcode.B(32, base),
            "DATA": pcode.B(128, data),
            "DATA0": pcode.B(32, row[2]),
            "DATA2": pcode.B(64, row[4] | row[5] << 32),
            "VDATA": pcode.B(128, old if loads else data),
            "RETURN_DATA": pcode.B(128, old),
            "OFFSET": pcode.B(16, access.offset),
            "OFFSET0": pcode.B(8, access.offset & 255),
            "OFFSET1": pcode.B(8, access.offset >> 8),
            "M0": pcode.B(32, before.m0),
            "laneID": pcode.B(32, lane),
            "VADDR": base,
            "SADDR": 0,
            "SRSRC": 0,
            "SOFFSET": 0,
        }
        if access.second != (0, 0) or re.match(r"ds_(read2|write2|wrxchg2)", name):
            e |= {
                "ADDR": at,
                "ADDR_BASE": pcode.B(32, at),
                "OFFSET0": pcode.B(8, access.second[0]),
                "OFFSET1": pcode.B(8, access.second[1]),
            }
        done = pcode.run(text, **e)
        if gives:
            result = pcode.raw(done["VDATA"] if loads and "VDATA" in text else done["RETURN_DATA"], 128)
            for i in range(dwords):
                after.rows[first + i, lane] = result >> 32 * i & 0xFFFFFFFF
    flat = np.array([space.get(i, 0) for i in range(64 * BYTES)], dtype=np.uint8)
    return after, flat.view(np.uint32).reshape(64, BYTES // 4)


def partly(name: str, old: int) -> int:
    """A half of the register is zero, the other what it was."""
    return old & 0xFFFF if name.endswith("hi") else old & 0xFFFF0000


def same_number(a: int, b: int, width: int) -> bool:
    x, y = pcode.float_of(a, width), pcode.float_of(b, width)
    return math.isnan(x) and math.isnan(y)


def alike(name: str, got: Sequence[int], want: Sequence[int]) -> bool:
    """Equal, or NaNs in the same places of floats."""
    kind = re.search(r"(bf16|f16|f32|f64)$", name)
    if list(got) == list(want):
        return True
    if kind is None:
        return False
    if kind[1] == "f64":
        pairs = [
            (g, w)
            for g, w in zip(zip(got[::2], got[1::2], strict=True), zip(want[::2], want[1::2], strict=True), strict=True)
        ]
        return all(g == w or same_number(g[0] | g[1] << 32, w[0] | w[1] << 32, 64) for g, w in pairs)
    for g, w in zip(got, want, strict=True):
        if g == w:
            continue
        if kind[1] == "f32" and not same_number(g, w, 32):
            return False
        if kind[1] in ("f16", "bf16"):
            for s in (0, 16):
                x, y = g >> s & 0xFFFF, w >> s & 0xFFFF
                near = same_number(x, y, 16) if kind[1] == "f16" else same_number(x << 16, y << 16, 32)
                if x != y and not near:
                    return False
    return True


def cases(opcode: Opcode, count: int) -> Iterator[tuple[Access, State, Rows]]:
    """`count` cases of an opcode."""
    for number in range(count):
        yield accesses(opcode, number, seed_of(opcode, number))


def run(some: Sequence[tuple[Access, State, Rows]], target: str, batch: int = 800) -> Iterator[tuple[State, Rows]]:
    """State and memory after each."""
    for first in range(0, len(some), batch):
        part = some[first : first + batch]
        body = "".join(frame(access, target) for access, _, _ in part)
        code = assembled(kernel(body, target, lds=64 * BYTES, scratch=BYTES), target)
        out = np.zeros((len(part), SIZE // 4), dtype=np.uint32)
        for raw, (_, _, memory) in zip(out, part, strict=True):
            raw[OUT // 4 :] = memory.reshape(-1)
        inputs = packed([s for _, s, _ in part])
        outcome = launch(code, grid=(1, 1, 1), block=(64, 1, 1), args=[Buffer(inputs), Buffer(out)])
        assert outcome.completed and not outcome.findings, [str(f) for f in outcome.findings][:3]
        for raw, (_, before, _) in zip(out, part, strict=True):
            yield unpacked(raw, before), raw[OUT // 4 :].reshape(64, BYTES // 4)


def differences(access: Access, got: State, memory: Rows, want: State, wanted: Rows) -> list[str]:
    """Differences from the expected state and memory, in words."""
    found = []
    for lane in range(64):
        g, w = [int(x) for x in memory[lane]], [int(x) for x in wanted[lane]]
        if not alike(access.opcode.name, g, w):
            k = next(i for i in range(len(g)) if g[i] != w[i])
            found.append(f"memory of lane {lane} at {4 * k}: 0x{g[k]:x}, text 0x{w[k]:x}")
    for r in (*range(4), *range(8, 12)):
        for lane in np.flatnonzero(got.rows[r] != want.rows[r]):
            found.append(
                f"v{r + 10 if r < 8 else r + 12} lane {lane}: 0x{got.rows[r, lane]:x}, text 0x{want.rows[r, lane]:x}"
            )
    return found


class Notes(Protocol):
    """A record of `checks`."""

    opcode: Opcode

    def note(self, target: str, form: str, words: Sequence[int], found: Sequence[str]) -> None: ...


def compare(some: Iterable[Notes], targets: Sequence[str], count: int) -> None:
    """Run the cases of some records on each target, and note what differs."""
    made = [(record, case) for record in some for case in cases(record.opcode, count)]
    wants = {}
    for target in targets:
        mine = [(i, r, c) for i, (r, c) in enumerate(made) if target in r.opcode.targets]
        for (i, record, case), (got, memory) in zip(mine, run([c for _, _, c in mine], target), strict=True):
            if i not in wants:
                wants[i] = expected(*case)
            want, wanted = wants[i]
            found = differences(case[0], got, memory, want, wanted)
            record.note(target, "", case[0].words, found)
