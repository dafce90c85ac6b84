"""From what the referee saw to diagnostics: findings of one cause become one, told in the terms of who writes kernels.

A load of one tile is dozens of instructions, and each may race with dozens of others, on every schedule. The reader
needs the two statements, so findings are grouped by code, statements and buffer; the earliest one is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tkgen.diagnostics import Diagnostic, Fix, InterleavedStep, Label
from tkgen.emulate import Access, Arg, Finding, Kind, Outcome, Space
from tkgen.emulate.arguments import buffers
from tkgen.emulate.disassemble import disassemble
from tkgen.sanitize.arguments import Output
from tkgen.sanitize.subject import Subject
from tkgen.source import SourceFile, Span
from tkgen.toolchain.compiler import Location

_CODES: Final = {
    Kind.BARRIER_COUNT: "W702",
    Kind.DEADLOCK: "E704",
    Kind.BUDGET: "E710",
    Kind.UNKNOWN_INSTRUCTION: "E711",
    Kind.UNSUPPORTED: "E711",
    Kind.BAD_JUMP: "E711",
    Kind.TRAP: "E711",
    Kind.ILLEGAL_OPERAND: "E711",
    Kind.LDS_OUT_OF_BOUNDS: "E703",
    Kind.GLOBAL_OUT_OF_BOUNDS: "E703",
    Kind.READ_ONLY_WRITE: "E703",
    Kind.SCRATCH_OUT_OF_BOUNDS: "E703",
    Kind.UNINITIALISED_LDS: "E702",
    Kind.RACE: "E701",
    Kind.BLOCK_RACE: "E701",
    Kind.READ_BEFORE_WAIT: "E705",
    Kind.OVERWRITE_BEFORE_WAIT: "E705",
    Kind.UNINITIALISED_REGISTER: "E708",
    Kind.MISALIGNED: "W703",
    Kind.LANE_RACE: "E713",
    Kind.WAIT_STATES: "E714",
    Kind.DIVERGENT_BARRIER: "E715",
}
# Findings about bytes of LDS, global memory or scratch, not about a register or the flow of control.
_ACCESSES: Final = (
    Kind.RACE,
    Kind.BLOCK_RACE,
    Kind.LANE_RACE,
    Kind.UNINITIALISED_LDS,
    Kind.LDS_OUT_OF_BOUNDS,
    Kind.GLOBAL_OUT_OF_BOUNDS,
    Kind.READ_ONLY_WRITE,
    Kind.SCRATCH_OUT_OF_BOUNDS,
    Kind.MISALIGNED,
)
_NULL_PAGE: Final = 1 << 16  # what lies below is an element of a null pointer
# What stops the kernel, then what makes it read or write wrong bytes, then what follows from those.
_ORDER: Final = (
    *(
        "E711",
        "E704",
        "E710",
        "E703",
        "E709",
        "E701",
        "E702",
        "E705",
        "E715",
        "E713",
        "E708",
        "E706",
        "E707",
        "E712",
        "E714",
    ),
    *("W702", "W703", "W701"),
)


@dataclass(frozen=True)
class Seen:
    """A finding, the schedule it was seen on, and the launch it comes from."""

    schedule: str
    finding: Finding
    outcome: Outcome


def diagnostics(
    subject: Subject,
    seen: Sequence[Seen],
    schedules: int,
    origins: Callable[[Seen], Sequence[str]] | None = None,
) -> list[Diagnostic]:
    """One diagnostic for each cause, the most important first.

    `origins` says of a finding without a line of source where what is in its registers or bytes comes from.
    """
    groups: dict[tuple[object, ...], list[Seen]] = {}
    racing = {a.address for s in seen if s.finding.kind is Kind.RACE for a in (s.finding.first, s.finding.second) if a}
    for each in seen:
        if each.finding.written_later and each.finding.first.address in racing:
            continue  # the bytes were not there yet because of the race
        groups.setdefault(_key(subject, each), []).append(each)
    found = [_Group(subject, members, schedules, origins).diagnostic() for members in groups.values()]
    return in_order(found)


def in_order(found: Iterable[Diagnostic]) -> list[Diagnostic]:
    """The most important first; those of one code as they were found."""
    return sorted(found, key=lambda d: _ORDER.index(d.code))


def code_of(finding: Finding) -> str:
    """The diagnostic code of a finding."""
    both_write = finding.second is not None and finding.first.access == finding.second.access == "writes"
    if finding.kind in (Kind.RACE, Kind.BLOCK_RACE) and finding.space is Space.GLOBAL and both_write:
        return "E706"
    if finding.kind is Kind.MISALIGNED and (finding.first.access == "updates" or finding.first.text.startswith("s_")):
        return "E709"
    return _CODES[finding.kind]


def statement(subject: Subject, access: Access) -> Location | None:
    """The line of the kernel's own file behind an instruction; for a spec the line of the generated kernel."""
    return place_of(subject, access.address)


