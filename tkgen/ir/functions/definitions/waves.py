"""Sine and cosine of radians, reduced to a part of a turn: x / 2 pi less its nearest integer, in two steps.

No bound of v_sin_f32 and v_cos_f32 is published; 2^-20 is taken for it. Beyond 2^20 the reduction loses its accuracy.
"""

from __future__ import annotations

from tkgen.ir.functions.model import CDNA, HOPPER, HOST, Function

TURNS, LOW = 0.15915494, 6.4206382e-09  # 1 / 2 pi as f32, and what that lacks
TURN = """\
/// The part of a turn that x radians are beyond whole turns.
__device__ inline float turn(float x) {
    const float whole = __builtin_rintf(x * 0.15915494f);
    return __builtin_fmaf(x, 6.4206382e-09f, __builtin_fmaf(x, 0.15915494f, -whole));
}"""

CUDA_TURN = TURN.replace("__builtin_", "")

POSITION = 8
FUNCTIONS = (
    Function(
        "sin", 1, "The sine of x in radians, for x up to 2^20.", lambda x: x.sin(), lambda x: (x.cos().abs(),),
        {CDNA: "__builtin_amdgcn_sinf(turn({0}))", HOPPER: "sinpif(2.0f * turn({0}))", HOST: "std::sin({0})"},
        "torch.sin({0})",
        {CDNA: (TURN,), HOPPER: (CUDA_TURN,)}, ulps=1.0, below=2.0**-20, beyond={HOPPER: 1.0},
    ),
    Function(
        "cos", 1, "The cosine of x in radians, for x up to 2^20.", lambda x: x.cos(), lambda x: (x.sin().abs(),),
        {CDNA: "__builtin_amdgcn_cosf(turn({0}))", HOPPER: "cospif(2.0f * turn({0}))", HOST: "std::cos({0})"},
        "torch.cos({0})",
        {CDNA: (TURN,), HOPPER: (CUDA_TURN,)}, ulps=1.0, below=2.0**-20, beyond={HOPPER: 1.0},
    ),
)  # fmt: skip
