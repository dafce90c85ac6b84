"""The definition of a function of equations as data."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a spec is read without torch
    from torch import Tensor

CDNA, HOPPER = "cdna", "hopper"  # the back ends of these names, as `Function.cpp` knows them
HOST = "host"  # programs that check a kernel, in f64 on the CPU
BACK_ENDS = (CDNA, HOPPER, HOST)  # where an expression reads the same
TORCH = "torch"  # scripts that check a kernel; `Function.helpers` has Python for these


@dataclass(frozen=True)
class Function:
    """A function of one element of each argument.

    `meaning` takes f64 torch tensors (bool ones for predicates) and holds for every number, infinities and NaN too;
    `torch` says the same as Python, with `{0}`, `{1}`, ... for the arguments.

    `cpp` is its expression for each back end, with `{0}`, `{1}`, ... for arguments that are names or literals, f32
    (bool for predicates; for coordinates `int` where all are and the function is `whole`, else f32), and for HOST,
    where all are f64. Where it calls functions of ours, `helpers` has their C++, in order.

    The expression's result for exact arguments is off by at most

        (ulps + growth |x|) ulp(result) + below

    where x is the first argument, or what `grows` makes of all, and ulp the unit of the last f32 place. On a back end
    it may be off by as many ulps more as `beyond` has, and by as much more as `more` has. `ring` is the formula that
    CDNA's code has, in functions of torch, where it is another one than `meaning` up to algebra: what `tkgen verify`
    takes it for. `flushes` says that arguments below 2^-126, the least normal number, may count as zero. A function
    `rounds` once where it is the one nearest to the exact result, so that a result which f32 holds is exact.

    `slopes` gives |df/dx| for each argument: by it an error of an argument reaches the result. An error of a predicate
    is 0, or 1 where it may be the other; so `slopes` of a comparison is one through the error that changes its mind.
    """

    name: str
    arity: int
    doc: str
    meaning: Callable[..., Tensor]
    slopes: Callable[..., tuple[Tensor, ...]]
    cpp: Mapping[str, str]
    torch: str
    helpers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ulps: float = 0.0
    growth: float = 0.0
    grows: Callable[..., Tensor] | None = None
    grows_by: str = "abs(a)"  # the same for people
    below: float = 0.0
    beyond: Mapping[str, float] = field(default_factory=dict)
    more: Mapping[str, float] = field(default_factory=dict)
    flushes: bool = False
    operator: str = ""  # how the language writes it, where not as a call
    jumps: bool = False  # constant in steps of an argument; monotonous in each, on either side of zero
    tooth: Callable[..., Tensor] | None = None  # of a sawtooth: which tooth arguments are on; each is as high as b is
    steep: bool = False  # its slope has no bound where it has finite results; monotonous
    whole: bool = False  # coordinates alone are taken as they are: a result that is a number is a coordinate, too
    takes: str = "number"  # `predicate`; `choice`: a predicate, then numbers; `place`: a number, then coordinates
    predicate: bool = False  # the result is true or false
    ring: Callable[..., Tensor] | None = None
    internal: bool = False  # no equation names it: typing makes it of others
    fast_of: str = ""  # the function that it is a cheaper, less exact form of: the language writes `fast tanh(x)`
    optional: int = 0  # so many of the last arguments may be left out: they are 0 then

    def calls(self, back_end: str) -> bool:
        """Return True if its C++ is a call, which needs no parentheses within an expression."""
        return not self.operator and re.fullmatch(r"[\w:]+\(.*\)", self.cpp[back_end]) is not None

    @property
    def word(self) -> str:
        """The name as equations write it where it is called."""
        return f"fast {self.fast_of}" if self.fast_of else self.name

    def size(self, *arguments: Tensor) -> Tensor:
        """The number that `growth` is multiplied by."""
        return arguments[0].abs() if self.grows is None else self.grows(*arguments)

    @property
    def rounds(self) -> bool:
        """True if the result is the f32 nearest to the exact one, or the exact one itself."""
        return self.ulps <= 0.5 and not self.growth and not self.below
