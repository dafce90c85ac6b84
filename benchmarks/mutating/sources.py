"""Mutants of generated C++: one change each in the text of a kernel, such as a compiler's or an author's mistake is.

Kinds: a product dropped (always, in the first iteration, by one wave) or done twice; an iteration of a loop lost, in
its middle; two slices exchanged; an integer in an index, a slice or a bound one more or one less; a comparison of a
bound with its equal; an element read or written after the tail; a scale applied twice; an accumulator that is not zero
in one lane; a sign, a sum in the place of a product; another constant; a maximum for a sum; a statement left out, or
left out by one lane.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tkgen.backends.cdna.kittens import include_dir


@dataclass(frozen=True)
class SourceMutant:
    """One change in a source: which kind, in which line of its text, what stood there and what does."""

    kind: str
    source: str
    line: int
    old: str
    new: str

    @property
    def text(self) -> str:
        """The whole source with the change."""
        lines = self.source.split("\n")
        assert lines[self.line - 1] == self.old
        lines[self.line - 1] = self.new
        return "\n".join(lines)


_PRODUCT = re.compile(r"^(\s*)(mma_\w+\(.*\);)")
_WHOLE = re.compile(r"(?<=[\[{(,+*% ])(\d{1,3})(?=[\]}),; ])")
_BOUND = re.compile(r"(?<=\w) (<|<=|>|>=) (?=[\w(-])")
_SCALE = re.compile(r"\bg\.[a-z]\w*\b(?!\.|\(|\[)|(?<= \* )[a-z]\w*\b(?![\w.(\[])|\b[a-z]\w*(?= \* )")
_LOOP = re.compile(r"\s*for \(int (\w+) = (\w+); \1 < (.+); (?:\+\+\1|\1 \+= (\d+))\) \{$")
_PAIR = re.compile(r"(?<=[{ ])([^{},()]+), ([^{},()]+)(?=\})|(?<=\w\[)([^][]+)\]\[([^][]+)(?=\])")
_MASK = re.compile(
    r" (<|>) (?=[^<>?]*\? .*(?:OUTSIDE|NOWHERE))|(?<=\w) (<) (?=[^<>?]*(?:rows|cols)\b)|(?=\bmin\()| (>) 0 \?"
)
_ZERO = re.compile(r"^(\s*)zero\((\w[\w\[\]]*)\);")
_START = re.compile(r"(?<== )0\.0f(?=;)")
_FLOAT = re.compile(r"\b(\d+\.\d+(?:e-?\d+)?)f\b")
_SIGN = re.compile(r"(?<=[\w)\]]) ([-+*]) (?=[\w(])")
_FOLD = re.compile(r"base_ops::(sum|max)")
_STATEMENT = re.compile(
    r"^(\s*)((?!for|if|const|auto|return|using|#|__builtin|tk::(?:lds_barrier|fence|pin|settle)\b)"
    r"[\w:<>\[\]., ]+(?:\(.*\)|\s[-+*]?=\s.*);)"
)
_NUMBER = re.compile(r"const (?:float|auto) \w+ = (?!tk::(?:number_at|load))|narrow<|quiet\(g\.")
_DECLARED = re.compile(r"\s*(?:rt_|st_|tk::(?:elements|divisor|words)|float|columns|tile<)")
_FLOATING = re.compile(r"float|_acc|_e\[|\bv\d+|mul|add|exp2|sub\(")


def mutants(source: str) -> Iterator[SourceMutant]:
    """All of them, in the order of the text: of the kernel, and of the masks in functions before it that it uses."""
    source, used = _with_functions(source)
    lines = source.split("\n")
    begin = next(i for i, line in enumerate(lines) if line.startswith("__global__"))
    end = next(i for i in range(begin, len(lines)) if lines[i] == "}")
    for number in range(min(used), end):
        code, _, comment = lines[number].partition("  //")
        if not code.strip() or code.lstrip().startswith(("//", "#")) or number == begin or number not in used:
            continue
        changed = _changed(code, lines, number) if number > begin else _behind_the_tail(code)
        for kind, new in changed:
            if new != code:
                line = f"{new}{'  //' if comment else ''}{comment}"
                yield SourceMutant(kind, source, number + 1, lines[number], line)


def _with_functions(source: str) -> tuple[str, frozenset[int]]:
    """The source with the functions of `tkgen.cuh` in the place of that line, and the numbers of lines to change.

    Of those functions these are the ones that the kernel uses, of the kernel's file all after its arguments.
    """
    texts = [path.read_text(encoding="utf-8") for path in _included(include_dir() / "tkgen.cuh")[:-1]]
    parts = re.split(r"\n\n(?=\S)", re.sub(r'#pragma once|#include ".*"|//.*', "", "\n\n".join(texts)))
    head, tail = source.split('#include "tkgen.cuh"')
    declared = [set(re.findall(r"(?:\binline .*?(?=\w+\()|\bstruct )(\w+)", part)) for part in parts]
    words, used = set(re.findall(r"tk::(\w+)", tail)), set[int]()
    while more := {n for n, names in enumerate(declared) if n not in used and words & names}:
        used |= more
        words |= {word for n in more for word in re.findall(r"\w+", parts[n])}
    numbers, at = set[int](), head.count("\n")
    for n, part in enumerate(parts):
        size = part.count("\n") + 1
        numbers |= set(range(at, at + size)) if n in used else set()
        at += size + 1
    text = head + "\n\n".join(parts) + tail
    lines = text.split("\n")
    arguments = next(n for n in range(at, len(lines)) if lines[n] == "};")
    return text, frozenset(numbers | set(range(arguments + 1, len(lines))))


def _included(path: Path) -> list[Path]:
    """A header of ours after the headers of ours that it includes, each once."""
    found: dict[Path, None] = {}
    for name in re.findall(r'#include "(.*)"', path.read_text(encoding="utf-8")):
        if name != "kittens.cuh":
            found |= dict.fromkeys(_included(path.parent / name))
    return [*found, path]


def _loops(lines: list[str], number: int) -> Iterator[tuple[str, str, bool]]:
    """The loops around a line, the innermost first: variable, bound, and whether the loop is an unrolled one."""
    indent = len(lines[number]) - len(lines[number].lstrip())
    for i in range(number - 1, 0, -1):
        found = re.match(r"(\s*)for \(int (\w+) = [^;]*; \w+ < ([^;]+);", lines[i])
        if found and len(found[1]) < indent:
            indent = len(found[1])
            yield found[2], found[3], _unrolled(lines, i)


def _unrolled(lines: list[str], number: int) -> bool:
    return "#pragma unroll" in lines[number - 1] and "unroll 1" not in lines[number - 1]


def _exchanged(code: str, lines: list[str], number: int) -> Iterator[str]:
    """Two indices of one place exchanged, or two slices: the last one where the first one was."""
    for m in () if _DECLARED.match(code) else _PAIR.finditer(code):
        first = 1 if m[1] else 3
        middle = code[m.end(first) : m.start(first + 1)]
        yield code[: m.start()] + m[first + 1].strip() + middle + m[first].strip() + code[m.end() :]
    for variable, bound, unrolled in _loops(lines, number):
        if unrolled and bound.isalnum() and bound != "1":
            for m in re.finditer(rf"(?<=[\[{{(,+*% ]){variable}(?=[\]}}),; ])", code):
                yield f"{code[: m.start()]}({bound} - 1 - {variable}){code[m.end() :]}"


def _behind_the_tail(code: str) -> Iterator[tuple[str, str]]:
    """A mask that lets one more element, row or column through."""
    for m in _MASK.finditer(code) if re.search("OUTSIDE|NOWHERE|inside|left|rows_from", code) else ():
        at = next((n for n in (1, 2, 3) if m[n]), 0)
        new = {"<": "<=", ">": ">="}[m[at]] if at else "1 + "
        yield "after the tail", code[: m.start(at)] + new + code[m.end(at) :]


def _changed(code: str, lines: list[str], number: int) -> Iterator[tuple[str, str]]:
    loop = next((variable for variable, _, unrolled in _loops(lines, number) if not unrolled), "")
    yield from _behind_the_tail(code)
    for new in _exchanged(code, lines, number):
        yield "slices exchanged", new
    if (m := _LOOP.match(code)) and not _unrolled(lines, number):
        step = m[4] or "1"
        yield "iteration lost", f"{code} if ({m[1]} == {m[2]} + ({m[3]} - {m[2]}) / {step} / 2 * {step}) continue;"
    if m := _PRODUCT.match(code):
        yield "product dropped", f"{m[1]};"
        yield "product twice", f"{m[1]}{{ {m[2]} {m[2]} }}"
        yield "product dropped by one wave", f"{m[1]}if (warpid() != 1) {m[2]}"
        if loop:
            yield "product dropped in one iteration", f"{m[1]}if ({loop} != 0) {m[2]}"
    if m := _ZERO.match(code):
        poke = f"if (laneid() == 7) reinterpret_cast<float *>(&{m[2]})[0] = 1.0f;"
        yield "accumulator not zero in one lane", f"{m[1]}{{ {code.strip()} {poke} }}"
    if m := _START.search(code):
        yield "accumulator not zero in one lane", f"{code[: m.start()]}laneid() == 7 ? 1.0f : 0.0f{code[m.end() :]}"
    for m in _WHOLE.finditer(code):
        for value in (int(m[1]) + 1, int(m[1]) - 1):
            if value >= 0 and "template" not in code:
                yield "another integer", code[: m.start()] + str(value) + code[m.end() :]
    for m in _BOUND.finditer(code):
        other = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}[m[1]]
        yield "bound by one", code[: m.start(1)] + other + code[m.end(1) :]
    for m in _SCALE.finditer(code):
        if _NUMBER.search(code):
            yield "scale twice", f"{code[: m.start()]}{m[0]} * {m[0]}{code[m.end() :]}"
    for m in _FLOAT.finditer(code):
        yield "another constant", f"{code[: m.start(1)]}{float(m[1]) * 1.01 + 0.001}{code[m.end(1) :]}"
    if _FLOATING.search(code):
        for m in _SIGN.finditer(code):
            other = {"+": "-", "-": "+", "*": "+"}[m[1]]
            yield "another operator", code[: m.start(1)] + other + code[m.end(1) :]
    for m in _FOLD.finditer(code):
        yield "another reduction", code[: m.start(1)] + {"sum": "max", "max": "min"}[m[1]] + code[m.end(1) :]
    if m := _STATEMENT.match(code):
        if not _PRODUCT.match(code):
            yield "statement left out", f"{m[1]};"
        if "group<" not in code and "zero(" not in code:
            yield "left out by one lane", f"{m[1]}if (laneid() != 13) {{ {m[2]} }}"
