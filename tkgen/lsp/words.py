"""The meaning of every word of the language, for hover and completion; the sentences are in `words.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from tkgen.backends.registry import backend_of
from tkgen.ir.functions import FAST, FUNCTIONS
from tkgen.ir.resolve.clauses import ALLOWANCES, GRIDS, TAILS
from tkgen.ir.resolve.written import COUNTERS, LEVELS
from tkgen.ir.schedules import SCHEDULES
from tkgen.ir.types import OWN_ENCODING, DType, Via
from tkgen.ir.typing.desugar import EPILOGUES
from tkgen.ir.typing.vocabulary import CALLS, CONSTANTS, LARGEST, PLACE, REDUCTIONS, SCANS, SORTED
from tkgen.remap import REMAPS
from tkgen.targets import known_names


@dataclass(frozen=True)
class Word:
    """`form` is how it is written, `meaning` one or two sentences."""

    form: str
    meaning: str


# The words that a NAME can be, by what it stands for.
CHOICES: Mapping[str, tuple[str, ...]] = {
    "dtype": (*(d.spelling for d in DType), *OWN_ENCODING),
    "tail": TAILS,
    "allow": ALLOWANCES,
    "grid": GRIDS,
    "via": tuple(v.value for v in Via),
    "epilogue": EPILOGUES,
    "arrangement": ("interleaved", "blocked"),
    "automatic": ("auto", "manual"),
    "preset": ("auto", *SCHEDULES),
    "counter": COUNTERS,
    "level": tuple(LEVELS),
    "dynamic": ("dynamic",),
    "function": ("min", "max", "ceil_div"),
    "formula": (*CALLS, *REDUCTIONS, *SCANS, *SORTED, PLACE, LARGEST, *CONSTANTS),
    "fast": tuple(FAST),
    "remap": tuple(REMAPS),
    "target": known_names(),
    "step": ("k",),
}


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads((files("tkgen.lsp") / "words.toml").read_text(encoding="utf-8"))


def word(role: str, name: str) -> Word | None:
    """Return the meaning of `name` as a `role` of `CHOICES`; None if it is none of them."""
    if name not in CHOICES[role]:
        return None
    if role == "remap":
        return Word(REMAPS[name].signature, REMAPS[name].doc)
    if role == "preset" and name in SCHEDULES:
        return Word(f"schedule {name}", SCHEDULES[name].doc)
    if role == "fast" or (role == "formula" and name in CALLS):
        function = FUNCTIONS[FAST[name] if role == "fast" else name]
        return Word(f"{function.word}({', '.join('abcde'[: function.arity])})", function.doc)
    if role == "target":
        return Word(name, backend_of(name).described(name))
    return Word(**_table()["names"].get(name, {"form": name, "meaning": ""}))


def keyword(name: str, statement: str) -> Word | None:
    """Return the meaning of the keyword `name` in a statement that starts with `statement`;
    None if it is no keyword.
    """
    found = _table()["in_statement"].get(statement, {}).get(name) or _table()["keywords"].get(name)
    return Word(**found) if found else None
