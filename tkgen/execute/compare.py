"""What a kernel must compute, how far off it may be, and inputs that show a mistake.

The bound is stated element by element, in two parts: the sum of K products, then the epilogue and the output's type,
each operation of which rounds once to nearest (IEEE 754).

- **Exact inputs** are whole multiples of a power of two, so few and so small that every partial sum of products is one
  of the multiples that fp32 holds exactly: K `limit`^2 <= 2^24. Then every order of summation gives the same sum (MFMA
  trees and atomics included, and matrix units that align to the largest addend with 24 bits or more), and the bound of
  the sum is zero. A product that is lost, doubled or exchanged for another shows, whatever K is.
- **Normally distributed inputs** fill all bits of the type. Of a sum of K products in any order each partial sum s
  rounds by d s, |d| <= u = 2^-24. With independent d of mean zero the sum of the errors is beyond
  t u sqrt(sum s^2) with a probability of at most 2 exp(-t^2 / 2) (Higham and Mary, "A new approach to probabilistic
  rounding error analysis", SIAM J. Sci. Comput. 41, 2019), and with signs that are independent, too, |s| is beyond
  t sqrt(sum (a b)^2) as rarely (the same, "Sharper probabilistic backward error analysis for basic linear algebra
  kernels with random data", 42, 2020). With 2 K roundings, products counted, the bound is
  t^2 u sqrt(2 K) sqrt(sum (a b)^2), which grows like K; the worst case over all signs, K u sum |a b| (Higham, Accuracy
  and Stability of Numerical Algorithms, section 4.2), grows like K^2 and hides a lost step from K = 8192 on. At
  t^2 = 80 one element in 10^12 is beyond it at K = 32768.

Inputs hold no subnormals: CDNA2's matrix instructions take them for zero (AMD, CDNA2 ISA guide, MFMA).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from math import isqrt, sqrt

import torch

from tkgen.ir.launch import Launch
from tkgen.ir.types import DType, EpilogueStep, Program

TORCH = {DType.BF16: torch.bfloat16, DType.F16: torch.float16, DType.F32: torch.float32}
SIGNIFICANDS = {torch.bfloat16: 8, torch.float16: 11, torch.float32: 24}  # bits, the leading one counted
UNIT_ROUNDOFF = 2.0**-24  # of fp32, in which sums and epilogues are computed
EXACT_SUM = 2**24  # fp32 holds all whole numbers up to this one
DEVIATIONS_SQUARED = 80.0  # t^2 above
ACTIVATION_ERROR = 1e-6  # relative and absolute, of v_exp_f32, v_rcp_f32 and the erf polynomial together

ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": torch.relu,
    "silu": torch.nn.functional.silu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
}


class Inputs(Enum):
    """What the operands hold: see the module."""

    EXACT = "exact"
    NORMAL = "normal"


@dataclass(frozen=True)
class Comparison:
    """A result against its reference.

    `max_error` is the largest absolute error, `ulps` the same in units of the last place of the output there, and
    `bound` what is allowed there. `wrong` counts elements beyond their own bound, `nan` those that should be numbers.
    """

    elements: int
    max_error: float
    mean_error: float
    ulps: float
    bound: float
    wrong: int
    nan: int

    @property
    def right(self) -> bool:
        """Whether every element is within its bound."""
        return self.wrong == 0 and self.nan == 0

    def __str__(self) -> str:
        error = f"largest error {self.max_error:.3g} ({self.ulps:.3g} ulp, {self.bound:.3g} allowed)"
        return f"{self.wrong} of {self.elements} elements are wrong, {self.nan} NaN, {error}"


def random_inputs(launch: Launch, seed: int = 0, kind: Inputs = Inputs.EXACT) -> dict[str, torch.Tensor]:
    """A random tensor for every global the kernel reads; `kind` says what the operands hold, the rest is normal."""
    program = launch.program
    generator = torch.Generator().manual_seed(seed)

    def normal(shape: list[int], dtype: torch.dtype) -> torch.Tensor:
        values = torch.randn(shape, generator=generator).to(dtype)
        return torch.where(values.abs() < torch.finfo(dtype).tiny, 0, values)

    tensors = {}
    factors = {o.name for o in program.operands}
    for tensor in program.reads:
        shape, dtype = launch.shape(tensor), TORCH[tensor.dtype]
        if kind is Inputs.EXACT and tensor.name in factors:
            limit, unit = exact_grid(dtype, launch.extents[program.k.name])
            whole = torch.randint(-limit, limit + 1, shape, generator=generator, dtype=torch.int32)
            tensors[tensor.name] = (whole.float() * unit).to(dtype)
        else:
            tensors[tensor.name] = normal(shape, dtype)
    return tensors


def exact_grid(dtype: torch.dtype, k: int) -> tuple[int, float]:
    """The largest multiple and the unit of exact inputs: no sum of `k` of their products rounds in fp32."""
    limit = max(1, min(2 ** SIGNIFICANDS[dtype], isqrt(EXACT_SUM // max(k, 1))))
    return limit, 2.0 ** (1 - limit.bit_length())


def _is_exact(a: torch.Tensor, b: torch.Tensor, k: int, dtype: torch.dtype) -> bool:
    """Whether `a` and `b` are exact inputs."""
    limit, unit = exact_grid(dtype, k)
    whole = (t / unit for t in (a, b))
    return limit**2 * k <= EXACT_SUM and all(bool(((t.abs() <= limit) & (t == t.round())).all()) for t in whole)


def worst(comparisons: Iterable[Comparison]) -> Comparison:
    """The one that is not right, else the one whose largest error is the largest part of what is allowed."""
    return max(comparisons, key=lambda c: (not c.right, c.max_error / c.bound if c.bound else c.max_error))


Reference = tuple[torch.Tensor, torch.Tensor]  # an output in fp64, and the bound on each element's error


def compared(results: Mapping[str, torch.Tensor], expected: Mapping[str, Reference]) -> dict[str, Comparison]:
    """Each output compared with its reference."""
    return {name: compare(result, *expected[name]) for name, result in results.items()}


def references(
    program: Program, inputs: Mapping[str, torch.Tensor], scalars: Mapping[str, float]
) -> dict[str, Reference]:
    """Each output in fp64, by name, and the bound on each element's error."""
    if program.equations is None:
        return {program.accumulator.tensor.name: reference(program, inputs, scalars)}
    from tkgen.ir.meaning import evaluate

    found = evaluate(program.equations.kernel, inputs, scalars)
    return {name: (result.value, result.bound) for name, result in found.items()}


