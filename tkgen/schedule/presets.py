"""Schedules that tkgen writes itself: `schedule ping_pong`, `schedule interleave`, `schedule simple`, and `auto`,
which picks.

- `simple`: the iteration of `templates`, barriers only where data demands them. The compiler orders the rest.
- `ping_pong` (HipKittens, arXiv 2511.08083, section 3): the block's waves in two halves, two waves to a SIMD, the
  second half
  one cluster behind. Clusters of memory operations and of multiplies take turns, so that on every SIMD one wave
  multiplies, at raised priority, while the other moves data.
- `interleave` (the same paper's 4-wave kernels): one wave to a SIMD; its own LDS reads and global loads stand
  between groups of multiplies that the compiler may not reorder, so that the matrix unit always has work in front.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tkgen.diagnostics import Diagnostic, Fix, Label, SpecError
from tkgen.ir.types import SIMDS, PhaseShift, Program, Side, Via
from tkgen.schedule.templates import multiplies as products
from tkgen.schedule.templates import read_all, reads_past_lds
from tkgen.targets import Target
from tkgen.tile.ops import Barrier, Copy, Fence, Fetch, Move, Priority, Write
from tkgen.tile.program import Drain, Op

PING_PONG_TILE = 128 * 128 * 2  # output elements below which halves of the waves have too little to multiply


@dataclass(frozen=True)
class Preset:
    """A schedule made by tkgen: operations of one iteration, where phases put the waves, and why it was chosen.

    `ops` is None for `simple`. Barriers are already in `ops` where `paced`, else they are placed automatically.
    """

    name: str
    ops: tuple[Op, ...] | None
    paced: bool
    phases: tuple[PhaseShift, ...]
    reason: str


def preset(program: Program, target: Target) -> Preset:
    """The schedule that the spec asks for by name, or `simple` without a `schedule` statement.

    Raises:
        SpecError: there is no such schedule, or it cannot be made for this block.
    """
    block = program.schedule
    _even(program)
    if block is None or block.preset is None:
        return Preset("simple", None, False, (), "no schedule is asked for")
    name, span = block.preset, block.preset_span or block.span
    if name == "auto":
        return _automatic(program, target)
    if name not in PRESETS:
        known = ", ".join([*PRESETS, "auto"])
        raise SpecError(
            Diagnostic("E216", f"there is no schedule `{name}`", Label(span), fix=Fix(f"the schedules are {known}"))
        )
    obstacle = OBSTACLES[name](program)
    if obstacle:
        raise SpecError(
            Diagnostic(
                "E216", f"`schedule {name}` cannot be made here: {obstacle}", Label(span),
                fix=Fix("write `schedule auto`, which takes the best that can be made"),
            )
        )  # fmt: skip
    return PRESETS[name](program, "the spec asks for it")


def _even(program: Program) -> None:
    """E208 where operands are read ahead by different distances: the order of that is for a schedule to say."""
    *others, first = reversed(program.shared) if program.shared else program.operands[:1]
    other = next((o for o in reversed(others) if o.register_depth != first.register_depth), None)
    if other is not None:
        message = (
            f"`{first.name}` has {first.register_depth} register buffers, `{other.name}` {other.register_depth}: "
            "no schedule of tkgen's own reads one further ahead than the other"
        )
        fix = Fix("give both the same `buffers`, or write the schedule")
        raise SpecError(Diagnostic("E208", message, Label(other.registers_span or other.span), fix=fix))


def _automatic(program: Program, target: Target) -> Preset:
    """The fastest of the schedules that this block admits, as `tkgen predict` ranks them for its kind of block."""
    reasons = []
    for name in ("ping_pong", "interleave"):
        obstacle = OBSTACLES[name](program) or SLOWER[name](program, target)
        if not obstacle:
            return PRESETS[name](program, f"chosen automatically: {WHY[name]}")
        reasons.append(f"not {name}: {obstacle}")
    return PRESETS["simple"](program, "chosen automatically; " + "; ".join(reasons))


# ---------------------------------------------------------------- what each needs


def _no_obstacle(program: Program) -> str:
    return ""


def _staged_alone(program: Program) -> str:
    if len(program.roles) > 1:
        return "the waves have roles"
    ways, buffers = {o.via for o in program.shared}, {o.buffers for o in program.shared}
    if not ways:
        return "no operand passes through LDS: there is nothing that waves wait for each other for"
    if ways not in ({Via.REGISTERS}, {Via.DIRECT}):
        return "operands must come `via registers` or `via direct`, so that loads can be in flight across clusters"
    if ways == {Via.REGISTERS} and buffers != {1}:
        return "it needs one LDS buffer: the staging registers are the second"
    if ways == {Via.DIRECT} and buffers != {2}:
        return "it needs two LDS buffers: one is copied to while the other is read"
    if any(o.together != 1 for o in program.operands):
        return "the operands have different slices"
    if any(o.register_buffers != 1 for o in program.shared):
        return "it needs one register buffer a slice: clusters, not buffers, separate reads from multiplies"
    return ""


def _ping_pong_obstacle(program: Program) -> str:
    if program.waves != 2 * SIMDS:
        return f"it wants {2 * SIMDS} waves, two to a SIMD, not {program.waves}"
    if program.block[0] * program.block[1] < PING_PONG_TILE:
        return f"a {program.block[0]} x {program.block[1]} block is too small to fill its clusters"
    if not _parts(program)[1]:
        rows, cols = program.accumulator.fragments
        return f"a wave's {rows} x {cols} fragments do not split in halves"
    return _staged_alone(program)


def _interleave_obstacle(program: Program) -> str:
    if program.waves != SIMDS:
        return f"it wants {SIMDS} waves, one to a SIMD, not {program.waves}"
    return _staged_alone(program)


# ---------------------------------------------------------------- where each is slower than `simple`, by prediction


def _ping_pong_slower(program: Program, target: Target) -> str:
    if not program.direct and program.block[0] * program.block[1] < 2 * PING_PONG_TILE:
        # Loads through registers take clusters, and so barriers, of their own.
        return f"the multiplies of a {program.block[0]} x {program.block[1]} block do not pay for its eight barriers"
    return ""


def _interleave_slower(program: Program, target: Target) -> str:
    sums = program.sum_registers
    if sums < target.registers_per_lane // 2:  # with that many, a wave has a SIMD for itself
        return f"{sums} registers of sums leave room for a second wave on the SIMD, which hides more"
    if program.direct:
        return "direct loads need no instructions between the multiplies to put them into LDS"
    return ""


# ---------------------------------------------------------------- how each is made


def _simple(program: Program, reason: str) -> Preset:
    return Preset("simple", None, False, (), reason)


def _ping_pong(program: Program, reason: str) -> Preset:
    """Memory and multiply clusters in turn; the fetch in the first that reads nothing, the write in the last. Direct
    loads are issued where fetches would be, and waited for where writes would be.

    The multiplies of a slice are one cluster or two halves. The last slice's are always two: the write stands between
    them, a cluster behind the last reads of the waves that run late.
    """
    slices = program.slices
    whole, halves = _parts(program)
    multiplies = [(part, t) for t in range(slices) for part in (halves if slices < 4 or t == slices - 1 else [whole])]
    span = program.accumulator.span
    ops: list[Op] = []
    for number, ((rows, cols), t) in enumerate(multiplies):
        memory = [] if (rows, cols) == halves[1] else [*_reads(program, t)]
        if memory:
            memory.append(Drain("lds", span=span))
        if number == (1 if slices < 4 else 0):
            memory += _moves(program, Copy if program.direct else Fetch)
        if number == len(multiplies) - 1:
            memory.append(Drain("vm", span=span))
            if not program.direct:
                memory += [*_moves(program, Write), Drain("lds", span=span)]
        ops += _cluster(memory)
        up, down = (Priority(level, span=span) for level in (1, 0))
        ops += _cluster([up, *products(program, rows, cols, t), down])
    half = program.waves // 2
    late = PhaseShift(half, program.waves - 1, 1, span)
    return Preset("ping_pong", tuple(ops), True, (late,), reason)


_Part = tuple[tuple[int, ...], tuple[int, ...]]  # fragment rows and columns


def _parts(program: Program) -> tuple[_Part, tuple[_Part, ...]]:
    """All fragments of a wave, and two halves of them: by rows, else by columns; no halves where both are odd."""
    rows, cols = (tuple(range(n)) for n in program.accumulator.fragments)
    if len(rows) % 2 == 0:
        middle = len(rows) // 2
        return (rows, cols), ((rows[:middle], cols), (rows[middle:], cols))
    if len(cols) % 2 == 0:
        middle = len(cols) // 2
        return (rows, cols), ((rows, cols[:middle]), (rows, cols[middle:]))
    return (rows, cols), ()


def _cluster(ops: list[Op]) -> list[Op]:
    fence = Fence()
    return [*ops, fence, Barrier(automatic=True), fence]


def _interleave(program: Program, reason: str) -> Preset:
    """Reads of slice t + 1 and the fetches stand between the multiplies of slice t, a fragment row to a group."""
    rows, cols = (tuple(range(n)) for n in program.accumulator.fragments)
    fence = Fence()
    ops: list[Op] = []
    for t in range(program.slices):
        ops += [*_reads(program, t), fence]
        for i in rows:
            if t == 0:  # left factors before the first group, right ones before the last
                sides = {side for side, at in ((Side.A, 0), (Side.B, len(rows) - 1)) if at == i}
                early = _moves(program, Copy if program.direct else Fetch)
                ops += [op for op, o in zip(early, program.shared, strict=True) if o.side in sides]
            ops += [*products(program, (i,), cols, t), fence]
    if not program.direct:
        ops += _moves(program, Write)
    return Preset("interleave", tuple(ops), False, (), reason)


def _reads(program: Program, t: int) -> Iterator[Op]:
    yield from reads_past_lds(program, t)
    yield from (read_all(operand, 0, t) for operand in program.shared)


def _moves(program: Program, kind: type[Move]) -> list[Op]:
    return [kind.of(o.name, 1, span=o.span) for o in program.shared]


PRESETS: dict[str, Callable[[Program, str], Preset]] = {
    "simple": _simple,
    "ping_pong": _ping_pong,
    "interleave": _interleave,
}
OBSTACLES: dict[str, Callable[[Program], str]] = {
    "simple": _no_obstacle,
    "ping_pong": _ping_pong_obstacle,
    "interleave": _interleave_obstacle,
}
SLOWER: dict[str, Callable[[Program, Target], str]] = {"ping_pong": _ping_pong_slower, "interleave": _interleave_slower}
WHY = {
    "ping_pong": "8 waves of a large block, two to a SIMD, hide each other's memory operations",
    "interleave": "4 waves, one to a SIMD, hide memory operations between their own multiplies",
}
