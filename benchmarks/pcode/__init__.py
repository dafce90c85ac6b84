"""An interpreter of AMD's instruction pseudo-code, the second opinion on every instruction of the emulator.

The texts are those that tinygrad takes from AMD's ISA document (`tinygrad.runtime.autogen.amd.cdna.str_pcode`).
Integers are unbounded until they are assigned or cast; floats carry their width and are rounded after every operation.
"""

from __future__ import annotations

from functools import cache

from pcode.operations import Memory, bfloat, binary, is_denormal
from pcode.parser import Parser
from pcode.values import B, Env, F, Stmt, Value, bits_of, exactly, float_of, fma, number, raw, rounded, truth, typed

__all__ = [
    "B", "Env", "F", "Memory", "Parser", "Value", "bfloat", "binary", "bits_of", "exactly", "float_of", "fma",
    "is_denormal", "number", "raw", "rounded", "run", "truth", "typed",
]  # fmt: skip


DEFAULTS: dict[str, Value] = {
    "WAVE_MODE.IEEE": 0,
    "ROUND_MODE": 0,
    "ROUND_NEAREST_EVEN": 0,
    "ROUND_TOWARD_ZERO": 3,
    # The table of v_cvt_off_f32_i4 (ISA documents, prose): a signed 4-bit integer in sixteenths.
    "CVT_OFF_TABLE": [F(32, (i - 16 if i > 7 else i) / 16) for i in range(16)],
    **{name: B(3, i) for i, name in enumerate(("BYTE0", "BYTE1", "BYTE2", "BYTE3", "WORD0", "WORD1", "DWORD"))},
}


@cache
def compile_text(text: str) -> Stmt:
    """The pseudocode as a function that changes an environment."""
    return Parser(text).block()


def run(text: str, **variables: Value) -> Env:
    """Execute pseudocode; registers are given as B(width, bits)."""
    e = Env(variables)
    for name, value in DEFAULTS.items():
        e.setdefault(name, value)
    compile_text(text)(e)
    return e
