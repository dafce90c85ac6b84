"""The dataflow graph with a place for every node: a layered layout of one iteration.

Data flows from left to right: a node's layer is its longest path over the read-after-write dependencies, whatever
their distance. The others, which free a buffer for its next contents, run back. Within a layer nodes are ordered by the
mean height of their neighbours (the barycentre method of Sugiyama, Tagawa and Toda, 1981), four sweeps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import networkx as nx

from tkgen.ir.graph import Node, dependencies
from tkgen.schedule.plan import Plan
from tkgen.source import Span


@dataclass(frozen=True)
class FlowNode:
    """An operation of the iteration, at column `layer` and height `row` (both from 0, heights may be halves)."""

    position: int
    text: str
    action: str
    role: str
    waves: tuple[int, ...]
    line: int
    layer: int
    row: float


@dataclass(frozen=True)
class FlowEdge:
    """All dependencies between two operations with one distance; `labels` names each: `RAW lds A, barrier 0`."""

    source: int
    target: int
    distance: int
    kinds: tuple[str, ...]
    crosses_waves: bool
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Flow:
    """The graph of one iteration: `layers` columns, `rows` lines."""

    nodes: tuple[FlowNode, ...]
    edges: tuple[FlowEdge, ...]
    layers: int
    rows: int


def flow(plan: Plan, row: Callable[[Span | None], int]) -> Flow:
    """The dataflow graph of `plan`, laid out; `row` numbers spec lines."""
    nodes: dict[int, Node] = {p: data["node"] for p, data in sorted(plan.graph.nodes(data=True))}
    edges = _edges(plan)
    forward = [(e.source, e.target) for e in edges if "RAW" in e.kinds]
    layer = layers_of(list(nodes), forward)
    rows = rows_of(layer, [(e.source, e.target) for e in edges])
    return Flow(
        nodes=tuple(
            FlowNode(p, str(n.op), n.op.word, n.role, n.waves, row(n.op.span), layer[p], rows[p])
            for p, n in nodes.items()
        ),
        edges=tuple(edges),
        layers=1 + max(layer.values(), default=0),
        rows=1 + int(max(rows.values(), default=0)),
    )


def _edges(plan: Plan) -> list[FlowEdge]:
    barriers = {data["dependency"]: data["barrier"] for _, _, data in plan.graph.edges(data=True)}
    groups: dict[tuple[int, int, int], list[tuple[str, str, bool]]] = {}
    for d in dependencies(plan.graph):
        barrier = "" if barriers[d] is None else f", barrier {barriers[d]}"
        label = f"{d.kind} {d.medium} {d.operand}{barrier}"
        groups.setdefault((d.source, d.target, d.distance), []).append((d.kind, label, d.crosses_waves))
    return [
        FlowEdge(
            source,
            target,
            distance,
            tuple(dict.fromkeys(kind for kind, _, _ in found)),
            any(crosses for _, _, crosses in found),
            tuple(label for _, label, _ in found),
        )
        for (source, target, distance), found in sorted(groups.items())
    ]


def layers_of(nodes: Sequence[int], forward: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Longest path from a source; data never flows in a circle, as a value is loaded, read and multiplied once."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from(forward)
    return {node: layer for layer, found in enumerate(nx.topological_generations(graph)) for node in found}


def rows_of(layer: Mapping[int, int], edges: Sequence[tuple[int, int]]) -> dict[int, float]:
    """Heights within each layer, every layer centred on the tallest."""
    columns: dict[int, list[int]] = {}
    for node, index in layer.items():
        columns.setdefault(index, []).append(node)
    near: dict[int, list[int]] = {node: [] for node in layer}
    for source, target in edges:
        near[source].append(target)
        near[target].append(source)
    tallest = max(map(len, columns.values()), default=1)
    rows: dict[int, float] = {}

    def place(column: list[int]) -> None:
        for i, node in enumerate(column):
            rows[node] = i + (tallest - len(column)) / 2

    def height(node: int) -> tuple[float, int]:
        mean = sum(rows[m] for m in near[node]) / len(near[node]) if near[node] else rows[node]
        return mean, node

    for column in columns.values():
        place(column)
    for _ in range(4):
        for column in columns.values():
            column.sort(key=height)
            place(column)
    return rows
