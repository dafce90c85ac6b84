"""Arguments why a mutant of machine code that no judge caught is right, or what is wrong with it.

Waits and barriers: a second model (`machine_model`) follows the waves of the first, a middle and the last block.
Wait states: of no pair of instructions that the change brought closer has it fewer than the bounds of `machine_states`.
Of other kinds there is no argument, and none of waits for vector memory in code that writes caches back or invalidates
them, since another block may rely on these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from mutating.machine_code import Mutant, fences
from mutating.machine_model import Change, Model
from mutating.machine_states import States
from tkgen.emulate import CodeObject, Outcome, patched
from tkgen.emulate.code_object import Kernel
from tkgen.emulate.decode import Program, decode
from tkgen.emulate.reach import reachable
from tkgen.sanitize.waits import Wait

NOT_RUN = "the launch does not execute it"
NOTHING = "nothing that it would complete is on its way"
LATER = "a later wait completes the same accesses before they are needed"
FULL = "its counter is full: an access that is issued waits for the oldest one"
UNORDERED = "it orders no two accesses that conflict"
NOT_NEEDED = "no pair of instructions needs these wait states"


@dataclass(frozen=True)
class Argued:
    """Why the mutant is right, or the fault that the second model sees; both empty where there is no argument."""

    reason: str = ""
    fault: str = ""


@dataclass(frozen=True)
class Arguments:
    """The second calculation for all mutants of a kernel, launched with a number of blocks.

    `traced` runs one block of the code itself and traces all of its waves.
    """

    code: CodeObject
    kernel: Kernel
    blocks: int
    traced: Callable[[int], Outcome]

    def of(self, mutant: Mutant) -> Argued:
        """The argument for a mutant."""
        if mutant.kind.startswith("wait states"):
            return self._states_of(mutant)
        if not mutant.kind.startswith(("vmcnt", "lgkmcnt", "barrier")):
            return Argued()
        if not any(mutant.index in model.executed for model in self._models):
            return Argued(NOT_RUN)
        change = {mutant.index: _changed(mutant.words[mutant.index], self.code.target)}
        found = [model.modelled(change) for model in self._models]
        if fault := next((each.fault for each in found if each.fault), ""):
            return Argued(fault=fault)
        if mutant.kind.startswith("barrier"):
            return Argued(UNORDERED)
        counter = mutant.kind.split()[0]
        if counter == "vmcnt" and fences(self.code.program, self._entry):
            return Argued()
        key = mutant.index, counter
        if sum(each.by_room for each in found) > sum(model.itself.by_room for model in self._models):
            return Argued(FULL)
        before = sum(model.itself.completed[key] for model in self._models)
        return Argued(LATER if before > sum(each.completed[key] for each in found) else NOTHING)

    @cached_property
    def _models(self) -> list[Model]:
        return [Model(self.traced(block)) for block in sorted({0, self.blocks // 2, self.blocks - 1})]

    @property
    def _entry(self) -> int:
        return (self.kernel.entry - self.code.text[0]) // 4

    @cached_property
    def _states(self) -> States:
        return States(self.code.program, self._entry, self._models[0].trace.spans)

    def _states_of(self, mutant: Mutant) -> Argued:
        program = patched(self.code, {self.code.text[0] + 4 * i: word for i, word in mutant.words.items()}).program
        moved = _moved(self.code.program, mutant.words, self._entry)
        closer = self._states.closer(program, moved, mutant.words.keys())
        if not closer:
            return Argued(NOT_NEEDED)
        i, j = min(closer)
        return Argued(fault=f"`{program.mnemonic(i)}` and `{program.mnemonic(j)}` may be too close")


def _changed(word: int, target: str) -> Change:
    program = decode(word.to_bytes(4, "little"), target)
    return Wait.at(program, 0) if program.mnemonic(0) == "s_waitcnt" else None


def _moved(program: Program, words: Mapping[int, int], entry: int) -> dict[int, int]:
    """The dwords of instructions after an `s_nop` was moved past them."""
    if len(words) == 1:
        return {}
    first, last = min(words), max(words)
    starts = [i for i in sorted(reachable(program, entry)) if first < i <= last]
    return {i: i - 1 for i in starts} | {first: last}