def reference(
    program: Program, inputs: Mapping[str, torch.Tensor], scalars: Mapping[str, float]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The output in fp64, M x N, and the bound on each element's error."""
    a, b = (inputs[o.name].float() for o in program.operands)
    a = a.T if program.a.contraction_first else a
    b = b if program.b.contraction_first else b.T
    k = a.shape[1]
    if _is_exact(a, b, k, inputs[program.a.name].dtype):
        value = (a @ b).double()
        bound = torch.zeros_like(value)
    else:
        value = a.double() @ b.double()
        bound = DEVIATIONS_SQUARED * UNIT_ROUNDOFF * sqrt(2 * k) * (a.square() @ b.square()).sqrt().double()
    for step in program.epilogue:
        value, bound = _step(program, step, inputs, scalars, value, bound)
    dtype = program.accumulator.tensor.dtype
    return value, bound if dtype is DType.F32 else bound + ulp(value.abs() + bound, TORCH[dtype]) / 2


def _step(
    program: Program,
    step: EpilogueStep,
    inputs: Mapping[str, torch.Tensor],
    scalars: Mapping[str, float],
    value: torch.Tensor,
    bound: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """A step of the epilogue applied to a value and to its bound."""
    if step.function in ACTIVATIONS:
        if step.function == "relu":
            return torch.relu(value), bound
        # The slopes of the others are below 1.13 everywhere.
        return ACTIVATIONS[step.function](value), 1.13 * bound + (value.abs() + 1) * ACTIVATION_ERROR
    given = scalars[step.factor] if isinstance(step.factor, str) else 1.0 if step.factor is None else step.factor
    factor = float(torch.tensor(given, dtype=torch.float32))
    if step.function == "scale":
        return _rounded(value * factor, bound * abs(factor))
    assert step.tensor is not None
    addend = inputs[step.tensor.name].double()
    if step.function == "bias":
        return _rounded(value + (addend[:, None] if step.tensor.dims == (program.m,) else addend[None, :]), bound)
    if factor == 0:  # as in BLAS, the tensor is not read: its NaNs do not matter
        return value, bound
    addend, error = _rounded(factor * addend, torch.zeros_like(addend))
    return _rounded(value + addend, bound + error)


def _rounded(value: torch.Tensor, bound: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A value within `bound`, rounded once to fp32."""
    return value, bound + UNIT_ROUNDOFF * (value.abs() + bound)


def ulp(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The unit in the last place that numbers of `dtype` have where `values` lie."""
    least = torch.finfo(dtype).tiny
    exponent = torch.frexp(values.abs().double().clamp(min=least)).exponent
    return torch.ldexp(torch.ones_like(exponent, dtype=torch.float64), exponent - SIGNIFICANDS[dtype])


def compare(result: torch.Tensor, expected: torch.Tensor, bound: torch.Tensor) -> Comparison:
    """`result` against `expected`, element by element within `bound`."""
    actual, rounded = result.double(), expected.to(result.dtype).double()
    same = (actual == rounded) | (actual.isnan() & expected.isnan())
    error = torch.where(same & ~actual.isfinite(), 0.0, (actual - expected).abs())  # infinities and NaNs as expected
    nan = actual.isnan() & ~expected.isnan()
    finite = torch.where(error.isfinite(), error, -1.0).flatten()
    worst = int(finite.argmax()) if finite.numel() else 0
    known = finite[finite >= 0]
    return Comparison(
        elements=actual.numel(),
        max_error=float(finite[worst]) if known.numel() else 0.0,
        mean_error=float(known.mean()) if known.numel() else 0.0,
        ulps=float(finite[worst] / ulp(expected.flatten()[worst], result.dtype)) if known.numel() else 0.0,
        bound=float(bound.expand(expected.shape).flatten()[worst]) if known.numel() else 0.0,
        wrong=int((~(error <= bound) & ~same & ~nan).sum()),
        nan=int(nan.sum()),
    )
