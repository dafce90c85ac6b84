"""Any products in and around a loop -> CUDA C++, and its tile program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tkgen.backends.cdna.lower.model import Constant
from tkgen.backends.cdna.lower.names import comment_text, cpp_name
from tkgen.backends.cdna.lower.origins import end_of
from tkgen.backends.cdna.lower.places import origin
from tkgen.backends.hopper.file import name
from tkgen.backends.hopper.loop_lowering import FULL, LoopLowering
from tkgen.backends.hopper.printer import body
from tkgen.backends.hopper.serial_loop import ProductStep, SerialLoop, column_count, part_count
from tkgen.backends.hopper.serial_program import SerialCode, buffers_name, serial_program
from tkgen.ir.equations import Access, Value


class SerialLowering(LoopLowering):
    """The C++ of one layout."""

    m: SerialLoop

    def body_lines(self) -> list[str]:
        """The lines of the kernel."""
        return body(serial_program(self.m, self.code()), FULL, "fresh buffers count as empty", list(self._counted()))

    def code(self) -> SerialCode:
        """The C++ of the tile program."""
        m, values = self.m, self.values
        stored = (*m.tile_stored, *m.rows_stored)
        lines = {step: tuple(self._step(step)) for steps in (m.before, m.body) for step in steps}
        behind = {step: tuple(self._step(step)) for step in m.behind}
        gathered = values.gathered()
        if m.behind:
            behind[m.behind[0]] = (*gathered, *behind[m.behind[0]])
        names = {m.array(v): values.name[v] for v in m.kept if v in values.name}
        return SerialCode(
            names | {s.value: values.name[s.value] for s in m.tile_stored if s.value in values.name},
            {tile.access: name(tile.tensor.name) for tile in m.tiles},
            {a: self._moved(a, *self._coordinates(a)) for a in (*m.operands, *(s.target for s in stored))},
            lines | behind, {s: tuple(self._number_of_rows(s)) for s in m.rows_stored},
            {p.product.result: end_of(p.product.result.span) for p in m.products},
            {s: self.marks.remark(origin(s.span)) for s in m.tile_stored},
            "TILES" if isinstance(self._every_tile, int) else "tiles", m.unlike_tiles, tuple(self._place()),
            tuple(self._declared()), tuple(values.initial()), tuple(values.handed()), m.moved_registers or (0, 0),
            m.loads_first, self._role_remarks(),
        )  # fmt: skip

    def _step(self, step: ProductStep) -> Iterator[str]:
        """The lines that compute the values of a step, and round those that are operands."""
        m, values = self.m, self.values
        wanted = [v for op in step.converts for v in (op.argument,)] + [
            op.result for op in step.ops if op.result in m.kept
        ]
        wanted += [s.value for s in m.tile_stored if any(op.result == s.value for op in step.ops)]
        yield from values.statements(step.ops, wanted)
        for convert in step.converts:
            yield from values.converted(convert, values.name[convert.result])

    def _coordinates(self, access: Access) -> tuple[str, ...]:
        """The numbers of a tile along the axes in which it extends."""
        places = {self.m.split: self._row_tile(), self.m.loop.axis: "iteration"}
        if self.m.divided is not None and access not in self.m.operands:
            places[self.m.divided] = "consumer"
        return tuple(places.get(i.axis, "0") if i.axis else "0" for i in access.indices if i.extends)

    def _declared(self) -> Iterator[str]:
        """Lines that a consumer declares for a tile: its first row, its sums, left operands in registers."""
        m, split, values = self.m, cpp_name(self.m.split.name), self.values
        of_block = f"{split}_i" if m.divided else f"({split}_i * CONSUMERS + consumer)"
        first = f"{split}_first" if m.padded else f"{of_block} * ROWS"
        yield f"const int first_row = {first} + warpgroup::warpid() * 16;"
        arrays = {values.name[v]: v for v in sorted(m.in_arrays, key=lambda v: v.number) if v in values.name}
        yield from (f"rt_fl<16, {m.columns_text(v.axes)}> {name};" for name, v in arrays.items())
        factors = dict.fromkeys(p.left for p in m.products if isinstance(p.left, Value))
        yield from (f"rt_{v.dtype.suffix}<16, {m.columns_text(v.axes)}> {values.name[v]};" for v in factors)

    def _types(self) -> Iterator[str]:
        """The types of tiles in shared memory."""
        m, remark = self.m, self.marks.remark
        types = self._tile_types()
        for tile in m.tiles:
            owner = "a consumer's" if tile.own else "of all consumers"
            about = remark(origin(tile.tensor.span), comment_text(f"{owner}{', an iteration' if tile.moves else ''}"))
            yield f"using {types[tile.access]} = {self._type(tile.access)};{about}"
        for store in m.tile_stored:
            about = remark(origin(store.span), comment_text(f"{store.target.tensor.name}: a consumer's"))
            yield f"using {types[store.target]} = {self._type(store.target)};{about}"

    def _type(self, access: Access) -> str:
        """The type of a tile."""
        return f"st_{access.tensor.dtype.suffix}<{self._shape(access)}>"

    def _shape(self, access: Access) -> str:
        """Rows and columns of a tile, in C++."""
        m, stored = self.m, access not in self.m.operands
        counts = (m.columns_text((a,)) if stored else column_count(a, m.loop.axis) for a in access.axes if a != m.split)
        return ", ".join("ROWS" if a == m.split else next(counts) for a in access.axes)

    def _tile_types(self) -> Mapping[Access, str]:
        tiles = {tile.access: f"{name(tile.tensor.name)}_tile" for tile in self.m.tiles}
        return tiles | {store.target: f"out_{n}_tile" for n, store in enumerate(self.m.tile_stored)}

    def _widths(self) -> Iterator[Constant]:
        """The elements along the other axes of tiles, and the buffers of those that move."""
        m = self.m
        axes = dict.fromkeys(a for t in (*m.operands, *(s.target for s in m.tile_stored)) for a in t.axes)
        axes |= dict.fromkeys(a for v in m.in_arrays for a in v.axes)
        for axis in (a for a in axes if a not in (m.split, m.loop.axis) and not a.is_index):
            yield Constant(column_count(axis, m.loop.axis), str(m.columns_of(axis)), f"of {axis.name}, in whole panels")
        if m.divided is not None:
            whole = column_count(m.divided, m.loop.axis)
            yield Constant(part_count(m.divided), f"{whole} / CONSUMERS", f"of {m.divided.name}, for a consumer")
        for tile in (tile for tile in m.tiles if tile.moves and tile.buffers > 1):
            yield Constant(buffers_name(m, tile), str(tile.buffers), f"of {tile.tensor.name}")
