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
_CODE = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)")


@dataclass(frozen=True)
class Placed:
    """An instruction at `address`, with the lines it comes from: the innermost first, then each inlined call.

    `holds` counts the registers that have its result where most registers hold a value.
    """

    address: int
    opcode: str
    sources: tuple[Location, ...]
    holds: int


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
    known = [(int(x[1], 16), x[2]) for x in map(_CODE.match, _rows(build.sass)) if x]
    if [(address, opcode) for address, opcode, _ in found] != known:
        raise ToolchainError(f"line tables change the machine code of {spec.name}: it has no lines")
    return tuple(Placed(address, opcode, sources, made[address]) for address, opcode, sources in found)


def _rows(text: str) -> list[str]:
    return text.split("\n")


def _with_sources(text: str) -> list[tuple[int, str, tuple[Location, ...]]]:
    """Address, opcode and lines of each instruction of a disassembly, in which comments precede what they are about."""
    found = list[tuple[int, str, tuple[Location, ...]]]()
    said, sources = list[Location](), tuple[Location, ...]()
    for row in _rows(text):
        if "//## File" in row:
            said += [Location(file, int(line), 0) for file, line in _PLACE.findall(row)]
        elif match := _CODE.match(row):
            if said:  # a place and the call that it is inlined at; the latter is the next comment's place, too
                sources, said = tuple(dict.fromkeys(said)), []
            found.append((int(match[1], 16), match[2], sources))
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
