"""The origin of a value in words, for code without debug lines, whose registers mean nothing to its author.

The origin comes from a trace of all waves of a block. An earlier instruction wrote the value of a register. One that
moves or converts leads to its sources, a read of LDS to the wave that wrote those bytes and its value, a load to the
tensor in memory: its bytes, as rows and columns. A product ends the search.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from tkgen.emulate import Buffer, Finding, Kind, Outcome, Space
from tkgen.emulate.decode import Encoding, Flag
from tkgen.emulate.disassemble import disassemble, operand

_LDS, _INTO_LDS, _TWO_PARTS = 4, 8, 16
_INACTIVE: Final = np.uint64(2**64 - 1)
_TOO_EARLY: Final = (Kind.READ_BEFORE_WAIT, Kind.OVERWRITE_BEFORE_WAIT)
_MOST_STEPS: Final = 24  # instructions on the way back from a register
_ACCUMULATORS, _SCALARS = 256, 512  # where their numbers begin


@dataclass(frozen=True)
class _Span:
    first: int
    count: int
    writes: bool

    @property
    def registers(self) -> range:
        return range(self.first, self.first + self.count)

    def __str__(self) -> str:
        if self.first >= _SCALARS:
            return operand(self.first - _SCALARS, self.count)
        return operand(256 + self.first, self.count)


class History:
    """The executed instructions of the waves of one block, in the order of execution."""

    def __init__(self, outcome: Outcome):
        assert outcome.trace is not None
        self.outcome, self.trace, self.program = outcome, outcome.trace, outcome.program
        self.rows: Any = outcome.trace.rows

    @cached_property
    def _spans(self) -> dict[int, list[_Span]]:
        found: dict[int, list[_Span]] = defaultdict(list)
        for index, first, count, writes in self.trace.spans.tolist():
            found[index].append(_Span(first, count, bool(writes)))
        return found

    def position(self, wave: int, address: int, instance: int) -> int | None:
        """Return the position in the trace of an execution, counted from 0, of an instruction by a wave; None after its
        end.
        """
        index = (address - self.outcome.code.text[0]) // 4
        at = np.flatnonzero((self.rows["wave"] == wave) & (self.rows["index"] == index))
        return int(at[instance]) if instance < len(at) else None

    # ------------------------------------------------------------ in words

    def register(self, position: int, register: int) -> str:
        """Describe the value of a register before an instruction: its registers and origin; empty where it is not
        known.
        """
        written = self._writer(position, register)
        if written is None:
            return ""
        at, span = written
        return f"{span}, {self._value(at, span, span, None, _MOST_STEPS)}"

    def stored(self, position: int, byte: int) -> str:
        """Describe the value that an instruction writes to a byte of LDS, and its origin; empty
        where it writes none.
        """
        row = self.rows[position]
        covering = self._covering(position, byte)
        if covering is None:
            return ""
        lane, part = covering
        if row["access"] & _INTO_LDS:
            return self._load(position, lane)
        data = [s for s in self._spans[int(row["index"])] if not s.writes and s.first < _SCALARS][
            1:
        ]  # behind the address
        if part >= len(data):
            return ""
        return f"{data[part]}, {self._origin(position, data[part], lane, _MOST_STEPS)}"

    def bytes_of_lds(self, position: int, byte: int) -> str:
        """Describe the last write to a byte of LDS before an instruction; empty where there is none."""
        writer = self._writer_of_lds(position, byte)
        if writer is None:
            return ""
        return f"written by wave {self.rows[writer]['wave']} with {self._text(writer)}: {self.stored(writer, byte)}"

    def _text(self, position: int) -> str:
        index = int(self.rows[position]["index"])
        return f"`{disassemble(self.program, index)}` at {self.outcome.address(index):#x}"

    # ------------------------------------------------------------ the way back

    def _writer(self, position: int, register: int) -> tuple[int, _Span] | None:
        """The last instruction of the wave before `position` that wrote a register, and all that it wrote with it."""
        own = np.flatnonzero(self.rows["wave"][:position] == self.rows[position]["wave"])
        for at in own[::-1].tolist():
            for span in self._spans.get(int(self.rows[at]["index"]), ()):
                if span.writes and register in span.registers:
                    return at, span
        return None

    def _origin(self, position: int, span: _Span, lane: int | None, steps: int) -> str:
        """Describe the origin of the registers of a span before `position`, in one lane if one is given."""
        written = self._writer(position, span.first)
        return self._value(*written, span, lane, steps) if written is not None else "which nothing wrote"

    def _value(self, at: int, written: _Span, wanted: _Span, lane: int | None, steps: int) -> str:
        """Describe the origin of the wanted part of an instruction's result."""
        row = self.rows[at]
        op = self.program.ops[int(row["index"])]
        if row["lanes"] >= 0 and row["access"] & _LDS:
            return self._read(at, lane)
        if row["lanes"] >= 0:
            return self._load(at, lane, 4 * (wanted.first - written.first), 4 * wanted.count)
        if op["encoding"] == Encoding.MFMA:
            return f"the result of {self._text(at)}"
        sources = [s for s in self._spans[int(row["index"])] if not s.writes and s.first < _SCALARS]
        if not sources or not steps:
            return f"computed by {self._text(at)}"
        across = op["flags"] & (Flag.DPP | Flag.SDWA) or "lane" in self.program.mnemonic(int(row["index"]))
        return self._origin(at, sources[0], None if across else lane, steps - 1)

    def _read(self, at: int, lane: int | None) -> str:
        lanes = self._addresses(at, lane)
        if not len(lanes):
            return f"read from LDS by {self._text(at)}"
        first, last = int(lanes.min()), int(lanes.max()) + int(self.rows[at]["size"]) - 1
        told = f"read from LDS bytes {first}..{last} by {self._text(at)}"
        who = self.bytes_of_lds(at, first)
        return f"{told}, the first {who}" if who else told

    def _load(self, at: int, lane: int | None, skipped: int = 0, taken: int = 64) -> str:
        """A load from memory: of which tensor, and what of it; bytes of a lane that are `skipped` and `taken`."""
        lanes = self._addresses(at, lane)
        found = self._buffer(int(lanes.min())) if len(lanes) else None
        by = f"by {self._text(at)}"
        if found is None:
            return f"loaded {by}"
        base, buffer = found
        size = max(min(int(self.rows[at]["size"]) - skipped, taken), 1)
        starts = np.unique(lanes.astype(np.int64)) - base + skipped
        first, last = int(starts.min()), int(starts.max()) + size - 1
        return f"loaded from `{buffer.name}`, bytes {first}..{last}{_tile(buffer, starts, size)}, {by}"

    def _addresses(self, at: int, lane: int | None = None) -> Any:
        """The addresses of the lanes that take part, or of one."""
        row = int(self.trace.lanes[at])
        lanes = self.trace.addresses[row] if row >= 0 else self.trace.addresses[:0].reshape(-1)
        chosen = lanes if lane is None else lanes[lane : lane + 1]
        return chosen[chosen != _INACTIVE]

    def _buffer(self, address: int) -> tuple[int, Buffer] | None:
        below = [(base, b) for base, b in self.trace.buffers if base <= address < base + len(b.bytes())]
        return below[-1] if below else None

    def _writer_of_lds(self, position: int, byte: int) -> int | None:
        access = self.rows["access"][:position]
        writes = (access & _INTO_LDS != 0) | ((access & _LDS != 0) & (access & 3 != 0))
        found = np.flatnonzero(writes)[::-1].tolist()
        return next((at for at in found if self._covering(at, byte) is not None), None)

    def _covering(self, at: int, byte: int) -> tuple[int, int] | None:
        """Of an access that writes LDS the lane that writes a byte, and with which of its parts."""
        row = self.rows[at]
        row_of_lanes, size = int(self.trace.lanes[at]), int(row["size"])
        if row_of_lanes < 0:
            return None
        lanes = self.trace.addresses[row_of_lanes]
        active = lanes != _INACTIVE
        if row["access"] & _INTO_LDS:
            size = max(size, 4)
            begins = [int(row["lds_base"]) + size * np.arange(len(lanes))]
        elif row["access"] & _LDS and row["access"] & 3:
            first = lanes.astype(np.int64) & 0xFFFF_FFFF
            begins = [first, first + int(row["second"])] if row["access"] & _TWO_PARTS else [first]
        else:
            return None
        for part, begin in enumerate(begins):
            hit = np.flatnonzero(active & (begin <= byte) & (byte < begin + size))
            if len(hit):
                return int(hit[-1]), part
        return None