def place_of(subject: Subject, address: int) -> Location | None:
    """As `statement`, by the instruction's address."""
    if subject.origin is not None:
        frames = subject.places.frames(address)
        return frames[-1] if frames else None
    return subject.places.own(address)


def _key(subject: Subject, seen: Seen) -> tuple[object, ...]:
    finding = seen.finding
    if code_of(finding) == "E705" and finding.space in (Space.VGPR, Space.SGPR):
        place = statement(subject, finding.first)
        return ("E705", place.line if place else finding.first.address)
    places: list[object] = []
    for access in (finding.first, finding.second):
        if access is not None:
            place = statement(subject, access)
            name, line = (place.file, place.line) if place else ("", 0 if subject.places else access.address)
            origin = subject.origin(place.line) if place is not None and subject.origin is not None else None
            if origin is not None:
                name, line = origin.file.name, origin.line
            places.append((name, line, access.access))
    ordered = sorted(places, key=str) if finding.kind in (Kind.RACE, Kind.BLOCK_RACE) else places
    return (code_of(finding), finding.kind, *ordered, finding.space, finding.buffer)


FLAG_OR_BARRIER = (
    "put a barrier between them; if it is a flag, set it by `__hip_atomic_store(..., __ATOMIC_RELEASE, "
    "__HIP_MEMORY_SCOPE_WORKGROUP)` and read it by `__hip_atomic_load(..., __ATOMIC_ACQUIRE, "
    "__HIP_MEMORY_SCOPE_WORKGROUP)`"
)


