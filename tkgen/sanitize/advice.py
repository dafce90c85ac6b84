"""Waits of machine code that are stronger than needed, and barriers that order nothing.

A wait is stronger than needed if it may allow more accesses to be on their way and all that follows is still covered:
registers that are read, bytes of LDS that other waves read or overwrite after a barrier, memory after a flag. A
barrier orders nothing if no two accesses of two waves that conflict would be without order if the epochs before and
after it were one. Neither is worked out here. It is tried: the instruction is changed in the loaded code, which is run
under the referee. A change that it accepts is sufficient, since its verdict holds for every order of the waves
(`machine_check`).

Barriers that meet are taken out together, first; then each wait allows as much as it can, in the order of the code.
Each change is tried with all those before it in place, so that two waits of which one would do are not both given up;
and what is left of the code then has to pass as `sanitize` runs it, on all schedules. That is the proof, of the launch
that was run: its paths, its numbers of passes.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from tkgen.diagnostics.text import count_text, table_text
from tkgen.emulate import CodeObject, Outcome, TraceRequest, patched
from tkgen.emulate import launch as emulate
from tkgen.predict.kernels import LoopCost
from tkgen.predict.prediction import PredictError
from tkgen.predict.stream import Instruction, Unit
from tkgen.sanitize.arguments import named
from tkgen.sanitize.referee import DEFAULT_BUDGET, Verdict, sanitize
from tkgen.sanitize.report import place_of, span_of
from tkgen.sanitize.streams import Streams
from tkgen.sanitize.subject import Launch, Subject
from tkgen.sanitize.waits import LGKM, NEVER, NOTHING, S_NOP, VECTOR, Wait
from tkgen.targets import load_target
from tkgen.toolchain.compiler import ToolchainError
from tkgen.toolchain.metadata import read_resources

_MOST_TRACED: Final = 400_000
_FEW_PASSES: Final = 4
# What writes caches back, or empties them, stands beside the waits of a release or an acquire: with these in the code a
# wait for vector memory may be for another block, which a wait too loose need not show.
_CACHES: Final = ("buffer_inv", "buffer_wb", "s_dcache")
_Key = tuple[object, ...]
_Change = Mapping[int, int]  # words by dword index, in place of barriers that meet or of a wait


@dataclass(frozen=True)
class Advice:
    """One change: the instructions at `addresses` in the place of which less would do.

    `place` is the file and line, or the address where there is none, `source` the text there. `saved` is how many
    cycles less an iteration of the main loop takes with this change alone; None where nothing can be predicted.
    """

    addresses: tuple[int, ...]
    place: str
    source: str
    now: str
    enough: str
    reason: str
    saved: float | None


@dataclass(frozen=True)
class Advised:
    """The advice on a kernel, and the number of waits and barriers examined.

    `cycles` are those of an iteration of the main loop, of all where there is none, as it is and with all of the advice
    (a prediction); None where there is none, for the reason in `notes`. `words` is the changed code by its addresses.
    """

    advice: tuple[Advice, ...]
    waits: int
    barriers: int
    cycles: tuple[float, float] | None
    notes: tuple[str, ...]
    words: Mapping[int, int]


def advise(
    subject: Subject,
    launch: Launch,
    verdict: Verdict,
    *,
    schedules: int = 5,
    blocks: Sequence[int] | None = None,
    budget: int = DEFAULT_BUDGET,
    workers: int = 1,
) -> Advised:
    """Advice on a kernel whose launch gave `verdict`. Where that is not clean there is none: a note says so."""
    if not verdict.clean:
        return Advised((), 0, 0, None, ("no advice until its findings are fixed",), {})
    return _Search(subject, launch, verdict, schedules, blocks, budget, workers).advised()


class _Search:
    """The launch, run again and again with changes to its code."""

    def __init__(
        self,
        subject: Subject,
        launch: Launch,
        verdict: Verdict,
        schedules: int,
        blocks: Sequence[int] | None,
        budget: int,
        workers: int,
    ):
        self.subject, self.launch, self.verdict, self.schedules = subject, launch, verdict, schedules
        self.blocks, self.budget, self.workers = blocks, budget, workers
        outcome = self.run(subject.code, TraceRequest(limit=_MOST_TRACED))
        self.outcome, self.known = outcome, _keys(outcome)
        self.program, self.streams = outcome.program, Streams(outcome)
        self.executed = [int(i) for i in np.flatnonzero(outcome.counts)]

    def run(self, code: CodeObject, trace: TraceRequest | None = None, limit: int | None = None) -> Outcome:
        """One run under the referee; with a `limit`, so many instructions of the first block alone, unwatched."""
        first = [self.blocks[0] if self.blocks else 0]
        return emulate(
            code,
            args=named(self.launch.arguments.make(), code.kernel(self.launch.kernel)),
            grid=self.launch.grid,
            block=self.launch.block,
            kernel=self.launch.kernel,
            lds_bytes=self.launch.lds_bytes,
            blocks=self.blocks if limit is None else first,
            watch=limit is None,
            budget=self.budget if limit is None else limit,
            workers=self.workers,
            trace=trace,
        )

    def passes(self, words: Mapping[int, int]) -> bool:
        """Return True if the referee finds nothing in the changed code that was not there before."""
        return _keys(self.run(self.code(words))) <= self.known

    def code(self, words: Mapping[int, int]) -> CodeObject:
        """The code object with other words at some dwords of its text."""
        return patched(self.subject.code, {self.outcome.address(i): word for i, word in words.items()})

    # ------------------------------------------------------------ the search

    def advised(self) -> Advised:
        """All of the advice, proven together."""
        groups = self.streams.barriers()
        waits = [i for i in self.executed if self.program.mnemonic(i) == "s_waitcnt"]
        changes: list[_Change] = []
        for group in groups:
            change = dict.fromkeys(sorted(group), S_NOP)
            changes += [change] if self.passes(_joined([*changes, change])) else []
        counters = (LGKM,) if self._caches() else (VECTOR, LGKM)
        for index in waits:
            wait = Wait.at(self.program, index)
            for counter in counters:
                wait = self._loosened(_joined(changes), index, wait, counter)
            changes += [{index: wait.word}] if wait != Wait.at(self.program, index) else []
        while changes and not self._proven(_joined(changes)):
            changes.pop()
        cost, unpredicted = self._cost()
        before = cost.cycles() if cost else None
        advice = tuple(self._advice(change, cost, before) for change in changes)
        after = cost.cycles(self._instructions(_joined(changes))) if cost else None
        cycles = (before, after) if before is not None and after is not None else None
        words = {self.outcome.address(i): word for i, word in _joined(changes).items()}
        return Advised(advice, len(waits), len(groups), cycles, (*self._conditions(), *unpredicted), words)

    def _loosened(self, words: Mapping[int, int], index: int, wait: Wait, counter: str) -> Wait:
        """The wait with the largest count that is enough, beside other changes; most need what they have."""
        least, never = wait.count(counter), NEVER[counter]

        def enough(count: int) -> bool:
            return self.passes({**words, index: wait.allowing(counter, count).word})

        if least == never or not enough(least + 1):
            return wait
        if enough(never):
            return wait.allowing(counter, never)
        good, bad = least + 1, never
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (middle, bad) if enough(middle) else (good, middle)
        return wait.allowing(counter, good)

    def _proven(self, words: Mapping[int, int]) -> bool:
        again = sanitize(
            replace(self.subject, code=self.code(words), bounded=None),
            self.launch,
            schedules=self.schedules,
            blocks=self.blocks,
            budget=self.budget,
            workers=self.workers,
        )
        return again.clean and len(again.diagnostics) <= len(self.verdict.diagnostics)

    def _caches(self) -> bool:
        return any(self.program.mnemonic(i).startswith(_CACHES) for i in self.executed)

    def _conditions(self) -> list[str]:
        """Of what the advice depends beside the code."""
        notes = []
        if self._caches():
            notes.append(
                "waits for vector memory are not analyzed, because caches are written back or invalidated next to them"
            )
        for header, passes in sorted(self.streams.loops().items()):
            if passes < _FEW_PASSES:
                place, _ = self._place(header)
                notes.append(
                    f"the loop at {place} ran {passes} times: more iterations may need waits that these do not"
                )
        return notes

    # ------------------------------------------------------------ what is said of it

    def _place(self, index: int) -> tuple[str, str]:
        address = self.outcome.address(index)
        place = place_of(self.subject, address)
        if place is None:
            return f"{address:#x}", ""
        span = span_of(self.subject, place)
        return f"{span.file.name}:{span.line}", span.text

    def _advice(self, change: _Change, cost: LoopCost | None, before: float | None) -> Advice:
        first = next(iter(change))
        place, source = self._place(first)
        saved = None
        if cost is not None and before is not None:
            saved = before - cost.cycles(self._instructions(change))
        addresses = tuple(self.outcome.address(i) for i in change)
        if self.program.mnemonic(first) == "s_barrier":
            now = "s_barrier" if len(change) == 1 else f"s_barrier at {len(change)} places, which belong together"
            reason = "no two waves access the same bytes before and after it with at least one write"
            return Advice(addresses, place, source, now, "no barrier", reason, saved)
        wait, enough = Wait.at(self.program, first), self._wait(change, first)
        loosened = [c for c in (VECTOR, LGKM) if wait.count(c) != enough.count(c)]
        reason = "; ".join(self._reason(first, counter, enough.count(counter)) for counter in loosened)
        return Advice(addresses, place, source, str(wait), str(enough), reason, saved)

    def _wait(self, change: _Change, index: int) -> Wait:
        """The wait that a change puts at a dword."""
        program = self.code(change).program
        return NOTHING if program.mnemonic(index) == "s_nop" else Wait.at(program, index)

    def _reason(self, index: int, counter: str, enough: int) -> str:
        found = self.streams.released(index, counter, enough)
        if found is None:
            return f"{counter}: no operation is in flight that it would wait for"
        text = self.streams.text
        what = text(found.access) if found.count == 1 else f"{found.count} accesses, among them {text(found.access)}"
        if found.user is None:
            return f"{counter}: it waits for {what}, which no later instruction needs before another wait"
        place = self._place(found.user)[0] if self.subject.places else ""
        where = f" ({place})" if place else ""
        behind = f"{found.distance} instruction{'s' if found.distance != 1 else ''} after the wait"
        return f"{counter}: it waits for {what}, first needed by {text(found.user)}{where}, {behind}"

    # ------------------------------------------------------------ what it costs

    def _cost(self) -> tuple[LoopCost | None, tuple[str, ...]]:
        try:
            return self._predicted(), ()
        except (PredictError, ToolchainError, KeyError) as error:
            return None, (f"nothing is predicted: {error}",)

    def _predicted(self) -> LoopCost:
        code, kernel = self.subject.code, self.outcome.kernel
        target = load_target(code.target)
        threads = self.launch.block[0] * self.launch.block[1] * self.launch.block[2]
        waves = -(-threads // 64)
        resources = read_resources(code.elf)[kernel.name]
        lds = kernel.descriptor.group_bytes + self.launch.lds_bytes
        fit = target.occupancy(resources.vgpr, lds, waves, resources.agpr).blocks_per_cu
        return LoopCost.of(
            lambda limit: self.run(code, TraceRequest(limit=limit), limit), kernel.name, waves, fit, target
        )

    def _instructions(self, change: _Change) -> dict[int, Instruction]:
        """The changed instructions as the timing model takes them."""
        made = {}
        for index in change:
            wait = self._wait(change, index)
            vector, lgkm = (wait.count(c) if wait.count(c) != NEVER[c] else None for c in (VECTOR, LGKM))
            unit = Unit.WAIT if wait.waits else Unit.NOP
            made[index] = Instruction(unit, vector=vector, lgkm=lgkm, address=index)
        return made


def _joined(changes: Sequence[_Change]) -> dict[int, int]:
    return {index: word for change in changes for index, word in change.items()}


def _keys(outcome: Outcome) -> frozenset[_Key]:
    """Return the findings, each with its instructions; a run that did not end is a finding, too."""
    found: set[_Key] = {(f.kind, f.first.address, f.second and f.second.address) for f in outcome.findings}
    return frozenset(found | (set() if outcome.completed else {("stopped",)}))


_WIDTH = 120
_SOURCE = 60  # characters of a line of it


def advice_text(advised: Advised) -> str:
    """A table, a row and a reason for each change, and what all of them are predicted to save."""
    found = advised.advice
    looked = f"{count_text(advised.waits, 'wait')} and {count_text(advised.barriers, 'barrier')} looked at"
    notes = [f"note: {note}" for note in advised.notes]
    if not found:
        return "\n".join([f"advice: none; {looked}" if advised.waits or advised.barriers else "advice: none", *notes])
    head = (
        f"advice: {len(found)} of {looked} can be weaker; the referee finds no fault when all of them are changed "
        "together"
    )
    lines = [head, *_table(advised)]
    for number, one in enumerate(found, 1):
        source = textwrap.shorten(one.source, _SOURCE, placeholder="...")
        said = f"{number}: {source + ': ' if source else ''}{one.reason}"
        lines += textwrap.wrap(said, _WIDTH, subsequent_indent="   ", break_long_words=False, break_on_hyphens=False)
    if advised.cycles is not None:
        before, after = advised.cycles
        change = f"{before:.0f} -> {after:.0f} cycles per iteration of the main loop{_percent(before, after)}"
        lines.append(f"all together, predicted: {change}")
    return "\n".join([*lines, *notes])


def _table(advised: Advised) -> list[str]:
    headings = ("", "at", "address", "is", "enough", ">cycles a pass, predicted")
    return table_text(headings, (
        (str(number), one.place, f"{one.addresses[0]:#x}", one.now, one.enough, _saved(one, advised))
        for number, one in enumerate(advised.advice, 1)
    ))  # fmt: skip


def _saved(one: Advice, advised: Advised) -> str:
    if one.saved is None or advised.cycles is None:
        return "-"
    before, _ = advised.cycles
    return f"{round(-one.saved):+}{_percent(before, before - one.saved)}" if round(one.saved) else "0"


def _percent(before: float, after: float) -> str:
    return f" ({100 * (after - before) / before:+.1f} %)" if before else ""


def advice_json(advised: Advised) -> dict[str, Any]:
    """The same as plain data; cycles are predictions, of an iteration of the main loop."""
    before, after = advised.cycles or (None, None)
    return {
        "advice": [
            {
                "addresses": list(one.addresses),
                "place": one.place,
                "source": one.source,
                "is": one.now,
                "enough": one.enough,
                "reason": one.reason,
                "predicted_cycles_saved": one.saved,
            }
            for one in advised.advice
        ],
        "waits": advised.waits,
        "barriers": advised.barriers,
        "predicted_cycles_per_pass": {"before": before, "after": after},
        "notes": list(advised.notes),
    }
