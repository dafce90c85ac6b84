"""Mutants of the steps of loops that multiply what they made of products, and the emulator as their referee.

for mutant in mutants(spec):
    mutant.kind, mutant.what, mutant.spec
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
from tkgen.schedule.loop_program import bring, product_of, ring_of, rings_of, write
from tkgen.schedule.loop_steps import unproven
from tkgen.schedule.loop_terms import unlike
from tkgen.schedule.loops import LoopMap
from tkgen.sequence.spec import SequenceSpec
from tkgen.tile.ops import Barrier, Copy, Equations, Fetch, Move, Read, Share, SharedStore, Write
from tkgen.tile.program import Op, Part, Role

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
    "linear_attention": {"HEADS": 1, "LENGTH": 200, "D": 64, "E": 64},
}


@dataclass(frozen=True)
class LoopMutant:
    """`kind` as the benchmark counts them, `what` in words; `spec` has the mutated steps."""

    kind: str
    what: str
    spec: Spec


def small(path: Path) -> dict[str, Spec]:
    """The kernels of the spec that are such loops, by name, at sizes that run soon; none where no such are known."""
    if path.stem not in SIZES:
        return {}
    spec = load(path, SIZES[path.stem])
    if isinstance(spec, SequenceSpec):
        return {f"{path.stem}/{k.name}": k.check() for k in spec.kernels if k.form is FUSED}
    assert isinstance(spec, Spec)
    return {path.stem: spec.check()}


def with_steps(spec: Spec, part: Part, steps: tuple[Op, ...]) -> Spec:
    """The spec with other steps in a part of its schedule."""
    changed = replace(spec)
    changed.__dict__.update(layout=spec.layout, schedule=spec.schedule.with_ops(part, steps))
    return changed


def mutants(spec: Spec) -> Iterator[LoopMutant]:
    """All mutants of the steps, in a fixed order."""
    wave: Role = spec.schedule
    for part in (Part.PROLOGUE, Part.BODY):
        steps = wave.ops(part)
        for n, step in enumerate(steps):
            word = WORDS.get(type(step), type(step).__name__.lower())
            where = f"{_named(step, word)} at {n} of the {part.value}"
            before, behind = steps[:n], steps[n + 1 :]
            changed = [(f"drop {word}", (*before, *behind))]
            if not isinstance(step, Read):  # it declares what it reads to: twice it is no C++
                changed.append((f"duplicate {word}", (*before, step, step, *behind)))
            if behind:
                changed.append(("swap steps", (*before, behind[0], step, *behind[1:])))
            changed += [(kind, (*before, other, *behind)) for kind, other in _other(spec.layout, step)]
            for kind, edited in changed:
                yield LoopMutant(kind, where, with_steps(spec, part, edited))


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


def _other(m: LoopMap, step: Op) -> Iterator[tuple[str, Op]]:
    """Steps that do something else."""
    match step:
        case Fetch() | Copy() | Write():
            ring, ahead, make = ring_of(step), step.offset, write if isinstance(step, Write) else bring
            yield "shift step", make(m, ring, ahead + 1)
            if ahead:
                yield "shift step", make(m, ring, ahead - 1)
            yield "other ring", make(m, (ring + 1) % len(m.moving), ahead)
        case Equations() if step.last - step.first > 1:
            yield "leave out operation", replace(step, last=step.last - 1)
            yield "leave out operation", replace(step, first=step.first + 1)


class LoopReferee(RowReferee):
    """Says what is wrong with the steps of one spec."""

    @property
    def original(self) -> Spec:
        """The spec."""
        return self.spec

    def written(self, changed: Spec) -> str:
        """The C++."""
        lowering = LoopLowering(changed.layout, changed.schedule)
        return lowering.source(changed.target, occupancy=changed.program.occupancy).text

    def rejected(self, changed: Spec) -> tuple[str, ...]:
        """The proofs, of both, that find something."""
        made = changed.layout, changed.schedule
        races, terms = unproven(*made, changed.target.synchronisation), unlike(*made)
        return ("races",) * bool(races) + ("terms",) * bool(terms)

    def patched(self, changed: Spec) -> Spec:
        """The same spec."""
        return changed
