"""The referee's findings in the machine code of a spec, described by the lines and operations of the spec."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from tkgen.diagnostics import Diagnostic, Fix, InterleavedStep, Label
from tkgen.emulate import Access, CodeObject, Finding, Kind, Space
from tkgen.emulate.places import Places
from tkgen.schedule.traces import NEVER, Event, trace
from tkgen.source import Span
from tkgen.tile.ops import (
    SHARED_READS,
    SHARED_WRITES,
    Barrier,
    Copy,
    Load,
    Multiply,
    Reduce,
    Write,
)
from tkgen.tile.program import Op, Place, Role

if TYPE_CHECKING:
    from tkgen.backends.cdna.spec import Spec

RACE, NOT_WAITED, CONTROL, OUTSIDE = "E321", "E322", "E323", "E324"
CODES: Final = frozenset({RACE, NOT_WAITED, CONTROL, OUTSIDE})
_OF_KIND: Final = {
    Kind.RACE: RACE,
    Kind.BLOCK_RACE: RACE,
    Kind.LANE_RACE: RACE,
    Kind.READ_BEFORE_WAIT: NOT_WAITED,
    Kind.OVERWRITE_BEFORE_WAIT: NOT_WAITED,
    Kind.WAIT_STATES: NOT_WAITED,
    Kind.UNINITIALISED_LDS: OUTSIDE,
    Kind.UNINITIALISED_REGISTER: OUTSIDE,
    Kind.LDS_OUT_OF_BOUNDS: OUTSIDE,
    Kind.GLOBAL_OUT_OF_BOUNDS: OUTSIDE,
    Kind.SCRATCH_OUT_OF_BOUNDS: OUTSIDE,
    Kind.READ_ONLY_WRITE: OUTSIDE,
    Kind.MISALIGNED: OUTSIDE,
}  # everything else is control flow
_FIX: Final = Fix(
    "the plan is proven, the compiled code departs from it: change the schedule or the buffers around this place"
)
_FIX_LOOPS: Final = Fix("the generated code is wrong, or the compiler's: another tile or other waves give other code")


@dataclass(frozen=True)
class Seen:
    """A finding and the launch it is of: `steps` are the most K-steps of a tile there."""

    finding: Finding
    sizes: Mapping[str, int]
    steps: int


@dataclass(frozen=True)
class _Party:
    """An access, as far as it is known: the operation that it belongs to, what the plan says of it, where it stands."""

    access: Access
    wave: Role | None
    op: Op | None
    planned: Event | None
    span: Span | None
    cpp_line: int | None

    def __str__(self) -> str:
        if self.op is None:
            return f"`{self.access.text}`"
        if self.planned is None:
            return f"`{self.op}`"
        return f"`{self.op.moved('', self.planned.step - self.op.offset)}`"


def diagnostics(spec: Spec[Any], code: CodeObject, seen: Iterable[Seen]) -> list[Diagnostic]:
    """One diagnostic for each pair of operations and sort of finding, the first that was seen.

    Without K-steps, at the kernel's name: generated loops belong to no line.
    """
    if spec.program.contraction is None:
        at = Label(spec.program.spans["kernel"])
        return list(dict.fromkeys(Diagnostic(code_of_kind(s.finding.kind), str(s.finding), at, fix=_FIX_LOOPS)
                                  for s in seen))  # fmt: skip
    words = _Words(spec, code)
    found: dict[tuple[object, ...], Diagnostic] = {}
    for each in seen:
        first = words.party(each.finding.first, each)
        second = words.party(each.finding.second, each) if each.finding.second is not None else None
        parties = [p for p in (first, second) if p is not None]
        named = sorted(str((p.op.word, p.op.operand, p.span) if p.op else p.cpp_line) for p in parties)
        key = (code_of_kind(each.finding.kind), *named)
        if key not in found:
            found[key] = words.diagnostic(each, first, second)
    return sorted(found.values(), key=lambda d: d.code)


def code_of_kind(kind: Kind) -> str:
    """The code of the diagnostic for a kind of finding."""
    return _OF_KIND.get(kind, CONTROL)


def _kinds(access: Access) -> tuple[type[Op], ...]:
    """Return the kinds of operations to which an instruction can belong, none if it does not show.

    An instruction that the compiler moved or merged has the line of other code.
    """
    mnemonic = access.text.split()[0]
    if mnemonic.startswith("ds_read"):
        return SHARED_READS
    if mnemonic.startswith("ds_write"):
        return (Load, Write, Reduce)
    if access.text.split()[-1] == "lds" or " lds " in access.text or "load_lds" in mnemonic:
        return (Copy,)
    return (Multiply,) if mnemonic.startswith("v_mfma") else ()


class _Words:
    def __init__(self, spec: Spec[Any], code: CodeObject):
        self.spec, self.code = spec, code
        self._traces: dict[tuple[int, int], list[Event]] = {}

    @cached_property
    def places(self) -> Places:
        return Places(self.code)

    # ------------------------------------------------------------ who it is

    def party(self, access: Access, seen: Seen) -> _Party:
        """Collect the facts about an instruction: its line of C++, of the spec, its operation and its place in the
        plan.
        """
        frames = self.places.frames(access.address)
        line = frames[-1].line if frames else None
        wave = next((w for w in self.spec.plan.waves if access.wave in w.waves), None)
        event = self._event(wave, line, access, seen) if wave is not None else None
        op = event.op if event is not None else self._op(wave, line, access) if wave is not None else None
        span = op.span if op is not None else None
        if span is None and op is not None and op.operand:
            span = next((o.span for o in self.spec.program.operands if o.name == op.operand), None)
        return _Party(access, wave, op, event, span or self._line(line), line)

    def _line(self, line: int | None) -> Span | None:
        """The line of the spec behind one of the generated C++."""
        origin = self.spec.source.origin(line) if line is not None else None
        if origin is None:
            return None
        start, text = origin.file.line_starts[origin.line - 1], origin.file.line(origin.line).split("#")[0].rstrip()
        lead = len(text) - len(text.lstrip())
        return Span(origin.file, start + lead, start + max(len(text), lead))

    def _at(self, wave: Role, line: int | None, access: Access) -> Place | None:
        """The place of the operation that a line of C++ executes, if the instruction can be of it."""
        wanted = _kinds(access)
        for (role, place), lines in self.spec.source.operations.items():
            if line in lines and role == wave.name and (not wanted or isinstance(wave.op(place), wanted)):
                return place
        return None

    def _op(self, wave: Role, line: int | None, access: Access) -> Op | None:
        at = self._at(wave, line, access)
        return self.spec.plan.written(wave.op(at)) if at is not None else None

    def _event(self, wave: Role, line: int | None, access: Access, seen: Seen) -> Event | None:
        """The operation in the plan's own trace.

        By the line and the iteration; where the line is that of other code, by the tile of LDS that is accessed: the
        last of its operations that the plan begins no later than the access was issued.
        """
        plan = self.spec.plan
        passes = (seen.steps - plan.shape.tail_iterations) // plan.shape.unroll
        if self.spec.program.grid.name == "stream_k" or passes < 0 or plan.shape.steps(passes) != seen.steps:
            return None
        events = self._trace(wave, passes, seen.steps)
        at = self._at(wave, line, access)
        if at is not None:
            instances = [e for e in events if e.place == at]
            return instances[access.instance] if access.instance < len(instances) else None
        wanted, operand = _kinds(access), self._operand(seen.finding)
        near = [e for e in events if isinstance(e.op, wanted) and e.op.operand == operand and e.begin <= access.epoch]
        return near[-1] if near else None

    def _trace(self, wave: Role, passes: int, steps: int) -> list[Event]:
        key = (wave.waves[0], steps)
        if key not in self._traces:
            plan, program = self.spec.plan, self.spec.program
            last = max(w.phase for w in plan.waves)
            self._traces[key] = trace(program, wave, passes, plan.shape.unroll, steps, plan.tiles_to_prove, last)
        return self._traces[key]

    def _operand(self, finding: Finding) -> str:
        """The tensor whose tile lies at the LDS bytes of a finding; tiles lie in the order of the operands."""
        end = 0
        for operand in self.spec.program.operands if finding.space is Space.LDS else ():
            end += operand.lds_bytes * operand.buffers
            if finding.offset < end:
                return str(operand.name)
        return ""

    # ------------------------------------------------------------ what is said of it

    def diagnostic(self, seen: Seen, first: _Party, second: _Party | None) -> Diagnostic:
        """Return the diagnostic of a finding."""
        finding = seen.finding
        code = _OF_KIND.get(finding.kind, CONTROL)
        message, parties = f"in the compiled code of {first}, {finding.message}", [first, *([second] if second else [])]
        if code == RACE and second is not None:
            message, *parties = self._race(finding, first, second)
        labels = [self._label(p) for p in parties if p.span is not None]
        secondary = tuple(label for label in labels[1:] if label.span != labels[0].span)
        notes = [self._note(p) for p in parties]
        where = f"LDS byte {finding.offset}, " if code == RACE and finding.space is Space.LDS else ""
        sizes = " ".join(f"{name}={size}" for name, size in seen.sizes.items())
        notes.append(f"{where}block {','.join(map(str, finding.block))}, {sizes}")
        steps = tuple(
            InterleavedStep(f"wave {p.access.wave}", f"{p}: `{p.access.text}`", p.access.epoch, p.span) for p in parties
        )
        return Diagnostic(code, message, labels[0] if labels else None, secondary, tuple(notes), _FIX, steps)

    def _label(self, party: _Party) -> Label:
        assert party.span is not None
        return Label(party.span, f"{party}, wave {party.access.wave}")

    def _note(self, party: _Party) -> str:
        access, plan = party.access, party.planned
        text = f"wave {access.wave}, {party}: `{access.text}` at 0x{access.address:x}"
        text += f" ({self.spec.name}.cpp:{party.cpp_line})" if party.cpp_line else ""
        text += f" is issued after {access.epoch} barrier{'s' if access.epoch != 1 else ''}"
        text += f" and complete after {access.done}" if access.done is not None else " and never waited for"
        if plan is not None:
            text += f"; in the plan after {plan.begin} and {int(plan.done) if plan.done != NEVER else 'never'}"
        return text

    def _race(self, finding: Finding, first: _Party, second: _Party) -> tuple[str, _Party, _Party]:
        """The sentence about two accesses that no barrier orders, the one that departs from the plan, the other."""
        moved = next((party for party in (second, first) if _moved(party)), None)
        if moved is None:
            where = "LDS" if finding.space is Space.LDS else finding.buffer or "global memory"
            return f"{second} and {first} touch the same bytes of {where} with no barrier between them", second, first
        other = first if moved is second else second
        barrier = self._barrier(moved)
        does = "overwrites" if other.op is not None and isinstance(other.op, SHARED_WRITES) else "needs"
        match _moved(moved):
            case "late":
                text = f"the compiler moved {moved} below {barrier}, behind which {other} {does} its tile"
            case "early":
                text = f"the compiler moved {moved} above {barrier}, before which {other} {does} its tile"
            case _:
                text = (
                    f"the compiled code waits for {moved} below {barrier}, not above it; there {other} {does} its tile"
                )
        return text, moved, other

    def _barrier(self, moved: _Party) -> str:
        """The barrier that an access crossed: its line in the spec, or what it stands after."""
        event, wave, access = moved.planned, moved.wave, moved.access
        assert event is not None and wave is not None
        events = next(t for (first, _), t in self._traces.items() if first == wave.waves[0] and event in t)
        number = {"late": event.begin, "early": access.epoch}.get(_moved(moved))
        barriers = [e for e in events if isinstance(e.op, Barrier)]
        barrier = barriers[min(int(event.done) if number is None else number, len(barriers) - 1)]
        if barrier.op.span is not None:
            return f"the barrier of line {barrier.op.span.line}"
        before = next(
            (e for e in reversed(events[: barrier.order]) if isinstance(e.op, SHARED_WRITES + SHARED_READS)), None
        )
        return f"the barrier after `{self.spec.plan.written(before.op)}`" if before is not None else "the first barrier"


def _moved(party: _Party) -> str:
    """Say how the machine code departs from the plan: issued late or early, waited for late;
    empty where it does not.
    """
    plan, access = party.planned, party.access
    if plan is None:
        return ""
    if access.epoch != plan.begin:
        return "late" if access.epoch > plan.begin else "early"
    return "waited" if plan.done != NEVER and (access.done is None or access.done > plan.done) else ""
