"""The distance of f32 arithmetic from exact arithmetic: the running error analysis of `tkgen.ir.meaning`.

Every number has a bound on its error, an absolute one, element by element; None says that all of it is exact. Each rule
takes the arguments' values and bounds to the result's.

- **A function** hands on each argument's error times the largest of its slopes at the corners of what the arguments may
  be (Higham, Accuracy and Stability of Numerical Algorithms, section 3.3, where the slope at the value itself is
  taken), and adds its own: half an ulp of what is rounded once, else what `Function` states. Where all arguments are
  exact, an operation that rounds to nearest is off by exactly that rounding; where one is infinite, the result is one
  that the machine gives exactly. An infinite result stays so unless another corner says otherwise. The bound thus
  holds to first order between the corners, and beyond all orders at them.
- **A function that jumps**, or whose slope has no bound (the square root at zero), is off by as much as it is apart at
  the ends of what its argument may be.
- **A remainder** is off by as much as its divisor where the quotient may have another integer part.
- **What an argument cannot be** is no end of it: a magnitude is not negative, `abs(x) + 1` is not below one.
- **A conversion** is monotonous: numbers within the argument's bound round to within the rounded ends of it. To an
  8-bit float what is finite becomes at most the largest finite number, infinity a NaN where the encoding has none; to a
  integer at most the largest one, NaN the least.
- **A sum of n terms** in any order has n - 1 roundings of partial sums, each by at most u = 2^-24 of one, independent
  of each other and of mean zero, so that their sum is beyond t u sqrt(n) times the largest partial sum with a
  probability of at most 2 exp(-t^2 / 2) (Higham and Mary, "A new approach to probabilistic rounding error analysis",
  SIAM J. Sci. Comput. 41, 2019); it is never beyond n - 1 times u of that. A partial sum is at most the sum of all
  magnitudes, and, where the order knows nothing of the signs, beyond the whole sum by more than t sqrt(sum x^2) as
  rarely (the same, "Sharper probabilistic backward error analysis for basic linear algebra kernels with random data",
  42, 2020).
- **A sum of products** likewise, with 2 n roundings: t^2 u sqrt(2 n) sqrt(sum (a b)^2), which grows like n; the worst
  case over all signs, n u sum |a b| (Higham, section 4.2), grows like n^2 and hides a lost part of a long sum. At
  t^2 = 80 one element in 10^12 is beyond it at n = 32768.
- **A sum of products that starts at another number** c, as matrix units add to what is there (`o * r + P @ V`), rounds
  c with each partial sum: min(n, t sqrt(n)) u |c| more. Products whose sum would be exact are so only onto a c that is
  a multiple of their unit too; else their partial sums round like those of any sum.
- **Subnormal factors** that matrix units take for zero (f16 on CDNA2) may be off by all that they are.
- **Exact sums**: whole multiples of a power of two, few and small enough that every partial sum is one that f32 holds
  (2^24 of them), have no error in any order; matrix units that align to the largest addend with 24 bits or more too.
  Matrix units that keep fewer bits (`tkgen.ir.short_sums`) add as many multiples exactly as these bits count.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import product
from math import ceil, frexp, isfinite, isqrt, log2, prod, sqrt

import torch
from torch import Tensor

from tkgen import mx
from tkgen.ir import tensors
from tkgen.ir.functions import CDNA, Function
from tkgen.ir.short_sums import DEVIATIONS_SQUARED, cut_off
from tkgen.ir.types import DType
from tkgen.packing import unpack
from tkgen.targets import ShortSums

TORCH = {
    DType.BF16: torch.bfloat16, DType.F16: torch.float16, DType.F32: torch.float32,
    DType.E4M3FN: torch.float8_e4m3fn, DType.E4M3FNUZ: torch.float8_e4m3fnuz,
    DType.E5M2: torch.float8_e5m2, DType.E5M2FNUZ: torch.float8_e5m2fnuz,
    DType.E8M0: torch.float8_e8m0fnu, DType.I4: torch.uint8, DType.U4: torch.uint8, DType.I8: torch.int8,
    DType.I32: torch.int32, DType.E2M1: torch.uint8, DType.E2M3: torch.uint8, DType.E3M2: torch.uint8,
}  # fmt: skip
SIGNIFICANDS = {
    torch.bfloat16: 8, torch.float16: 11, torch.float32: 24, torch.float8_e4m3fn: 4, torch.float8_e4m3fnuz: 4,
    torch.float8_e5m2: 3, torch.float8_e5m2fnuz: 3, torch.float8_e8m0fnu: 1, torch.int8: 7, torch.int32: 31,
}  # bits, the leading one counted  # fmt: skip
UNIT_ROUNDOFF = 2.0**-24  # of f32
LEAST = 2.0**-126  # the least normal number of f32
LARGEST = (2 - 2.0**-24) * 2.0**127  # from here on f32 rounds to infinity
EXACT_SUM = 2**24  # f32 holds all whole numbers up to this one
PIECE = 2**17  # elements that functions are computed of at once
SOME = 0x77  # what stands in each byte of packed floats before a kernel writes them

Bounded = tuple[Tensor, Tensor | None]
"""Values in f64 (or bool) and a bound on each one's error; None where all are exact."""


