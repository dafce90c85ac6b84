"""The dataflow graph of a kernel of equations, in the form of `tkgen.ir.graph`: operations, what each takes of others.

A value is in registers of the lanes that made it, so a register dependency needs no barrier. Values that go through LDS
need one: a reduction of a row that several waves share; in fused matmuls the operands that all waves load, and the
votes of a condition. A barrier, counted from 0 within an iteration, covers what is made of these. Where an element is
stored that is also read, the read comes first. A loop is a node before what it does: it takes what is carried, at its
start and from each iteration (distance 1), and hands it on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tkgen.ir.equation_text import op_text
from tkgen.ir.equations import Kernel, Load, Loop, Op, Store, Value, When, reads, walk, writes
from tkgen.ir.graph import Dependency
from tkgen.ir.types import ALL_WAVES
from tkgen.schedule.loop_program import ring_of
from tkgen.schedule.loops import LoopMap
from tkgen.schedule.rows import RowMap
from tkgen.tile.ops import Copy, Fetch, Vote, Write, barriers
from tkgen.tile.program import Role

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True)
class Node:
    """An operation of the equations, as it is printed: all waves execute it."""

    position: int
    role: str
    op: str
    waves: tuple[int, ...]


_Met = Mapping[Value, int | None]  # what waves share through LDS, and the barrier of a pass that covers it


def row_graph(layout: RowMap) -> nx.MultiDiGraph:
    """The graph of a kernel of rows; edges have `dependency` and `barrier`, as those of `tkgen.ir.graph.build`."""
    return _graph(layout.kernel, layout.waves, _barriers(layout) if layout.waves_of_row > 1 else {})


def loop_graph(m: LoopMap, wave: Role) -> nx.MultiDiGraph:
    """The same of fused matmuls."""
    met: dict[Value, int | None] = {}
    for op in walk(m.kernel.body):
        if isinstance(op, Load):
            brings = [(n, step) for n, step in enumerate(wave.tiles.body) if isinstance(step, Write | Fetch | Copy)]
            brought = [n for n, step in brings if m.moving[ring_of(step)].access == op.source]
            if brought:
                met[op.result] = _behind(wave, max(brought))
        elif isinstance(op, When):
            number = m.votes.index(op)
            votes = [n for n, step in enumerate(wave.tiles.body) if isinstance(step, Vote) and step.number == number]
            met[op.condition] = _behind(wave, max(votes))
    return _graph(m.kernel, m.waves, met)


def _behind(wave: Role, last: int) -> int | None:
    """The first barrier of an iteration, around it, after a step; None without barriers."""
    met = barriers(wave.tiles.body)
    return barriers(wave.tiles.body[:last]) % met if met else None


def _graph(kernel: Kernel, waves: int, met: _Met) -> nx.MultiDiGraph:
    import networkx as nx  # takes 0.15 s, and `check` rarely needs it

    graph = nx.MultiDiGraph(name=kernel.name)
    for position, op in enumerate(walk(kernel.body)):
        graph.add_node(position, node=Node(position, ALL_WAVES, op_text(op), tuple(range(waves))))
    for dependency, value in _dependencies(kernel, met):
        barrier = met[value] if dependency.crosses_waves and value is not None else None
        graph.add_edge(dependency.source, dependency.target, dependency=dependency, barrier=barrier)
    return graph


def _barriers(layout: RowMap) -> dict[Value, int]:
    """The barrier that the waves meet at for each reduction."""
    walks = [sweep for sweep in layout.sweeps if sweep.handed]
    return {reduce.result: number for number, sweep in enumerate(walks) for reduce in sweep.handed}


def _dependencies(kernel: Kernel, met: _Met) -> Iterator[tuple[Dependency, Value | None]]:
    """Each dependency, and the value that it is of."""
    made: dict[Value, tuple[int, Op]] = {}
    updates: dict[Value, Value] = {}  # what a condition may have made of a value
    loads: list[tuple[int, Load]] = []

    def taken(position: int, value: Value, distance: int = 0) -> tuple[Dependency, Value]:
        source, _ = made[value]
        crosses = value in met
        medium = "lds" if crosses else "register"
        return Dependency(source, position, "RAW", medium, value.name or str(value), distance, crosses), value

    for position, op in enumerate(walk(kernel.body)):
        for value in dict.fromkeys(reads(op)):
            yield taken(position, value)
            if value in updates:
                yield taken(position, updates[value])
        if isinstance(op, Store):
            for source, load in loads:
                if load.source.tensor == op.target.tensor:
                    yield Dependency(source, position, "WAR", "global", op.target.tensor.name, 0, False), None
        if isinstance(op, Load):
            loads.append((position, op))
        made |= dict.fromkeys(writes(op), (position, op))
        if isinstance(op, Loop):
            made |= dict.fromkeys((c.inside for c in op.carries), (position, op))
        if isinstance(op, When):
            updates |= {c.result: c.update for c in op.chosen}
    for position, loop in _loops(kernel):
        yield from (taken(position, c.update, 1) for c in loop.carries)


def _loops(kernel: Kernel) -> Iterator[tuple[int, Loop]]:
    return ((position, op) for position, op in enumerate(walk(kernel.body)) if isinstance(op, Loop))
