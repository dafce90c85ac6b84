"""Rows in order as C++: lanes of one wave exchange the keys of a row, numbers as integers, until these are in order.

    name_k   the keys of a row: of a lane's elements, and up to a power of two of what comes after all of them

All sorts of one argument in one direction share the keys. Where one wants positions, keys have them, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tkgen.backends.cdna.lower.elements import nest
from tkgen.ir.equations import Sort, Value
from tkgen.schedule.sweeps import padded_chunks

if TYPE_CHECKING:
    from tkgen.backends.cdna.lower.row_values import Values
    from tkgen.schedule.rows import RowMap
    from tkgen.schedule.sweeps import Sweep

Group = Sequence[Sort]


class SortLowering:
    """The lines of sorts in a layout."""

    def __init__(self, m: RowMap, values: Values):
        self.m, self.values = m, values

    def groups(self, sweep: Sweep) -> list[Group]:
        """The sorts of a sweep that share keys."""
        found: dict[tuple[Value, bool], list[Sort]] = {}
        for op in sweep.sorts:
            found.setdefault((op.argument, op.descending), []).append(op)
        return list(found.values())

    def _keys(self, group: Group) -> str:
        return f"{self.values.name[group[0].result]}_k"

    def _type(self, group: Group) -> str:
        return "long long" if any(op.function == "positions" for op in group) else "int"

    def declared(self, group: Group) -> list[str]:
        """The keys of a row, those set that no chunk of the lane has."""
        keys, kind, padded = self._keys(group), self._type(group), padded_chunks(self.m.chunks)
        lines = [f"{kind} {keys}[{padded}][CHUNK];"]
        if padded > self.m.chunks:
            loops = [f"for (int c = CHUNKS; c < {padded}; ++c)", "for (int e = 0; e < CHUNK; ++e)"]
            lines += nest(loops, [f"{keys}[c][e] = tk::sorted_end<{kind}>();"])
        return lines

    def element(self, group: Group, inside: str) -> str:
        """The line that sets the key of an element; beyond the end of the row nothing is less."""
        op, kind = group[0], self._type(group)
        value, descending = self.values.whole(op.argument), str(op.descending).lower()
        key = f"tk::sort_key<{descending}>({value})"
        if kind != "int":
            key = f"tk::sort_key_at<{descending}>({value}, {self.values.places.coordinate(op.axis)})"
        return f"{self._keys(group)}[c][e] = {f'{inside} ? {key} : tk::sorted_end<{kind}>()' if inside else key};"

    def sorted(self, group: Group) -> Iterator[str]:
        """The exchange, after which each element has what is in order at its place."""
        keys, descending = self._keys(group), str(group[0].descending).lower()
        yield f"tk::sort_row<LANES>({keys});"
        results = [op for op in group if op.result in self.values.held]
        number = f"tk::sorted_number<{descending}>({keys}[c][e])"
        lines = [
            f"{self.values.carry(op.result)} = "
            f"{f'tk::sorted_position({keys}[c][e])' if op.function == 'positions' else number};"
            for op in results
        ]
        yield from nest(["for (int c = 0; c < CHUNKS; ++c)", "for (int e = 0; e < CHUNK; ++e)"], lines)
