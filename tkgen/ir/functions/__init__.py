"""Functions of one element: each is one definition, read by the meaning, the back ends, the language and its docs.

`FUNCTIONS` has them by name, of every module of `definitions/`, in the order of their positions.
"""

from collections.abc import Iterable, Mapping

from tkgen.ir.functions import definitions
from tkgen.ir.functions.model import BACK_ENDS, CDNA, HOPPER, HOST, TORCH, Function
from tkgen.packages import modules_of

__all__ = ["BACK_ENDS", "CDNA", "FAST", "FUNCTIONS", "HOPPER", "HOST", "TORCH", "Function", "helpers"]


_MODULES = sorted(modules_of(definitions), key=lambda module: module.POSITION)

FUNCTIONS: Mapping[str, Function] = {f.name: f for module in _MODULES for f in module.FUNCTIONS}

FAST: Mapping[str, str] = {f.fast_of: f.name for f in FUNCTIONS.values() if f.fast_of}
"""From the name of a function to that of its cheaper form, which the language writes `fast tanh(x)`."""


def helpers(names: Iterable[str], back_end: str) -> tuple[str, ...]:
    """The C++ that these functions call, each definition once."""
    used = set(names)
    return tuple(dict.fromkeys(h for f in FUNCTIONS.values() if f.name in used for h in f.helpers.get(back_end, ())))
