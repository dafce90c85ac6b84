"""The whole schedule of a program: `plan` builds the iteration, places barriers and waits, clips and trims."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import lcm
from typing import TYPE_CHECKING, TypeVar

from tkgen.diagnostics import Diagnostic, Fix, Label, SpecError
from tkgen.ir import graph as dataflow
from tkgen.ir.types import Program, role_text
from tkgen.schedule import explicit
from tkgen.schedule.barriers import arcs, minimum_stabbing
from tkgen.schedule.clipping import Shape, clip, shape
from tkgen.schedule.epochs import Purposes, conflicts, distinct, passes_to_prove, purposes
from tkgen.schedule.orders import Orders, Unrolled, most_in_flight, orders
from tkgen.schedule.presets import preset
from tkgen.schedule.stored import Wrong, wrong_stores
from tkgen.schedule.traces import Conflict, Event, Passed, held, trace
from tkgen.schedule.verifier import verify
from tkgen.targets import Target
from tkgen.tile.ops import Barrier, Bodies, Copy, Fence, Multiply, Priority, Read, Write, barriers, numbered
from tkgen.tile.program import Block, Control, Drain, Op, Part, Place, Role, Tiles
from tkgen.tile.scheduled import Scheduled
from tkgen.tile.text import role_text as role_lines

if TYPE_CHECKING:
    import networkx as nx

PROLOGUE, STEADY, NEXT, EPILOGUE = SEGMENTS = "prologue", "steady", "next", "epilogue"
C = TypeVar("C", bound=Control)


@dataclass(frozen=True)
class Plan:
    """A scheduled program.

    `iteration` are the operations of one iteration with the role of each, `bodies` one iteration per role with barriers
    and waits, `waves` the programs that waves execute, one for each role and phase; `chosen` says which schedule this
    is and why.
    """

    program: Program
    target: Target = field(repr=False)
    iteration: tuple[tuple[str, Op], ...] = field(compare=False, repr=False)
    bodies: Bodies
    shape: Shape
    waves: tuple[Role, ...]
    automatic: bool
    chosen: str

    @cached_property
    def graph(self) -> nx.MultiDiGraph:
        """The dataflow graph of one iteration: an edge that crosses waves has the first barrier that covers it."""
        return dataflow.build(self.program, self.iteration, self._barriers_before if self.barriers_per_step else {})

    @property
    def _barriers_before(self) -> dict[int, int]:
        """By the number of an operation, the barriers of an iteration that its role passes before it."""
        found: dict[int, int] = {}
        for body in self.bodies.values():
            passed = 0
            for op in body:
                found[op.identity] = passed % max(self.barriers_per_step, 1)
                passed += isinstance(op, Barrier)
        return found

    @property
    def barriers_per_step(self) -> int:
        """Barriers every wave passes in one steady K-step."""
        return barriers(next(iter(self.bodies.values())))

    @property
    def tiles_to_prove(self) -> int:
        """Output tiles to unroll: two where a block goes on to another tile, so that their barrier is proven."""
        return 2 if self.program.grid.name in ("persistent", "stream_k") else 1

    @property
    def passes_to_repeat(self) -> int:
        """Iterations of the loop after which the pattern of conflicts repeats."""
        return passes_to_prove(self.program, self.waves, self.shape.depth, self.shape.unroll)

    @property
    def passes_to_prove(self) -> tuple[int, ...]:
        """The numbers of iterations of the loop that the proof tries.

        Static K: one number, that of the kernel or a smaller one after which the pattern repeats. It leaves the next
        tile of a persistent block the same buffers. Dynamic K: every number up to there, because the loop may also make
        few passes or none, where prologue and epilogue meet.
        """
        enough = self.passes_to_repeat
        buffers = lcm(*(o.buffers for o in self.program.shared))
        period = lcm(buffers, self.shape.unroll) // self.shape.unroll
        if self.shape.passes is None:
            return (enough + period - 1, *range(enough + period - 1))
        if self.shape.passes <= enough:
            return (self.shape.passes,)
        return (enough + (self.shape.passes - enough) % period,)

    def conflicts(self) -> list[Conflict]:
        """Everything that some interleaving gets wrong: empty iff the schedule is correct."""
        return list(self._conflicts)

    @cached_property
    def _conflicts(self) -> list[Conflict]:
        for passes in self.passes_to_prove:
            steps = self.shape.steps(passes)
            found = conflicts(self.program, self.waves, passes, self.shape.unroll, steps, self.tiles_to_prove)
            if found:
                return found
        return []

    def wrong_stores(self) -> list[Wrong]:
        """Fragments that are not stored as they are meant, as far as one interleaving shows (`tkgen.schedule.stored`).

        A second proof, which knows nothing of epochs: of a plan without conflicts there are none. Programs that differ
        in their phase alone store the same then, so the first of them stands for all; and of all numbers of passes the
        most and the fewest for those between.
        """
        waves = [self.waves[n] for n in distinct(self.waves)]
        for passes in sorted({self.passes_to_prove[0], self.passes_to_prove[-1]}):
            steps = self.shape.steps(passes)
            found = wrong_stores(self.program, waves, passes, self.shape.unroll, steps, self.tiles_to_prove)
            if found:
                return found
        return []

    def purposes(self) -> Purposes:
        """The purpose of each barrier and wait."""
        passes = self.passes_to_prove[0]
        steps = self.shape.steps(passes)
        return purposes(self.program, self.waves, passes, self.shape.unroll, steps, self.tiles_to_prove)

    def with_bodies(self, bodies: Bodies) -> Plan:
        """The same program with other iterations, one for each role, clipped anew and nothing trimmed."""
        form = shape(self.program, bodies)
        return _held(replace(self, bodies=bodies, shape=form, waves=_clipped(self.program, bodies, form)))

    def written(self, op: Op) -> Op:
        """The operation of the iteration that `op` is in another K-step; `op` where it is of none."""
        return next((each for ops in self.bodies.values() for each in ops if each.same(op)), op)

    @property
    def role_names(self) -> tuple[str, ...]:
        """The roles, in the order of their waves' programs."""
        return tuple(dict.fromkeys(w.name for w in self.waves))

    def waves_of(self, role: str) -> tuple[Role, ...]:
        """The programs of a role: one for each phase, the same but for that."""
        return tuple(w for w in self.waves if w.name == role)

    def with_ops(self, role: str, part: Part, ops: tuple[Op, ...]) -> Plan:
        """The same plan with other operations in a part of `role`, on its waves of every phase."""
        return replace(self, waves=tuple(w.with_ops(part, ops) if w.name == role else w for w in self.waves))

    @cached_property
    def tiles(self) -> Scheduled:
        """The tile program of a block."""
        return Scheduled("", Block(self.waves, (), (), ()), {})

    def events(self, wave: Role) -> list[tuple[Event, str]]:
        """Every event of a wave over up to two iterations of the loop, each with its segment: `SEGMENTS`."""
        count = 2 if self.shape.passes is None else min(self.shape.passes, 2)
        last_phase = max(w.phase for w in self.waves)
        events = trace(self.program, wave, count, self.shape.unroll, self.shape.steps(count), 1, last_phase)
        first, each = wave.phase + len(wave.before), len(wave.tiles.body)
        ends = (first, first + each, first + count * each)
        return [(e, SEGMENTS[bisect_right(ends, at)]) for at, e in enumerate(events)]

    def to_text(self) -> str:
        """The stable text form: per role and phase its prologue, loop and epilogue."""
        s = self.shape
        trips = "dynamic" if s.passes is None else str(s.passes)
        lines = [f"schedule {self.program.name}  depth {s.depth}  unroll {s.unroll}  iterations {trips}  "
                 f"barriers per step {self.barriers_per_step}"]  # fmt: skip
        for wave in self.waves:
            phase = f"  phase {wave.phase}" if wave.phase else ""
            parts = (list(map(str, nodes)) for nodes in wave.parts)
            lines += role_lines(f"{role_text(wave.name, wave.waves)}{phase}", *parts)
        return "\n".join(lines) + "\n"


