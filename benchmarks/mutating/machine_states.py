"""A second calculation of wait states, with bounds from above, from the tables of the ISA documents.

The tables "Manually Inserted Wait States (NOPs)" and "Dependency Resolution: Required Independent Instructions" of the
CDNA2, CDNA3 and CDNA4 ISA documents, each row with its largest number: a pair of instructions that has these is safe,
one that has fewer may be. The passes of matrix instructions follow from the rates in the target's file, which come from
data sheets. Wait states are counted along all paths of the control flow. Nothing is shared with the checks of the
emulator except decoded instructions and the registers that they read and write.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from tkgen.emulate.decode import Encoding, Flag, Program
from tkgen.emulate.reach import reachable, successors
from tkgen.targets import load_target

_SCALAR = 512  # scalar registers of a trace's spans are counted from here
_VCC, _M0, _EXEC = 106, 124, 126
_HORIZON = 24  # more wait states than any pair needs
_TRANSCENDENTAL = re.compile(r"v_(exp|log|rcp|rsq|sqrt|sin|cos)_")
_LANES = ("v_readlane", "v_readfirstlane", "v_writelane")
_MEMORY = (Encoding.FLAT, Encoding.GLOBAL, Encoding.SCRATCH, Encoding.MUBUF, Encoding.MTBUF)

Pair = tuple[int, int]  # dwords of two instructions


@dataclass(frozen=True)
class _Instruction:
    """An instruction: its registers, the vector ones below `_SCALAR`; of a matrix its factors apart from its sum."""

    name: str
    target: str
    encoding: Encoding
    flags: int
    reads: frozenset[int]
    writes: frozenset[int]
    summed: frozenset[int]
    factors: frozenset[int]
    moves_part: bool  # writes a half or a byte of a register
    offset_register: bool  # of a buffer access

    @property
    def states(self) -> int:
        """Wait states that it is worth."""
        found = re.fullmatch(r"s_nop (\d+)", self.name)
        return int(found[1]) + 1 if found else 1

    @cached_property
    def matrix(self) -> bool:
        """True for MFMA and SMFMAC."""
        return self.encoding == Encoding.MFMA

    @cached_property
    def vector(self) -> bool:
        """True for VALU instructions, those of the matrix unit not among them."""
        return self.name.startswith("v_") and not self.matrix

    @cached_property
    def memory(self) -> bool:
        """True for vector memory."""
        return self.encoding in _MEMORY

    @cached_property
    def needs_states(self) -> bool:
        """True if some instruction may have to keep away from it."""
        return self.vector or self.matrix or self.memory or self.name.startswith(("s_mov", "s_setreg", "s_add"))

    @cached_property
    def passes(self) -> int:
        """The passes of a matrix instruction: by the rate of its target, else the most that this shape has."""
        found = re.search(r"_(\d+)x\d+x\d+", self.name)
        known = _cycles(self.target).get(self.name)
        return known // 4 if known else max(int(found[1]) // 2, 2) if found else 16


@cache
def _cycles(target: str) -> dict[str, int]:
    """The cycles of the matrix instructions in a target's file; of one with several types the most."""
    found: dict[str, int] = {}
    for each in load_target(target).mfmas:
        found[each.instruction] = max(each.cycles, found.get(each.instruction, 0))
    return found


