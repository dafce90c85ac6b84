"""The meaning of a kernel (`tkgen.ir.meaning`) in the arithmetic that it declares.

compute(kernel, {"X": x}, {"eps": 1e-5})["Y"]           # in f32, stored in the tensor's own type
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from tkgen.ir import rounding, scans, sorting
from tkgen.ir.equations import Kernel, Map, Product, Sort
from tkgen.ir.functions import FUNCTIONS
from tkgen.ir.meaning import _Evaluation
from tkgen.ir.rounding import rounded
from tkgen.ir.tiles import Tile
from tkgen.ir.types import DType


def compute(
    kernel: Kernel,
    inputs: Mapping[str, Tensor],
    scalars: Mapping[str, float] | None = None,
    extents: Mapping[str, int] | None = None,
) -> dict[str, Tensor]:
    """The same in the arithmetic that a kernel declares: f32, rounded where it says so, in an order of torch's."""
    run = Computation(kernel, inputs, scalars or {}, extents or {})
    run.whole()
    found = {t.name: (rounded(run.tensors[t.name].value, t.dtype), t.dtype) for t in kernel.outputs}
    return {name: rounding.held(value, dtype) if dtype.in_blocks else value for name, (value, dtype) in found.items()}


class Computation(_Evaluation):
    """One run in f32, without bounds."""

    precision = torch.float32
    in_slabs = False

    def mapped(self, op: Map, dims: tuple[str, ...], tiles: Sequence[Tile]) -> Tile:
        """A function of values that are aligned."""
        return Tile(dims, *self.apply(op.function, [(t.value, t.error) for t in tiles]))

    def onto(self, op: Product, start: Tile, made: Tile) -> Tile:
        """No bound, no rounding that it counts."""
        return made

    def apply(self, function: str, arguments: list[rounding.Bounded]) -> rounding.Bounded:
        """A function of values."""
        value: Tensor = FUNCTIONS[function].meaning(*(v for v, _ in arguments))
        return value.to(self.precision) if FUNCTIONS[function].takes == "place" else value, None

    def convert(self, tile: Tile, dtype: DType) -> Tile:
        """A value rounded to a type."""
        return Tile(tile.dims, rounded(tile.value, dtype).to(self.precision))

    def gather(self, function: str, tile: Tile, at: int) -> rounding.Bounded:
        """A reduction along a direction."""
        if function == "sum":
            return tile.value.sum(at), None
        return rounding.extreme(tile.value, None, at, least=function == "min")

    def run(self, function: str, tile: Tile, at: int) -> rounding.Bounded:
        """A scan along a direction."""
        if function in ("sum", "prod"):
            return (tile.value.cumsum(at) if function == "sum" else tile.value.cumprod(at)), None
        return scans.extremes(tile.value, at, least=function == "min"), None

    def ordered(self, op: Sort, tile: Tile, at: int, start: int) -> rounding.Bounded:
        """Values or positions in order along a direction."""
        return sorting.ordered(op, tile.value, None, at, start)

    def contract(self, a: Tile, b: Tile, dtypes: tuple[DType, DType], equation: str, n: int) -> rounding.Bounded:
        """A product, as einsum says it."""
        return torch.einsum(equation, a.value, b.value), None
