"""All kernels of a folder of code objects under the referee, without being told launches: `tkgen sanitize FOLDER`.

Of each kernel the wait states are checked in all of its code, and what its launch executes is watched: waits for
registers, races and initialisation of LDS, barriers, in the launches that `guess` makes. A kernel of which no launch
runs to its end is `not run`, with the reason, and one of which less than `MOST` of the code was executed is `partly`:
neither is ever called clean.

Findings in global memory are left out: extents and strides there are guessed. So are those of launches that did not
end, but for wait states.
"""

from __future__ import annotations

import io
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from elftools.elf.elffile import ELFFile

from tkgen.diagnostics import Diagnostic, Severity
from tkgen.diagnostics.machine import to_json
from tkgen.diagnostics.text import count_text, table_text
from tkgen.emulate import CodeObject, EmulateError, Finding, Interleaving, Kernel, Kind, Outcome, Space
from tkgen.emulate import launch as emulate
from tkgen.emulate import load as load_code
from tkgen.emulate.bundle import targets
from tkgen.emulate.code_object import BROKEN
from tkgen.emulate.decode import TARGETS
from tkgen.emulate.reach import reachable
from tkgen.sanitize import triton
from tkgen.sanitize.guess import NUMBERS, GuessedValues, Shape, arguments, described, pointers_of, shape_of
from tkgen.sanitize.report import Seen, diagnostics
from tkgen.sanitize.subject import Subject, is_code_object
from tkgen.sanitize.triton import Compiled
from tkgen.targets import load_target

