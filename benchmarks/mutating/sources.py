"""Mutants of generated C++: one change each in the text of a kernel, such as a compiler's or an author's mistake is.

Kinds: a product dropped (always, in the first pass, by one wave) or done twice; a whole number in an index, a slice or
a bound one more or one less; a comparison of a bound with its equal; a scalar applied twice; an accumulator that is not
zero in one lane; a sign, a sum in the place of a product; another constant; a maximum for a sum; a statement left out,
or left out by one lane.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class SourceMutant:
    """One change: which kind, in which line of the text, what stood there and what does."""

    kind: str
    line: int
    old: str
    new: str

    def text(self, source: str) -> str:
        """The whole source with the change."""
        lines = source.split("\n")
        assert lines[self.line - 1] == self.old
        lines[self.line - 1] = self.new
        return "\n".join(lines)


_PRODUCT = re.compile(r"^(\s*)(mma_\w+\(.*\);)")
_WHOLE = re.compile(r"(?<=[\[{(,+*% ])(\d{1,3})(?=[\]}),; ])")
_BOUND = re.compile(r"(?<=\w) (<|<=|>|>=) (?=[\w(-])")
_SCALAR = re.compile(r"\bg\.(\w+)\b(?!\.|\(|\[)")
_ZERO = re.compile(r"^(\s*)zero\((\w[\w\[\]]*)\);")
_FLOAT = re.compile(r"\b(\d+\.\d+(?:e-?\d+)?)f\b")
_SIGN = re.compile(r"(?<=[\w)\]]) ([-+*]) (?=[\w(])")
_FOLD = re.compile(r"base_ops::(sum|max)")
_STATEMENT = re.compile(
    r"^(\s*)((?!for|if|const|auto|return|using|#|lds_barrier|__builtin|fence|pin|settle)"
    r"[\w:<>\[\]., ]+(?:\(.*\)|\s[-+*]?=\s.*);)"
)
_FLOATING = re.compile(r"float|_acc|_e\[|\bv\d+|mul|add|exp2|sub\(")


def mutants(source: str) -> Iterator[SourceMutant]:
    """All of them, in the order of the text."""
    lines = source.split("\n")
    begin = next(i for i, line in enumerate(lines) if line.startswith("__global__"))
    end = next(i for i in range(begin, len(lines)) if lines[i] == "}")
    for number in range(begin + 1, end):
        code, _, comment = lines[number].partition("  //")
        if not code.strip() or code.lstrip().startswith(("//", "#")):
            continue
        loop = _passes(lines, number)
        for kind, new in _changed(code, loop):
            if new != code:
                yield SourceMutant(kind, number + 1, lines[number], f"{new}{'  //' if comment else ''}{comment}")


def _passes(lines: list[str], number: int) -> str:
    """The variable of the loop around a line that is no unrolled one; empty where there is none."""
    indent = len(lines[number]) - len(lines[number].lstrip())
    for i in range(number - 1, 0, -1):
        found = re.match(r"(\s*)for \(int (\w+) = ", lines[i])
        if found and len(found[1]) < indent:
            indent = len(found[1])
            if "unroll 1" in lines[i - 1] or "#pragma unroll" not in lines[i - 1]:
                return found[2]
    return ""


def _changed(code: str, loop: str) -> Iterator[tuple[str, str]]:
    if m := _PRODUCT.match(code):
        yield "product dropped", f"{m[1]};"
        yield "product twice", f"{m[1]}{{ {m[2]} {m[2]} }}"
        yield "product dropped by one wave", f"{m[1]}if (warpid() != 1) {m[2]}"
        if loop:
            yield "product dropped in one pass", f"{m[1]}if ({loop} != 0) {m[2]}"
    if m := _ZERO.match(code):
        poke = f"if (laneid() == 7) reinterpret_cast<float *>(&{m[2]})[0] = 1.0f;"
        yield "accumulator not zero in one lane", f"{m[1]}{{ {code.strip()} {poke} }}"
    for m in _WHOLE.finditer(code):
        for value in (int(m[1]) + 1, int(m[1]) - 1):
            if value >= 0 and "template" not in code:
                yield "another whole number", code[: m.start()] + str(value) + code[m.end() :]
    for m in _BOUND.finditer(code):
        other = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}[m[1]]
        yield "bound by one", code[: m.start(1)] + other + code[m.end(1) :]
    for m in _SCALAR.finditer(code):
        if " * " in code and m[1].islower():
            yield "scalar twice", f"{code[: m.end()]} * {m[0]}{code[m.end() :]}"
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
