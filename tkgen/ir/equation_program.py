"""A kernel of equations with everything that its spec says around them: names, sizes, and how tiles map onto waves.

`tkgen.ir.typing` makes it from the AST, as `tkgen.ir.resolve` makes a `Program` where equations sum products.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tkgen.ir.equations import Axis, AxisKind, Kernel
from tkgen.ir.types import Dim, GridKind, Origins, RemapStage, ScalarArg, Tensor, Unused, Via
from tkgen.source import Span


@dataclass(frozen=True)
class Staging:
    """`shared K, V buffers 2 via direct`: tiles of this tensor pass through LDS, `buffers` of them kept there."""

    tensor: Tensor
    buffers: int
    via: Via
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True)
class Reference:
    """`reference softmax(X, -1)`: the function of torch that the equations are to agree with."""

    function: str
    arguments: tuple[str, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True)
class EquationProgram:
    """A whole kernel of equations, typed.

    The `waves` of a block share its tiles: along `waves_along`, a tiled axis, each has an equal part; without it,
    they share the elements as the lowering sees fit. `spans` names clauses by their keyword (`waves`, `remap`), the
    header as `kernel`; a clause that is not written is missing there.
    """

    name: str
    header: str
    dims: tuple[Dim, ...]
    tensors: tuple[Tensor, ...]
    scalars: tuple[ScalarArg, ...]
    kernel: Kernel
    waves: int
    waves_along: Axis | None
    shared: tuple[Staging, ...]
    registers: tuple[Tensor, ...]  # those of which the spec says that they do without LDS
    schedule: str | None  # of a loop of products, by its name
    remap: tuple[RemapStage, ...]
    grid: GridKind
    occupancy: int | None
    allow: frozenset[str]
    targets: tuple[str, ...]
    reference: Reference | None
    unused: tuple[Unused, ...]
    spans: dict[str, Span] = field(compare=False, repr=False)
    origins: Origins = field(compare=False, repr=False)

    @property
    def parallel(self) -> tuple[Axis, ...]:
        """The axes along which blocks have a tile each, outermost first."""
        return tuple(axis for axis in self.kernel.axes if axis.kind is AxisKind.PARALLEL)

    @property
    def blocks(self) -> tuple[int | None, ...]:
        """Blocks along each parallel axis; None where only run time knows.

        A ragged one has as many as groups can need together, and the index of these none of its own.
        """
        groups = self.kernel.groups if any(a.within for a in self.parallel) else None

        def along(axis: Axis) -> int | None:
            size, tile = axis.dim.size, axis.tile or 1
            if axis.within is not None and size is not None and groups is not None and groups.dim.size is not None:
                return (size + groups.dim.size * (tile - 1)) // tile
            return 1 if axis == groups else None if size is None else -(-size // tile)

        return tuple(map(along, self.parallel))

    @property
    def reads(self) -> tuple[Tensor, ...]:
        """The tensors whose elements the kernel reads."""
        return self.kernel.inputs

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """What the kernel writes."""
        return self.kernel.outputs

    @property
    def arguments(self) -> tuple[Tensor, ...]:
        """The tensors that the kernel takes, in the order of the spec: what it reads and what it writes."""
        return tuple(t for t in self.kernel.tensors if t in self.reads or t in self.outputs)

    @property
    def adds_to_output(self) -> bool:
        """Whether several blocks add to an output tile: never, each has tiles of its own."""
        return False

    @property
    def dynamic(self) -> bool:
        """Whether any dimension that the equations use is known only at run time."""
        return any(axis.dim.size is None for axis in self.kernel.axes)
