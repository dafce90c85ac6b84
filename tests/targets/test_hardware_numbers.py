"""Hardware numbers stand in the targets' files alone: where they are used, none that is known is written out."""

from __future__ import annotations

import tokenize
from collections.abc import Iterator
from pathlib import Path

TKGEN = Path(__file__).parents[2] / "tkgen"
PACKAGES = ("ir", "schedule", "checks", "backends/cdna/lower", "proof")
# Lanes of a wave, threads of a block, registers of a lane, LDS in KiB or bytes, compute units, what counters count.
KNOWN = {"64", "1024", "256", "512", "160", "65536", "163840", "232448", "227", "228", "304", "132", "63", "62", "15"}
# What is one of these numbers, but none of a GPU's, or a fact of the embedded headers.
OTHERS = {
    "ir/resolve/clauses.py: MOST_UNROLL = 64": "a bound of the language",
    "ir/resolve/waves.py: MOST_SHIFT = 64": "a bound of the language",
    "ir/resolve/written.py: MOST_AHEAD = 64": "a bound of the language",
    "ir/resolve/written.py: MOST_MIXED = 256": "a bound of the language",
    "ir/resolve/sizes.py: if abs(result) >= 1 << 63:": "numbers of 64 bits",
    "lower/branches.py: PIECE, PANEL = 16, 64": "how the headers lay tiles out",
    "lower/waits.py: return (vm & 15) | EXPCNT_NONE << 4 | lds << 8 | (vm >> 4) << 14": "the encoding of s_waitcnt",
    "schedule/rows.py: LINE = 64": "bytes of memory that a row should not share",
}


def numbers(path: Path) -> Iterator[str]:
    """The lines, without comments, in which a known number stands as a number."""
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type == tokenize.NUMBER and token.string in KNOWN:
                place = path.relative_to(TKGEN).as_posix().removeprefix("backends/cdna/")
                yield f"{place}: {token.line.split('  #')[0].strip()}"


def test_known_numbers_of_gpus_are_read_from_the_targets() -> None:
    found = {line for package in PACKAGES for path in (TKGEN / package).rglob("*.py") for line in numbers(path)}
    assert found == set(OTHERS)
