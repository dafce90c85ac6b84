"""The dataflow graph of a kernel of rows, in the form of `tkgen.ir.graph`: operations, and what each takes of others.

A value is in registers of the lanes that made it, so a register dependency needs no meeting. A reduction of a row that
several waves share passes through LDS: each wave puts its part there, and the barrier of that walk (counted from 0
within a pass) covers what is made of it. Where an element is stored that is also read, the read comes first. A loop is
a node before what it does: it takes what is carried, at its start and from each pass (distance 1), and hands it on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import networkx as nx

from tkgen.ir.equations import Kernel, Load, Loop, Op, Reduce, Store, Value, op_text, reads, walk, writes
from tkgen.ir.graph import Dependency
from tkgen.ir.types import ALL_WAVES
from tkgen.schedule.rows import RowMap


@dataclass(frozen=True)
class Node:
    """An operation of the equations, as it is printed: all waves execute it."""

    position: int
    role: str
    op: str
    waves: tuple[int, ...]


def row_graph(layout: RowMap) -> nx.MultiDiGraph:
    """The graph of one pass; edges have `dependency` and `barrier`, as those of `tkgen.ir.graph.build`."""
    graph = nx.MultiDiGraph(name=layout.kernel.name)
    waves = tuple(range(layout.waves))
    ops = list(walk(layout.kernel.body))
    for position, op in enumerate(ops):
        graph.add_node(position, node=Node(position, ALL_WAVES, op_text(op), waves))
    met = _barriers(layout)
    for dependency in _dependencies(layout):
        op = ops[dependency.source]
        barrier = met[op.result] if dependency.crosses_waves and isinstance(op, Reduce) else None
        graph.add_edge(dependency.source, dependency.target, dependency=dependency, barrier=barrier)
    return graph


def _barriers(layout: RowMap) -> dict[Value, int]:
    """The barrier that the waves meet at for each reduction."""
    walks = [sweep for sweep in layout.sweeps if sweep.reduces]
    return {reduce.result: number for number, sweep in enumerate(walks) for reduce in sweep.reduces}


def _dependencies(layout: RowMap) -> Iterator[Dependency]:
    made: dict[Value, tuple[int, Op]] = {}
    loads: list[tuple[int, Load]] = []

    def taken(position: int, value: Value, distance: int = 0) -> Dependency:
        source, maker = made[value]
        crosses = isinstance(maker, Reduce) and layout.waves_of_row > 1
        medium = "lds" if crosses else "register"
        return Dependency(source, position, "RAW", medium, value.name or str(value), distance, crosses)

    for position, op in enumerate(walk(layout.kernel.body)):
        yield from (taken(position, value) for value in dict.fromkeys(reads(op)))
        if isinstance(op, Store):
            for source, load in loads:
                if load.source.tensor == op.target.tensor:
                    yield Dependency(source, position, "WAR", "global", op.target.tensor.name, 0, False)
        if isinstance(op, Load):
            loads.append((position, op))
        made |= dict.fromkeys(writes(op), (position, op))
        if isinstance(op, Loop):
            made |= dict.fromkeys((c.inside for c in op.carries), (position, op))
    for position, loop in _loops(layout.kernel):
        yield from (taken(position, c.update, 1) for c in loop.carries)


def _loops(kernel: Kernel) -> Iterator[tuple[int, Loop]]:
    return ((position, op) for position, op in enumerate(walk(kernel.body)) if isinstance(op, Loop))
