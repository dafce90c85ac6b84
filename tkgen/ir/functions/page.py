"""The page of all functions, `docs/functions.md`: `python -m tkgen.ir.functions.page PATH` writes it."""

from __future__ import annotations

import sys
from math import log2
from pathlib import Path

from tkgen.ir.functions import FUNCTIONS
from tkgen.ir.functions.model import CDNA, Function

HEAD = """\
# Functions of equations

The functions and operators of [equations](language.md#equations), element by element. Numbers are f32.

- **Error**: that of the generated code for exact arguments, in units of the last place (ulp) of the
  result. Some functions also have an absolute error. `tkgen run` and `tkgen test` derive their
  bounds from these errors.
- *Exact* functions do not round; 0.5 ulp is one rounding to nearest.
- *Flushes*: arguments below 2^-126 may count as zero.
- The approximating instructions are assumed to be within 1 ulp, as LLVM's guide of the back end
  says. For sine and cosine nothing is published; they are assumed to be within 2^-20.

| function | what it is | error | C++ |
|---|---|---|---|
"""


def page() -> str:
    """The text of the page."""
    return HEAD + "".join(_row(f) for f in FUNCTIONS.values() if not f.internal)


def _row(f: Function) -> str:
    cpp = f.cpp[CDNA].format(*"abcde").replace("|", "\\|")
    return f"| `{_form(f)}` | {f.doc} | {_error(f)} | `{cpp}` |\n"


def _form(f: Function) -> str:
    parameters = list("abcde"[: f.arity])
    if f.operator:
        operator = f.operator.replace("|", "\\|")
        return f"{operator}{' ' * f.operator.isalpha()}a" if f.arity == 1 else f"a {operator} b"
    needed, left_out = parameters[: f.arity - f.optional], parameters[f.arity - f.optional :]
    return f"{f.name}({', '.join(needed)}{''.join(f'[, {p}' for p in left_out)}{']' * len(left_out)})"


def _error(f: Function) -> str:
    parts = []
    if f.ulps or f.growth:
        parts.append(f"{f.ulps:g}{f' + {f.growth:g} abs(a)' if f.growth else ''} ulp")
    if f.below:
        parts.append(f"2^{log2(f.below):g}" if log2(f.below).is_integer() else f"{f.below:g}")
    return (" + ".join(parts) or "exact") + ("; flushes" if f.flushes else "")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
