"""Computations between the products of a loop: scales of sums and of blocks, operands computed from loaded values."""

from __future__ import annotations

from tkgen.backends.cdna.lower.context import Context
from tkgen.backends.cdna.lower.elements import axes_named, functions, local, of_element, parameters, statements
from tkgen.backends.cdna.lower.names import cpp_name
from tkgen.backends.cdna.lower.statements import indented, lambda_call
from tkgen.ir.equations import Access, Axis, Convert, Map, Op, Value, reads, writes
from tkgen.ir.integers import Widths
from tkgen.ir.products import Made, Sum
from tkgen.ir.reductions import rounds

ARITHMETIC = ("add", "sub", "mul")  # operators of C++ on numbers, and on several of them


class Scaling:
    """Scaling of the product of one K-step, for each element of a fragment."""

    def __init__(self, context: Context, sum_: Sum):
        self.c, self.sum = context, sum_

    def multiply(
        self, function: str, acc: str, factors: tuple[str, str], place: tuple[str, str], step: str
    ) -> list[str]:
        """The product of `factors` at K-step `step`, counted over the tensor, added to `acc`, the tile at `place`."""
        s, known, lines = self.sum, dict[Value, str](), list[str]()
        known[s.inside] = local(s.inside, known)
        known[s.product] = "product"
        for op in s.scaled:
            lines += of_element(op, known, lambda source, _: number_at(source, offset(self.c, source, step)),
                             self._coordinate, Widths(s.scaled))  # fmt: skip
        self.c.functions |= functions(op for op in s.scaled if isinstance(op, Map))
        axes, along = axes_named(s.scaled, s.scaled, s.update), self.c.equations
        named = [name for name, axis in (("row", along.rows), ("col", along.cols)) if axis in axes]
        owned = ("int", "int") if rounds(self.c.program) else ()  # places among a lane's rows and columns
        taken = (*parameters(named, "row", "col"), *owned, f"float {known[s.inside]}", "float product")
        combined = f"tk::combine({acc}, {place[0]}, {place[1]}, "
        return ["{", *indented([
            f"{self.c.accumulator_type} part;", "zero(part);", f"{function}(part, {', '.join(factors)}, part);",
            "tk::outlast(part);",
            *lambda_call(combined, taken, [*lines, f"return {known[s.update]};"], (acc, "part")),
        ]), "}"]  # fmt: skip

    def _coordinate(self, axis: Axis) -> str:
        """The place of an element along an axis of the output, or of a batch."""
        if axis.is_index:
            return self.c.index(axis)
        return "row" if axis == self.c.equations.rows else "col"


class Making:
    """Computation on a tile as it is read: per element, and the values that are the same along its rows."""

    def __init__(self, context: Context, made: Made):
        self.c, self.made = context, made

    def read(self, tile: str, subtile: str, rows: int, place: str, step: str, slice_: int, length: int) -> list[str]:
        """The read of a `subtile` of `rows` rows in LDS to a register `tile` at K-step `step`, with what is computed.

        `place` is the tile's along its rows. It has slice number `slice_` of the step, with the given number of
        elements.
        """

        def loaded(source: Access, _: str) -> str:
            return number_at(source, offset(self.c, source, step, self._block(source, slice_, length)))

        m, known, outer, inner = self.made, dict[Value, str](), list[str](), list[str]()
        known[m.tile.result] = "element"
        of_tile, kind = {m.tile.result}, "auto"  # several elements at once, where there is arithmetic alone
        for op in m.ops[:-1]:  # without the conversion: what is kept is rounded once
            if of_tile.intersection(reads(op)):
                kind = kind if isinstance(op, Map) and op.function in ARITHMETIC else "float"
                inner += self._of_elements(op, known, of_tile)
                of_tile |= set(writes(op))
            else:
                outer += of_element(op, known, loaded, self.c.index, Widths(m.ops))
        self.c.functions |= functions(op for op in m.ops if isinstance(op, Map))
        last = m.ops[-1]
        assert isinstance(last, Convert)
        blocks = max(1, length // m.block) if m.block else 1
        traits = [str(blocks), str(m.tensor.interleaved).lower(), str(m.exact).lower()]
        while traits and traits[-1] in ("1", "false"):
            traits.pop()
        along = "row" if self.c.equations.rows in m.tile.source.axes else "col"
        arguments = f"<{', '.join(traits)}>" if traits else ""
        call = f"load_made{arguments}({tile}, {subtile}, "
        element = [f"return [=, &g]({kind} element) {{", *indented([*inner, f"return {known[last.argument]};"]), "};"]
        within = ["int within", *(["int block"] if blocks > 1 else [])]
        return lambda_call(call, within, [f"const int {along} = ({place}) * {rows} + within;", *outer, *element])

    def _of_elements(self, op: Op, known: dict[Value, str], of_tile: set[Value]) -> list[str]:
        """The C++ of an operation of elements.

        What all have in common is subtracted by adding its opposite, which gives the same number: two elements at once
        can be added (v_pk_add_f32), not subtracted.
        """
        if isinstance(op, Map) and op.function == "sub" and op.arguments[1] not in of_tile:
            known[op.result] = local(op.result, known)
            element, common = (known[a] for a in op.arguments)
            opposite = common.removeprefix("-") if common.startswith("-") else f"-{common}"
            return [f"const auto {known[op.result]} = {element} + {opposite};"]
        lines = statements([op], known)
        return [line.replace("const float ", "const auto ", 1) for line in lines]

    def _block(self, source: Access, slice_: int, length: int) -> str:
        """The block of a K-step that an element of the tile is in, among those that a tensor has a number for."""
        divisor = next((i.divisor for i in source.indices if i.of_blocks), None)
        if divisor is None or self.made.block is None:
            return ""
        if length <= divisor:
            return str(slice_ * length // divisor)
        shared = divisor // self.made.block
        within = f"block / {shared}" if shared > 1 else "block"
        return f"{slice_ * length // divisor} + {within}" if slice_ else within


def number_at(source: Access, at: str) -> str:
    """An element of a tensor, whatever its type."""
    return f"tk::number_at(g.{cpp_name(source.tensor.name)}, {at})"


def offset(c: Context, source: Access, step: str, block: str = "") -> str:
    """The offset of the loaded element in its tensor at a K-step; at one of its blocks, where there are several."""
    equations, terms = c.equations, list[str]()
    for n, index in enumerate(source.indices):
        stride = " * ".join(c.extent_of(d) for d in source.tensor.dims[n + 1 :])
        place = str(index.at)
        if index.axis is not None and index.axis.is_index:
            place = c.index(index.axis) + (f" / {index.divisor}" if index.divisor != 1 else "")
        elif index.axis == equations.contraction:
            place = step
            if index.of_blocks:
                count = (equations.contraction.tile or 1) // index.divisor
                place = f"{step if step.isidentifier() else f'({step})'} * {count} + {block}"
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
