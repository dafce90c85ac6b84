"""Arguments why a mutant of machine code that no judge caught is right, or what is wrong with it.

Waits and barriers: a second model (`machine_model`) follows the waves of the first, a middle and the last block.
Wait states: no pair of instructions that the change brought closer has fewer than the bounds of `machine_states`.
Of other kinds there is no argument, and none of waits for vector memory in code that writes caches back or invalidates
them, since another block may rely on these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from mutating.machine_code import Mutant, fences
from mutating.machine_judges import Unit
from mutating.machine_model import Modelled, modelled
from mutating.machine_states import States
from tkgen.emulate import CodeObject, Interleaving, Outcome, patched
from tkgen.emulate.decode import Program
from tkgen.emulate.reach import reachable

NOT_RUN = "the launch does not execute it"
NOTHING = "nothing that it would complete is on its way"
LATER = "a later wait completes the same accesses before they are needed"
UNORDERED = "it orders no two accesses that conflict"
NOT_NEEDED = "no pair of instructions needs these wait states"


@dataclass(frozen=True)
class Argued:
    """Why the mutant is right, or the fault that the second model sees; both empty where there is no argument."""

    reason: str = ""
    fault: str = ""


def argued(unit: Unit, mutant: Mutant) -> Argued:
    """The argument for a mutant of the code of a unit."""
    changed = patched(unit.code, {unit.code.text[0] + 4 * i: word for i, word in mutant.words.items()})
    if mutant.kind.startswith("wait states"):
        return _states(unit, mutant, changed)
    if not mutant.kind.startswith(("vmcnt", "lgkmcnt", "barrier")):
        return Argued()
    total = prod(unit.launch.grid)
    blocks = dict.fromkeys((0, total // 2, total - 1))
    runs = [_traced(unit, changed, block) for block in blocks]
    if not any(int(run.counts[mutant.index]) for run in runs):
        return Argued(NOT_RUN)
    found = [modelled(run) for run in runs]
    fault = next((each.fault for each in found if each.fault), "")
    if fault:
        return Argued(fault=fault)
    if mutant.kind.startswith("barrier"):
        return Argued(UNORDERED)
    counter = mutant.kind.split()[0]
    if counter == "vmcnt" and fences(unit.code.program, _entry(unit)):
        return Argued()
    before = [modelled(_traced(unit, unit.code, block)) for block in blocks]
    fewer = _completed(before, mutant.index, counter) > _completed(found, mutant.index, counter)
    return Argued(LATER if fewer else NOTHING)


def _completed(found: list[Modelled], index: int, counter: str) -> int:
    return sum(each.completed.get((index, counter), 0) for each in found)


def _entry(unit: Unit) -> int:
    return (unit.kernel.entry - unit.code.text[0]) // 4


def _traced(unit: Unit, code: CodeObject, block: int) -> Outcome:
    return unit.run(code, Interleaving(), block)[0]


def _states(unit: Unit, mutant: Mutant, changed: CodeObject) -> Argued:
    entry = _entry(unit)
    runs = [_traced(unit, code, 0) for code in (unit.code, changed)]
    short = [States(run.trace.spans).short(run.program, entry) for run in runs if run.trace is not None]
    moved = _moved(unit.code.program, mutant.words, entry)
    new = short[1] - {(moved.get(i, i), moved.get(j, j)) for i, j in short[0]}
    if not new:
        return Argued(NOT_NEEDED)
    i, j = min(new)
    first, second = runs[1].program.mnemonic(i), runs[1].program.mnemonic(j)
    return Argued(fault=f"`{first}` and `{second}` may be too close")


def _moved(program: Program, words: Mapping[int, int], entry: int) -> dict[int, int]:
    """The dwords of instructions after an `s_nop` was moved past them."""
    if len(words) == 1:
        return {}
    first, last = min(words), max(words)
    starts = [i for i in sorted(reachable(program, entry)) if first < i <= last]
    return {i: i - 1 for i in starts} | {first: last}
