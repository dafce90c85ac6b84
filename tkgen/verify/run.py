"""Machine code over payloads beside its meaning: draws, launches, verdicts.

A `Case` is a kernel at sizes, whoever wrote it: how inputs are drawn, what the machine code stores, what is meant. Each
draw has other inputs, other payloads and another schedule of the waves. An element is verified when it equals what is
meant in a draw; where it differs and what is meant hangs on a choice that rounding leaves open, another draw decides.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Protocol

import torch
from torch import Tensor

from tkgen.emulate import Interleaving, interleavings
from tkgen.emulate.algebra import Loss
from tkgen.emulate.findings import Finding
from tkgen.execute.launch import Payload
from tkgen.ir import tensors
from tkgen.ir.rounding import numbers
from tkgen.verify import payloads
from tkgen.verify.cause import Cause, Wrong
from tkgen.verify.compare import Judged, by_number, by_rounding, judged, where
from tkgen.verify.field import P
from tkgen.verify.ring import Ring

MORE = 10  # draws beside those asked for, where choices are open


@dataclass(frozen=True)
class Drawn:
    """Inputs as memory holds them, and the numbers in them with their payloads."""

    memory: Mapping[str, Tensor]
    rings: Mapping[str, Ring]


@dataclass(frozen=True)
class Stored:
    """The results of a launch: outputs as memory holds them, the payloads of those that have some, the lost ones."""

    memory: Mapping[str, Tensor]
    payloads: Mapping[str, Payload]
    lost: tuple[Loss, ...]
    findings: tuple[Finding, ...]
    instructions: int
    printed: str = ""


@dataclass(frozen=True)
class Case:
    """A kernel at sizes. `outputs` are what is compared; `degree` is that of the meaning, a polynomial or a quotient of
    polynomials of the inputs, None where it has powers, roots or logarithms."""

    name: str
    sizes: Mapping[str, int]
    outputs: tuple[tensors.Tensor, ...]
    draw: Callable[[int], Drawn]
    machine: Callable[[Drawn, Interleaving], Stored]
    meaning: Callable[[Drawn], Mapping[str, Ring]]
    degree: int | None = None
    note: str = ""
    sums: Callable[[Drawn], Sequence[Sum]] | None = None  # of which outputs are made
    others: tuple[Callable[[Drawn], Mapping[str, Ring]], ...] = ()  # that mean the same, with other constants


class Sum(Protocol):
    """A sum of products that an output is made of (`tkgen.verify.terms`)."""

    @property
    def output(self) -> str:
        """The output's name."""

    def rows(self, place: Sequence[int]) -> tuple[list[Tensor], list[Tensor]]:
        """Of an element, the terms' two factors, in both fields."""

    def scales(self, place: tuple[int, ...]) -> Iterable[tuple[int, int]]:
        """By what the sum may be multiplied in the output, in both fields."""

    def along(self, run: tuple[int, int]) -> str:
        """Terms from one to another in words."""

    def text(self, place: Sequence[int], left: tuple[int, int], right: tuple[int, int]) -> str:
        """Such products in words: these terms of one operand with those of the other."""


@dataclass(frozen=True)
class Trial:
    """One launch: how many elements are right, wrong, undecided."""

    schedule: str
    seed: int
    elements: int
    wrong: int
    undecided: int
    lost: int
    instructions: int
    seconds: float = field(compare=False)


@dataclass(frozen=True)
class Verdict:
    """The result of a case. `wrong` describes the wrong elements of outputs, one entry for each kind of error; `lost`
    the instructions whose results have no payload; `cause` the likely cause.
    """

    name: str
    sizes: Mapping[str, int]
    note: str
    trials: tuple[Trial, ...]
    wrong: tuple[Wrong, ...]
    undecided: Mapping[str, int]  # elements of outputs that no draw decided
    lost: tuple[Loss, ...]
    findings: tuple[Finding, ...]  # what stopped a launch
    degree: int | None
    cause: tuple[Cause, ...] = ()
    printed: str = ""  # by the kernel, in the first draw
    unseen: tuple[str, ...] = ()  # what these sizes cannot show of a spec

    @property
    def ok(self) -> bool:
        """Every element is what was meant."""
        return not (self.wrong or self.undecided or self.findings)

    @property
    def chance(self) -> float:
        """The probability that a wrong element looks right in all draws."""
        return ((self.degree or 1) / P) ** len(self.trials)

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        return {
            "name": self.name, "sizes": dict(self.sizes), "note": self.note, "ok": self.ok,
            "trials": [vars(t) for t in self.trials], "wrong": [w.to_json() for w in self.wrong],
            "undecided": dict(self.undecided), "lost": [asdict(x) for x in self.lost],
            "findings": [f.to_json() for f in self.findings], "cause": [c.to_json() for c in self.cause],
            "degree": self.degree, "chance": self.chance, "printed": self.printed, "unseen": list(self.unseen),
        }  # fmt: skip


