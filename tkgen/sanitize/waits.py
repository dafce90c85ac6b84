"""The immediate of `s_waitcnt`: how many accesses of each counter may still be on their way.

Bits 0..3 and 14..15 count vector memory, 4..6 exports, 8..11 LDS and scalar memory (CDNA3 ISA, SOPP, S_WAITCNT).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from tkgen.emulate.decode import Program

VECTOR, LGKM = "vmcnt", "lgkmcnt"
NEVER: Final = {VECTOR: 63, LGKM: 15}  # the largest counts, which wait for nothing
_S_WAITCNT: Final = 0xBF8C_0000
S_NOP: Final = 0xBF80_0000


@dataclass(frozen=True)
class Wait:
    """One `s_waitcnt`; the counts that wait for nothing are those of `NEVER`."""

    counts: tuple[int, int]  # vector memory, LDS and scalar memory
    exports: int = 7

    @classmethod
    def at(cls, program: Program, index: int) -> Wait:
        """The wait that stands at a dword."""
        value = int(program.ops[index]["offset"]) & 0xFFFF
        return cls((value & 15 | value >> 10 & 48, value >> 8 & 15), value >> 4 & 7)

    def count(self, counter: str) -> int:
        """Return the number of outstanding operations that it allows of a counter."""
        return self.counts[counter == LGKM]

    def allowing(self, counter: str, count: int) -> Wait:
        """The same with another count."""
        vector, lgkm = self.counts
        return replace(self, counts=(count, lgkm) if counter == VECTOR else (vector, count))

    @property
    def waits(self) -> bool:
        """True if it waits for anything."""
        return self.counts != (NEVER[VECTOR], NEVER[LGKM]) or self.exports != 7

    @property
    def word(self) -> int:
        """The instruction; where nothing is waited for, one that does nothing."""
        vector, lgkm = self.counts
        value = vector & 15 | (vector & 48) << 10 | self.exports << 4 | lgkm << 8
        return _S_WAITCNT | value if self.waits else S_NOP

    def __str__(self) -> str:
        parts = [f"{c}({self.count(c)})" for c in (VECTOR, LGKM) if self.count(c) != NEVER[c]]
        parts += [f"expcnt({self.exports})"] if self.exports != 7 else []
        return " ".join(["s_waitcnt", *parts]) if parts else "no wait"


NOTHING: Final = Wait((NEVER[VECTOR], NEVER[LGKM]))
