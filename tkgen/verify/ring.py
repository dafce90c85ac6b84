"""Numbers that torch computes with and that carry their payloads: what `tkgen.ir.meaning` and references run on.

    x = Ring.random(torch.randn(4, 8), generator)       # real numbers, and what stands for each in the fields
    y = torch.softmax(x, -1)                            # any function of torch, or one of `tkgen.ir.functions`
    y.p, y.q                                            # what the machine code must have for it

A `Ring` is a tensor for torch, of f64. Within it are the real number with a bound on what f32 arithmetic makes of it
(`tkgen.ir.rounding`), and the payload in both fields (`tkgen.verify.field`). Comparisons, and what chooses by them,
follow the real numbers; where these are nearer to each other than their bounds, the machine may rightly choose
otherwise, and what depends on it is `unsure` from there on. Truths are a `Ring`, too, without payloads.

What is infinite has no payload but that, what is no number none; what came of an infinite operand and is finite, such
as x / inf, is the number that it is, exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, ClassVar

import torch
from torch import Tensor

from tkgen.ir import rounding
from tkgen.ir.functions import FUNCTIONS
from tkgen.ir.types import DType
from tkgen.verify import field
from tkgen.verify.field import ABSENT, P, Q

NEVER = -2  # the p value of what nobody has written
LOG2E, LN2 = 1.44269504088896341, 0.69314718055994531  # of `exp` and `log`, rounded to f32 as the code has them
# The same as clang has them for expf and logf: two numbers of f32, whose products with x are added
# (LLVM, AMDGPULegalizerInfo: legalizeFExp, legalizeFlogCommon).
_TWO_LOG2E = 1.4426950216293335 + 1.925962855864327e-08  # 0x3fb8aa3b, 0x32a5705f
_TWO_LN2 = 0.6931471228599548 + 5.769998878690785e-08  # 0x3f317217, 0x3377d1cf
FLUSHED, LEAST = 2.0**-150, 2.0**-126  # powers below the first are zero, below the second they may be


class UnsupportedError(NotImplementedError):
    """A function of torch that nothing is known of here."""


@dataclass(frozen=True)
class Planes:
    """The planes of a `Ring`, all of one shape. Booleans have no payload."""

    real: Tensor
    error: Tensor
    unsure: Tensor
    p: Tensor
    q: Tensor

    def each(self, of: Callable[[Tensor], Tensor]) -> Planes:
        """Apply a function that moves elements to all planes."""
        return Planes(*(of(x) for x in (self.real, self.error, self.unsure, self.p, self.q)))


class Ring(Tensor):
    """Numbers with payloads, or truths that may be undecided."""

    planes: Planes
    composed: ClassVar[Mapping[Any, Callable[..., Any]]]  # these two are set by `tkgen.verify.functions`
    dispatched: ClassVar[Callable[..., Any]]

    @staticmethod
    def __new__(cls, planes: Planes) -> Ring:  # noqa: D102
        kind = torch.bool if planes.real.dtype is torch.bool else torch.float64
        made = Tensor._make_wrapper_subclass(cls, planes.real.shape, dtype=kind)
        assert isinstance(made, Ring)
        return made

    def __init__(self, planes: Planes):
        self.planes = planes

    @property
    def p(self) -> Tensor:
        """In Z_p."""
        return self.planes.p

    @property
    def q(self) -> Tensor:
        """In Z_q, or ABSENT."""
        return self.planes.q

    @property
    def reals(self) -> Tensor:
        """The real numbers, or truths."""
        return self.planes.real

    @property
    def unsure(self) -> Tensor:
        """A mask of the elements that depend on an undecided choice."""
        return self.planes.unsure

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"Ring({self.planes.real})"

    @staticmethod
    def random(real: Tensor, generator: torch.Generator) -> Ring:
        """These numbers, each with its own payload, of which nothing else depends."""
        p, q = (torch.randint(m, real.shape, generator=generator, dtype=torch.int64) for m in (P, Q))
        return given(real, p, q)

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Functions that torch would take apart with other constants are taken apart here."""
        if func in cls.composed:
            return cls.composed[func](*args, **(kwargs or {}))
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[Any, Any] | None = None
    ) -> Any:
        """Evaluate a primitive operation of torch over payloads."""
        return cls.dispatched(func, args, kwargs or {})