def f32(value: float) -> float:
    """The number of f32 that is nearest."""
    return float(torch.tensor(value, dtype=torch.float32))


def ulp(values: Tensor, dtype: torch.dtype) -> Tensor:
    """The unit in the last place that numbers of `dtype` have where `values` lie."""
    if not dtype.is_floating_point:
        return torch.ones_like(values, dtype=torch.float64)
    least = torch.finfo(dtype).tiny
    exponent = torch.frexp(values.abs().double().clamp(min=least)).exponent
    return torch.ldexp(torch.ones_like(exponent, dtype=torch.float64), exponent - SIGNIFICANDS[dtype])


def spacing(values: Tensor, dtype: DType) -> Tensor:
    """The same of a float of less than 8 bits, which has no number beyond its largest."""
    form = mx.format_of(dtype.spelling)
    least = torch.tensor(2.0 ** (1 - form.bias), dtype=torch.float64)
    exponent = torch.frexp(values.abs().double().clamp(min=least.item(), max=dtype.largest)).exponent - 1
    return torch.ldexp(torch.ones_like(exponent, dtype=torch.float64), exponent - form.fraction)


def known(*errors: Tensor | None) -> list[Tensor]:
    """Those that are there."""
    return [e for e in errors if e is not None]


def overflowed(value: Tensor) -> Tensor:
    """Infinite where f32 is."""
    if _below(value, LARGEST):
        return value
    return torch.where(value.abs() >= LARGEST, value.sign() * torch.inf, value)


def _below(values: Tensor, limit: float) -> bool:
    """Return True if all magnitudes are below `limit` and none is NaN; it reads the values once."""
    if type(values) is not Tensor or not values.numel():
        return False
    least, most = (float(end) for end in torch.aminmax(values))
    return -limit < least and most < limit


# ---------------------------------------------------------------- functions


