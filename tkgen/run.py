"""Run a built kernel on the emulator (or a GPU) with random inputs and compare it with torch.

The reference is computed in fp32. The tolerance is not a guess but a bound, element by element: summing K products
in any
order in fp32 errs by at most K 2^-24 sum |a b| (Higham, Accuracy and Stability of Numerical Algorithms, section
4.2), here for both sides, carried through the epilogue, plus one rounding to the output's type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from tkgen.emulate import Buffer, Outcome, Scalar, Struct, launch
from tkgen.emulate import Interleaving as Interleaving
from tkgen.emulate import interleavings as interleavings
from tkgen.ir.limits import requirements
from tkgen.ir.types import DType, Program, Tensor

if TYPE_CHECKING:
    from tkgen.build import Build

TORCH = {DType.BF16: torch.bfloat16, DType.F16: torch.float16, DType.F32: torch.float32}
UNIT_ROUNDOFF = {DType.BF16: 2.0**-8, DType.F16: 2.0**-11, DType.F32: 2.0**-24}
ACTIVATION_ERROR = 1e-6  # relative and absolute, of v_exp_f32, v_rcp_f32 and the erf polynomial together


class SizeError(ValueError):
    """A size or a scalar argument is missing, or is one that the kernel cannot do."""


@dataclass(frozen=True)
class Comparison:
    """A result against its reference: errors are absolute, `wrong` counts elements beyond their own bound."""

    elements: int
    max_error: float
    mean_error: float
    wrong: int
    above_tenth: int
    nan: int

    @property
    def right(self) -> bool:
        """Whether every element is within its bound."""
        return self.wrong == 0 and self.nan == 0


@dataclass(frozen=True)
class Run:
    """One emulated launch: the output, how it compares, what the referee saw."""

    sizes: Mapping[str, int]
    output: torch.Tensor = field(repr=False)
    comparison: Comparison
    outcome: Outcome = field(repr=False)

    @property
    def ok(self) -> bool:
        """The numbers are right and nothing was found."""
        return self.comparison.right and not self.outcome.findings


def sizes(program: Program, given: Mapping[str, int] | None = None) -> dict[str, int]:
    """Every dimension's size: the spec's own, or `given` for dynamic ones.

    Raises:
        SizeError: a dynamic dimension without a size, or a size the kernel cannot do.
    """
    found = {}
    for dim in program.dims:
        size = dim.size if dim.size is not None else (given or {}).get(dim.name)
        if size is None:
            raise SizeError(f"{dim.name} is dynamic: give its size")
        found[dim.name] = size
    return found


def random_inputs(program: Program, extents: Mapping[str, int], seed: int = 0) -> dict[str, torch.Tensor]:
    """A random tensor for every global the kernel reads, normally distributed."""
    generator = torch.Generator().manual_seed(seed)
    return {
        t.name: torch.randn([extents[d.name] for d in t.dims], generator=generator).to(TORCH[t.dtype])
        for t in program.tensors
        if t.name in _read(program)
    }


def _read(program: Program) -> set[str]:
    return {program.a.name, program.b.name} | {s.tensor.name for s in program.epilogue if s.tensor}


def reference(
    program: Program, inputs: Mapping[str, torch.Tensor], scalars: Mapping[str, float]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The output in fp32, M x N, and the bound on each element's error."""
    a, b = (inputs[o.name].float() for o in program.operands)
    a = a.T if program.a.contraction_first else a
    b = b if program.b.contraction_first else b.T
    value, k = a @ b, a.shape[1]
    bound = 2 * k * 2.0**-24 * (a.abs() @ b.abs())
    for step in program.epilogue:
        factor = scalars[step.factor] if isinstance(step.factor, str) else 1.0 if step.factor is None else step.factor
        rounding = value.abs() * 2.0**-23
        match step.function:
            case "scale":
                value, bound = value * factor, bound * abs(factor) + rounding
            case "add":
                assert step.tensor is not None
                value = value + factor * inputs[step.tensor.name].float()
                bound = bound + rounding + value.abs() * 2.0**-22
            case "bias":
                assert step.tensor is not None
                vector = inputs[step.tensor.name].float()
                value = value + (vector[:, None] if step.tensor.dims == (program.m,) else vector[None, :])
                bound = bound + rounding + value.abs() * 2.0**-23
            case name:
                functions: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
                    "relu": torch.relu,
                    "silu": torch.nn.functional.silu,
                    "gelu": torch.nn.functional.gelu,
                    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
                }
                # Their slopes are below 1.13 everywhere.
                bound = 1.13 * bound + (value.abs() + 1) * ACTIVATION_ERROR
                value = functions[name](value)
    return value, bound + value.abs() * UNIT_ROUNDOFF[program.accumulator.tensor.dtype]


