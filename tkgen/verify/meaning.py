"""The meaning of the equations of a kernel over payloads: `tkgen.ir.meaning` with values that carry them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from tkgen.ir import rounding, tensors
from tkgen.ir.computation import Computation
from tkgen.ir.equations import Kernel, Sort, Update, walk
from tkgen.ir.functions import FUNCTIONS
from tkgen.ir.tiles import Tile
from tkgen.ir.types import DType
from tkgen.verify import ring
from tkgen.verify.payloads import carries
from tkgen.verify.ring import Ring, UnsupportedError


def meant(
    kernels: Sequence[Kernel],
    inputs: Mapping[str, Tensor],
    payloads: Mapping[str, Ring],
    scalars: Mapping[str, float],
    extents: Mapping[str, int],
) -> dict[str, Ring]:
    """Evaluate kernels one after the other; return the tensors that they write, by name.

    `inputs` are as memory holds them; `payloads` has the numbers in those that carry one.
    """
    memory: dict[str, Tensor] = dict(inputs)
    found: dict[str, Ring] = {}
    for kernel in kernels:
        _refuse_bits(kernel)
        known = {name: t for name, t in memory.items() if name in inputs or name not in kernel.added}
        run = Meaning(kernel, known, scalars, extents, {**payloads, **found})
        run.whole()
        for t in kernel.outputs:
            value = run.tensors[t.name].value
            assert isinstance(value, Ring)
            found[t.name] = memory[t.name] = value
    return found


def _refuse_bits(kernel: Kernel) -> None:
    """Raises UnsupportedError for sorted rows and extremes of floats in memory: the machine compares their bits, which
    are no numbers of the algebra."""
    for op in walk(kernel.body):
        if isinstance(op, Sort) and op.first == op.axis:
            raise UnsupportedError(
                f"a row of `{op.axis.name}` in order: `tkgen verify` cannot follow floats whose bits are compared as "
                "integers; `tkgen run` compares them"
            )
    for store in kernel.stores:
        if store.update in (Update.MAX, Update.MIN) and not store.target.tensor.dtype.whole:
            raise UnsupportedError(
                f"`{store.update.value}` of `{store.target.tensor.name}`: `tkgen verify` cannot follow floats whose "
                "bits are compared as integers; `tkgen run` compares them"
            )


class Meaning(Computation):
    """One run over payloads; what is a place or a truth about places is no number, and carries none."""

    precision = torch.float64

    def __init__(
        self, kernel: Kernel, given: Mapping[str, Tensor], scalars: Mapping[str, float], extents: Mapping[str, int],
        rings: Mapping[str, Ring],
    ):  # fmt: skip
        self.rings = rings
        super().__init__(kernel, given, scalars, extents)

    def held(self, tensor: tensors.Tensor, memory: Tensor, copy: bool) -> Tensor:
        """Numbers with their payloads, and whole numbers of tensors, which are what they are."""
        if tensor.name in self.rings:
            numbers = self.rings[tensor.name]
            if not carries(tensor):  # read, it is what it is
                return ring.whole(numbers.planes, lambda real: real)
            return numbers.clone() if copy else numbers
        if tensor in self.kernel.held:
            return memory.double()
        return ring.plain(rounding.numbers(memory, tensor))

    def widen(self, numbers: Tensor) -> Tensor:
        """They are numbers with payloads already."""
        return numbers

    def empty(self, shape: Sequence[int], start: float | None) -> Tensor:
        """Nothing, or what stores combine values with."""
        if start is None:
            return ring.unwritten(shape)
        return ring.plain(torch.full(tuple(shape), start, dtype=torch.float64))

    def number(self, value: float) -> Tile:
        """A constant, or an argument."""
        return Tile((), ring.plain(torch.tensor(value, dtype=torch.float64)))

    def apply(self, function: str, arguments: list[rounding.Bounded]) -> rounding.Bounded:
        """A function, by the formula that the code has."""
        f, values = FUNCTIONS[function], [v for v, _ in arguments]
        if f.takes == "place":
            return f.meaning(*(v.reals if isinstance(v, Ring) else v for v in values)).double(), None
        return (f.ring or f.meaning)(*values), None

    def run(self, function: str, tile: Tile, at: int) -> rounding.Bounded:
        """A scan along a direction, one place after another."""
        if function == "sum":
            return tile.value.cumsum(at), None
        joined = {"prod": "mul"}.get(function, function)
        found = list(tile.value.split(1, at))
        for n in range(1, len(found)):
            found[n] = self.apply(joined, [(found[n - 1], None), (found[n], None)])[0]
        return torch.cat(found, at), None

    def ordered(self, op: Sort, tile: Tile, at: int, start: int) -> rounding.Bounded:
        """Numbers in order, or their positions; unsure where another number is as large within the bounds."""
        found, positions = ring.in_order(ring.numeric(tile.value), at, op.descending)
        return (found if op.function == "values" else ring.placed(found, positions + start)), None

    def wrapped(self, values: Tensor, dtype: DType) -> Tensor:
        """Sums of few numbers, which a type holds."""
        return values

    def convert(self, tile: Tile, dtype: DType) -> Tile:
        """Rounded numbers keep their payloads."""
        if not isinstance(tile.value, Ring) and dtype is DType.F32:  # a place
            return Tile(tile.dims, ring.plain(tile.value))
        return Tile(tile.dims, ring.converted(ring.numeric(tile.value), dtype))

    def put(
        self, name: str, dtype: DType, at: tuple[int | slice | Tensor, ...], value: Tensor, error: Tensor | None,
        mask: Tensor,
    ) -> None:  # fmt: skip
        """Writes what is stored to memory."""
        old = self.tensors[name].value
        stored = ring.stored(ring.numeric(value), dtype)
        old[at] = torch.where(mask, stored, old[at])
