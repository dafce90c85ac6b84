"""Sigmoid functions and what is made of them, by way of `exponential`, v_rcp_f32 and, for erf, a polynomial."""

from __future__ import annotations

from math import pi, sqrt
from typing import TYPE_CHECKING

from tkgen.ir.functions.definitions.exponential import CUDA_EXP2, CUDA_EXPONENTIAL, EXPONENTIAL
from tkgen.ir.functions.definitions.roots import CUDA_RECIPROCAL
from tkgen.ir.functions.model import CDNA, HOPPER, HOST, Function

if TYPE_CHECKING:
    from torch import Tensor

SILU = """\
/// x / (1 + exp(-x))
__device__ inline float silu(float x) { return x * __builtin_amdgcn_rcpf(1.0f + exponential(-x)); }"""
GELU = """\
/// x/2 (1 + erf(x / sqrt 2)); erf within 1.5e-7 (Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26).
__device__ inline float gelu(float x) {
    const float z = __builtin_fabsf(x) * 0.70710678118654752f, t = __builtin_amdgcn_rcpf(1.0f + 0.3275911f * z);
    const float p = t * (0.254829592f + t * (-0.284496736f + \
t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    const float erf = 1.0f - p * exponential(-z * z);
    return 0.5f * x * (1.0f + __builtin_copysignf(erf, x));
}"""
GELU_TANH = """\
/// x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), with tanh(u) = 1 - 2 / (1 + exp(2u))
__device__ inline float gelu_tanh(float x) {
    const float u = 0.79788456080286536f * (x + 0.044715f * x * x * x);
    return x * (1.0f - __builtin_amdgcn_rcpf(1.0f + exponential(2.0f * u)));
}"""
GELU_TANH_HOST = "{0} / (1.0 + std::exp(-1.5957691216057308 * ({0} + 0.044715 * {0} * {0} * {0})))"
ERF = """\
/// Within 1.5e-7 (Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26), by an f32 rounding or two more.
__device__ inline float error_function(float x) {
    const float z = __builtin_fabsf(x), t = __builtin_amdgcn_rcpf(1.0f + 0.3275911f * z);
    const float p = t * (0.254829592f + t * (-0.284496736f + \
t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    return __builtin_copysignf(1.0f - p * exponential(-z * z), x);
}"""
TANH = """\
/// 1 - 2 / (1 + exp(2|x|)) with the sign of x; below 0.5, where that cancels, a polynomial. Both are computed before
/// one is chosen, so that no lane branches.
__device__ inline float hyperbolic_tangent(float x) {
    const float z = __builtin_fabsf(x), s = x * x;
    const float far = 1.0f - 2.0f * __builtin_amdgcn_rcpf(1.0f + exponential(2.0f * z));
    const float near = 1.0f + s * (-0.33333325f + s * (0.13332851f + s * (-0.053884059f + \
s * (0.021219483f + s * -0.006508975f))));
    const float small = x * near, large = __builtin_copysignf(far, x);
    return z < 0.5f ? small : large;
}"""


def _cuda(*helpers: str) -> tuple[str, ...]:
    """Helpers of CDNA in CUDA C++, with what they call."""
    said = (h.replace("__builtin_amdgcn_rcpf", "reciprocal").replace("__builtin_", "") for h in helpers)
    return (CUDA_EXP2, CUDA_EXPONENTIAL, CUDA_RECIPROCAL, *said)


def _silu_slope(x: Tensor) -> tuple[Tensor]:
    s = x.sigmoid()
    return ((s * (1 + (1 - s) * x.clamp(-800, 800))).abs(),)


def _gelu(x: Tensor) -> Tensor:
    return x * 0.5 * (-x / sqrt(2)).erfc()


def _gelu_slope(x: Tensor) -> tuple[Tensor]:
    z = x.clamp(-40, 40)
    return ((0.5 * (-z / sqrt(2)).erfc() + z * (-z.square() / 2).exp() / sqrt(2 * pi)).abs(),)


def _erf_formula(x: Tensor) -> Tensor:
    z = x.abs()
    t = 1 / (1 + 0.3275911 * z)
    p = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return (1 - p * (-z * z).exp()).copysign(x)


def _gelu_formula(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + _erf_formula(x * 0.70710678118654752))