# ---------------------------------------------------------------- numbers that are made


def given(real: Tensor, p: Tensor, q: Tensor) -> Ring:
    """Exact numbers with these payloads."""
    real = real.double()
    return Ring(Planes(real, torch.zeros_like(real), torch.zeros_like(real, dtype=torch.bool), p, q))


def plain(real: Tensor) -> Ring:
    """Numbers that are what they are: their payload is their image."""
    real = real.double()
    return given(real, field.image(real, P), field.image(real, Q))


def truth(value: Tensor, unsure: Tensor) -> Tensor:
    """Truths; an ordinary tensor where all are decided."""
    unsure = unsure.expand(value.shape)
    if not bool(unsure.any()):
        return value
    zero = torch.zeros(value.shape, dtype=torch.int64)
    return Ring(Planes(value, zero.double(), unsure, zero, zero))


_of_f64: ContextVar[bool] = ContextVar("_of_f64", default=False)


@contextmanager
def numbers_of(dtypes: Iterable[torch.dtype]) -> Iterator[None]:
    """Within it a number of Python's is the f32 nearest to it, or what it is where one of the types is f64."""
    token = _of_f64.set(torch.float64 in dtypes)
    try:
        yield
    finally:
        _of_f64.reset(token)


def planes(value: Any) -> Planes:
    """Return the planes of anything that torch takes for a tensor. Python's numbers count as `numbers_of` says."""
    if isinstance(value, Ring):
        return value.planes
    if isinstance(value, Tensor):
        if value.dtype is torch.bool:
            zero = torch.zeros(value.shape, dtype=torch.int64)
            return Planes(value, zero.double(), torch.zeros_like(value), zero, zero)
        return plain(value).planes
    if isinstance(value, float) and not _of_f64.get():
        value = rounding.f32(value)
    return plain(torch.tensor(value, dtype=torch.float64)).planes


def numeric(value: Any) -> Planes:
    """The same of numbers; a truth is one or zero."""
    found = planes(value)
    if found.real.dtype is not torch.bool:
        return found
    whole = found.real.long()
    return Planes(whole.double(), found.error, found.unsure, whole, whole)


def unwritten(shape: Iterable[int]) -> Ring:
    """Memory in which nothing was stored."""
    real = torch.full(tuple(shape), torch.nan, dtype=torch.float64)
    never = torch.full(real.shape, NEVER, dtype=torch.int64)
    return given(real, never, torch.full_like(never, ABSENT))


_split: ContextVar[bool] = ContextVar("_split", default=False)


@contextmanager
def split_constants() -> Iterator[None]:
    """Within it the constants of `exp` and `log` are those of clang's functions, of twice the precision."""
    token = _split.set(True)
    try:
        yield
    finally:
        _split.reset(token)


def log2e() -> Planes:
    """The factor of `exp`'s exponent."""
    return plain(torch.tensor(_TWO_LOG2E, dtype=torch.float64)).planes if _split.get() else planes(LOG2E)


def ln2() -> Planes:
    """The factor of a logarithm of base 2 in `log`."""
    return plain(torch.tensor(_TWO_LN2, dtype=torch.float64)).planes if _split.get() else planes(LN2)


# ---------------------------------------------------------------- steps of a meaning

