"""Block-index remaps: which output tile the block with a given linear index computes.

    remap = compose([RemapCall("xcd", {"n": 8, "chunk": 16}), RemapCall("group", {"rows": 4})])
    remap.place(5, 64, 64)                            # (row, col), in Python
    remap.cpp("block", 64, 64).statements             # the same arithmetic as C++ lines

A remap is any number of permutations of the linear index (`xcd`), then one placement of the index onto the grid
(`group`, `morton`, ...; `row_major` unless given). Each is one module of `definitions/` that writes its arithmetic
once, as an integer program (`expr.py`); `model.py` runs it, `cpp.py` prints it, `measure.py` draws and measures orders.
"""

from tkgen.remap.composition import (
    MAX_TILES,
    REMAPS,
    NamedInt,
    Remap,
    RemapCall,
    RemapError,
    compose,
    problems,
)
from tkgen.remap.spec import Parameter

__all__ = [
    "MAX_TILES",
    "REMAPS",
    "NamedInt",
    "Parameter",
    "Remap",
    "RemapCall",
    "RemapError",
    "compose",
    "problems",
]
