"""Registers over the program: the values of a lane at every moment of a role, against those that its waves reserve.

Some machines allot registers per kernel: every wave gets what the neediest needs (CDNA3 ISA guide, register
allocation), and what a role never needs is listed as unused. On others roles hand registers on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tkgen.tile.scheduled import Footprint, Moment

REGISTER_BYTES = 4  # of a lane
MOST_PARTS = 8  # that have a colour


@dataclass(frozen=True)
class RoleRegisters:
    """One role: its values over the program, the most at once, what it `needs` with addresses, what it never uses.

    `needs` is an estimate before compilation, then the registers that the role's instructions use. Each of its waves
    has `reserved` registers of a lane.
    """

    role: str
    waves: tuple[int, ...]
    computes: bool
    points: tuple[Moment, ...]
    peak: int
    needs: int
    reserved: int
    unused: int


@dataclass(frozen=True)
class Pressure:
    """Registers of a block's waves, per lane.

    `used` are those of the compiled kernel where `measured`, else the estimate of the neediest role; `allotted` is what
    every wave gets for them, in whole granules. `budget` is the most that a wave may have, at `sharing` waves in a part
    of a compute unit. `parts` are the kinds of values, in order. `wasted_bytes` is the part of the register file that
    roles which do not compute reserve and never fill, per block; `note` says so in words.
    """

    roles: tuple[RoleRegisters, ...]
    parts: tuple[str, ...]
    used: int
    allotted: int
    measured: bool
    budget: int
    sharing: int
    wasted_bytes: int
    note: str


def pressure(spec: Any, used: int | None = None, of_role: Callable[[str], int] | None = None) -> Pressure:
    """The registers of a kernel; `used` is the compiled kernel's number per lane, `of_role` that of a role's code."""
    taken: Footprint = spec.footprint
    waves: dict[str, tuple[int, ...]] = {}
    for role in spec.tiles.block.roles:
        waves[role.name] = tuple(sorted({*waves.get(role.name, ()), *spec.tiles.agents(role)}))
    most = max(r.needs for r in taken.registers) if used is None else used
    allotted = taken.reserved(most)
    roles = []
    for r in taken.registers:
        needs = r.needs
        if of_role is not None:
            needs = of_role(r.role)
        elif used is not None and not taken.moved and r.computes:
            needs = used
        reserved = r.budget if taken.moved else allotted
        peak = max((moment.total for moment in r.moments), default=0)
        roles.append(RoleRegisters(r.role, waves[r.role], r.computes, r.moments, peak, needs, reserved,
                                   max(reserved - needs, 0)))  # fmt: skip
    idle = [r for r in roles if not r.computes]
    wasted = sum(r.unused * len(r.waves) for r in idle) * REGISTER_BYTES * taken.wave_size
    parts = dict.fromkeys(share.what for r in roles for point in r.points for share in point.shares)
    note = _moved(roles) if taken.moved else _note(idle, allotted, wasted, used is not None)
    budget = max(r.budget for r in taken.registers)
    return Pressure(tuple(roles), tuple(parts), most, allotted, used is not None, budget, taken.sharing, wasted, note)


def needs_text(role: RoleRegisters, measured: bool) -> str:
    """`uses 40`, or `needs about 40` before compilation."""
    return f"uses {role.needs}" if measured else f"needs about {role.needs}"


def _moved(roles: Sequence[RoleRegisters]) -> str:
    each = " and ".join(f"a {r.role}'s thread has {r.reserved}" for r in roles)
    return f"Roles hand registers on: {each}."


def _note(idle: Sequence[RoleRegisters], reserved: int, wasted: int, measured: bool) -> str:
    if not idle:
        return "Every wave computes, so no wave reserves registers that only another role needs."
    verb = "use" if measured else "need"
    parts = [
        f"{len(r.waves)} {r.role} wave{f's {verb}' if len(r.waves) > 1 else f' {verb}s'} "
        f"{'' if measured else 'about '}{r.needs} of the {reserved}"
        for r in idle
    ]
    return (
        f"Registers are allotted per kernel, not per role: {' and '.join(parts)} that each wave reserves. "
        f"{wasted // 1024} KiB of the register file are unused per block."
    )