def _tanh_formula(x: Tensor) -> Tensor:
    z, s = x.abs(), x * x
    far = 1 - 2 / (1 + (2 * z).exp())
    near = 1 + s * (-0.33333325 + s * (0.13332851 + s * (-0.053884059 + s * (0.021219483 + s * -0.006508975))))
    return (x * near).where(z < 0.5, far.copysign(x))


def _gelu_tanh(x: Tensor) -> Tensor:
    return x * (2 * sqrt(2 / pi) * (x + 0.044715 * x**3)).sigmoid()


def _gelu_tanh_slope(x: Tensor) -> tuple[Tensor]:
    z = x.clamp(-40, 40)
    s = (2 * sqrt(2 / pi) * (z + 0.044715 * z**3)).sigmoid()
    return ((s + z * s * (1 - s) * 2 * sqrt(2 / pi) * (1 + 3 * 0.044715 * z.square())).abs(),)


POSITION = 7
FUNCTIONS = (
    Function(
        "sigmoid", 1, "1 / (1 + exp(-x)).", lambda x: x.sigmoid(), lambda x: (x.sigmoid() * (-x).sigmoid(),),
        {CDNA: "__builtin_amdgcn_rcpf(1.0f + exponential(-{0}))", HOPPER: "reciprocal(1.0f + exponential(-({0})))",
         HOST: "1.0 / (1.0 + std::exp(-{0}))"},
        "torch.sigmoid({0})", {CDNA: (EXPONENTIAL,), HOPPER: _cuda()},
        ulps=4.0, growth=1.5, below=2.0**-126, beyond={HOPPER: 3.0},
    ),
    Function(
        "tanh", 1, "The hyperbolic tangent.", lambda x: x.tanh(), lambda x: (x.clamp(-200, 200).cosh().pow(-2),),
        {CDNA: "hyperbolic_tangent({0})", HOPPER: "hyperbolic_tangent({0})", HOST: "std::tanh({0})"}, "torch.tanh({0})",
        {CDNA: (EXPONENTIAL, TANH), HOPPER: _cuda(TANH)}, ulps=4.0, beyond={HOPPER: 3.0}, ring=_tanh_formula,
    ),
    Function(
        "erf", 1, "The error function.", lambda x: x.erf(), lambda x: (2 / sqrt(pi) * (-x.square()).exp(),),
        {CDNA: "error_function({0})", HOPPER: "error_function({0})", HOST: "std::erf({0})"}, "torch.erf({0})",
        {CDNA: (EXPONENTIAL, ERF), HOPPER: _cuda(ERF)}, ulps=1.0, below=7e-7, beyond={HOPPER: 3.0},
        ring=_erf_formula,
    ),
    Function(
        "silu", 1, "x times its sigmoid.", lambda x: x * x.sigmoid(), _silu_slope,
        {CDNA: "silu({0})", HOPPER: "silu({0})", HOST: "{0} / (1.0 + std::exp(-{0}))"},
        "torch.nn.functional.silu({0})",
        {CDNA: (EXPONENTIAL, SILU), HOPPER: _cuda(SILU)}, ulps=4.0, growth=1.5, below=2.0**-118, beyond={HOPPER: 3.0},
    ),
    Function(
        "gelu", 1, "x times the cumulative distribution function of the normal distribution.", _gelu, _gelu_slope,
        {CDNA: "gelu({0})", HOPPER: "gelu({0})",
         HOST: "0.5 * {0} * std::erfc(-0.70710678118654752 * {0})"}, "torch.nn.functional.gelu({0})",
        {CDNA: (EXPONENTIAL, GELU), HOPPER: _cuda(GELU)}, ulps=4.0, below=1e-6, beyond={HOPPER: 3.0},
        ring=_gelu_formula,
    ),
    Function(
        "gelu_tanh", 1, "GELU by its tanh approximation.", _gelu_tanh, _gelu_tanh_slope,
        {CDNA: "gelu_tanh({0})", HOPPER: "gelu_tanh({0})", HOST: GELU_TANH_HOST},
        "torch.nn.functional.gelu({0}, approximate=\"tanh\")",
        {CDNA: (EXPONENTIAL, GELU_TANH), HOPPER: _cuda(GELU_TANH)},
        ulps=4.0, below=1e-6, beyond={HOPPER: 3.0},
    ),
)  # fmt: skip
