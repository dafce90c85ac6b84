"""Functions that the pseudo-code calls."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache

from pcode.operations import bfloat, binary, is_denormal, resized
from pcode.values import B, Env, F, Value, bits_of, exactly, float_of, fma, number, raw, rounded


def exponent(x: F) -> int:
    fraction, mask = {16: (10, 31), 32: (23, 255), 64: (52, 2047)}[x.width]
    return bits_of(x.value, x.width) >> fraction & mask


def is_signalling(x: F) -> bool:
    return x.signals


def to_int(low: int, high: int) -> Callable[[F], int]:
    def convert(x: F) -> int:
        if math.isnan(x.value):
            return 0
        if math.isinf(x.value):
            return high if x.value > 0 else low
        return max(low, min(high, math.trunc(x.value)))

    return convert


def maybe(f: Callable[[float], float]) -> Callable[[F], F]:
    def run(x: F) -> F:
        try:
            return rounded(f(x.value), x.width)
        except ValueError:
            return F(x.width, math.nan)
        except OverflowError:
            return F(x.width, x.value if not math.isnan(x.value) else math.nan)

    return run


def root(x: float) -> float:
    return math.sqrt(x) if x >= 0 or x == 0 else math.nan


def log2(x: float) -> float:
    return math.nan if x < 0 or math.isnan(x) else -math.inf if x == 0 else math.log2(x) if math.isfinite(x) else x


def whole(f: Callable[[float], int]) -> Callable[[F], F]:
    return lambda x: F(x.width, math.copysign(float(f(x.value)), x.value) if math.isfinite(x.value) else x.value)


def minimum(a: F, b: F) -> F:
    if math.isnan(a.value):
        return b
    if math.isnan(b.value):
        return a
    if a.value == b.value:
        return a if math.copysign(1, a.value) < 0 else b
    return a if a.value < b.value else b


def maximum(a: F, b: F) -> F:
    if math.isnan(a.value):
        return b
    if math.isnan(b.value):
        return a
    if a.value == b.value:
        return b if math.copysign(1, a.value) < 0 else a
    return a if a.value > b.value else b


def strict(f: Callable[[F, F], F]) -> Callable[..., F]:
    def run(*xs: F) -> F:
        if any(math.isnan(x.value) for x in xs):
            return F(xs[0].width, math.nan)
        out = xs[0]
        for x in xs[1:]:
            out = f(out, x)
        return out

    return run


def half_toward(x: F) -> F:
    return rounded(x.value, 16)


def normal(scale: int, low: float) -> Callable[[F], int]:
    def run(x: F) -> int:
        v = 0.0 if math.isnan(x.value) else max(low, min(1.0, x.value))
        return round(v * scale) & 0xFFFF

    return run


def bytes_of(x: Value) -> list[int]:
    return list(raw(x, 32).to_bytes(4, "little"))


def sad(a: Value, b: Value, c: Value) -> int:
    return number(c) + sum(abs(x - y) for x, y in zip(bytes_of(a), bytes_of(b), strict=True))


def masked_sad(a: Value, b: Value, c: Value) -> int:
    return number(c) + sum(abs(x - y) for x, y in zip(bytes_of(a), bytes_of(b), strict=True) if y)


def mantissa(x: F) -> F:
    return rounded(math.frexp(x.value)[0], x.width)


def ldexp(x: F, n: Value) -> F:
    try:
        return rounded(math.ldexp(x.value, number(n)), x.width)
    except OverflowError:
        return F(x.width, math.copysign(math.inf, x.value))


def power(a: F, b: F) -> F:
    try:
        return rounded(a.value**b.value, b.width)
    except OverflowError:
        return F(b.width, math.inf)


def signext(x: Value) -> int:
    return number(x)


def signext_from_bit(x: Value, n: Value) -> int:
    n = number(n)
    v = number(x) & ((1 << n) - 1)
    return v - (1 << n) if n and v >> (n - 1) else v


def at_random(kept: int) -> Callable[[F, Value], Value]:
    """Stochastic rounding of an f32 to `kept` mantissa bits: random bits below them are added, then it is cut."""

    def convert(x: F, random: Value) -> Value:
        if not math.isfinite(x.value):
            return resized(x, 16) if kept == 10 else bfloat(x)
        bits = bits_of(x.value, 32) + (number(random) >> 9 + kept) & 0xFFFFFFFF
        if bits >> 23 & 255 == 255:  # out of range
            bits = bits >> 23 << 23
        if kept == 7:
            return B(16, bits >> 16)
        cut = F(32, float_of(bits, 32))
        return to_half({"ROUND_MODE": 3, "ROUND_TOWARD_ZERO": 3}, cut)

    return convert


def of_integers(f: Callable[..., int]) -> Callable[..., int]:
    return lambda *xs: f(number(x) for x in xs)


FUNCTIONS: dict[str, Callable[..., Value]] = (
    {
        "fma": fma,
        "abs": lambda x: (
            F(x.width, abs(x.value), x.nan & (1 << x.width - 1) - 1) if isinstance(x, F) else abs(number(x))
        ),
        "floor": whole(math.floor),
        "trunc": whole(math.trunc),
        "fract": lambda x: F(x.width, x.value - math.floor(x.value) if math.isfinite(x.value) else math.nan),
        "isEven": lambda x: math.isfinite(x.value) and math.fmod(x.value, 2) == 0,
        "sqrt": maybe(root),
        "sin": maybe(math.sin),
        "cos": maybe(math.cos),
        "log2": maybe(log2),
        "pow": power,
        "ldexp": ldexp,
        "exponent": exponent,
        "mantissa": mantissa,
        "sign": lambda x: raw(x, x.width) >> x.width - 1,
        "isNAN": lambda x: math.isnan(x.value),
        "isSignalNAN": is_signalling,
        "isQuietNAN": lambda x: math.isnan(x.value) and not x.signals,
        "cvtToQuietNAN": lambda x: F(x.width, x.value),
        "signext": signext,
        "signext_from_bit": signext_from_bit,
        "f32_to_i32": to_int(-(1 << 31), (1 << 31) - 1),
        "f32_to_u32": to_int(0, (1 << 32) - 1),
        "f64_to_i32": to_int(-(1 << 31), (1 << 31) - 1),
        "f64_to_u32": to_int(0, (1 << 32) - 1),
        "f16_to_i16": to_int(-(1 << 15), (1 << 15) - 1),
        "f16_to_u16": to_int(0, (1 << 16) - 1),
        "f32_to_u8": lambda x: to_int(0, 255)(F(64, float(round(x.value)) if math.isfinite(x.value) else x.value)),
        "u32_to_u16": lambda x: min(number(x), 65535),
        "i32_to_i16": lambda x: max(-32768, min(32767, number(x))),
        "i32_to_f32": lambda x: exactly(Fraction(number(x)), 32),
        "u32_to_f32": lambda x: exactly(Fraction(number(x)), 32),
        "i32_to_f64": lambda x: F(64, float(number(x))),
        "u32_to_f64": lambda x: F(64, float(number(x))),
        "u16_to_f16": lambda x: exactly(Fraction(number(x)), 16),
        "i16_to_f16": lambda x: exactly(Fraction(number(x)), 16),
        "f16_to_f32": lambda x: F(32, x.value),
        "f64_to_f32": lambda x: rounded(x.value, 32),
        "f32_to_f64": lambda x: F(64, x.value),
        "bf16_to_f32": lambda x: x,
        "f32_to_bf16": bfloat,
        "f32_to_snorm": normal(32767, -1.0),
        "f32_to_unorm": normal(65535, 0.0),
        "f16_to_snorm": normal(32767, -1.0),
        "f16_to_unorm": normal(65535, 0.0),
        "v_minimum_f32": strict(minimum),
        "v_maximum_f32": strict(maximum),
        "v_minimum3_f16": strict(minimum),
        "v_maximum3_f16": strict(maximum),
        "v_sad_u8": sad,
        "v_msad_u8": masked_sad,
    }
    | {
        f"v_{what}{n}_{t}": of_integers(f)
        for what, f in (("min", min), ("max", max))
        for n in ("", "3")
        for t in ("i32", "u32", "i16", "u16")
    }
    | {
        "float32": lambda s, e, m: B(32, number(s) << 31 | number(e) << 23 | number(m)),
        "CalcDsAddr": lambda a, low, high: number(a) + number(low) + (number(high) << 8),
        **{f"Calc{kind}Addr": lambda address, *rest: number(address) for kind in ("Flat", "Global", "Scratch")},
        **{
            f"CalcScalar{kind}Addr": lambda base, register, offset: number(base) + number(register) + number(offset)
            for kind in ("Global", "Buffer")
        },
        "CalcBufferAddr": lambda address, *rest: number(address),
        "s_ff1_i32_b64": lambda x: (number(x) & -number(x)).bit_length() - 1,
        "v_prng_b32": lambda x: (number(x) << 1 & 0xFFFFFFFF) ^ (197 if number(x) >> 31 & 1 else 0),
        "f32_to_f16_sr": at_random(10),
        "f32_to_f16_SR": at_random(10),
        "f32_to_bf16_sr": at_random(7),
        "f32_to_bf16_SR": at_random(7),
    }
    | {f"{s}{n}_to_{s}32": lambda x: number(x) for s in "iu" for n in (4, 8, 16)}
)


# Of readings (`instructions/readings.toml`), not of AMD's texts -------------------------


def fraction_below_one(x: F) -> F:
    if not math.isfinite(x.value):
        return F(x.width, math.nan, x.nan)
    exact = exactly(Fraction(x.value) - math.floor(x.value), x.width)
    return F(x.width, min(exact.value, 1 - 2.0 ** -{16: 11, 32: 24, 64: 53}[x.width]))


def fma_scaled(a: F, b: F, c: F, exponent: Value) -> F:
    if not all(math.isfinite(v.value) for v in (a, b, c)) or a.value * b.value == 0 == c.value:
        return fma(a, b, c)
    exact = Fraction(a.value) * Fraction(b.value) + Fraction(c.value)
    return exactly(exact * Fraction(2) ** number(exponent), a.width)


def of_turns(f: Callable[[float], float]) -> Callable[[F], F]:
    def run(x: F) -> F:
        turns = float(Fraction(x.value) % 1) if math.isfinite(x.value) else math.nan
        return rounded(f(2 * math.pi * turns), x.width)

    return run


def without_subnormals(x: F) -> F:
    return F(x.width, math.copysign(0.0, x.value)) if is_denormal(x) else x


def multiply_add(a: F, b: F, c: F, legacy: bool = False) -> Value:
    """The product and the sum, each rounded and without subnormal numbers; `legacy`: zero times anything is zero."""
    a, b, c = (without_subnormals(x) for x in (a, b, c))
    zero = legacy and (a.value == 0 or b.value == 0)
    product = F(a.width, 0.0) if zero else without_subnormals(binary("*", a, b))
    return without_subnormals(binary("+", product, c))


def arctangent(inverse: int, bits: int) -> int:
    """The arctangent of 1 / inverse in units of 2^-bits, its terms cut."""
    term, square, total, n = (1 << bits) // inverse, inverse * inverse, 0, 1
    while term:
        total += term // n if n % 4 == 1 else -(term // n)
        term, n = term // square, n + 2
    return total


@cache
def two_over_pi(bits: int) -> int:
    """The first bits of 2 / pi, by Machin's formula with 64 bits to spare."""
    more = bits + 64
    pi = 4 * (4 * arctangent(5, more) - arctangent(239, more))
    return (1 << bits + more + 1) // pi


