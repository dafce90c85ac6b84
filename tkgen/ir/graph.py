"""The dataflow graph: operations of one iteration as nodes, dependencies with kind and iteration distance as edges.

A dependency says: `source` of iteration i must come before `target` of iteration i + `distance`. For an LDS tile with n
buffers, and for each part of it that moves alone, the sequential meaning of the steps is: writes of step s, reads of
step s, writes of step s + n. Hence

    RAW  write[k+w] -> read[k+r]    distance w - r
    WAR  read[k+r]  -> write[k+w]   distance n - w + r
    WAW  write[k+v] -> write[k+w]   distance n - w + v

Register tiles (one per fragment, slot = (step * slices + slice) mod buffers) and the staging registers follow the
same rule within one wave. Every edge is exact: nothing is approximated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tkgen.ir.types import Operand, Program, role_text
from tkgen.tile.ops import READS, TILE_WRITES, Fetch, Move, Multiply, Write
from tkgen.tile.program import Op, Region, Space

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True)
class Node:
    """An operation of the iteration: where it stands and who executes it."""

    position: int
    role: str
    op: Op
    waves: tuple[int, ...]


@dataclass(frozen=True)
class Dependency:
    """`source` (a position) of iteration i comes before `target` of iteration i + `distance`.

    `kind` is RAW, WAR or WAW; `medium` is `lds`, `register`, `staging` or `global`; `crosses_waves` says that the two
    may run on different waves, so that only a barrier can order them.
    """

    source: int
    target: int
    kind: str
    medium: str
    operand: str
    distance: int
    crosses_waves: bool


def build(program: Program, iteration: Sequence[tuple[str, Op]], barriers_before: Mapping[int, int]) -> nx.MultiDiGraph:
    """The graph of one iteration; `barriers_before` has the barriers in front of an operation, by its number.

    Nodes are positions with attribute `node` (a Node); edges carry `dependency` (a Dependency) and `barrier`: the
    ordinal of the first barrier that covers it, or None.
    """
    import networkx as nx  # takes 0.15 s, and no check needs it

    graph = nx.MultiDiGraph(name=program.name)
    nodes = _nodes(program, iteration)
    for node in nodes:
        graph.add_node(node.position, node=node)
    for d in _dependencies(program, nodes):
        barrier = barriers_before.get(nodes[d.source].op.identity) if d.crosses_waves else None
        graph.add_edge(d.source, d.target, dependency=d, barrier=barrier)
    return graph


def dependencies(graph: nx.MultiDiGraph) -> list[Dependency]:
    """All dependencies of a graph in a stable order."""
    return _sorted(data["dependency"] for _, _, data in graph.edges(data=True))


def iteration_dependencies(program: Program, iteration: Sequence[tuple[str, Op]]) -> list[Dependency]:
    """All dependencies of one iteration in a stable order, without a graph of them."""
    return _sorted(_dependencies(program, _nodes(program, iteration)))


def _nodes(program: Program, iteration: Sequence[tuple[str, Op]]) -> list[Node]:
    waves = {r.name: tuple(r.waves) for r in program.roles}
    return [Node(i, role, op, waves[role]) for i, (role, op) in enumerate(iteration)]


def _sorted(found: Iterable[Dependency]) -> list[Dependency]:
    return sorted(found, key=lambda d: (d.source, d.target, d.kind, d.medium, d.distance))


def _dependencies(program: Program, nodes: list[Node]) -> Iterator[Dependency]:
    for operand in program.operands:
        mine = [n for n in nodes if n.op.operand == operand.name]
        writes = [n for n in mine if isinstance(n.op, TILE_WRITES)]
        reads = [n for n in mine if isinstance(n.op, READS)]
        fetches = [n for n in mine if isinstance(n.op, Fetch)]
        n = operand.buffers

        def edge(x: Node, y: Node, kind: str, medium: str, distance: int, name: str = operand.name) -> Dependency:
            crosses = medium == "lds" and (x.waves != y.waves or len(x.waves) > 1)
            return Dependency(x.position, y.position, kind, medium, name, distance, crosses)

        parts = {m.position: frozenset(operand.parts_of(m.op.tile)) for m in mine if isinstance(m.op, Move)}

        def meet(x: Node, y: Node, parts: Mapping[int, frozenset[int]] = parts) -> bool:
            return not parts[x.position].isdisjoint(parts[y.position])

        for w in writes:
            overlapping = [r for r in reads if meet(r, w)]
            for r in overlapping:
                yield edge(w, r, "RAW", "lds", w.op.offset - r.op.offset)
                yield edge(r, w, "WAR", "lds", n - w.op.offset + r.op.offset)
            for v in (v for v in writes if meet(v, w)):
                if w is not v or not overlapping:
                    yield edge(v, w, "WAW", "lds", n - w.op.offset + v.op.offset)
        for f in fetches:
            for w in (w for w in writes if isinstance(w.op, Write) and w.role == f.role and meet(f, w)):
                yield edge(f, w, "RAW", "staging", f.op.offset - w.op.offset)
                yield edge(w, f, "WAR", "staging", 1 - f.op.offset + w.op.offset)
        multiplies = _multiplies(nodes, operand)
        for r in reads:
            # A read fills what multiplies of its slices use, and waits for those that used its registers before.
            (tile,) = r.op.writes
            near = {(t - ahead) % program.slices for t in tile.slices for ahead in (0, operand.register_buffers)}
            keys = ((r.role, f, t) for f in tile.fragments for t in near)
            found = {m.position: (m, used) for key in keys for m, used in multiplies.get(key, ())}
            for position in sorted(found):
                m, used = found[position]
                yield from _register_edges(program, operand.register_buffers, r, tile.slices, m, used.slices, edge)


_Uses = dict[tuple[str, int, int], list[tuple[Node, Region]]]  # (role, fragment, slice) -> what multiplies it


def _multiplies(nodes: list[Node], operand: Operand) -> _Uses:
    """The multiplies that consume `operand`, each with its access to it."""
    found: _Uses = {}
    for m in (n for n in nodes if isinstance(n.op, Multiply)):
        for used in m.op.reads:
            if (used.space, used.name) == (Space.REGISTERS, operand.name):
                for key in ((m.role, fragment, t) for fragment in used.fragments for t in used.slices):
                    found.setdefault(key, []).append((m, used))
    return found


def _register_edges(
    program: Program, buffers: int, r: Node, filled: tuple[int, ...], m: Node, used: tuple[int, ...], edge: object
) -> Iterator[Dependency]:
    """Read -> multiply of the same slice, and multiply -> the read that next fills the same register slot."""
    slices = program.slices
    for s in filled:
        if s in used:
            yield edge(r, m, "RAW", "register", r.op.offset)  # type: ignore[operator]
        for t in used:
            ahead = s + r.op.offset * slices - t  # register tiles that this read runs ahead of this multiply
            distance = -(-(buffers - ahead) // slices) if (buffers - ahead) % slices == 0 else None
            if distance is not None:
                yield edge(m, r, "WAR", "register", distance)  # type: ignore[operator]


def to_text(graph: nx.MultiDiGraph) -> str:
    """The stable text form: a line per operation, then a line per dependency."""
    lines = [f"graph {graph.graph['name']}"]
    for _, data in sorted(graph.nodes(data=True)):
        node = data["node"]
        lines.append(f"  op {node.position}  {role_text(node.role, node.waves)}  {node.op}")
    for source, target, data in sorted(
        graph.edges(data=True), key=lambda e: (e[0], e[1], e[2]["dependency"].kind, e[2]["dependency"].distance)
    ):
        d: Dependency = data["dependency"]
        covered = "" if not d.crosses_waves else f"  barrier {data['barrier']}"
        lines.append(f"  {d.kind} {d.medium} {d.operand}  {source} -> {target}  distance {d.distance}{covered}")
    return "\n".join(lines) + "\n"


def to_dot(graph: nx.MultiDiGraph) -> str:
    """Graphviz source of the graph."""
    lines = [f'digraph "{graph.graph["name"]}" {{', "  rankdir=LR; node [shape=box, fontname=monospace];"]
    for position, data in sorted(graph.nodes(data=True)):
        lines.append(f'  n{position} [label="{data["node"].role}\\n{data["node"].op}"];')
    colours = {"RAW": "black", "WAR": "red", "WAW": "purple"}
    for source, target, data in graph.edges(data=True):
        d = data["dependency"]
        style = "solid" if d.medium == "lds" else "dashed"
        look = f"color={colours[d.kind]}, style={style}"
        lines.append(f'  n{source} -> n{target} [label="{d.kind} {d.operand} {d.distance}", {look}];')
    return "\n".join([*lines, "}"]) + "\n"


def to_json(graph: nx.MultiDiGraph) -> dict[str, object]:
    """The graph as plain data, for `tkgen graph --format json`."""
    operations = [
        {"position": p, "role": d["node"].role, "waves": list(d["node"].waves), "op": str(d["node"].op)}
        for p, d in sorted(graph.nodes(data=True))
    ]
    edges = [
        {
            "source": d.source,
            "target": d.target,
            "kind": d.kind,
            "medium": d.medium,
            "operand": d.operand,
            "distance": d.distance,
            "crosses_waves": d.crosses_waves,
        }
        for d in dependencies(graph)
    ]
    return {"kernel": graph.graph["name"], "operations": operations, "dependencies": edges}