def compare(result: torch.Tensor, expected: torch.Tensor, bound: torch.Tensor) -> Comparison:
    """`result` against `expected`, element by element within `bound`."""
    actual = result.float()
    error = (actual - expected).abs()
    nan = int(torch.isnan(actual).sum())
    finite = error[~torch.isnan(error)]
    return Comparison(
        elements=actual.numel(),
        max_error=float(finite.max()) if finite.numel() else 0.0,
        mean_error=float(finite.mean()) if finite.numel() else 0.0,
        wrong=int((error > bound).sum()) + int((torch.isnan(error) & ~torch.isnan(actual)).sum()),
        above_tenth=int((finite > 0.1).sum()),
        nan=nan,
    )


def scalar_values(program: Program, given: Mapping[str, float] | None = None) -> dict[str, float]:
    """A value for every scalar argument: given, or its default. Raises SizeError where neither is there."""
    values = {}
    for scalar in program.scalars:
        value = (given or {}).get(scalar.name, scalar.default)
        if value is None:
            raise SizeError(f"scalar {scalar.name} has no default: give it a value")
        values[scalar.name] = float(value)
    return values


def arguments(
    program: Program, tensors: Mapping[str, torch.Tensor], extents: Mapping[str, int], scalars: Mapping[str, float]
) -> Struct:
    """The kernel's one argument, laid out as the generated `globals` is."""
    members: list[Buffer | Scalar] = []
    for tensor in _arguments(program):
        members.append(Buffer(tensors[tensor.name], name=tensor.name))
        members += [Scalar("u64", extents[d.name]) for d in tensor.dims if d.size is None]
    members += [Scalar("f32", scalars[s.name]) for s in program.scalars]
    members.append(Scalar("u64", 0))  # the stream
    return Struct(members)


def _arguments(program: Program) -> list[Tensor]:
    wanted = _read(program) | {program.accumulator.tensor.name}
    return [t for t in program.tensors if t.name in wanted]


def grid(program: Program, extents: Mapping[str, int]) -> tuple[int, int, int]:
    """Blocks to launch."""
    if program.grid.name in ("persistent", "stream_k"):
        return program.grid.count, 1, 1
    rows, cols = (
        -(-extents[d.name] // size) for d, size in zip((program.m, program.n), program.block[:2], strict=True)
    )
    return rows * cols * (program.grid.count if program.grid.name == "split_k" else 1), 1, 1


def check_sizes(program: Program, unroll: int, tail_iterations: int, extents: Mapping[str, int]) -> None:
    """What the generated host code checks for dynamic sizes. Raises SizeError naming the requirement."""
    for requirement in requirements(program, unroll, tail_iterations):
        if not requirement.holds(program, extents):
            raise SizeError(f"{program.name}: {requirement.message}")


def emulate(
    build: Build,
    inputs: Mapping[str, torch.Tensor],
    extents: Mapping[str, int],
    scalars: Mapping[str, float],
    *,
    order: Interleaving | None = None,
    watch: bool = True,
    workers: int = 1,
) -> tuple[torch.Tensor, Outcome]:
    """Run the code object on `inputs`; the output tensor and what the referee saw."""
    program = build.spec.program
    shape = build.spec.plan.shape
    check_sizes(program, shape.unroll, shape.tail_iterations, extents)
    out = program.accumulator.tensor
    start = 0.0 if program.adds_to_output else float("nan")
    result = torch.full([extents[d.name] for d in out.dims], start, dtype=TORCH[out.dtype])
    tensors = {name: t.contiguous() for name, t in inputs.items()}
    tensors[out.name] = tensors[out.name].clone() if out.name in tensors else result
    outcome = launch(
        build.hsaco,
        kernel=build.resources.kernel,
        grid=grid(program, extents),
        block=(program.threads, 1, 1),
        args=[arguments(program, tensors, extents, scalars)],
        policy=(order or Interleaving()).policy,
        seed=(order or Interleaving()).seed,
        watch=watch,
        poison=watch,
        workers=workers,
    )
    return tensors[out.name], outcome


def run(
    build: Build,
    *,
    extents: Mapping[str, int] | None = None,
    seed: int = 0,
    scalars: Mapping[str, float] | None = None,
    order: Interleaving | None = None,
    watch: bool = True,
    workers: int = 1,
) -> Run:
    """Random inputs, one launch, one comparison. Raises SizeError for sizes the kernel cannot do."""
    program = build.spec.program
    shape = sizes(program, extents)
    values = scalar_values(program, scalars)
    inputs = random_inputs(program, shape, seed)
    expected, bound = reference(program, inputs, values)
    output, outcome = emulate(build, inputs, shape, values, order=order, watch=watch, workers=workers)
    return Run(shape, output, compare(output, expected, bound), outcome)