class States:
    """The pairs of instructions of a kernel that may have too few wait states.

    `spans` are those of a trace, the entry is a dword.
    """

    def __init__(self, program: Program, entry: int, spans: Any):
        self.program = program
        self.spans: dict[int, list[tuple[int, int, bool]]] = defaultdict(list)
        for index, first, count, writes in spans.tolist():
            self.spans[index].append((first, count, bool(writes)))
        self.code = {i: self._instruction(program, i, i) for i in reachable(program, entry)}
        self.horizons = {i: dict(_reached(program, self.code, i)) for i, c in self.code.items() if c.needs_states}

    def closer(self, program: Program, moved: Mapping[int, int], changed: Set[int]) -> set[Pair]:
        """The pairs that have fewer states than the bounds ask for in `program`, and have more, or enough, in the code.

        `program` is the code with other dwords at `changed`, where instructions have moved from dword to dword.
        """
        origins = {new: old for old, new in moved.items()}
        code = self.code | {i: self._instruction(program, i, origins.get(i, i)) for i in changed}
        found: set[Pair] = set()
        for i, horizon in self.horizons.items():
            if i in changed or not changed.isdisjoint(horizon):
                at = moved.get(i, i)
                for j, gap in _reached(program, code, at):
                    before = horizon.get(origins.get(j, j), _HORIZON)
                    if gap < before and _bound(code[at], code[j]) > gap:
                        found.add((at, j))
        return found

    def _instruction(self, program: Program, i: int, origin: int) -> _Instruction:
        op, name = program.ops[i], program.mnemonic(i)
        encoding, flags = Encoding(int(op["encoding"])), int(op["flags"])
        spans = self.spans.get(origin, [])
        reads = {r for first, count, writes in spans if not writes for r in range(first, first + count)}
        writes = {r for first, count, writes in spans if writes for r in range(first, first + count)}
        if name == "s_nop":
            name = f"s_nop {int(op['offset']) & 15}"
        if name.startswith(("v_cndmask", "v_addc", "v_subb")):
            reads |= _scalars(int(op["src"][2]))
        if name.startswith("v_div_fmas"):
            reads |= _scalars(_VCC)
        if "_co_" in name:
            writes |= _scalars(int(op["sdst"]))
        if name.startswith("v_cmpx"):
            writes |= _scalars(_EXEC)
        if encoding in _MEMORY or flags & Flag.DPP or encoding == Encoding.MFMA or name.startswith(_LANES):
            reads |= _scalars(_EXEC)
        summed: set[int] = set()
        if encoding == Encoding.MFMA and int(op["src"][2]) >= 256:
            first = int(op["src"][2]) - 256
            summed = next(({*range(f, f + n)} for f, n, w in spans if not w and f == first), set())
        factors = {r for f, n, w in spans if not w and {*range(f, f + n)} != summed for r in range(f, f + n)}
        part = bool(flags & Flag.SDWA) or (encoding == Encoding.VOP3 and bool(int(op["opsel"]) & 8 or "_cvt_" in name))
        register = encoding == Encoding.MUBUF and int(op["src"][2]) < 128
        sets = (frozenset(each) for each in (reads, writes, summed, factors))
        return _Instruction(name, program.target, encoding, flags, *sets, part, register)


def _scalars(code: int) -> set[int]:
    return {_SCALAR + code, _SCALAR + code + 1} if code < 128 else set()


def _reached(program: Program, code: dict[int, _Instruction], i: int) -> Iterator[tuple[int, int]]:
    """The instructions that follow one within the horizon, each with the fewest wait states between."""
    nearest: dict[int, int] = {}
    todo = [(j, 0) for j in successors(program, i)]
    while todo:
        j, gap = todo.pop()
        if j not in code or gap >= _HORIZON or nearest.get(j, _HORIZON) <= gap:
            continue
        nearest[j] = gap
        todo += [(k, gap + code[j].states) for k in successors(program, j)]
    yield from nearest.items()


def _bound(p: _Instruction, c: _Instruction) -> int:
    """Wait states that are enough between two instructions."""
    raw, waw, war = p.writes & c.reads, p.writes & c.writes, p.reads & c.writes
    if p.matrix:
        return _after_matrix(p, c)
    needs = [0]
    scalars = {r for r in raw if r >= _SCALAR}
    vectors = raw - scalars
    if p.vector:
        if scalars:
            named = c.name.startswith((*_LANES, "v_div_fmas", "s_cbranch"))
            beyond = named or c.memory or c.matrix or c.flags & Flag.DPP
            later = 0 if p.target == "gfx90a" else 2  # the table of CDNA2 has no row for other uses by the vector unit
            needs.append(5 if beyond or _SCALAR + _EXEC in scalars or "permlane" in c.name else later)
        if vectors:
            moved = c.matrix or c.flags & Flag.DPP or "permlane" in c.name
            needs.append(2 if moved else 0)
            needs.append(1 if c.name.startswith(_LANES) or p.moves_part or _TRANSCENDENTAL.match(p.name) else 0)
        if p.name.startswith("v_dot") and (raw or waw):
            needs.append(3)
        if p.writes & _scalars(_VCC) and c.name.startswith(("s_cbranch_vcc", "v_div_fmas")):
            needs.append(5)
    if p.memory and "store" in p.name and c.vector | c.matrix and war and not p.offset_register:
        needs.append(2)
    if p.name.startswith("s_setreg") and c.name.startswith(("s_setreg", "s_getreg")):
        needs.append(2)
    if p.name.startswith("s_") and _SCALAR + _M0 in p.writes:
        needs.append(1 if c.memory or c.encoding == Encoding.DS or "msg" in c.name else 0)
    return max(needs)


def _after_matrix(p: _Instruction, c: _Instruction) -> int:
    """After a matrix instruction: results that are read or overwritten, a sum that is overwritten."""
    wide = "_f64_" in p.name
    if not (c.vector or c.matrix or c.memory or c.encoding == Encoding.DS):
        return 0
    if c.matrix and p.name == c.name and p.writes == c.summed == c.writes and not p.writes & c.factors:
        return 2 if p.passes <= 2 or wide else 0  # the hardware hands the sum on
    if p.writes & (c.reads | c.writes):
        return 19 if wide else p.passes + 4
    return p.passes - 1 if p.summed & c.writes and not c.memory else 0
