"""A compiled kernel of rows: what its figures say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from tkgen.build.model import Compiled
from tkgen.diagnostics import Diagnostic, Fix, Label
from tkgen.toolchain.isa import instruction_mix

if TYPE_CHECKING:
    from tkgen.rows.spec import RowSpec


class RowBuild(Compiled):
    """A compiled kernel of rows."""

    spec: RowSpec

    def measured(self) -> Sequence[Diagnostic]:
        """What the real registers break: spills (E405), too few waves on a SIMD (E404)."""
        r, program, found = self.resources, self.spec.program, list[Diagnostic]()
        fix = Fix("make the tile smaller (`by`), use more waves, or `allow spills`")
        if not r.clean and "spills" not in program.allow:
            spilled = f"{r.vgpr_spills} spilled, {r.scratch_bytes} bytes of scratch"
            label = Label(program.spans["kernel"], f"about {self.spec.layout.registers} registers were expected")
            found.append(
                Diagnostic("E405", f"the compiled kernel keeps registers in memory: {spilled}", label, fix=fix)
            )
        real = self.spec.target.waves_per_simd(r.vgpr, r.agpr)
        if program.occupancy and real < program.occupancy and "low_occupancy" not in program.allow:
            message = f"{r.total_vgpr} registers let {real} waves share a SIMD, the spec asks for {program.occupancy}"
            found.append(Diagnostic("E404", message, Label(program.spans["occupancy"]), fix=fix))
        return found

    @property
    def barriers(self) -> int:
        """Meetings of the waves of a block."""
        return self.spec.rows.exchanges * self.spec.rows.passes

    @property
    def meetings(self) -> dict[str, int]:
        """Barriers of a block."""
        return {"barriers": self.barriers}

    def figures(self) -> dict[str, object]:
        """Its layout over lanes, its instructions."""
        layout = self.spec.rows
        return {
            "layout": {
                "text": layout.describe(),
                "lanes": layout.lanes,
                "chunk": layout.chunk,
                "chunks": layout.chunks,
                "rows": layout.held,
                "across": layout.across,
                "passes": layout.passes,
                "predicted_registers": layout.registers,
            },
            "instructions": asdict(instruction_mix(self.function.instructions)),
        }

    def words(self) -> list[str]:
        """The layout."""
        return [self.spec.layout.describe()]
