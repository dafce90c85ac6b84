"""Open questions about instructions: what AMD's documents leave open, and which answer this GPU gives.

`tkgen/emulate/undecided.toml` has an instruction with its operands for each, and both results: that of the emulator,
and that of the other reading. `tkgen/emulate/wait_states.toml` has pairs of instructions with fewer wait states between
them than LLVM keeps (E714): both results are those of the second instruction, with the result of the first and without.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from tkgen.hardware.assembly import code_of, kernel
from tkgen.hardware.context import CLOSE, RIGHT, WRONG
from tkgen.hardware.state import Result
from tkgen.targets import load_target
from tkgen.toolchain.discover import find_compiler

ITEM: Final = "undecided"
KERNEL: Final = "probes"
EMULATOR, OTHER, NEITHER = "the emulator's", "the other", "neither"
_LANES: Final = 64
_FILES: Final = [Path(__file__).parents[1] / "emulate" / f"{name}.toml" for name in ("undecided", "wait_states")]
_LDS: Final = 1024  # bytes, for the instructions that use it

Rows = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Question:
    """One instruction, or several, with the operands of some lanes, and v20 afterwards by either reading.

    v1 is four times the number of the lane, and s[8:9] the address of the question's operands.
    """

    name: str
    instruction: str
    inputs: Sequence[Sequence[int]]  # of each lane: v10, v12, v14
    emulator: Sequence[int]
    other: Sequence[int]
    emulator_does: str
    other_does: str
    source: str
    opcodes: str = ""
    before: int = 0  # v20
    missing: int = 0  # wait states that LLVM keeps and that are not there
    targets: Sequence[str] = ()  # all without one
    setup: str = ""  # instructions before it and after it
    then: str = ""

    def answer(self, got: Sequence[int]) -> str:
        """The reading whose results these are: one old result is enough of a pair that lacks wait states."""
        if self.missing and list(got) != list(self.emulator):
            each = zip(got, self.emulator, self.other, strict=True)
            return OTHER if all(x in (new, old) for x, new, old in each) else NEITHER
        return EMULATOR if list(got) == list(self.emulator) else OTHER if list(got) == list(self.other) else NEITHER


@cache
def _all() -> tuple[Question, ...]:
    return tuple(Question(**one) for file in _FILES for one in tomllib.loads(file.read_text(encoding="utf-8"))["probe"])


def questions(target: str) -> list[Question]:
    """The questions that a target can answer."""
    return [q for q in _all() if not q.targets or target in q.targets]


def assembly(asked: Sequence[Question], target: str) -> str:
    """A kernel of two arguments: for each question four rows of 64 dwords (v10, v12, v14, v20), and one of results."""
    lines = ["s_load_dwordx4 s[8:11], s[0:1], 0", "v_and_b32 v1, 0x3ff, v0", "v_lshlrev_b32 v1, 2, v1"]
    lines.append("s_waitcnt lgkmcnt(0)")
    for question in asked:
        lines += [f"global_load_dword v{r}, v1, s[8:9] offset:{256 * n}" for n, r in enumerate((10, 12, 14, 20))]
        lines += ["s_waitcnt vmcnt(0)", "s_nop 7", *question.setup.splitlines()]
        lines += [*question.instruction.strip().splitlines(), *question.then.splitlines(), *["s_nop 15"] * 2]
        lines += ["global_store_dword v1, v20, s[10:11]", "s_waitcnt vmcnt(0)"]
        lines += ["s_add_u32 s8, s8, 1024", "s_addc_u32 s9, s9, 0", "s_add_u32 s10, s10, 256", "s_addc_u32 s11, s11, 0"]
    return kernel(target, KERNEL, "".join(f"  {line}\n" for line in lines), lds=_LDS)


def inputs(asked: Sequence[Question]) -> Rows:
    """The kernel's input, [1, 4 * questions, 64]."""
    rows = np.zeros((len(asked), 4, _LANES), np.uint32)
    for question, row in zip(asked, rows, strict=True):
        row[3] = question.before
        for lane, words in enumerate(question.inputs):
            row[: len(words), lane] = words
    return rows.reshape(1, -1, _LANES)


def judged(target: str, cxx: str | None, run: Callable[[bytes, Rows, int], Rows]) -> Result:
    """Ask all questions by `run` (code object, inputs, rows of output); for each the reading that the results have.

    The verdict is CLOSE where the other reading is the GPU's, WRONG where neither is. Of pairs that lack wait states
    either is right: they say what E714 is worth on this GPU.
    Raises ToolchainError without an assembler.
    """
    of, asked = load_target(target), questions(target)
    code = code_of(assembly(asked, target), of, find_compiler(of, cxx))
    out = run(code, inputs(asked), len(asked))[0]
    answers = []
    for question, row in zip(asked, out, strict=True):
        got = [int(x) for x in row[: len(question.inputs)]]
        answers.append(
            {
                "question": question.name, "instruction": "; ".join(question.instruction.strip().splitlines()),
                "opcodes": question.opcodes,
                "emulator": question.emulator_does, "other": question.other_does, "answer": question.answer(got),
                "GPU": [f"0x{x:08x}" for x in got], "source": question.source, "missing": question.missing,
            }
        )  # fmt: skip
    by = [a["answer"] for a in answers]
    said = ", ".join(f"{by.count(kind)} {kind}" for kind in (EMULATOR, OTHER, NEITHER) if kind in by)
    against = any(a["answer"] == OTHER and not a["missing"] for a in answers)
    verdict = WRONG if NEITHER in by else CLOSE if against else RIGHT
    return {"verdict": verdict, "said": f"{len(by)} questions: {said}", "undecided": answers}