def plan(program: Program, target: Target) -> Plan:
    """The schedule of `program` for `target`: taken from its `schedule` block, or derived.

    Raises:
        SpecError: the schedule block cannot be understood (names, fragments, slices out of range).
    """
    written = explicit.bodies(program)
    if written is not None:
        bodies, auto_barriers, auto_waits = written
        _ends(program)
        sequence, chosen = explicit.merged(program, bodies), "written in the spec"
    else:
        schedule, reason = preset(program, target)
        chosen, made = f"{schedule.name}: {reason}", schedule.order(program)
        program = replace(program, phases=(*program.phases, *made.phases))
        auto_barriers, auto_waits = not made.paced, not made.paced
        roles, ops = zip(*made.ops, strict=True)
        pairs = list(zip(roles, numbered(ops), strict=True))
        bodies = {role: tuple(op for of, op in pairs if of == role) for role in roles}
        sequence = [(role, op) for role, op in pairs if not isinstance(op, Control)]
    if auto_barriers:
        bodies = _with_barriers(program, sequence)
    if auto_waits:
        bodies = {role: tuple(_with_waits(program, each)) for role, each in bodies.items()}
    form = shape(program, bodies)
    waves = _clipped(program, bodies, form)
    unplaced = Plan(program, target, tuple(sequence), bodies, form, waves, written is None, chosen)
    result = _tidy(_least(_held(unplaced)))
    verify(program, target, result.waves, written is None)
    return result


