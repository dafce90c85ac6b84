"""A compiled loop of equations: what its figures say."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from tkgen.build.model import other_per_mfma
from tkgen.rows.build import RowBuild
from tkgen.toolchain.isa import InstructionMix, instruction_mix, main_loop

if TYPE_CHECKING:
    from tkgen.loops.spec import LoopSpec


class LoopBuild(RowBuild):
    """A compiled loop of equations."""

    spec: LoopSpec

    @property
    def main_loop(self) -> InstructionMix | None:
        """The instruction mix of one pass; None where nothing loops."""
        loop = main_loop(self.function)
        return None if loop is None else instruction_mix(loop.instructions)

    @property
    def barriers(self) -> int:
        """Meetings of the waves of a block, in a pass."""
        return self.spec.steps.barriers

    def figures(self) -> dict[str, object]:
        """Its layout over waves, its loop."""
        layout, loop = self.spec.layout, self.main_loop
        return {
            "layout": {
                "text": layout.describe(),
                "columns": layout.columns,
                "side": layout.side,
                "predicted_registers": layout.registers,
            },
            "barriers_per_step": self.barriers,
            "instructions": asdict(instruction_mix(self.function.instructions)),
            "main_loop": None if loop is None else asdict(loop) | {"other_per_mfma": other_per_mfma(loop)},
        }

    def words(self) -> list[str]:
        """Barriers, and what stands in the loop."""
        loop, meetings = self.main_loop, self.barriers
        found = [f"{meetings} barrier{'s' if meetings != 1 else ''}/step"]
        if loop is not None:
            found.append(f"{sum(loop.mfma.values())} MFMA in the loop, {other_per_mfma(loop):.2f} others per MFMA")
        return found
