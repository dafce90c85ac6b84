"""Exponents of numbers, and powers of two: exact, but where a product leaves what f32 holds. Powers of any number.

v_frexp_exp_i32_f32 and v_ldexp_f32 take subnormals as they are; of zero, infinities and NaN the first gives 0 (AMD
CDNA3 ISA). What C calls logb gives these as they stand here. A power of another number is one of 2, of a logarithm that
v_log_f32 gives within 1 ulp; CUDA's powf is within 4 ulp (CUDA C++ Programming Guide, Mathematical Functions).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tkgen.ir.functions.model import CDNA, HOPPER, HOST, TORCH, Function

if TYPE_CHECKING:
    from torch import Tensor

MOST = 300  # from the largest f32 to below the least, and back: larger exponents make zeros and infinities, too

EXPONENT = """\
__device__ inline float exponent_of(float x) {
    const float some = float(__builtin_amdgcn_frexp_expf(x) - 1), magnitude = __builtin_fabsf(x);
    return magnitude == 0.0f ? -__builtin_inff() : magnitude < __builtin_inff() ? some : magnitude;
}"""
TIMES_POWER = """\
__device__ inline float times_power(float x, float n) {
    return __builtin_amdgcn_ldexpf(x, int(n > -300.0f ? __builtin_fminf(n, 300.0f) : -300.0f));
}"""
POWER = """\
/// a to the power of b, with C's values at zeros, infinities and NaN; no lane branches.
__device__ inline float power(float a, float b) {
    const float size = __builtin_fabsf(a), half = 0.5f * b;
    const bool whole = b == __builtin_truncf(b), odd = whole & (half != __builtin_truncf(half));
    const float usual = __builtin_amdgcn_exp2f(b * __builtin_amdgcn_logf(size));
    const float magnitude = ((size == 1.0f) | (b == 0.0f)) ? 1.0f : usual;
    const float result = odd ? __builtin_copysignf(magnitude, a) : magnitude;
    const bool undefined = (a < 0.0f) & (size < __builtin_inff()) & !whole;
    return undefined ? __builtin_nanf("") : result;
}"""
CUDA_TIMES_POWER = """\
__device__ inline float times_power(float x, float n) { return ldexpf(x, int(fminf(fmaxf(n, -300.0f), 300.0f))); }"""
HOST_TIMES_POWER = """\
inline double times_power(double x, double n) { return std::ldexp(x, int(std::fmin(std::fmax(n, -300.0), 300.0))); }"""
TORCH_EXPONENT = """\
def exponent_of(x):
    found = (torch.frexp(x).exponent - 1).double()
    return torch.where(x == 0, -torch.inf, torch.where(x.isfinite(), found, x.abs()))"""


def _exponent(x: Tensor) -> Tensor:
    import torch

    found = (torch.frexp(x).exponent - 1).double()
    return torch.where(x == 0, -torch.inf, torch.where(x.isfinite(), found, x.abs()))


def _times_power(x: Tensor, n: Tensor) -> Tensor:
    return x * n.nan_to_num(-MOST).clamp(-MOST, MOST).trunc().exp2()


def _power_slopes(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    value = a.pow(b).abs()
    return (b * value / a).abs(), (value * a.abs().log()).abs()


def _power_formula(a: Tensor, b: Tensor) -> Tensor:
    """A power of the magnitude, with the sign of an odd power."""
    size, half = a.abs(), 0.5 * b
    odd = (b == b.trunc()) & (half != half.trunc())
    magnitude = (b * size.log2()).exp2().where((size != 1) & (b != 0), 1.0)
    return magnitude.copysign(a).where(odd, magnitude)


POSITION = 5
FUNCTIONS = (
    Function(
        "exponent", 1, "The largest integer n for which 2^n is at most |x|. For 0 it is minus infinity, for "
                       "infinities infinity.",
        _exponent, lambda x: (x.new_zeros(()),),
        {CDNA: "exponent_of({0})", HOPPER: "logbf({0})", HOST: "std::logb({0})"}, "exponent_of({0})",
        {CDNA: (EXPONENT,), TORCH: (TORCH_EXPONENT,)}, jumps=True,
    ),
    Function(
        "ldexp", 2, "x times 2^n. n is truncated to an integer and limited to -300 to 300.",
        _times_power, lambda x, n: (_times_power(x.new_ones(()), n), n.new_zeros(())),
        {CDNA: "times_power({0}, {1})", HOPPER: "times_power({0}, {1})", HOST: "times_power({0}, {1})"},
        "{0} * torch.exp2({1}.nan_to_num(-300).clamp(-300, 300).trunc())",
        {CDNA: (TIMES_POWER,), HOPPER: (CUDA_TIMES_POWER,), HOST: (HOST_TIMES_POWER,)}, ulps=0.5, jumps=True,
    ),
    Function(
        "pow", 2, "a to the power of b. For negative a and b that is not an integer, the result is NaN.",
        lambda a, b: a.pow(b), _power_slopes,
        {CDNA: "power({0}, {1})", HOPPER: "powf({0}, {1})", HOST: "std::pow({0}, {1})"}, "torch.pow({0}, {1})",
        {CDNA: (POWER,)}, ulps=2.0, growth=2.1, grows=lambda a, b: (b * a.abs().log2()).abs().nan_to_num(0.0),
        grows_by="abs(log2 of the result)", below=2.0**-126, flushes=True, beyond={HOPPER: 2.0}, ring=_power_formula,
    ),
)  # fmt: skip
