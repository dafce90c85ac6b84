"""Builds for Hopper with machine code that a test writes: no nvcc and no disassembler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tkgen.api import load
from tkgen.backends.hopper.build import CudaBuild
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.backends.hopper.toolchain import Figures, Nvcc

SPECS = Path(__file__).parents[2] / "specs" / "hopper"


def sass(*opcodes: str) -> str:
    """A disassembly: an opcode a line; `BRA n` jumps to instruction n."""
    lines = []
    for n, opcode in enumerate((*opcodes, "EXIT")):
        name, _, target = opcode.partition(" ")
        to = f" {int(target) * 16:#x}" if target else " R2, R4"
        lines.append(f"        /*{n * 16:04x}*/                   {name}{to} ;")
    return "\n".join(lines)


def product_code(inside: int = 12, outside: int = 100, loads: int = 0) -> str:
    """A tile loop around a fused matmul."""
    first = 2 + outside
    before = [*["LDG.E.128", "BAR.SYNC"] * loads, *["FADD"] * (outside - 2 * loads)]
    code = ["MOV", "S2R", *before, *["HGMMA.64x256x16.F32.BF16"] * 4,
            *["UIADD3"] * inside, f"BRA {first}", "UTMASTG", "BRA 2", "UTMALDG"]  # fmt: skip
    return sass(*code)


def loop_code(inside: int = 500, powers: int = 64) -> str:
    """The same of attention: powers beside products."""
    code = ["MOV", *["FADD"] * 400, "HGMMA.64x128x16.F32.BF16", *["MUFU.EX2"] * powers, *["FFMA"] * inside, "BRA 401",
            "UTMASTG", "BRA 1", "UTMALDG"]  # fmt: skip
    return sass(*code)


NVCC = Nvcc(Path("nvcc"), "PATH", "13.0")


def built(name: str, code: str, registers: int = 168, **values: int) -> CudaBuild[HopperSpec[Any]]:
    """A build of a shipped spec with this machine code."""
    spec = load(SPECS / f"{name}.tk", values)
    assert isinstance(spec, HopperSpec)
    return CudaBuild(NVCC, b"", Figures("k", registers, 0, 0, 64), "", code, spec)
