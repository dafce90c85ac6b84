"""The launches of a code object, and the blocks of them, that represent all: the classes of `tkgen.machine_check`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, gcd, lcm, sqrt
from typing import Any

from tkgen.ir.divided import divided
from tkgen.ir.equations import Argument, Map, walk
from tkgen.ir.functions import FUNCTIONS
from tkgen.ir.launch import Launch
from tkgen.ir.limits import dynamic_batch, product_sizes, requirements, with_all
from tkgen.ir.sizing import Piece
from tkgen.ir.types import ACCESS_BYTES, Program
from tkgen.schedule.plan import Plan
from tkgen.targets.model import round_up

MOST_TILES = 1 << 20  # of larger grids, the tiles between the first and the last half of as many are not told apart
MATRICES_WATCHED = 2  # of each index whose size only run time knows
TILES_WATCHED = 3  # by a persistent block of few K-steps; two where a tile is longer than the pipeline is deep


@dataclass(frozen=True)
class Watched:
    """One launch, the first block of it to watch, and others.

    `edges` are run in any case, for the bounds of the tensors; `others` only where the machine code does something else
    for other blocks. `blocks` is the extent of the grid, which may go beyond the real one: the block numbered b of a
    persistent grid does what a real block does from its tile b on. `steps` are the most K-steps of a tile, `work` those
    of all tiles of the first block; `scalars` are values of the scalar arguments.
    """

    launch: Launch[Any]
    blocks: int
    first: int
    edges: tuple[int, ...]
    others: tuple[int, ...]
    steps: int
    work: int
    scalars: Mapping[str, float]


@dataclass(frozen=True)
class _Repeat:
    """When K-steps of a tile begin to repeat: from `enough` on, a `period` more steps add nothing."""

    enough: int
    period: int

    def reduced(self, steps: int) -> int:
        """A number of steps after which a tile is as after `steps`."""
        return steps if steps <= self.enough else self.enough + (steps - self.enough) % self.period


def launches(plan: Plan) -> list[Watched]:
    """The launches that decide whether the machine code of `plan` is right; of sizes that it takes."""
    program, shape = plan.program, plan.shape
    repeat = _repeat(plan)
    needed = requirements(program, shape.unroll, shape.tail_iterations)
    made = _stream_k(program, repeat) if program.grid.name == "stream_k" else _tile_by_tile(plan, repeat)
    taken = [w for w in made if all(r.holds(program, w.launch.extents) for r in needed)]
    names = _compared(program)
    zeros = [_ones(program) | {zero: 0.0} for zero in names]
    zeros += [_ones(program) | dict.fromkeys(names, 0.0)] if len(names) > 1 else []
    return [*taken, *(replace(taken[0], scalars=values, others=()) for values in zeros if taken)]


def _compared(program: Program) -> list[str]:
    """The scalars that are compared with something: of one that is zero a tensor may be left out, as in BLAS."""
    arguments = {op.result: op.scalar.name for op in walk(program.kernel.body) if isinstance(op, Argument)}
    made = [op for op in walk(program.kernel.body) if isinstance(op, Map) and FUNCTIONS[op.function].predicate]
    return list(dict.fromkeys(arguments[v] for op in made for v in op.arguments if v in arguments))


def _tile_by_tile(plan: Plan, repeat: _Repeat) -> Iterator[Watched]:
    program = plan.program
    for number, k in enumerate(_contractions(plan, repeat)):
        for m, n in _extents(program, number == 0):
            sizes = product_sizes(program, m, n, k, plan.shape.unroll)
            yield _one(Launch(program, _batched(program, sizes)), repeat)


def _batched(program: Program, sizes: Mapping[str, int]) -> dict[str, int]:
    """All sizes, of a dynamic batch so many that a persistent block goes on to a second and a third tile."""
    several = with_all(program, sizes, MATRICES_WATCHED)
    if program.grid.name != "persistent" or None in (program.m.size, program.n.size) or not dynamic_batch(program):
        return several
    more = _with_tiles(program, sizes, program.grid.count * (TILES_WATCHED - 1) + 1)
    return max(several, more, key=lambda each: Launch(program, each).all_tiles)


def _with_tiles(program: Program, sizes: Mapping[str, int], tiles: int) -> dict[str, int]:
    """All sizes, of one dynamic index so many places that all matrices have at least so many tiles."""
    least, shared = with_all(program, sizes), [d.small for d in divided(program.kernel)]
    alone = next(d.name for d in dynamic_batch(program) if d not in shared)
    places = least[alone]
    return with_all(program, {**sizes, alone: round_up(-(-tiles * places // Launch(program, least).all_tiles), places)})


def _repeat(plan: Plan) -> _Repeat:
    """The plan's own proof says after how many iterations its pattern repeats. One period more is watched than that:
    the compiler may rotate a loop, and then a pass of it begins and ends within two passes of the source."""
    period = lcm(plan.shape.unroll, *(o.buffers for o in plan.program.shared))
    return _Repeat(plan.shape.steps(plan.passes_to_repeat) + period, period)


def _steps(plan: Plan, repeat: _Repeat) -> list[int]:
    """Numbers of K-steps of a tile to watch, the most first."""
    program, shape = plan.program, plan.shape
    if program.steps is not None:
        return [program.steps]
    most = repeat.enough + repeat.period - 1
    counts = {shape.steps(passes) for passes in range((most - shape.tail_iterations) // shape.unroll + 1)}
    return sorted((c for c in counts if c > 0), reverse=True)


def _contractions(plan: Plan, repeat: _Repeat) -> list[int]:
    """Sizes of the contraction to watch, the largest first; each number of steps, and with a ragged last step."""
    program, step = plan.program, plan.program.block[2]
    if program.k.size is not None:
        return [program.k.size]
    whole = [steps * (program.parts or 1) * step for steps in _steps(plan, repeat)]
    if program.tail != "masked" or step == 1:
        return whole
    return [*whole, *(k - step + 1 for k in whole), *(k - 1 for k in whole[:2])]


def _extents(program: Program, most: bool) -> list[tuple[int, int]]:
    """Rows and columns of the output to watch: for dynamic ones two tiles, the last one ragged where it may be.

    `most`: with several remainders, else with one.
    """
    rows, cols = _choices(program, 0, most), _choices(program, 1, most)
    if program.grid.name == "persistent" and (program.m.size is None or program.n.size is None):
        # Enough tiles that a block goes on to a second and a third.
        axis = 0 if program.m.size is None else 1
        extent, block = (cols, rows)[axis][0], program.block[1 - axis]
        across = -(-extent // block)
        tall = -(-(program.grid.count * (TILES_WATCHED - 1) + 1) // across) * program.block[axis]
        grown = [tall + n - 2 * program.block[axis] for n in (rows, cols)[axis]]
        rows, cols = (grown, cols) if axis == 0 else (rows, grown)
    return [(rows[i % len(rows)], cols[i % len(cols)]) for i in range(max(len(rows), len(cols)))]


def _choices(program: Program, axis: int, most: bool) -> list[int]:
    dim, block = (program.m, program.n)[axis], program.block[axis]
    if dim.size is not None:
        return [dim.size]
    if program.tail is None:
        return [2 * block]
    unit = program.a.tensor.dtype.elements(ACCESS_BYTES) if program.tail == "clamped" else 1
    remainders = dict.fromkeys((unit, block - unit, block // 2 // unit * unit, block))
    return [block + r for r in remainders if r][: None if most else 1]


def _ones(program: Program) -> dict[str, float]:
    return {s.name: 1.0 for s in program.scalars}


def _one(launch: Launch[Program], repeat: _Repeat) -> Watched:
    """A launch of any grid but stream_k."""
    if launch.program.ragged_sum:
        return _of_groups(_grouped(launch, _summed_offsets(launch, repeat)))
    if launch.program.ragged:
        return _of_groups(_grouped(launch, _some_offsets(launch)))
    program, tiles, sort, parts = launch.program, launch.all_tiles, _sort(launch), launch.parts
    steps = launch.block_steps
    if program.grid.name == "persistent":
        count = program.grid.count
        watched = TILES_WATCHED if steps < repeat.enough + repeat.period else 2
        late = max(tiles - watched * count, 0)
        if sort is not _whole:
            real = (_tiles(b, tiles, count, sort) for b in range(min(count, tiles) if tiles <= MOST_TILES else 0))
            chosen = _cover(real, [(b, _tiles(b, tiles, count, sort)) for b in _ends(late, tiles)], watched)
        else:
            chosen = [late]
        work = -(-(tiles - chosen[0]) // count) * steps
        return Watched(launch, tiles, chosen[0], (tiles - 1,), tuple(chosen[1:]), steps, work, _ones(program))
    # Blocks of other matrices differ in where their tensors and parts begin.
    blocks = tiles * parts
    classes: dict[Hashable, int] = {}
    for tile in _ends(0, launch.matrix_tiles if sort is not _whole else 1):
        for part in {0, parts - 1}:
            classes.setdefault((sort(tile), part), part * tiles + tile)
    for matrix in _parts(launch):
        classes.setdefault((sort(0), "part", matrix), matrix * launch.matrix_tiles)
    # A remap that branches on the block sends others another way before the first access: one more of them.
    others = sorted({*classes.values(), blocks // 2} - {0, blocks - 1})
    edges = (blocks - 1,) if blocks > 1 else ()
    return Watched(launch, blocks, 0, edges, tuple(others), steps, steps, _ones(program))


def _grouped(launch: Launch[Program], offsets: Sequence[int]) -> Launch[Program]:
    """The same with groups of these offsets."""
    return launch.of_groups({t.name: offsets for t in launch.program.kernel.offsets})


def _some_offsets(launch: Launch[Program]) -> tuple[int, ...]:
    """Offsets of groups of many kinds: an empty one first, then some of a length that no tile divides, and rows beside.

    Which of them a block finds depends on data; what it does for a group depends on how many rows its tile has.
    """
    size, groups = launch.extents[launch.program.m.name], launch.matrices
    ends = [min(size, size * g // max(groups - 1, 1) + g % 3) for g in range(groups)]
    return (0, *ends) if groups > 1 else (0, size)


def _summed_offsets(launch: Launch[Program], repeat: _Repeat) -> tuple[int, ...]:
    """Offsets of groups to sum over: none, a part of a K-step, so many that the pattern repeats, and other numbers."""
    size, step = launch.extents[launch.program.k.name], launch.program.block[2]
    lengths = [0, step - 1, (repeat.enough + 1) * step + 1, *((n + 2) * step for n in range(launch.matrices))]
    ends = [0]
    for length in lengths[-launch.matrices :] if launch.matrices < 3 else lengths[: launch.matrices]:
        ends.append(min(ends[-1] + length, size))
    return tuple(ends)


def _of_groups(launch: Launch[Program]) -> Watched:
    """Blocks of ragged rows: for each sort of tile, and sequence of sorts, one; and one that finds nothing to do."""
    program, work = launch.program, launch.work
    groups = launch.groups[program.ragged] if program.ragged else []
    height, width, cols = program.block[0], program.block[1], launch.extents[program.n.name]

    def sort(piece: Piece) -> Hashable:
        rows = len(groups[piece.matrix]) if groups else launch.extents[program.m.name]
        return (piece.row + 1) * height > rows, (piece.col + 1) * width > cols, piece.steps

    busy = [block for block, mine in enumerate(work) if mine]
    sorts = {block: tuple(map(sort, work[block])) for block in busy}
    chosen = _cover(sorts.values(), [(b, sorts[b]) for b in busy], TILES_WATCHED) if busy else [0]
    idle = [block for block, mine in enumerate(work) if not mine][:1]
    steps = max((piece.steps for mine in work for piece in mine), default=0)
    most = max(sum(piece.steps for piece in mine) for mine in work)
    return Watched(launch, launch.blocks, chosen[0], (*chosen[1:], *idle), (), steps, most, _ones(program))


def _parts(launch: Launch[Program]) -> Iterator[int]:
    """Yield representative matrices of a divided contraction: the first that its end cuts, and the first beyond it."""
    program, seen = launch.program, set[bool]()
    end = launch.extents[program.k.name]
    for matrix in range(launch.matrices if program.part is not None else 0):
        first = launch.first_step(matrix) * program.block[2]
        last = first + launch.block_steps * program.block[2]
        if last > end and (first >= end) not in seen:
            seen.add(first >= end)
            yield matrix


def _ends(begin: int, end: int) -> Iterable[int]:
    """`begin` to `end` - 1, of many the first and the last half of MOST_TILES."""
    if end - begin <= MOST_TILES:
        return range(begin, end)
    return [*range(begin, begin + MOST_TILES // 2), *range(end - MOST_TILES // 2, end)]


def _whole(_index: int) -> Hashable:
    """The sort of every tile where none hangs over."""
    return False, False


def _sort(launch: Launch[Program]) -> Callable[[int], Hashable]:
    """Return a function of a linear index: whether its tile hangs over the end of the rows, and of the columns."""
    program = launch.program
    dims = zip((program.m, program.n), program.block[:2], strict=True)
    ragged = tuple(launch.extents[d.name] % b != 0 for d, b in dims)
    if not any(ragged):
        return _whole
    rows, cols = launch.tile_grid
    placed = launch.order if launch.matrix_tiles <= MOST_TILES else None

    def sort(place: int) -> Hashable:
        index = place % launch.matrix_tiles
        row, col = placed[index] if placed is not None else launch.remap.place(index, rows, cols)
        return ragged[0] and row == rows - 1, ragged[1] and col == cols - 1

    return sort


def _tiles(block: int, tiles: int, count: int, sort: Callable[[int], Hashable]) -> tuple[Hashable, ...]:
    """The sorts of tiles that a persistent block computes, one after the other."""
    return tuple(sort(tile) for tile in range(block, tiles, count))


def _windows(sequence: Sequence[Hashable], length: int) -> Iterator[tuple[Hashable, ...]]:
    """Yield runs of `length` consecutive items; a shorter sequence is one run."""
    if sequence:
        yield tuple(sequence[:length])
    for at in range(1, len(sequence) - length + 1):
        yield tuple(sequence[at : at + length])


def _cover(
    wanted: Iterable[Sequence[Hashable]], offered: Sequence[tuple[int, Sequence[Hashable]]], length: int
) -> list[int]:
    """Blocks whose sequences have every window of the wanted ones: the cheapest, that is the shortest, first.

    What is a beginning of a window that is there is there, too.
    """
    missing = {window for sequence in wanted for window in _windows(sequence, length)}
    missing = {w for w in missing if not any(len(o) > len(w) and o[: len(w)] == w for o in missing)}
    chosen = []
    for block, sequence in sorted(offered, key=lambda o: (len(o[1]), o[0])):
        found = missing.intersection(_windows(sequence, length))
        if found:
            missing -= found
            chosen.append(block)
    return chosen or [offered[0][0]]


# ---------------------------------------------------------------- stream-K


def _stream_k(program: Program, repeat: _Repeat) -> Iterator[Watched]:
    """Launches in which a block's parts of tiles have every pair of lengths that may follow each other."""
    seen: set[Hashable] = set()
    for sizes in _stream_k_sizes(program):
        launch, chosen = Launch(program, sizes), []
        runs = _runs(launch, repeat, _sort(launch))
        for block, sequence in sorted(runs, key=lambda run: (len(run[1]), run[0])):
            found = set(_windows(sequence, 2)) - seen
            if found:
                seen |= found
                chosen.append(block)
        if chosen:
            work = -(-launch.all_tiles * launch.steps // launch.blocks)
            yield Watched(launch, launch.blocks, chosen[0], tuple(chosen[1:]), (), launch.steps, work, _ones(program))


def _stream_k_sizes(program: Program) -> Iterator[dict[str, int]]:
    """The sizes, or where the output's are dynamic those that give a block less than a tile, about one, and more."""
    fixed = {d.name: d.size for d in program.dims if d.size is not None}
    if Launch.known(program) is not None:
        yield with_all(program, fixed)
        return
    count, tiled = program.grid.count, None in (program.m.size, program.n.size)
    for tiles in dict.fromkeys((1, 2, 3, 5, 7, count // 2 + 1, count + 1, 2 * count + 1)):
        if tiled:
            places = MATRICES_WATCHED if tiles > MATRICES_WATCHED else 1
            matrices = Launch(program, with_all(program, {}, places)).matrices
            yield with_all(program, _near_square(program, -(-tiles // matrices)), places)
        else:
            yield _with_tiles(program, {}, tiles)


def _near_square(program: Program, tiles: int) -> dict[str, int]:
    """Dynamic rows and columns that make about that many tiles; the last ones ragged if they may be."""
    dims = [(d, b) for d, b in zip((program.m, program.n), program.block[:2], strict=True) if d.size is None]
    fixed = [-(-d.size // b) for d, b in zip((program.m, program.n), program.block[:2], strict=True) if d.size]
    left = ceil(tiles / fixed[0]) if fixed else tiles
    rows = ceil(sqrt(left)) if len(dims) == 2 else left
    extents = [rows, ceil(left / rows)][: len(dims)]
    unit = program.a.tensor.dtype.elements(ACCESS_BYTES)
    cut = {None: 0, "masked": 1, "clamped": unit}[program.tail]
    if len(dims) == 2 and program.m == program.n:  # one dimension, of whole blocks both ways
        unit = lcm(*program.block[:2])
        return {program.m.name: round_up(max(n * b for (_, b), n in zip(dims, extents, strict=True)), unit) - cut}
    return {d.name: count * b - cut for (d, b), count in zip(dims, extents, strict=True)}


def _runs(
    launch: Launch[Program], repeat: _Repeat, sort: Callable[[int], Hashable]
) -> Iterator[tuple[int, tuple[Hashable, ...]]]:
    """Each block's parts of tiles: the sort of tile, K-steps until they repeat, whether the last one is among them."""
    program, count, steps, run = launch.program, launch.blocks, launch.steps, launch.run_length
    total = launch.all_tiles * steps
    period = steps // gcd(run, steps)  # blocks after which tiles are cut at the same places
    blocks = (
        range(count)
        if sort is not _whole or program.tail is not None or period >= count
        else [*range(period), count - 1, total // run]
    )
    for block in sorted(set(blocks)):
        at, last = block * run, min((block + 1) * run, total)
        parts: list[Hashable] = []
        while at < last:
            here = min(steps - at % steps, last - at)
            ends = program.tail is not None and at % steps + here == steps
            parts.append((sort(at // steps), repeat.reduced(here), ends))
            at += here
        if parts and block < count:
            yield block, tuple(parts)
