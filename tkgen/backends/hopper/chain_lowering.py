"""A fused matmul of two products, or one, as those of attention -> CUDA C++, and its tile program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tkgen.backends.cdna.lower.model import Constant
from tkgen.backends.cdna.lower.names import comment_text, cpp_name
from tkgen.backends.cdna.lower.origins import end_of
from tkgen.backends.cdna.lower.places import origin
from tkgen.backends.hopper.chained import SOME, Code, program
from tkgen.backends.hopper.loop_columns import after_the_loop, column_stored
from tkgen.backends.hopper.loop_lowering import FULL, LoopLowering
from tkgen.backends.hopper.loops import HopperLoop
from tkgen.backends.hopper.printer import body
from tkgen.backends.hopper.streamed import Rows
from tkgen.ir.equations import Access, Convert, Store


class ChainLowering(LoopLowering):
    """The C++ of one layout."""

    m: HopperLoop

    def body_lines(self) -> list[str]:
        """The lines of the kernel."""
        return body(program(self.code()), FULL, "fresh buffers count as empty", list(self._counted()))

    def _types(self) -> Iterator[str]:
        """The types of warps that take turns, and of tiles in shared memory."""
        m, remark = self.m, self.marks.remark
        tiles = [("held", "ROWS, DEPTH", m.held.tensor, "a consumer's"),
                 ("left", "KEYS, DEPTH", m.left.tensor, "an iteration's, of all consumers")]  # fmt: skip
        right = "WIDTH, KEYS" if m.keys_innermost else "KEYS, WIDTH"
        if m.combined:
            yield "using consumers = group<CONSUMERS * WARPGROUP_WARPS>;"
        yield f"using two_groups = group<2 * WARPGROUP_WARPS>;{remark(comment='a consumer and the next')}"
        tiles += [("right", right, m.second.right.tensor, "the same")] if m.second is not None else []
        tiles += [("out", "ROWS, WIDTH", out.target.tensor, "a consumer's") for out in m.tile_stored]
        for tile, extents, tensor, owner in tiles:
            about = remark(origin(tensor.span), comment_text(f"{tensor.name}: {owner}"))
            yield f"using {tile}_tile = st_{tensor.dtype.suffix}<{extents}>;{about}"

    def code(self) -> Code:
        """The C++ of the tile program."""
        m, values = self.m, self.values
        if m.second is None:
            return self._single()
        (out,), right = m.tile_stored, m.second.right
        factor = m.second.product.left
        convert = next(op for op in m.middle if isinstance(op, Convert) and op.result == factor)
        middle = values.statements([op for op in m.middle if op is not convert], [convert.argument])
        carried = [*values.statements(m.carried), *values.handed(), *values.converted(convert)]
        rounds, behind = after_the_loop(m, values, out)
        behind += self._rows_stored()
        columns = tuple(column_stored(m, values, s, self.marks.remark(origin(s.span))) for s in m.columns_stored)
        tiles = "TILES" if isinstance(self._every_tile, int) else "tiles"
        return Code(
            values.name[m.first.result], values.name[m.second.result], self._moved(m.held, self._row_tile()),
            self._moved(m.left, "iteration"),
            self._moved(right, *(("0", "iteration") if m.keys_innermost else ("iteration",))),
            self._moved(out.target, self._row_tile()), tiles, m.unlike_tiles, tuple(self._place()),
            tuple(self._declared()), tuple(values.loads()), tuple(middle), tuple(carried), tuple(behind),
            values.name[out.value], self.marks.remark(origin(out.span)), m.moved_registers or (0, 0),
            m.loads_first, self._role_remarks(), SOME if m.of_groups else "", "ABt" if m.keys_innermost else "AB",
            rounds, columns, (end_of(m.first.result.span), end_of(m.second.product.result.span)),
        )  # fmt: skip

    def _single(self) -> Code:
        """The C++ of the tile program of a loop with one product."""
        m, values = self.m, self.values
        tiles = "TILES" if isinstance(self._every_tile, int) else "tiles"
        middle = [*values.statements(m.middle, []), *values.handed()]
        behind = [*values.gathered(), *values.statements(m.behind, [s.value for s in m.stored])]
        rows = [self._row_stored(store) for store in m.rows_stored]
        return Code(
            values.name[m.first.result], held=self._moved(m.held, self._row_tile()),
            left=self._moved(m.left, "iteration"), tiles=tiles, to_and_fro=m.unlike_tiles, place=tuple(self._place()),
            declared=tuple(self._declared()), loads=tuple(values.loads()), middle=tuple(middle), behind=tuple(behind),
            registers=m.moved_registers or (0, 0), loads_first=m.loads_first, remarks=self._role_remarks(),
            some=SOME if m.of_groups else "", rows_stored=tuple(rows), chained=False,
            equations=(end_of(m.first.result.span), ""),
        )  # fmt: skip

    def _row_stored(self, store: Store) -> Rows:
        """The statements that store a number of each row of a warp, and where the first one of a consumer lies."""
        place = self._moved(store.target, self._row_tile())
        return Rows(place.name, place.coord, tuple(self._number_of_rows(store)))

    def _declared(self) -> Iterator[str]:
        """Lines that a consumer declares for a tile: its first row, its sums, the second product's left operand."""
        split, scores = cpp_name(self.m.split.name), self.values.name[self.m.first.result]
        first = f"{split}_first" if self.m.padded else f"({split}_i * CONSUMERS + consumer) * ROWS"
        yield f"const int first_row = {first} + warpgroup::warpid() * 16;"
        yield f"rt_fl<16, KEYS> {scores};"
        if self.m.second is not None:
            yield f"rt_fl<16, WIDTH> {self.values.name[self.m.second.result]};"
            dtype = self.m.second.product.left.dtype
            kind = f"tk::left_of_bytes<{dtype.cpp}, KEYS>" if dtype.bytes == 1 else f"rt_{dtype.suffix}<16, KEYS>"
            yield f"{kind} factor;"
        for load in self.m.loaded:
            yield f"tk::loaded_tile<{load.source.tensor.dtype.cpp}, KEYS> {self.values.name[load.result]};"
        yield from self.values.initial()

    def _rows_stored(self) -> Iterator[str]:
        """The statements that store a number of each row."""
        for store in self.m.rows_stored:
            yield from self._number_of_rows(store)

    def _tile_types(self) -> Mapping[Access, str]:
        tiles = dict(zip(self.m.operands, ("held_tile", "left_tile", "right_tile"), strict=False))
        return tiles | {store.target: "out_tile" for store in self.m.tile_stored}

    def _widths(self) -> Iterator[Constant]:
        m = self.m
        yield Constant("DEPTH", str(m.depth), "over which the first product sums")
        if m.second is not None:
            yield Constant("WIDTH", str(m.width), "columns of the second one's sums")
        yield Constant("LEFT_BUFFERS", str(m.buffers[0]), f"of {m.left.tensor.name}")
        if m.second is not None:
            yield Constant("RIGHT_BUFFERS", str(m.buffers[1]), f"of {m.second.right.tensor.name}")


def tile_code(m: HopperLoop) -> Code:
    """The C++ of the tile program of a kernel."""
    return ChainLowering(m).code()
