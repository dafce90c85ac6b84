"""The Lark parser of `grammar/tk.lark`, and its words for people."""

from __future__ import annotations

import os
from functools import cache
from importlib.resources import files
from pathlib import Path

from lark import Lark
from lark.lexer import PatternStr

from tkgen.syntax.layout import Indenter

# What a schedule's line is made of. Tensors cannot have these names: `fetch A write B` would be ambiguous.
OPERATIONS = ("fetch", "write", "load", "copy", "read", "multiply", "compute", "wait", "barrier", "priority", "mix")
LINES = ("cluster", "group", "prologue", "drain")
MAX_STATEMENT = 1 << 14  # characters
FILE_WORDS = ("sequence", "kernel")  # of lines that stand in no body
STATEMENTS = (
    "dims", "param", "global", "scalar", "target", "block", "remap", "grid", "clusters", "tail", "waves", "occupancy",
    "allow", "stream", "shared", "registers", "accumulate", "epilogue", "store", "load", "role", "phase", "unroll",
    "tune", "include", "schedule", "over", "each", "when", "carry", "function", "reference",
    "distinct",
)  # fmt: skip

_EXPRESSION = frozenset({"NAME", "FAST", "INT", "FLOAT", "MINUS", "LPAR"})
_OPERATORS = ("PLUS", "MINUS", "TIMES", "DIVIDE", "MODULO", "AT", "COMPARE", "AND", "OR", "TRANSPOSED")
_DESCRIPTIONS = {
    "NAME": "a name",
    "INT": "an integer",
    "FLOAT": "a number",
    "STRING": "a path in double quotes",
    "_NL": "the end of the line",
    "_INDENT": "an indented body",
    "_DEDENT": "the end of the body",
    "$END": "the end of the file",
}


def grammar_text() -> str:
    """`tk.lark`, from the installed package or from the source tree around it."""
    package = files("tkgen")
    for place in (package / "grammar" / "tk.lark", Path(str(package)).parent / "grammar" / "tk.lark"):
        if place.is_file():
            return place.read_text(encoding="utf-8")
    raise FileNotFoundError("tk.lark belongs to tkgen and is missing: the installation is incomplete")


def _cache_file() -> str | None:
    """Return the file of Lark's tables, which take ten times as long to build as to read; None if there is no place."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.path.join(base, "tkgen")
    if not os.path.isabs(folder):
        return None  # no home
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError:
        return None
    usable = os.access(folder, os.W_OK) and os.stat(folder).st_uid == os.getuid()
    return os.path.join(folder, "grammar.lark-tables") if usable else None


@cache
def parser() -> Lark:
    """The parser; its start symbols are `file` and the single lines."""
    return Lark(
        grammar_text(),
        parser="lalr",
        start=["file", "sequence_line", "kernel_line", "any_line", "cluster_line"],
        postlex=Indenter(),
        propagate_positions=True,
        maybe_placeholders=False,
        cache=_cache_file() or False,
    )


@cache
def spellings() -> dict[str, str]:
    """Token type to the text it is written as, for keywords and punctuation, in the grammar's order."""
    return {t.name: t.pattern.value for t in parser().terminals if isinstance(t.pattern, PatternStr)}


def keywords(types: set[str]) -> list[str]:
    """The keywords among token types."""
    return [text for name, text in spellings().items() if name in types and text.isalpha()]


def describe(types: set[str]) -> str:
    """Token types as "`x`, `step` or the end of the line"."""
    rest = set(types)
    words: list[str] = []
    if {"NAME", "INT", "LPAR"} <= rest:
        words.append("a size")
        rest -= _EXPRESSION
    elif {"NAME", "INT"} <= rest:
        words.append("a name or a number")
        rest -= _EXPRESSION
    if rest - set(_OPERATORS) or words:
        rest -= set(_OPERATORS)  # possible after any size, so no news
    operations = {word.upper() for word in OPERATIONS}
    if operations <= rest:
        words.append("an operation")
        rest -= operations
    words += [f"`{text}`" for name, text in spellings().items() if name in rest]
    words += [text for name, text in _DESCRIPTIONS.items() if name in rest]
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " or " + words[-1]
