"""Statements that need the rest of the file to become those of a spec: its tensors, axes and loops.

`REWRITES` take a statement's text and its `Surroundings`, and make one or several lines of it. The grammar judges
these, as with `tkgen.syntax.foreign`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath

from tkgen.source import SourceFile

_NAME = r"[A-Za-z_]\w*"
_LANE = re.compile(r"\b(?:threadIdx|blockIdx|program_id|tid|pid(?:_\w)?|offs\w*)\b")
_ACCESS = re.compile(rf"\b({_NAME})\[([^\[\]]*)\]")


@dataclass(frozen=True)
class Surroundings:
    """The file around a statement."""

    file: SourceFile

    @cached_property
    def tensors(self) -> dict[str, list[str]]:
        """The dimensions of each declared tensor."""
        found = re.finditer(rf"^[ \t]*global ({_NAME})\s*:\s*\w+\[([^\]\n]*)\]", self.file.text, re.MULTILINE)
        return {m[1]: [d.strip() for d in m[2].split(",")] for m in found}

    @cached_property
    def axes(self) -> dict[str, str]:
        """The axis that runs over each dimension."""
        lines = re.findall(r"^[ \t]*(?:over|each) (.*)$", self.file.text, re.MULTILINE)
        return {dim: axis for line in reversed(lines) for axis, dim in re.findall(rf"({_NAME}) in ({_NAME})", line)}

    @cached_property
    def tile(self) -> list[str]:
        """The axes of `over` along which a block has a tile of several positions, all where no line has `by`."""
        lines = re.findall(r"^[ \t]*over (.*)$", self.file.text, re.MULTILINE)
        return [axis for line in lines for axis in re.findall(rf"({_NAME}) in {_NAME} by (?!1\b)", line)]

    def carried(self, name: str) -> str:
        """The declaration of a value that a loop carries: `m : f32[q] = -inf`, by what the equations do with it."""
        text, axes = self.file.text, list(self.tile)
        product = re.search(rf"^[ \t]*{name} = .*@ ({_NAME})\[[^\]\n]*\](?!\.T)", text, re.MULTILINE)
        if product is not None and product[1] in self.tensors and self.tensors[product[1]][-1] not in self.axes:
            axes.append(self.tensors[product[1]][-1])
        start = {"max": "-inf", "min": "inf"}
        kind = re.search(rf"\b(max|min)\({name},|\b(max|min)\([^()\n]*(?:\([^()\n]*\))?[^()\n]*, {name}\)", text)
        return f"{name} : f32[{', '.join(axes)}] = {start[kind[1] or kind[2]] if kind else '0'}"


Rewrite = Callable[[str, Surroundings], str]


def _indices(text: str, at: Surroundings) -> str:
    """`A[:, k]`, `X[]` and `X[threadIdx.x]` by the axes that run over these dimensions."""

    def named(found: re.Match[str]) -> str:
        dims = at.tensors.get(found[1], [])
        indices = [i.strip() for i in found[2].split(",")] if found[2].strip() else [":"] * len(dims)
        if len(indices) > len(dims) or not any(i.startswith(":") or _LANE.search(i) for i in indices):
            return found[0]
        pairs = zip(indices, dims, strict=False)
        new = [at.axes.get(d, ":") if ":" in i or _LANE.search(i) else i for i, d in pairs]
        while new and new[-1] == ":":
            new.pop()
        return f"{found[1]}[{', '.join(new)}]" if new else found[0]

    return _ACCESS.sub(named, text)


def _einsum(text: str, _: Surroundings) -> str:
    """`einsum('mk,nk->mn', A, B)` as `A[m, k] @ B[n, k].T`."""
    call = rf"""(?:\w+\.)?einsum\(\s*['"](\w+),\s*(\w+)\s*->\s*(\w+)['"],\s*({_NAME}),\s*({_NAME})\s*\)"""
    found = re.search(call, text)
    if found is None:
        return text
    left, right, out = found[1], found[2], found[3]
    summed = set(left) & set(right) - set(out)
    if len(summed) != 1 or left[-1] not in summed or not summed & set(right[-2:]):
        return text
    factors = [f"{name}[{', '.join(letters)}]" for name, letters in ((found[4], left), (found[5], right))]
    turned = ".T" if right[-1] in summed else ""
    return f"{text[: found.start()]}{factors[0]} @ {factors[1]}{turned}{text[found.end() :]}"


def _carry(text: str, at: Surroundings) -> str:
    """`carry m = -inf` with a type and axes."""
    if not text.startswith("carry "):
        return text
    return re.sub(rf"(?<=[ ,])({_NAME}) = ", lambda m: at.carried(m[1]).rsplit("=", 1)[0] + "= ", text)


def _chained(text: str, _: Surroundings) -> str:
    """`x = y = X[t]` as a line for each name."""
    found = re.fullmatch(rf"((?:{_NAME} = )+)({_NAME}) = ([^=]+)", text)
    if found is None:
        return text
    return "\n".join([f"{found[2]} = {found[3]}", *(f"{n} = {found[2]}" for n in found[1].split(" = ")[-2::-1])])


def _unpacked(text: str, _: Surroundings) -> str:
    """`a, b = x, y` as a line for each name, where no line needs a name before its new value."""
    found = re.fullmatch(rf"({_NAME}(?:, *{_NAME})+) = (.+)", text)
    if found is None:
        return text
    names, values = re.split(r", *", found[1]), _parts(found[2])
    if len(names) != len(values) or any(re.search(rf"\b{n}\b", v) for n in names for v in values):
        return text
    return "\n".join(f"{n} = {v}" for n, v in zip(names, values, strict=True))


def _parts(text: str) -> list[str]:
    """The parts of a text between the commas outside of brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        parts = [*parts, ""] if character == "," and depth == 0 else [*parts[:-1], parts[-1] + character]
    return [part.strip() for part in parts]


def _tensors(text: str, _: Surroundings) -> str:
    """`global A, B : bf16[M, K]` as a line for each tensor."""
    found = re.fullmatch(rf"global ({_NAME}(?:, *{_NAME})+) *: *(\w+\[[^\]]*\])", text)
    return text if found is None else "\n".join(f"global {n} : {found[2]}" for n in re.split(r", *", found[1]))


def _dimensions(text: str, at: Surroundings) -> str:
    """`global A : bf16` with the dimensions over which its indices run."""
    found = re.fullmatch(rf"global ({_NAME}) *: *(\w+) ?\*?", text)
    read = found and re.search(rf"\b{found[1]}\[([^\]\n]*)\]", at.file.text[at.file.text.find(text) + len(text) :])
    if not found or not read:
        return text
    dims = {axis: dim for dim, axis in at.axes.items()}
    names = [dims.get(i.strip(), "") for i in read[1].split(",")]
    return f"global {found[1]} : {found[2]}[{', '.join(names)}]" if all(names) else text


def _sizes(text: str, _: Surroundings) -> str:
    """`dims M, N` as sizes that the launch gives."""
    found = re.fullmatch(rf"dims ({_NAME}(?:, *{_NAME})*)", text)
    return text if found is None else "dims " + ", ".join(f"{n} = dynamic" for n in re.split(r", *", found[1]))


def _kernel(text: str, at: Surroundings) -> str:
    """A kernel without a name has that of its file."""
    name = re.sub(r"\W", "_", PurePath(at.file.name).stem)
    return f"kernel {name}" if text == "kernel" and re.match(r"[A-Za-z_]", name) else text


def _over(text: str, _: Surroundings) -> str:
    """`over t < T` as a loop over the positions of `T`."""
    return re.sub(rf"^over ({_NAME}) <=? ({_NAME})$", r"over \1 in \2 by 1", text)


def _guarded(text: str, _: Surroundings) -> str:
    """`if m < M and n < N: C[m, n] = c` as the store alone."""
    within = rf"{_NAME} < [A-Z]\w*"
    found = re.fullmatch(rf"if \(?{within}(?: (?:and|&&) {within})*\)?:? (\w+\[[^\]]*\] = .+?);?", text)
    return text if found is None else found[1]


REWRITES: Sequence[tuple[str, Rewrite]] = (
    ("without brackets a name is the complete tensor; the part for this tile is `X[t]`",
     lambda text, at: _indices(text, at) if re.search(r"\w\[\s*\]", text) else text),
    ("blocks and lanes have no numbers: the name of an axis is the position on it",
     lambda text, at: _indices(text, at) if _LANE.search(text) else text),
    ("each index before the last has a name: `A[m, k]`, with `m` and `k` from `over` and `each`", _indices),
    ("a matrix product is `A[m, k] @ B[n, k].T` in a loop `each k in K by 64`", _einsum),
    ("tiles are multiplied by `@`, numbers by `*`", lambda text, _: re.sub(r"(?<=[\])]) [x×] (?=\w+\[)", " @ ", text)),
    ("there is no `<<` and no `>>`: multiply by a power of two", lambda text, _: _shifted(text)),
    ("a carried value has a type and axes: `carry m : f32[q] = -inf`", _carry),
    ("a line defines one value: `x = ...`", _chained),
    ("a line defines one value: `x = ...`", _unpacked),
    ("a line declares one tensor: `global A : bf16[M, K]`", _tensors),
    ("the dimensions of a tensor follow its type: `global A : bf16[M, K]`", _dimensions),
    ("each dimension has a size: `dims M = 256`, or `dims M = dynamic` if only the launch knows it", _sizes),
    ("`kernel NAME`", _kernel),
    ("`over m in M by 128`: an axis, its dimension, and the positions of a block", _over),
    ("the edges of tensors need no test, with `tail masked` for products", _guarded),
)  # fmt: skip
"""Rewrites, each with a sentence about how a spec writes it, in the order in which they are tried."""


def _shifted(text: str) -> str:
    """`x << 2` as `x * 4`, `x >> 1` as `x / 2`."""
    return re.sub(r"\s*(<<|>>)\s*(\d)\b", lambda m: f" {'*' if m[1] == '<<' else '/'} {1 << int(m[2])}", text)


def completed(text: str, file: SourceFile, parses: Callable[[str], bool]) -> tuple[str, str] | None:
    """A statement with what the file says, and a sentence about how; None where it is not what `REWRITES` take."""
    at = Surroundings(file)
    for about, rewrite in REWRITES:
        new = rewrite(text, at)
        if new != text and all(map(parses, new.split("\n"))):
            return new, about
    return None
