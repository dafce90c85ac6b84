"""The footprint of a block of rows: registers of a lane in each sweep, LDS for exchanges, the owners of its rows."""

from __future__ import annotations

from itertools import groupby

from tkgen.schedule.row_steps import HALVES
from tkgen.schedule.rows import RowMap
from tkgen.schedule.step_text import statements
from tkgen.schedule.sweeps import moments
from tkgen.tile.scheduled import Buffer, Fragment, Moment, Ownership, RoleMoments, Share, together

SHOWN = 16  # rows of a tile, and runs of a row's elements, that are shown


def exchanged_rows(m: RowMap) -> tuple[Buffer, ...]:
    """LDS in which waves hand each other what they reduce of a row."""
    return (Buffer("exchange", m.exchange_bytes // HALVES, HALVES, "parts of all waves"),) if m.exchanges else ()


def row_registers(m: RowMap, budget: int) -> tuple[RoleMoments, ...]:
    """Registers of a lane in each sweep."""
    found = moments(m.kernel, m.fast, m.held, m.chunks, m.chunk, m.late)
    shown = tuple(
        Moment(_sweep(m, n), "map", "steady", together(Share(*each) for each in live.items())) for n, live in found
    )
    return (RoleMoments("wave", shown, m.registers, budget),)


def _sweep(m: RowMap, number: int) -> str:
    """A sweep in words: its last statement."""
    lines = [line.text for line in statements(m.sweeps[number].ops)]
    return lines[-1] if lines else f"sweep {number}"


def row_owners(m: RowMap) -> Ownership:
    """The waves of rows, and runs of elements of a row whose lanes are of one wave."""
    wave_of = {(m.group(t), m.lane(t)): t // m.wave_lanes for t in range(m.threads)}
    runs = [next(group) * m.chunk for _, group in groupby(range(m.lanes), key=lambda lane: wave_of[0, lane])]
    cols = [(c * m.lanes * m.chunk + at, c) for c in range(m.chunks) for at in runs]
    cols = [(at, c) for at, c in cols if at < m.length]
    slots = [(p, i) for p in range(m.passes) for i in range(m.held)]
    rows = {((p * m.held + i) // m.across * m.groups + group) * m.across + i % m.across: (group, p, i)
            for p, i in slots for group in range(m.groups)}  # fmt: skip
    shown = [row for row in sorted(rows) if row < m.row_count][:SHOWN]
    fragments = (
        Fragment(x, y, wave_of[rows[row][0], at // m.chunk % m.lanes], f"chunk {c}" if m.chunks > 1 else "")
        for x, row in enumerate(shown) for y, (at, c) in enumerate(cols[:SHOWN])
    )  # fmt: skip
    starts, whole = tuple(at for at, _ in cols[:SHOWN]), len(shown) == m.row_count and len(cols) <= SHOWN
    output, block = m.kernel.stores[0].target.tensor.name, (m.row_count, m.length)
    return Ownership(output, block, tuple(shown), starts, tuple(fragments), f"{m.describe()}. {_lanes(m)}", whole=whole)


def _lanes(m: RowMap) -> str:
    """The elements that the first lane of a row has, for example."""
    ranges = [f"{at}..{min(at + m.chunk, m.length) - 1}" for at in range(0, m.length, m.lanes * m.chunk)]
    some = ", ".join(ranges if len(ranges) < 4 else [*ranges[:2], "...", ranges[-1]])
    return f"The first lane of a row has its elements {some}; the next lanes continue from there"
