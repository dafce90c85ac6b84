"""Scans of rows as C++: a lane adds up its chunks, lanes find what comes before each, and a lane goes on from there.

    name_t   in a sweep what a chunk adds up to; then what all lanes of the wave add up to in this chunk
    name_b   what comes before the chunk: of earlier lanes, waves and chunks
    name_s   the running result within a chunk, in the next sweep

The elements of a chunk after the end of a row change only what comes after them, so no element is masked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tkgen.backends.cdna.lower.elements import nest
from tkgen.ir.equations import Scan

if TYPE_CHECKING:
    from tkgen.backends.cdna.lower.row_values import Values
    from tkgen.schedule.rows import RowMap

OPERATION = {"sum": "base_ops::sum", "max": "base_ops::max", "min": "base_ops::min", "prod": "tk::times"}
IDENTITY = {"sum": "0.0f", "max": "-__builtin_inff()", "min": "__builtin_inff()", "prod": "1.0f"}
CHUNKS = "for (int c = 0; c < CHUNKS; ++c)"


class ScanLowering:
    """The lines of scans in a layout."""

    def __init__(self, m: RowMap, values: Values):
        self.m, self.values = m, values

    def _name(self, op: Scan) -> str:
        return self.values.name[op.result]

    def _joined(self, op: Scan, a: str, b: str) -> str:
        return f"{OPERATION[op.function]}::op<float>({a}, {b})"

    def empty(self, op: Scan) -> str:
        """The definition of a chunk's sum before its elements are added."""
        return f"float {self._name(op)}_s = {IDENTITY[op.function]};"

    def added(self, op: Scan) -> list[str]:
        """An element added to the sum of its chunk."""
        name = f"{self._name(op)}_s"
        return [f"{name} = {self._joined(op, name, self.values.whole(op.argument))};"]

    def found(self, op: Scan) -> str:
        """The sum of a chunk, kept for the exchange among lanes."""
        return f"{self._name(op)}_t[i][c] = {self._name(op)}_s;"

    def of_lanes(self, op: Scan) -> Iterator[str]:
        """Lines that find what comes before each chunk in a wave, for a row; if a row has one wave, in the row."""
        m, name, none = self.m, self._name(op), IDENTITY[op.function]
        lanes = f"tk::scan_lanes<{OPERATION[op.function]}, {m.lanes_of_wave}, {m.spacing}>({name}_t[i][c], {none})"
        inside = [f"const tk::scanned {name}_l = {lanes};"]
        if m.waves_of_row > 1:
            inside += [f"{name}_b[i][c] = {name}_l.before;", f"{name}_t[i][c] = {name}_l.all;"]
        else:
            yield f"float {name}_r = {none};"
            inside += [
                f"{name}_b[i][c] = {self._joined(op, f'{name}_r', f'{name}_l.before')};",
                f"{name}_r = {self._joined(op, f'{name}_r', f'{name}_l.all')};",
            ]
        yield from nest([CHUNKS], inside)

    def handed(self, op: Scan, parts: str, of_row: str, stores: bool) -> Iterator[str]:
        """A row's chunks, stored for the other waves of the row; or those of all of these, taken in order."""
        name, waves = self._name(op), self.m.waves_of_row
        if stores:
            yield from nest([CHUNKS], [f"{parts}[warpid()] = {name}_t[i][c];"])
            return
        yield f"float {name}_r = {IDENTITY[op.function]};"
        yield from nest([CHUNKS, f"for (int w = 0; w < {waves}; ++w)"], [
            f"if (w == warpid() % {waves}) {name}_b[i][c] = {self._joined(op, f'{name}_r', f'{name}_b[i][c]')};",
            f"{name}_r = {self._joined(op, f'{name}_r', f'{parts}[{of_row}w]')};",
        ])  # fmt: skip

    def begun(self, op: Scan) -> str:
        """The definition of the running result at the start of a chunk."""
        return f"float {self._name(op)}_s = {self._name(op)}_b[i][c];"

    def of_element(self, op: Scan) -> list[str]:
        """The running result at an element."""
        name = self._name(op)
        lines = [
            f"{name}_s = {self._joined(op, f'{name}_s', self.values.whole(op.argument))};",
            f"const float {name} = {name}_s;",
        ]
        return [*lines, f"{name}_h[i][c][e] = {name};"] if op.result in self.values.held else lines
