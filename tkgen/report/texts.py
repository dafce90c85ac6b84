"""The three texts of a kernel, spec, C++ and machine code, and which line of one each line of another came from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import PurePath

from tkgen.lower import Source
from tkgen.source import SourceFile, Span
from tkgen.syntax import ast
from tkgen.toolchain.isa import Function, Instruction, Loop, classify


@dataclass(frozen=True)
class CppLine:
    """A line of the generated C++; `spec` is the spec line it came from, 0 for none."""

    text: str
    spec: int


@dataclass(frozen=True)
class IsaLine:
    """One instruction. `label` names the block that begins here or is empty; `cpp` is its C++ line, 0 for none.

    `kind` is its sort as `tkgen.toolchain.isa.classify` names it; `loop` says that it stands in the main loop.
    """

    label: str
    text: str
    kind: str
    cpp: int
    loop: bool


@dataclass(frozen=True)
class Texts:
    """Spec, C++ and instructions with their links; `isa` is empty where nothing was compiled.

    `included` names further spec files; the links count the lines of `spec` only.
    """

    spec_name: str
    spec: tuple[str, ...]
    included: tuple[str, ...]
    cpp_name: str
    cpp: tuple[CppLine, ...]
    isa: tuple[IsaLine, ...]


def texts(kernel: ast.Kernel, source: Source, name: str, function: Function | None, loop: Loop | None) -> Texts:
    """The texts of the kernel called `name`; `loop` is the main loop of `function`."""
    file = kernel.span.file
    others = sorted({f.name for f in _files(kernel)} - {file.name})
    return Texts(
        spec_name=PurePath(file.name).name,
        spec=_lines(file.text),
        included=tuple(PurePath(o).name for o in others),
        cpp_name=f"{name}.cpp",
        cpp=tuple(_cpp(source)),
        isa=tuple(_isa(function, loop, f"{name}.cpp")) if function else (),
    )


def _lines(text: str) -> tuple[str, ...]:
    lines = text.replace("\r\n", "\n").split("\n")
    return tuple(lines[:-1] if lines and not lines[-1] else lines)


def _files(node: object) -> Iterator[SourceFile]:
    if isinstance(node, Span):
        yield node.file
    elif isinstance(node, tuple):
        for item in node:
            yield from _files(item)
    elif is_dataclass(node):
        for field in fields(node):
            yield from _files(getattr(node, field.name))


def _cpp(source: Source) -> Iterator[CppLine]:
    """Lines with their origin: the marked ones, the loop headers above them, and what follows a marked comment."""
    lines = source.text.split("\n")
    spec = list(source.spec_lines)
    for i in range(len(lines) - 1, 0, -1):  # a loop belongs to the statement in it
        if (
            spec[i]
            and not spec[i - 1]
            and re.match(r"\s*(#pragma unroll$|for \(int \w+ = \d+; \w+ < \d+;)", lines[i - 1])
        ):
            spec[i - 1] = spec[i]
    heading = 0
    for i, line in enumerate(lines):
        if spec[i]:
            heading = spec[i] if line.lstrip().startswith("//") else 0
        elif heading and line.strip():
            spec[i] = heading
        else:
            heading = 0
    texts = lines[:-1] if lines and not lines[-1] else lines
    return (CppLine(line, spec[i]) for i, line in enumerate(texts))


def _isa(function: Function, loop: Loop | None, cpp_name: str) -> Iterator[IsaLine]:
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
            cpp=_cpp_line(instruction, cpp_name),
            loop=instruction.line in inside,
        )


def _cpp_line(instruction: Instruction, cpp_name: str) -> int:
    """The line of the generated file behind all inlined calls; 0 where the instruction has none there."""
    for place in reversed(instruction.sources):
        if PurePath(place.file).name == cpp_name:
            return place.line
    return 0
