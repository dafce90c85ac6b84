"""The invariants of every plan, right or wrong, on which the proof, the checks and lowering rely.

`verify` raises `Broken` (see `tkgen.ir.verifier`): a mistake of tkgen. That a plan is right - no race, every product
once - is not said here: that is proven (`tkgen.schedule.epochs`, `stored`), and a written one may be wrong. The rules:

    waves      the programs' waves are those of the block, each once, in the role that they have
    ops        each operation names what there is
    steps      moves and products of the prologue count K-steps from the first, the loop's from its variable, the
               epilogue's from the last
    barriers   where tkgen placed the barriers, all waves meet equally often in prologue, loop and epilogue
    waits      a wait that tkgen placed leaves fewer operations in flight than its counter counts
    rounds     who stores has reduced each round of the epilogue once, in order, and gathered what waves share of it
"""

from __future__ import annotations

from collections.abc import Sequence

from tkgen.ir.program_verifier import fits
from tkgen.ir.reductions import rounds
from tkgen.ir.types import Program
from tkgen.ir.verifier import Broken
from tkgen.targets import Target
from tkgen.tile.ops import Gather, Move, Multiply, Reduce, Store, barriers
from tkgen.tile.program import END, Drain, K, Op, Part, Role


def verify(program: Program, target: Target, waves: Sequence[Role], placed: bool) -> None:
    """Raises Broken for the first rule that does not hold; `placed` says that all barriers are tkgen's."""

    def fail(rule: str, where: object) -> None:
        raise Broken(program.name, "plan", rule, str(where))

    roles = {wave: role.name for role in program.roles for wave in role.waves}
    if sorted((wave, w.name) for w in waves for wave in w.waves) != sorted(roles.items()):
        fail("waves", [w.waves for w in waves])
    counters = target.synchronisation.counters
    for wave in waves:
        if unreduced := _unreduced(program, wave):
            fail("rounds", unreduced)
        for base, part in zip(("", K, END), Part, strict=True):
            for op in wave.ops(part):
                if not fits(program, op):
                    fail("ops", op)
                if isinstance(op, Move | Multiply) and (op.at != base or (not base and op.offset < 0)):
                    fail("steps", op)
                if isinstance(op, Drain) and op.automatic and op.count >= counters[op.stream]:
                    fail("waits", op)
    if placed and len({tuple(barriers(segment) for segment in w.parts) for w in waves}) > 1:
        fail("meetings", waves[0].name)


def _unreduced(program: Program, wave: Role) -> Op | None:
    """The first operation of a wave's epilogue that comes before the rounds which it needs are done."""
    every, reduced, done = rounds(program), 0, 0
    for at in wave.ops(Part.EPILOGUE):
        match at:
            case Reduce(round=number):
                if number != reduced or done != reduced:
                    return at
                reduced += 1
                done += every[number].exchange is None
            case Gather(round=number):
                if number >= reduced:
                    return at
                done = max(done, number + 1)
            case Store() if done != len(every):
                return at
    return None
