"""A launch of a kernel of rows: sizes, blocks, the kernel's one argument."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from tkgen.execute.arguments import SizeError
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.equations import Axis
from tkgen.ir.limits import LARGEST_INT
from tkgen.ir.types import Tensor
from tkgen.schedule.rows import RowMap

if TYPE_CHECKING:
    from tkgen.emulate import Buffer, Struct


@dataclass(frozen=True)
class RowLaunch:
    """`program` over lanes as `layout` says, at the sizes `extents`, by the names of dimensions."""

    program: EquationProgram = field(repr=False)
    layout: RowMap = field(repr=False)
    extents: Mapping[str, int]

    def shape(self, tensor: Tensor) -> list[int]:
        """The sizes of a tensor."""
        return [self.extents[d.name] for d in tensor.dims]

    def bytes(self, tensor: Tensor) -> int:
        """The size of a tensor in memory."""
        return prod(self.shape(tensor)) * tensor.dtype.bytes

    @property
    def arguments(self) -> tuple[Tensor, ...]:
        """The tensors that the kernel takes, in the order of the spec."""
        kernel = self.program.kernel
        return tuple(t for t in kernel.tensors if t in kernel.inputs or t in kernel.outputs)

    def tiles(self, axis: Axis) -> int:
        """Tiles along a parallel axis, one that hangs over the end counted."""
        return -(-self.extents[axis.dim.name] // (axis.tile or 1))

    @property
    def blocks(self) -> int:
        """Blocks to launch."""
        return prod(map(self.tiles, self.program.parallel))

    @property
    def grid(self) -> tuple[int, int, int]:
        """Blocks in each direction."""
        return self.blocks, 1, 1

    @property
    def block(self) -> tuple[int, int, int]:
        """Threads of a block in each direction."""
        return self.layout.threads, 1, 1

    def place(self, block: int) -> dict[Axis, int]:
        """The number of a block's tile along every parallel axis; the last one changes fastest."""
        found: dict[Axis, int] = {}
        for axis in reversed(self.program.parallel):
            block, found[axis] = divmod(block, self.tiles(axis))
        return found

    def packed(self, buffers: Mapping[str, Buffer], scalars: Mapping[str, float]) -> Struct:
        """The kernel's one argument, laid out as the generated `globals` is."""
        from tkgen.emulate import Scalar, Struct

        members: list[Buffer | Scalar] = []
        for tensor in self.arguments:
            members.append(buffers[tensor.name])
            members += [Scalar("u64", self.extents[d.name]) for d in tensor.dims if d.size is None]
        members += [Scalar("f32", scalars[s.name]) for s in self.program.kernel.scalars]
        members.append(Scalar("u64", 0))  # the stream
        return Struct(members)


def row_launch(program: EquationProgram, layout: RowMap, given: Mapping[str, int] | None = None) -> RowLaunch:
    """The launch at the spec's own sizes, `given` ones for dynamic dimensions.

    Raises:
        SizeError: a dynamic dimension without a size, or a size that the kernel cannot do.
    """
    extents = {}
    for dim in program.dims:
        size = dim.size if dim.size is not None else (given or {}).get(dim.name)
        if size is None:
            raise SizeError(f"{dim.name} is dynamic: give its size")
        if not 1 <= size < LARGEST_INT // 2:
            raise SizeError(f"{program.name}: {dim.name} must be from 1 to {LARGEST_INT // 2 - 1}")
        extents[dim.name] = size
    return RowLaunch(program, layout, extents)


def scalar_values(program: EquationProgram, given: Mapping[str, float] | None = None) -> dict[str, float]:
    """A value for every scalar argument: given, or its default. Raises SizeError where neither is there."""
    values = {}
    for scalar in program.scalars:
        value = (given or {}).get(scalar.name, scalar.default)
        if value is None:
            raise SizeError(f"scalar {scalar.name} has no default: give it a value, such as -D {scalar.name}=0.5")
        values[scalar.name] = float(value)
    return values


def check_scalars(program: EquationProgram) -> dict[str, float]:
    """Values for a check that nobody gives any: the defaults, and a half where there is none."""
    return {s.name: 0.5 if s.default is None else s.default for s in program.scalars}
