"""Reciprocals and square roots.

v_rcp_f32, v_rsq_f32 and v_sqrt_f32 are within 1 ulp; arguments and results below 2^-126 may count as zero (LLVM,
AMDGPUCodeGenPrepare.cpp, which takes them for quotients that may be off by as much). rcp.approx.ftz is
within 1 ulp (PTX ISA, rcp); CUDA's sqrtf rounds to nearest, rsqrtf is within 2 ulp (CUDA C++ Programming Guide,
Mathematical Functions).
"""

from __future__ import annotations

from tkgen.ir.functions.definitions.exponential import LEAST
from tkgen.ir.functions.model import CDNA, HOPPER, HOST, Function

CUDA_RECIPROCAL = """\
__device__ inline float reciprocal(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}"""

POSITION = 6
FUNCTIONS = (
    Function(
        "sqrt", 1, "The square root.", lambda x: x.sqrt(), lambda x: (0.5 / x.sqrt(),),
        {CDNA: "__builtin_amdgcn_sqrtf({0})", HOPPER: "sqrtf({0})", HOST: "std::sqrt({0})"}, "torch.sqrt({0})",
        ulps=1.0, flushes=True, steep=True,
    ),
    Function(
        "rsqrt", 1, "One divided by the square root.", lambda x: x.rsqrt(), lambda x: (0.5 * x.abs().pow(-1.5),),
        {CDNA: "__builtin_amdgcn_rsqf({0})", HOPPER: "rsqrtf({0})", HOST: "1.0 / std::sqrt({0})"}, "torch.rsqrt({0})",
        ulps=1.0, flushes=True, beyond={HOPPER: 1.0},
    ),
    Function(
        "rcp", 1, "One divided by x.", lambda x: 1 / x, lambda x: (1 / x.square(),),
        {CDNA: "__builtin_amdgcn_rcpf({0})", HOPPER: "reciprocal({0})", HOST: "1.0 / {0}"}, "1 / {0}",
        {HOPPER: (CUDA_RECIPROCAL,)}, ulps=1.0, below=LEAST, flushes=True,
    ),
)  # fmt: skip
