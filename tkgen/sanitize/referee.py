"""Run a kernel on several schedules under the referee and say what was seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tkgen.diagnostics import Diagnostic, Severity
from tkgen.emulate import Kind, Outcome, TraceRequest, interleavings
from tkgen.emulate import launch as emulate
from tkgen.sanitize.arguments import ArgumentError, named
from tkgen.sanitize.provenance import History, told
from tkgen.sanitize.report import Seen, diagnostics, in_order, outside_of_array, unwritten
from tkgen.sanitize.subject import Launch, Subject
from tkgen.targets import load_target
from tkgen.toolchain.compiler import ToolchainError
from tkgen.toolchain.metadata import read_resources

DEFAULT_BUDGET = 50_000_000
WAIT_STATES = "E714"  # seen in the code, whatever runs: no race, and of no run
MAX_BLOCKS = 1 << 20
_MOST_TRACED = 300_000  # instructions of a block, of all waves together
_MOST_TRACES = 3  # blocks that are run again to say where values come from


@dataclass(frozen=True)
class Verdict:
    """The findings, and the effort: schedules run, blocks of each, instructions of all together."""

    diagnostics: tuple[Diagnostic, ...]
    schedules: int
    blocks: int
    instructions: int
    printed: str = ""  # by the kernel, on the first schedule

    @property
    def effort(self) -> str:
        """The effort of the search in words."""
        blocks = f"{self.blocks} block{'s' if self.blocks != 1 else ''}"
        schedules = f"{self.schedules} schedule{'s' if self.schedules != 1 else ''}"
        return f"{blocks}, {schedules}, {self.instructions} instructions"

    @property
    def clean(self) -> bool:
        """True if nothing worse than a warning was found."""
        return not any(d.severity is Severity.ERROR for d in self.diagnostics)

    @property
    def wait_states_alone(self) -> bool:
        """True if there are errors, and all of them are too few wait states."""
        return not self.clean and {d.code for d in self.diagnostics if d.severity is Severity.ERROR} == {WAIT_STATES}


def sanitize(
    subject: Subject,
    launch: Launch,
    *,
    schedules: int = 5,
    blocks: Sequence[int] | None = None,
    budget: int = DEFAULT_BUDGET,
    workers: int = 1,
    progress: Callable[[str], None] | None = None,
) -> Verdict:
    """Run the kernel on `schedules` interleavings of its waves, each with fresh arguments; stops where it did not end.

    `blocks` restricts the run to these linear block ids, and with it the search for unwritten output is off, as are the
    arguments' own checks. A value used before its wait is reported, and then taken to be there, so that one missing
    wait does not end in a thousand wrong addresses. `budget` bounds the instructions of a block. `progress` is told
    each schedule before it runs. Raises EmulateError where the launch cannot start, ArgumentError where the user's
    functions fail.
    """
    total = launch.grid[0] * launch.grid[1] * launch.grid[2] if blocks is None else len(blocks)
    if total > MAX_BLOCKS:
        raise ArgumentError(f"{total} blocks are too many to emulate, {MAX_BLOCKS} at most: smaller sizes, or --blocks")
    seen: list[Seen] = []
    rest: dict[str, Diagnostic] = {}
    instructions, done, printed = 0, 0, ""
    kernel = subject.code.kernel(launch.kernel)
    lds_bytes = launch.lds_bytes
    for order in interleavings(schedules):
        if progress is not None:
            progress(str(order))
        args = named(launch.arguments.make(), kernel)
        outcome = emulate(
            subject.code,
            args=args,
            grid=launch.grid,
            block=launch.block,
            kernel=launch.kernel,
            lds_bytes=lds_bytes,
            blocks=blocks,
            policy=order.policy,
            seed=order.seed,
            watch=True,
            budget=budget,
            workers=workers,
            resident=launch.resident and launch.resident(),
            cooperative=launch.cooperative,
        )
        done += 1
        printed = printed or outcome.printed
        instructions += outcome.instructions
        seen += [Seen(str(order), finding, outcome) for finding in outcome.findings]
        if not outcome.completed:
            break
        lds_bytes = _enough_lds(outcome, lds_bytes)
        if blocks is None:
            for diagnostic in unwritten(outcome, args):
                rest.setdefault(diagnostic.message, diagnostic)
            wrong = launch.arguments.check(outcome, args) if launch.arguments.check is not None else ""
            if wrong:
                note = f"on the schedule `{order}`"
                rest.setdefault("numbers", Diagnostic("E712", f"the results are wrong: {wrong}", notes=(note,)))
    origins = _Origins(subject, launch, budget, lds_bytes)
    found = [*diagnostics(subject, seen, done, origins), *rest.values(), *_scratch(subject, launch)]
    if not any(s.finding.kind is Kind.TRAP for s in seen):
        found += _outside_of_arrays(subject, launch, blocks, budget, workers)
    return Verdict(tuple(in_order(found)), done, total, instructions, printed)


@dataclass
class _Origins:
    """The origins of values, from another run of a block with a trace. `lds_bytes` is that of the last run."""

    subject: Subject
    launch: Launch
    budget: int
    lds_bytes: int
    known: dict[tuple[str, int], History] = field(default_factory=dict)

    def __call__(self, seen: Seen) -> Sequence[str]:
        x, y, z = seen.finding.block
        block = x + self.launch.grid[0] * (y + self.launch.grid[1] * z)
        if (seen.schedule, block) not in self.known and len(self.known) >= _MOST_TRACES:
            return ()
        if (seen.schedule, block) not in self.known:
            self.known[seen.schedule, block] = History(self.traced(seen.schedule, block))
        return told(self.known[seen.schedule, block], seen.finding)

    def traced(self, schedule: str, block: int) -> Outcome:
        """The block again, on a schedule by its name."""
        order = next(order for order in interleavings(1 << 20) if str(order) == schedule)
        return emulate(
            self.subject.code,
            args=named(self.launch.arguments.make(), self.subject.code.kernel(self.launch.kernel)),
            grid=self.launch.grid,
            block=self.launch.block,
            kernel=self.launch.kernel,
            lds_bytes=self.lds_bytes,
            blocks=[block],
            policy=order.policy,
            seed=order.seed,
            budget=min(self.budget, _MOST_TRACED) if self.launch.cooperative else self.budget,
            trace=TraceRequest(limit=_MOST_TRACED),
            resident=self.launch.resident and self.launch.resident(),
        )


def _enough_lds(outcome: Outcome, dynamic: int) -> int:
    """Dynamic LDS in bytes with which the next schedule shows what hides behind accesses outside of it.

    LDS that inline assembly alone touches is allotted by nobody: that is one finding, what its waves do there another.
    How far they reach, a finding does not say: it is of the first lane.
    """
    limit = load_target(outcome.code.target).lds_bytes_per_block
    outside = [f for f in outcome.findings if f.kind is Kind.LDS_OUT_OF_BOUNDS and f.offset + f.size <= limit]
    return limit - outcome.kernel.descriptor.group_bytes if outside else dynamic


def _outside_of_arrays(
    subject: Subject, launch: Launch, blocks: Sequence[int] | None, budget: int, workers: int
) -> list[Diagnostic]:
    """The first index outside of an array, where there is a source to ask.

    Machine code does not show it: an optimiser takes such an index as proof that the code is never reached. So the
    source is compiled once more with a trap for it, and run to the first one.
    """
    code = subject.bounded() if subject.bounded is not None else None
    if code is None:
        return []
    bounded = replace(subject, code=code)
    kernel = code.kernel(launch.kernel)
    outcome = emulate(
        code,
        args=named(launch.arguments.make(), kernel),
        grid=launch.grid,
        block=launch.block,
        kernel=launch.kernel,
        lds_bytes=launch.lds_bytes,
        blocks=blocks,
        budget=budget,
        workers=workers,
    )
    return [outside_of_array(bounded, f) for f in outcome.findings if f.kind is Kind.TRAP][:1]


def _scratch(subject: Subject, launch: Launch) -> list[Diagnostic]:
    """A warning where the kernel keeps registers in memory."""
    name = subject.code.kernel(launch.kernel).name
    try:
        resources = read_resources(subject.code.elf)[name]
    except (ToolchainError, KeyError):
        return []  # metadata of another make: the run does not depend on it
    if resources.clean:
        return []
    spills = resources.vgpr_spills + resources.sgpr_spills
    what = f"{spills} registers spilled, {resources.scratch_bytes} bytes of scratch per lane"
    note = "scratch is global memory: each access costs hundreds of cycles"
    bounds = f"compiled for blocks of up to {resources.max_workgroup} threads; `__launch_bounds__` says how many"
    return [Diagnostic("W701", f"{name} keeps registers in memory: {what}", notes=(note, bounds))]
