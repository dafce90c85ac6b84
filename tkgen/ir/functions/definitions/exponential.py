"""Powers and logarithms of 2 and e.

v_exp_f32 and v_log_f32 are within 1 ulp and take subnormal arguments for zero (LLVM, User Guide for AMDGPU Backend,
llvm.exp2 and llvm.log2); a result below 2^-126 may be zero. The exponent of `exp` is rounded, x log2(e) in f32, so the
result is off in proportion to x.

ex2.approx.ftz is off by 2^-22 of the result, 4 ulp, at most (PTX ISA, ex2; some results are beyond 2 on an H100),
CUDA's log2f and logf by 1 ulp (CUDA C++ Programming Guide, Mathematical Functions).
"""

from __future__ import annotations

from math import log

from tkgen.ir.functions.model import CDNA, HOPPER, HOST, Function

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
)  # fmt: skip
