"""Every name that emitted code may use: the ThunderKittens surface, HIP and clang names beside it, what each means.

>>> surface["mma_ABt"].meaning
'd = a b^T + c: a (M x K) row, b (N x K) row'

Emitted code is compared with this table, so a name that exists nowhere cannot slip in. Names marked `addition` exist in
the embedded headers only: code that uses them does not compile against a ThunderKittens checkout.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Literal, cast, get_args

Kind = Literal[
    "namespace", "type", "constant", "function", "member", "macro", "language", "builtin", "hip", "python", "c++"
]


@dataclass(frozen=True)
class Name:
    """One name, what sort of thing it is, and one line on what it means."""

    name: str
    kind: Kind
    meaning: str
    addition: bool = False


def _names() -> Iterator[Name]:
    """The names of `surface.txt`, in its order."""
    text = resources.files("tkgen.backends.cdna.kittens").joinpath("surface.txt").read_text(encoding="utf-8")
    kind, addition = "", False
    for line in re.sub(r",\s*\n", ", ", re.sub(r"^(#.*)?\n", "", text, flags=re.MULTILINE)).splitlines():
        if line.startswith("["):
            kind, _, rest = line.strip("[]").partition(" ")
            addition = rest == "addition"
            assert kind in get_args(Kind), f"surface.txt has no kind `{kind}`"
        else:
            left, _, meaning = line.partition(": ")
            yield from (Name(name.strip(), cast(Kind, kind), meaning, addition) for name in left.split(","))


surface: Mapping[str, Name] = {name.name: name for name in _names()}
"""Name -> what it is. Where C++ or HIP and ThunderKittens share a name (`max`), the entry is ThunderKittens'."""
