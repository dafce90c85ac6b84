"""What a kernel takes of a GPU."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Resources:
    """What one kernel takes: registers per lane (`sgpr` per wave), scratch per lane, LDS and arguments in bytes.

    `total_vgpr` is what the hardware allots before rounding to its granule: architectural registers, then accumulation
    registers from the next multiple of four. `spills` count registers, `scratch_bytes` includes arrays that were never
    in registers.
    """

    kernel: str
    vgpr: int
    agpr: int
    total_vgpr: int
    sgpr: int
    vgpr_spills: int
    sgpr_spills: int
    scratch_bytes: int
    lds_static_bytes: int
    kernarg_bytes: int
    max_workgroup: int
    wavefront: int
    dynamic_stack: bool

    @property
    def clean(self) -> bool:
        """True where nothing is kept in memory for want of registers: no spill, no scratch, no dynamic stack.

        Scalar registers are spilled to lanes of vector registers while there are any; then there is no scratch.
        """
        return not (self.vgpr_spills or self.scratch_bytes or self.dynamic_stack)
