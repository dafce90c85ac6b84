"""Targets whose waves multiply in groups, beside one that loads: what specs get there that leave it open."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from tkgen.targets.model import target_data


@dataclass(frozen=True)
class WaveGroups:
    """The groups of a target, and what a block has for them. Bytes, rows and columns throughout."""

    waves: int  # of a group
    rows: int  # of the output, of one matrix instruction
    shared_bytes: int  # of a block
    alignment: int  # of the tiles in it
    panel_bytes: int  # of a row of a panel, in which tiles arrive and outputs leave

    @property
    def wave_rows(self) -> int:
        """Rows of the output that a wave of the group has."""
        return self.rows // self.waves


@cache
def wave_groups(name: str) -> WaveGroups | None:
    """The groups of a target; None where each wave multiplies and loads on its own."""
    data = target_data(name)
    if "wgmma" not in data:
        return None
    shared = data["shared"]
    return WaveGroups(
        waves=data["compute"]["warpgroup_warps"]["value"],
        rows=data["wgmma"]["rows"]["value"],
        shared_bytes=shared["bytes_per_block"]["value"],
        alignment=shared["tile_alignment"]["value"],
        panel_bytes=shared["swizzle_bytes"]["value"],
    )
