"""From an address in a code object to C++ lines: the instruction's own, and every call that was inlined around it.

Line tables alone name the innermost line, which for tile libraries is always deep in a header. DWARF's inlined
subroutines (DWARF 5, section 3.3.8.2), which clang writes even with `-gline-tables-only`, lead from there to the
kernel's own line.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from elftools.elf.elffile import ELFFile

from tkgen.emulate import CodeObject
from tkgen.emulate.code_object import BROKEN
from tkgen.toolchain.compiler import Location


@dataclass(frozen=True)
class _Call:
    """An inlined call: addresses `begin`..`end`, the number of calls around it, and the place of the call."""

    begin: int
    end: int
    depth: int
    place: Location


class Places:
    """The places of one code object; empty where it has no debug information, or broken one."""

    def __init__(self, code: CodeObject):
        self._code = code
        self._known: dict[int, tuple[Location, ...]] = {}
        try:
            self._calls, self._merged = list(_calls(code.elf)), _without_line(code.elf)
        except BROKEN:  # that costs the lines, nothing else
            self._calls, self._merged = [], []

    def frames(self, address: int) -> tuple[Location, ...]:
        """Innermost first: the line of the instruction, then the line of each call around it. Empty where unknown."""
        if address not in self._known:
            self._known[address] = self._find(address)
        return self._known[address]

    def _find(self, address: int) -> tuple[Location, ...]:
        line = self._code.line(address)
        if line is None:
            return ()
        around = sorted((c for c in self._calls if c.begin <= address < c.end), key=lambda c: -c.depth)
        calls = tuple(c.place for c in around)
        return calls if calls and not self.exact(address) else (Location(*line), *calls)

    def __bool__(self) -> bool:
        """Return True if there is debug information; code without a line then belongs to a library."""
        return bool(self._calls)

    def exact(self, address: int) -> bool:
        """True if the instruction has a line. One made of several has none; its place is the call around, or nearby."""
        return not any(begin <= address < end for begin, end in self._merged)

    def own(self, address: int) -> Location | None:
        """The innermost line in the file of the kernel itself, which is not a header."""
        frames = self.frames(address)
        return next((f for f in frames if f.file == frames[-1].file), None)


def _calls(elf: bytes) -> Iterator[_Call]:
    file = ELFFile(io.BytesIO(elf))
    if not file.has_dwarf_info():
        return
    dwarf = file.get_dwarf_info(relocate_dwarf_sections=False)
    for unit in dwarf.iter_CUs():
        program = dwarf.line_program_for_CU(unit)
        if program is not None:
            yield from _calls_in(dwarf, unit, unit.get_top_DIE(), _names(program), 0)


def _without_line(elf: bytes) -> list[tuple[int, int]]:
    """Address ranges that the line table gives line 0."""
    file = ELFFile(io.BytesIO(elf))
    found: list[tuple[int, int]] = []
    if not file.has_dwarf_info():
        return found
    dwarf = file.get_dwarf_info(relocate_dwarf_sections=False)
    for unit in dwarf.iter_CUs():
        program = dwarf.line_program_for_CU(unit)
        states = [e.state for e in program.get_entries() if e.state is not None] if program is not None else []
        found += [(a.address, b.address) for a, b in pairwise(states) if a.line == 0 and not a.end_sequence]
    return [(begin, end) for begin, end in found if begin < end]


def _calls_in(dwarf: Any, unit: Any, die: Any, names: dict[int, str], depth: int) -> Iterator[_Call]:
    for child in die.iter_children():
        if child.tag == "DW_TAG_inlined_subroutine":
            at = child.attributes
            if "DW_AT_call_file" in at and "DW_AT_call_line" in at:
                column = at["DW_AT_call_column"].value if "DW_AT_call_column" in at else 0
                name = names.get(at["DW_AT_call_file"].value, "?")
                place = Location(name, at["DW_AT_call_line"].value, column)
                for begin, end in _ranges(dwarf, unit, child):
                    yield _Call(begin, end, depth, place)
        if child.has_children:
            yield from _calls_in(dwarf, unit, child, names, depth + 1)


def _ranges(dwarf: Any, unit: Any, die: Any) -> Iterator[tuple[int, int]]:
    at = die.attributes
    if "DW_AT_ranges" in at:
        base = unit.get_top_DIE().attributes.get("DW_AT_low_pc")
        start = base.value if base else 0
        for entry in dwarf.range_lists().get_range_list_at_offset(at["DW_AT_ranges"].value, unit):
            if hasattr(entry, "base_address"):
                start = entry.base_address
            else:
                offset = 0 if getattr(entry, "is_absolute", False) else start
                yield entry.begin_offset + offset, entry.end_offset + offset
    elif "DW_AT_low_pc" in at and "DW_AT_high_pc" in at:
        low, high = at["DW_AT_low_pc"].value, at["DW_AT_high_pc"]
        yield low, high.value if high.form == "DW_FORM_addr" else low + high.value


def _names(program: Any) -> dict[int, str]:
    """File names by their number, spelled as `CodeObject.line` spells them."""
    first = 0 if program["version"] >= 5 else 1
    folders = program["include_directory"]
    names = {}
    for number, entry in enumerate(program["file_entry"], first):
        name = entry.name.decode("utf-8", "replace")
        at = entry.dir_index - first
        folder = folders[at].decode("utf-8", "replace") if 0 <= at < len(folders) else ""
        bare = name.startswith("/") or (program["version"] >= 5 and entry.dir_index == 0) or not folder
        names[number] = name if bare else f"{folder}/{name}"
    return names