def bits_of_two_over_pi(shift: Value) -> F:
    """53 of the 1,201 bits of 2 / pi, after the first `shift`, as an integer."""
    return F(64, float(two_over_pi(1201) << number(shift) >> 1201 - 53 & (1 << 53) - 1))


FUNCTIONS |= {
    "bits_of_two_over_pi": bits_of_two_over_pi,
    "multiply_add": multiply_add,
    "multiply_add_legacy": lambda a, b, c: multiply_add(a, b, c, legacy=True),
    "round_to_even": whole(round),
    "smaller_number": minimum,
    "larger_number": maximum,
    "fraction_below_one": fraction_below_one,
    "exponent_of_number": lambda x: math.frexp(x.value)[1] if math.isfinite(x.value) else 0,
    "fma_scaled": fma_scaled,
    "sine_of_turns": of_turns(math.sin),
    "cosine_of_turns": of_turns(math.cos),
}


def of_ieee(f: Callable[[F, F], F]) -> Callable[..., F]:
    """Of two or three: in IEEE mode a signalling NaN gives a quiet one."""

    def run(e: Env, *xs: F) -> F:
        out = xs[0]
        for x in xs[1:]:
            signals = e.get("WAVE_MODE.IEEE") and (out.signals or x.signals)
            out = F(x.width, math.nan) if signals else f(out, x)
        return out

    return run


def to_half(e: Env, x: F) -> F:
    down = rounded(x.value, 16)
    if e.get("ROUND_MODE") == e.get("ROUND_TOWARD_ZERO") and math.isfinite(x.value) and abs(down.value) > abs(x.value):
        bits = bits_of(down.value, 16) - 1
        return F(16, float_of(bits, 16))
    return down


OF_MODE: dict[str, Callable[..., Value]] = {"f32_to_f16": to_half} | {
    f"v_{name}{n}_{t}": of_ieee(f)
    for name, f in (("min", minimum), ("max", maximum))
    for n in ("", "3")
    for t in ("f32", "f16")
}