def applied(
    f: Function, arguments: Sequence[Bounded], back_end: str = CDNA, least: Sequence[float | None] = ()
) -> Bounded:
    """A function of arguments that are aligned to one another, as a back end's code computes it.

    `least` says which numbers, zero or positive, the code's arguments are not below: their errors do not lead there.
    Many elements are taken in pieces: what a bound is made of would take the memory of twenty tensors.
    """
    shape = torch.broadcast_shapes(*(v.shape for v, _ in arguments))
    at = next((n for n, size in enumerate(shape) if size > 1), None)
    if at is None or prod(shape) <= PIECE:
        return _applied(f, arguments, back_end, least)
    count = max(1, PIECE * shape[at] // prod(shape))
    found = [
        _applied(f, [_cut(a, at - len(shape), first, count) for a in arguments], back_end, least)
        for first in range(0, shape[at], count)
    ]
    value = torch.cat([v for v, _ in found], at)
    if all(error is None for _, error in found):
        return value, None
    return value, torch.cat([torch.zeros_like(v, dtype=torch.float64) if e is None else e for v, e in found], at)


def _cut(argument: Bounded, at: int, first: int, count: int) -> Bounded:
    """`count` places of a dimension, counted from the last, from `first` on; all of what is one number along it."""

    def cut(tensor: Tensor) -> Tensor:
        one = tensor.dim() < -at or tensor.shape[at] == 1
        return tensor if one else tensor.narrow(at, first, min(count, tensor.shape[at] - first))

    value, error = argument
    return cut(value), None if error is None else cut(error)


def _applied(f: Function, arguments: Sequence[Bounded], back_end: str, least: Sequence[float | None]) -> Bounded:
    values = [v for v, _ in arguments]
    value = f.meaning(*values)
    if f.predicate:
        return value, _may_turn(f, arguments)
    value = overflowed(value)
    handed = _handed_on(f, arguments, least)
    parts = known(handed, _own(f, values, value, handed, back_end))
    error = sum(parts[1:], start=parts[0]).expand_as(value) if parts else torch.zeros_like(value)
    if not _below(error, torch.inf):
        error = torch.where(error.isnan(), torch.inf, error)
    if not _below(value, torch.inf):
        unbounded = ~value.isfinite()
        error = torch.where(unbounded, torch.where(_stays(f, arguments, value, least), 0.0, torch.inf), error)
    return value, error if bool(error.any()) else None


def _corners(arguments: Sequence[Bounded], least: Sequence[float | None]) -> list[list[Tensor]]:
    """The arguments at the ends of their bounds: every combination; a predicate as it is and as it may be."""
    ends = []
    for (value, error), bound in zip(arguments, [*least, *[None] * len(arguments)], strict=False):
        if error is None:
            ends.append([value])
        elif value.dtype == torch.bool:
            ends.append([value, value ^ (error > 0)])
        else:
            low = value - error
            ends.append([low if bound is None else torch.minimum(value, low.clamp(min=bound)), value + error])
    return [list(corner) for corner in product(*ends)]


def _flushed(f: Function, arguments: Sequence[Bounded]) -> Sequence[Bounded]:
    """Arguments that may count as zero are off by all that they are."""
    if not f.flushes:
        return arguments
    result = []
    for value, error in arguments:
        small = torch.where(value.abs() < LEAST, value.abs(), 0.0)
        both = sum(known(error), start=small)
        result.append((value, both if bool(both.any()) else None))
    return result


def _handed_on(f: Function, arguments: Sequence[Bounded], least: Sequence[float | None]) -> Tensor | None:
    """The arguments' errors as they reach the result."""
    arguments = _flushed(f, arguments)
    if not known(*(e for _, e in arguments)):
        return None
    corners = [[v for v, _ in arguments], *_corners(arguments, least)]
    if f.jumps or f.steep:
        value, *ends = (f.meaning(*corner) for corner in corners)
        apart = [torch.where(end == value, 0.0, (end - value).abs()) for end in ends]
        return torch.stack(apart).amax(0)
    slopes: list[Tensor] = []
    for corner in corners:
        here = f.slopes(*corner)
        slopes = [torch.fmax(s, h) for s, h in zip(slopes, here, strict=True)] if slopes else list(here)
    parts = [_times(e, s) for (_, e), s in zip(arguments, slopes, strict=True) if e is not None]
    handed: Tensor = sum(parts[1:], start=parts[0])
    if f.tooth is None:
        return handed
    teeth = [f.tooth(*corner) for corner in corners]
    elsewhere = torch.stack([tooth != teeth[0] for tooth in teeth]).any(0)
    height: Tensor = torch.stack([corner[1].abs().expand(handed.shape) for corner in corners]).amax(0)
    return torch.where(elsewhere, height, handed)


def _times(error: Tensor, slope: Tensor) -> Tensor:
    """No error stays none however steep the function, and a finite one vanishes where it is flat."""
    return torch.where(error == 0, 0.0, error * slope)


def _own(f: Function, values: Sequence[Tensor], value: Tensor, handed: Tensor | None, back_end: str) -> Tensor | None:
    """Return the error of the function itself, as the code of a back end has it."""
    if not (f.ulps or f.growth or f.below):
        return None
    reach = value.abs()
    if handed is not None:
        reach = reach + (handed if _below(handed, torch.inf) else torch.where(handed.isfinite(), handed, 0.0))
    if f.rounds:
        nearest = (value - value.float().double()).abs() * (1 + 2.0**-20)  # f64 rounds sums, too
        bound = UNIT_ROUNDOFF * reach + 2.0**-150
        own = nearest if handed is None else torch.where(handed == 0, nearest, bound)
    else:
        units = f.ulps + f.beyond.get(back_end, 0.0) + (f.growth * f.size(*values) if f.growth else 0.0)
        own = units * ulp(reach, torch.float32) + f.below + f.more.get(back_end, 0.0)
    for v in values:
        if not _below(v, torch.inf):
            own = torch.where(v.isinf(), 0.0, own)
    return own


def _may_turn(f: Function, arguments: Sequence[Bounded]) -> Tensor | None:
    """One where a predicate may be the other because its arguments are off, else zero."""
    slopes = f.slopes(*(v for v, _ in arguments))
    parts = [_times(e, s) for (_, e), s in zip(arguments, slopes, strict=True) if e is not None]
    if not parts:
        return None
    turns = (sum(parts[1:], start=parts[0]) >= 1).double()
    return turns if bool(turns.any()) else None


def _stays(f: Function, arguments: Sequence[Bounded], value: Tensor, least: Sequence[float | None]) -> Tensor:
    """Return where a value that is no finite number is the same at all corners."""
    same = torch.ones_like(value, dtype=torch.bool)
    for corner in _corners(arguments, least):
        other = overflowed(f.meaning(*corner))
        same &= (other == value) | (other.isnan() & value.isnan())
    return same


# ---------------------------------------------------------------- conversions


def rounded(value: Tensor, dtype: DType) -> Tensor:
    """Numbers as `dtype` holds them, rounded from f32 to nearest even; where it is packed, the numbers themselves.

    Formats without NaN have zero for it.
    """
    to = TORCH[dtype]
    if dtype.in_blocks:
        codes = mx.encode(value.float().nan_to_num(0.0, torch.inf, -torch.inf), dtype.spelling)
        return mx.decode(codes, dtype.spelling)
    if dtype.whole:
        info = torch.iinfo(to)
        return value.float().double().nan_to_num(info.min).round().clamp(info.min, info.max).to(to)
    if not dtype.encoded:
        return value.to(to)
    most = torch.finfo(to).max
    result = value.float().clamp(-most, most).to(to)
    if dtype is DType.E5M2:
        return torch.where(value.float().isinf(), value.float(), result.float()).to(to)
    return torch.where(value.float().isfinite(), result.float(), torch.nan).to(to)


def numbers(memory: Tensor, tensor: tensors.Tensor) -> Tensor:
    """Decode the memory of a tensor: one value for each element."""
    if not tensor.dtype.packed:
        return memory
    if tensor.dtype.in_blocks:
        return mx.unpack(memory, tensor.dtype.spelling)
    return unpack(memory, tensor.dtype.spelling, interleaved=tensor.interleaved)


def held(values: Tensor, dtype: DType) -> Tensor:
    """Numbers that a type has as memory holds them: the other way round, except for integers that are packed."""
    if dtype.in_blocks:
        return mx.pack(values, dtype.spelling).view(TORCH[dtype])
    return values.to(TORCH[dtype])


def normal(shape: Sequence[int], dtype: DType, generator: torch.Generator) -> Tensor:
    """Normally distributed numbers without subnormals; whole ones and powers of two with a deviation of 32 and 2.

    What is packed is made of any bytes.
    """
    if dtype.packed:
        return torch.randint(0, 256, tuple(shape), generator=generator, dtype=torch.uint8)
    values = torch.randn(tuple(shape), generator=generator)
    if dtype is DType.E8M0:
        return torch.exp2((2 * values).round()).to(TORCH[dtype])
    if dtype.whole:
        return rounded(32 * values, dtype)
    tiny = torch.finfo(TORCH[dtype]).tiny
    values = rounded(values, dtype).float()
    return torch.where(values.abs() < tiny, 0, values).to(TORCH[dtype])


def unwritten(shape: Sequence[int], dtype: DType) -> Tensor:
    """A tensor of which `is_unwritten` is true everywhere: NaN, of integers the least one.

    Floats that are packed have no NaN: some numbers but zero.
    """
    if dtype.in_blocks:
        return torch.full(tuple(shape), SOME, dtype=TORCH[dtype])
    if dtype.whole:
        return torch.full(tuple(shape), torch.iinfo(TORCH[dtype]).min, dtype=TORCH[dtype])
    return torch.full(tuple(shape), torch.nan, dtype=TORCH[dtype])


def is_unwritten(tensor: Tensor) -> Tensor:
    """Return a mask of the elements of an `unwritten` tensor to which nothing was stored."""
    if tensor.is_floating_point():
        return tensor.float().isnan()
    if tensor.dtype is torch.uint8:
        return tensor == SOME
    return tensor == torch.iinfo(tensor.dtype).min


def converted(value: Tensor, error: Tensor | None, dtype: DType) -> Bounded:
    """Rounded to `dtype` from f32, to nearest even."""
    nearest = rounded(value, dtype).double()
    if error is None:
        return nearest, None
    low, high = (rounded(value + sign * error, dtype).double() for sign in (-1, 1))
    off = torch.maximum(high - nearest, nearest - low)
    off = torch.where((low == nearest) & (high == nearest), 0.0, off)
    return nearest, torch.where(off.isnan(), torch.inf, off)


def stored(value: Tensor, error: Tensor | None, dtype: DType) -> Tensor:
    """Bound the difference between a value and what a store as `dtype` leaves of it."""
    bound = torch.zeros_like(value) if error is None else error
    if dtype.whole:
        bound = bound + torch.where(bound == 0, (value - value.round()).abs(), 0.5)
    elif dtype.in_blocks:
        bound = bound + spacing(value.abs() + bound, dtype) / 2
    elif dtype is not DType.F32:
        bound = bound + ulp(value.abs() + bound, TORCH[dtype]) / 2
    return torch.where(value.isfinite() | (bound == torch.inf), bound, 0.0)


# ---------------------------------------------------------------- sums


def summed(value: Tensor, error: Tensor | None, dim: int) -> Bounded:
    """The sum along a dimension, in any order."""
    total, n = value.sum(dim), value.shape[dim]
    magnitude = value.abs().sum(dim)
    if error is None and _is_whole(value, float(magnitude.max()) if magnitude.numel() else 0.0):
        return overflowed(total), None
    t = sqrt(DEVIATIONS_SQUARED)
    partial = torch.minimum(magnitude, total.abs() + t * value.square().sum(dim).sqrt())
    if error is not None:
        partial = partial + error.sum(dim)
    bound = min(max(n - 1, 0), t * sqrt(n)) * UNIT_ROUNDOFF * partial
    if error is not None:
        bound = bound + error.sum(dim)
    total = overflowed(total)
    return total, torch.where(total.isfinite(), torch.where(bound.isnan(), torch.inf, bound), 0.0)


def _is_whole(value: Tensor, largest: float) -> bool:
    """Return True if all elements are multiples of a power of two of which f32 holds every multiple up to `largest`."""
    if not isfinite(largest):
        return False
    scaled = value * EXACT_SUM / 2.0 ** frexp(largest)[1]
    return bool((scaled == scaled.round()).all())


def extreme(value: Tensor, error: Tensor | None, dim: int, least: bool) -> Bounded:
    """The largest (or least) along a dimension, of numbers and NaNs the largest number."""

    def most(numbers: Tensor) -> Tensor:
        missing = torch.inf if least else -torch.inf
        numbers = torch.where(numbers.isnan(), missing, numbers)
        return numbers.amin(dim) if least else numbers.amax(dim)

    result = most(value)
    if type(value) is Tensor and bool((result == 0).any()):  # of zeros +0 is the largest, -0 the least
        there = ((value == 0) & (value.signbit() == least)).any(dim)
        result = torch.where(result == 0, torch.where(there, -0.0 if least else 0.0, 0.0 if least else -0.0), result)
    if error is None:
        return result, None
    off = torch.maximum(most(value + error) - result, result - most(value - error))
    return result, torch.where(off.isnan(), 0.0, off)


def exact_grid(dtype: DType, n: int, exact: int = EXACT_SUM) -> tuple[int, float]:
    """The largest multiple and the unit of exact factors: no sum of `n` of their products rounds where `exact` of
    their multiples are held."""
    most = isqrt(exact // max(n, 1))
    if dtype.in_blocks:  # of few exponents: multiples of the least number
        significand = 1 + mx.FORMATS[dtype.spelling].fraction
        return max(1, min(2**significand, most)), float(mx.decode(torch.tensor([1]), dtype.spelling))
    limit = max(1, min(2 ** SIGNIFICANDS[TORCH[dtype]] - dtype.whole, most))
    return limit, 1.0 if dtype.whole else 2.0 ** (1 - limit.bit_length())


def on_grid(values: Tensor, dtype: DType, n: int, exact: int = EXACT_SUM) -> bool:
    """Return True if these are exact factors, of any scale."""
    limit, _ = exact_grid(dtype, n, exact)
    largest = float(values.abs().max()) if values.numel() else 0.0
    if not isfinite(largest) or limit**2 * n > exact:
        return False
    scaled = values / 2.0 ** ceil(log2(largest / limit)) if largest else values
    return bool((scaled == scaled.round()).all())


def exact_sums(dtypes: Sequence[DType], short: ShortSums | None) -> int:
    """Up to how many multiples of a unit sums of products of such factors are exact; `short` says how 8-bit floats are
    summed by matrix units that keep fewer bits than f32."""
    return 2 ** (short.fraction + 1) if short and all(d.encoded for d in dtypes) else EXACT_SUM


def _least(dtype: DType) -> float:
    return float(torch.finfo(TORCH[dtype]).tiny)


def contracted(
    left: Bounded,
    right: Bounded,
    dtypes: tuple[DType, DType],
    equation: str,
    n: int,
    short: ShortSums | None = None,
    flushed: Collection[DType] = (),
) -> Bounded:
    """The sum of `n` products: `equation` is einsum's, over the two factors; `short` as for `exact_sums`.

    Subnormal factors of types that are `flushed` count as zero, or as what they are.
    """  # fmt: skip
    (a, a_error), (b, b_error) = (
        _or_zero(*side, dtype) if dtype in flushed else side for side, dtype in zip((left, right), dtypes, strict=True)
    )
    exact = a_error is None and b_error is None
    if exact and all(d.whole for d in dtypes):  # summed exactly, in i32; then a number
        total = torch.einsum(equation, a, b)
        rounding = total - total.float().double()
        return total, rounding.abs() if bool(rounding.any()) else None
    most = exact_sums(dtypes, short)
    if exact and all(on_grid(v, d, n, most) for v, d in zip((a, b), dtypes, strict=True)):
        return torch.einsum(equation, a.float(), b.float()).double(), None
    value = overflowed(torch.einsum(equation, a, b))
    squares = torch.einsum(equation, a.square().float(), b.square().float()).sqrt().double()
    bound = DEVIATIONS_SQUARED * UNIT_ROUNDOFF * sqrt(2 * n) * squares
    if short and all(d.encoded for d in dtypes):
        bound = bound + cut_off(a, b, equation, short, (_least(dtypes[0]), _least(dtypes[1])))
    if a_error is not None:
        reach = b.abs() if b_error is None else b.abs() + b_error
        bound = bound + torch.einsum(equation, a_error, reach)
    if b_error is not None:
        bound = bound + torch.einsum(equation, a.abs(), b_error)
    return value, torch.where(value.isfinite(), torch.where(bound.isnan(), torch.inf, bound), 0.0)


def _or_zero(value: Tensor, error: Tensor | None, dtype: DType) -> Bounded:
    """Numbers of a type of which those that are subnormal, or may be, may be zero: off by themselves."""
    size = value.abs() if error is None else value.abs() + error
    least = value.abs() if error is None else (value.abs() - error).clamp(min=0.0)
    lost = torch.where((least < _least(dtype)) & (size > 0), size.clamp(max=_least(dtype)), 0.0)
    return value, error if not bool(lost.any()) else sum(known(error), start=lost)


def partial_sums(
    left: Bounded, right: Bounded, dtypes: tuple[DType, DType], equation: str, n: int, short: ShortSums | None = None,
    flushed: Collection[DType] = (),
) -> Bounded:  # fmt: skip
    """Bound the partial sums of such products, except a few in 10^17, with the largest possible partial sum beside."""
    a, b = left[0].abs(), right[0].abs()
    most = torch.einsum(equation, a, b)
    spread = torch.einsum(equation, a.square(), b.square()).sqrt()
    total = torch.einsum(equation, left[0], right[0]).abs()
    return torch.minimum(most, total + sqrt(DEVIATIONS_SQUARED) * spread), most


def started(start: Bounded, reach: Bounded, n: int, grid: float) -> Tensor:
    """Bound the additional rounding of `n` partial sums where their sum starts at `start`, not at zero.

    `reach` are `partial_sums` of products whose sum from zero is exact, multiples of `grid`: from a start that is one
    as well it is so too, as long as f32 holds it. Of other products zero: their own partial sums are counted already.
    """
    value, error = start
    partial, most = reach
    size = value.abs() if error is None else value.abs() + error
    bound = min(n, sqrt(DEVIATIONS_SQUARED * n)) * UNIT_ROUNDOFF * torch.where(size == 0, 0.0, size + partial)
    if most is None:
        return bound
    exact = (value / grid == (value / grid).round()) & (size + most <= EXACT_SUM * grid)
    return torch.where(exact if error is None else exact & (error == 0), 0.0, bound)


def unit(values: Tensor) -> float:
    """The largest power of two of which all of these are multiples; 1 of zeros."""
    mantissa, exponent = torch.frexp(values[values != 0].double())
    whole = torch.ldexp(mantissa, torch.tensor(53)).long()
    exponents = exponent - 54 + torch.frexp((whole & -whole).double()).exponent
    return 2.0 ** int(exponents.min()) if exponents.numel() else 1.0
