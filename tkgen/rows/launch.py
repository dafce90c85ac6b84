"""A launch of a kernel of rows: its sizes, its blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Protocol

from tkgen.execute.arguments import SizeError, sizes
from tkgen.ir.divided import divided
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.equations import Axis, Kernel
from tkgen.ir.launch import OneLaunch
from tkgen.ir.limits import BUFFER_BYTES, LAUNCH_THREADS
from tkgen.schedule.rows import accesses, reach_bytes


class Layout(Protocol):
    """How a block's tile lies over its lanes, as far as launches need to know."""

    @property
    def kernel(self) -> Kernel:
        """The equations, in the form that is laid out."""

    @property
    def threads(self) -> int:
        """Threads of a block."""

    @property
    def registers(self) -> int:
        """VGPRs of a lane, as predicted."""

    def largest(self, dim: str) -> int:
        """The largest size of a dimension that only run time knows."""

    def describe(self) -> str:
        """One line for people."""


@dataclass(frozen=True)
class RowLaunch(OneLaunch):
    """A launch of equations over lanes, or over waves, as `layout` says."""

    program: EquationProgram = field(repr=False)
    layout: Layout = field(repr=False)

    def tiles(self, axis: Axis) -> int:
        """Tiles along a parallel axis, one that hangs over the end counted."""
        return -(-self.extents[axis.dim.name] // (axis.tile or 1))

    @property
    def blocks(self) -> int:
        """Blocks to launch."""
        return prod(map(self.tiles, self.program.parallel))

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.layout.threads

    def place(self, block: int) -> dict[Axis, int]:
        """The number of a block's tile along every parallel axis; the last one changes fastest."""
        found: dict[Axis, int] = {}
        for axis in reversed(self.program.parallel):
            block, found[axis] = divmod(block, self.tiles(axis))
        return found


def row_launch(program: EquationProgram, layout: Layout, given: Mapping[str, int] | None = None) -> RowLaunch:
    """The launch at the spec's own sizes, `given` ones for dynamic dimensions.

    Raises:
        SizeError: a dynamic dimension without a size, or a size that the kernel cannot do.
    """
    extents = sizes(program, given)
    for name, size in extents.items():
        if not 1 <= size <= layout.largest(name):
            raise SizeError(f"{program.name}: {name} must be from 1 to {layout.largest(name)}")
    for found in divided(program.kernel):
        large, small = found.large.name, found.small.name
        if found.of(extents[large]) != extents[small] or (not found.by_tile and extents[large] % found.count):
            raise SizeError(f"{program.name}: {small} must be {large} / {found.count}{', rounded up' * found.by_tile}")
    launch, most = RowLaunch(program, extents, layout), LAUNCH_THREADS // layout.threads
    if launch.blocks > most:
        raise SizeError(f"{program.name}: there must be at most {most} blocks")
    for access in accesses(layout.kernel) if program.dynamic else ():
        if reach_bytes(access, extents) > BUFFER_BYTES:
            raise SizeError(f"{program.name}: a tile of {access.tensor.name} spans more than {BUFFER_BYTES} bytes")
    return launch
