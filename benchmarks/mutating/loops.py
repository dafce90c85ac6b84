"""Mutants of the steps of loops that multiply what they made of products, and the emulator as their referee.

for mutant in mutants(steps):
    mutant.kind, mutant.what, mutant.steps
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from mutating.rows import RowReferee
from tkgen.api import load
from tkgen.backends.cdna.fused import FUSED
from tkgen.backends.cdna.lower.loops import LoopLowering
from tkgen.backends.cdna.spec import Spec
from tkgen.schedule.loop_program import LoopSteps, bring, product_of, ring_of, rings_of, write
from tkgen.schedule.loop_steps import unproven
from tkgen.schedule.loop_terms import unlike
from tkgen.sequence.spec import SequenceSpec
from tkgen.tile.ops import Barrier, Copy, Equations, Fetch, Move, Read, Share, SharedStore, Write
from tkgen.tile.program import Op

# Sizes of two tiles of queries and of three and four passes; one head.
SIZES = {
    "attention": {"BATCH": 1, "HEADS": 1, "LENGTH": 256, "D": 64},
    "attention_direct": {"BATCH": 1, "HEADS": 1, "LENGTH": 512, "D": 64},
    "attention_interleaved": {"BATCH": 1, "HEADS": 1, "LENGTH": 256, "D": 64},
    "attention_ping_pong": {"BATCH": 1, "HEADS": 1, "LENGTH": 256, "D": 64},
    "attention_ping_pong_direct": {"BATCH": 1, "HEADS": 1, "LENGTH": 256, "D": 64},
    "attention_window": {"BATCH": 1, "HEADS": 1, "LENGTH": 256, "D": 64, "WINDOW": 100},
    "attention_backward": {"BATCH": 1, "HEADS": 1, "LENGTH": 128, "D": 32},
    "attention_backward_atomic": {"SETS": 1, "GROUP": 1, "LENGTH": 160, "D": 64},
}
PARTS = ("prologue", "body")


@dataclass(frozen=True)
class LoopMutant:
    """`kind` as the benchmark counts them, `what` in words; `steps` are the mutated ones."""

    kind: str
    what: str
    steps: LoopSteps


def small(path: Path) -> dict[str, Spec]:
    """The kernels of the spec that are such loops, by name, at sizes that run soon; none where no such are known."""
    if path.stem not in SIZES:
        return {}
    spec = load(path, SIZES[path.stem])
    if isinstance(spec, SequenceSpec):
        return {f"{path.stem}/{k.name}": k.check() for k in spec.kernels if k.form is FUSED}
    assert isinstance(spec, Spec)
    return {path.stem: spec.check()}


def mutants(made: LoopSteps) -> Iterator[LoopMutant]:
    """All mutants of the steps, in a fixed order."""
    for part in PARTS:
        steps: tuple[Op, ...] = getattr(made, part)
        for n, step in enumerate(steps):
            word = WORDS.get(type(step), type(step).__name__.lower())
            where = f"{_named(step, word)} at {n} of the {part}"
            before, behind = steps[:n], steps[n + 1 :]
            changed = [(f"drop {word}", (*before, *behind))]
            if not isinstance(step, Read):  # it declares what it reads to: twice it is no C++
                changed.append((f"duplicate {word}", (*before, step, step, *behind)))
            if behind:
                changed.append(("swap steps", (*before, behind[0], step, *behind[1:])))
            changed += [(kind, (*before, other, *behind)) for kind, other in _other(made, step)]
            for kind, edited in changed:
                yield LoopMutant(kind, where, replace(made, **{part: edited}))


WORDS = {Copy: "fetch", Equations: "compute", Share: "share", Barrier: "barrier"}


def _named(step: Op, word: str) -> str:
    """A step in a word, with what tells it from others."""
    match step:
        case Read():
            return f"{word} {product_of(step)}, ring {ring_of(step)}, ahead {step.offset},"
        case Move():
            return f"{word} ring {ring_of(step)}, ahead {step.offset},"
        case SharedStore(number=number):
            return f"{word} {number}"
        case Equations():
            part = f" part {step.part} of {step.parts}," if step.parts > 1 else ""
            return f"{word} {step.first}..{step.last}, rings {rings_of(step)}, ahead {step.ahead},{part}"
    return f"{step}"


def _other(made: LoopSteps, step: Op) -> Iterator[tuple[str, Op]]:
    """Steps that do something else."""
    match step:
        case Fetch() | Copy() | Write():
            ring, ahead, make = ring_of(step), step.offset, write if isinstance(step, Write) else bring
            yield "shift step", make(made.map, ring, ahead + 1)
            if ahead:
                yield "shift step", make(made.map, ring, ahead - 1)
            yield "other ring", make(made.map, (ring + 1) % len(made.map.moving), ahead)
        case Equations() if step.last - step.first > 1:
            yield "leave out operation", replace(step, last=step.last - 1)
            yield "leave out operation", replace(step, first=step.first + 1)


class LoopReferee(RowReferee):
    """Says what is wrong with the steps of one spec."""

    @property
    def original(self) -> LoopSteps:
        """Those of the spec."""
        return self.spec.schedule

    def written(self, changed: LoopSteps) -> str:
        """The C++."""
        return LoopLowering(changed).source(self.spec.target, occupancy=self.spec.program.occupancy).text

    def rejected(self, changed: LoopSteps) -> tuple[str, ...]:
        """Which of both proofs finds something."""
        races, terms = unproven(changed, self.spec.target.synchronisation), unlike(changed)
        return ("races",) * bool(races) + ("terms",) * bool(terms)

    def patched(self, changed: LoopSteps) -> Spec:
        """The spec with these steps."""
        spec = replace(self.spec)
        spec.__dict__.update(layout=changed.map, schedule=changed)
        return spec
