"""What becomes of the sums, element by element: equations as CUDA C++, in a function of a sum and its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tkgen.backends.cdna.lower.elements import functions, literal, local, statements
from tkgen.ir.desugar import desugared
from tkgen.ir.equations import Access, Argument, Axis, Coordinate, Load, Value
from tkgen.ir.functions import HOPPER, helpers
from tkgen.ir.products import Sums, sums
from tkgen.ir.types import Program
from tkgen.source import Span


@dataclass(frozen=True)
class Epilogue:
    """`float element(float SUM, ..., int row, int col, const globals &g)`, what it calls, where it comes from."""

    sums: tuple[str, ...]
    lines: tuple[str, ...]
    value: str
    helpers: tuple[str, ...]
    loads: bool
    spans: tuple[Span, ...]


def epilogue(program: Program, name: Callable[[str], str]) -> Epilogue | None:
    """The epilogue of a program, clauses or equations; None where the sums are stored as they are.

    `name` gives the C++ name of a tensor or scalar.
    """
    equations = equations_of(program)
    (store,) = equations.stores
    if len(equations.sums) == 1 and store.value == equations.sums[0].result:
        return None
    known = dict[Value, str]()
    for total in equations.sums:
        known[total.result] = local(total.result, known)
    lines, ops = list[str](), [op for op in equations.epilogue if op is not store]
    for op in ops:
        match op:
            case Load(result=result, source=source):
                known[result] = local(result, known)
                lines.append(f"const float {known[result]} = {_element(equations, source, name)};")
            case Argument(result=result, scalar=scalar):
                known[result] = f"g.{name(scalar.name)}"
            case Coordinate(result=result, axis=axis):
                known[result] = _coordinate(equations, axis)
            case _:
                lines += statements([op], known, HOPPER)
    spans = (op.result.span for op in ops if op.result.span)  # type: ignore[union-attr]
    return Epilogue(
        tuple(known[s.result] for s in equations.sums),
        tuple(lines),
        known.get(store.value) or literal(0),
        helpers(functions(ops), HOPPER),
        any(isinstance(op, Load) for op in ops),
        tuple(dict.fromkeys(spans)),
    )


def equations_of(program: Program) -> Sums:
    """A program's equations: its own, or those of its clauses."""
    return program.equations or sums(desugared(program))


def _element(equations: Sums, source: Access, name: Callable[[str], str]) -> str:
    places = [_coordinate(equations, axis) for axis in source.axes]
    return f"element_at(g.{name(source.tensor.name)}, {', '.join(['0', '0', *places][-2:])})"


def _coordinate(equations: Sums, axis: Axis) -> str:
    return {equations.rows: "row", equations.cols: "col"}[axis]
