"""A spec of rows for Hopper: laid over the lanes of warps, generated, compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tkgen.backends.cdna.lower.origins import Source
from tkgen.backends.hopper.kernel_spec import HopperKernel
from tkgen.backends.hopper.machine import Hopper, SmLanes
from tkgen.backends.hopper.rows import lower_rows
from tkgen.backends.hopper.toolchain import Figures
from tkgen.backends.protocol import Modelled
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.launch import Launch
from tkgen.proof.execution import Order
from tkgen.rows.spec import LaidRows

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class HopperRowSpec(LaidRows[Hopper], HopperKernel[EquationProgram]):
    """A kernel of rows for Hopper."""

    @property
    def lanes(self) -> SmLanes:
        """An SM's warps."""
        return self.target.lanes

    @cached_property
    def source(self) -> Source:
        """The generated CUDA C++."""
        header = self.program.header.splitlines()
        return lower_rows(self.rows, self.lanes, header, self.path.name, self.program.occupancy,
                          self.remap, self.program.grid.count)  # fmt: skip

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.rows.threads

    def facts(self) -> dict[str, object]:
        """Its layout."""
        m = self.rows
        return {
            "sizes": {d.name: d.size for d in self.program.dims},
            "layout": {
                "text": m.describe(), "lanes": m.lanes, "chunk": m.chunk, "chunks": m.chunks, "rows": m.held,
                "across": m.across, "passes": m.passes, "predicted_registers": m.registers,
            },
            "proof": "the layout; its machine code is tested on the GPU",
        }  # fmt: skip

    def words(self, figures: Figures) -> str:
        """The layout."""
        return self.rows.describe()

    def modelled(
        self, launch: Launch[Any], inputs: Mapping[str, Tensor], scalars: Mapping[str, float], order: Order,
        progress: Callable[[int, int], None] | None = None,
    ) -> Modelled:  # fmt: skip
        """The model of its warps."""
        from tkgen.backends.hopper.row_model import run_rows

        return run_rows(self.rows, self.lanes, launch, inputs, scalars, order, progress)
