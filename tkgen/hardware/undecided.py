"""Open questions about instructions: what AMD's documents leave open, and which answer this GPU gives.

`tkgen/emulate/undecided.toml` has an instruction with its operands for each, and both results: that of the emulator,
and that of the other reading.
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
_LDS: Final = 256  # bytes, for the instructions that use it
_FILE: Final = Path(__file__).parents[1] / "emulate/undecided.toml"

Rows = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Question:
    """One instruction with the operands of some lanes, and v20 afterwards by either reading."""

    name: str
    opcodes: str
    instruction: str
    inputs: Sequence[Sequence[int]]  # of each lane: v10, v12, v14
    emulator: Sequence[int]
    other: Sequence[int]
    emulator_does: str
    other_does: str
    source: str
    before: int = 0  # v20
    targets: Sequence[str] = ()  # all without one
    setup: str = ""  # instructions before it and after it
    then: str = ""

    def answer(self, got: Sequence[int]) -> str:
        """The reading whose results these are."""
        return EMULATOR if list(got) == list(self.emulator) else OTHER if list(got) == list(self.other) else NEITHER


@cache
def _all() -> tuple[Question, ...]:
    return tuple(Question(**one) for one in tomllib.loads(_FILE.read_text(encoding="utf-8"))["probe"])


def questions(target: str) -> list[Question]:
    """The questions that a target can answer."""
    return [q for q in _all() if not q.targets or target in q.targets]


def assembly(asked: Sequence[Question], target: str) -> str:
    """A kernel of two arguments: for each question four rows of 64 dwords (v10, v12, v14, v20), and one of results."""
    lines = ["s_load_dwordx4 s[8:11], s[0:1], 0", "v_and_b32 v1, 0x3ff, v0", "v_lshlrev_b32 v1, 2, v1"]
    lines.append("s_waitcnt lgkmcnt(0)")
    for question in asked:
        lines += [f"global_load_dword v{r}, v1, s[8:9] offset:{256 * n}" for n, r in enumerate((10, 12, 14, 20))]
        lines += ["s_waitcnt vmcnt(0)", "s_nop 7", *question.setup.splitlines(), question.instruction]
        lines += [*question.then.splitlines(), "s_nop 7"]
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

    The verdict is CLOSE where the other reading is the GPU's, WRONG where neither is.
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
                "question": question.name, "instruction": question.instruction, "opcodes": question.opcodes,
                "emulator": question.emulator_does, "other": question.other_does, "answer": question.answer(got),
                "GPU": [f"0x{x:08x}" for x in got], "source": question.source,
            }
        )  # fmt: skip
    by = [a["answer"] for a in answers]
    said = ", ".join(f"{by.count(kind)} {kind}" for kind in (EMULATOR, OTHER, NEITHER) if kind in by)
    verdict = WRONG if NEITHER in by else CLOSE if OTHER in by else RIGHT
    return {"verdict": verdict, "said": f"{len(by)} questions: {said}", "undecided": answers}
