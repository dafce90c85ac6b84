"""Every kernel that a HIP program launches under the referee (`tkgen emulate --sanitize -- ./program`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tkgen.diagnostics import Diagnostic, Severity
from tkgen.emulate import Arg, EmulateError
from tkgen.emulate.session import Allocation, Kind, Launch, Launcher, Result
from tkgen.sanitize import subject as subjects
from tkgen.sanitize.arguments import Arguments
from tkgen.sanitize.referee import sanitize


@dataclass
class Refereed:
    """A launcher that first watches each launch on `schedules` interleavings, and then runs it with `plain`.

    `tell` gets what is found, each diagnostic once, however many launches have it. `errors` and `launches` count.
    """

    name: str
    plain: Launcher
    tell: Callable[[Sequence[Diagnostic]], None]
    schedules: int = 5
    budget: int = 50_000_000
    workers: int = 1
    errors: int = 0
    launches: int = 0
    instructions: int = 0
    _told: set[tuple[object, ...]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, what: Launch) -> Result:
        """Watch and run a launch. The program goes on from the state that the plain run leaves."""
        before = _Memory(what)

        def make() -> Sequence[Arg]:
            before.restore()
            return what.args()

        subject = subjects.Subject(self.name, what.module.code, folder=Path(self.name).parent)
        launch = subjects.Launch(
            what.grid, what.block, Arguments(make), what.lds_bytes, what.kernel.name, what.resident, what.cooperative
        )
        try:
            verdict = sanitize(subject, launch, schedules=self.schedules, budget=self.budget, workers=self.workers)
        except EmulateError as error:
            return Result(stopped=f"{what.kernel.name}: {error}")
        before.restore()
        with self._lock:
            self.launches += 1
            self.instructions += verdict.instructions
            fresh = [d for d in verdict.diagnostics if self._new(d)]
            self.errors += sum(d.severity is Severity.ERROR for d in fresh)
            self.tell(fresh)
        return self.plain(what)

    def _new(self, found: Diagnostic) -> bool:
        at = found.primary
        key = (found.code, found.message) if at is None else (found.code, at.span.file.name, at.span.start)
        if key in self._told:
            return False
        self._told.add(key)
        return True


class _Memory:
    """All memory of the GPU as it is before a launch."""

    def __init__(self, what: Launch):
        self.shared, self.memory = what.shared, what.memory
        self.kept = [(a, what.shared.written(a.offset, a.size)) for a in _distinct(what.memory)]

    def restore(self) -> None:
        """Bring it back."""
        for allocation, parts in self.kept:
            for place, data in self.shared.written(allocation.offset, allocation.size):
                self.shared.part(place, len(data))[:] = 0
            for place, data in parts:
                self.shared.all[place : place + len(data)] = memoryview(data)


def _distinct(memory: Sequence[Allocation]) -> list[Allocation]:
    """Registered host memory is part of an allocation that is there, too."""
    return [a for a in memory if a.kind is not Kind.REGISTERED]
