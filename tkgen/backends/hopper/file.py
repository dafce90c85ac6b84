"""The generated file of a kernel for Hopper, and the names in it that a spec cannot use."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources

from tkgen.backends.cdna.lower.model import Constant, ScalarMember
from tkgen.backends.cdna.lower.names import WORD, cpp_name
from tkgen.backends.cdna.lower.origins import NOWHERE, Marks, Origins, Source
from tkgen.backends.hopper import chained, streamed
from tkgen.backends.hopper.neighbours import ALONE, Neighbours
from tkgen.backends.hopper.printer import body
from tkgen.backends.hopper.streamed import Code, program
from tkgen.ir.tensors import Dim, Tensor

PACKAGE = "tkgen.backends.hopper"
SUFFIXES = ("_tile", "_part", "_box", "_boxes", "_end", "_s", "_acc", "_v", "_loaded", "_load", "_made")
"""Endings of names that belong to a tensor, or to sums."""


@dataclass(frozen=True)
class Member:
    """A tensor of the argument struct. Extents are -1 where only the launch knows them.

    `tile` is the type of what the copy engine moves of it, where it moves anything.
    """

    name: str
    cpp: str
    extents: tuple[str, ...]  # batch, depth, rows, columns
    origin: Origins
    tile: str = ""

    @property
    def type(self) -> str:
        """Its C++ type."""
        return f"gl<{', '.join(filter(None, (self.cpp, *self.extents, self.tile)))}>"


@dataclass(frozen=True)
class File:
    """A kernel and the file around it: C++ as text, one line each where nothing else is said."""

    name: str
    header: tuple[str, ...]  # comments
    spec: str
    target: str
    constants: tuple[Constant, ...]
    tensors: tuple[Member, ...]
    scalars: tuple[ScalarMember, ...]
    functions: tuple[str, ...]  # of equations, each whole
    body: tuple[str, ...]
    types: tuple[str, ...] = ()
    cluster: bool = False
    least_blocks: int = 1  # that are to fit an SM
    origin: Origins = NOWHERE  # of the launch
    beside: Neighbours = ALONE

    def source(self, marks: Marks) -> Source:
        """The file's text, with the origins of its lines."""
        from tkgen.backends.cdna.lower import render  # no check needs it

        text = render.environment(PACKAGE).get_template("file.cu.jinja").render(m=self, remark=marks.remark)
        return marks.source(render.tidy(text).rstrip("\n") + "\n")


@cache
def _words() -> frozenset[str]:
    """Every word of the template, ThunderKittens' headers and tile programs: no name of a spec may be one of them."""
    folder = resources.files(PACKAGE)
    files = [folder.joinpath("templates", "file.cu.jinja")]
    files += [f for f in folder.joinpath("include", "kittens").iterdir() if f.name.endswith(".cuh")]
    operands = (streamed.Operand("left", False), streamed.Operand("right", True))
    several = [Code(operands, (streamed.Product(0, 1),), (streamed.Output(),), turns=kind == "turns",
                    scaled=kind == "scaled", ragged=kind == "ragged", cluster=kind == "cluster")
               for kind in ("turns", "scaled", "ragged", "cluster")]  # fmt: skip
    made = [*map(program, several), chained.program()]
    bodies = ("\n".join(body(block, "", "")) for block in made)
    words = (word for text in (*(f.read_text("utf-8") for f in files), *bodies)
             for word in WORD.findall(re.sub(r"\btk::\w+", "tk", text)))  # fmt: skip
    return frozenset({*words, "run", "at", "end"}) - set("ABCDNKMTRS")


def name(text: str) -> str:
    """`text` as a C++ identifier of the generated file: with a trailing underscore where it is taken."""
    safe = cpp_name(text)
    made = (safe, *(safe + suffix for suffix in SUFFIXES))
    return f"{safe}_" if _words().intersection(made) else safe


def size(dim: Dim, tensors: Iterable[Tensor]) -> str:
    """The size of a dimension in C++: a number, or if the size is `dynamic` the extent of one of `tensors`."""
    if dim.size is not None:
        return str(dim.size)
    tensor, at = next((t, n) for t in tensors for n, d in enumerate(t.dims) if d == dim)
    return f"g.{name(tensor.name)}.{('batch', 'depth', 'rows', 'cols')[4 - len(tensor.dims) + at]}()"
