"""The source lines of each instruction of a kernel's machine code, and the registers that hold a value there.

The kernel is compiled a second time with line tables, which do not change its instructions: that is compared.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import chain
from typing import Any

from tkgen.backends.hopper.build import CudaBuild, include_dirs
from tkgen.backends.hopper.toolchain import located
from tkgen.toolchain.cache import default_cache
from tkgen.toolchain.compiler import Location, ToolchainError

_PLACE = re.compile(r'"([^"]*)", line (\d+)')
_CODE = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+((?:@!?U?P\w+\s+)?([A-Z][\w.]*)[^;]*)")
_KINDS = {
    "mfma": ("HGMMA", "QGMMA", "IGMMA"), "lds read": ("LDS", "LDSM"), "lds write": ("STS", "STSM"),
    "global load": ("LDG", "LD"), "global store": ("STG", "ST", "RED", "ATOMG", "UTMASTG", "UTMAREDG"),
    "global to lds": ("UTMALDG", "LDGSTS"), "barrier": ("BAR", "SYNCS", "UCGABAR_ARV", "UCGABAR_WAIT"),
    "wait": ("WARPGROUP", "DEPBAR", "UTMACMDFLUSH", "NANOSLEEP", "MEMBAR"), "branch": ("BRA", "EXIT", "CALL", "RET"),
}  # fmt: skip


@dataclass(frozen=True)
class Placed:
    """An instruction at `address`, with the lines it comes from: the innermost first, then each inlined call.

    `holds` counts the registers that have its result where most registers hold a value; `text` has the operands, too.
    """

    address: int
    opcode: str
    text: str
    sources: tuple[Location, ...]
    holds: int

    @property
    def kind(self) -> str:
        """Its sort, as `tkgen.toolchain.isa.classify` names those of other machines."""
        name = self.opcode.partition(".")[0]
        return next((kind for kind, names in _KINDS.items() if name in names), "other")


def placed(build: CudaBuild[Any]) -> tuple[Placed, ...]:
    """The instructions of a build's kernel in order.

    Raises ToolchainError where nothing disassembles, or where line tables change the instructions.
    """
    spec = build.spec
    lines, registers = located(
        spec.source.text, spec.name, spec.target.name, build.nvcc, include_dirs(), default_cache()
    )
    found = _with_sources(lines)
    made = Counter(_makers(registers))
    known = [(address, opcode) for address, opcode, *_ in _with_sources(build.sass)]
    if [(address, opcode) for address, opcode, *_ in found] != known:
        raise ToolchainError(f"line tables change the machine code of {spec.name}: it has no lines")
    return tuple(Placed(*each, made[each[0]]) for each in found)


def listing(build: CudaBuild[Any]) -> tuple[Placed, ...]:
    """The same, without lines where nothing here says them; nothing where nothing disassembles."""
    try:
        return placed(build)
    except ToolchainError:
        return tuple(Placed(*each, 0) for each in _with_sources(build.sass))


def _rows(text: str) -> list[str]:
    return text.split("\n")


def _with_sources(text: str) -> list[tuple[int, str, str, tuple[Location, ...]]]:
    """Address, opcode, text and lines of each instruction of a disassembly, in which comments precede its subject."""
    found = list[tuple[int, str, str, tuple[Location, ...]]]()
    said, sources = list[Location](), tuple[Location, ...]()
    for row in _rows(text):
        if "//## File" in row:
            said += [Location(file, int(line), 0) for file, line in _PLACE.findall(row)]
        elif match := _CODE.match(row):
            if said:  # a place and the call that it is inlined at; the latter is the next comment's place, too
                sources, said = tuple(dict.fromkeys(said)), []
            found.append((int(match[1], 16), match[3], " ".join(match[2].split()), sources))
    return found


def _makers(text: str) -> list[int]:
    """The address that made each register which holds a value at the peak: the last one before it that writes it."""
    rows, first = list[tuple[int, str]](), -1
    for row in _rows(text):
        if first < 0 and (head := re.search(r"// \|\s+# (?=0123)", row)):
            first = head.end()
        elif match := _CODE.match(row):
            rows.append((int(match[1], 16), row[first : row.find("|", first)]))
    if first < 0 or not rows:
        return []
    peak = max(range(len(rows)), key=lambda n: (len(rows[n][1]) - rows[n][1].count(" "), -n))
    found = []
    for column, mark in enumerate(rows[peak][1]):
        if mark != " ":
            order = chain(reversed(range(peak + 1)), reversed(range(peak + 1, len(rows))))
            maker = next((n for n in order if rows[n][1][column : column + 1] in ("^", "x")), None)
            if maker is not None:
                found.append(rows[maker][0])
    return found
