"""Vector registers in machine code for AMD GPUs: which hold a value, what made it, what uses it.

    >>> peak = fullest(parse_asm(text)["softmax"])
    >>> len(peak.made)  # registers that hold a value at the instruction `peak.index`

Liveness follows the branches of the code. A write under a mask of lanes counts as a write of the whole register.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

from tkgen.toolchain.isa import Function, Instruction, flow

Register = tuple[str, int]  # ("v", 7) is v7

_NAMED = re.compile(r"\b([av])(?:\[(\d+):(\d+)\]|(\d+)\b)")
_WITHOUT_RESULT = re.compile(r"s_|(?:ds|global|buffer|flat|scratch)_(?:write|store)|global_load_lds|v_cmpx?_")
_ATOMIC = re.compile(r"(?:ds_(?!read|load|bpermute|permute|swizzle)|(?:global|buffer|flat)_atomic)")
_ADDS_TO = re.compile(r"v_(?:pk_)?(?:fmac|mac)_|v_dot\d\w*c_|v_writelane|v_accvgpr_mov|.*_d16")
_MEMORY = re.compile(r"ds_(?:read|write|load|store)|(?:global|buffer|flat|scratch)_")
_KEEPS = ("dpp", "row_", "quad_perm", "UNUSED_PRESERVE")


@dataclass(frozen=True)
class Peak:
    """The instruction before or after which most registers hold a value.

    `made` has for each of these registers the instruction that made the value. Instructions are named by their index;
    -1 is what a wave starts with.
    """

    index: int
    made: Mapping[Register, int]


def fullest(function: Function) -> Peak:
    """The peak of a function's vector registers, the first one of several. The function has an instruction."""
    touched = [_touched(i) for i in function.instructions]
    blocks, following = flow(function)
    ends = list(pairwise(blocks))
    live: list[set[Register]] = [set() for _ in ends]  # at the start of each block
    before: list[list[int]] = [[] for _ in ends]
    for block, successors in enumerate(following):
        for other in successors:
            before[other].append(block)
    waiting = deque(reversed(range(len(ends))))
    while waiting:
        block = waiting.popleft()
        now = _after(block, following, live)
        for index in reversed(range(*ends[block])):
            made, read = touched[index]
            now = (now - made) | read
        if now != live[block]:
            live[block] = now
            waiting.extend(b for b in before[block] if b not in waiting)
    most, peak, behind, holding = -1, 0, 0, frozenset[Register]()  # `behind`: 1 where it is full after the peak
    for block, (first, end) in enumerate(ends):
        now = _after(block, following, live)
        for index in reversed(range(first, end)):
            made, read = touched[index]
            for after, held in ((1, now | made), (0, (now - made) | read)):
                if (len(held), -index) > (most, -peak):
                    most, peak, behind, holding = len(held), index, after, frozenset(held)
            now = (now - made) | read
    block = next(b for b, (first, end) in enumerate(ends) if first <= peak < end)
    return Peak(peak, {r: _maker(r, peak + behind, block, ends, before, touched) for r in sorted(holding)})


def _after(block: int, following: Sequence[Sequence[int]], live: Sequence[set[Register]]) -> set[Register]:
    return reduce(set.union, (live[other] for other in following[block]), set[Register]())


def _maker(
    register: Register,
    end: int,
    block: int,
    ends: Sequence[tuple[int, int]],
    before: Sequence[Sequence[int]],
    touched: Sequence[tuple[frozenset[Register], frozenset[Register]]],
) -> int:
    """The nearest instruction before `end`, against the flow, that writes a register; -1 for none."""
    looked = set[int]()
    waiting = deque([(block, end)])
    while waiting:
        at, end = waiting.popleft()
        found = next((i for i in reversed(range(ends[at][0], end)) if register in touched[i][0]), None)
        if found is not None:
            return found
        for other in before[at]:
            if other not in looked:
                looked.add(other)
                waiting.append((other, ends[other][1]))
    return -1


def _touched(instruction: Instruction) -> tuple[frozenset[Register], frozenset[Register]]:
    """The vector registers that an instruction writes, and those that it reads."""
    name, operands = instruction.mnemonic, instruction.operands
    words = " ".join(operands)
    nothing = _WITHOUT_RESULT.match(name) or (name.startswith("buffer_load") and " lds" in words)
    if _ATOMIC.match(name):
        nothing = not ("_rtn" in name or re.search(r"\b(?:glc|sc0)\b", words))
    if nothing or not operands:
        return frozenset(), _registers(operands)
    made, read = _registers(operands[:1]), _registers(operands[1:])
    if name.startswith("v_swap"):
        return made | read, made | read
    keeps = _ADDS_TO.match(name) or any(word in words or word in name for word in _KEEPS)
    return made, read | made if keeps else read


def _registers(operands: Sequence[str]) -> frozenset[Register]:
    found = set[Register]()
    for match in _NAMED.finditer(" ".join(operands)):
        first, last = (int(match[2]), int(match[3])) if match[2] else (int(match[4]), int(match[4]))
        found |= {(match[1], n) for n in range(first, last + 1)}
    return frozenset(found)


def relatives(function: Function) -> list[tuple[int, ...]]:
    """For each instruction those that use its result as data, not as an address; for a store those that made its data.

    Instructions are named by their index, in order.
    """
    touched = [_touched(i) for i in function.instructions]
    data = [_data(i, read) for i, (_, read) in zip(function.instructions, touched, strict=True)]
    blocks, following = flow(function)
    ends = list(pairwise(blocks))
    known: list[dict[Register, frozenset[int]]] = [{} for _ in ends]  # who may have written a register, at the start
    waiting = deque(range(len(ends)))
    while waiting:
        block = waiting.popleft()
        now = dict(known[block])
        for index in range(*ends[block]):
            now |= dict.fromkeys(touched[index][0], frozenset((index,)))
        for other in following[block]:
            joined = {r: known[other].get(r, frozenset()) | makers for r, makers in now.items()}
            if any(known[other].get(r) != makers for r, makers in joined.items()):
                known[other] |= joined
                if other not in waiting:
                    waiting.append(other)
    found: list[set[int]] = [set() for _ in touched]
    for block, (first, end) in enumerate(ends):
        now = dict(known[block])
        for index in range(first, end):
            made, _ = touched[index]
            makers = {maker for register in data[index] for maker in now.get(register, ())}
            if not made:
                found[index] |= makers
            for maker in makers:
                if touched[maker][0]:
                    found[maker].add(index)
            now |= dict.fromkeys(made, frozenset((index,)))
    return [tuple(sorted(each)) for each in found]


def _data(instruction: Instruction, read: frozenset[Register]) -> frozenset[Register]:
    """The vector registers that an instruction reads as data: not the addresses of a load or store."""
    name, operands = instruction.mnemonic, instruction.operands
    if not _MEMORY.match(name):
        return read
    if "store" not in name and "write" not in name:
        return frozenset()
    return _registers(operands[:1] if name.startswith("buffer") else operands[1:])
