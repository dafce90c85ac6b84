"""Probes of matrix instructions, on numbers of many magnitudes, on small integers, and on some edge values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tkgen.hardware.probes.probe import MATRIX, Probe, ProbeOperand, each, vectors
from tkgen.hardware.probes.vector import Operands, tables

_A, _B, _C, _D = 32, 40, 48, 80
_NAMED: Final = re.compile(r"v_mfma_(\w+?)_(\d+)x(\d+)x(\d+)(?:_(\d+)b)?_(\w+)")
# How LLVM writes them for gfx90a, which has other names in one piece.
_OF_GFX90A: Final = {
    "32x32x4_2b_bf16": "32x32x4bf16_1k", "16x16x4_4b_bf16": "16x16x4bf16_1k", "4x4x4_16b_bf16": "4x4x4bf16_1k",
    "32x32x8_bf16": "32x32x8bf16_1k", "16x16x16_bf16": "16x16x16bf16_1k",
}  # fmt: skip
# Operands of the instructions that only gfx90a has: those of the ones with as many factors of 16 or 8 bits.
_BITS: Final = {"f64": 64, "f32": 32, "xf32": 32, "f16": 16, "bf16": 16, "i8": 8, "fp8": 8, "bf8": 8}


def probes(names: frozenset[str]) -> Iterator[Probe]:
    """Candidates for all of these mnemonics."""
    for name in sorted(n for n in names if n.startswith("v_mfma")):
        operands = _operands(name)
        a, b, c = (ProbeOperand(r, *operands[f]) for r, f in ((_A, "src0"), (_B, "src1"), (_C, "src2")))
        format, bits = operands["vdst"]
        words = [vectors(_D, bits), *(vectors(s.register, s.bits) for s in (a, b, c))]
        options = [""]
        if "f8f6f4" in name:
            options = [f"cbsz:{x} blgp:{y}" for x, y in ((0, 0), (1, 0), (2, 3), (3, 2), (4, 4))]
        elif (found := _NAMED.match(name)) and found[5]:
            options += ["cbsz:1 abid:1", "blgp:1"]
        elif "f64" in name:
            options += ["neg:[1,0,1]"]
        for option in options:
            for spelling in _spellings(name):
                sized = words
                if "f8f6f4" in name and option:
                    numbers = [int(x) for x in re.findall(r":(\d)", option)]
                    wide = [{0: 256, 1: 256, 2: 192, 3: 192, 4: 128}[x] for x in numbers]
                    sized = [words[0], vectors(_A, wide[0]), vectors(_B, wide[1]), words[3]]
                text = f"{spelling} {', '.join(sized)} {option}".rstrip()
                yield Probe(name, text, MATRIX, (a, b, c), each(_D, bits), format)


def _operands(name: str) -> Operands:
    known = tables()["VOP3P"].get(name)
    if known is not None:
        return known
    found = _NAMED.match(name)
    assert found is not None, name
    m, n, k, blocks = int(found[2]), int(found[3]), int(found[4]), int(found[5] or 1)
    kind = found[6].split("_")[0]
    lane = m * k * blocks // 64
    of = (f"PK{lane}_{kind.upper()}", lane * _BITS[kind])
    count = m * n * blocks // 64
    sums = (f"PK{count}_{found[1].upper()}", count * 32)
    return {"src0": of, "src1": of, "src2": sums, "vdst": sums}


def _spellings(name: str) -> list[str]:
    """The names that assemblers of the targets know it by."""
    found = _NAMED.match(name)
    assert found is not None
    shape, kind = name.removeprefix(f"v_mfma_{found[1]}_"), found[6]
    joined = f"v_mfma_{found[1]}_{found[2]}x{found[3]}x{found[4]}{kind}"
    old = f"v_mfma_{found[1]}_{_OF_GFX90A[shape]}" if shape in _OF_GFX90A else joined
    return list(dict.fromkeys([name, old]))
