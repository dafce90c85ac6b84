"""One of several numbers. Exact."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tkgen.ir.functions.model import BACK_ENDS, CDNA, HOPPER, HOST, Function

if TYPE_CHECKING:
    from torch import Tensor

CHOOSE = """\
/// Both are computed before one is chosen: no lane branches.
__device__ inline float choose(bool c, float a, float b) { return c ? a : b; }"""
RELU = "__device__ inline float relu(float x) { return x < 0.0f ? 0.0f : x; }  // NaN stays NaN"
CLAMP = """\
/// As torch.clamp: NaN of any argument stays NaN; of bounds that are crossed the upper one holds. No lane branches.
__device__ inline float clamp(float x, float low, float high) {
    const float above = choose(x < low, low, x), within = choose(above > high, high, above);
    return choose((low != low) | (high != high), low + high, within);
}"""
CUDA_CLAMP = """\
/// As torch.clamp: NaN of any argument stays NaN; of bounds that are crossed the upper one holds.
__device__ inline float clamp(float x, float low, float high) {
    const float above = x < low ? low : x, within = above > high ? high : above;
    return ((low != low) | (high != high)) ? low + high : within;
}"""


def _where_slopes(c: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return (a - b).abs(), c.double(), (~c).double()


def _clamp_slopes(x: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    over = x.maximum(low) > high
    under = (x < low) & ~over
    return (~(under | over)).double(), under.double(), over.double()


def _max(a: Tensor, b: Tensor) -> Tensor:
    """Of zeros +0 where either is, as the instruction has it; LLVM takes others, too (`min(max(x, 0), 1)`)."""
    return (a + b).where((a == 0) & (b == 0), a.fmax(b))


def _min(a: Tensor, b: Tensor) -> Tensor:
    """Of zeros -0 where either is, likewise."""
    return (-(-a - b)).where((a == 0) & (b == 0), a.fmin(b))


def _clamp(x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Of zeros that are alike the first argument."""
    above = low.where(x < low, x)
    within = high.where(above > high, above)
    return (low + high).where(low.isnan() | high.isnan(), within)


POSITION = 3
FUNCTIONS = (
    Function(
        "where", 3, "The second argument if the first is true, else the third.",
        lambda c, a, b: a.where(c, b), _where_slopes,
        {CDNA: "choose({0}, {1}, {2})", HOPPER: "{0} ? {1} : {2}", HOST: "{0} ? {1} : {2}"},
        "torch.where({0}, {1}, {2})", {CDNA: (CHOOSE,)}, takes="choice",
    ),
    Function(
        "max", 2, "The larger one; if one is NaN, the other; of zeros with different signs, either.", _max,
        lambda a, b: ((a >= b).double(), (a <= b).double()),
        {CDNA: "__builtin_fmaxf({0}, {1})", HOPPER: "fmaxf({0}, {1})", HOST: "std::fmax({0}, {1})"},
        "torch.fmax({0}, {1})", ring=lambda a, b: a.fmax(b),
    ),
    Function(
        "min", 2, "The smaller one; if one is NaN, the other; of zeros with different signs, either.", _min,
        lambda a, b: ((a <= b).double(), (a >= b).double()),
        {CDNA: "__builtin_fminf({0}, {1})", HOPPER: "fminf({0}, {1})", HOST: "std::fmin({0}, {1})"},
        "torch.fmin({0}, {1})", ring=lambda a, b: a.fmin(b),
    ),
    Function(
        "abs", 1, "The magnitude.", lambda a: a.abs(), lambda a: (a.new_ones(()),),
        {CDNA: "__builtin_fabsf({0})", HOPPER: "fabsf({0})", HOST: "std::abs({0})"}, "{0}.abs()",
    ),
    Function(
        "clamp", 3, "The first, limited to the range from the second to the third. If the second is larger than the "
                    "third, the result is the third. NaN of any argument gives NaN.",
        _clamp, _clamp_slopes,
        dict.fromkeys(BACK_ENDS, "clamp({0}, {1}, {2})"), "torch.minimum(torch.maximum({0}, {1}), {2})",
        {
            CDNA: (CHOOSE, CLAMP), HOPPER: (CUDA_CLAMP,),
            HOST: (CUDA_CLAMP.replace("__device__ ", "").replace("float", "double"),),
        },
        ring=lambda x, low, high: x.maximum(low).minimum(high),
    ),
    Function(
        "relu", 1, "max(x, 0), but NaN stays NaN.", lambda x: x.clamp(min=0), lambda x: ((x >= 0).double(),),
        {CDNA: "relu({0})", HOPPER: "relu({0})", HOST: "{0} < 0.0 ? 0.0 : {0}"}, "torch.nn.functional.relu({0})",
        dict.fromkeys((CDNA, HOPPER), (RELU,)),
    ),
)  # fmt: skip
