"""The size of sums without signs, by which the rounding of each of their partial sums is measured."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import torch
from torch import Tensor

from tkgen.ir.computation import Computation
from tkgen.ir.equations import Kernel, Loop, Map, Product, Value, reads, walk, writes
from tkgen.ir.rounding import Bounded
from tkgen.ir.tiles import Tile
from tkgen.ir.types import DType


def magnitudes(
    kernel: Kernel, inputs: Mapping[str, Tensor], scalars: Mapping[str, float], extents: Mapping[str, int] | None = None
) -> dict[str, Tensor]:
    """Compute what a kernel would store, in f64, if no two terms of its sums had different signs.

    Only sums are without signs: a computed operand, such as a difference, keeps its sign. Multiplications may follow
    the sums, and nothing else.

    Raises:
        ValueError: as `tkgen.ir.meaning.evaluate`.
    """
    run = _Magnitudes(kernel, inputs, scalars, extents or {})
    run.whole()
    return {t.name: run.results[t.name].abs() for t in kernel.outputs}


class _Magnitudes(Computation):
    """Products of magnitudes, and sums of magnitudes of what is made of products."""

    precision = torch.float64

    def map(self, op: Map) -> Tile:
        if op.function not in ("add", "sub") or op.result not in self.of_products:
            return super().map(op)
        dims, (a, b) = self.aligned([self.get(v) for v in op.arguments])
        return Tile(dims, a.value.abs() + b.value.abs())

    @cached_property
    def of_products(self) -> frozenset[Value]:
        """The values that are computed from products; every other value is an operand of a
        product, or of its results.
        """
        found = set[Value]()
        for op in walk(self.kernel.body):
            if isinstance(op, Loop):
                found |= {v for c in op.carries for v in (c.inside, c.result)}
            elif isinstance(op, Product) or not found.isdisjoint(reads(op)):
                found.update(writes(op))
        return frozenset(found)

    def contract(self, a: Tile, b: Tile, dtypes: tuple[DType, DType], equation: str, n: int) -> Bounded:
        return super().contract(Tile(a.dims, a.value.abs()), Tile(b.dims, b.value.abs()), dtypes, equation, n)
