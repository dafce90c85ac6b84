"""What is said of a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a spec is read without torch
    from torch import Tensor


@dataclass(frozen=True)
class Function:
    """A function of one element of each argument.

    `meaning` takes f64 torch tensors. `cpp` is its expression for each back end, with `{0}`, `{1}`, ... for f32
    arguments (bool for predicates); where that calls a function of ours, `helper` is the C++ that defines it. `ulps` is
    the most that the expression's result is off, in units of the last f32 place, for exact arguments; `below` an
    absolute error that comes on top (results flushed to zero). `slopes` gives |df/dx| for each argument: by it an error
    of the arguments reaches the result. `operator` is how the language writes it, where not as a call.
    """

    name: str
    arity: int
    doc: str
    meaning: Callable[..., Tensor]
    slopes: Callable[..., tuple[Tensor, ...]]
    cpp: Mapping[str, str]
    helper: Mapping[str, str]
    ulps: float
    below: float = 0.0
    operator: str = ""
    predicate: bool = False  # the result is true or false
