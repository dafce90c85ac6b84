"""Types of the typed program: data types, tensors, operands, roles, accumulators. All frozen, all sizes in elements.

Layout facts (16x16 base tiles, row and column register layouts) are those of ThunderKittens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from tkgen.ir.equations import Access as EquationAccess
from tkgen.ir.equations import Axis, Load
from tkgen.ir.kernel_program import Clusters as Clusters
from tkgen.ir.kernel_program import GridKind as GridKind
from tkgen.ir.kernel_program import KernelProgram as KernelProgram
from tkgen.ir.kernel_program import Origins as Origins
from tkgen.ir.kernel_program import RemapStage as RemapStage
from tkgen.ir.kernel_program import Unused as Unused
from tkgen.ir.products import Sums, View
from tkgen.ir.tensors import DTYPE_NAMES as DTYPE_NAMES
from tkgen.ir.tensors import OWN_ENCODING as OWN_ENCODING
from tkgen.ir.tensors import Dim as Dim
from tkgen.ir.tensors import DType as DType
from tkgen.ir.tensors import ScalarArg as ScalarArg
from tkgen.ir.tensors import Tensor as Tensor
from tkgen.source import Span
from tkgen.targets import common
from tkgen.tile.ops import Multiply, Schedule
from tkgen.tile.program import Region

WAVE_LANES = common(lambda target: target.wave_size)
SIMDS = common(lambda target: target.simds_per_cu)
ACCESS_BYTES = common(lambda target: target.access_bytes)  # what a lane moves with one instruction at most
BASE_TILE = 16  # rows and columns of a ThunderKittens base tile


class Via(Enum):
    """The way of an operand from global memory to LDS."""

    COLLECTIVE = "collective"  # group<N>::load: staged, waits for itself
    REGISTERS = "registers"  # fetched early to staging registers, written late
    DIRECT = "direct"  # global to LDS without registers (gfx950)


class Side(Enum):
    """The side of a product on which an operand is: left (A) or right (B)."""

    A = "A"
    B = "B"


@dataclass(frozen=True)
class Operand:
    """One factor of the product: its tile in LDS, if it has one, and its register tiles.

    `extent` is the block's rows (A) or columns (B), `step` the contraction elements of a K-step, `slice` those of one
    register tile, the same for all operands of a kernel; `register_buffers` are those that each fragment has. So many
    `together` are one slice of this operand as the spec has it. `contraction_first` says that memory holds K x extent
    ([K, M] or [K, N]).

    The tile in LDS lies in `parts`, equal ones along `extent` and along the contraction, each a separate tile: what a
    schedule moves apart. A part holds the same fragments of all waves, and whole slices. Where `via` is None there is
    none, in 0 buffers: each wave that multiplies reads its register tiles from global memory.

    Register tiles are of the type `multiplied`, where that is another than the tensor's: they are computed as they are
    read from LDS.
    """

    side: Side
    tensor: Tensor
    extent: int
    step: int
    contraction_first: bool
    buffers: int
    via: Via | None
    register_buffers: int
    slice: int
    fragments: int  # register tiles side by side along `extent`, per wave
    fragment_extent: int  # elements of one along `extent`
    span: Span = field(compare=False, repr=False)  # the `shared` clause; without one that of `registers`
    registers_span: Span | None = field(default=None, compare=False, repr=False)
    parts: tuple[int, int] = (1, 1)
    together: int = 1
    multiplied: DType | None = None

    @property
    def name(self) -> str:
        """The tensor's name."""
        return self.tensor.name

    @property
    def dtype(self) -> DType:
        """The elements of its register tiles, which are multiplied."""
        return self.multiplied or self.tensor.dtype

    @property
    def shared(self) -> bool:
        """True if it passes through LDS."""
        return self.via is not None

    @property
    def lds_shape(self) -> tuple[int, int]:
        """(rows, columns) of a K-step's tile, laid out as the tensor is."""
        return (self.step, self.extent) if self.contraction_first else (self.extent, self.step)

    @property
    def lds_bytes(self) -> int:
        """Bytes of one LDS buffer."""
        return self.tensor.dtype.sized(self.extent * self.step)

    @property
    def part_count(self) -> int:
        """Parts of one LDS buffer."""
        return self.parts[0] * self.parts[1]

    @property
    def part_shape(self) -> tuple[int, int]:
        """(rows, columns) of a part, laid out as the tensor is."""
        extent, step = self.extent // self.parts[0], self.step // self.parts[1]
        return (step, extent) if self.contraction_first else (extent, step)

    @property
    def part_stored(self) -> tuple[int, int]:
        """The same in what memory is counted in: bytes, where these hold several elements."""
        rows, cols = self.tensor.dtype.stored(self.part_shape)
        return rows, cols

    @property
    def part_bytes(self) -> int:
        """Bytes of a part."""
        return self.lds_bytes // self.part_count

    def part(self, fragment: int, slice_: int) -> int:
        """The number of the part that holds a fragment's slice."""
        along, across = self.parts
        return fragment * along // self.fragments * across + slice_ * across // self.slices

    def parts_of(self, access: Region) -> tuple[int, ...]:
        """The parts that an access to this operand touches: all where it names no fragments or slices."""
        if self.part_count == 1:
            return (0,)
        fragments = access.fragments or tuple(range(self.fragments))
        slices = access.slices or tuple(range(self.slices))
        return tuple(sorted({self.part(f, t) for f in fragments for t in slices}))

    @property
    def register_shape(self) -> tuple[int, int]:
        """(rows, columns) of one register tile, laid out as the tensor is."""
        return (self.slice, self.fragment_extent) if self.contraction_first else (self.fragment_extent, self.slice)

    @property
    def register_layout(self) -> str:
        """`row` or `col`: the MFMA wants the contraction contiguous in a lane, so a K-first tile is column layout."""
        return "col" if self.contraction_first else "row"

    @property
    def slices(self) -> int:
        """Register tiles along one K-step."""
        return self.step // self.slice

    @property
    def register_depth(self) -> int:
        """Slices, as the spec has them, that the registers hold."""
        return self.register_buffers // self.together

    @property
    def steps_ahead(self) -> int:
        """K-steps that loads from global memory run ahead of those that are multiplied, for as many as are held."""
        if self.shared:
            return self.buffers - 1
        return -(-(self.register_depth - 1) * self.together // self.slices)

    def register_buffer(self, step: int, slice_: int) -> int:
        """Return the register buffer that holds a slice of a K-step."""
        return (step * self.slices + slice_) % self.register_buffers

    @property
    def registers_per_tile(self) -> int:
        """VGPRs per lane of one register tile."""
        return self.dtype.sized(self.fragment_extent * self.slice) // (WAVE_LANES * 4)


ALL_WAVES = "waves"  # the role of a kernel that declares none
UNNAMED = (ALL_WAVES, "wave")  # as tile programs call it


def role_text(role: str, waves: Sequence[int]) -> str:
    """A role with its waves: `producers waves 0..3`; `waves 0..7` where it is the only one."""
    numbers = f"waves {waves[0]}..{waves[-1]}" if len(waves) > 1 else f"wave {waves[0]}"
    return numbers if role in UNNAMED else f"{role} {numbers}"


@dataclass(frozen=True)
class Role:
    """Waves `first`..`last` of the block doing the same work.

    `loads` are the operands they bring to LDS with collectives of `group` waves each; `shape` is the grid of
    waves over the output tile when they multiply, None when they only load. `schedule` is its own or the kernel's.
    """

    name: str
    first: int
    last: int
    shape: tuple[int, int] | None
    loads: tuple[str, ...]
    group: int
    schedule: Schedule | None
    span: Span = field(compare=False, repr=False)
    loads_span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def waves(self) -> range:
        """Wave numbers within the block."""
        return range(self.first, self.last + 1)

    @property
    def multiplies(self) -> bool:
        """True if these waves own accumulators, and store them."""
        return self.shape is not None


@dataclass(frozen=True)
class Product:
    """One sum of products: `left` times `right`, over the contraction, into the accumulators called `name`."""

    name: str
    left: Operand
    right: Operand
    span: Span | None = field(default=None, compare=False, repr=False)  # the equation that says it

    @property
    def factors(self) -> tuple[Operand, Operand]:
        """Left and right."""
        return self.left, self.right

    @property
    def names(self) -> tuple[str, str]:
        """Of left and right."""
        return self.left.name, self.right.name

    @property
    def layouts(self) -> str:
        """Those of the product as in `mma_ABt`: AB, ABt, AtB or AtBt."""
        return ("At" if self.left.contraction_first else "A") + ("B" if self.right.contraction_first else "Bt")


@dataclass(frozen=True)
class Accumulator:
    """The output fragments of each multiplying wave, of every product alike.

    Fragment (i, j) of wave (r, c) is tile (r + waves.rows i, c + waves.cols j) of the block when interleaved,
    (r fragments.rows + i, c fragments.cols + j) when blocked.
    """

    tensor: Tensor
    dtype: DType
    tile: tuple[int, int]
    fragments: tuple[int, int]
    interleaved: bool
    mfma: tuple[int, int]
    span: Span = field(compare=False, repr=False)

    @property
    def registers(self) -> int:
        """VGPRs per lane of all fragments of a wave, of one product."""
        rows, cols = self.tile
        return self.fragments[0] * self.fragments[1] * rows * cols * self.dtype.bytes // (WAVE_LANES * 4)

    def tile_index(self, axis: int, wave: int, fragment: int, waves: int) -> int:
        """Return the tile row (axis 0) or column (axis 1) of the block for `fragment` of wave row or column `wave`."""
        return wave + waves * fragment if self.interleaved else wave * self.fragments[axis] + fragment


@dataclass(frozen=True)
class PhaseShift:
    """Waves `first`..`last` run `barriers` barriers later than the others."""

    first: int
    last: int
    barriers: int
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class Program(KernelProgram):
    """A whole kernel that sums products, resolved: what moves where, before anything is scheduled."""

    block: tuple[int, int, int]
    operands: tuple[Operand, ...]
    products: tuple[Product, ...]
    roles: tuple[Role, ...]
    accumulator: Accumulator
    equations: Sums
    tail: str | None
    phases: tuple[PhaseShift, ...]
    unroll: int | None
    clusters: Clusters | None = None
    streamed: frozenset[str] = frozenset()  # tensors that should not displace others in the caches

    @property
    def a(self) -> Operand:
        """The left factor of the first product."""
        return self.products[0].left

    @property
    def b(self) -> Operand:
        """The right factor of the first product."""
        return self.products[0].right

    @property
    def slices(self) -> int:
        """Register tiles along one K-step, the same for all operands."""
        return self.operands[0].slices

    def product_of(self, name: str) -> Product:
        """The product of that name; "" is the only one of a kernel with one."""
        return next(p for p in self.products if p.name == name or not name)

    def consumed(self, multiply: Multiply) -> Iterator[tuple[Operand, tuple[int, ...]]]:
        """The operands that a multiply takes, each with its fragments."""
        for tile in (multiply.left, multiply.right):
            yield self.operand(tile.name), tile.fragments

    @property
    def sum_registers(self) -> int:
        """VGPRs per lane of all sums of a wave."""
        return len(self.products) * self.accumulator.registers

    @property
    def shared(self) -> tuple[Operand, ...]:
        """The operands that pass through LDS."""
        return tuple(o for o in self.operands if o.shared)

    def operand(self, name: str) -> Operand:
        """The operand of that tensor name."""
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, Operand]:
        return {o.name: o for o in self.operands}

    @property
    def stored_matrices(self) -> tuple[Tensor, ...]:
        """The matrices that a block sees of tensors beside its operands: outputs, and inputs of their epilogue."""
        names = {o.name for o in self.operands}
        return tuple(v.matrix for v in self.equations.views if v.matrix.dims and v.tensor.name not in names)

    @property
    def batch(self) -> tuple[Axis, ...]:
        """The indices that say which matrices a block works on, the last one fastest."""
        return self.equations.batch

    @property
    def parallel(self) -> tuple[Axis, ...]:
        """The axes along which each block has one tile: indices, rows, columns."""
        return (*self.batch, self.equations.rows, self.equations.cols)

    @property
    def contraction(self) -> Axis:
        """The axis along which products are summed."""
        return self.equations.contraction

    @property
    def factors(self) -> frozenset[str]:
        """The tensors that are multiplied."""
        return frozenset(o.name for o in self.operands)

    def tile(self, axis: Axis) -> int:
        """Places of an axis that a block has at a time."""
        sums = self.equations
        sides = dict(zip((sums.rows, sums.cols, sums.contraction), self.block, strict=True))
        return sides.get(axis, 1)

    @property
    def ragged(self) -> Axis | None:
        """The rows, where a tensor of offsets says which of them are of which matrix of the batch."""
        return self.equations.rows if self.equations.rows.within else None

    @property
    def ragged_sum(self) -> Axis | None:
        """The contraction, where a tensor of offsets says which part of it each matrix of the batch sums."""
        return self.equations.contraction if self.equations.contraction.within else None

    @property
    def offsets(self) -> Tensor | None:
        """The tensor that says so, of rows or of the contraction."""
        axis = self.ragged or self.ragged_sum
        return axis.within.offsets if axis and axis.within else None

    @property
    def gathered(self) -> dict[str, EquationAccess]:
        """The accesses that give the indices of rows, by name, for operands whose rows are gathered."""
        return {v.tensor.name: v.gathered for v in self.equations.views if v.gathered is not None}

    @property
    def placed(self) -> dict[str, View]:
        """The operands whose elements are read at affine indices, by name."""
        return {v.tensor.name: v for v in self.equations.views if v.placed}

    @property
    def held(self) -> dict[Tensor, Dim]:
        """The tensors that hold places, and of which dimension."""
        return self.kernel.held

    @property
    def epilogue_tensors(self) -> tuple[Tensor, ...]:
        """The tensors that the kernel reads beside its operands."""
        scales = [a.tensor for s in self.equations.sums for a in s.beside]
        read = [op.source.tensor for op in self.equations.epilogue if isinstance(op, Load)]
        return tuple(dict.fromkeys([*scales, *read]))

    @property
    def m(self) -> Dim:
        """The rows of the output."""
        return self.equations.rows.dim

    @property
    def n(self) -> Dim:
        """The columns of the output."""
        return self.equations.cols.dim

    @property
    def k(self) -> Dim:
        """The contraction dimension."""
        return self.equations.contraction.dim

    @property
    def waves(self) -> int:
        """Waves of a block."""
        return max(r.last for r in self.roles) + 1

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.waves * WAVE_LANES

    @property
    def compute(self) -> Role:
        """The role that multiplies."""
        return next(r for r in self.roles if r.multiplies)

    @property
    def schedule(self) -> Schedule | None:
        """The schedule clause that the multiplying role follows."""
        return self.compute.schedule

    @property
    def tile_steps(self) -> int | None:
        """K-steps of one output tile, rounded up under a tail clause; None when K is dynamic, or each group's own."""
        return None if self.k.size is None or self.ragged_sum else -(-self.k.size // self.block[2])

    @property
    def part(self) -> Axis | None:
        """The index of the batch among whose places the contraction is divided."""
        return next((a for a in self.batch if a.name == self.equations.contraction.part), None)

    @property
    def steps(self) -> int | None:
        """K-steps that a block sums at a stretch; None if they are known only at run time.

        Where the contraction is divided among blocks, steps of the last ones may lie beyond its end.
        """
        if self.tile_steps is None or self.parts is None or self.grid.name == "stream_k":
            return None
        return -(-self.tile_steps // self.parts)

    @property
    def parts(self) -> int | None:
        """Parts of equally many K-steps in which blocks sum a tile: those of `split_k`, or the values of an index.

        None if it is known only at run time.
        """
        if self.part is not None:
            return self.part.dim.size
        return self.grid.count if self.grid.name == "split_k" else 1

    @property
    def direct(self) -> bool:
        """True if any operand goes directly from global memory to LDS."""
        return any(o.via is Via.DIRECT for o in self.operands)

    @property
    def dynamic(self) -> bool:
        """True if any of M, N, K is known only at run time."""
        return None in (self.m.size, self.n.size, self.k.size)