Watcher = Callable[[int, str, Callable[..., "Ring"], tuple[Any, ...]], "Ring"]
_watcher: ContextVar[Watcher | None] = ContextVar("_watcher", default=None)
_count: ContextVar[list[int]] = ContextVar("_count")


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Within it `watcher` is called in the place of each step, with its number, its name, itself and its operands."""
    tokens = _watcher.set(watcher), _count.set([0])
    try:
        yield
    finally:
        _watcher.reset(tokens[0])
        _count.reset(tokens[1])


def _step(name: str) -> Callable[[Callable[..., Ring]], Callable[..., Ring]]:
    """A function whose calls are steps; those within it are none of their own."""

    def wrapped(of: Callable[..., Ring]) -> Callable[..., Ring]:
        @wraps(of)
        def called(*operands: Any) -> Ring:
            watcher = _watcher.get()
            if watcher is None:
                return of(*operands)
            count = _count.get()
            count[0] += 1
            number, token = count[0], _watcher.set(None)
            try:
                return watcher(number, name, of, operands)
            finally:
                _watcher.reset(token)

        return called

    return wrapped


# ---------------------------------------------------------------- arithmetic


def _bounded(name: str, *arguments: Planes) -> rounding.Bounded:
    """The real number of a function, and how far off it may be."""
    pairs = [(a.real, a.error if bool(a.error.any()) else None) for a in arguments]
    return rounding.applied(FUNCTIONS[name], pairs)


def both(q: Tensor, *of: Tensor) -> Tensor:
    """q values where those of all operands are there."""
    for other in of:
        q = torch.where(other < 0, ABSENT, q)
    return q


def settled(real: Tensor, error: Tensor | None, p: Tensor, q: Tensor, *arguments: Planes) -> Ring:
    """A result: what came of infinite operands and is finite is the number that it is."""
    unsure = torch.zeros(real.shape, dtype=torch.bool)
    for a in arguments:
        unsure = unsure | a.unsure
    p, q, error = (x.expand(real.shape) for x in (p, q, torch.zeros(()) if error is None else error))
    infinite = torch.zeros(real.shape, dtype=torch.bool)
    for a in arguments:
        infinite = infinite | a.real.isinf()
    if bool(infinite.any()):
        infinite = infinite & real.isfinite()
        p = torch.where(infinite, field.image(real, P), p)
        q = torch.where(infinite, field.image(real, Q), q)
    return Ring(Planes(real, error.double(), unsure, p, q))


@_step("add")
def added(a: Planes, b: Planes) -> Ring:
    """The sum."""
    return settled(*_bounded("add", a, b), (a.p + b.p) % P, both((a.q + b.q) % Q, a.q, b.q), a, b)


def negated(a: Planes) -> Ring:
    """The negative."""
    return Ring(Planes(-a.real, a.error, a.unsure, -a.p % P, both(-a.q % Q, a.q)))


@_step("sub")
def subtracted(a: Planes, b: Planes) -> Ring:
    """The difference."""
    return settled(*_bounded("sub", a, b), (a.p - b.p) % P, both((a.q - b.q) % Q, a.q, b.q), a, b)


@_step("mul")
def product(a: Planes, b: Planes) -> Ring:
    """The product."""
    return settled(*_bounded("mul", a, b), a.p * b.p % P, both(a.q * b.q % Q, a.q, b.q), a, b)


@_step("rcp")
def reciprocal(a: Planes) -> Ring:
    """One through it. A number whose image is zero and that is none has no inverse: another draw decides."""
    q = both(field.inverse(torch.where(a.q < 0, 1, a.q), Q), a.q)
    none = ((a.p == 0) | (a.q == 0)) & (a.real != 0) & a.real.isfinite()
    zero = Planes(a.real, a.error, a.unsure | none, a.p, a.q)
    return settled(*_bounded("rcp", a), field.inverse(a.p, P), q, zero)


@_step("div")
def quotient(a: Planes, b: Planes) -> Ring:
    """The quotient."""
    one = reciprocal(b).planes
    q = both(a.q * one.q % Q, a.q, one.q)
    return settled(*_bounded("div", a, b), a.p * one.p % P, q, a, one, b)


@_step("exp2")
def power(a: Planes) -> Ring:
    """2 to the power of it. Where f32 cannot hold that, numbers do not say what it stands for: another draw does."""
    real, error = _bounded("exp2", a)
    exponent = torch.where(a.q < 0, field.hashed("Q", a.p, Q), a.q)
    off = torch.zeros_like(real) if error is None else torch.where(error.isfinite(), error, 0.0)
    zero = real < FLUSHED
    near = ~zero & (real < LEAST) | zero & (real + off >= FLUSHED) & (a.real > -1000)
    near = near | (real.isinf() & a.real.isfinite())
    p = torch.where(zero, 0, field.power_of_two(exponent))
    q = torch.where(zero, 0, ABSENT)
    real = torch.where(zero, 0.0, real)
    return settled(real, error, p, q, Planes(a.real, a.error, a.unsure | near, a.p, a.q))


def uninterpreted(name: str, a: Planes, of: Planes | None = None) -> Ring:
    """A function of which nothing is used but that it is one; its payload is that of `of` where that is given.

    `rsqrt` is one through what `sqrt` is.
    """
    return _root(a, *([] if of is None else [of]), name)


@_step("root")
def _root(a: Planes, *rest: Any) -> Ring:
    """The same with the operands first, as a step that is changed has them."""
    *others, name = rest
    argument, tag = (*others, a)[0].p, "sqrt" if name == "rsqrt" else name
    p, q = field.hashed(tag, argument, P), field.hashed(f"{tag}q", argument, Q)
    if name == "rsqrt":
        p, q = field.inverse(p, P), field.inverse(q, Q)
    return settled(*_bounded(name, a), p, q, a)


@_step("product")
def multiplied(a: Planes, b: Planes) -> Ring:
    """The product of batches of matrices."""
    n, (left, right) = a.real.shape[-1], ((x.real, x.error if bool(x.error.any()) else None) for x in (a, b))
    f32 = DType.F32
    real, error = rounding.contracted(left, right, (f32, f32), "...ij,...jk->...ik", max(n, 1))
    p, q = field.multiplied(a.p, b.p, P), field.multiplied(a.q.clamp(min=0), b.q.clamp(min=0), Q)
    absent = (a.q < 0).any(-1)[..., None] | (b.q < 0).any(-2)[..., None, :]
    unsure = a.unsure.any(-1)[..., None] | b.unsure.any(-2)[..., None, :]
    error = torch.zeros_like(real) if error is None else error
    return Ring(Planes(real, error, unsure, p, torch.where(absent, ABSENT, q)))


@_step("sum")
def summed(a: Planes, at: int) -> Ring:
    """The sum along a dimension."""
    real, error = rounding.summed(a.real, a.error if bool(a.error.any()) else None, at)
    q = torch.where((a.q < 0).any(at), ABSENT, a.q.sum(at) % Q)
    error = torch.zeros_like(real) if error is None else error
    return Ring(Planes(real, error, a.unsure.any(at), a.p.sum(at) % P, q))


# ---------------------------------------------------------------- choices


def same(a: Planes, b: Planes) -> Tensor:
    """Return where payloads are equal, so that either one can be taken."""
    known = (a.q == b.q) | (a.q < 0) | (b.q < 0)
    numbers = (a.p == b.p) & known & a.real.isfinite() & b.real.isfinite()
    return numbers | (a.real.isinf() & (a.real == b.real)) | (a.real.isnan() & b.real.isnan())


@_step("chosen")
def chosen(condition: Planes, a: Planes, b: Planes) -> Ring:
    """The first where the condition is true, else the second."""
    open_ = condition.unsure & (~same(a, b) | a.unsure | b.unsure)
    pairs = ((a.real, b.real), (a.error, b.error), (a.unsure, b.unsure), (a.p, b.p), (a.q, b.q))
    real, error, unsure, p, q = (torch.where(condition.real, x, y) for x, y in pairs)
    if real.dtype is torch.bool:
        open_ = condition.unsure & (a.real != b.real)
    return Ring(Planes(real, error, unsure | open_, p, q))


def compared(name: str, a: Planes, b: Planes) -> Tensor:
    """A comparison of real numbers."""
    value, turns = _bounded(name, a, b)
    unsure = a.unsure | b.unsure
    return truth(value, unsure if turns is None else unsure | (turns > 0))


@_step("max of two")
def extreme(a: Planes, b: Planes, least: bool) -> Ring:
    """The larger (or smaller) one; of a number and NaN the number. Of equal ones either may be taken."""
    first = (a.real <= b.real if least else a.real >= b.real) | b.real.isnan()
    apart = (a.real - b.real).abs()
    near = (apart <= a.error + b.error) | (a.real == b.real)
    return chosen(Planes(first, a.error, near, a.p, a.q), a, b)


@_step("max")
def reduced(a: Planes, at: int, least: bool) -> Ring:
    """The largest (or smallest) along a dimension. Another one as large within the bounds makes it unsure."""
    missing = torch.inf if least else -torch.inf
    numbers = torch.where(a.real.isnan(), missing, a.real)
    place = (numbers.argmin(at) if least else numbers.argmax(at)).unsqueeze(at)
    top = a.each(lambda x: x.gather(at, place))
    near = ((numbers - top.real).abs() <= a.error + top.error) | (numbers == top.real)
    tie = (near & ~same(a, top)).any(at)
    found = top.each(lambda x: x.squeeze(at))
    # where all payloads that may be meant are unsure themselves, so is the result
    others = (near & a.unsure).any(at)
    return Ring(Planes(found.real, found.error, found.unsure | tie | others, found.p, found.q))


def in_order(a: Planes, at: int, descending: bool) -> tuple[Ring, Tensor]:
    """The numbers in order along a dimension, and the place of each. Another one as large makes it unsure."""
    places = torch.sort(a.real, dim=at, descending=descending, stable=True).indices
    found = a.each(lambda x: x.gather(at, places))
    count = a.real.shape[at]
    unsure = found.unsure.clone()
    before, after = (found.each(partial(torch.narrow, dim=at, start=n, length=count - 1)) for n in (0, 1))
    near = ((before.real - after.real).abs() <= before.error + after.error) | (before.real == after.real)
    tie = near & (~same(before, after) | before.unsure | after.unsure)
    for n in (0, 1):
        unsure.narrow(at, n, count - 1).logical_or_(tie)
    return Ring(Planes(found.real, found.error, unsure, found.p, found.q)), places


def placed(of: Ring, places: Tensor) -> Ring:
    """Places of numbers, as unsure as these are."""
    made = plain(places.double()).planes
    return Ring(Planes(made.real, made.error, made.unsure | of.planes.unsure, made.p, made.q))


def magnitude(a: Planes) -> Ring:
    """Without its sign."""
    negative = Planes(a.real < 0, a.error, (a.real.abs() <= a.error) & (a.error > 0), a.p, a.q)
    found = chosen(negative, negated(a).planes, a).planes
    return Ring(Planes(a.real.abs(), found.error, found.unsure, found.p, found.q))


def whole(a: Planes, to: Callable[[Tensor], Tensor]) -> Ring:
    """An integer made of it, which is what it is: no rounding, for where it jumps something hangs on it."""
    real = to(a.real)
    unsure = a.unsure
    if bool(a.error.any()):
        unsure = unsure | (to(a.real - a.error) != real) | (to(a.real + a.error) != real)
    made = plain(real).planes
    return Ring(Planes(made.real, made.error, unsure, made.p, made.q))


def converted(a: Planes, dtype: DType) -> Ring:
    """Rounded to a type of tensors: the payload stays; an integer is what it is.

    What floats of 8 bits do not hold is the largest number that they do: code takes the smaller one before it converts.
    Conversions to smaller ones may do so by themselves, which leaves the payload: either may be.
    """
    if dtype.whole:
        return whole(a, lambda t: rounding.rounded(t, dtype).double())
    if dtype.in_blocks:
        a = Planes(a.real, a.error, a.unsure | (a.real.abs() + a.error >= dtype.largest), a.p, a.q)
    if dtype.encoded:
        most = plain(torch.tensor(dtype.largest)).planes
        within = extreme(extreme(a, most, True).planes, negated(most).planes, False).planes
        finite = Planes(a.real.isfinite(), a.error, torch.zeros_like(a.unsure), a.p, a.q)
        a = chosen(finite, within, a).planes
    real, error = rounding.converted(a.real, a.error if bool(a.error.any()) else None, dtype)
    return Ring(Planes(real, torch.zeros_like(real) if error is None else error, a.unsure, a.p, a.q))


def stored(a: Planes, dtype: DType) -> Ring:
    """The same in memory, where an integer has the payload of what was rounded."""
    found = converted(a, dtype)
    if not dtype.whole:
        return found
    made = found.planes
    finite = a.real.isfinite()
    p, q = torch.where(finite, a.p, made.p), torch.where(finite, a.q, made.q)
    return Ring(Planes(made.real, made.error, made.unsure, p, q))


def rounded(a: Planes, to: Callable[[Tensor], Tensor]) -> Ring:
    """As a type that holds less: the payload stays. `to` is monotonous."""
    real = to(a.real).double()
    if not bool(a.error.any()):
        return Ring(Planes(real, a.error, a.unsure, a.p, a.q))
    low, high = (to(a.real + sign * a.error).double() for sign in (-1, 1))
    error = torch.maximum((high - real).abs(), (real - low).abs())
    return Ring(Planes(real, torch.where(error.isnan(), 0.0, error), a.unsure, a.p, a.q))