def told(history: History, finding: Finding) -> list[str]:
    """Of a finding about registers or LDS, what the bytes are that it is about."""
    said = []
    for access in (finding.first, finding.second):
        at = history.position(access.wave, access.address, access.instance) if access is not None else None
        if access is None or at is None:
            continue
        if finding.space in (Space.VGPR, Space.SGPR) and finding.kind in _TOO_EARLY:
            scalar = _SCALARS if finding.space is Space.SGPR else 0
            what = history.register(at, scalar + finding.offset)
            verb = "multiplied" if access.text.startswith(("v_mfma", "v_smfmac")) else "read"
            verb = "overwritten" if finding.kind is Kind.OVERWRITE_BEFORE_WAIT else verb
            said += [f"{what}, is {verb} before the wait"] if what else []
        elif finding.space is Space.LDS and access.access == "reads":
            what = history.bytes_of_lds(at, finding.offset)
            said += [f"what wave {access.wave} reads there: {what}"] if what else []
        elif finding.space is Space.LDS:
            what = history.stored(at, finding.offset)
            said += [f"what wave {access.wave} writes there: {what}"] if what else []
    return said


def _tile(buffer: Buffer, starts: Any, size: int) -> str:
    """Rows and columns of the elements at these bytes, `size` each, where the tensor has them."""
    shape = tuple(int(n) for n in getattr(buffer.data, "shape", ()))
    elements = int(np.prod(shape)) if shape else 0
    if not elements or len(buffer.bytes()) % elements:
        return ""
    width = len(buffer.bytes()) // elements
    first = starts // width
    last = (starts + size - 1) // width
    if len(shape) == 1:
        return f", elements {int(first.min())}..{int(last.max())}"
    columns = shape[-1]
    rows = np.concatenate([first // columns, last // columns])
    across = np.concatenate([first % columns, last % columns])
    outer = np.unravel_index(int(rows.min()), shape[:-1])
    lead = "".join(f"[{int(n)}]" for n in outer[:-1])
    low, high = int(outer[-1]), int(outer[-1]) + int(rows.max() - rows.min())
    down = f"rows {low}..{high}" if high > low else f"row {low}"
    return f", {down} x columns {int(across.min())}..{int(across.max())}" + (f" of {lead}" if lead else "")
