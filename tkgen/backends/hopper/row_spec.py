"""A spec of rows for Hopper: laid over the lanes of warps, generated, compiled."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tkgen.backends.hopper.build import CudaBuild, compiled
from tkgen.backends.hopper.checks import check_figures
from tkgen.backends.hopper.machine import Hopper, SmLanes
from tkgen.backends.hopper.rows import lower_rows
from tkgen.diagnostics import Diagnostic
from tkgen.rows.spec import LaidRows


@dataclass(frozen=True)
class HopperRowSpec(LaidRows[Hopper]):
    """A kernel of rows for Hopper."""

    @property
    def lanes(self) -> SmLanes:
        """An SM's warps."""
        return self.target.lanes

    @cached_property
    def text(self) -> str:
        """The generated CUDA C++."""
        header = self.program.header.splitlines()
        return lower_rows(self.rows, self.lanes, header, self.path.name, self.program.occupancy).text

    def build(self, *, cxx: str | None = None) -> HopperRowBuild:
        """Compile to a cubin, with the nvcc `cxx` where it is given.

        Raises:
            SpecError: as `check`, or the machine code spills.
            ToolchainError: there is no nvcc, or it fails.
        """
        self.check()
        return HopperRowBuild(*compiled(self.text, self.name, self.target, cxx), self).check()


@dataclass(frozen=True)
class HopperRowBuild(CudaBuild):
    """A compiled kernel of rows."""

    spec: HopperRowSpec

    def measured(self) -> list[Diagnostic]:
        """Spills."""
        program = self.spec.program
        return check_figures(program.spans["kernel"], program.allow, self.figures, self.remarks)

    @property
    def dynamic_bytes(self) -> int:
        """None: what warps exchange is static."""
        return 0

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.spec.rows.threads

    def facts(self) -> dict[str, object]:
        """Its layout."""
        m = self.spec.rows
        return {
            "sizes": {d.name: d.size for d in self.spec.program.dims},
            "layout": {
                "text": m.describe(), "lanes": m.lanes, "chunk": m.chunk, "chunks": m.chunks, "rows": m.held,
                "across": m.across, "passes": m.passes, "predicted_registers": m.registers,
            },
            "proof": "the layout; its machine code is tested on the GPU",
        }  # fmt: skip

    def words(self) -> str:
        """The layout."""
        return self.spec.rows.describe()
