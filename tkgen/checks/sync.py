"""Synchronisation (E3xx, W3xx): nothing is read before it is there or overwritten before all have read it; all meet.

Rule. Two accesses to one LDS buffer on different waves, at least one of them a write, are ordered by a barrier between
the completion of the first and the start of the second. All waves pass the same number of barriers. A collective runs
on exactly the waves of one aligned group. A wave multiplies the values that it has read, and writes to LDS those that
it has fetched.

Proof idea. The programs of all roles and phases are unrolled until their pattern repeats, every operation gets the
epochs in which it begins and is complete (`tkgen.schedule.traces`), and every pair that the sequential meaning orders
is compared: exact, because control flow is uniform and epochs are affine in the iteration.

Source. "Barrier calculus" of the project's design; hardware waits from the AMD CDNA3 ISA guide, "S_WAITCNT".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tkgen.checks.redundant import redundant
from tkgen.checks.repair import RACES, Missing, missing_barriers, missing_wait, never_in_time
from tkgen.checks.words import names_text, part_text, place, waves_text
from tkgen.diagnostics import Diagnostic, Fix, InterleavedStep, Label
from tkgen.diagnostics.edits import with_option, without_statement
from tkgen.diagnostics.text import count_text
from tkgen.ir.types import WAVE_LANES, Program, Role
from tkgen.ir.verifier import Broken
from tkgen.schedule.epochs import rings
from tkgen.schedule.plan import Plan
from tkgen.schedule.traces import NEVER, Conflict, Event
from tkgen.source import Span
from tkgen.targets import Target
from tkgen.tile.ops import SHARED_READS, TILE_WRITES, Copy, Fetch, Gather, Read, Reduce, Write, barriers
from tkgen.tile.program import Drain, Op

CODES = {"RAW": "E301", "WAR": "E302", "WAW": "E303"}


def check(plan: Plan, target: Target) -> list[Diagnostic]:
    """Everything that some interleaving of the waves gets wrong, then barriers and waits that order nothing.

    What is found right is held against the meaning once more, as terms: raises Broken where the two disagree.
    """
    program = plan.program
    groups = list(_collectives(program))
    twice = [] if groups else list(_loaded_twice(program))
    phases = list(_phases(plan))
    found = [*groups, *twice, *phases, *_counts(plan, target)]
    conflicts = plan.conflicts()
    deadlocks = [c for c in conflicts if c.kind == "barriers"]
    if deadlocks and not phases:
        return [*found, _deadlock(plan, deadlocks[0])]  # epochs of waves that do not meet say nothing more
    if not conflicts and not found:
        if wrong := plan.wrong_stores():
            raise Broken(program.name, "check", "stored", str(wrong[0]))
        return redundant(plan)
    absent = _absent(plan, conflicts)
    rest = [c for c in conflicts if c.operand not in {a.operand for a in absent}]
    if not found:
        found += _races(plan, [c for c in rest if c.kind in RACES])
    return found + [_not_loaded(plan, c) for c in absent] + [_data(plan, group) for group in _mistakes(plan, rest)]


# ---------------------------------------------------------------- who takes part


def _collectives(program: Program) -> Iterator[Diagnostic]:
    for role in program.roles:
        if not role.loads:
            continue
        n, waves = role.group, len(role.waves)
        span = role.loads_span or role.span
        named = names_text(role.loads)
        if n > waves:
            label = f"{n} waves together"
            note = (
                f"`group<{n}>::load` loads one part of the tile for each of {n} x {WAVE_LANES} threads; "
                f"{waves_text(role.waves)} are {waves}, so {n - waves} of {n} parts of {named} would never be loaded"
            )
            remedy = f"load by {count_text(waves, 'wave')}, or give the role {n} waves"
            together = waves
        elif waves % n:
            label = f"{n} waves together"
            note = f"{waves} waves make {waves // n} whole groups of {n}, and {waves % n} waves are left over"
            remedy = f"load by all {waves} waves together, or use another group size that divides {waves}"
            together = waves
        elif role.first % n:
            label = f"the group starts at wave {role.first}"
            note = f"groups of {n} start at waves 0, {n}, {2 * n}, ...: {waves_text(role.waves)} lie in two of them"
            remedy = f"let the role start at a multiple of {n}"
            together = 0
        else:
            continue
        yield Diagnostic(
            "E306",
            f"the loads of role `{role.name}` run on {_one_group(role)}",
            Label(span, label),
            () if span == role.span else (Label(role.span, f"{waves_text(role.waves)}"),),
            (note,),
            Fix(remedy, with_option(span, "by", str(together)) if together else (), certain=False),
        )


def _one_group(role: Role) -> str:
    n, waves = role.group, len(role.waves)
    if n > waves:
        return f"{count_text(waves, 'wave')}, but are collectives of {n}"
    return f"{count_text(waves, 'wave')}, which do not form aligned groups of {n}"


def _loaded_twice(program: Program) -> Iterator[Diagnostic]:
    """One tile, several writers: two roles, or the groups of one role."""
    for operand in program.operands:
        roles = [r for r in program.roles if operand.name in r.loads]
        if len(roles) > 1:
            yield Diagnostic(
                "E303",
                f"`{operand.name}` is loaded by two roles, `{roles[0].name}` and `{roles[1].name}`",
                Label(roles[1].loads_span or roles[1].span, "loaded again here"),
                (Label(roles[0].loads_span or roles[0].span, "first loaded here"),),
                (
                    f"{waves_text(roles[0].waves)} and {waves_text(roles[1].waves)} write the same bytes of "
                    "LDS without an order between the writes, and global memory is read twice",
                ),
                Fix(f"let one role load `{operand.name}` and the other the rest"),
            )
    for role in program.roles:
        groups = len(role.waves) // role.group
        if role.loads and groups > 1:
            yield Diagnostic(
                "E308",
                f"each of {groups} groups of role `{role.name}` loads all of {names_text(role.loads)}",
                Label(role.loads_span or role.span, f"{count_text(role.group, 'wave')} of {len(role.waves)}"),
                (),
                (
                    f"waves {role.first} and {role.first + role.group} write the same bytes of LDS with no order "
                    f"between them, and global memory is read {groups} times",
                ),
                Fix(f"load by all {len(role.waves)} waves of the role, or shrink the role to {role.group}"),
            )


def _counts(plan: Plan, target: Target) -> Iterator[Diagnostic]:
    """Written waits for more operations than the hardware counts, which would wait for nothing."""
    for op in (op for body in plan.bodies.values() for op in body if isinstance(op, Drain) and not op.automatic):
        most = target.synchronisation.counters[op.stream]
        if op.count > most and op.span is not None:
            yield Diagnostic(
                "E216",
                f"`{op.span.text}` waits for nothing: the largest count is {most}",
                Label(op.span),
                (),
                (f"{target.name} has no more than {most} operations of this kind in flight in a wave",),
                Fix(f"write {most} or less, or remove the wait"),
            )


def _phases(plan: Plan) -> Iterator[Diagnostic]:
    program = plan.program
    shifts = {w.phase for w in plan.waves}
    for phase in program.phases:
        if plan.automatic and program.schedule is None:
            yield Diagnostic(
                "E309",
                "a phase shift needs a written schedule",
                Label(phase.span, "shifts by clusters"),
                (),
                ("a derived schedule has no clusters, and its barriers are for waves without a phase shift",),
                Fix("remove the phase, or write a `schedule` block", without_statement(phase.span), certain=False),
            )
        elif phase.last >= program.waves:
            yield Diagnostic(
                "E309",
                f"the phase shifts wave {phase.last}, but the block has {program.waves} waves",
                Label(phase.span, f"waves are 0..{program.waves - 1}"),
                fix=Fix(f"shift waves among 0..{program.waves - 1}"),
            )
        elif shifts != {0} and 0 not in shifts:
            yield Diagnostic(
                "E309",
                "every wave is shifted, so no wave is ahead of another",
                Label(phase.span, "all waves, together with the other phases"),
                (),
                (f"the smallest shift is {count_text(min(shifts), 'cluster')}; a shift counts from waves without one",),
                Fix("shift a part of the waves"),
            )
            return
        elif plan.barriers_per_step == 0:
            yield Diagnostic(
                "E309",
                "a phase shift by clusters, but no line of the schedule ends with a barrier",
                Label(phase.span, "a shift by clusters needs one"),
                (),
                ("a cluster ends with a barrier, a group does not",),
                Fix("make lines of the schedule clusters"),
            )


def _deadlock(plan: Plan, conflict: Conflict) -> Diagnostic:
    """Waves that pass different numbers of barriers: the one with fewer ends while the others wait."""
    owners = [next(w for w in plan.waves if wave in w.waves) for wave in conflict.waves]
    per_step = [barriers(plan.bodies[w.name]) for w in owners]
    totals = conflict.where
    first, second = owners[0].name, owners[1].name
    spans = [_schedule_span(plan.program, w.name) for w in owners]
    if per_step[0] != per_step[1]:
        message = f"roles `{first}` and `{second}` pass {per_step[0]} and {per_step[1]} barriers in a K-step"
        few = 0 if per_step[0] < per_step[1] else 1
        note = (
            f"`s_barrier` counts waves: after {count_text(min(totals), 'barrier')} {waves_text(owners[few].waves)} are "
            f"past the barrier while {waves_text(owners[1 - few].waves)} wait at their next one forever"
        )
    else:
        message = f"waves {conflict.waves[0]} and {conflict.waves[1]} pass {totals[0]} and {totals[1]} barriers"
        note = "`s_barrier` counts waves: those with more barriers wait forever"
    return Diagnostic(
        "E307",
        message + ": deadlock",
        Label(spans[1], f"{count_text(per_step[1], 'barrier')} in each K-step"),
        (Label(spans[0], f"{count_text(per_step[0], 'barrier')} in each K-step"),) if spans[0] != spans[1] else (),
        (note,),
        Fix("give every role the same number of barriers in its schedule"),
    )


def _schedule_span(program: Program, role: str) -> Span:
    found = next(r for r in program.roles if r.name == role)
    return found.schedule.span if found.schedule else found.span


# ---------------------------------------------------------------- races


def _races(plan: Plan, races: Sequence[Conflict]) -> list[Diagnostic]:
    """A finding for each barrier or wait that is missing, with all that it would order."""
    early = [c for c in races if c.how == "wait"]
    unordered = [c for c in races if c.how != "wait"]
    found = [_race(plan, missing) for missing in missing_barriers(plan, unordered)] if unordered else []
    by_place: dict[tuple[object, ...], list[Conflict]] = {}
    for c in early:
        assert c.first and c.second
        by_place.setdefault((c.kind, c.first.op.word, place(plan.program, c.first.op).line), []).append(c)
    return found + [_early(plan, group) for group in by_place.values()]


def _race(plan: Plan, missing: Missing) -> Diagnostic:
    order = ("RAW", "WAR", "WAW")
    group = sorted(missing.conflicts, key=lambda c: order.index(c.kind))
    kind = group[0].kind
    same = [c for c in group if c.kind == kind]
    names = names_text(sorted(c.operand for c in same))
    plural = "are" if " and " in names else "is"
    message = {
        "RAW": f"{names} {plural} read before the waves that load the tile have finished",
        "WAR": f"{names} {plural} overwritten while other waves still read the tile",
        "WAW": f"{names} {plural} written twice without an order between the writes",
    }[kind]
    others = sorted({c.kind for c in group} - {kind})
    notes = [_interleaving(plan, group[0])]
    if others:
        notes.append("the same barrier is missing for the next writes to the buffer")
    remedy = "put a barrier between the two accesses: a `cluster` ends with one, a `group` does not"
    if plan.automatic:
        remedy = "remove the phase shift, or write the schedule"
    elif kind == "WAR" and never_in_time(plan, group[0]):
        remedy = "load fewer steps ahead, read earlier in the iteration, or add a buffer"
    if missing.edit:
        remedy = "end the line with a barrier" if missing.edit.text == "cluster" else "add a barrier"
    fix = Fix(remedy, (missing.edit,) if missing.edit else ())
    return Diagnostic(CODES[kind], message, *_labels(plan.program, group[0]), tuple(notes), fix, _steps(plan, group[0]))


def _early(plan: Plan, group: Sequence[Conflict]) -> Diagnostic:
    """A barrier follows, but the operation need not be complete when its wave gets there."""
    c = group[0]
    assert c.first and c.second
    names = names_text(sorted(g.operand for g in group))
    what = dict[type[Op], str]({Read: "reads", Copy: "direct loads", Write: "LDS writes"}).get(
        type(c.first.op), "loads"
    )
    counter = "vm" if isinstance(c.first.op, Copy) else "lds"
    waited = "nothing waits for them" if c.first.done is NEVER else "they are waited for only after it"
    edit = missing_wait(plan, c)
    return Diagnostic(
        "E304",
        f"a barrier follows the {what} of {names}, but {waited}",
        *_labels(plan.program, c),
        (_interleaving(plan, c), f"a barrier does not wait for memory: a wave may pass it with {what} outstanding"),
        Fix(f"wait for them before the barrier: `wait {counter} 0`", (edit,) if edit else ()),
        _steps(plan, c),
    )


def _labels(program: Program, c: Conflict) -> tuple[Label, tuple[Label, ...]]:
    assert c.first and c.second
    first, second = place(program, c.first.op), place(program, c.second.op)
    texts = _verb(c.first.op), _verb(c.second.op)
    if first == second:
        return Label(second, f"{texts[0]}, then {texts[1]}"), ()
    last = "the last K-steps" if c.first.tile != c.second.tile else _step(c.first)
    return Label(second, f"{texts[1]} {_step(c.second)}"), (Label(first, f"{texts[0]} {last}"),)


def _verb(op: Op) -> str:
    return {
        Read: "reads", Fetch: "fetches", Copy: "copies", Write: "writes", Reduce: "writes", Gather: "reads",
    }.get(type(op), "loads")  # fmt: skip


def _step(event: Event) -> str:
    return f"K-step {event.step}" + (f" of tile {event.tile}" if event.tile else "")


def _concurrent(plan: Plan, c: Conflict) -> tuple[Event, Event]:
    """The two operations of a conflict, their K-steps counted from the end of the tile, not of its proof."""
    x, y = c.first, c.second
    assert x and y
    if x.tile != y.tile and plan.program.steps is not None:
        x = replace(x, step=x.step + plan.program.steps - plan.shape.steps(plan.passes_to_prove[0]))
    return x, y


_DOES = {Copy: "copies"} | dict.fromkeys(SHARED_READS, "reads")  # everything else writes


def _steps(plan: Plan, c: Conflict) -> tuple[InterleavedStep, ...]:
    """The interleaving of a conflict as data: the operation that is not complete, and the one that does not wait."""
    part = part_text(plan.program, c.operand, c.part)

    def step(wave: int, event: Event) -> InterleavedStep:
        action = f"{_DOES.get(type(event.op), 'writes')} {part}`{c.operand}` of {_step(event)}"
        return InterleavedStep(f"wave {wave}", action, event.begin, place(plan.program, event.op))

    return tuple(map(step, c.waves, _concurrent(plan, c)))


def _interleaving(plan: Plan, c: Conflict) -> str:
    """Describe two concurrent operations of waves, with wave numbers, K-steps and the barriers before them."""
    (x, y), (u, v) = _concurrent(plan, c), c.waves
    buffers, part = rings(plan.program)[c.operand], part_text(plan.program, c.operand, c.part)
    same = (x.step, x.tile) != (y.step, y.tile)
    into = ""
    if same and c.kind != "RAW":
        into = " into the same buffer" if buffers == 1 else f" into the same one of {buffers} buffers"
    first, second = (_DOES.get(type(e.op), "writes") for e in (x, y))
    if u == v:
        return f"wave {u} {second} {part}`{c.operand}` of {_step(y)} before its own access to {_step(x)} is complete"
    passed = (
        f"both have passed {count_text(y.begin, 'barrier')}"
        if x.begin == y.begin
        else f"wave {u} has passed {count_text(x.begin, 'barrier')} when it starts, wave {v} {y.begin}"
    )
    still = f"wave {u} still {first} {part}`{c.operand}` of {_step(x)}"
    return f"{still} while wave {v} {second} {_step(y)}{into}: {passed}"


# ---------------------------------------------------------------- what the data is


def _mistakes(plan: Plan, conflicts: Sequence[Conflict]) -> list[list[Conflict]]:
    """Conflicts about registers and staging, one for each operand, those of one line of the spec together."""
    first: dict[tuple[str, str], Conflict] = {}
    for c in conflicts:
        if c.kind in ("register", "staging") and c.second:
            first.setdefault((c.kind, c.operand), c)
    lines: dict[tuple[str, str, int], list[Conflict]] = {}
    for c in first.values():
        lines.setdefault((c.kind, c.how, place(plan.program, c.second.op if c.second else None).line), []).append(c)
    return list(lines.values())


def _absent(plan: Plan, conflicts: Sequence[Conflict]) -> list[Conflict]:
    """For each operand the first read of a step that is not loaded at all, or only later on every wave."""
    absent = [c for c in conflicts if c.kind == "unwritten" or (c.kind == "RAW" and never_in_time(plan, c))]
    return list({c.operand: c for c in reversed(absent)}.values())


def _not_loaded(plan: Plan, c: Conflict) -> Diagnostic:
    assert c.second
    step, part = _step(c.second), part_text(plan.program, c.operand, c.part)
    later = f"only a later load brings {part}{step}" if c.first else f"no load brings {part}{step}"
    return Diagnostic(
        "E305",
        f"`{c.operand}` is read for a K-step that no wave has loaded",
        Label(place(plan.program, c.second.op), f"reads {step}"),
        tuple(_loads(plan, c.operand)),
        (f"wave {c.waves[1]} reads `{c.operand}` of {step} here, and {later}",),
        Fix("read the step that is loaded, or load the step that is read, in this iteration or an earlier one"),
    )


def _data(plan: Plan, group: Sequence[Conflict]) -> Diagnostic:
    """E310, E311: registers or staging registers that hold something else."""
    return _registers(plan, group) if group[0].kind == "register" else _staging(plan, group)


def _registers(plan: Plan, group: Sequence[Conflict]) -> Diagnostic:
    program, c = plan.program, group[0]
    assert c.second
    fragment, slice_ = c.where
    operand = program.operand(c.operand)
    slices, buffers = operand.slices, operand.register_buffers
    names, step = names_text([o.operand for o in group]), _step(c.second)
    held, secondary = "nothing yet", list[Label]()
    if c.first is not None:
        slot = operand.register_buffer(c.second.step, slice_)
        last = max(
            t for access in c.first.op.writes for t in access.slices if operand.register_buffer(c.first.step, t) == slot
        )
        held = f"slice {last} of {_step(c.first)}"
        secondary = [Label(place(program, c.first.op), "the last read into these registers")]
    others = f" ({names_text([o.operand for o in group[1:]])} likewise)" if len(group) > 1 else ""
    return Diagnostic(
        "E310",
        f"a multiply of {step} finds a different tile of {names} in its registers",
        Label(place(program, c.second.op), f"needs `{c.operand}` fragment {fragment}, slice {slice_} of {step}"),
        tuple(secondary),
        (
            f"wave {c.waves[0]} holds {held} of `{c.operand}` there{others}; it has "
            f"{count_text(buffers, 'register buffer')}, and slice t of step s lives in buffer "
            f"(s * {slices} + t) mod {buffers}",
        ),
        Fix("read every slice before it is multiplied, and at most as far ahead as there are buffers"),
    )


def _staging(plan: Plan, group: Sequence[Conflict]) -> Diagnostic:
    c, names = group[0], names_text([c.operand for c in group])
    assert c.second
    secondary = () if c.first is None else (Label(place(plan.program, c.first.op), f"fetches {_step(c.first)}"),)
    label = f"writes {_step(c.second)}"
    if c.how == "overwritten":
        message = f"the staging registers of {names} are filled again before they are written to LDS"
        label = f"fetches {_step(c.second)}"
    elif c.first is None:
        message = f"a write of {names} finds no data in the staging registers"
    else:
        message = f"a write of {names} of {_step(c.second)} finds {_step(c.first)} in the staging registers"
    if secondary and secondary[0].span == place(plan.program, c.second.op):
        label, secondary = f"{secondary[0].text}, then {_step(c.second)} before a write", ()
    return Diagnostic(
        "E311",
        message,
        Label(place(plan.program, c.second.op), label),
        secondary,
        ("an operand has one set of staging registers: each fetch is written before the next",),
        Fix("fetch and write the same step once each, in this order"),
    )


def _loads(plan: Plan, operand: str) -> Iterator[Label]:
    for body in plan.bodies.values():
        for op in body:
            if isinstance(op, TILE_WRITES) and op.operand == operand and op.span:
                yield Label(op.span, f"loads `{operand}[{_relative(op)}]`")
                return


def _relative(op: Op) -> str:
    return f"k{op.offset:+d}" if op.offset else "k"