def _ends(program: Program) -> None:
    """E216 where a prologue and a drain as written do not go together with the loop.

    The loop begins with K-step 0 and makes whole passes; the drain multiplies the steps that are left, and no operation
    of the loop or the prologue touches a step that the least number of steps does not have.
    """
    schedules = [r.schedule for r in program.roles if r.schedule]
    first = next((c for s in schedules for c in (*s.prologue, *s.drain)), None)
    if first is None:
        return
    before = [op for s in schedules for c in s.prologue for op in c.ops]
    behind = [op for s in schedules for c in s.drain for op in c.ops]
    drained = program.schedule.drained if program.schedule else ()
    form = shape(program, {})
    depth = max((op.offset for s in schedules for c in s.clusters for op in c.ops), default=0)
    least, steps = len(drained), program.steps
    wrong = (
        (not all(s.prologue and s.drain for s in schedules),
         "a schedule has a prologue and a drain, or neither", "write both, in the schedule of every role"),
        (any(s.barriers or s.waits for s in schedules),
         "barriers and waits are not placed automatically around a written prologue and drain", "write all of them"),
        (any(isinstance(op, Multiply) for op in before),
         "a prologue cannot multiply: the loop starts with K-step 0", "leave `multiply` to the loop and the drain"),
        (drained != tuple(range(-least, 0)),
         "a drain must multiply all of the last K-steps", "multiply `[end-1]`, `[end-2]`, ... in it"),
        (least < depth or least % form.unroll != 0,
         f"the drain multiplies {least} K-steps, but the loop loads {depth} ahead and takes {form.unroll} per "
         "iteration",
         "drain at least as many as the loop loads ahead, and a multiple of an iteration"),
        (least > 1 and program.grid.name == "stream_k",
         f"the drain multiplies {least} K-steps, but a block of a stream-K grid may have one", "drain one"),
        (steps is not None and (steps < least or (steps - least) % form.unroll != 0),
         f"{steps} K-steps are not {least} of the drain plus iterations of {form.unroll}", "use another size"),
        (any(op.operand and op.offset >= least for op in before),
         f"the prologue touches a K-step that {least} steps do not have", "drain as many K-steps as it loads"),
        (any((op.operand or isinstance(op, Multiply)) and not -least <= op.offset < 0 for op in behind),
         "the drain touches a K-step that it does not multiply", "write `[end-1]`, `[end-2]`, ..."),
    )  # fmt: skip
    for found, problem, fix in wrong:
        if found:
            raise SpecError(Diagnostic("E216", problem, Label(first.span), fix=Fix(fix)))


def _clipped(program: Program, bodies: Bodies, form: Shape) -> tuple[Role, ...]:
    made = [(role, clip(program, role, each, form)) for role, each in bodies.items()]
    return tuple(
        Role(role, (), before, Tiles((), each), behind, waves=group, phase=phase)
        for role, (before, each, behind) in made
        for phase, group in _phases(program, role)
    )


def _phases(program: Program, role: str) -> list[tuple[int, tuple[int, ...]]]:
    """The waves of `role` by phase, smallest phase first."""
    waves = next(r for r in program.roles if r.name == role).waves
    by_phase: dict[int, list[int]] = {}
    for wave in waves:
        shift = sum(p.barriers for p in program.phases if p.first <= wave <= p.last)
        by_phase.setdefault(shift, []).append(wave)
    return [(phase, tuple(group)) for phase, group in sorted(by_phase.items())]


def _with_barriers(program: Program, sequence: list[tuple[str, Op]]) -> Bodies:
    """A body per role with a minimum set of barriers; gap 0 goes to the end of the iteration."""
    copies = {position for position, (_, op) in enumerate(sequence) if isinstance(op, Copy)}
    ordered = [
        # A copy goes past the wave's own LDS operations, too: what it must follow is waited for at a barrier.
        replace(d, crosses_waves=d.crosses_waves or not copies.isdisjoint((d.source, d.target)))
        for d in dataflow.iteration_dependencies(program, sequence)
    ]
    gaps = minimum_stabbing(arcs(ordered, len(sequence)), len(sequence))
    barrier = Barrier(automatic=True)
    bodies = {}
    for role in program.roles:
        ops: list[Op] = []
        for position, (owner, op) in enumerate(sequence):
            if position in gaps and position:
                ops.append(barrier)
            if owner == role.name:
                ops.append(op)
        if 0 in gaps:
            ops.append(barrier)
        bodies[role.name] = tuple(ops)
    return bodies


