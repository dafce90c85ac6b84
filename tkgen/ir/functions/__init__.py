"""Functions of one element: each is one definition, read by the meaning, the back ends, the language and its docs."""

from tkgen.ir.functions.model import Function
from tkgen.ir.functions.registry import FUNCTIONS

__all__ = ["FUNCTIONS", "Function"]
