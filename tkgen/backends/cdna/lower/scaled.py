"""What stands beside the products in a loop: scales of sums and of blocks, factors made of what is loaded."""

from __future__ import annotations

import re
from typing import Literal

from tkgen.backends.cdna.lower.context import Context
from tkgen.backends.cdna.lower.elements import functions, local, statements
from tkgen.backends.cdna.lower.names import cpp_name
from tkgen.backends.cdna.lower.statements import Read, ReadMade, ScaledMultiply
from tkgen.ir.equations import Access, Argument, Axis, Convert, Coordinate, Load, Map, Value, reads, writes
from tkgen.ir.products import Made, Sum
from tkgen.ir.reductions import rounds


class Scaling:
    """What is made of the product of one K-step, for each element of a fragment."""

    def __init__(self, context: Context, sum_: Sum):
        self.c, self.sum = context, sum_

    def multiply(
        self, function: str, acc: str, factors: tuple[str, str], place: tuple[str, str], step: str
    ) -> ScaledMultiply:
        """The product of `factors` at K-step `step`, counted over the tensor, added to `acc`, the tile at `place`."""
        s, known, lines = self.sum, dict[Value, str](), list[str]()
        known[s.inside] = local(s.inside, known)
        known[s.product] = "product"
        for op in s.scaled:
            match op:
                case Load(result=result, source=source):
                    known[result] = local(result, known)
                    at = offset(self.c, source, step)
                    lines.append(f"const float {known[result]} = number_at(g.{cpp_name(source.tensor.name)}, {at});")
                case Argument(result=result, scalar=scalar):
                    known[result] = f"g.{cpp_name(scalar.name)}"
                case Coordinate(result=result, axis=axis):
                    known[result] = self._coordinate(axis)
                case _:
                    lines += statements([op], known)
        self.c.helpers |= functions(op for op in s.scaled if isinstance(op, Map)) | {"combine", "number_at", "outlast"}
        text = "\n".join([*lines, known[s.update]])
        own = tuple(f"int {name}" if re.search(rf"\b{name}\b", text) else "int" for name in ("row", "col"))
        owned = ("int", "int") if rounds(self.c.program) else ()  # places among a lane's rows and columns
        return ScaledMultiply(
            function=function,
            type=self.c.accumulator_type,
            acc=acc,
            a=factors[0],
            b=factors[1],
            row=place[0],
            col=place[1],
            parameters=(*own, *owned, f"float {known[s.inside]}", "float product"),
            lines=tuple(lines),
            value=known[s.update],
        )

    def _coordinate(self, axis: Axis) -> str:
        """The place of an element along an axis of the output, or of a batch."""
        if axis.is_index:
            return self.c.index(axis)
        return "row" if axis == self.c.equations.rows else "col"


class Making:
    """What is made of a tile as it is read: a number of each element, and what is the same along its rows."""

    def __init__(self, context: Context, made: Made):
        self.c, self.made = context, made

    def read(self, plain: Read, place: str, step: str) -> ReadMade:
        """`plain`, a read of K-step `step`, with what is computed; `place` is the tile's along its rows."""
        m, known, outer, inner = self.made, dict[Value, str](), list[str](), list[str]()
        known[m.tile.result] = "element"
        of_tile = {m.tile.result}
        for op in m.ops[:-1]:  # without the conversion: what is kept is rounded once
            match op:
                case Load(result=result, source=source):
                    known[result] = local(result, known)
                    at = offset(self.c, source, step)
                    outer.append(f"const float {known[result]} = number_at(g.{cpp_name(source.tensor.name)}, {at});")
                case Argument(result=result, scalar=scalar):
                    known[result] = f"g.{cpp_name(scalar.name)}"
                case _:
                    inside = bool(of_tile.intersection(reads(op)))
                    of_tile |= set(writes(op)) if inside else set()
                    (inner if inside else outer).extend(statements([op], known))
        self.c.helpers |= functions(op for op in m.ops if isinstance(op, Map)) | {"number_at"}
        last = m.ops[-1]
        assert isinstance(last, Convert)
        along: Literal["row", "col"] = "row" if self.c.equations.rows in m.tile.source.axes else "col"
        return ReadMade(
            **vars(plain), place=place, along=along, outer=tuple(outer), inner=tuple(inner),
            value=known[last.argument],
        )  # fmt: skip


def offset(c: Context, source: Access, step: str) -> str:
    """Which element of its tensor is loaded, at a K-step."""
    equations, terms = c.equations, list[str]()
    for n, index in enumerate(source.indices):
        stride = " * ".join(c.extent_of(d) for d in source.tensor.dims[n + 1 :])
        place = str(index.at)
        if index.axis is not None and index.axis.is_index:
            place = c.index(index.axis) + (f" / {index.divisor}" if index.divisor != 1 else "")
        elif index.axis == equations.contraction:
            place = step
        elif index.axis is not None:
            names = ("row", "col") if index.extends else ("tile_row", "tile_col")
            place = names[index.axis != equations.rows]
        if place != "0":
            place = place if place.isidentifier() or not stride else f"({place})"
            terms.append(f"{place} * {stride}" if stride else place)
    return " + ".join(terms) or "0"


def scales_of_blocks(
    context: Context, sum_: Sum, tiles: tuple[str, str], place: tuple[str, str], step: str
) -> tuple[str, ...]:
    """The scales of both factors of a product as C++: of register `tiles` at `place` of the output and slice `step`."""
    masked = "true" if context.program.tail else "false"
    return tuple(
        f"scales_of<{masked}>({tile}, g.{cpp_name(scale.tensor.name)}, {_first(context, scale)}, {at}, {step})"
        for tile, at, scale in zip(tiles, place, sum_.scales, strict=True)
    )


def _first(context: Context, scale: Access) -> str:
    """The element from which the matrix of scales that a block reads begins."""
    terms = list[str]()
    for n, index in enumerate(scale.indices[:-2]):
        place = str(index.at) if index.axis is None else context.index(index.axis)
        place += f" / {index.divisor}" if index.divisor != 1 else ""
        stride = " * ".join(context.extent_of(d) for d in scale.tensor.dims[n + 1 :])
        if place != "0":
            terms.append(f"({place}) * {stride}" if "/" in place else f"{place} * {stride}")
    return " + ".join(terms) or "0"
