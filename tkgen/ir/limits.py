"""The sizes that the generated arithmetic can do, and the conditions of a launch on sizes that are known only then.

A kernel counts rows, columns, K-steps and output tiles in `int`, K-steps of all tiles in 64 bits where 32 may not do,
and reaches the elements of a tile by 32-bit offsets from its first row; where a matrix of a batch begins is counted in
64 bits. So, for every kernel: a dimension rounded up to whole blocks fits an `int`; the rows of one tile span less than
a buffer reaches; tiles of all matrices, and the next tile of a persistent block, fit an `int`; the threads of a launch
can be counted. Static sizes beyond this are E607; for dynamic ones `requirements` says what the generated host code,
the emulator's callers and the predictor check at run time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate
from math import ceil, lcm, prod
from operator import mul

from tkgen.ir.divided import Divided, completed, divided
from tkgen.ir.launch import Launch
from tkgen.ir.types import ACCESS_BYTES, Dim, Program, Tensor

LARGEST_INT = (1 << 31) - 1
LARGEST_ROWS_SIZE = LARGEST_INT // 2 - 1  # of a dimension of a kernel of rows: a tile that begins inside can be counted
MOST_PARTS = (
    1 << 16
)  # into which a contraction is divided where only run time knows how many: a step of each can be counted
BUFFER_BYTES = 0x7FFFFF00  # LARGEST_RANGE of kittens/global.cuh: what the offsets of one tile's elements reach
# `grid_size_x` of a dispatch packet counts threads in 32 bits (HSA Platform System Architecture Specification, 2.9.6).
LAUNCH_THREADS = (1 << 32) - 1


class Kind(Enum):
    """The form of a requirement on a dimension, with its value."""

    RANGE = "from the least to the value"
    MULTIPLE = "a multiple of the value"
    STEPS_MULTIPLE = "its K-steps are a multiple of the value"
    LEAST_STEPS = "its K-steps are the value or more"
    TILES = "the output tiles are the value or fewer"
    SHARED = "the value of its places share one of the other's: divided by it and rounded up, it is the other"
    PITCH = "with the others it makes the value or less"


@dataclass(frozen=True)
class Requirement:
    """Something that a kernel needs of a dynamic dimension, in words in `message`.

    TILES is of all dynamic ones of the output and its batch, SHARED and PITCH are of `dim` and `others`. `clauses` are
    the clauses of the spec that it comes from.
    """

    kind: Kind
    dim: Dim
    value: int
    message: str
    clauses: tuple[str, ...] = ()
    least: int = 1
    others: tuple[Dim, ...] = ()

    def holds(self, program: Program, extents: Mapping[str, int]) -> bool:
        """Return True if these sizes meet it."""
        size = extents[self.dim.name]
        parts = program.parts or (extents[program.part.dim.name] if program.part else 1)
        steps = -(-size // (program.block[2] * max(parts, 1)))
        match self.kind:
            case Kind.RANGE:
                return self.least <= size <= self.value
            case Kind.MULTIPLE:
                return size % self.value == 0
            case Kind.STEPS_MULTIPLE:
                return steps % self.value == 0
            case Kind.LEAST_STEPS:
                return steps >= self.value
            case Kind.TILES:
                launch = Launch(program, extents)
                counts = [
                    launch.most_tiles if program.ragged else launch.matrix_tiles,
                    *(extents[d.name] for d in dynamic_batch(program)),
                ]
                return _within(counts, self.value)
            case Kind.SHARED:
                return -(-size // self.value) == extents[self.others[0].name]
            case Kind.PITCH:
                return _within([size, *(extents[d.name] for d in self.others)], self.value)


def _within(factors: Sequence[int], most: int) -> bool:
    """Return True if factors make `most` or less, however many of them are multiplied."""
    return all(product <= most for product in accumulate(factors, mul))


@dataclass(frozen=True)
class Reach:
    """The largest extent of a dimension: `most`; where a tensor's tile limits it, that tensor and the tile's rows."""

    most: int
    tensor: Tensor | None = None
    rows: int = 0


def reach(program: Program, dim: Dim) -> Reach:
    """Return the largest size that a dimension of the product may have, and the tensor that limits it, if one does."""
    bm, bn, bk = program.block
    tiled = ((bm, program.m), (bn, program.n), (bk * (program.parts or MOST_PARTS), program.k))
    unit = max((size for size, each in tiled if each == dim), default=1)  # the pitch of a view is not tiled
    found = [Reach(LARGEST_INT // unit * unit)]
    if program.ragged and dim == program.m:  # the tiles of all groups are counted, each with one that is not full
        found = [Reach(LARGEST_INT - unit * (prod(a.dim.size or 1 for a in program.batch) + 1))]
    tile_rows = program.accumulator.tile[0]
    tiles = [(o.tensor, o.lds_shape[0]) for o in program.operands]
    tiles += [(t, tile_rows) for t in program.stored_matrices]
    for tensor, rows in tiles:
        if tensor.dims[-1] == dim:
            rows = rows if len(tensor.dims) == 2 else 1
            found.append(Reach(tensor.dtype.elements(BUFFER_BYTES) // rows, tensor, rows))
    return min(found, key=lambda r: r.most)


def most_blocks(program: Program) -> int:
    """Return the largest number of blocks of a launch."""
    return LAUNCH_THREADS // program.threads


def most_tiles(program: Program) -> int:
    """Return the largest number of output tiles that a kernel can count and a launch can have blocks for.

    The tiles are those of one matrix, or of all matrices where the size of the batch is known only at run time.
    """
    grid, matrices = program.grid, prod(a.dim.size or 1 for a in program.batch)
    matrices = 1 if program.ragged else matrices  # the tiles of all groups are counted together
    if grid.name in ("persistent", "stream_k"):
        return (LARGEST_INT - grid.count) // matrices  # a persistent block looks this far ahead
    return most_blocks(program) // (matrices * (grid.count if grid.name == "split_k" else 1))


def dynamic_batch(program: Program) -> tuple[Dim, ...]:
    """The dimensions of a batch known only at run time, for each index that runs over one."""
    return tuple(a.dim for a in program.batch if a.dim.size is None)


def places_of(program: Program) -> set[Dim]:
    """The dynamic dimensions that blocks take one place of: there may be none, and then there is nothing to do."""
    return {*dynamic_batch(program), *(d.small for d in _divided(program))}


def with_all(program: Program, extents: Mapping[str, int], places: int = 1) -> dict[str, int]:
    """`extents` and a size of every other dimension, see `completed`: about so many `places` where it is dynamic."""
    return completed(program.dims, _divided(program), extents, places)


def product_sizes(program: Program, rows: int, cols: int, contraction: int, steps: int = 1) -> dict[str, int]:
    """Sizes of the product's dimensions, of one that is several of them the largest.

    That is made whole tiles of all of them where each size is, K-steps by so many `steps`.
    """
    units = (*program.block[:2], program.block[2] * steps)
    each = list(zip((program.m, program.n, program.k), (rows, cols, contraction), units, strict=True))
    found: dict[str, int] = {}
    for dim in dict.fromkeys(d for d, _, _ in each):
        own = [(size, unit) for d, size, unit in each if d == dim]
        whole, unit = all(size % unit == 0 for size, unit in own), lcm(*(unit for _, unit in own))
        largest = max(size for size, _ in own)
        found[dim.name] = -(-largest // unit) * unit if len(own) > 1 and whole else largest
    for axis, step in ((program.equations.rows, 0), (program.equations.cols, 0), (program.contraction, units[2])):
        if axis.parts:
            size = found.pop(axis.dim.name)
            as_stated = {dim.name: dim.size for dim in axis.parts if dim.size is not None}
            found |= as_stated if size == axis.dim.size else _of_parts(axis.parts, size, step)
    return found


def _of_parts(dims: Sequence[Dim], size: int, step: int) -> dict[str, int]:
    """Sizes of the dimensions that a flattened axis combines, of `size` places in all or a few more.

    The last one has a `step` where there is one, if that divides its own size; others are about equal, or their own.
    """
    found, left = dict[str, int](), size
    for n, dim in reversed(list(enumerate(dims))):
        wanted = ceil(left ** (1 / (n + 1)))
        if step:
            whole = n == len(dims) - 1 and (dim.size or 0) % step == 0
            wanted = step if whole else (dim.size or 1)
        found[dim.name] = left if n == 0 else min(wanted, dim.size or wanted, left)
        left = -(-left // found[dim.name])
    return found


def _divided(program: Program) -> tuple[Divided, ...]:
    return tuple(d for d in divided(program.kernel) if d.dynamic)


def counts_steps_in_64_bits(program: Program) -> bool:
    """Return True if the K-steps of all tiles together may be too many for an `int`."""
    launch = Launch.known(program)
    if program.grid.name != "stream_k" or launch is None or program.tile_steps is None:
        return program.grid.name == "stream_k"
    # The last block's run may end up to a step for each block behind the last step.
    return launch.all_tiles * launch.steps + 2 * launch.blocks > LARGEST_INT


def requirements(program: Program, unroll: int, tail_iterations: int) -> list[Requirement]:
    """List the requirements on dynamic sizes; each may rely on those before it."""
    m, n, k, batch = program.m, program.n, program.k, dynamic_batch(program)
    found = []
    for dim in dict.fromkeys((m, n, k)):
        if dim.size is None:
            most = reach(program, dim).most
            found.append(Requirement(Kind.RANGE, dim, most, f"{dim.name} must be from 1 to {most}", ("block",)))
    found += [*_places(program), *_pitches(program)]
    for dim, multiple in ((m, program.block[0]), (n, program.block[1])):
        if dim.size is None and not program.tail:
            message = f"{dim.name} must be a multiple of {multiple}"
            found.append(Requirement(Kind.MULTIPLE, dim, multiple, message, ("block",)))
    if program.tail == "clamped":
        found += _whole_chunks(program)
    if dynamic := [d for d in (m, n, *batch) if d.size is None]:
        most = most_tiles(program)
        together = " and ".join(", ".join(d.name for d in dict.fromkeys((*batch, m, n))).rsplit(", ", 1))
        message = f"{together} must make at most {most} output tiles"
        found.append(Requirement(Kind.TILES, dynamic[0], most, message, ("block", "grid")))
    if k.size is None and not program.ragged_sum:  # of a group there may be any number: the kernel rounds up
        found += _steps(program, unroll, tail_iterations)
    return found


def _places(program: Program) -> Iterator[Requirement]:
    """Dynamic dimensions that tensors have beside the product's: a batch may be empty, a place must be there.

    One of which several places of another share one has as many as that needs.
    """
    shared, indices = _divided(program), places_of(program)
    for dim in dict.fromkeys(d for t in program.arguments for d in t.dims):
        if dim.size is None and dim not in (program.m, program.n, program.k):
            least, most = (0 if dim in indices else 1), LARGEST_INT
            if program.part is not None and dim == program.part.dim:
                least, most = 1, MOST_PARTS
            message = f"{dim.name} must be from {least} to {most}"
            yield Requirement(Kind.RANGE, dim, most, message, least=least)
    for s in shared:
        if not s.by_tile:
            message = f"{s.large.name} must be a multiple of {s.count}"
            yield Requirement(Kind.MULTIPLE, s.large, s.count, message)
        message = f"{s.small.name} must be {s.large.name} / {s.count}{', rounded up' * s.by_tile}"
        yield Requirement(Kind.SHARED, s.large, s.count, message, others=(s.small,))


def _pitches(program: Program) -> Iterator[Requirement]:
    """Rows that lie a dynamic distance apart: those of a tile are within what its offsets reach."""
    for v in program.equations.views:
        first = next((d for d in v.pitch if d.size is None), None)
        if len(v.pitch) > 1 and first is not None:
            found = reach(program, v.matrix.dims[-1])
            others = tuple(d for d in v.pitch if d != first)
            message = f"{v.matrix.dims[-1].name} must be at most {found.most}"
            yield Requirement(Kind.PITCH, first, found.most, message, others=others)


def _whole_chunks(program: Program) -> list[Requirement]:
    """A clamped load moves a whole chunk back inside its row, so the rows of operands must be whole chunks."""
    found = []
    for tensor in (o.tensor for o in program.operands):
        dim, unit = tensor.dims[-1], tensor.dtype.elements(ACCESS_BYTES)
        if dim.size is None and dim != program.k:
            message = f"{dim.name} must be a multiple of {unit}: `tail clamped` reads rows of {tensor.name} in chunks"
            found.append(Requirement(Kind.MULTIPLE, dim, unit, message, ("tail",)))
    return found


def _steps(program: Program, unroll: int, tail_iterations: int) -> list[Requirement]:
    """List the requirements of the schedule on a dynamic number of K-steps."""
    k, step = program.k, program.block[2]
    parts = program.parts if program.part is None else program.part.dim.size or program.part.dim.name
    each = "" if parts == 1 else f" in each of {parts} parts"
    found = []
    if program.tail != "masked":
        assert program.parts is not None, "other tails have parts whose number is known"
        multiple = step * unroll * program.parts
        message = f"{k.name} must be a multiple of {multiple}"
        found.append(Requirement(Kind.MULTIPLE, k, multiple, message, ("block", "unroll")))
    elif unroll > 1:
        message = f"{k.name} must be a multiple of {unroll} steps of {step}{each}, rounded up"
        found.append(Requirement(Kind.STEPS_MULTIPLE, k, unroll, message, ("block", "unroll")))
    if tail_iterations:
        message = f"{k.name} must make at least {tail_iterations} steps of {step}{each}"
        found.append(Requirement(Kind.LEAST_STEPS, k, tail_iterations, message, ("block", "unroll")))
    return found
