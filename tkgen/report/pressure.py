"""Registers over the program: the tiles each role holds at every operation, against what the kernel reserves.

CDNA allots registers per kernel: every wave gets what the neediest needs (CDNA3 ISA guide, register allocation). What a
role never needs is listed as unused; `tkgen.checks.registers` estimates the need, tiles and addresses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tkgen.checks.registers import estimate, pieces, waves_per_simd
from tkgen.ir.types import WAVE_LANES, Program
from tkgen.report.lanes import EPILOGUE, NEXT, lane_events
from tkgen.report.places import Places
from tkgen.schedule import Plan
from tkgen.schedule.traces import Event
from tkgen.targets import Target
from tkgen.tile.ops import Fetch, Load, Multiply, Read, Store, Take, Write, Zero
from tkgen.tile.program import Control

REGISTER_BYTES = 4 * WAVE_LANES  # one VGPR of a wave
REGISTERS_PER_PIECE = 4  # of 16 bytes per lane

Tile = tuple[str, str, int, int, int]  # (sort, operand, fragment, step, slice)


@dataclass(frozen=True)
class Point:
    """VGPRs per lane that hold tiles while an operation runs."""

    text: str
    action: str
    segment: str
    accumulators: int
    a: int
    b: int
    staging: int

    @property
    def total(self) -> int:
        """All tiles together."""
        return self.accumulators + self.a + self.b + self.staging


@dataclass(frozen=True)
class RoleRegisters:
    """One role: its tiles over the program, the most at once, what it `needs` with addresses, what it never uses.

    `needs` is an estimate before compilation, then the registers that the role's instructions use.
    """

    role: str
    waves: tuple[int, ...]
    multiplies: bool
    points: tuple[Point, ...]
    peak: int
    needs: int
    unused: int


@dataclass(frozen=True)
class Pressure:
    """Registers of a block's waves, per lane.

    `allotted` is what every wave gets: measured where `measured`, else the estimate of the register check.
    `budget` is the most a wave may have at the occupancy that the launch bounds promise, `waves_per_simd`.
    `wasted_bytes` is the part of the register file that roles which do not multiply reserve and never fill, per
    block; `note` says so in words.
    """

    roles: tuple[RoleRegisters, ...]
    allotted: int
    measured: bool
    budget: int
    waves_per_simd: int
    wasted_bytes: int
    note: str


def pressure(plan: Plan, target: Target, allotted: int | None, places: Places | None = None) -> Pressure:
    """The registers of `plan`; `allotted` is the compiled kernel's number per lane, with the `places` of its code."""
    program, predicted = plan.program, estimate(plan, target)
    points: dict[str, tuple[Point, ...]] = {}
    for wave in plan.waves:  # waves of other phases do the same later
        points.setdefault(wave.name, tuple(_points(program, lane_events(plan, wave))))
    peaks = {role: max((p.total for p in found), default=0) for role, found in points.items()}
    needs = {r.role: places.registers(r.role) if places else r.live for r in predicted.roles}
    reserved = predicted.allotted if allotted is None else target.allotted_registers(allotted)
    roles = tuple(
        RoleRegisters(
            r.name,
            tuple(r.waves),
            r.multiplies,
            points[r.name],
            peaks[r.name],
            needs[r.name],
            max(reserved - needs[r.name], 0),
        )
        for r in program.roles
    )
    idle = [r for r in roles if not r.multiplies]
    wasted = sum(r.unused * len(r.waves) for r in idle) * REGISTER_BYTES
    return Pressure(
        roles,
        reserved,
        allotted is not None,
        predicted.budget,
        waves_per_simd(program),
        wasted,
        _note(idle, reserved, wasted, allotted is not None),
    )


def needs_text(role: RoleRegisters, measured: bool) -> str:
    """`uses 40`, or `needs about 40` before compilation."""
    return f"uses {role.needs}" if measured else f"needs about {role.needs}"


def _note(idle: list[RoleRegisters], reserved: int, wasted: int, measured: bool) -> str:
    if not idle:
        return "Every wave multiplies, so none reserves registers on another role's account."
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


def _points(program: Program, events: Sequence[tuple[Event, str, object]]) -> Iterator[Point]:
    """Live tiles at each operation: from the read (or fetch) that fills one to the last operation that uses it."""
    born: dict[Tile, int] = {}
    dies: dict[Tile, int] = {}
    for index, (event, _, _) in enumerate(events):
        for tile in _touched(program, event):
            born.setdefault(tile, index)
            dies[tile] = index
    looped = any(segment == NEXT for _, segment, _ in events)
    for index, (event, segment, _) in enumerate(events):
        if isinstance(event.op, Control) or segment == NEXT or (segment == EPILOGUE and looped):
            continue
        live = [t for t in born if born[t] <= index <= dies[t]]
        held = {"A": 0, "B": 0, "staging": 0, "accumulators": 0}
        for sort, operand, *_ in live:
            held[sort] += _registers(program, sort, operand)
        yield Point(str(event.op), event.op.word, segment, held["accumulators"], held["A"], held["B"], held["staging"])


def _touched(program: Program, event: Event) -> Iterator[Tile]:
    op, step, tile = event.op, event.step, event.tile
    match op:
        case Read() | Take():
            sort = program.operand(op.operand).side.value
            yield from ((sort, op.operand, f, step, t) for f in op.tile.fragments for t in op.tile.slices)
        case Multiply():
            for operand, fragments in program.consumed(op):
                yield from ((operand.side.value, operand.name, f, step, t) for f in fragments for t in op.slices)
            name = program.product_of(op.product).name
            yield from (("accumulators", name, i, j, tile) for i in op.rows for j in op.cols)
        case Zero() | Store():
            sums = ((p.name, i, j) for p in program.products for i in op.rows for j in op.cols)
            yield from (("accumulators", *at, tile) for at in sums)
        case Fetch() | Write() | Load():
            yield "staging", op.operand, 0, step, 0


def _registers(program: Program, sort: str, operand: str) -> int:
    """VGPRs per lane of one tile."""
    if sort == "accumulators":
        acc = program.accumulator
        return acc.registers // (acc.fragments[0] * acc.fragments[1])
    if sort == "staging":
        load = next(o for o in program.operands if o.name == operand)
        role = next((r for r in program.roles if load.name in r.loads), program.compute)
        return pieces(load, role, load.part_count) * REGISTERS_PER_PIECE
    return program.operand(operand).registers_per_tile
