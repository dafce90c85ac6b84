"""The layout of the elements of a kernel without matrix products: rows over lanes, waves or the whole block.

A block's tile is `rows` times a `fast` axis: the one that lies innermost in memory, or along which is reduced. A lane
holds chunks of neighbouring elements, as wide as one access (16 bytes where rows are aligned to that); `lanes` lanes
share a row, chunk after chunk in turn, so that they read whole lines. So a short row has a few lanes, several rows to
a wave, a long one the lanes of several waves:

    element  = (c * lanes + lane) * chunk + e        for c < chunks, e < chunk
    row      = ((pass * held + i) / across * groups + group) * across + i % across        for i < held

    lane     = thread / spacing % lanes
    group    = thread / (spacing * lanes) * spacing + thread % spacing

A chunk divides the row, so it is wholly inside the tensor or wholly outside: no element needs its own mask. A
tensor that has another axis innermost (the output of a transposition) is touched `across` rows at a time: a lane has
these rows, so it puts `across` elements of one column side by side in registers, and nothing goes through LDS. Lanes
of one row that are neighbours (`spacing` 1) then touch a separate line each. Where rows are reduced, a `spacing`
mends that: so many neighbouring lanes have rows that follow one another, which lie in one line, and the lanes of a row
are in several waves.

Of the ways to choose `lanes` and `spacing`, the cheapest is taken: lanes without work, accesses that touch many cache
lines for few bytes, and barriers of waves cost. `held` rows are in registers at a time, as many as leave room for
`RESIDENT` blocks on a compute unit: the loads of one pass beside the arithmetic and the stores of the other. A block
alone on its compute unit leaves memory idle whenever its waves meet. Values that all rows share, such as weights, are
loaded once and stay in registers. If the registers are too few for that, they are `late`: the sweeps that read them
load them anew for each row, chunk by chunk, from a cache.

Rows that no lane could hold are walked by loops (`each j in VOCAB by 512`): the loop's axis is the fast one, a pass
does with its tile what is done with a whole row else, and what is carried belongs to rows; see `row_loops`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd, prod
from typing import Protocol

from tkgen.ir.deciding import decided
from tkgen.ir.equations import (
    Access,
    Axis,
    AxisKind,
    Digit,
    Index,
    Kernel,
    Load,
    Map,
    Op,
    Reduce,
    Scan,
    Sort,
    Update,
    accesses,
    walk,
)
from tkgen.ir.limits import LARGEST_ROWS_SIZE
from tkgen.ir.tensors import Dim
from tkgen.ir.types import ACCESS_BYTES
from tkgen.schedule.leading import MOST_ROUNDS, leading
from tkgen.schedule.row_form import (
    RowError,
    Way,
    by_chunk,
    refuse,
    refuse_packed,
    refuse_places,
    run_length,
    way,
)
from tkgen.schedule.row_joined import joined
from tkgen.schedule.row_loops import along_one, gathered, loops
from tkgen.schedule.row_steps import HALVES, meets, steps
from tkgen.schedule.sweeps import REGISTER_BYTES, Sweep, divisors, padded_chunks, registers, sweeps
from tkgen.schedule.unrolled import unrolled
from tkgen.targets.synchronisation import Synchronisation
from tkgen.tile.program import Node

RESIDENT = 2  # blocks that are to share a compute unit
WAVES_PER_SIMD = 4  # at least, that hide the latency of memory
OTHER_REGISTERS = 24  # of a lane, beside its elements: addresses, and what is computed at the moment
CHUNK_REGISTERS = 0.75  # of a lane for each of its chunks, however short: what stands between its load and its store
WORKING_REGISTERS = {"random": 48}  # of functions that take many while they compute
ISSUE = 2  # cycles of a CU, for the address of an access and to issue it
EXCHANGE_BYTES = 16 * 1024  # of LDS at most for the sums of many groups, so that `RESIDENT` blocks fit anywhere


class LaneTarget(Protocol):
    """The facts about a machine that a layout needs: a compute unit is its SM, a wave its warp,
    a SIMD a sub-partition.
    """

    @property
    def name(self) -> str:
        """As specs and options say it."""

    @property
    def wave_size(self) -> int:
        """Lanes of a wave."""

    @property
    def simds_per_cu(self) -> int:
        """SIMDs of a compute unit."""

    @property
    def max_waves_per_simd(self) -> int:
        """Waves that share a SIMD at most."""

    @property
    def max_vgprs(self) -> int:
        """Registers of a lane at most."""

    @property
    def line_bytes(self) -> int:
        """Bytes of global memory that are moved together."""

    @property
    def synchronisation(self) -> Synchronisation:
        """The synchronisation of waves."""

    def max_registers(self, waves_per_simd: int) -> int:
        """Most registers of a lane at which so many waves share a SIMD."""


@dataclass(frozen=True)
class RowMap:
    """The layout of one kernel over a block of `waves` waves: see the module."""

    kernel: Kernel
    waves: int
    fast: Axis
    rows: tuple[Axis, ...]
    lanes: int
    spacing: int  # threads from a lane of a row to the next one
    chunk: int
    chunks: int
    across: int
    held: int
    passes: int
    budget: int  # registers of a lane at which `RESIDENT` blocks share a compute unit
    wave_lanes: int
    line_bytes: int  # of global memory, that are moved together
    late: tuple[Access, ...] = ()  # what all rows share, loaded by each sweep that reads it, not once before the rows

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.waves * self.wave_lanes

    @property
    def groups(self) -> int:
        """Groups of lanes, each with rows of its own."""
        return self.threads // self.lanes

    @property
    def row_count(self) -> int:
        """Rows of a tile."""
        return prod(map(extent, self.rows))

    @property
    def length(self) -> int:
        """Elements of a row of the tile."""
        return extent(self.fast)

    @property
    def waves_of_row(self) -> int:
        """Waves that share a row."""
        return self.lanes // self.lanes_of_wave

    @property
    def lanes_of_wave(self) -> int:
        """Lanes of one wave that share a row."""
        return min(self.lanes, self.wave_lanes // self.spacing)

    @property
    def groups_of_wave(self) -> int:
        """Groups that have lanes in one wave."""
        return self.wave_lanes // self.lanes_of_wave

    def lane(self, thread: int) -> int:
        """Return the number of a thread among the lanes that share its row."""
        return thread // self.spacing % self.lanes

    def group(self, thread: int) -> int:
        """The group that a thread belongs to."""
        return thread // (self.spacing * self.lanes) * self.spacing + thread % self.spacing

    @cached_property
    def sweeps(self) -> tuple[Sweep, ...]:
        """The sweeps over the elements, in order."""
        return sweeps(self.kernel, self.fast)

    @cached_property
    def steps(self) -> tuple[Node, ...]:
        """The steps of a block in one iteration.

        Where several waves load parts of the same lines, they continue together, so that a line is read once for all of
        them. The referee also forgets accesses before a barrier.
        """
        width = self.groups_of_wave * self.across
        across = [access.tensor.dtype for access in accesses(self.kernel) if self.way(access) is Way.ACROSS]
        parts = self.groups_of_wave < self.groups and any(width * dtype.bytes < self.line_bytes for dtype in across)
        return steps(self.sweeps, self.waves_of_row > 1, parts)

    @property
    def meets(self) -> bool:
        """True if its waves meet in every loop."""
        return meets(self.steps)

    def largest(self, dim: str) -> int:
        """The largest size of a dimension known only at run time."""
        return LARGEST_ROWS_SIZE

    @property
    def exchanges(self) -> int:
        """Barriers of all waves in one pass, one for each walk whose reductions cross waves."""
        return sum(bool(s.handed) for s in self.sweeps) if self.waves_of_row > 1 else 0

    def parts(self, op: Reduce | Scan) -> int:
        """Numbers that a wave hands on of a row: one of a reduction, one for each chunk of a scan."""
        return self.chunks if isinstance(op, Scan) else 1

    @property
    def most_handed(self) -> int:
        """Numbers that a wave hands on of a row after a sweep, at most."""
        return max(sum(map(self.parts, s.handed)) for s in self.sweeps)

    @property
    def exchange_bytes(self) -> int:
        """LDS for what waves hand each other: of each group in a wave and each row that it has at a time, twice."""
        if not self.exchanges:
            return 0
        return HALVES * self.most_handed * self.held * self.spacing * self.waves * REGISTER_BYTES

    @property
    def registers(self) -> int:
        """VGPRs of a lane, as predicted: its elements held at a time, and what is beside them."""
        used = {op.function for op in walk(self.kernel.body) if isinstance(op, Map)}
        working = OTHER_REGISTERS + sum(WORKING_REGISTERS.get(function, 0) for function in used)
        return self._elements + working + int(CHUNK_REGISTERS * self.chunks * self.held)

    @cached_property
    def _elements(self) -> int:
        return registers(self.kernel, self.fast, self.held, self.chunks, self.chunk, self.late)

    def waves_per_simd(self, target: LaneTarget) -> int:
        """Waves of a SIMD that the compiler is held to: those of `RESIDENT` blocks where they fit, else of one."""
        blocks = RESIDENT if self.registers <= self.budget else 1
        return min(blocks * -(-self.waves // target.simds_per_cu), target.max_waves_per_simd)

    @property
    def rows_covered(self) -> int:
        """Rows that the lanes cover, those after the last of the tile too."""
        return self.passes * self.held * self.groups

    def way(self, access: Access) -> Way:
        """Return the way in which a lane accesses `access`."""
        if self.chunk > 1 and by_chunk(access, self.fast, self.chunk):
            return Way.CHUNK
        return way(access, self.fast)

    def describe(self) -> str:
        """One line for people."""
        if self.spacing > 1:
            of_wave = self.lanes_of_wave
            sharing = f"{of_wave} lane{'s' if of_wave > 1 else ''} of each of {self.waves_of_row} waves"
        elif self.lanes > self.wave_lanes:
            sharing = "the whole block" if self.lanes == self.threads else f"{self.lanes // self.wave_lanes} waves"
        else:
            sharing = "a wave" if self.lanes == self.wave_lanes else f"{self.lanes} lane{'s' if self.lanes > 1 else ''}"
        again = f", in {self.passes} passes" if self.passes > 1 else ""
        held = f", {self.held} rows of a lane" if self.held > 1 else ""
        chunks = f"{self.chunks} chunk{'s' if self.chunks > 1 else ''} of {self.chunk}"
        waves = f"{self.waves} wave{'s' if self.waves > 1 else ''}"
        late = f", {' and '.join(a.tensor.name for a in self.late)} loaded where used" if self.late else ""
        return (
            f"{self.row_count} x {self.length} by {waves}: {sharing} to a row, {chunks} for a lane{held}{again}{late}"
        )


def extent(axis: Axis) -> int:
    """Elements of a tile along an axis that has an extent. Raises RowError if it is known only at run time."""
    size = axis.tile if axis.kind is not AxisKind.WHOLE else axis.dim.size
    if size is None:
        raise RowError(
            f"a row of {axis.dim.name} elements is complete in registers: its size must be known at build time",
            axis.span,
        )
    return size


def in_form(kernel: Kernel) -> Kernel:
    """The kernel as it is laid out: see `leading`, `unrolled`, `row_joined` and `row_loops` of this folder."""
    return gathered(joined(along_one(unrolled(leading(decided(kernel))))))


def map_rows(kernel: Kernel, waves: int, target: LaneTarget, along: Axis | None = None) -> RowMap:
    """The layout of `kernel` for blocks of `waves` waves on `target`; with `along`, these divide that axis among them.

    Raises:
        RowError: the kernel is not of this family, or no layout of its tile fits.
    """
    refuse(kernel)
    kernel = in_form(kernel)
    fast = _fast(kernel)
    refuse_places(kernel)
    rows = _rows(kernel, fast)
    chunk = _width(kernel, fast, (a for a in accesses(kernel) if way(a, fast) is Way.ALONG))
    chunk = 1 if by_element(kernel, fast) else chunk
    crossing = [a for a in accesses(kernel) if way(a, fast) is Way.ACROSS and rows and a.innermost == rows[-1]]
    across = _width(kernel, rows[-1], crossing) if crossing else 1
    refuse_packed(kernel, fast, chunk)
    of_block = -(-waves // target.simds_per_cu)  # waves of a block that share a SIMD
    sharing = max(min(RESIDENT * of_block, target.max_waves_per_simd), WAVES_PER_SIMD)
    budget = target.max_registers(sharing)
    reduced = any(isinstance(op, Reduce | Scan) for op in walk(kernel.body))
    found = [
        candidate
        for spacing in (_powers(target.wave_size) if crossing and reduced else (1,))
        for lanes in _powers(waves * target.wave_size // spacing)
        if (candidate := _candidate(kernel, waves, fast, rows, lanes, spacing, chunk, across, budget, along,
                                    target.wave_size, target.line_bytes)) is not None
    ]  # fmt: skip
    if not found:
        if along is not None and any(isinstance(op, Sort) for op in walk(kernel.body)):
            raise RowError(f"lanes of one wave sort a row, but `waves` is along {along.name}", along.span,
                           "leave `along` out")  # fmt: skip
        raise RowError(f"{waves} waves of {target.wave_size} lanes cannot divide such a tile", kernel.axes[0].span)
    most = min(target.max_registers(of_block), target.max_vgprs)
    best = min(found, key=lambda m: (m.registers > most, _cost(m)))
    late = replace(best, late=_shared(best))
    if late.registers <= budget < best.registers:
        best = late
    if best.registers > most and any(sweep.sorts for sweep in best.sweeps):
        raise RowError(
            f"lanes of one wave sort a row, and {best.length} elements take about {best.registers} registers of each "
            f"lane, of {most}", fast.span,
            f"take the largest alone, `topk(x, K)`, with K up to {MOST_ROUNDS}; sort parts of rows, a tensor of "
            "`[ROWS, PARTS, 1024]`; or use fewer waves",
        )  # fmt: skip
    if best.registers > most:
        dims, names = fast.parts or (fast.dim,), "ijklmn"
        if len(dims) > 1:
            each = ", ".join(f"{name} in {dim.name}" for name, dim in zip(names, dims, strict=False))
            looped = f"flatten the axes to one loop, `each ({each}) by 4096`"
        else:
            looped = f"loop over it, `each i in {fast.dim.name} by 4096`"
        looped += ", so that a row need not be in registers"
        raise RowError(
            f"a row of {best.length} elements takes about {best.registers} registers of each lane: give it more waves"
            + (f", and not along {along.name}" if along is not None and along != fast else ""),
            fast.span,
            looped if fast.kind is AxisKind.WHOLE or len(dims) > 1 else "",
        )
    return best


def _fast(kernel: Kernel) -> Axis:
    """The axis that lanes walk along: that of loops or reductions, else the innermost of most bytes."""
    reduced = {loop.axis: loop.span for loop in loops(kernel) if not loop.axis.is_index}
    reduced |= {op.axis: op.result.span for op in walk(kernel.body) if isinstance(op, Reduce | Scan | Sort)}
    if len(reduced) > 1:
        names = " and ".join(a.name for a in reduced)
        scanned = any(isinstance(op, Scan) for op in walk(kernel.body))
        what = "loops and reductions" if loops(kernel) else "reductions and scans" if scanned else "reductions"
        raise RowError(f"{what} along {names}: lanes can divide one axis only", [*reduced.values()][-1])
    if reduced:
        return next(iter(reduced))
    weight: dict[Axis, int] = {}
    for access in accesses(kernel):
        last = access.innermost
        if last is not None and not last.is_index:
            weight[last] = weight.get(last, 0) + prod(map(extent, access.axes)) * access.tensor.dtype.bytes
    if not weight:  # lanes read neighboring positions, or store to each sum of axes
        weight = {axis: extent(axis) for access in accesses(kernel) for axis in access.axes}
    if not weight:
        raise RowError("no tensor has a tile along its last dimension, so lanes have nothing to divide")
    return max(weight, key=lambda axis: weight[axis])


def _rows(kernel: Kernel, fast: Axis) -> tuple[Axis, ...]:
    """The other axes of the tile; that which some tensor has innermost is the last."""
    axes = [a for a in kernel.axes if not a.is_index and a != fast and any(a in x.axes for x in accesses(kernel))]
    inner = {a.innermost for a in accesses(kernel) if way(a, fast) is Way.ACROSS} & set(axes)
    if len(inner) > 1:
        names = " and ".join(sorted(a.name for a in inner if a))
        raise RowError(
            f"besides {fast.name}, tensors have {names} innermost, but a lane can have at most two directions"
        )
    return tuple(sorted(axes, key=lambda axis: axis in inner))


def _width(kernel: Kernel, axis: Axis, along: Iterable[Access]) -> int:
    """Neighbours on `axis` that these accesses move at once: 16 bytes, or less where rows are not aligned to that."""
    along = tuple(along)
    tensors = [access.tensor for access in along]
    # An affine index may go along a dimension of another size, and parts of a flattened axis along several.
    lines = [run_length(access, axis) or access.tensor.dims[-1].size for access in along]
    if not tensors or axis.dim.size is None or axis.within is not None:  # a group begins anywhere
        return 1
    widest = ACCESS_BYTES // max(t.dtype.bytes for t in tensors)
    return gcd(widest, axis.dim.size, extent(axis), *(line or 1 for line in lines))


def by_element(kernel: Kernel, fast: Axis) -> bool:
    """Return True if a lane moves one element at a time: each has a computed position, or is combined in memory.

    Neighboring lanes then combine neighboring elements.
    """
    held = any(i.through is not None and i.axis == fast for a in accesses(kernel) for i in a.indices)
    return held or any(s.update is not Update.SET and fast in s.target.axes for s in kernel.stores)


def _powers(most: int) -> Iterable[int]:
    """1, 2, 4, ... as far as they divide `most`."""
    lanes = 1
    while lanes <= most and most % lanes == 0:
        yield lanes
        lanes *= 2


def _candidate(
    kernel: Kernel,
    waves: int,
    fast: Axis,
    rows: tuple[Axis, ...],
    lanes: int,
    spacing: int,
    chunk: int,
    across: int,
    budget: int,
    along: Axis | None,
    wave_lanes: int,
    line_bytes: int,
) -> RowMap | None:
    """The layout with `lanes` lanes to a row, with as many rows at a time as registers allow; None where none is.

    Where the lanes of a row are all in one wave, a `spacing` would only name them otherwise.
    """
    spread = lanes * spacing
    sorting = any(isinstance(op, Sort) for op in walk(kernel.body))
    if sorting and spread > wave_lanes:
        return None  # lanes of one wave sort a row
    if along is not None and (spread > wave_lanes if along != fast else spread < waves * wave_lanes):
        return None
    if spacing > 1 and spread <= wave_lanes:
        return None
    groups = waves * wave_lanes // lanes
    chunks = -(-extent(fast) // (lanes * chunk))
    slots = -(-prod(map(extent, rows)) // groups)
    across = gcd(across, slots)
    made = [
        RowMap(kernel, waves, fast, rows, lanes, spacing, chunk, chunks, across, held, slots // held, budget,
               wave_lanes, line_bytes)
        for held in range(across if sorting else slots, 0, -across)
        if slots % held == 0
    ]  # fmt: skip
    scans = any(sweep.scans for sweep in made[0].sweeps) if made else False
    made = [m for m in made if (spacing == 1 and not scans) or m.exchange_bytes <= EXCHANGE_BYTES]
    return next((m for m in made if m.registers <= budget), made[-1] if made else None)


def _shared(m: RowMap) -> tuple[Access, ...]:
    """Return the accesses that can be late, such as weights: of kernels without loops, and wider than an element."""
    if loops(m.kernel) or m.chunk == 1:
        return ()
    loaded = dict.fromkeys(op.source for op in m.kernel.body if isinstance(op, Load))
    return tuple(a for a in loaded if m.way(a) is Way.ALONG and not {*a.axes} & {*m.rows})


def _cost(m: RowMap) -> float:
    """Estimate the cost of a layout, in cycles of a CU for each element; only comparisons mean anything.

    A vector instruction of a wave takes a cycle (of four SIMDs), and so does each line that an access touches.
    """
    touched = accesses(m.kernel)
    steps = m.lanes_of_wave.bit_length() - 1
    got = 8 + (m.waves_of_row if m.spacing > 1 else 0)  # from LDS: with a spacing each lane gets all parts
    handing = 2 * steps + got * (m.waves_of_row > 1)
    row_work, trips = 0.0, _trips(m.kernel)
    for sweep in m.sweeps:
        work = sum(ROW_COST.get(_what(op), 2) for op in (*sweep.rows, *sweep.reduces, *sweep.whole))
        work += handing * (len(sweep.reduces) + len(sweep.whole))
        work += len(sweep.scans) * m.chunks * (handing + SCAN_COST * m.waves_of_row)
        row_work += work if sweep.loop else work / trips
    chosen = [max(SORTED_COST[op.function] for op in s.sorts) for s in m.sweeps if s.sorts]
    row_work += sum(chosen) * _sorting(m)
    row_work += DIVISOR_COST * len(divisors(m.kernel, m.fast))
    element_work = sum(ELEMENT_COST.get(_what(op), 1) for s in m.sweeps for op in s.used)
    lines = sum(_lines(m, access) for access in touched if m.way(access) is not Way.ROW)
    slots = m.passes * m.held * m.threads / m.wave_lanes
    needed = m.row_count * m.length / m.wave_lanes
    alone = ALONE_COST * m.registers / m.budget if m.registers > m.budget else 1.0
    barriers = 1.1 if m.exchanges else 1.0
    return slots * (row_work + m.chunks * (m.chunk * element_work + lines)) / needed * alone * barriers


def _sorting(m: RowMap) -> int:
    """Vector instructions of a network of keys of 32 bits."""
    padded = padded_chunks(m.chunks)
    bits, own = ((n - 1).bit_length() for n in (padded * m.lanes * m.chunk, m.chunk))
    crossing = range(own, own + m.lanes.bit_length() - 1)
    steps = ((bits - bit) * (6 if bit in crossing else 2) for bit in range(bits))
    return padded * m.chunk * sum(steps)


def _trips(kernel: Kernel) -> int:
    """Passes of the loops, for each of which what is between them counts once; 1 if known only at run time."""
    found = loops(kernel)
    size = found[0].axis.dim.size if found else None
    return -(-size // (found[0].axis.tile or 1)) if size is not None else 1


# Vector instructions, about: what a division or a transcendental function is made of, a store's rounding.
ROW_COST = {"div": 12, "Reduce": 4}
DIVISOR_COST = 14
SORTED_COST = {"values": 1, "positions": 2.5}  # for a key of 32 bits, and of 64
SCAN_COST = 3  # of a chunk and a wave of its row, to find what comes before
ALONE_COST = 1.5  # of a block that leaves no room for another: memory waits while its waves meet
ELEMENT_COST = {"div": 2, "exp": 5, "exp2": 4, "log": 5, "silu": 12, "gelu": 25, "Store": 4, "random": 60,
                "pow": 16, "mod": 30, "expm1": 14, "fast_silu": 12, "fast_gelu": 15}  # fmt: skip


def _what(op: Op) -> str:
    return op.function if isinstance(op, Map) else type(op).__name__


def _lines(m: RowMap, access: Access) -> float:
    """Lines that one wave touches for a chunk of each lane, and what issuing the accesses costs beside them."""
    size, line = access.tensor.dtype.bytes, m.line_bytes
    lanes, groups = m.lanes_of_wave, m.groups_of_wave
    if m.way(access) is Way.ACROSS and m.fast in access.indices[-1].axes:  # neighbours, an element at a time
        return m.chunk * (max(groups * lanes * m.chunk * size / line, 1.0) + ISSUE)
    if m.way(access) is Way.ACROSS:  # groups follow one another along the tensor's rows
        accesses_made = m.chunk / m.across
        return accesses_made * (lanes * max(groups * m.across * size / line, 1.0) + ISSUE)
    span = lanes * m.chunk * size
    if m.chunks == 1 and groups > 1:  # rows that are covered whole follow one another, too
        return max(groups * min(span, m.length * size) / line, 4.0) + ISSUE
    stride = m.length * size
    return max(groups * max(span, min(stride, line)) / line, 4.0) + ISSUE


def far(access: Access) -> list[tuple[int, tuple[Dim, ...]]]:
    """Return the extent of a tile along each dimension: positions after its first, and the inner dimensions it
    multiplies.
    """
    found = []
    for n, index in enumerate(access.indices):
        if index.terms:
            found.append((spread(index), access.tensor.dims[n + 1 :]))
        elif index.axis is not None and not index.axis.is_index:
            whole = index.through is not None  # a row may lie anywhere
            places = (access.tensor.dims[n].size or 0) if whole else extent(index.axis)
            found.append((places - 1, access.tensor.dims[n + 1 :]))
    return found


def spread(index: Index) -> int:
    """Positions from the first to the last that an affine index takes within a tile."""
    tiled = [(axis, term.factor) for term in index.terms if isinstance(axis := term.of, Axis) and not axis.is_index]
    parts = [(digit, term.factor) for term in index.terms if isinstance(digit := term.of, Digit)]
    return sum(abs(factor) * (extent(axis) - 1) for axis, factor in tiled) + sum(
        abs(factor) * (digit.size - 1) for digit, factor in parts
    )


def reach_bytes(access: Access, extents: Mapping[str, int] | None = None) -> int:
    """Bytes from the first to the last element of a tile in its tensor; 0 if known only at run time."""
    total, known = 1, {d.name: d.size for d in access.tensor.dims if d.size is not None} | dict(extents or {})
    for places, within in far(access):
        if places and any(d.name not in known for d in within):
            return 0
        total += places * prod(known.get(d.name, 1) for d in within)
    return total * access.tensor.dtype.bytes