FINDINGS, WAIT_STATES, CLEAN, PARTLY, NOT_RUN = "findings", "wait states", "clean", "partly", "not run"
_TOO_CLOSE: Final = "E714"
MOST: Final = 0.8  # of a kernel's instructions, from which on it counts as run
_ENOUGH: Final = 0.97  # from which on no other numbers are tried
_BUDGET: Final = 1 << 22  # instructions of a block
_LATE: Final = 2  # launches that do not end, after which no other number is tried
# What a guessed launch shows wherever its numbers come from.
_COUNTED: Final = frozenset({
    Kind.RACE, Kind.LANE_RACE, Kind.READ_BEFORE_WAIT, Kind.OVERWRITE_BEFORE_WAIT, Kind.WAIT_STATES,
    Kind.DIVERGENT_BARRIER, Kind.BARRIER_COUNT, Kind.UNINITIALISED_LDS, Kind.UNINITIALISED_REGISTER,
    Kind.LDS_OUT_OF_BOUNDS,
})  # fmt: skip
_FAT: Final = ".hip_fatbin"
_MAGIC: Final = (b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB")


@dataclass(frozen=True)
class Row:
    """A kernel, how it was launched, and what was seen.

    `result` is `findings`, `wait states` where these are all, `clean`, `partly` or `not run`; `reason` explains the
    last two. `executed` is the part of the
    kernel's instructions that launches that ran to their end executed, from 0 to 1. `left_out` counts findings in
    global memory.
    """

    file: str
    kernel: str
    target: str
    launch: str
    arguments: str
    result: str
    reason: str = ""
    executed: float = 0.0
    diagnostics: tuple[Diagnostic, ...] = ()
    left_out: int = 0
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        plain = {name: value for name, value in vars(self).items() if name != "diagnostics"}
        rounded = {"executed": round(self.executed, 3), "seconds": round(self.seconds, 2)}
        return plain | rounded | {"diagnostics": [to_json(d) for d in self.diagnostics]}

    @property
    def checked(self) -> str:
        """The checks that were made, in words."""
        if not self.executed:
            return "wait states" if self.launch else "nothing"
        return "wait states, waits, barriers, LDS"

    @property
    def said(self) -> str:
        """The result in a few words."""
        codes = Counter(d.code for d in self.diagnostics)
        found = ", ".join(f"{code} x{count}" if count > 1 else code for code, count in sorted(codes.items()))
        return (found or self.result) + (f": {self.reason}" if self.reason else "")


def sweep(folder: Path, progress: Callable[[str], None] | None = None) -> Iterator[Row]:
    """A row for each kernel of each code object below `folder`, in the order of file names.

    `progress` is told each file. A file that cannot be read is a row without a kernel. Raises OSError where the folder
    cannot be read.
    """
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = str(path.relative_to(folder))
        try:
            if not is_code_object(path):
                continue
            if progress is not None:
                progress(name)
            yield from _file(path, name)
        except OSError as error:
            yield Row(name, "", "", "", "", NOT_RUN, f"cannot read it: {error.strerror}")


def _file(path: Path, name: str) -> Iterator[Row]:
    for code in _codes(path, name):
        if isinstance(code, Row):
            yield code
            continue
        compiled = triton.beside(path)
        subject = Subject(name, triton.named(code, compiled) if compiled else code, folder=path.parent)
        for kernel in subject.code.kernels:
            yield watched(subject, kernel, compiled)


def _codes(path: Path, name: str) -> Iterator[CodeObject | Row]:
    """The code objects in a file for GPUs that the emulator knows; a row for each that cannot be loaded."""
    data = path.read_bytes()
    for part in [data] if data.startswith(_MAGIC) else _embedded(data):
        try:
            found = targets(part, name)
        except (EmulateError, *BROKEN) as error:
            yield Row(name, "", "", "", "", NOT_RUN, str(error))
            continue
        known = [t for t in dict.fromkeys(found) if t in TARGETS]
        if found and not known:
            yield Row(name, "", ", ".join(found), "", "", NOT_RUN, f"no code for {', '.join(TARGETS)}")
        for target in known if found else [None]:
            try:
                code = load_code(part, target=target)
            except EmulateError as error:
                yield Row(name, "", target or "", "", "", NOT_RUN, str(error))
            else:
                yield code


def _embedded(data: bytes) -> list[bytes]:
    """The file itself if it is for AMD's GPUs, or else the bundles in a host file's section of device code."""
    try:
        elf: Any = ELFFile(io.BytesIO(data))
        if elf["e_machine"] in ("EM_AMDGPU", 224):
            return [data]
        section = elf.get_section_by_name(_FAT)
        body = section.data() if section is not None else b""
    except BROKEN:
        return [data]
    starts = sorted(at for magic in _MAGIC for at in _places(body, magic))
    return [body[a:b] for a, b in zip(starts, [*starts[1:], len(body)], strict=True)]


def _places(body: bytes, magic: bytes) -> Iterator[int]:
    """The offsets of bundles, each of which the linker aligns to 4096 bytes."""
    at = body.find(magic)
    while at >= 0:
        if at % 4096 == 0:
            yield at
        at = body.find(magic, at + 1)


# ---------------------------------------------------------------- one kernel


def watched(subject: Subject, kernel: Kernel, compiled: Compiled | None = None) -> Row:
    """The row of one kernel of a code object. `compiled` is what Triton left beside it."""
    start, code = time.perf_counter(), subject.code
    row = Row(subject.name, kernel.name, code.target, "", "", NOT_RUN)
    try:
        kernel = code.kernel(kernel.name)
        shape = shape_of(kernel, compiled)
        lds = max(compiled.lds_bytes - kernel.descriptor.group_bytes, 0) if compiled else 0
        runs = _Runs(subject, kernel, shape, lds)
        runs.search()
    except EmulateError as error:
        return replace(row, reason=str(error), seconds=time.perf_counter() - start)
    found = tuple(map(_with_values, diagnostics(subject, runs.seen, 1)))
    errors = {d.code for d in found if d.severity is Severity.ERROR}
    run = NOT_RUN if not runs.ended else CLEAN if runs.executed >= MOST else PARTLY
    result = FINDINGS if errors - {_TOO_CLOSE} else WAIT_STATES if errors else run
    reason = {NOT_RUN: runs.stopped, PARTLY: f"{runs.executed:.0%} of its code"}.get(run, "")
    return replace(
        row, launch=str(shape), arguments=f"{described(kernel, runs.pointers)}; {runs.given}", result=result,
        reason=reason, executed=runs.executed, diagnostics=found, left_out=runs.left_out,
        seconds=time.perf_counter() - start,
    )  # fmt: skip


def _with_values(found: Diagnostic) -> Diagnostic:
    """The diagnostic, with a note where values decide whether it matters."""
    if "both write" not in found.message:
        return found
    return replace(
        found, notes=(*found.notes, "values are unknown here: if both write the same value, this is harmless")
    )


class _Runs:
    """The launches of a kernel, with one number after another, until nearly all of its code was executed."""

    def __init__(self, subject: Subject, kernel: Kernel, shape: Shape, lds: int):
        self.subject, self.kernel, self.shape, self.lds = subject, kernel, shape, lds
        code = subject.code
        self.code = reachable(code.program, (kernel.entry - code.text[0]) // 4)
        self.pointers = pointers_of(code, kernel, shape)
        self.seen: list[Seen] = []
        self.known: set[tuple[object, ...]] = set()
        self.done: set[int] = set()
        self.ended: list[GuessedValues] = []
        self.stopped, self.left_out, self.late = "", 0, 0

    @property
    def executed(self) -> float:
        """The part of the reachable code that launches that ended executed."""
        return len(self.done & self.code) / max(len(self.code), 1)

    @property
    def given(self) -> str:
        """The arguments of the launches that ended."""
        return "; ".join(map(str, self.ended)) or "none that it ends with"

    def search(self) -> None:
        """Launch with one number after another. Raises EmulateError where it cannot be launched at all."""
        numbers = any(a.kind == "by_value" for a in self.kernel.explicit_arguments)
        for number in NUMBERS if numbers else NUMBERS[:1]:
            kinds = self._try(GuessedValues(number))
            if Kind.DATA_DEPENDENT in kinds:
                self._try(GuessedValues(number, zeros=True))
            if self.executed >= _ENOUGH or self.late == _LATE:
                return

    def _try(self, given: GuessedValues) -> set[Kind]:
        """One launch, and again with all LDS where it reaches beyond its own; the kinds of its findings."""
        outcome = self._launch(given)
        if any(f.kind is Kind.LDS_OUT_OF_BOUNDS for f in outcome.findings):
            most = load_target(self.subject.code.target).lds_bytes_per_block - self.kernel.descriptor.group_bytes
            if self.lds < most:
                self.lds = most
                outcome = self._launch(given)
        executed = {int(i) for i in np.flatnonzero(outcome.counts)}
        if outcome.completed and executed - self.done:
            self.ended.append(given)
            self.done |= executed
        elif not outcome.completed:
            last = next((f for f in reversed(outcome.findings) if f.fatal), None)
            reason = f"{last.kind.value}: {last.message}" if last else "it did not end"
            self.stopped = reason if given.zeros else self.stopped or reason
            self.late += last is None or last.kind in (Kind.BUDGET, Kind.DEADLOCK)
        for finding in outcome.findings:
            if outcome.completed or finding.kind is Kind.WAIT_STATES:
                self._add(finding, outcome, given)
        return {f.kind for f in outcome.findings}

    def _add(self, finding: Finding, outcome: Outcome, given: GuessedValues) -> None:
        if finding.kind not in _COUNTED or finding.space is Space.GLOBAL:
            self.left_out += finding.space is Space.GLOBAL
            return
        key = (finding.kind, finding.first.address, finding.second and finding.second.address)
        if key not in self.known:
            self.known.add(key)
            self.seen.append(Seen(f"{Interleaving()}, {given}", finding, outcome))

    def _launch(self, given: GuessedValues) -> Outcome:
        return emulate(
            self.subject.code, args=arguments(self.kernel, given, self.pointers), kernel=self.kernel.name,
            grid=self.shape.grid, block=self.shape.block, lds_bytes=self.lds, blocks=self.shape.blocks, watch=True,
            budget=_BUDGET,
        )  # fmt: skip


# ---------------------------------------------------------------- what is said


_NAME = 52  # characters of a kernel's name


def table(rows: Sequence[Row]) -> str:
    """A line for each kernel, and a line with how many have which result."""
    headings = ("file", "kernel", "target", "launch", "checked", ">code run", "result")
    lines = table_text(headings, (
        (r.file, _short(r.kernel), r.target, r.launch.partition(" (")[0], r.checked,
         f"{r.executed:.0%}" if r.executed else "-", r.said)
        for r in rows
    ))  # fmt: skip
    return "\n".join([*lines, summary(rows)])


def _short(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - 3]}..."


def summary(rows: Sequence[Row]) -> str:
    """The number of kernels with each result."""
    counts = Counter(r.result for r in rows)
    words = {
        FINDINGS: "with findings",
        WAIT_STATES: "with too few wait states alone",
        CLEAN: "clean",
        PARTLY: "run partly",
        NOT_RUN: "not run",
    }
    parts = [f"{counts[result]} {text}" for result, text in words.items() if counts[result]]
    return f"{count_text(len(rows), 'kernel')}: {', '.join(parts)}" if rows else "no code object"
