"""A probe as a value: an instruction, the registers that it takes and those that are stored after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

VECTOR, MATRIX, SCALAR, MEMORY = "vector", "matrix", "scalar", "memory"
"""Families of probes: those of a kernel are of one."""


@dataclass(frozen=True)
class ProbeOperand:
    """A vector operand: its first register, and the format of its bits as AMD's tables name it (`F32`, `PK2_F16`)."""

    register: int
    format: str
    bits: int

    @property
    def registers(self) -> range:
        """All registers of it."""
        return range(self.register, self.register + (self.bits + 31) // 32)


@dataclass(frozen=True)
class Probe:
    """One instruction of a kernel.

    `text` may be several lines of assembly, of which one is the instruction in question. `outputs` are the vector and
    accumulation registers that are stored, `result` the format of the first of them. `rows` is memory that the probe
    may access: this number of rows of 64 dwords, of LDS (`lds`) or of global memory, filled before and stored after it.
    """

    name: str
    text: str
    family: str
    sources: Sequence[ProbeOperand]
    outputs: Sequence[str]
    result: str
    before: str = ""
    rows: int = 0
    lds: bool = False
    indices: tuple[int, int] | None = None  # of a register that holds an index: the register, and how many there are


def vectors(first: int, bits: int, file: str = "v") -> str:
    """An operand of `bits` bits from a register on, as assembly has it."""
    count = (bits + 31) // 32
    return f"{file}{first}" if count == 1 else f"{file}[{first}:{first + count - 1}]"


def each(first: int, bits: int, file: str = "v") -> tuple[str, ...]:
    """The registers of such an operand."""
    return tuple(f"{file}{first + i}" for i in range((bits + 31) // 32))
