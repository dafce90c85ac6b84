"""Ownership: the wave and fragment of each tile of the block, and the subtiles of A and B that each wave reads."""

from __future__ import annotations

from dataclasses import dataclass

from tkgen.ir.types import Program, Side


@dataclass(frozen=True)
class Fragment:
    """Tile (`row`, `col`) of the block, in tiles: fragment (`i`, `j`) of `wave`."""

    row: int
    col: int
    wave: int
    i: int
    j: int


@dataclass(frozen=True)
class Reads:
    """The reads of one operand by the waves in a K-step.

    Its tile is cut into `count` subtiles of `extent` elements along the block and `slices` of `slice` elements along K.
    `readers[s]` are the waves that read subtile s, in every slice; `loaders` those that bring the tile to LDS.
    """

    name: str
    extent: int
    slice: int
    count: int
    slices: int
    readers: tuple[tuple[int, ...], ...]
    loaders: tuple[int, ...]

    @property
    def times_read(self) -> float:
        """The number of times that a byte of the tile is read from LDS in a K-step, on average."""
        return sum(map(len, self.readers)) / self.count if self.count else 0.0


@dataclass(frozen=True)
class Role:
    """A role of the block: its name, its waves, and what they do in words."""

    name: str
    waves: tuple[int, ...]
    work: str


@dataclass(frozen=True)
class Ownership:
    """The output tile of a block, `block` elements, cut into `grid` tiles of `tile` elements, step `step` along K."""

    output: str
    block: tuple[int, int]
    step: int
    tile: tuple[int, int]
    grid: tuple[int, int]
    wave_grid: tuple[int, int]
    interleaved: bool
    fragments: tuple[Fragment, ...]
    a: Reads
    b: Reads
    roles: tuple[Role, ...]


def ownership(program: Program) -> Ownership:
    """The ownership of a block's tile under `program`."""
    acc, role = program.accumulator, program.compute
    shape = role.shape or (1, 1)
    grid = (program.block[0] // acc.tile[0], program.block[1] // acc.tile[1])
    fragments = [
        Fragment(
            acc.tile_index(0, wave_row, i, shape[0]),
            acc.tile_index(1, wave_col, j, shape[1]),
            role.first + wave_row * shape[1] + wave_col,
            i,
            j,
        )
        for wave_row in range(shape[0])
        for wave_col in range(shape[1])
        for i in range(acc.fragments[0])
        for j in range(acc.fragments[1])
    ]
    return Ownership(
        output=acc.tensor.name,
        block=program.block[:2],
        step=program.block[2],
        tile=acc.tile,
        grid=grid,
        wave_grid=shape,
        interleaved=acc.interleaved,
        fragments=tuple(sorted(fragments, key=lambda f: (f.row, f.col, f.wave))),
        a=_reads(program, Side.A, 0, fragments, grid[0]),
        b=_reads(program, Side.B, 1, fragments, grid[1]),
        roles=tuple(Role(r.name, tuple(r.waves), _work(program, r.name)) for r in program.roles),
    )


def _reads(program: Program, side: Side, axis: int, fragments: list[Fragment], count: int) -> Reads:
    """Find the waves that read the operands of a side. All operands of a side are divided alike."""
    operands = [o for o in program.operands if o.side is side]
    operand, names = operands[0], {o.name for o in operands}
    readers: list[set[int]] = [set() for _ in range(count)]
    for f in fragments:
        readers[(f.row, f.col)[axis]].add(f.wave)
    loaders = sorted(w for r in program.roles if names & set(r.loads) for w in r.waves)
    return Reads(
        name=", ".join(o.name for o in operands),
        extent=operand.fragment_extent,
        slice=operand.slice,
        count=count,
        slices=operand.slices,
        readers=tuple(tuple(sorted(r)) for r in readers),
        loaders=tuple(loaders),
    )


def _work(program: Program, name: str) -> str:
    role = next(r for r in program.roles if r.name == name)
    parts = [f"load {', '.join(role.loads)}"] if role.loads else []
    if role.multiplies:
        rows, cols = program.accumulator.fragments
        parts.append(f"multiply into {rows} x {cols} fragments each")
    if role.multiplies:
        parts.append(f"store {program.accumulator.tensor.name}")
    return ", ".join(parts) or "nothing"
