"""The page of all functions, `docs/functions.md`: `python -m tkgen.ir.functions.page PATH` writes it."""

from __future__ import annotations

import sys
import tomllib
from importlib.resources import files
from math import log2
from pathlib import Path

from tkgen.ir.functions import FAST, FUNCTIONS
from tkgen.ir.functions.model import CDNA, HOPPER, Function

HEAD = """\
# Functions of equations

The functions and operators of [equations](language.md#equations), which are elementwise. Values are
f32.

- **Error**: the error of the generated code for exact arguments, in units of the last place (ulp)
  of the result. Some functions also have an absolute error. `tkgen run` and `tkgen test` derive
  their bounds from these errors.
- *Exact* functions do not round; 0.5 ulp is one rounding to nearest.
- *Flushes*: arguments below 2^-126 may count as zero.
- Approximating instructions are assumed to be within 1 ulp, as LLVM's guide to the AMDGPU back end
  says. For sine and cosine no error is published; it is assumed to be at most 2^-20.

| function | result | error | C++ |
|---|---|---|---|
"""
FAST_HEAD = """
## Fast forms

`fast` before a function selects its cheaper form, which has the same meaning and a larger error.
For proofs and for `tkgen verify` the two forms are different functions, and `tkgen run` has a
separate error bound for each. Functions that are not listed have no cheaper form: `exp` and `exp2`,
for example, already use one approximating instruction.

- **AMD**: the number of vector instructions in the machine code for gfx942; in brackets, how many
  of them are transcendental (four times as slow).
- **H200**: the measured time of a call, in units of the time of an addition.
- **Error**: the error of the generated code, as above. The last column is the largest error over
  all f32 numbers, measured on an H200.

| function | AMD | `fast` | H200 | `fast` | error on AMD | error on Hopper | measured |
|---|---|---|---|---|---|---|---|
"""


def page() -> str:
    """The text of the page."""
    plain = (_row(f) for f in FUNCTIONS.values() if not (f.internal or f.fast_of))
    return (
        HEAD + "".join(plain) + FAST_HEAD + "".join(_costs(FUNCTIONS[of], FUNCTIONS[fast]) for of, fast in FAST.items())
    )


def costs() -> dict[str, dict[str, dict[str, float]]]:
    """The contents of `costs.toml`: costs of each function, by target."""
    return tomllib.loads((files("tkgen.ir.functions") / "costs.toml").read_text(encoding="utf-8"))


def _costs(of: Function, fast: Function) -> str:
    counted, timed = costs()["gfx942"], costs()["h200"]
    cells = [f"{counted[f.name]['instructions']} ({counted[f.name]['transcendental']})" for f in (of, fast)]
    cells += [f"{timed[f.name]['additions']:.3g}" for f in (of, fast)]
    largest = timed[fast.name]
    measured = f"{largest['number']:g}" if fast.more else f"{largest['ulps']:.3g} ulp"
    cells += [_error(fast), _error(fast, HOPPER), measured]
    return f"| `{_form(fast)}` | {' | '.join(cells)} |\n"


def _row(f: Function) -> str:
    cpp = f.cpp[CDNA].format(*"abcde").replace("|", "\\|")
    return f"| `{_form(f)}` | {f.doc} | {_error(f)} | `{cpp}` |\n"


def _form(f: Function) -> str:
    parameters = list("abcde"[: f.arity])
    if f.operator:
        operator = f.operator.replace("|", "\\|")
        return f"{operator}{' ' * f.operator.isalpha()}a" if f.arity == 1 else f"a {operator} b"
    needed, left_out = parameters[: f.arity - f.optional], parameters[f.arity - f.optional :]
    return f"{f.word}({', '.join(needed)}{''.join(f'[, {p}' for p in left_out)}{']' * len(left_out)})"


def _error(f: Function, back_end: str = CDNA) -> str:
    parts = []
    ulps, below = f.ulps + f.beyond.get(back_end, 0.0), f.below + f.more.get(back_end, 0.0)
    if ulps or f.growth:
        parts.append(f"{ulps:g}{f' + {f.growth:g} {f.grows_by}' if f.growth else ''} ulp")
    if below:
        parts.append(f"2^{log2(below):g}" if log2(below).is_integer() else f"{below:.3g}")
    return (" + ".join(parts) or "exact") + ("; flushes" if f.flushes else "")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
