"""The three texts of a kernel, spec, C++ and machine code, and which line of one each line of another came from.

Spec lines of all files, the spec's own and those it includes, are numbered through from 1: that number is the `row` of
a line. Other facts name spec lines by it too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from tkgen.backends.cdna.lower.origins import Source
from tkgen.backends.hopper.toolchain import MATRIX
from tkgen.ir.types import Origins
from tkgen.report.places import named_schedules
from tkgen.schedule.plan import Plan
from tkgen.source import SourceFile, Span
from tkgen.toolchain.isa import Function, Loop, classify


@dataclass(frozen=True)
class SpecLine:
    """Line `number` of the spec, or of the file that it includes as `file` (empty for the spec itself)."""

    text: str
    file: str
    number: int


@dataclass(frozen=True)
class CppLine:
    """A line of the generated C++; `spec` are the rows of the spec it came from. `cycles` as in `IsaLine`."""

    text: str
    spec: tuple[int, ...]
    cycles: float | None


@dataclass(frozen=True)
class IsaLine:
    """One instruction. `label` names the block that begins here or is empty; `cpp` are the C++ lines it executes.

    `kind` is its sort as `tkgen.toolchain.isa.classify` names it; `loop` says that it stands in the main loop. `cycles`
    are predicted: how long it keeps a wave that executes it, in one iteration of the loop. None without a prediction.
    """

    label: str
    text: str
    kind: str
    cpp: tuple[int, ...]
    loop: bool
    cycles: float | None


@dataclass(frozen=True)
class Texts:
    """Spec, C++ and instructions with their links; `isa` is empty where nothing was compiled."""

    spec_name: str
    spec: tuple[SpecLine, ...]
    cpp_name: str
    cpp: tuple[CppLine, ...]
    isa: tuple[IsaLine, ...]


class Rows:
    """The spec's lines, numbered through: the spec's own, then those of every file it includes."""

    def __init__(self, files: Sequence[SourceFile]):
        self.lines: list[SpecLine] = []
        self._first: dict[str, int] = {}
        for file in files:
            self._first[file.name] = len(self.lines)
            shown = "" if file is files[0] else PurePath(file.name).name
            self.lines += [SpecLine(text, shown, number) for number, text in enumerate(_lines(file.text), 1)]

    def row(self, file: str, line: int) -> int:
        """The row of a line of a file with this name, 0 where it is in no file of the spec."""
        return self._first[file] + line if file in self._first else 0

    def of(self, span: Span | None) -> int:
        """The row in which a span begins, 0 for none."""
        return self.row(span.file.name, span.line) if span is not None else 0

    def place(self, row: int) -> str:
        """`line 7`, `line 3 of tensors.tk`; empty for row 0."""
        if not row:
            return ""
        found = self.lines[row - 1]
        return f"line {found.number}{f' of {found.file}' if found.file else ''}"


def texts(origins: Origins, rows: Rows, source: Source, plan: Plan | None, cpp_name: str) -> Texts:
    """Spec and C++ of a kernel, in a file of that name; it has a plan where it is one of products."""
    scheduled = {line: rows.of(clause) for line, clause in named_schedules(plan, source)} if plan else {}
    return Texts(
        spec_name=PurePath(origins.files[0].name).name,
        spec=tuple(rows.lines),
        cpp_name=cpp_name,
        cpp=tuple(_cpp(source, rows, scheduled, _parameters(origins, rows))),
        isa=(),
    )


def with_code(known: Texts, isa: tuple[IsaLine, ...]) -> Texts:
    """The texts with instructions; lines of the C++ share their cycles."""
    spent: dict[int, float] = {}
    for line in isa:
        for number in line.cpp:
            if line.cycles is not None:
                spent[number] = spent.get(number, 0.0) + line.cycles / len(line.cpp)
    cpp = tuple(replace(line, cycles=spent.get(i)) for i, line in enumerate(known.cpp, 1)) if spent else known.cpp
    return replace(known, cpp=cpp, isa=isa)


def _lines(text: str) -> Sequence[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines and not lines[-1] else lines


def _parameters(origins: Origins, rows: Rows) -> dict[int, list[int]]:
    """Rows at which parameters are declared or tuned, by the rows of the statements that use them."""
    used: dict[int, list[int]] = {}
    for statement, declared in origins.parameters:
        used.setdefault(rows.of(statement), []).append(rows.of(declared))
    return used


def _cpp(
    source: Source, rows: Rows, scheduled: Mapping[int, int], parameters: Mapping[int, Sequence[int]]
) -> Iterator[CppLine]:
    """Lines with their origin: the marked ones, the loop headers above them, and what follows a marked comment.

    `scheduled` has the row of a schedule's clause for the lines that it placed.
    """
    lines = source.text.split("\n")
    spec = [tuple(rows.row(o.file.name, o.line) for o in origins) for origins in source.origins]
    for statement in source.operations.values():  # of several lines the first is marked
        marked = tuple(dict.fromkeys(row for number in statement for row in spec[number - 1]))
        for number in statement:
            spec[number - 1] = spec[number - 1] or marked
    for number, row in scheduled.items():
        spec[number - 1] = tuple(dict.fromkeys([*spec[number - 1], row]))
    for i in range(1, len(lines)):  # the meetings that a phase shift adds
        if lines[i].strip() == "barrier();" and re.match(r"\s*if \(\(?wave ", lines[i - 1]):
            spec[i] = spec[i - 1]
    for i in range(len(lines) - 1, 0, -1):  # a loop belongs to the statement in it
        if spec[i] and not spec[i - 1] and re.match(r"\s*(#pragma unroll\b|for \(int \w+ = \d+; \w+ < )", lines[i - 1]):
            spec[i - 1] = spec[i]
    heading: tuple[int, ...] = ()
    for i, line in enumerate(lines):
        if spec[i]:
            heading = spec[i] if line.lstrip().startswith("//") else ()
        elif heading and line.strip():
            spec[i] = heading
        else:
            heading = ()
    for i, equation in enumerate(source.equations):
        spec[i] = spec[i] or ((rows.row(*equation),) if equation else ())
    for i, line in enumerate(lines if lines[-1] else lines[:-1]):
        through = [p for row in spec[i] for p in parameters.get(row, ())]
        yield CppLine(line, tuple(dict.fromkeys([*spec[i], *through])), None)


def listed(build: Any, cpp_name: str) -> Iterator[IsaLine]:
    """The instructions of a build that a disassembler reads, and the lines of the kernel in the file `cpp_name`."""
    from tkgen.backends.hopper.line_tables import listing
    from tkgen.predict.hopper.sass import read

    body = next(n for n, line in enumerate(build.spec.text.split("\n"), 1) if line.startswith("__global__"))
    loops = read(build.sass).loops
    main = next((loop for loop in loops if loop.count(*MATRIX)), loops[0] if loops else None)
    inside = {x.address for x in main.instructions} if main else set()
    for x in listing(build):
        own = (s.line for s in x.sources if s.file.rpartition("/")[2] == cpp_name and s.line >= body)
        yield IsaLine("", x.text, x.kind, tuple(dict.fromkeys(own)), x.address in inside, None)


def assembled(
    function: Function, loop: Loop | None, lines: Sequence[tuple[int, ...]], cycles: Mapping[int, float]
) -> Iterator[IsaLine]:
    """The instructions of `function`, whose main loop is `loop`.

    By the position of an instruction in `function`, `lines` are the C++ lines it executes and `cycles` the
    predicted ones.
    """
    inside = {i.line for i in loop.instructions} if loop else set()
    labels: dict[int, str] = {}
    for label, index in function.labels.items():
        if not label.startswith(".Ltmp") and not label.startswith(".Lfunc"):  # those mark debug locations, no branches
            labels.setdefault(index, label)
    for index, instruction in enumerate(function.instructions):
        yield IsaLine(
            label=labels.get(index, ""),
            text=f"{instruction.mnemonic} {', '.join(instruction.operands)}".rstrip(),
            kind=classify(instruction)[0],
            cpp=lines[index],
            loop=instruction.line in inside,
            cycles=cycles.get(index),
        )
