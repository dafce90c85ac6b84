"""The common part of the programs of all kernels: the equations, and the clauses that any spec may have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tkgen.diagnostics import Edit
from tkgen.diagnostics.edits import without_name, without_statement
from tkgen.ir.equations import Axis, AxisKind, Kernel
from tkgen.ir.tensors import Dim, ScalarArg, Tensor
from tkgen.remap import Remap, RemapCall, compose
from tkgen.source import SourceFile, Span


@dataclass(frozen=True)
class RemapStage:
    """A remap with its arguments evaluated."""

    name: str
    positional: tuple[int, ...]
    keywords: tuple[tuple[str, int], ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True)
class GridKind:
    """The way in which work is distributed to blocks.

    `linear`: an output tile each. `persistent`: `count` blocks, each taking every count-th tile. `split_k`: `count`
    blocks
    to a tile, each summing a part of the K-steps. `stream_k`: `count` blocks, each an equal run of K-steps of tiles
    laid end to end (Osama et al., "Stream-K", PPoPP 2023). The last two add their sums to the output atomically.
    """

    name: str
    count: int
    span: Span | None = field(compare=False, repr=False)

    @property
    def shares_tiles(self) -> bool:
        """Return True if several blocks add to an output tile."""
        return self.name in ("split_k", "stream_k")


@dataclass(frozen=True)
class Unused:
    """Something declared that no operation touches: `what` as in "shared tile"."""

    what: str
    name: str
    span: Span = field(compare=False, repr=False)
    fix: str = "remove it"

    @property
    def edits(self) -> tuple[Edit, ...]:
        """Without the declaration; none for a value, which others that are unused may use."""
        if self.what in ("tensor", "scalar"):
            return without_statement(self.span)
        return without_name(self.span) if self.what.endswith("tile") else ()


@dataclass(frozen=True)
class Clusters:
    """`count` blocks one below the other, or beside each other, that share the tiles of the factor they have in common.

    Of `rows` it is the right factor, of columns the left one. Each loads its part of such a tile, for all.
    """

    count: int
    rows: bool
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True)
class Origins:
    """The files of a kernel: the spec and then its includes, by name; and the uses of parameters.

    `parameters` pairs statements with the declaration, or the `tune` clause, of each parameter in them.
    """

    files: tuple[SourceFile, ...]
    parameters: tuple[tuple[Span, Span], ...]


@dataclass(frozen=True, kw_only=True)
class KernelProgram:
    """A kernel, typed.

    `spans` names clauses by their keyword (`waves`, `remap`), the header as `kernel`; a clause that is not written is
    missing there.
    """

    name: str
    header: str
    dims: tuple[Dim, ...]
    tensors: tuple[Tensor, ...]
    scalars: tuple[ScalarArg, ...]
    kernel: Kernel
    remap: tuple[RemapStage, ...]
    grid: GridKind
    occupancy: int | None
    allow: frozenset[str]
    targets: tuple[str, ...]
    unused: tuple[Unused, ...]
    spans: dict[str, Span] = field(compare=False, repr=False)
    origins: Origins = field(compare=False, repr=False)

    @property
    def reads(self) -> tuple[Tensor, ...]:
        """The tensors whose elements the kernel reads, in the order of the spec."""
        return self.kernel.inputs

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The tensors that the kernel writes, in the order of the spec."""
        return self.kernel.outputs

    @property
    def arguments(self) -> tuple[Tensor, ...]:
        """The tensors that the kernel takes, in the order of the spec: what it reads and what it writes."""
        return self.kernel.arguments

    @property
    def added(self) -> frozenset[str]:
        """The outputs in which stores of several blocks combine values, which must be set before the launch."""
        return frozenset(self.starts)

    @property
    def starts(self) -> Mapping[str, float]:
        """The number that each of them must be set to."""
        return {t.name: 0.0 for t in self.outputs} if self.grid.shares_tiles else self.kernel.starts

    if TYPE_CHECKING:

        @property
        def waves(self) -> int:
            """Waves of a block."""

    @property
    def parallel(self) -> tuple[Axis, ...]:
        """The axes along which each block has one tile, outermost first."""
        return tuple(axis for axis in self.kernel.axes if axis.kind is AxisKind.PARALLEL)

    @property
    def batch(self) -> tuple[Axis, ...]:
        """Those of them that say which matrix a block works on: a remap orders the tiles of each matrix."""
        return ()

    @property
    def tile_order(self) -> Remap | None:
        """The order of the tiles, where the spec says one."""
        stages = [RemapCall(s.name, dict(s.keywords), s.positional) for s in self.remap]
        return compose(stages) if stages else None

    @property
    def contraction(self) -> Axis | None:
        """The one axis along which products of tensors are summed, in K-steps; None where there is none."""
        return None

    @property
    def factors(self) -> frozenset[str]:
        """The tensors whose products are summed along it."""
        return frozenset()

    @property
    def clusters(self) -> Clusters | None:
        """Blocks that share tiles of a factor."""
        return None

    def tile(self, axis: Axis) -> int:
        """Places of an axis that a block has at a time."""
        return axis.tile or 1
