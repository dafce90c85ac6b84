"""A small picture of any kernel: the tile of a block, cut into what each wave has of it.

>>> thumbnail(tkgen.load("specs/eight_wave.tk"))        # SVG: the output tile's fragments, by the wave that owns them

Of products the output tile, of rows the rows and their elements, of products of products the axis that waves divide; of
a sequence one tile for each kernel, from left to right. Waves repeat eight colours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tkgen.api import Spec
from tkgen.backends import protocol
from tkgen.backends.cdna.fused import FUSED
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.report.canvas import Canvas, standalone
from tkgen.report.ownership import ownership
from tkgen.report.svg import wave_class
from tkgen.schedule.rows import RowMap
from tkgen.sequence.spec import SequenceSpec

SIDE, GAP = 96.0, 10.0  # pixels of a tile, and between two
MOST_CELLS = 16  # of a tile along each side: more rows or chunks are left out

Owners = Sequence[Sequence[int]]  # rows of a tile, for each of their cells the wave that has it


def thumbnail(spec: protocol.Spec) -> str:
    """The picture as the text of an SVG file. Raises SpecError where the spec has no layout."""
    tiles = [*owners(spec)]
    canvas = Canvas(GAP + len(tiles) * (SIDE + GAP), SIDE + 2 * GAP, f"The tile of a block of {spec.name}, by waves")
    for number, tile in enumerate(tiles):
        left, height = GAP + number * (SIDE + GAP), SIDE / len(tile)
        for y, row in enumerate(tile):
            width = SIDE / len(row)
            for x, wave in enumerate(row):
                place = left + x * width, GAP + y * height
                canvas.rect(*place, width - 0.5, height - 0.5, wave_class(wave), f"wave {wave}")
    return standalone(canvas.svg())


def owners(spec: protocol.Spec) -> Iterator[Owners]:
    """Owners, by wave, of the parts of a block's tile, for each kernel."""
    match spec:
        case SequenceSpec():
            for kernel in spec.kernels:
                yield from owners(kernel)
        case Spec() if spec.form is FUSED:
            yield [[wave] for wave in range(spec.layout.waves)]
        case Spec() | HopperSpec() if isinstance(spec.layout, RowMap):
            yield rows(spec.layout)
        case HopperSpec():
            yield [[consumer] for consumer in range(spec.layout.consumers)]
        case Spec():
            own = ownership(spec.program)
            tile = [[0] * own.grid[1] for _ in range(own.grid[0])]
            for fragment in own.fragments:
                tile[fragment.row][fragment.col] = fragment.wave
            yield tile
        case _:
            raise TypeError(f"{spec.name} is of a kind that has no picture")


def rows(m: RowMap) -> Owners:
    """The first rows of a tile, each with its first chunks: see `tkgen.schedule.rows`."""
    lanes = m.threads // m.waves
    cells = min(max(m.chunks * m.waves_of_row, 1), MOST_CELLS)

    def wave(row: int, cell: int) -> int:
        group = row // m.across % m.groups
        return (group - group % m.spacing) * m.lanes // lanes + cell % m.waves_of_row

    return [[wave(row, cell) for cell in range(cells)] for row in range(min(m.row_count, MOST_CELLS))]
