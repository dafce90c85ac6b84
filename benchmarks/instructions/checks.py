"""All families of instructions, on all targets: which opcodes agree with their text, and which do not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from instructions import control, lds, machine, matrix, memory, order, registers, scalar, vector, vector_cases
from instructions.machine import State
from instructions.table import TARGETS, Opcode, opcodes
from tkgen.emulate.decode import Encoding

E = Encoding
VECTOR = (E.VOP1, E.VOP2, E.VOPC, E.VOP3, E.VOP3P)
SCALAR = (E.SOP1, E.SOP2, E.SOPC, E.SOPK)
TEXT, FORMULA, ORDER = "text", "formula", "order"


@dataclass
class Record:
    """The result for one opcode: cases by target, differences in words."""

    opcode: Opcode
    cases: Counter[str] = field(default_factory=Counter)
    forms: set[str] = field(default_factory=set)
    wrong: Counter[str] = field(default_factory=Counter)
    samples: list[str] = field(default_factory=list)

    @property
    def by(self) -> str:
        """The comparison: with a TEXT, with a FORMULA, or ORDER for one without a result."""
        name = self.opcode.name
        if order.purpose(name):
            return ORDER
        if self.opcode.encoding is E.MFMA or registers.ACCUMULATORS.match(name) or registers.CLOCKS.match(name):
            return FORMULA
        return FORMULA if of_lds(self.opcode) else TEXT

    def note(self, target: str, form: str, words: Sequence[int], found: Sequence[str]) -> None:
        """Count a case, and keep what differs."""
        self.cases[target] += 1
        self.forms.add(form)
        if found:
            self.wrong[target] += 1
            code = " ".join(f"{w:08x}" for w in words)
            self.samples.append(f"{target} {form} [{code}] {'; '.join(found[:2])}")

    @property
    def key(self) -> tuple[str, str]:
        return self.opcode.encoding.name, self.opcode.name


def of_lds(opcode: Opcode) -> bool:
    """Return True for an instruction that `lds` alone compares; buffer loads are compared there, too."""
    return lds.models(opcode) is not None and opcode.encoding is not E.MUBUF


def flavour(target: str) -> str:
    return "ocp" if target == "gfx950" else "fnuz"


def records(chosen: Iterable[Opcode] | None = None, targets: Sequence[str] = TARGETS, count: int = 7) -> list[Record]:
    """Compare the opcodes; `count` cases for each form of one."""
    made = [Record(o) for o in (opcodes() if chosen is None else chosen)]
    order.compare([r for r in made if r.by == ORDER], targets, count)
    lds.compare([r for r in made if lds.models(r.opcode)], targets, 2 * count)
    registers.compare([r for r in made if registers.programs(r.opcode)], targets, 2 * count)
    compared = [r for r in made if r.by != ORDER and not of_lds(r.opcode) and not registers.programs(r.opcode)]

    def some(encodings: Iterable[Encoding]) -> list[Record]:
        return [r for r in compared if r.opcode.encoding in encodings]

    compare(some(VECTOR), targets, lambda o: vector_cases.uses(o, count), of_vector)
    programs = [r for r in compared if control.JUMPS.match(r.opcode.name) or control.LOADS.match(r.opcode.name)]
    control.compare(programs, targets, 2 * count)
    compared = [r for r in compared if r not in programs]
    compare(some(SCALAR), targets, lambda o: scalar.uses(o, 2 * count), of_scalar)
    memory.compare(some(memory.ENCODINGS), targets, count)
    matrix.compare(some((E.MFMA,)), targets, count)
    return made


def of_vector(use: vector.Use, before: State, target: str, known: dict[str, Any]) -> Callable[[State], list[str]]:
    eight = re.search(r"[fb][pf]8", use.opcode.text or "")
    key = flavour(target) if eight else "all"
    if key not in known:
        known[key] = vector.expected(use, before, flavour(target))
    return lambda got: vector.differences(use, got, known[key])


def of_scalar(use: scalar.ScalarUse, before: State, target: str, known: dict[str, Any]) -> Callable[[State], list[str]]:
    if not known:
        known["all"] = scalar.expected(use, before)
    return lambda got: scalar.differences(got, known["all"])


def compare(
    some: list[Record],
    targets: Sequence[str],
    uses: Callable[[Opcode], Iterator[tuple[Any, list[int], State]]],
    judge: Callable[[Any, State, str, dict[str, Any]], Callable[[State], list[str]]],
) -> None:
    """Run the cases of some opcodes on each target, and note what differs."""
    cases = [(record, *case, {}) for record in some for case in uses(record.opcode)]
    for target in targets:
        mine = [c for c in cases if target in c[0].opcode.targets]
        for (record, use, words, before, known), got in zip(
            mine, machine.run([(words, before) for _, _, words, before, _ in mine], target), strict=True
        ):
            record.note(target, getattr(use, "form", ""), words, judge(use, before, target, known)(got))
