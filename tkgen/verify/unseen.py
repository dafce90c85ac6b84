"""The values that only the own sizes of a spec reach, so that the smaller sizes of a verification do not show them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from tkgen.ir.equations import Kernel, walk
from tkgen.ir.integers import HELD, LARGEST, largest_integers
from tkgen.ir.substitution import Named, substituted
from tkgen.ir.tensors import Dim

LIMITS = ((LARGEST, "32 bits"), (HELD, "2^24, up to which f32 has all integers"))
_MOST = 4  # lines


def unseen(own: Sequence[Kernel], run: Sequence[Kernel]) -> tuple[str, ...]:
    """Describe the values that kernels reach, or may reach, at their `own` sizes and not at those that were run."""
    found = dict.fromkeys(line for a, b in zip(own, run, strict=True) for line in (*_integers(a, b), *_offsets(a, b)))
    lines = tuple(found)
    return lines if len(lines) <= _MOST else (*lines[: _MOST - 1], f"and {len(lines) - _MOST + 1} more")


def sized(kernel: Kernel, dims: Mapping[Dim, Dim]) -> Kernel:
    """The kernel with other dimensions."""
    axes: dict[Named, Named] = {a: replace(a, dim=dims[a.dim]) for a in kernel.axes}
    tensors = tuple(replace(t, dims=tuple(dims[d] for d in t.dims)) for t in kernel.tensors)
    return replace(substituted(kernel, axes), tensors=tensors)


def _integers(own: Kernel, run: Kernel) -> Iterator[str]:
    """Integers of equations that go beyond their own limit sizes alone."""
    here = largest_integers(walk(run.body))
    for text, most in largest_integers(walk(own.body)).items():
        beyond = next((what for limit, what in LIMITS if most > limit >= here.get(text, 0)), None)
        if beyond is not None:
            yield f"`{text}` beyond {beyond}"


def _offsets(own: Kernel, run: Kernel) -> Iterator[str]:
    """Tensors whose bytes take more than 32 bits at their own sizes alone."""
    here = {t.name: _bytes(t.dtype.bits, [d.size for d in t.dims]) for t in run.tensors}
    for t in own.tensors:
        if _bytes(t.dtype.bits, [d.size for d in t.dims]) > LARGEST >= here.get(t.name, 0):
            yield f"what lies beyond 2^31 bytes of {t.name}"


def _bytes(bits: int, sizes: Sequence[int | None]) -> int:
    return prod(size or 1 for size in sizes) * bits // 8
