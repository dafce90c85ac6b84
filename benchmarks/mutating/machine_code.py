"""Mutants of machine code: each wait, barrier, fence and run of wait states dropped or loosened, one at a time.

vmcnt, expcnt, lgkmcnt   a counter of one `s_waitcnt` waits for nothing, or allows one access more
barrier                  an `s_barrier` becomes an `s_nop 0`
write-back, invalidate   an instruction that writes back or invalidates caches becomes two `s_nop 0`
scope                    a bit of the scope of an access or of such an instruction is cleared
wait states              an `s_nop` is moved past the instruction that it delays, or waits one state less

Only instructions that control flow from the entry of the kernel can reach are changed. An `s_nop` between two loads of
one kind is left as it is. Positions of bits are those of the chapter "Microcode formats" of the CDNA2 and CDNA3 ISA
documents.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from elftools.elf.elffile import ELFFile

from tkgen.emulate import CodeObject
from tkgen.emulate.code_object import Kernel
from tkgen.emulate.decode import Encoding, Program
from tkgen.emulate.disassemble import disassemble
from tkgen.emulate.reach import after, jumps_to, reachable
from tkgen.sanitize.waits import LGKM, NEVER, S_NOP, VECTOR, Wait

DROPPED, LOOSENED = "dropped", "loosened by one"
_WRITES_BACK = ("buffer_wb", "s_dcache_wb")  # buffer_wbinvl1 of gfx90a does both, and is an invalidate here
_INVALIDATES = ("buffer_inv", "buffer_wbinv", "s_dcache_inv")
_NO_EXPORTS = 7  # the count of expcnt that waits for nothing
# Bits of the first dword: sc0 and sc1, on gfx90a glc and scc. In atomics the first asks for the old value.
_SCOPES = {
    Encoding.MUBUF: (14, 15),
    Encoding.FLAT: (16, 25),
    Encoding.GLOBAL: (16, 25),
    Encoding.SMEM: (16,),
}
_VECTOR = (Encoding.MUBUF, Encoding.MTBUF, Encoding.FLAT, Encoding.GLOBAL, Encoding.SCRATCH)
_JUMPS = ("s_branch", "s_cbranch", "s_call", "s_setpc", "s_swappc", "s_getpc", "s_endpgm", "s_rfe")


@dataclass(frozen=True)
class Mutant:
    """A change of the code: its kind, the dword of the instruction, the change in words, the new dwords by index."""

    kind: str
    index: int
    what: str
    words: Mapping[int, int]


def mutants(code: CodeObject, kernel: Kernel) -> Iterator[Mutant]:
    """All mutants of a kernel, in the order of its code."""
    program, text = code.program, code.text[0]
    reached = reachable(program, (kernel.entry - text) // 4)
    targets = {target for i in reached for target in jumps_to(program, i)}
    order = sorted(reached)
    for before, i in zip([order[0], *order], order, strict=False):
        if program.mnemonic(i) == "s_nop" and _ends_clause(program, before, i):
            continue
        place = f"`{disassemble(program, i)}` at {text + 4 * i:#x}"
        for kind, what, words in _changes(program, i, targets):
            yield Mutant(kind, i, f"{place}: {what}", words)


def _word(program: Program, i: int) -> int:
    (word,) = struct.unpack_from("<I", program.code, 4 * i)
    return int(word)


def _ends_clause(program: Program, before: int, i: int) -> bool:
    """Return True if an `s_nop` is between two loads of one kind, where it is no wait state.

    It ends a clause of loads that overwrite their own address, which hardware may issue again (XNACK).
    """
    one, other = (Encoding(int(program.ops[at]["encoding"])) for at in (before, after(program, i)))
    return (one in _VECTOR and other in _VECTOR) or one == other == Encoding.SMEM


def _changes(program: Program, i: int, targets: set[int]) -> Iterator[tuple[str, str, Mapping[int, int]]]:
    """Kind, words and dwords of each change of the instruction at a dword."""
    name = program.mnemonic(i)
    if name == "s_waitcnt":
        yield from _looser_waits(Wait.at(program, i), i)
    elif name == "s_barrier":
        yield f"barrier {DROPPED}", "no barrier", {i: S_NOP}
    elif name == "s_nop":
        yield from _fewer_states(program, i, targets)
    elif name.startswith((*_WRITES_BACK, *_INVALIDATES)):
        sort = "invalidate" if name.startswith(_INVALIDATES) else "write-back"
        yield f"{sort} {DROPPED}", f"no {sort}", dict.fromkeys(range(i, after(program, i)), S_NOP)
        yield from _narrower(program, i, name)
    else:
        yield from _narrower(program, i, name)


def _looser_waits(wait: Wait, i: int) -> Iterator[tuple[str, str, Mapping[int, int]]]:
    for counter in (VECTOR, LGKM):
        count, never = wait.count(counter), NEVER[counter]
        if count == never:
            continue
        yield f"{counter} {DROPPED}", f"no {counter}", {i: wait.allowing(counter, never).word}
        if count + 1 < never:
            yield f"{counter} {LOOSENED}", f"{counter}({count + 1})", {i: wait.allowing(counter, count + 1).word}
    if wait.exports != _NO_EXPORTS:
        yield f"expcnt {DROPPED}", "no expcnt", {i: Wait(wait.counts).word}


def _fewer_states(program: Program, i: int, targets: set[int]) -> Iterator[tuple[str, str, Mapping[int, int]]]:
    states = int(program.ops[i]["offset"]) & 15
    if states:
        yield f"wait states {LOOSENED}", f"s_nop {states - 1}", {i: S_NOP | (states - 1)}
    end = i + 1
    while end < len(program.ops) and program.mnemonic(end) == "s_nop":
        end += 1
    stop = after(program, end) if end < len(program.ops) else end
    moved = range(i + 1, stop)
    if stop > len(program.ops) or program.mnemonic(end).startswith(_JUMPS) or targets & set(moved):
        return
    words = {at - 1: _word(program, at) for at in moved} | {stop - 1: _word(program, i)}
    yield f"wait states {DROPPED}", f"moved past `{disassemble(program, end)}`", words


def _narrower(program: Program, i: int, name: str) -> Iterator[tuple[str, str, Mapping[int, int]]]:
    word, encoding = _word(program, i), Encoding(int(program.ops[i]["encoding"]))
    for number, bit in enumerate(_SCOPES.get(encoding, ())):
        if word >> bit & 1 and not (number == 0 and "_atomic" in name):
            yield "scope narrowed", f"sc{number} cleared", {i: word & ~(1 << bit)}


def patched_elf(code: CodeObject, words: Mapping[int, int]) -> bytes:
    """The bytes of a code object with other dwords at some indices of its text."""
    segments: Any = ELFFile(io.BytesIO(code.elf)).iter_segments()
    text = next(s for s in segments if s["p_type"] == "PT_LOAD" and s["p_flags"] & 1)
    data = bytearray(code.elf)
    for index, word in words.items():
        struct.pack_into("<I", data, text["p_offset"] + 4 * index, word)
    return bytes(data)


def fences(program: Program, entry: int) -> bool:
    """Return True if the code writes caches back or invalidates them."""
    return any(program.mnemonic(i).startswith((*_WRITES_BACK, *_INVALIDATES)) for i in reachable(program, entry))