def _with_waits(program: Program, ops: tuple[Op, ...]) -> Iterator[Op]:
    """A full wait before every barrier, for each counter the role uses; `_least` removes what orders nothing, and lets
    what it can stay in flight."""
    counters = []
    if any(isinstance(op, Copy) for op in ops):
        counters.append("vm")
    if any(isinstance(op, Read | Write) for op in ops):
        counters.append("lds")
    for op in ops:
        if isinstance(op, Barrier):
            yield from (Drain(c, automatic=True) for c in counters)
        yield op


def _held(plan: Plan) -> Plan:
    """`plan`; if that is not right as it stands, with waits for the reads that its multiplies consume before barriers.

    The compiler waits for them, too, but it may put the multiply, and that wait, below the barrier
    (`tkgen.schedule.traces`).
    """
    if not plan.conflicts():
        return plan
    edits: dict[tuple[str, Part], dict[int, Drain]] = {}
    most = plan.target.synchronisation.counters["lds"] - 1
    for role in plan.role_names:
        wave = plan.waves_of(role)[0]
        for passes in plan.passes_to_prove:
            shape, steps = plan.shape, plan.shape.steps(passes)
            for (part, at), count in held(plan.program, wave, passes, shape.unroll, steps, plan.tiles_to_prove).items():
                here = edits.setdefault((role, part), {})
                left = min(count, most, here[at].count if at in here else count)
                here[at] = Drain("lds", str(left), automatic=True)
    for (role, part), waits in edits.items():
        ops = plan.waves_of(role)[0].ops(part)
        made = [each for at, op in enumerate(ops)
                for each in (*([replace(waits[at], span=op.span)] if at in waits else []), op)]  # fmt: skip
        plan = plan.with_ops(role, part, tuple(made))
    return plan


def _least(plan: Plan) -> Plan:
    """With the fewest and weakest of the barriers and waits that tkgen placed; `plan` where that is not right itself.

    Nothing but barriers and waits is changed, so what they must order is found once.
    """
    if plan.conflicts():
        return plan  # the checks will say what is wrong; nothing to minimise
    for few in (3, None):
        search = _Search(few)
        found = _trimmed(_counted(plan, search), search)
        if not found.conflicts():
            return found
    return plan


@dataclass
class _Search:
    """Verdicts on plans that differ from a right one in barriers and waits alone.

    `known`: what must be ordered, by the passes that the loop makes. Where K is dynamic only the first `few` numbers of
    passes are tried.
    """

    few: int | None
    known: dict[int, Orders] = field(default_factory=dict)

    def each(self, plan: Plan) -> Iterator[tuple[Unrolled, Orders]]:
        """`plan` unrolled, and what it must order."""
        shape = plan.shape
        for passes in plan.passes_to_prove[: self.few]:
            unrolled = Unrolled(plan.program, passes, shape.unroll, shape.steps(passes), plan.tiles_to_prove)
            if passes not in self.known:
                self.known[passes] = orders(unrolled, plan.waves)
            yield unrolled, self.known[passes]

    def right(self, plan: Plan) -> bool:
        """Return True if `plan` keeps all required orders."""
        return all(must.kept(unrolled, plan.waves) for unrolled, must in self.each(plan))


def _trimmed(plan: Plan, search: _Search) -> Plan:
    """Without the barriers of prologue and epilogue, and the waits, that order nothing.

    Where all waves run the same code every barrier keeps its LDS wait: the pair is one `lds_barrier()`.
    """
    uniform = plan.automatic and len(plan.waves) == 1
    for part in Part:
        if part is not Part.BODY:  # whose barriers are already a minimum
            most = max(len(_automatic(w.ops(part), Barrier)) for w in plan.waves)
            plan = _without_barriers(plan, part, range(most - 1, -1, -1), search)
        for role in plan.role_names:
            ops = plan.waves_of(role)[0].ops(part)
            rest = [at for at, wait in _automatic(ops, Drain).items() if not (uniform and wait.stream == "lds")]
            plan = _trimmed_of(plan, role, part, rest, search)
    return plan


