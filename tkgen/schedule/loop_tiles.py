"""Tiles of a loop of equations over waves: how far they extend, how far apart their rows are, and what is too far."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tkgen.diagnostics import Edit
from tkgen.ir.equations import Access, Axis, AxisKind, Load, Product, Store, Value
from tkgen.ir.limits import BUFFER_BYTES
from tkgen.ir.types import WAVE_LANES
from tkgen.source import Span
from tkgen.targets.model import round_up

PADDING = 4  # elements behind each row of what waves exchange: lanes with neighbouring rows meet in no bank of LDS
ALIGNMENT = 16  # bytes; `shared_allocator` of the ThunderKittens surface


class LoopError(ValueError):
    """Why a loop of equations has no schedule, with the place in the spec and what to do, in words and as edits."""

    def __init__(self, message: str, span: Span | None = None, fix: str = "", edits: Iterable[Edit] = ()):
        super().__init__(message)
        self.span = span
        self.fix = fix
        self.edits = tuple(edits)


def extent(axis: Axis) -> int:
    """Elements of a tile along an axis that has an extent. Raises LoopError if it is known only at run time."""
    size = axis.tile if axis.kind is not AxisKind.WHOLE else axis.dim.size
    if size is None:
        raise LoopError(f"{axis.dim.name} is complete in registers: its size must be known at build time", axis.span)
    return size


def reach(access: Access, all_rows: bool = False) -> None:
    """Raises LoopError where the rows of a tile are too far apart for 32-bit offsets, or nobody knows how far.

    `all_rows`: those of the whole tensor, which direct loads count from the first one.
    """
    pitch, axis = pitch_bytes(access), access.axes[0]
    if pitch * extent(axis) > BUFFER_BYTES:
        raise LoopError(f"a tile of `{access.tensor.name}` spans more than {BUFFER_BYTES} bytes", access.tensor.span)
    if all_rows and any(i.of_page for i in access.indices):
        raise LoopError(f"`{access.tensor.name}` is paged, which direct loads cannot address", access.tensor.span,
                        "remove `via direct`")  # fmt: skip
    if all_rows and pitch * (axis.dim.size or 1) > BUFFER_BYTES:
        raise LoopError(f"the rows of `{access.tensor.name}` along `{axis.name}` reach over {BUFFER_BYTES} bytes, "
                        "which direct loads cannot address", access.tensor.span, "remove `via direct`")  # fmt: skip


def pitch_bytes(access: Access) -> int:
    """Bytes from a row of a tile to the next one. Raises LoopError if it is known only at run time."""
    place, pitch = next(n for n, i in enumerate(access.indices) if i.extends), access.tensor.dtype.bytes
    for dim in access.tensor.dims[place + 1 :]:
        if dim.size is None:
            raise LoopError(f"the rows of `{access.tensor.name}` are {dim.name} apart, which is dynamic", dim.span)
        pitch *= dim.size
    return pitch


@dataclass(frozen=True)
class Moving:
    """A tensor whose tile changes each iteration: `rows` by `cols`, or a vector of `rows`, with
    `buffers` tiles in LDS.
    """

    access: Access
    rows: Axis
    cols: Axis | None
    buffers: int
    direct: bool = False
    span: Span = field(kw_only=True, compare=False, repr=False)  # where the spec says so

    @property
    def turned(self) -> bool:
        """True if memory has `rows` innermost, not `cols`."""
        return self.cols is not None and self.access.indices[-1].axis == self.rows

    @property
    def of_bytes(self) -> bool:
        """True if it is a tile of elements of 8 bits."""
        return self.cols is not None and self.access.tensor.dtype.bits == 8

    @property
    def name(self) -> str:
        """The name of its ring: that of the tensor."""
        return self.access.tensor.name

    @property
    def bytes(self) -> int:
        """LDS of all of its tiles."""
        elements = extent(self.rows) * (1 if self.cols is None else extent(self.cols))
        return self.buffers * round_up(elements * self.access.tensor.dtype.bytes, ALIGNMENT)


@dataclass(frozen=True)
class Multiplication:
    """`result` = `onto` (or nothing) + moving times held, transposed: see the module.

    If the held operand has another tile in each iteration, it comes through `held_ring`: of its rows each wave reads
    its own.
    """

    product: Product
    moving: Moving
    held: Value
    onto: Value | None
    result: Value
    held_ring: Moving | None = None

    @property
    def rings(self) -> tuple[Moving, ...]:
        """The rings that the product reads."""
        return (self.moving,) if self.held_ring is None else (self.moving, self.held_ring)

    @property
    def summed(self) -> Axis:
        """The axis that both factors have."""
        return self.product.axis

    @property
    def rows(self) -> Axis:
        """The other axis of the moving factor."""
        return next(a for a in self.moving.access.axes if a != self.summed)

    @property
    def across(self) -> bool:
        """True if LDS has the moving factor the other way round, and no transposing reads."""
        return self.by_columns and not self.moving.direct

    @property
    def by_columns(self) -> bool:
        """True if the rows of the moving factor are the columns of its tile in LDS."""
        return self.rows != self.moving.rows


@dataclass(frozen=True)
class Outside:
    """A product before or after the loop: the tile of `source`, which each wave reads from memory, times held."""

    product: Product
    source: Load
    held: Value

    @property
    def summed(self) -> Axis:
        """The axis that both factors have."""
        return self.product.axis

    @property
    def rows(self) -> Axis:
        """The axis along the rows of the result."""
        return next(a for a in self.source.source.axes if a != self.summed)


@dataclass(frozen=True)
class Exchange:
    """A product that sums over the axis which the waves divide: what each computed goes through LDS to all of them.

    Each wave makes `columns` of the result's, which blocks add to `store`; `held` is a tensor's tile, of which it has
    those columns in registers, with what is summed along a lane's neighbours.
    """

    product: Product
    given: Value
    held: Load
    store: Store
    columns: int

    @property
    def rows(self) -> Axis:
        """The axis along the rows of the result: the loop's."""
        return next(a for a in self.given.axes if a != self.product.axis)

    @property
    def registers(self) -> int:
        """VGPRs of a lane for what it has of `held`."""
        return extent(self.product.axis) * self.columns * self.held.result.dtype.bytes // 4 // WAVE_LANES

    @property
    def bytes(self) -> int:
        """LDS of what all waves give: rows of elements of 2 bytes, `PADDING` apart."""
        return round_up(extent(self.product.axis) * (extent(self.rows) + PADDING) * 2, ALIGNMENT)
