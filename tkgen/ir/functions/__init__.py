"""Functions of one element: each is one definition, read by the meaning, the back ends, the language and its docs."""

from tkgen.ir.functions.model import BACK_ENDS, CDNA, HOPPER, HOST, TORCH, Function
from tkgen.ir.functions.registry import FUNCTIONS, helpers

__all__ = ["BACK_ENDS", "CDNA", "FUNCTIONS", "HOPPER", "HOST", "TORCH", "Function", "helpers"]