def _trimmed_of(plan: Plan, role: str, part: Part, waits: Sequence[int], search: _Search) -> Plan:
    """Without those of the waits at these places that can go one after the other, the last one first.

    Without a wait nothing is complete earlier, so of waits that can go together each can go: halves are tried whole.
    """
    ops = plan.waves_of(role)[0].ops(part)
    gone: set[int] = set()
    pending = [list(waits)] if waits else []
    while pending:
        group = pending.pop()
        left = tuple(p for at, p in enumerate(ops) if at not in gone and at not in group)
        candidate = plan.with_ops(role, part, left)
        if search.right(candidate):
            gone |= {*group}
            plan = candidate
        elif len(group) > 1:
            half = len(group) // 2
            pending += [group[:half], group[half:]]
    return plan


def _without_barriers(plan: Plan, part: Part, ordinals: Sequence[int], search: _Search) -> Plan:
    """`plan` without those automatic barriers of `part` that can go one after the other, the last first.

    Halves are tried whole: without a barrier less is ordered, so of barriers that can go together each can go. (Where
    phases shift what meets, more may go together than one by one.)
    """
    candidate = _without(plan, part, frozenset(ordinals))
    if search.right(candidate):
        return candidate
    if len(ordinals) < 2:
        return plan
    half = len(ordinals) // 2
    fewer = _without_barriers(plan, part, ordinals[:half], search)
    return _without_barriers(fewer, part, ordinals[half:], search)


def _automatic(ops: Sequence[Op], kind: type[C]) -> dict[int, C]:
    """The operations of a kind that tkgen placed, by their positions."""
    return {at: p for at, p in enumerate(ops) if isinstance(p, kind) and p.automatic}


def _counted(plan: Plan, search: _Search) -> Plan:
    """Without the automatic waits for direct loads that order nothing, and every other one for the most that may still
    be in flight.

    In program order: of two waits that would do, the later one stays. (Before trimming: a wait of the epilogue that the
    loop's full wait makes needless is what the loop's counted one relies on.)
    """
    for role, part in ((r, p) for r in plan.role_names for p in Part):
        gone = 0
        for place, wait in _automatic(plan.waves_of(role)[0].ops(part), Drain).items():
            ops, at = plan.waves_of(role)[0].ops(part), place - gone
            if wait.stream != "vm":
                continue
            without = plan.with_ops(role, part, ops[:at] + ops[at + 1 :])
            if search.right(without):
                plan, gone = without, gone + 1
            else:
                left = replace(wait, left=str(_in_flight(plan, role, Place(part, at), search)))
                plan = plan.with_ops(role, part, (*ops[:at], left, *ops[at + 1 :]))
    return plan


def _in_flight(plan: Plan, role: str, place: Place, search: _Search) -> int:
    """The most operations that the wait of `role` at `place` may leave in flight."""
    most = plan.target.synchronisation.counters["vm"] - 1
    for unrolled, must in search.each(plan):
        passed = {n: Passed(place) for n, w in enumerate(plan.waves) if w.name == role}
        found = most_in_flight(must.late(unrolled.executed(plan.waves, passed, must.issued)), passed)
        most = most if found is None else min(most, found)
    return most


def _without(plan: Plan, part: Part, ordinals: frozenset[int]) -> Plan:
    """`plan` without those automatic barriers of `part`, by number, and their own waits, in every wave's program."""
    waves = []
    for wave in plan.waves:
        ops = wave.ops(part)
        waits, gone = _automatic(ops, Drain), set[int]()
        for ordinal, at in enumerate(_automatic(ops, Barrier)):
            while ordinal in ordinals and at not in gone:
                gone.add(at)
                at -= at - 1 in waits
        waves.append(wave.with_ops(part, (p for at, p in enumerate(ops) if at not in gone)))
    return replace(plan, waves=tuple(waves))


def _tidy(plan: Plan) -> Plan:
    """Without what clipping left empty: a raised priority with nothing under it, fences in a row."""
    waves = plan.waves
    for part in Part:
        waves = tuple(wave.with_ops(part, _without_empty(wave.ops(part))) for wave in waves)
    return replace(plan, waves=waves)


def _without_empty(placed: Sequence[Op]) -> list[Op]:
    result: list[Op] = []
    for p in placed:
        last = result[-1] if result else None
        if isinstance(p, Fence) and isinstance(last, Fence | None):
            continue
        if isinstance(p, Priority) and isinstance(last, Priority):
            result.pop()
            continue
        result.append(p)
    return result
