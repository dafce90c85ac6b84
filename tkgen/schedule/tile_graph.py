"""The dataflow graph of a tile program, in the form of `tkgen.ir.graph`: its ops, and the order of two at one tile.

The tiles are those of shared memory, which several waves touch. A write of an instance comes before its reads, and
these before the write of the instance that takes the same slot: as many iterations later as the ring has slots.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from tkgen.ir.graph import Dependency
from tkgen.tile.expressions import evaluate
from tkgen.tile.ops import Barrier
from tkgen.tile.program import (
    Advance,
    Arrive,
    Await,
    CopyIn,
    CopyOut,
    Flags,
    Op,
    Region,
    Role,
    Scope,
    Space,
    StoreRows,
    Sync,
    ops,
)
from tkgen.tile.scheduled import Scheduled, Step
from tkgen.tile.text import op_text

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True)
class Node:
    """An op as it is shown: its position, its role, whose waves execute it."""

    position: int
    role: str
    op: str
    waves: tuple[int, ...]
    step: Step


def tile_graph(found: Scheduled, name: str) -> nx.MultiDiGraph:
    """The graph of all roles; edges have `dependency`, and as `barrier` what orders the two."""
    import networkx as nx  # takes 0.15 s, and few kernels need it to be checked

    graph = nx.MultiDiGraph(name=name)
    steps = [(role, step) for role in found.block.roles for step in found.steps(role)]
    for position, (role, step) in enumerate(steps):
        graph.add_node(position, node=Node(position, role.name, step.text, found.agents(role), step))
    for dependency, by in _dependencies(found, steps):
        graph.add_edge(dependency.source, dependency.target, dependency=dependency, barrier=by)
    return graph


def _dependencies(found: Scheduled, steps: Sequence[tuple[Role, Step]]) -> Iterator[tuple[Dependency, str]]:
    advances = [op for role in found.block.roles for op in ops(role.nodes) if isinstance(op, Advance)]
    by = {op.cursor.name: int(op.by) for op in advances if op.by.isdigit()}  # instances of an iteration
    writes: dict[str, list[tuple[int, Region]]] = {}
    reads: dict[str, list[tuple[int, Region]]] = {}
    for at, step in enumerate(step for _, step in steps):
        if at and steps[at - 1][1].op is step.op:  # a further line of the same op
            continue
        for found_of, regions in zip((writes, reads), _touched(step.op), strict=True):
            for region in regions:
                if region.space is Space.SHARED and region.ring.scope is not Scope.WARP:
                    found_of.setdefault(region.name, []).append((at, region))
    for name in writes:
        for (w, written), (r, taken) in product(writes[name], reads.get(name, [])):
            ahead, slots = written.ahead - taken.ahead, evaluate(written.ring.slots, found.values)
            for first, then, kind, distance in ((w, r, "RAW", ahead), (r, w, "WAR", slots - ahead)):
                later, between = divmod(distance, by.get(written.at, 1))
                if later >= 0 and not between:
                    yield Dependency(first, then, kind, "shared", name, later, True), _ordered(steps, first, then)


def _touched(op: Op) -> tuple[Sequence[Region], Sequence[Region]]:
    """The regions that an op writes, and those that it reads."""
    match op:
        case CopyIn(to=to):
            return (to,), ()
        case CopyOut(source=source) | StoreRows(source=source):
            return (), (source,)
    return op.writes, op.reads


def _ordered(steps: Sequence[tuple[Role, Step]], first: int, then: int) -> str:
    """The order of two ops in words: a barrier at which the first one's role arrives and the second one's waits."""
    (before, one), (after, _) = steps[first], steps[then]
    own = [n for n, (role, _) in enumerate(steps) if role is before]
    around = [steps[n][1].op for n in (*(n for n in own if n > first), *(n for n in own if n <= first))]
    if before is after:
        count = then - first if then > first else len(around)
        return next((op_text(op) for op in around[:count] if isinstance(op, Barrier | Sync)), "program order")
    awaited = {step.op.flags for role, step in steps if role is after and isinstance(step.op, Await)}
    if isinstance(one.op, CopyIn) and one.op.flags in awaited:
        return one.op.flags.name
    return next((flags.name for op in around if (flags := _arrival(op)) in awaited), "nothing")


def _arrival(op: Op) -> Flags | None:
    return op.flags if isinstance(op, Arrive) else None