@dataclass(frozen=True)
class Difference:
    """The first draw in which something is wrong, for whoever looks for the cause."""

    case: Case
    order: Interleaving
    drawn: Drawn
    meant: Mapping[str, Ring]
    judged: Mapping[str, Judged]


def verified(
    case: Case, draws: int, schedules: int, seed: int, explain: Callable[[Difference], tuple[Cause, ...]] | None = None
) -> Verdict:
    """So many draws, each under another of the schedules; more where choices are open.

    Raises EmulateError where a launch cannot start, UnsupportedError where the meaning has what the algebra has not.
    """
    orders = list(interleavings(schedules))
    least, trials, wrong, lost = max(draws, schedules), list[Trial](), list[Wrong](), dict[Loss, None]()
    proven: dict[str, Tensor] = {}
    cause: tuple[Cause, ...] = ()
    printed = ""
    for number in range(least + MORE):
        if number >= least and all(bool(t.all()) for t in proven.values()):
            break
        order, start = orders[number % len(orders)], time.perf_counter()
        drawn = case.draw(seed + number)
        stored, meant = case.machine(drawn, order), case.meaning(drawn)
        printed = stored.printed if number == 0 else printed
        found = {t.name: _judged(t, stored, meant[t.name]) for t in case.outputs}
        for other in case.others if any(bool(j.wrong.any()) for j in found.values()) else ():
            means = other(drawn)
            fits = {t.name: _judged(t, stored, means[t.name]) for t in case.outputs}
            if _wrong(fits) < _wrong(found):
                case, meant, found = replace(case, meaning=other), means, fits
        seconds = time.perf_counter() - start
        counts = [sum(int(getattr(j, what).sum()) for j in found.values()) for what in ("wrong", "undecided", "lost")]
        elements = sum(j.right.numel() for j in found.values())
        wrongs, undecided, losses = counts
        trials.append(
            Trial(str(order), seed + number, elements, wrongs, undecided, losses, stored.instructions, seconds)
        )
        lost |= dict.fromkeys(stored.lost)
        for t in case.outputs:
            j = found[t.name]
            proven[t.name] = proven.get(t.name, torch.zeros_like(j.right)) | j.right
            if bool(j.wrong.any()):
                wrong += _wrongs(t, j)
        if stored.findings:  # what it left undone is not told
            return replace(_verdict(case, trials, (), {}, (), stored.findings, ()), printed=printed)
        if wrong:
            if explain is not None:
                cause = explain(Difference(case, order, drawn, meant, found))
            return replace(_verdict(case, trials, wrong, {}, tuple(lost), (), cause), printed=printed)
    open_ = {name: int((~t).sum()) for name, t in proven.items() if not bool(t.all())}
    return replace(_verdict(case, trials, wrong, open_, tuple(lost), (), cause), printed=printed)


def _verdict(
    case: Case, trials: Sequence[Trial], wrong: Sequence[Wrong], undecided: Mapping[str, int],
    lost: tuple[Loss, ...], findings: tuple[Finding, ...], cause: tuple[Cause, ...],
) -> Verdict:  # fmt: skip
    told = lost if wrong else ()  # what was lost and did not matter is not told
    return Verdict(
        case.name, case.sizes, case.note, tuple(trials), tuple(wrong), undecided, told, findings, case.degree, cause
    )


def _wrong(found: Mapping[str, Judged]) -> int:
    """The number of wrong elements of all outputs."""
    return sum(int(j.wrong.sum()) for j in found.values())


def _judged(tensor: tensors.Tensor, stored: Stored, meant: Ring) -> Judged:
    """An output, by its payloads or by its numbers."""
    memory = stored.memory[tensor.name]
    if tensor.name not in stored.payloads:
        return by_number(numbers(memory, tensor), meant, tensor.dtype)
    found = payloads.unpacked(stored.payloads[tensor.name], meant.shape)
    if not payloads.carries(tensor):
        return by_rounding(found, numbers(memory, tensor), meant, tensor.dtype)
    plain = None if tensor.dtype.packed else memory
    return judged(found, meant, plain, tensor.dtype)


def _wrongs(tensor: tensors.Tensor, j: Judged) -> Iterator[Wrong]:
    """Yield the wrong elements of an output, by kind of error."""
    names = tuple(d.name for d in tensor.dims)
    kinds = ((j.missing, "never-written"), (j.lost, "lost"), (j.wrong & ~j.missing & ~j.lost, "different"))
    for mask, kind in kinds:
        if bool(mask.any()):
            first = tuple(map(int, mask.nonzero()[0]))
            yield Wrong(tensor.name, kind, int(mask.sum()), mask.numel(), first, where(mask, names))
