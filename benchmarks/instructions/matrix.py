"""Matrix instructions: random and edge values, compared with a formula.

The layouts are those of AMD's CDNA3 ISA document, "Matrix core", and of its matrix instruction calculator; those of
f8f6f4 are of "Matrix Core Programming on AMD CDNA3 and CDNA4" (AMD's ROCm blogs). The arithmetic is in `matrix_models`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pcode
from pcode.small_floats import Format

from instructions import matrix_models
from instructions.machine import Rows, assembled, kernel
from instructions.matrix_models import Number, of_value
from instructions.memory import Notes
from instructions.table import Opcode
from instructions.vector_cases import float_bits, seed_of
from tkgen.emulate import Buffer, launch

SOURCES: Final = {
    "fused": "Xie et al., arXiv 2511.10909",
    "measured": "Xie et al., arXiv 2511.10909, bit for bit on hardware",
    "unmeasured": "nobody measured it: `tkgen hardware-check --only instructions` on a gfx950",
}
BITS: Final = {"f64": 64, "f32": 32, "xf32": 32, "f16": 16, "bf16": 16, "i8": 8, "fp8": 8, "bf8": 8, "fp6": 6, "bf6": 6,
    "fp4": 4}  # fmt: skip
SMALL: Final = {"fp8": (4, 3), "bf8": (5, 2), "fp6": (2, 3), "bf6": (3, 2), "fp4": (2, 1)}
FORMATS: Final = ("fp8", "bf8", "fp6", "bf6", "fp4")  # by the codes in CBSZ and BLGP
A, B, C, D = 32, 40, 48, 80  # v32, ...
GROUPS_IN, GROUPS_OUT = 12, 8  # of four registers
SAMPLE: Final = 40
_SHAPE: Final = re.compile(r"v_mfma_(\w+?)_(\d+)x\2x(\d+)(?:_(\d+)b)?_(\w+)")


@dataclass(frozen=True)
class Matrix:
    """Shape and types of an instruction, and its modifiers."""

    opcode: Opcode
    target: str
    size: int
    k: int
    blocks: int
    kinds: tuple[str, str]
    cbsz: int = 0
    abid: int = 0
    blgp: int = 0

    @property
    def in_lane(self) -> int:
        return self.size * self.k * self.blocks // 64

    @property
    def mixed(self) -> bool:
        return "f8f6f4" in self.opcode.name

    def words(self) -> list[int]:
        first = 0b110100111 << 23 | self.opcode.number << 16 | self.abid << 11 | self.cbsz << 8 | D
        return [first, 256 + A | 256 + B << 9 | 256 + C << 18 | self.blgp << 29]

    def source(self, side: int, i: int, k: int, block: int) -> tuple[int, int]:
        """Lane and element of A(i, k) or B(k, i)."""
        if self.mixed:
            groups = 64 // self.size
            if BITS[self.kinds[side]] == 8:  # two runs of sixteen, half of K apart
                return i + self.size * (k // 16 % groups), k % 16 + 16 * (k // (16 * groups))
            return i + self.size * (k // 32), k % 32
        if side == 0 and self.cbsz:  # blocks by groups of 2^CBSZ share the one that ABID names
            block = block >> self.cbsz << self.cbsz | self.abid
        lane = i + self.size * (block + self.blocks * (k // self.in_lane))
        if side == 1 and self.kinds[0] != "f64":
            lane = self.broadcast(lane)
        return lane, k % self.in_lane

    def broadcast(self, lane: int) -> int:
        """BLGP: the lane of B that is read."""
        if self.blgp < 4:
            return (lane, lane % 32, 32 + lane % 32, (lane + 16) % 64)[self.blgp]
        return lane % 16 + 16 * (self.blgp - 4)

    def result(self, i: int, j: int, block: int) -> tuple[int, int]:
        """Lane and register (of 32 bits) of D(i, j)."""
        if self.kinds[0] == "f64":
            return (j + 16 * (i % 4), 2 * (i // 4)) if self.size == 16 else (j + 4 * block + 16 * i, 0)
        if self.size == 32:
            return j + 32 * (i // 4 % 2), 16 * block + 4 * (i // 8) + i % 4
        return (j + 16 * (i // 4), 4 * block + i % 4) if self.size == 16 else (j + 4 * block, i)


def exists(opcode: Opcode, target: str) -> bool:
    """Return True if the target has the instruction (LLVM's VOP3PInstructions.td); the emulator decodes some more."""
    if target not in opcode.targets:
        return False
    kind = opcode.name.rsplit("_", 1)[-1]
    if target == "gfx90a":
        return not (kind in ("xf32", "fp8", "bf8") or opcode.number in (86, 87, *range(93, 98)))
    return kind != "xf32" or target == "gfx942"


def shape(opcode: Opcode, target: str, number: int) -> Matrix:
    found = _SHAPE.fullmatch(opcode.name)
    assert found is not None, opcode.name
    size, k, blocks = int(found[2]), int(found[3]), int(found[4] or 1)
    kinds = found[5].split("_")
    options = {}
    if found[5] == "f8f6f4":
        options = {"cbsz": number % 5, "blgp": number * 3 % 5}
        kinds = [FORMATS[options["cbsz"]], FORMATS[options["blgp"]]]
    elif kinds[0] == "f64":
        options = {"blgp": (0, 5, 2, 7)[number % 4] if target != "gfx90a" else 0}
    elif blocks > 1:
        cbsz = number % blocks.bit_length()
        options = {"cbsz": cbsz, "abid": number % (1 << cbsz), "blgp": number * 3 % 8}
    return Matrix(opcode, target, size, k, blocks, (kinds[0], kinds[-1]), **options)


def values(rng: np.random.Generator, kind: str, number: int) -> Rows:
    """Bits of 64 values: near each other, of many magnitudes, or (every other case) with edge values among them."""
    if kind == "i8" or kind in SMALL:
        return rng.integers(0, 1 << BITS[kind], 64, dtype=np.uint64)
    wide = {"f64": np.float64, "f16": np.float16}.get(kind, np.float32)
    numbers = rng.standard_normal(64) * 2.0 ** rng.integers(-12, 6, 64)
    unsigned = {"f64": np.uint64, "f16": np.uint16}.get(kind, np.uint32)
    bits = numbers.astype(wide).view(unsigned).astype(np.uint64)
    if number % 2:
        edges = float_bits(rng, {"f64": 64, "f16": 16}.get(kind, 32))
        bits = np.where(rng.random(64) < 0.06, edges, bits)
    return bits >> np.uint64(16) if kind == "bf16" else bits


def registers_of(rng: np.random.Generator, kind: str, count: int, number: int) -> Rows:
    """`count` registers of packed values, [count, 64]."""
    width = BITS[kind]
    elements = -(-32 * count // width)
    made = [0] * 64
    for e in range(elements):
        for lane, bits in enumerate(values(rng, kind, number)):
            made[lane] |= int(bits) << width * e
    return np.array([[x >> 32 * r & 0xFFFFFFFF for x in made] for r in range(count)], dtype=np.uint32)


def inputs(rng: np.random.Generator, m: Matrix, number: int) -> Rows:
    """v32 to v79: A, B and C."""
    rows = np.zeros((4 * GROUPS_IN, 64), dtype=np.uint32)
    for side, at in ((0, 0), (1, 8)):
        rows[at : at + 8] = registers_of(rng, m.kinds[side], 8, number)
    kind = "f64" if m.kinds[0] == "f64" else "i8" if m.kinds[0] == "i8" else "f32"
    rows[16:] = registers_of(rng, kind, 32, number)
    return rows


def bits_at(rows: Rows, lane: int, element: int, width: int) -> int:
    first = width * element // 32
    both = int(rows[first, lane]) | (int(rows[first + 1, lane]) << 32 if first + 1 < len(rows) else 0)
    return both >> width * element % 32 & (1 << width) - 1


def number_of(bits: int, kind: str, target: str) -> Number:
    """The value of a format's bits."""
    if kind in SMALL:
        flavour = ("ocp" if target == "gfx950" else "fnuz") if BITS[kind] == 8 else "finite"
        exponent, mantissa = SMALL[kind]
        least = 2 - (1 << exponent - 1) - (flavour == "fnuz")
        return of_value(Format(exponent, mantissa, flavour).value(bits), least)
    if kind == "f64":
        return of_value(pcode.float_of(bits, 64), -1022)
    if kind == "f16":
        return of_value(pcode.float_of(bits, 16), -14)
    bits = bits << 16 if kind == "bf16" else bits & ~0x1FFF if kind == "xf32" else bits
    return of_value(pcode.float_of(bits, 32), -126)


def expected(m: Matrix, rows: Rows, i: int, j: int, block: int) -> int:
    """The bits of D(i, j)."""
    lane, register = m.result(i, j, block)
    kind = m.kinds[0]
    width = 64 if kind == "f64" else 32
    c = bits_at(rows[16:], lane, register * 32 // width, width)
    sides = []
    for side, x in ((0, i), (1, j)):
        places = [m.source(side, x, k, block) for k in range(m.k)]
        part = rows[8 * side : 8 * side + 8]
        sides.append([bits_at(part, *place, BITS[m.kinds[side]]) for place in places])
    if kind == "i8":
        products = (((x ^ 128) - 128) * ((y ^ 128) - 128) for x, y in zip(*sides, strict=True))
        return c + sum(products) & 0xFFFFFFFF
    negated = m.blgp if kind == "f64" else 0
    numbers = [
        [number_of(x ^ (negated >> side & 1) << 63, m.kinds[side], m.target) for x in sides[side]] for side in (0, 1)
    ]
    terms = list(zip(*numbers, strict=True))
    start = pcode.float_of(c ^ (negated >> 2 & 1) << 63, width)
    if kind in ("f32", "f64"):
        value = matrix_models.fused(terms, start, width)
    elif kind in SMALL:
        value = matrix_models.cdna3_small(terms, start)
    elif m.target == "gfx90a":
        old = re.search(r"x2_\d+b_bf16|32x32x4_bf16|16x16x8_bf16", m.opcode.name)  # without _1k
        value = matrix_models.cdna2(terms, start, 2 if old else 4)
    else:
        value = matrix_models.cdna3(terms, start, min(m.k, 4 if kind == "xf32" else 8))
    return pcode.bits_of(value, width)


def frame(m: Matrix) -> str:
    """Registers from the case, the instruction, and its result."""
    loads = "".join(
        f"  global_load_dwordx4 v[{A + 4 * g}:{A + 4 * g + 3}], v2, s[8:9] offset:{1024 * (g % 4)}\n"
        + ("  s_add_u32 s8, s8, 4096\n  s_addc_u32 s9, s9, 0\n" if g % 4 == 3 else "")
        for g in range(GROUPS_IN)
    )
    clears = "".join(f"  v_mov_b32 v{D + r}, 0\n" for r in range(4 * GROUPS_OUT))
    stores = "".join(
        f"  global_store_dwordx4 v2, v[{D + 4 * g}:{D + 4 * g + 3}], s[10:11] offset:{1024 * (g % 4)}\n"
        + ("  s_add_u32 s10, s10, 4096\n  s_addc_u32 s11, s11, 0\n" if g % 4 == 3 else "")
        for g in range(GROUPS_OUT)
    )
    code = "".join(f"  .long 0x{w:08x}\n" for w in m.words())
    return f"{loads}{clears}  s_waitcnt vmcnt(0)\n{code}  s_nop 15\n  s_nop 15\n{stores}"


def run(cases: Sequence[tuple[Matrix, Rows]], target: str, batch: int = 200) -> Iterator[Rows]:
    """D of each case, [32, 64]."""
    for first in range(0, len(cases), batch):
        some = cases[first : first + batch]
        code = assembled(kernel("".join(frame(m) for m, _ in some), target), target)
        given = np.stack([r.reshape(GROUPS_IN, 4, 64).transpose(0, 2, 1) for _, r in some])
        out = np.zeros((len(some), GROUPS_OUT, 64, 4), dtype=np.uint32)
        buffers = [Buffer(np.ascontiguousarray(given)), Buffer(out)]
        outcome = launch(code, grid=(1, 1, 1), block=(64, 1, 1), args=buffers)
        assert outcome.completed and not outcome.findings, [str(f) for f in outcome.findings][:3]
        yield from out.transpose(0, 1, 3, 2).reshape(len(some), 4 * GROUPS_OUT, 64)


def differences(m: Matrix, rows: Rows, got: Rows, places: Iterable[tuple[int, int, int]]) -> list[str]:
    """Elements of D that are not those of the formula; NaNs are equal whatever they hold."""
    found = []
    width = 64 if m.kinds[0] == "f64" else 32
    for block, i, j in places:
        lane, register = m.result(i, j, block)
        mine, want = bits_at(got, lane, register * 32 // width, width), expected(m, rows, i, j, block)
        if mine == want:
            continue
        if m.kinds[0] != "i8" and all(math.isnan(pcode.float_of(x, width)) for x in (mine, want)):
            continue
        found.append(f"D({i}, {j}) of block {block}: 0x{mine:x}, formula 0x{want:x}")
    return found


def compare(
    some: Iterable[Notes],
    targets: Sequence[str],
    count: int,
    sample: int = SAMPLE,
    judge: Callable[..., list[str]] = differences,
) -> None:
    """Run the cases of some records on each target, and note what differs from the formula in `sample` elements."""
    for target in targets:
        cases = []
        for record in some:
            for number in range(count if exists(record.opcode, target) else 0):
                rng = seed_of(record.opcode, number)
                m = shape(record.opcode, target, number)
                cases.append(
                    (record, m, inputs(rng, m, number), rng.integers(0, [m.blocks, m.size, m.size], (sample, 3)))
                )
        for (record, m, rows, places), got in zip(cases, run([(m, r) for _, m, r, _ in cases], target), strict=True):
            record.note(target, "", m.words(), judge(m, rows, got, [tuple(int(x) for x in p) for p in places]))


__all__ = ["SOURCES", "compare"]
