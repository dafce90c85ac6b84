"""Powers and logarithms of 2 and e.

v_exp_f32 and v_log_f32 are within 1 ulp and take subnormal arguments for zero (LLVM, User Guide for AMDGPU Backend,
llvm.exp2 and llvm.log2); a result below 2^-126 may be zero. The exponent of `exp` is rounded, x log2(e) in f32, so the
result is off in proportion to x.

ex2.approx.ftz is off by 2^-22 of the result, 4 ulp, at most (PTX ISA, ex2; some results are beyond 2 on an H100),
CUDA's log2f and logf by 1 ulp (CUDA C++ Programming Guide, Mathematical Functions).
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

from tkgen.ir.functions.model import CDNA, HOPPER, HOST, Function

if TYPE_CHECKING:
    from torch import Tensor

LEAST = 2.0**-126  # the least normal number
EXPONENTIAL = """\
__device__ inline float exponential(float x) { return __builtin_amdgcn_exp2f(x * 1.44269504088896341f); }"""

CUDA_EXP2 = """\
__device__ inline float power_of_2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}"""
CUDA_EXPONENTIAL = EXPONENTIAL.replace("__builtin_amdgcn_exp2f", "power_of_2")
LESS_ONE = """\
/// exp(x) - 1; below 0.5, where that cancels, a polynomial. Both are computed before one is chosen.
__device__ inline float exponential_less_one(float x) {
    const float near = 1.0f + x * (0.50000006f + x * (0.16666663f + x * (0.04166532f + x * (0.0083336346f + \
x * (0.0013997324f + x * 0.00019841190f)))));
    const float large = exponential(x) - 1.0f, small = x * near;
    return __builtin_fabsf(x) < 0.5f ? small : large;
}"""
OF_MORE = """\
/// log(1 + x) as x log(w) / (w - 1) of w = 1 + x as f32 holds it: the rounding of w cancels.
__device__ inline float logarithm_of_more(float x) {
    const float w = 1.0f + x, d = w - 1.0f, far = __builtin_amdgcn_logf(w) * 0.69314718055994531f;
    const float near = far * (x * __builtin_amdgcn_rcpf(d));
    return d == 0.0f ? x : d == x ? far : near;
}"""


def _less_one(x: Tensor) -> Tensor:
    """The formula of `exponential_less_one`."""
    terms = (0.00019841190, 0.0013997324, 0.0083336346, 0.04166532, 0.16666663, 0.50000006, 1.0)
    near = x * 0.0
    for term in terms:
        near = near * x + term
    return (x * near).where(x.abs() < 0.5, x.exp() - 1)


def _of_more(x: Tensor) -> Tensor:
    """The formula of `logarithm_of_more`."""
    d = (x + 1.0) - 1.0
    far = (x + 1.0).log()
    return x.where(d == 0, far.where(d == x, far * (x / d)))


POSITION = 4
FUNCTIONS = (
    Function(
        "exp2", 1, "2 to the power of x.", lambda x: x.exp2(), lambda x: (x.exp2() * log(2),),
        {CDNA: "__builtin_amdgcn_exp2f({0})", HOPPER: "power_of_2({0})", HOST: "std::exp2({0})"}, "torch.exp2({0})",
        {HOPPER: (CUDA_EXP2,)}, ulps=1.0, below=LEAST, beyond={HOPPER: 3.0},
    ),
    Function(
        "exp", 1, "e to the power of x.", lambda x: x.exp(), lambda x: (x.exp(),),
        {CDNA: "exponential({0})", HOPPER: "exponential({0})", HOST: "std::exp({0})"}, "torch.exp({0})",
        {CDNA: (EXPONENTIAL,), HOPPER: (CUDA_EXP2, CUDA_EXPONENTIAL)},
        ulps=1.0, growth=1.5, below=LEAST, beyond={HOPPER: 3.0},
    ),
    Function(
        "log2", 1, "The logarithm to base 2.", lambda x: x.log2(), lambda x: (1 / (x * log(2)).abs(),),
        {CDNA: "__builtin_amdgcn_logf({0})", HOPPER: "log2f({0})", HOST: "std::log2({0})"}, "torch.log2({0})",
        ulps=1.0, flushes=True,
    ),
    Function(
        "log", 1, "The natural logarithm.", lambda x: x.log(), lambda x: (1 / x.abs(),),
        {CDNA: "__builtin_amdgcn_logf({0}) * 0.69314718055994531f", HOPPER: "logf({0})", HOST: "std::log({0})"},
        "torch.log({0})", ulps=3.0, flushes=True,
    ),
    Function(
        "expm1", 1, "exp(x) - 1, without cancellation near 0.",
        lambda x: x.expm1(), lambda x: (x.exp(),),
        {CDNA: "exponential_less_one({0})", HOPPER: "expm1f({0})", HOST: "std::expm1({0})"}, "torch.expm1({0})",
        {CDNA: (EXPONENTIAL, LESS_ONE)}, ulps=3.0, growth=3.0, ring=_less_one,
    ),
    Function(
        "log1p", 1, "log(1 + x), without rounding of the sum near 0.",
        lambda x: x.log1p(), lambda x: (1 / (1 + x).abs(),),
        {CDNA: "logarithm_of_more({0})", HOPPER: "log1pf({0})", HOST: "std::log1p({0})"}, "torch.log1p({0})",
        {CDNA: (OF_MORE,)}, ulps=6.0, ring=_of_more,
    ),
)  # fmt: skip
