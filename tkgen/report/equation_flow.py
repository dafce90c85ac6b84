"""The dataflow of a kernel's equations: tensors and statements as nodes, the values between them as edges.

It needs no schedule, so every kernel on every machine has it. An unnamed value belongs to the statement that uses it:
`o / l` and the store of it are one node. A value that a loop keeps for its next iteration is an edge of distance 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tkgen.ir.equation_text import access_text
from tkgen.ir.equations import (
    Access,
    Kernel,
    Load,
    Loop,
    Op,
    Product,
    Reduce,
    Scan,
    Sort,
    Store,
    Value,
    When,
    reads,
    walk,
    writes,
)
from tkgen.report.flow import Flow, FlowEdge, FlowNode, layers_of, rows_of
from tkgen.source import Span

Edges = dict[tuple[int, int, int], list[str]]  # (from, to, distance): labels


@dataclass
class Statement:
    """A statement of the spec: its operations and those within an outermost loop or `when` that it needs."""

    text: str
    action: str
    span: Span | None
    ops: list[Op] = field(default_factory=list)


def equation_flow(kernel: Kernel, row: Callable[[Span | None], int]) -> Flow:
    """The dataflow graph of the equations, laid out in layers; `row` numbers lines of the spec, 0 for none.

    Its nodes have no waves; an action is `load` (a tensor that is read), `store`, `multiply` (a statement with a
    product), `reduce` or `map`.
    """
    statements, home = _statements(kernel)
    inputs = list(dict.fromkeys(op.source.tensor.name for op in walk(kernel.body) if isinstance(op, Load)))
    first = len(inputs)
    edges = _edges(kernel, statements, home, inputs)
    numbers = range(first + len(statements))
    layer = layers_of(numbers, [(a, b) for a, b, distance in edges if not distance and a != b])
    rows = rows_of(layer, [(a, b) for a, b, _ in edges])
    nodes = [FlowNode(i, name, "load", "", (), 0, layer[i], rows[i]) for i, name in enumerate(inputs)]
    nodes += [
        FlowNode(i, each.text, each.action, "", (), row(each.span), layer[i], rows[i])
        for i, each in enumerate(statements, first)
    ]
    return Flow(
        tuple(nodes),
        tuple(FlowEdge(a, b, d, ("RAW",), False, tuple(dict.fromkeys(found))) for (a, b, d), found in edges.items()),
        1 + max(layer.values(), default=0),
        1 + int(max(rows.values(), default=0)),
    )


def _statements(kernel: Kernel) -> tuple[list[Statement], dict[Value, int]]:
    """The statements in order, and which of them defines each value; loaded and constant values are in none."""
    statements: list[Statement] = []
    home: dict[Value, int] = {}
    defined = {value: op for op in walk(kernel.body) for value in writes(op)}

    def claim(op: Op) -> Iterator[Op]:
        yield op
        for value in reads(op):
            inner = defined.get(value)
            if inner is None or value.name or value in home or isinstance(inner, Load | Loop | When):
                continue
            if reads(inner):  # a constant is in no statement: the start of a sum may be the same one
                home[value] = len(statements)
            yield from claim(inner)

    for op in walk(kernel.body):
        if isinstance(op, Load | Loop | When) or (not isinstance(op, Store) and not op.result.name):
            continue
        span = op.span if isinstance(op, Store) else op.result.span
        ops = list(claim(op))
        if not isinstance(op, Store):
            home[op.result] = len(statements)
        statements.append(Statement(_text(op, ops, span), _action(op, ops), span, ops))
    return statements, home


def _text(op: Op, ops: Sequence[Op], span: Span | None) -> str:
    """The line of the spec, or for equations that clauses mean: what is defined, from which functions."""
    if isinstance(op, Store):
        return span.text if span is not None else f"store {access_text(op.target)}"
    (result,) = writes(op)
    if span is not None:
        return f"{result.name} = {span.text}" if span.text != result.name else result.name
    made = [_verb(each) for each in reversed(ops) if reads(each)]
    return f"{result.name} = {', '.join(dict.fromkeys(made))}" if made else result.name


def _verb(op: Op) -> str:
    return getattr(op, "function", type(op).__name__.lower())


def _action(op: Op, ops: Sequence[Op]) -> str:
    if isinstance(op, Store):
        return "store"
    if any(isinstance(each, Product) for each in ops):
        return "multiply"
    return "reduce" if any(isinstance(each, Reduce | Scan | Sort) for each in ops) else "map"


def _edges(kernel: Kernel, statements: Sequence[Statement], home: Mapping[Value, int], inputs: Sequence[str]) -> Edges:
    """The edges from tensors and statements to the statements that use their values."""
    sources = _sources(kernel)
    defined = {value: op for op in walk(kernel.body) for value in writes(op)}
    starts = {carry.initial for op in walk(kernel.body) if isinstance(op, Loop) for carry in op.carries}
    edges: Edges = {}

    def origins(value: Value, number: int) -> Iterator[tuple[Value | Access, int]]:
        """The sources of a value; for a start of a loop that no earlier statement has, those of its operands."""
        for origin, distance in sources(value):
            if isinstance(origin, Access) or origin not in starts or origin.name:
                yield origin, distance
                continue
            if len(inputs) + home.get(origin, number) < number:
                yield origin, distance
                continue
            for read in reads(defined[origin]):
                yield from ((made, min(1, distance + more)) for made, more in origins(read, number))

    for number, statement in enumerate(statements, len(inputs)):
        for value in (value for op in statement.ops for value in reads(op)):
            for origin, distance in origins(value, number):
                if isinstance(origin, Access):
                    start, label = inputs.index(origin.tensor.name), access_text(origin)
                elif origin in home:
                    start, label = len(inputs) + home[origin], value.name or origin.name or "part of it"
                else:
                    continue
                if start != number or distance:
                    edges.setdefault((start, number, distance), []).append(label)
    return edges


def _sources(kernel: Kernel) -> Callable[[Value], list[tuple[Value | Access, int]]]:
    """A function from a value to its origins through loops and branches, each 0 or 1 iterations ago."""
    ways: dict[Value, list[tuple[Value | Access, int]]] = {}
    for op in walk(kernel.body):
        if isinstance(op, Load):
            ways[op.result] = [(op.source, 0)]
        elif isinstance(op, Loop):
            for carry in op.carries:
                ways[carry.inside] = [(carry.initial, 0), (carry.update, 1)]
                ways[carry.result] = [(carry.update, 0)]
        elif isinstance(op, When):
            for each in op.chosen:
                ways[each.result] = [(each.update, 0), (each.otherwise, 0), (op.condition, 0)]

    def follow(value: Value, distance: int, seen: frozenset[Value]) -> Iterator[tuple[Value | Access, int]]:
        for origin, more in ways[value]:
            if isinstance(origin, Access) or origin not in ways:
                yield origin, min(1, distance + more)
            elif origin not in seen:
                yield from follow(origin, distance + more, seen | {origin})

    return lambda value: list(dict.fromkeys(follow(value, 0, frozenset({value})))) if value in ways else [(value, 0)]
