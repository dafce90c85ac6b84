"""Cheaper forms of functions, by the approximating instructions of each machine: `fast tanh(x)`.

On CDNA they need fewer instructions around v_exp_f32 and v_rcp_f32. On Hopper tanh.approx.f32 takes the place of two
approximations, lg2.approx and sqrt.approx that of functions of CUDA. The logarithm is within 2^-22 between 0.5 and 2,
relatively elsewhere, the root within 2^-23 of the result (PTX ISA). For tanh.approx.f32 the PTX ISA says 2^-11 on any
machine; over all f32 it is within 134 ulp on an H200 (`benchmarks/function_costs.py`), and 256 are assumed. Each has
the meaning of the function that it is for, and a larger error. `docs/functions.md` shows what both cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tkgen.ir.functions.definitions import activations, exponential, powers, roots
from tkgen.ir.functions.definitions.exponential import CUDA_EXP2
from tkgen.ir.functions.model import CDNA, HOPPER, HOST, Function

if TYPE_CHECKING:
    from torch import Tensor

TWO_LOG2E = 2.8853900817779268
GELU_TERMS = (1.5950152, 0.074011794, -0.00070311512)  # of x, x^3, x^5: within 2.6e-5 of gelu by the sigmoid
GELU_MOST = 50.0  # of x^2, beyond which the last term would win
TANH_TERMS = (1.5957691216057308, 0.071354816)  # those of GELU's tanh approximation
CUDA_GELU_TERMS = (0.80015407, 0.034702262)  # of x and x^3: within 2.8e-4 of gelu by the tanh

TANH = f"""\
/// 1 - 2 / (1 + exp(2x))
__device__ inline float fast_tanh(float x) {{
    return __builtin_fmaf(-2.0f, __builtin_amdgcn_rcpf(1.0f + __builtin_amdgcn_exp2f({TWO_LOG2E:.9g}f * x)), 1.0f);
}}"""


def _exponent(terms: tuple[float, ...]) -> list[float]:
    """The terms of a polynomial u, as those of the exponent of exp(-u) as a power of 2."""
    return [float(f"{-term * TWO_LOG2E / 2:.9g}") for term in terms]


GELU_EXPONENT, TANH_EXPONENT = _exponent(GELU_TERMS), _exponent(TANH_TERMS)
GELU = f"""\
/// x / (1 + exp(-u)) with a polynomial u of x: erf is not computed.
__device__ inline float fast_gelu(float x) {{
    const float s = __builtin_fminf(x * x, {GELU_MOST}f);
    const float u = x * ({GELU_EXPONENT[0]}f + s * ({GELU_EXPONENT[1]}f + s * {GELU_EXPONENT[2]}f));
    return x * __builtin_amdgcn_rcpf(1.0f + __builtin_amdgcn_exp2f(u));
}}"""
GELU_TANH = f"""\
/// x / (1 + exp(-2 sqrt(2/pi) (x + 0.044715 x^3))), in fewer products
__device__ inline float fast_gelu_tanh(float x) {{
    const float u = x * ({TANH_EXPONENT[0]}f + x * x * {TANH_EXPONENT[1]}f);
    return x * __builtin_amdgcn_rcpf(1.0f + __builtin_amdgcn_exp2f(u));
}}"""

CUDA_TANH = """\
__device__ inline float fast_tanh(float x) {
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}"""
CUDA_SIGMOID = """\
/// (1 + tanh(x / 2)) / 2
__device__ inline float fast_sigmoid(float x) { return fmaf(0.5f, fast_tanh(0.5f * x), 0.5f); }"""
CUDA_SILU = """\
/// x / 2 (1 + tanh(x / 2))
__device__ inline float fast_silu(float x) {
    const float half = 0.5f * x;
    return fmaf(half, fast_tanh(half), half);
}"""
CUDA_OF_TANH = """\
__device__ inline float {name}(float x) {{
    const float half = 0.5f * x;
    return fmaf(half, fast_tanh(x * ({0}f + x * x * {1}f)), half);
}}"""
CUDA_GELU = CUDA_OF_TANH.format(*CUDA_GELU_TERMS, name="fast_gelu")
CUDA_GELU_TANH = CUDA_OF_TANH.format(*(f"{term / 2:.9g}" for term in TANH_TERMS), name="fast_gelu_tanh")
CUDA_LOG2 = """\
__device__ inline float fast_log2(float x) {
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}"""
CUDA_SQRT = """\
__device__ inline float fast_sqrt(float x) {
    float y;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}"""
OF = {f.name: f for f in (*activations.FUNCTIONS, *exponential.FUNCTIONS, *powers.FUNCTIONS, *roots.FUNCTIONS)}
"""The functions that some of these are cheaper forms of."""


def _gelu(x: Tensor) -> Tensor:
    s = (x * x).fmin(x.new_full((), GELU_MOST))
    first, second, third = GELU_EXPONENT
    return x / (1 + (x * (first + s * (second + s * third))).exp2())


def _gelu_tanh(x: Tensor) -> Tensor:
    first, second = TANH_EXPONENT
    return x / (1 + (x * (first + x * x * second)).exp2())


def _fast(
    name: str, hopper: tuple[str, ...], cdna: tuple[str, ...] | None = None, cpp: Mapping[str, str] | None = None,
    **differs: Any,
) -> Function:  # fmt: skip
    """The cheaper form of the function `name`: the helpers of its C++, and what differs from that function.

    Without helpers for CDNA the function itself has no cheaper form there.
    """
    of = OF[name]
    call = f"fast_{name}({{0}})"
    calls = {HOPPER: call} if cdna is None else {CDNA: call, HOPPER: call}
    helpers = {HOPPER: hopper} if cdna is None else {CDNA: cdna, HOPPER: hopper}
    differs = {"beyond": {}, "cpp": {**of.cpp, **calls, **(cpp or {})}, "helpers": {**of.helpers, **helpers}, **differs}
    return replace(of, name=f"fast_{name}", fast_of=name, **differs)


def _power(a: Tensor, b: Tensor) -> Tensor:
    return (b * a.log2()).exp2()


POSITION = 11
FUNCTIONS = (
    _fast(
        "tanh", (CUDA_TANH,), (TANH,),
        ulps=1.0, below=2.0**-21, beyond={HOPPER: 255.0}, ring=lambda x: 1 - 2 / (1 + (2 * x).exp()),
    ),
    _fast("sigmoid", (CUDA_TANH, CUDA_SIGMOID), more={HOPPER: 2.0**-17}),
    _fast("silu", (CUDA_TANH, CUDA_SILU), more={HOPPER: 2.0**-15}),
    _fast("gelu", (CUDA_TANH, CUDA_GELU), (GELU,), below=2.7e-5, more={HOPPER: 2.8e-4}, ring=_gelu),
    _fast("gelu_tanh", (CUDA_TANH, CUDA_GELU_TANH), (GELU_TANH,), more={HOPPER: 2.0**-15}, ring=_gelu_tanh),
    _fast("log2", (CUDA_LOG2,), beyond={HOPPER: 4.0}, more={HOPPER: 2.0**-22}),
    _fast(
        "log", (CUDA_LOG2,), cpp={HOPPER: "0.69314718055994531f * fast_log2({0})"},
        beyond={HOPPER: 4.0}, more={HOPPER: 2.0**-22},
    ),
    _fast("sqrt", (CUDA_SQRT,), beyond={HOPPER: 1.0}),
    _fast(
        "pow", (CUDA_EXP2, CUDA_LOG2), (),
        {
            CDNA: "__builtin_amdgcn_exp2f({1} * __builtin_amdgcn_logf({0}))",
            HOPPER: "power_of_2({1} * fast_log2({0}))", HOST: "std::exp2({1} * std::log2({0}))",
        },
        doc="a to the power of b for positive a: 2 to the power of b log2(a).", meaning=_power,
        torch="torch.exp2({1} * torch.log2({0}))", ring=_power, growth=5.0,
        grows=lambda a, b: b.abs() * a.log2().abs().nan_to_num(0.0).clamp(min=1.0),
        grows_by="abs(b) max(1, abs(log2(a)))",
    ),
)  # fmt: skip
