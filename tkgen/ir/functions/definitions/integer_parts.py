"""Integers beside a number, and remainders: exact, except for the sum of a remainder whose signs differ.

v_floor_f32, v_ceil_f32, v_rndne_f32 and v_trunc_f32 are exact, as CUDA's functions of these names and its fmodf are
(CUDA C++ Programming Guide, Mathematical Functions).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tkgen.ir.functions.model import CDNA, HOPPER, HOST, Function

if TYPE_CHECKING:
    from torch import Tensor

REMAINDER = """\
/// a - floor(a / b) b. |a| is r 2^left in units of the exponent of b, r at most 1; each iteration takes 20 bits of
/// the quotient away, exactly: r stays a multiple of 2^-24.
__device__ inline float remainder_of(float a, float b) {
    const float size = __builtin_fabsf(b), magnitude = __builtin_fabsf(a);
    const bool defined = (magnitude < __builtin_inff()) & (size > 0.0f);
    float part = magnitude;
    if ((magnitude >= size) & defined) {
        const int low = __builtin_amdgcn_frexp_expf(size);
        const float divisor = __builtin_amdgcn_frexp_mantf(size), inverse = __builtin_amdgcn_rcpf(divisor);
        float r = __builtin_amdgcn_frexp_mantf(magnitude);
        for (int left = __builtin_amdgcn_frexp_expf(magnitude) - low; left >= 0; left -= 20) {
            const float next = __builtin_amdgcn_ldexpf(r, left < 20 ? left : 20);
            r = __builtin_fmaf(-__builtin_rintf(next * inverse), divisor, next);
            r = r < 0.0f ? r + divisor : r;
        }
        part = __builtin_amdgcn_ldexpf(r, low);
    }
    const float signed_part = __builtin_copysignf(part, a);
    const bool differ = (part != 0.0f) & ((a < 0.0f) != (b < 0.0f));
    return defined ? differ ? signed_part + b : signed_part : __builtin_nanf("");
}"""
CUDA_REMAINDER = """\
/// a - floor(a / b) b
__device__ inline float remainder_of(float a, float b) {
    const float part = fmodf(a, b);
    return part != 0.0f && (part < 0.0f) != (b < 0.0f) ? part + b : part;
}"""
HOST_REMAINDER = CUDA_REMAINDER.replace("__device__ ", "").replace("fmodf", "std::fmod").replace("float", "double")


def _part(name: str, doc: str, cpp: str) -> Function:
    """An integer beside a number, which `cpp` calls in C."""
    return Function(
        name, 1, doc, lambda x: getattr(x, name)(), lambda x: (x.new_zeros(()),),
        {CDNA: f"__builtin_{cpp}f({{0}})", HOPPER: f"{cpp}f({{0}})", HOST: f"std::{cpp}({{0}})"},
        f"torch.{name}({{0}})", jumps=True,
    )  # fmt: skip


def _quotient(a: Tensor, b: Tensor) -> Tensor:
    return (a / b).floor()


POSITION = 10
FUNCTIONS = (
    _part("floor", "The largest integer that is not above x.", "floor"),
    _part("ceil", "The smallest integer that is not below x.", "ceil"),
    _part("round", "The nearest integer; ties go to the even one.", "rint"),
    _part("trunc", "The integer part: x rounded toward zero.", "trunc"),
    Function(
        "mod", 2, "The remainder a - floor(a / b) b, which has the sign of b, as in torch.remainder.",
        lambda a, b: a.remainder(b), lambda a, b: (a.new_ones(()), _quotient(a, b).abs()),
        {CDNA: "remainder_of({0}, {1})", HOPPER: "remainder_of({0}, {1})", HOST: "remainder_of({0}, {1})"},
        "torch.remainder({0}, {1})",
        {CDNA: (REMAINDER,), HOPPER: (CUDA_REMAINDER,), HOST: (HOST_REMAINDER,)},
        ulps=0.5, operator="%", tooth=_quotient, ring=lambda a, b: a - (a / b).floor() * b,
    ),
)  # fmt: skip