class _Group:
    """All sightings of one cause; `shown` is the earliest, by iteration and by schedule."""

    def __init__(
        self,
        subject: Subject,
        members: list[Seen],
        schedules: int,
        origins: Callable[[Seen], Sequence[str]] | None,
    ):
        self.subject = subject
        self.members = members
        self.schedules = schedules
        earliest = min(members, key=lambda m: (m.finding.block, _iteration(m.finding)))
        self.origins = origins(earliest) if origins and statement(subject, earliest.finding.first) is None else ()
        self.shown, self.outcome = earliest.finding, earliest.outcome

    def diagnostic(self) -> Diagnostic:
        shown = self.shown
        message, fix = self.words()
        primary = self.label(shown.first)
        second = self.label(shown.second) if shown.second is not None else None
        secondary = (second,) if second is not None and (primary is None or second.span != primary.span) else ()
        notes = [self.party(a) for a in (shown.first, shown.second) if a is not None]
        return Diagnostic(
            code_of(shown),
            message,
            primary,
            secondary,
            (*notes, *self.origins, self.where()),
            Fix(fix) if fix else None,
            tuple(self.step(a) for a in (shown.first, shown.second) if a is not None),
        )

    # ------------------------------------------------------------ parts

    def step(self, access: Access) -> InterleavedStep:
        """An access as a step of the interleaving; one by its instruction alone has no line."""
        place = statement(self.subject, access)
        action = f"{access.access}: `{access.text}`, iteration {access.instance}"
        span = span_of(self.subject, place) if place is not None else None
        return InterleavedStep(f"wave {access.wave}", action, access.epoch, span)

    def label(self, access: Access) -> Label | None:
        text = f"wave {access.wave}"
        if self.shown.kind is Kind.WAIT_STATES:
            return self.line(access, "too early" if access is self.shown.first else "the result is not available yet")
        if self.shown.kind is Kind.DIVERGENT_BARRIER:
            return self.line(
                access, "not all lanes reach this point" if access is self.shown.first else "the others rejoin here"
            )
        if access.text == "s_barrier":
            text += " waits here"
        elif access.text == "s_endpgm":
            text += " ends here"
        elif self.shown.kind in _ACCESSES:
            text += f" {access.access} {'here' if self.exact(access) else 'near here'}"
        return self.line(access, text)

    def line(self, access: Access, text: str) -> Label:
        place = statement(self.subject, access)
        if place is None:
            return Label(_listing(self.subject, self.outcome, access), text)
        return Label(span_of(self.subject, place), text)

    def exact(self, access: Access) -> bool:
        """Return True if the line is the access's own.

        Where the compiler joined several instructions the result has none, and the table goes on with the line before:
        after a barrier, that of the barrier.
        """
        program, code = self.outcome.program, self.outcome.code
        line, index = code.line(access.address), (access.address - code.text[0]) // 4
        while index > 0 and code.line(code.text[0] + 4 * (index - 1)) == line:
            index -= 1
            if program.mnemonic(index) == "s_barrier":
                return False
        return self.subject.places.exact(access.address)

    def party(self, access: Access) -> str:
        text = f"`{access.text}` at 0x{access.address:x}"
        if self.shown.kind is not Kind.WAIT_STATES:
            text = f"wave {access.wave}: {text}, iteration {access.instance}"
            text += f", after {access.epoch} barrier{'s' if access.epoch != 1 else ''}"
        if self.shown.kind is Kind.RACE and access.done is not None and access.done != access.epoch:
            text += f", complete after {access.done}"
        place = statement(self.subject, access)
        frames = self.subject.places.frames(access.address)
        if self.subject.origin is not None and place is not None:
            text += f" ({place.file}:{place.line})"
        elif place is not None and frames[0] != place:
            text += f" (in {frames[0].file}:{frames[0].line})"
        callers = [] if self.subject.origin is not None or place is None else frames[frames.index(place) + 1 :]
        if callers:
            text += ", called from " + ", ".join(f"{f.file}:{f.line}" for f in callers)
        return text

    def where(self) -> str:
        shown = self.shown
        parts = []
        if shown.kind in _ACCESSES and shown.space is Space.LDS:
            parts.append(f"LDS bytes {shown.offset}..{shown.offset + max(shown.size, 1) - 1}")
        elif shown.kind in _ACCESSES and shown.buffer:
            parts.append(f"byte {shown.offset} of {shown.buffer}")
        if shown.kind is Kind.WAIT_STATES:
            parts.append("found in the code, on a path that may not have run")
        else:
            parts.append(f"block {shown.block[0]},{shown.block[1]},{shown.block[2]}")
            seen = len({m.schedule for m in self.members})
            parts.append(f"seen on {seen} of {self.schedules} schedules")
        pairs = len({(m.finding.first.address, m.finding.second and m.finding.second.address) for m in self.members})
        if pairs > 1:
            parts.append(f"{pairs} {'pairs of instructions' if shown.second else 'instructions'} like this")
        return ", ".join(parts)

    # ------------------------------------------------------------ words

    def words(self) -> tuple[str, str]:
        """The message, and what to do."""
        shown = self.shown
        first, second = shown.first, shown.second
        match shown.kind:
            case Kind.RACE if shown.space is Space.LDS and second is not None:
                return self.lds_race(first, second)
            case Kind.RACE | Kind.BLOCK_RACE if second is not None:
                return self.race_in_memory(first, second)
            case Kind.UNINITIALISED_LDS if shown.written_later:
                return (
                    f"wave {first.wave} reads bytes of LDS before any wave has written them",
                    "put the load of the tile, its wait and a barrier before this read",
                )
            case Kind.UNINITIALISED_LDS:
                return (
                    f"wave {first.wave} reads bytes of LDS that no wave ever wrote",
                    "is all of the tile loaded? A collective group<N>::load must run on all N waves of its group",
                )
            case Kind.LDS_OUT_OF_BOUNDS:
                return shown.message, "check --lds, the tile's extents and subtile indices, which count subtiles"
            case Kind.GLOBAL_OUT_OF_BOUNDS if shown.buffer is None and shown.offset < _NULL_PAGE:
                return shown.message, "is the pointer null? Give every pointer that the kernel uses a buffer"
            case Kind.GLOBAL_OUT_OF_BOUNDS:
                return shown.message, "tile coordinates are in units of the loaded or stored tile, not of elements"
            case Kind.READ_ONLY_WRITE:
                return shown.message, ""
            case Kind.WAIT_STATES:
                return shown.message, f"put `s_nop {min(shown.size, 16) - 1}`, or other instructions, between the two"
            case Kind.DIVERGENT_BARRIER:
                return (
                    shown.message,
                    "move the barrier out of the branch or loop that only some threads of a wave execute",
                )
            case Kind.LANE_RACE:
                return (
                    f"{shown.message}: one of the two is lost",
                    "check the map from lanes to addresses: each byte must belong to one lane",
                )
            case Kind.MISALIGNED if code_of(shown) == "W703":
                return shown.message + "; the hardware splits it", "align the data, or the pointer's type to the data"
            case Kind.MISALIGNED:
                return shown.message, "align the data: the hardware cannot execute this access unaligned"
            case Kind.BARRIER_COUNT | Kind.DEADLOCK:
                return shown.message, "let all waves execute the same barriers: none inside a branch of a single role"
            case Kind.READ_BEFORE_WAIT | Kind.OVERWRITE_BEFORE_WAIT:
                return shown.message, "wait first: s_waitcnt vmcnt(0) for global loads, lgkmcnt(0) for LDS"
            case Kind.UNINITIALISED_REGISTER:
                return shown.message, "is the complete accumulator zeroed?"
            case Kind.BUDGET:
                return (
                    shown.message,
                    "if the loop ends later, raise --budget; a wave may wait for a value that is never written",
                )
            case _:
                return shown.message, ""

    @property
    def same(self) -> str:
        """Of two writes, that the later one changes nothing: whether the race shows today."""
        return ", the same value this time" if self.shown.same_values else ""

    def race_in_memory(self, first: Access, second: Access) -> tuple[str, str]:
        """Two waves, or two blocks, at one place of a tensor."""
        shown = self.shown
        flag = self.flag(first, second) if shown.kind is Kind.RACE else None
        place, twice = f"byte {shown.offset} of {shown.buffer}", code_of(shown) == "E706"
        if shown.kind is Kind.RACE and twice:
            return (
                f"waves {second.wave} and {first.wave} both write {place}{self.same}",
                flag or "give each wave a separate part of the output: coordinates are in units of the stored tile",
            )
        if shown.kind is Kind.RACE:
            return (
                f"wave {first.wave} {first.access} {place}, which wave {second.wave} {second.access} with no barrier "
                "between", flag or FLAG_OR_BARRIER,
            )  # fmt: skip
        if twice:
            return (
                f"two blocks write {place}{self.same}",
                "every output tile must belong to one block: coordinates are in units of the stored tile",
            )
        if shown.in_another_l2:
            return (
                f"a block hands {place} to another by a flag, but it is not written back from the L2",
                "put __threadfence(), or buffer_wbl2 sc1 and a wait for it, between the store and the flag",
            )
        return f"two blocks touch {place}, and blocks are not ordered", ""

    def flag(self, first: Access, second: Access) -> str | None:
        """The advice for a flag that one of the two waves set and the other saw; None where there is no such flag."""
        lacking = [m.finding for m in self.members if m.finding.no_release or m.finding.no_acquire]
        if not lacking:
            return None
        scope = "AGENT" if any(f.wide_flag for f in lacking) else "WORKGROUP"
        fence = "__threadfence()" if scope == "AGENT" else "__threadfence_block()"
        found = []
        if any(f.no_release for f in lacking):
            found.append(
                f"a release is missing: set the flag by `__hip_atomic_store(..., __ATOMIC_RELEASE, "
                f"__HIP_MEMORY_SCOPE_{scope})`, or put `{fence}` before it"
            )
        if any(f.no_acquire for f in lacking):
            found.append(
                f"an acquire is missing: read the flag by `__hip_atomic_load(..., __ATOMIC_ACQUIRE, "
                f"__HIP_MEMORY_SCOPE_{scope})`, or put `{fence}` after the last read of it"
            )
        return "; ".join(found)

    def lds_race(self, first: Access, second: Access) -> tuple[str, str]:
        """`second` came earlier in the run, which says nothing; program order says which was meant to."""
        flag = self.flag(first, second)
        early, later = sorted((first, second), key=lambda access: access.epoch)
        if early.epoch < later.epoch:
            counter = "vmcnt" if "load" in early.text else "lgkmcnt"
            late = "write" if early.access != "reads" else "read"
            return (
                f"wave {early.wave} passes the barrier before its {late} of LDS is complete, and wave {later.wave} "
                f"{later.access} the same bytes after it",
                f"wait for the {late} before the barrier: s_waitcnt {counter}(0)",
            )
        if "reads" not in (first.access, second.access):
            return (
                f"waves {second.wave} and {first.wave} both write the same bytes of LDS, no barrier between{self.same}",
                flag or "let one wave, or one group of waves, load each part of a tile",
            )
        read, write = (first, second) if first.access == "reads" else (second, first)
        order = self.order(read, write)
        if order < 0:
            return (
                f"wave {read.wave} may still read bytes of LDS that wave {write.wave} overwrites: no barrier between",
                flag
                or "put a barrier after the last read of the tile, before the next load, or alternate between "
                "two buffers",
            )
        if order > 0:
            return (
                f"wave {read.wave} may read bytes of LDS before wave {write.wave} has written them: no barrier between",
                flag or "put a barrier between the load of the tile and the reads of it",
            )
        return (
            f"wave {read.wave} reads bytes of LDS while wave {write.wave} writes them: no barrier orders the two",
            flag or "put a barrier between them, on all waves",
        )

    def order(self, read: Access, write: Access) -> int:
        """Below 0 where one wave would read first, above where it would write first, 0 where nothing says it.

        In one loop the order is by iteration, then by address; before or after a loop by address. Code of different
        roles has the order of the runs, where all of them have the same one: a flag may order them.
        """
        if not self.in_one_role(read, write):
            first = {(m.finding.second or m.finding.first).access == "reads" for m in self.members}
            return 0 if len(first) > 1 else -1 if first.pop() else 1
        counts = [int(self.outcome.counts[(a.address - self.outcome.code.text[0]) // 4]) for a in (read, write)]
        if counts[0] == counts[1]:
            return -1 if (read.instance, read.address) < (write.instance, write.address) else 1
        waves = len(self.outcome.barriers)
        if waves in counts:
            return -1 if read.address < write.address else 1
        return 0

    def in_one_role(self, read: Access, write: Access) -> bool:
        """Return True if each of the two waves executes both instructions."""
        waves = self.outcome.executed_by
        if not len(waves):
            return True
        both = np.uint64(1 << read.wave % 64 | 1 << write.wave % 64)
        return all(waves[(a.address - self.outcome.code.text[0]) // 4] & both == both for a in (read, write))


def outside_of_array(subject: Subject, trap: Finding) -> Diagnostic:
    """A diagnostic for a trap of code that was compiled to check the indices of arrays."""
    place = statement(subject, trap.first)
    label = Label(span_of(subject, place), f"wave {trap.first.wave} is outside of an array here") if place else None
    note = "the behavior is undefined: the optimizer may remove the access, or the code around it"
    return Diagnostic(
        "E703",
        "an array is indexed outside of its bounds",
        label,
        notes=(note,),
        fix=Fix("check the limit of the loop"),
    )


def unwritten(outcome: Outcome, args: Sequence[Arg]) -> list[Diagnostic]:
    """A diagnostic for each output that has bytes which no wave wrote."""
    found = []
    for number, buffer in enumerate(buffers(args)):
        if isinstance(buffer, Output):
            gaps = outcome.unwritten(buffer)
            if gaps:
                size, missing = len(buffer.bytes()), sum(end - begin for begin, end in gaps)
                name = buffer.name or f"buffer {number}"
                more = f" and {len(gaps) - 3} more ranges" if len(gaps) > 3 else ""
                ranges = ", ".join(f"{begin}..{end - 1}" for begin, end in gaps[:3]) + more
                found.append(
                    Diagnostic(
                        "E707",
                        f"{missing} of {size} bytes of {name} are never written",
                        notes=(f"bytes {ranges}",),
                        fix=Fix("check the grid, and that the tiles of the waves cover the tile of the block"),
                    )
                )
    return found


def span_of(subject: Subject, place: Location) -> Span:
    """The text of a line, without the blanks around it; of the spec where there is one."""
    file, number = subject.source(place), place.line
    origin = subject.origin(place.line) if subject.origin is not None else None
    if origin is not None:
        file, number = origin.file, origin.line
    return _line_span(file, number)


def _line_span(file: SourceFile, number: int) -> Span:
    number = min(max(number, 1), len(file.line_starts))
    start, line = file.line_starts[number - 1], file.line(number)
    code = line.split(" //")[0].rstrip() or line.rstrip()
    lead = len(code) - len(code.lstrip())
    return Span(file, start + lead, start + max(len(code), lead))


def _listing(subject: Subject, outcome: Outcome, access: Access) -> Span:
    """Without debug information, the disassembly stands in for the source: a line of it."""
    program, base = outcome.program, outcome.code.text[0]
    starts = [int(i) for i in program.starts()]
    at = (access.address - base) // 4
    line = int(np.searchsorted(starts, at)) + 1
    near = range(max(line - 20, 1), min(line + 20, len(starts)) + 1)
    text = {n: f"{base + 4 * starts[n - 1]:#x}: {disassemble(program, starts[n - 1])}" for n in near}
    return _line_span(
        SourceFile(f"{subject.name}, disassembled", "\n".join(text.get(n, "") for n in range(1, near[-1] + 1))), line
    )


def _iteration(finding: Finding) -> tuple[int, int]:
    second = finding.second.instance if finding.second is not None else 0
    return finding.first.instance + second, finding.first.wave
