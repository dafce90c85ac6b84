"""A kernel of equations with everything that its spec says around them: names, sizes, and how tiles map onto waves.

`tkgen.ir.typing` makes it from the AST, as `tkgen.ir.resolve` makes a `Program` where equations sum products.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tkgen.ir.equations import Axis
from tkgen.ir.types import KernelProgram, Role, Tensor, Via
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
class WrittenStep:
    """An operation of a written schedule: `word` of `name`, in the pass `ahead` passes further on.

    `piece`: (`part` or `half`, its number) where it is not done whole. `level` is of a priority, `mix` the pattern and
    how often of a wish for the order of instructions.
    """

    word: str
    span: Span = field(compare=False, repr=False)
    name: str = ""
    ahead: int = 0
    piece: tuple[str, int] | None = None
    level: int = 0
    mix: tuple[tuple[tuple[str, int], ...], int] = ((), 0)


@dataclass(frozen=True)
class WrittenLine:
    """A line of a written schedule; `paced`: all waves meet after it."""

    steps: tuple[WrittenStep, ...]
    paced: bool
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True)
class WrittenSchedule:
    """The lines of an iteration. `barriers`: where waves meet is derived; waves from `late` on run one later."""

    lines: tuple[WrittenLine, ...]
    barriers: bool
    late: int
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class EquationProgram(KernelProgram):
    """A whole kernel of equations, typed.

    The `waves` of a block share its tiles: along `waves_along`, a tiled axis, each has an equal part; without it,
    they share the elements as the lowering sees fit. Where `roles` name them, these are the waves that do not load.
    """

    waves: int
    waves_along: Axis | None
    shared: tuple[Staging, ...]
    registers: tuple[Tensor, ...]  # those of which the spec says that they do without LDS
    schedule: str | None  # of a loop of products, by its name
    reference: Reference | None
    written: WrittenSchedule | None
    roles: tuple[Role, ...] = ()

    @property
    def blocks(self) -> tuple[int | None, ...]:
        """Blocks along each parallel axis; None if known only at run time.

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
    def dynamic(self) -> bool:
        """Return True if a dimension that the equations use is known only at run time."""
        return any(axis.dim.size is None for axis in self.kernel.axes)
