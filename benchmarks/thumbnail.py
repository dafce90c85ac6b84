"""A small picture of any kernel: the tile of a block, cut into what each wave has of it.

>>> thumbnail(tkgen.load("specs/eight_wave.tk"))        # SVG: the output tile's fragments, by the wave that owns them

Of a sequence one tile for each kernel, from left to right. Waves repeat eight colours. Of a large tile of rows some are
shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tkgen.backends import protocol
from tkgen.report.canvas import Canvas, standalone
from tkgen.report.svg import wave_class

SIDE, GAP = 96.0, 10.0  # pixels of a tile, and between two

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
    kernels: Sequence[Any] = spec.kernels
    for kernel in kernels:
        own = kernel.footprint.ownership
        tile = [[0] * len(own.cols) for _ in own.rows]
        for fragment in own.fragments:
            tile[fragment.row][fragment.col] = fragment.wave
        yield tile
