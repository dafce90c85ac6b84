"""The dialects of generated C++: which tile types it uses and how a tile comes to LDS.

- `tk`, ThunderKittens-HIP of July 2025: tiles of 16 x 16 (or 32 x 32) base tiles; collective loads wait for themselves.
- `hk`, HipKittens of November 2025, for targets that load straight to LDS: shared tiles of shape st_16x32, operands as
  the wide matrix instructions take them, loads in flight that the schedule waits for. It is spoken where a spec says
  `via direct`; the headers of those targets offer the surface of `tk` too, with the wide instructions inside.
"""

from __future__ import annotations

from dataclasses import dataclass

from tkgen.backends.cdna.kittens.layout import BLOCK_OF_SIX, SIX
from tkgen.ir.types import ACCESS_BYTES, BASE_TILE, WAVE_LANES, Operand, Program, Role
from tkgen.targets import largest, load_target


@dataclass(frozen=True)
class Dialect:
    """`shared_shape` ends the type of a shared tile; `direct` says that loads are in flight on return."""

    name: str
    shared_shape: str
    direct: bool

    def register_type(self, operand: Operand, side: int) -> str:
        """The C++ type of a register tile of `operand`, for matrix instructions of `side` x `side`."""
        rows, cols = operand.register_shape
        if operand.dtype.bits <= 8:
            across = WAVE_LANES * (BLOCK_OF_SIX if operand.dtype.bits == SIX else ACCESS_BYTES) // side
            shape = "" if side == BASE_TILE else f", ducks::rt_layout::row, ducks::rt_shape::rt_{side}x{across}_bytes"
            return f"rt_{operand.dtype.suffix}<{rows}, {operand.dtype.stored((rows, cols))[1]}{shape}>"
        name, layout = f"rt_{operand.dtype.suffix}", operand.register_layout
        if not self.direct:
            shape = f", ducks::rt_shape::rt_{side}x{side}" if side != BASE_TILE else ""
            stated = f", ducks::rt_layout::{layout}" if layout == "col" or shape else ""
            return f"{name}<{rows}, {cols}{stated}{shape}>"
        depth = wide_depth(side)
        base = (side, depth) if layout == "row" else (depth, side)
        return f"{name}<{rows}, {cols}, {layout}_l, rt_{base[0]}x{base[1]}_s>"


TK = Dialect("tk", "", False)
HK = Dialect("hk", ", st_16x32_s", True)


def dialect(program: Program, target: str) -> Dialect:
    """The dialect of the C++ of `program` for the target of that name."""
    return HK if program.direct and "hk" in load_target(target).dialects else TK


def wide_depth(side: int) -> int:
    """K of the wide matrix instruction of `side` x `side` for 16-bit elements: the deepest that any target has."""
    return largest(lambda target: max(i.k for i in target.mfma_shapes("bf16") if (i.m, i.n) == (side, side)))


def direct_loads(operand: Operand, role: Role) -> int:
    """Direct loads of 16 bytes a lane with which each wave of a group of `role` brings its share of a tile in LDS."""
    return operand.part_bytes // (ACCESS_BYTES * WAVE_LANES * role.group)
