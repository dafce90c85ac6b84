"""Context of a lowering: the plan, the dialect, names in the generated code, and the origin of its lines."""

from __future__ import annotations

import os
from functools import cached_property
from urllib.parse import quote

from tkgen.backends.cdna.lower.dialects import dialect
from tkgen.backends.cdna.lower.names import EXTENTS, cpp_name
from tkgen.backends.cdna.lower.origins import Origin, Origins
from tkgen.backends.cdna.lower.statements import How
from tkgen.ir.equations import Access, Axis
from tkgen.ir.products import Sums, View
from tkgen.ir.types import BASE_TILE, Dim, DType, Operand, Product, Tensor
from tkgen.remap import NamedInt
from tkgen.schedule.plan import Plan
from tkgen.source import SourceFile, Span


class Context:
    """A plan for a target; `functions` are those of equations that its code calls."""

    def __init__(self, plan: Plan, target: str, spec: str):
        self.plan, self.program, self.target, self.spec = plan, plan.program, target, spec
        self.dialect = dialect(plan.program, target)
        self.functions: set[str] = set()

    def origin(self, *spans: Span | str | None) -> Origins:
        """The spec lines of spans, or of clauses by name: the first one matters most.

        None and a clause that is not written add nothing.
        """
        main = self.program.spans["kernel"].file
        found = [self.program.spans.get(s) if isinstance(s, str) else s for s in spans]
        return Origins.of(Origin(s.file, s.line, _name(s.file, main)) for s in found if s is not None)

    def dim(self, name: str) -> str:
        """The constant of a dimension that is known."""
        return f"DIM_{name}"

    def shared(self, operand: Operand) -> str:
        """The buffers of an operand in LDS."""
        return f"{cpp_name(operand.name)}_s"

    def registers(self, operand: Operand) -> str:
        """The register tiles of an operand."""
        return f"{cpp_name(operand.name)}_r"

    def stage(self, operand: Operand) -> str:
        """The staging registers of an operand."""
        return f"{cpp_name(operand.name)}_stage"

    def gathered_rows(self, operand: Operand) -> str:
        """The name of the rows from which lanes gather an operand."""
        return f"{cpp_name(operand.name)}_rows"

    def offsets(self, operand: Operand) -> str:
        """The offsets at which lanes load an operand straight to LDS."""
        return f"{cpp_name(operand.name)}_offsets"

    @staticmethod
    def accumulator(product: Product) -> str:
        """The register tiles of sums, and of what is made of them: floats."""
        return f"{cpp_name(product.name)}_acc"

    def sums(self, product: Product) -> str:
        """The register tiles that products are added to."""
        return self.accumulator(product) if self.sums_type == self.accumulator_type else f"{cpp_name(product.name)}_sum"

    @property
    def shape(self) -> str:
        """The base tiles of the register tiles, as a last template argument; the default is left out."""
        side = self.program.accumulator.mfma[0]
        return f", ducks::rt_shape::rt_{side}x{side}" if side != BASE_TILE else ""

    @property
    def accumulator_type(self) -> str:
        """The type of a tile of floats."""
        return self._tile_type(DType.F32)

    @property
    def sums_type(self) -> str:
        """The type of a tile that products are added to."""
        return self._tile_type(self.program.accumulator.dtype)

    def _tile_type(self, dtype: DType) -> str:
        rows, cols = self.program.accumulator.tile
        return f"rt_{dtype.suffix}<{rows}, {cols}, ducks::rt_layout::col{self.shape}>"

    @property
    def steps(self) -> str:
        """The number of K-steps."""
        return "steps" if self.program.steps is None else "K_STEPS"

    def extent(self, constant: str, axis: int) -> str | NamedInt:
        """Rows (axis 0) or columns of tiles: a constant with its value, or a local."""
        size = (self.program.m, self.program.n)[axis].size
        if size is None or (axis == 0 and self.program.ragged):
            return constant.lower()
        return NamedInt(constant, -(-size // self.program.block[axis]))

    @property
    def equations(self) -> Sums:
        """The sums of the kernel and its epilogue."""
        return self.program.equations

    @cached_property
    def views(self) -> dict[Access, View]:
        """Views of the tensors of which the block sees a part."""
        return {v.access: v for v in self.equations.views if not v.is_whole}

    def matrix(self, of: Access | Tensor) -> str:
        """The tensor, or the block's matrix of it, as C++."""
        if isinstance(of, Tensor):
            view = next((v for v in self.views.values() if v.tensor.name == of.name), None)
            return f"g.{cpp_name(of.name)}" if view is None else f"{cpp_name(view.name)}_m"
        return f"{cpp_name(self.views[of].name)}_m" if of in self.views else f"g.{cpp_name(of.tensor.name)}"

    @property
    def how(self) -> How:
        """The way in which tiles of the output are written to memory."""
        return "add" if self.program.grid.shares_tiles else "masked" if self.program.tail else "whole"

    @property
    def past_end(self) -> str:
        """The template argument for loads past the end of a tensor; empty where tiles end with it."""
        return {None: "", "masked": "tk::MASKED", "clamped": "tk::CLAMPED"}[self.program.tail]

    @property
    def tile_loads(self) -> str:
        """The template argument of tile loads: `past_end`, and WIDE if byte offsets may not fit 31 bits."""
        wide = any(may_be_wide(o.tensor) for o in self.program.operands)
        return " | ".join(filter(None, [self.past_end, "tk::WIDE" if wide else ""]))

    def output_tile(self, i: str, j: str) -> tuple[str, str]:
        """Row and column of the output, in tiles, that fragment (i, j) is."""
        p, shape = self.program, self.program.compute.shape
        assert shape is not None
        coordinate = []
        for axis, (tile, wave, f) in enumerate((("tile_row", "wave_row", i), ("tile_col", "wave_col", j))):
            per_block = p.block[axis] // p.accumulator.tile[axis]
            inner = self.fragment_index(axis, wave, f, shape[axis])
            coordinate.append(f"{tile} * {per_block} + {inner}" if per_block > 1 else tile)
        return coordinate[0], coordinate[1]

    def fragment_index(self, axis: int, wave: str, fragment: str, waves: int) -> str:
        """The tile row or column of the block that a fragment is, as C++."""
        acc = self.program.accumulator
        count = acc.fragments[axis]
        if waves == 1:
            return fragment
        if count == 1:
            return wave
        if acc.interleaved:
            return f"{wave} + {waves} * {fragment}" if fragment != "0" else wave
        return f"{wave} * {count} + {fragment}" if fragment != "0" else f"{wave} * {count}"

    @staticmethod
    def index(axis: Axis) -> str:
        """The index of a block along an axis of the batch."""
        return f"{cpp_name(axis.name)}_i"

    @staticmethod
    def first_of(axis: Axis) -> str:
        """The first place of a group along a ragged axis."""
        return cpp_name(f"{axis.name}_first")

    @staticmethod
    def length_of(axis: Axis) -> str:
        """The number of positions that a group has along a ragged axis."""
        return cpp_name(f"{axis.name}_count")

    def extent_of(self, dim: Dim) -> str:
        """A dimension's size in the kernel."""
        return self.size_of(dim.name) if dim.size is None else self.dim(dim.name)

    def size_of(self, dim: str) -> str:
        """A dimension's size, from the first tensor that has it."""
        tensor, axis = next((t, i) for t in self.program.arguments for i, d in enumerate(t.dims) if d.name == dim)
        return self.axis_of(tensor, axis)

    def axis_of(self, tensor: Tensor, axis: int) -> str:
        """The extent of a tensor along an axis."""
        return f"g.{cpp_name(tensor.name)}.{EXTENTS[4 - len(tensor.dims) + axis]}()"


def may_be_wide(tensor: Tensor) -> bool:
    """Return True if byte offsets into the tensor may not fit 31 bits."""
    elements = 1
    for dim in tensor.dims:
        elements *= dim.size or 1 << 31
    return tensor.dtype.sized(elements) >= 1 << 31


def _name(file: SourceFile, main: SourceFile) -> str:
    """The name of an included file in comments: its path from the spec's folder, without blanks and commas."""
    if file.name == main.name:
        return ""
    return quote(os.path.relpath(file.name, os.path.dirname(main.name) or "."), safe="/")
