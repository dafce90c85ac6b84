"""Products of a loop over waves that sum over the axis which the waves divide, as C++: see `Exchange`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tkgen.backends.cdna.lower.elements import nest
from tkgen.backends.cdna.lower.names import cpp_name
from tkgen.backends.cdna.lower.places import BlockPlaces, tile_constant
from tkgen.ir.equations import Value
from tkgen.schedule.loop_tiles import Exchange
from tkgen.schedule.loops import VOTES, LoopMap


class Exchanges:
    """The C++ of what waves exchange; `name` has the names of values."""

    def __init__(self, m: LoopMap, places: BlockPlaces, name: Mapping[Value, str]):
        self.m, self.places, self.name = m, places, name

    def turned(self, x: Exchange) -> Iterator[str]:
        """This wave's columns of the tensor that is summed, in registers before the loop."""
        access, end = x.held.source, self.places.remark(x.product.result.span)
        split, number = self.m.split, self.m.exchanges.index(x)
        kind = f"tk::rt_{access.tensor.dtype.suffix}<{x.columns}, SIDE, ducks::rt_layout::row, SHAPE>"
        pitch = self.places.pitch(access)
        left = f"{self.places.length(split)} - {self.places.axis[split]}_0"
        yield f"{kind} turned_{number}[{split.tile} / SIDE];{end}"
        load = (
            f"tk::load_transposed(turned_{number}[k], {self.places.buffer(access)}, k * SIDE, {left}, "
            f"wave * {x.columns}, {pitch});"
        )
        yield from nest([f"for (int k = 0; k < {split.tile} / SIDE; ++k)"], [load])

    def give(self, number: int) -> str:
        """The line that writes this wave's results to LDS for the others."""
        x = self.m.exchanges[number]
        end = self.places.remark(x.given.span)
        return f"tk::share_columns(given_{number}[step % {VOTES}], {self.name[x.given]});{end}"

    def multiplied(self, x: Exchange) -> Iterator[str]:
        """The sum over what all waves gave, of this wave's columns."""
        name, number = self.name[x.product.result], self.m.exchanges.index(x)
        rows, end = tile_constant(x.rows), self.places.remark(x.product.result.span)
        yield f"tk::rt_fl<{rows}, {x.columns}, ducks::rt_layout::col, SHAPE> {name};"
        yield f"zero({name});"
        yield from nest(
            [f"for (int k = 0; k < {self.m.split.tile} / SIDE; ++k)"],
            [
                f"tk::rt_{x.given.dtype.suffix}<{rows}, SIDE, ducks::rt_layout::row, SHAPE> all;",
                f"tk::take_columns(all, given_{number}[step % {VOTES}], k * SIDE);",
                f"mma_ABt({name}, all, turned_{number}[k], {name});{end}",
            ],
        )

    def added(self, x: Exchange) -> Iterator[str]:
        """This wave's columns of the result, added to memory: the rows that are there."""
        access, axis = x.store.target, x.rows
        pitch = self.places.pitch(access)
        start = f"{self.places.axis[axis]}_0"
        origin = f"{self.places.origin(access)} + uint64_t({start}) * {pitch}"
        rows = f"min({self.places.length(axis)} - {start}, {tile_constant(axis)})"
        yield (
            f"tk::add_rows(g.{cpp_name(access.tensor.name)}, {origin}, {self.name[x.product.result]}, {rows}, {pitch}, "
            f"wave * {x.columns});{self.places.remark(x.store.span)}"
        )
