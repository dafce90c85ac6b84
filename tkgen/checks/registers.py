"""Registers (E4xx, W4xx): what a role keeps live, what every wave of the kernel is therefore allotted, whether it fits.

Rule. Accumulators are zeroed, get every product once, and belong to one role. CDNA allots registers per kernel: every
wave gets the maximum over the roles. The launch bounds say how many waves share a SIMD, and with them how many
registers a wave may have before the compiler spills.

Model. A role's registers are those its schedule keeps live at once - accumulators, register tiles from their read to
their last multiply, staging registers from fetch to write, the pieces of a collective load in flight - and a few for
addresses. It follows the written order of operations; the compiler may interleave reads with multiplies and need less,
so the figure is an upper one. `least` is what no order can go below: the accumulators, what is held across iterations,
and one base-tile slice of each operand. Only a `least` beyond the budget is an error. The constants below were compared
with compiled kernels: `benchmarks/checks.py` prints estimate and machine code side by side.

Proof idea. Products are counted on the unrolled programs of all waves (`tkgen.schedule.registers`).

Source. Register file and granule: `tkgen/targets/*.toml` (AMD CDNA3 ISA guide; LLVM AMDGPUUsage).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate

from tkgen.checks.blocks import resized
from tkgen.checks.shared_memory import lds_bytes
from tkgen.checks.words import block_text, place, statement, waves_text
from tkgen.diagnostics import Diagnostic, Edit, Fix, Label
from tkgen.diagnostics.edits import with_option
from tkgen.diagnostics.text import count_text
from tkgen.ir.reductions import held
from tkgen.ir.room import too_many_registers
from tkgen.ir.types import ACCESS_BYTES, BASE_TILE, SIMDS, WAVE_LANES, Operand, Program, Role, Via
from tkgen.schedule.plan import Plan
from tkgen.schedule.traces import Conflict
from tkgen.targets import Target
from tkgen.targets.model import Resources
from tkgen.tile.ops import READS, Fetch, Load, Multiply, Take, Write
from tkgen.tile.program import Drain, Op

ADDRESSES = 10  # lane addresses in LDS and global memory, the loop's constants
STAGED_ADDRESSES = 16  # of an operand staged through registers: its own positions in memory and LDS
MASKS = 40  # what the bounds of a tail clause keep live
PIECES = 8  # 16-byte pieces in flight in one collective load (the embedded headers)


@dataclass(frozen=True)
class RoleRegisters:
    """VGPRs per lane that a wave of one role keeps live, and what for; `least` is a lower bound of the total."""

    role: str
    waves: int
    accumulators: int
    tiles: int
    staging: int
    addresses: int
    live: int
    least: int


@dataclass(frozen=True)
class RegisterEstimate:
    """The predicted registers of the kernel.

    `allotted` is per lane of every wave, rounded to the target's granule; `budget` is the most that the launch bounds
    leave a wave. `waves_per_simd` and `blocks_per_cu` are the occupancy it allows. `wasted_bytes` are those that waves
    of a block hold and their role never needs.
    """

    roles: tuple[RoleRegisters, ...]
    allotted: int
    budget: int
    waves_per_simd: float
    blocks_per_cu: int
    limit: str
    wasted_bytes: int


def check(plan: Plan, target: Target) -> list[Diagnostic]:
    """Sums that are not whole, kernels that must spill, loading waves that hold most of the registers."""
    found = estimate(plan, target)
    return [*_sums(plan), *_spills(plan, target, found), *_waste(plan, found)]


def waves_per_simd(program: Program) -> int:
    """Waves that the launch bounds ask a SIMD to hold: the occupancy clause, else what one block needs."""
    return program.occupancy or -(-program.waves // SIMDS)


def estimate(plan: Plan, target: Target) -> RegisterEstimate:
    """The registers, occupancy and waste of `plan` on `target`."""
    program = plan.program
    roles = tuple(_role(plan, role) for role in program.roles)
    budget = target.max_registers(waves_per_simd(program))
    allotted = target.allotted_registers(max(r.live for r in roles))
    fitting = min(allotted, budget)
    vgprs = min(fitting, target.max_vgprs)
    occupancy = target.occupancy(vgprs, lds_bytes(program), program.waves, fitting - vgprs)
    wasted = sum((allotted - target.allotted_registers(r.live)) * r.waves for r in roles) * WAVE_LANES * 4
    return RegisterEstimate(
        roles, allotted, budget, occupancy.waves_per_simd, occupancy.blocks_per_cu, occupancy.limit, wasted
    )


# ---------------------------------------------------------------- the model


def _role(plan: Plan, role: Role) -> RoleRegisters:
    program = plan.program
    acc = program.sum_registers if role.multiplies else 0
    tiles, staging = _live(plan, role)
    loads = [program.operand(name) for name in role.loads]
    addresses = ADDRESSES + sum(STAGED_ADDRESSES for o in loads if o.via is Via.REGISTERS)
    past = role.multiplies and len(program.shared) < len(program.operands)
    if program.tail and (loads or past):
        addresses += MASKS
    least = acc + ADDRESSES // 2
    if role.multiplies:
        sliced = [replace(o, slice=min(o.slice, BASE_TILE)) for o in program.operands]
        least += sum(o.registers_per_tile for o in sliced)
    if role.multiplies and not plan.automatic:
        least = max(least, acc + _carried(plan, role))
    results = held(program) if role.multiplies else 0  # what the epilogue reduces, when the tiles are done with
    live = acc + max(tiles + staging, results) + addresses
    return RoleRegisters(role.name, len(role.waves), acc, tiles, staging, addresses, live, max(least, acc + results))


def _live(plan: Plan, role: Role) -> tuple[int, int]:
    """(register tiles, staging) live at the moment of one iteration when their sum is largest."""
    program = plan.program
    ops = plan.bodies[role.name]
    spans = [*_tile_spans(program, ops), *_staging_spans(program, role, ops)]
    tiles = _pressure([s for s in spans if s.kind == "tile"], len(ops))
    staging = _pressure([s for s in spans if s.kind == "staging"], len(ops))
    return max(zip(tiles, staging, strict=True), key=sum, default=(0, 0))


@dataclass(frozen=True)
class _Live:
    """Registers of a `kind` live at `length` positions of the iteration from `first` on, around its end."""

    kind: str
    size: int
    first: int
    length: int


def _pressure(spans: Iterable[_Live], count: int) -> list[int]:
    """Registers live at each of `count` positions."""
    change = [0] * (count + 1)
    for span in spans:
        end = span.first + span.length
        change[span.first] += span.size
        change[end - count if end > count else end] -= span.size
        change[0] += span.size if end > count else 0
    return list(accumulate(change[:count]))


def _tile_spans(program: Program, ops: tuple[Op, ...]) -> Iterator[_Live]:
    """Register tiles of an iteration, live from the read to the last multiply."""
    count = len(ops)
    last_use: dict[tuple[str, int, int], int] = {}
    for j, op in enumerate(ops):
        if isinstance(op, Multiply):
            for operand, fragments in program.consumed(op):
                last_use.update(((operand.name, i, t), j) for t in op.slices for i in fragments)
    for i, read in enumerate(ops):
        if not isinstance(read, READS):
            continue
        size = program.operand(read.operand).registers_per_tile
        for t in read.tile.slices:
            for f in read.tile.fragments:
                use = last_use.get((read.operand, f, t))
                if use is not None:
                    distance = use - i + read.offset * count
                    yield _Live("tile", size, i, _length(distance, count))
                    if isinstance(read, Take):  # on their way they hold registers, those of several steps at once
                        yield from (_Live("tile", size, i, _length(distance - n * count, count))
                                    for n in range(1, distance // count + 1))  # fmt: skip


def _length(distance: int, count: int) -> int:
    """Positions from an operation to one `distance` further, both counted; at most the whole iteration."""
    return min(max(distance, 0) + 1, count)


def _staging_spans(program: Program, role: Role, ops: tuple[Op, ...]) -> Iterator[_Live]:
    """Staging registers from fetch to write, and the pieces in flight in a run of collective loads."""
    count = len(ops)
    run: list[tuple[int, Load]] = []
    for i, op in enumerate(ops):
        if isinstance(op, Fetch):
            operand = program.operand(op.operand)
            mine = set(operand.parts_of(op.tile))
            writes = (
                (j - i) + (op.offset - w.offset) * count
                for j, w in enumerate(ops)
                if isinstance(w, Write) and w.operand == op.operand and not mine.isdisjoint(operand.parts_of(w.tile))
            )
            yield _Live("staging", pieces(operand, role, len(mine)) * 4, i, _length(max(writes, default=0), count))
        if isinstance(op, Load):
            run.append((i, op))
        elif run and not isinstance(op, Drain):
            yield _in_flight(program, role, run)
            run = []
    if run:
        yield _in_flight(program, role, run)


def _in_flight(program: Program, role: Role, run: list[tuple[int, Load]]) -> _Live:
    """Loads one after the other: the compiler starts the next one's global reads before the last one's LDS writes."""
    moved = ((program.operand(op.operand), op) for _, op in run)
    size = sum(min(pieces(operand, role, len(operand.parts_of(op.tile))), PIECES) for operand, op in moved)
    first, last = run[0][0], run[-1][0]
    return _Live("staging", 4 * min(size, 2 * PIECES), first, last - first + 1)


def pieces(operand: Operand, role: Role, parts: int) -> int:
    """16-byte pieces that one lane moves of `parts` parts of a tile."""
    return parts * -(-operand.part_bytes // (ACCESS_BYTES * WAVE_LANES * role.group))


def _carried(plan: Plan, role: Role) -> int:
    """Registers that a written schedule holds at the end of an iteration, whatever the compiler does within."""
    ops = plan.bodies[role.name]
    spans = [*_tile_spans(plan.program, ops), *_staging_spans(plan.program, role, ops)]
    # Around the end: position 0 lies within the span, and so does the one before it.
    return sum(s.size for s in spans if s.first + s.length > len(ops) or s.length == len(ops))


# ---------------------------------------------------------------- findings


def _sums(plan: Plan) -> Iterator[Diagnostic]:
    """Accumulators that are not zeroed, or do not get every product once."""
    conflicts = plan.conflicts()
    kinds = {c.kind for c in conflicts}
    zeros = [c for c in conflicts if c.kind == "zero"]
    sums = [c for c in conflicts if c.kind == "products"]
    if zeros:
        yield _sum(plan, zeros[0], "is never zeroed", "starts from the old contents of the registers")
    elif sums and not kinds & {"register", "unwritten"}:  # what is summed would follow from what is read
        *_, s, t = sums[0].where
        text = "is summed twice" if sums[0].how == "twice" else "is missing from the sum"
        yield _sum(plan, sums[0], f"is wrong: slice {t} of K-step {s} {text}", "not the whole product")


def _sum(plan: Plan, c: Conflict, what: str, label: str) -> Diagnostic:
    i, j = c.where[:2]
    return Diagnostic(
        "E402",
        f"the sum in fragment ({i}, {j}) {what}",
        Label(place(plan.program, c.second.op if c.second else None), label),
        (),
        ("every fragment needs each slice of every K-step exactly once",),
        Fix("multiply every fragment and slice once in an iteration"),
    )


def _spills(plan: Plan, target: Target, found: RegisterEstimate) -> Iterator[Diagnostic]:
    program = plan.program
    worst = max(found.roles, key=lambda r: r.least)
    if worst.least <= found.budget or "spills" in program.allow:
        return
    per_simd = waves_per_simd(program)
    asked = program.occupancy is not None
    span = program.accumulator.span
    secondary = Label(statement(program, "occupancy"), "asked for here") if asked else Label(
        program.compute.span, f"{program.waves} waves are {per_simd} on each of {SIMDS} SIMDs"
    )  # fmt: skip
    yield too_many_registers(
        f"a wave needs at least {worst.least} registers",
        f"{per_simd} waves on a SIMD leave it {found.budget}",
        Label(span, f"{worst.accumulators} registers of sums"),
        _changed(plan, target, "make the block smaller"),
        secondary=(secondary,),
        notes=(
            f"{target.name} has {target.registers_per_lane} registers for each lane of a SIMD; the kernel would spill",
            target.cited("registers.vector_per_lane"),
        ),
        asked=asked,
    )


def _changed(plan: Plan, target: Target, other: str) -> Fix:
    """The fix of one number with which registers suffice, as an edit; `other` where there is none."""
    found = _changes(plan, target)
    return Fix(" or ".join(text for text, _ in found) or other, found[0][1] if found else (), certain=len(found) == 1)


def _changes(plan: Plan, target: Target) -> list[tuple[str, tuple[Edit, ...]]]:
    """The smallest changes of one number that would fit, in words and as edits."""
    program = plan.program
    rows, cols, step = program.block
    per_simd = waves_per_simd(program)
    worst = max((_role(plan, r) for r in program.roles), key=lambda r: r.least)
    found = list[tuple[str, tuple[Edit, ...]]]()
    if program.occupancy:
        fits = next((n for n in range(per_simd - 1, 0, -1) if worst.least <= target.max_registers(n)), None)
        if fits is not None and fits >= -(-program.waves // SIMDS):
            edits = with_option(statement(program, "occupancy"), "occupancy", str(fits))
            found.append((f"write `occupancy {count_text(fits, 'wave')} per simd`", edits))
    excess = worst.least - target.max_registers(per_simd)
    if worst.accumulators // 2 >= excess:
        by_rows = program.accumulator.fragments[0] % 2 == 0
        smaller = (rows // 2, cols, step) if by_rows else (rows, cols // 2, step)
        text = f"halve the fragments of a wave: {block_text(program, smaller)}"
        found.append((text, tuple(resized(program, smaller))))
    return found


def _waste(plan: Plan, found: RegisterEstimate) -> Iterator[Diagnostic]:
    """Waves that only load hold more registers than those that multiply."""
    program = plan.program
    total = found.allotted * program.waves * WAVE_LANES * 4
    idle = [r for r in program.roles if not r.multiplies]
    if not idle or found.wasted_bytes * 2 <= total:
        return
    loaders = next(r for r in found.roles if r.role == idle[0].name)
    yield Diagnostic(
        "W401",
        f"more than half of the block's registers, {found.wasted_bytes // 1024} KiB, are held by waves that do not "
        "need them",
        Label(idle[0].span, f"{waves_text(idle[0].waves)} need about {loaders.live} registers"),
        (Label(program.accumulator.span, f"every wave is allotted about {found.allotted}"),),
        ("registers are allotted per kernel, not per role: every wave gets the maximum",),
        Fix("let fewer waves load"),
    )


def check_resources(plan: Plan, target: Target, resources: Resources) -> list[Diagnostic]:
    """The real figures of a compiled kernel: spills to memory (E405) and to lanes (W402), too low occupancy (E404)."""
    program = plan.program
    found: list[Diagnostic] = []
    spilled_scalars = count_text(resources.sgpr_spills, "spilled scalar register") if resources.sgpr_spills else ""
    if not resources.clean and "spills" not in program.allow:
        predicted = estimate(plan, target)
        parts = [count_text(resources.vgpr_spills, "spilled vector register")] if resources.vgpr_spills else []
        parts += [spilled_scalars] if spilled_scalars else []
        if resources.scratch_bytes:
            parts.append(f"{count_text(resources.scratch_bytes, 'byte')} of scratch per lane")
        found.append(
            Diagnostic(
                "E405",
                f"the compiled kernel keeps registers in memory: {', '.join(parts) or 'a dynamic stack'}",
                Label(program.accumulator.span, f"about {predicted.allotted} registers were expected"),
                (),
                (f"{waves_per_simd(program)} waves on a SIMD leave {predicted.budget} registers",),
                _changed(plan, target, "make the slice or the block smaller, or `allow spills`"),
            )
        )
    elif spilled_scalars and "spills" not in program.allow:
        found.append(
            Diagnostic(
                "W402",
                f"the compiled kernel keeps {spilled_scalars.replace('spilled ', '')} in lanes of a vector register",
                Label(program.spans["kernel"], f"{resources.sgpr} scalar registers in use"),
                (),
                ("each use of one costs an extra `v_readlane_b32`; no memory is used",),
                Fix("unroll less or use fewer LDS buffers, or write `allow spills` if it does not matter"),
            )
        )
    real = target.waves_per_simd(resources.vgpr, resources.agpr)
    if program.occupancy and real < program.occupancy and "low_occupancy" not in program.allow:
        found.append(
            Diagnostic(
                "E404",
                f"{resources.total_vgpr} registers let {count_text(real, 'wave')} share a SIMD, "
                f"the spec asks for {program.occupancy}",
                Label(statement(program, "occupancy")),
                fix=_changed(plan, target, f"ask for {count_text(real, 'wave')} per simd"),
            )
        )
    return found
