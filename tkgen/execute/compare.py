"""The results that a kernel must compute, the bounds on its errors, and inputs that show a mistake.

It must compute its equations (`tkgen.ir.meaning`). Each element has a bound on the error of f32 arithmetic
(`tkgen.ir.rounding`). Two kinds of inputs:

- **Exact inputs** are whole multiples of a power of two, few and small enough that every partial sum of products is one
  of the multiples that fp32 holds exactly: K `limit`^2 <= 2^24. Then every order of summation gives the same sum (MFMA
  trees and atomics included, and matrix units that align to the largest addend with 24 bits or more), and the bound of
  the sum is zero. Of 8-bit floats on matrix units that keep 14 bits it is K `limit`^2 <= 2^14. A product that is lost,
  doubled or exchanged for another shows, whatever K is.
- **Normally distributed inputs** fill all bits of the type.

Inputs hold no subnormals: CDNA2's matrix instructions take them for zero (AMD, CDNA2 ISA guide, MFMA).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from math import frexp, prod
from typing import Any

import torch

from tkgen import mx
from tkgen.ir.affine import distinct_positions
from tkgen.ir.equations import Kernel, Loop, Map
from tkgen.ir.functions import CDNA
from tkgen.ir.launch import Launch
from tkgen.ir.magnitudes import magnitudes
from tkgen.ir.meaning import evaluate_all
from tkgen.ir.rounding import (
    LARGEST,
    TORCH,
    UNIT_ROUNDOFF,
    exact_grid,
    exact_sums,
    normal,
    rounded,
    spacing,
    ulp,
)
from tkgen.ir.rounding import held as held_as
from tkgen.ir.sizing import Sizing
from tkgen.ir.summing import is_sums
from tkgen.ir.types import DType, Tensor
from tkgen.targets import short_sums

PIECE = 1 << 17  # elements that are compared at once: what is computed of them then fits a cache


class Inputs(Enum):
    """The kind of values in the operands: see the module."""

    EXACT = "exact"
    NORMAL = "normal"


@dataclass(frozen=True)
class Comparison:
    """A result against its reference.

    `max_error` is the largest absolute error, `ulps` the same in units of the last place of the output there, and
    `bound` what is allowed there. `wrong` counts elements beyond their own bound, `nan` those that should be numbers,
    `undecided` those that are another number than the reference and have no finite bound.
    """

    elements: int
    max_error: float
    mean_error: float
    ulps: float
    bound: float
    wrong: int
    nan: int
    undecided: int = 0

    @property
    def right(self) -> bool:
        """True if every element is within its bound."""
        return self.wrong == 0 and self.nan == 0 and self.undecided == 0

    @property
    def verdict(self) -> str:
        """`right`; `WRONG`; `undecided` where nothing is wrong for certain, and not all has a finite bound."""
        return "right" if self.right else "WRONG" if self.wrong or self.nan else "undecided"

    def __str__(self) -> str:
        error = f"largest error {self.max_error:.3g} ({self.ulps:.3g} ulp, {self.bound:.3g} allowed)"
        open_ = f"{self.undecided} of {self.elements} elements differ, but their error has no known bound"
        if self.verdict == "undecided":
            return f"undecided: {open_}, {error}"
        more = f"; undecided: {open_}" if self.undecided else ""
        return f"{self.wrong} of {self.elements} elements are wrong, {self.nan} NaN, {error}{more}"


def random_inputs(
    launch: Sizing, seed: int = 0, kind: Inputs = Inputs.EXACT, back_end: str = CDNA
) -> dict[str, torch.Tensor]:
    """A random tensor for everything that is to be given, such as suits the first kernel that reads it.

    What is exact depends on the `back_end` whose matrix units sum.
    """
    found: dict[str, torch.Tensor] = {}
    names = {t.name for t in launch.program.reads}
    for number, one in enumerate(launch.launches):
        generator, kernel = torch.Generator().manual_seed(seed + number), one.program.kernel
        order = [*kernel.held, *kernel.inputs] if one.summed[0] else kernel.inputs
        for tensor in dict.fromkeys(order):
            made = _drawn_offsets(one, tensor, generator)
            if made is None:
                made = drawn(one, tensor, one.shape(tensor), kind, generator, back_end)
            if tensor.name in names:
                found.setdefault(tensor.name, made)
    return found


def _drawn_offsets(launch: Launch[Any], tensor: Tensor, generator: torch.Generator) -> torch.Tensor | None:
    """Offsets or lengths of groups; None for other tensors."""
    axis = launch.program.kernel.offsets.get(tensor)
    if axis is None:
        return None
    draw = random_lengths if axis.within is not None and axis.within.lengths else random_offsets
    return draw(launch.shape(tensor)[0], launch.extents[axis.dim.name], generator)


def drawn(
    launch: Launch[Any], tensor: Tensor, shape: Sequence[int], kind: Inputs, generator: torch.Generator,
    back_end: str = CDNA,
) -> torch.Tensor:  # fmt: skip
    """Random elements for a part of an input that has this shape in memory.

    Exact are factors of which all sums of products are exact; where equations compute otherwise, eighths from -4 to 4.
    """
    program, dtype = launch.program, tensor.dtype
    held = program.kernel.held.get(tensor)
    if held is not None and tensor in distinct_positions(program.kernel):
        return random_distinct(shape, launch.extents[held.name], generator)
    if held is not None:
        return random_places(shape, launch.extents[held.name], generator)
    if kind is not Inputs.EXACT:
        return normal(shape, dtype, generator)
    factors, count = launch.summed
    if not factors:
        eighths = torch.randint(-32, 33, tuple(shape), generator=generator).float()
        return rounded(eighths if dtype.whole else eighths / 8, dtype)
    if tensor.name in factors and (dtype.in_blocks or not dtype.packed):
        types = [t.dtype for t in program.arguments if t.name in factors]
        limit, unit = exact_grid(dtype, count, exact_sums(types, short_sums(back_end)))
        whole = torch.randint(-limit, limit + 1, dtype.counted(shape), generator=generator, dtype=torch.int32)
        return held_as(whole.float() * unit, dtype)
    if dtype is DType.E8M0:  # so near to 1 that sums of products stay exact
        return torch.exp2(torch.randint(-1, 2, tuple(shape), generator=generator).float()).to(TORCH[dtype])
    return normal(shape, dtype, generator)


def random_places(shape: Sequence[int], size: int, generator: torch.Generator) -> torch.Tensor:
    """Places along a dimension of `size`, and now and then one that it has not."""
    return torch.randint(-1, size + 1, tuple(shape), generator=generator, dtype=torch.int32)


def random_distinct(shape: Sequence[int], size: int, generator: torch.Generator) -> torch.Tensor:
    """Positions along a dimension of `size`, none of them twice, and some that it does not have."""
    count = prod(shape)
    outside = torch.tensor([-1, size, torch.iinfo(torch.int32).min, torch.iinfo(torch.int32).max], dtype=torch.int32)
    found = outside[torch.randint(0, len(outside), (count,), generator=generator)]
    places = torch.randperm(size, generator=generator)[:count].int()
    taken = torch.randperm(count, generator=generator)[: len(places)]
    taken = taken[torch.rand(len(taken), generator=generator) < 0.9]
    found[taken] = places[: len(taken)]
    return found.reshape(tuple(shape))


def random_lengths(count: int, size: int, generator: torch.Generator) -> torch.Tensor:
    """Draw a length for each group, 0 to `size`; four in ten are extremes, also negative or above `size`."""
    held = torch.randint(0, size + 1, (count,), generator=generator, dtype=torch.int32)
    ends = torch.tensor([0, size, -1 - size, size + 1, 1], dtype=torch.int32)
    some = ends[torch.randint(0, len(ends), (count,), generator=generator)]
    return torch.where(torch.rand(count, generator=generator) < 0.4, some, held)


def random_offsets(count: int, size: int, generator: torch.Generator) -> torch.Tensor:
    """Draw the rows where groups begin and end: of any length, some empty, and sometimes with rows in no group."""
    ends = torch.randint(0, size + 1, (count,), generator=generator, dtype=torch.int32)
    twice = torch.randint(0, count, (count,), generator=generator) < count // 4  # the same again: an empty group
    ends = torch.where(twice, ends.roll(1), ends).sort().values
    if torch.rand(1, generator=generator) < 0.5:
        ends[0], ends[-1] = 0, size  # all rows are in groups
    return ends


def worst(comparisons: Iterable[Comparison]) -> Comparison:
    """The one that is not right, else the one whose largest error is the largest part of what is allowed."""
    ranks = {"right": 0, "undecided": 1, "WRONG": 2}
    return max(comparisons, key=lambda c: (ranks[c.verdict], c.max_error / c.bound if c.bound else c.max_error))


Reference = tuple[torch.Tensor, torch.Tensor]  # an output in fp64, and the bound on each element's error


def compared(
    results: Mapping[str, torch.Tensor], expected: Mapping[str, Reference], outputs: Iterable[Tensor] = ()
) -> dict[str, Comparison]:
    """Each output compared with its reference; `outputs` say the types of packed ones."""
    packed = {t.name: t.dtype for t in outputs if t.dtype.packed}
    return {name: compare(result, *expected[name], packed.get(name)) for name, result in results.items()}


def references(
    launch: Sizing, inputs: Mapping[str, torch.Tensor], scalars: Mapping[str, float], back_end: str = CDNA,
    flushes_f16: bool = False,
) -> dict[str, Reference]:  # fmt: skip
    """Evaluate the equations of a launch in fp64: each written tensor by name, and the bound on the error of each
    element.

    Bounds are for the code of `back_end`. A target `flushes_f16` where its matrix units take subnormal factors for
    zero: what one of several kernels stores may be one.
    """
    kernels = [one.program.kernel for one in launch.launches]
    flushed = [DType.F16] * (flushes_f16 and len(kernels) > 1)
    zeroed = {
        t.name: torch.zeros(one.shape(t), dtype=TORCH[t.dtype]) for one in launch.launches for t in one.program.outputs
        if t.name in one.program.added - one.program.kernel.added and t.name not in inputs
    }  # fmt: skip
    meant = evaluate_all(kernels, {**inputs, **zeroed}, scalars, launch.extents, back_end, flushed)
    found = {name: (result.value, result.bound) for name, result in meant.items()}
    memory = dict(inputs)
    for one in launch.launches:
        own = {t.name: found[t.name] for t in one.program.outputs}
        found |= widened(one, one.program.kernel, memory, scalars, launch.extents, own)
        if len(kernels) > 1:
            memory |= {t.name: rounded(own[t.name][0], t.dtype) for t in one.program.outputs}
    return found


def widened(
    launch: Launch[Any], kernel: Kernel, inputs: Mapping[str, torch.Tensor], scalars: Mapping[str, float],
    extents: Mapping[str, int], found: Mapping[str, Reference],
) -> dict[str, Reference]:  # fmt: skip
    """Widen the bounds of the outputs to which several blocks add their parts of a sum.

    Each block rounds what it makes of its part, by factors alone, and what it adds that to; where steps are scaled, the
    bound is of their sum in order, and each addition rounds another partial sum. All of them together are off by no
    more than these roundings of the magnitudes.
    """
    made = [op for op in kernel.body if isinstance(op, Map)]
    scaled = any(isinstance(op, Loop) and not is_sums(op) for op in kernel.body)
    if not launch.partial_sums or not (made or scaled):
        return dict(found)
    roundings = len(made) + launch.partial_sums - 1 + (launch.steps if scaled else 0)
    largest = magnitudes(kernel, inputs, scalars, extents)
    return {name: (value, bound + roundings * UNIT_ROUNDOFF * largest[name]) for name, (value, bound) in found.items()}


def overflows_from(dtype: DType) -> float:
    """The least sum of a number and its bound, which has the rounding to `dtype` in it, that rounds to infinity.

    f32 is rounded by no store. 16 bits round to infinity from half a unit below the next power of two on, and a bound
    that reaches so far has half a unit more. To 8-bit floats what is finite rounds to a finite number.
    """
    if dtype in (DType.BF16, DType.F16):
        return 2.0 ** frexp(torch.finfo(TORCH[dtype]).max)[1]
    return LARGEST


def compare(
    result: torch.Tensor, expected: torch.Tensor, bound: torch.Tensor, dtype: DType | None = None
) -> Comparison:
    """`result` against `expected`, element by element within `bound`; of packed floats it is the bytes of `dtype`.

    Where a bound is infinite or NaN, only what is the reference itself is known to be right. An infinity has no
    distance from a number: it is right where numbers within the bound round to it.
    """
    kind = dtype or next(d for d, torch_type in TORCH.items() if torch_type is result.dtype)
    if kind.in_blocks:
        result = mx.unpack(result, kind.spelling)
    flat = (t.flatten().split(PIECE) for t in (result, expected, bound.expand(expected.shape)))
    pieces = [_piece(value, meant, most, kind) for value, meant, most in zip(*flat, strict=True)]
    known = sum(count for _, count in pieces)
    furthest = max((c for c, _ in pieces), key=lambda c: c.max_error)
    return replace(
        furthest,
        elements=result.numel(),
        mean_error=sum(c.mean_error * count for c, count in pieces) / known if known else 0.0,
        wrong=sum(c.wrong for c, _ in pieces),
        nan=sum(c.nan for c, _ in pieces),
        undecided=sum(c.undecided for c, _ in pieces),
    )


def _piece(result: torch.Tensor, expected: torch.Tensor, bound: torch.Tensor, kind: DType) -> tuple[Comparison, int]:
    """Some elements compared, and how many of them are at a finite distance from the reference."""
    meant = expected
    if kind.in_blocks:
        expected = expected.nan_to_num(0.0).clamp(-kind.largest, kind.largest)
    elif kind.encoded or kind.whole:  # beyond their ends they stop there
        most = torch.finfo(result.dtype) if kind.encoded else torch.iinfo(result.dtype)
        expected = torch.where(expected.isfinite(), expected.clamp(most.min, most.max), expected)
    actual, nearest = result.double(), rounded(expected, kind).double()
    same = (actual == nearest) | (actual.isnan() & nearest.isnan())  # infinity is one in some encodings
    unit = partial(spacing, dtype=kind) if kind.in_blocks else partial(ulp, dtype=result.dtype)
    overflows = torch.where(actual > 0, meant, -meant) + bound >= overflows_from(kind)
    same = same | (actual.isinf() & meant.isfinite() & bound.isfinite() & overflows)
    error = torch.where(same & ~actual.isfinite(), 0.0, (actual - expected).abs())  # infinities and NaNs as expected
    nan = actual.isnan() & ~nearest.isnan()
    decided = bound.isfinite()
    finite = torch.where(error.isfinite(), error, -1.0)
    worst = int(finite.argmax()) if finite.numel() else 0
    known = finite[finite >= 0]
    found = Comparison(
        elements=actual.numel(),
        max_error=float(finite[worst]) if known.numel() else 0.0,
        mean_error=float(known.mean()) if known.numel() else 0.0,
        ulps=float(finite[worst] / unit(expected[worst])) if known.numel() else 0.0,
        bound=float(bound[worst]) if known.numel() else 0.0,
        wrong=int((~(error <= bound) & decided & ~same & ~nan).sum()),
        nan=int(nan.sum()),
        undecided=int((~decided & ~same & ~nan).sum()),
    )
    return found, known.numel()
