"""Section `instructions`: probes of every instruction that the emulator executes, on the GPU and here, bit by bit."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

import numpy as np

from tkgen.emulate import Buffer, EmulateError, launch
from tkgen.hardware import undecided
from tkgen.hardware.assembly import code_of
from tkgen.hardware.context import CLOSE, RIGHT, WRONG, CheckContext
from tkgen.hardware.hip import Hip
from tkgen.hardware.probes import assembling
from tkgen.hardware.probes.frame import KERNEL, kernel, rows_out
from tkgen.hardware.probes.inputs import LANES, Rows, inputs
from tkgen.hardware.probes.judge import compare
from tkgen.hardware.probes.probe import MATRIX, Probe
from tkgen.hardware.state import Result
from tkgen.packages import install_line
from tkgen.targets import load_target
from tkgen.toolchain.discover import find_compiler

NAME = "instructions"
TITLE = "Instructions, GPU and emulator"
_IN_A_KERNEL: Final = 48
_MATRICES_IN_A_KERNEL: Final = 8

Runner = Callable[[bytes, Rows, int], Rows]
"""Runs a kernel of probes: its code object, the inputs of all blocks, rows of output of a block."""


def missing() -> Sequence[tuple[str, str]]:
    """The emulator's packages."""
    absent = [name for name in ("numpy", "tinygrad") if importlib.util.find_spec(name) is None]
    return [(", ".join(absent), install_line("emulate"))] if absent else []


@cache
def groups(target: str, cxx: str | None) -> dict[str, list[Probe]]:
    """All probes that a target has, by the kernel that they are in. Raises ToolchainError without an assembler."""
    of = load_target(target)
    found: dict[str, list[Probe]] = {}
    by_family: dict[str, list[Probe]] = {}
    for probe in assembling.for_target(of, find_compiler(of, cxx)):
        by_family.setdefault(probe.family, []).append(probe)
    for family, probes in by_family.items():
        size = _MATRICES_IN_A_KERNEL if family == MATRIX else _IN_A_KERNEL
        ordered = sorted(probes, key=lambda p: p.name)
        for start in range(0, len(ordered), size):
            found[f"{family}-{start // size + 1:02}"] = ordered[start : start + size]
    return found


def items(context: CheckContext) -> Sequence[str]:
    """The kernels of probes, and that of open questions."""
    return [*groups(context.target.name, context.cxx), undecided.ITEM]


def run(context: CheckContext, item: str) -> Result:
    """Run one kernel of probes on the GPU and on the emulator."""
    if item == undecided.ITEM:
        return undecided.judged(context.target.name, context.cxx, on_gpu(context.hip))
    probes = groups(context.target.name, context.cxx)[item]
    return judged(probes, context.target.name, context.cxx, context.seed, on_gpu(context.hip))


def judged(probes: Sequence[Probe], target: str, cxx: str | None, seed: int, other: Runner) -> Result:
    """Probes on the emulator and on whatever `other` runs them: the verdict, and every probe that is not equal."""
    of = load_target(target)
    code = code_of(kernel(probes, target), of, find_compiler(of, cxx))
    given, rows = inputs(probes, seed), sum(map(rows_out, probes))
    results = compare(probes, given, other(code, given, rows), on_emulator(code, given, rows))
    unequal = [r for r in results if r.verdict != RIGHT]
    wrong = list(dict.fromkeys(r.probe.name for r in results if r.verdict == WRONG))
    names = sorted({p.name for p in probes})
    said = f"differs: {', '.join(wrong)}" if wrong else f"{len(probes)} probes of {len(names)} instructions"
    return {
        "verdict": WRONG if wrong else CLOSE if unequal else RIGHT, "said": said, "probes": len(probes),
        "instructions": names, "values": sum(r.values for r in results), "unequal": [r.to_json() for r in unequal],
    }  # fmt: skip


def on_gpu(hip: Hip) -> Runner:
    """Runs kernels of probes through libamdhip64."""

    def run(code: bytes, given: Rows, rows: int) -> Rows:
        source = hip.allocate(np.ascontiguousarray(given).view(np.uint8))
        into = hip.allocate(4 * len(given) * rows * LANES)
        into.fill(0)
        arguments = b"".join(m.address.to_bytes(8, "little") for m in (source, into))
        hip.function(code, KERNEL).launch((len(given), 1, 1), (LANES, 1, 1), arguments)
        hip.synchronize()
        return into.read().view(np.uint32).reshape(len(given), rows, LANES)

    return run


def on_emulator(code: bytes, given: Rows, rows: int) -> Rows:
    """Run a kernel of probes here. Raises EmulateError where an instruction stops it."""
    out = np.zeros((len(given), rows, LANES), np.uint32)
    buffers = [Buffer(np.ascontiguousarray(given)), Buffer(out)]
    outcome = launch(code, grid=(len(given), 1, 1), block=(LANES, 1, 1), args=buffers)
    if not outcome.completed:
        raise EmulateError(f"the emulator stopped: {outcome.findings[0]}")
    return out
