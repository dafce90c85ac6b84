"""The properties of a schedule with a name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tkgen.ir.types import PhaseShift, Program
    from tkgen.targets import Target
    from tkgen.tile.program import Op


@dataclass(frozen=True)
class IterationOrder:
    """The operations of one K-step in sequential order, each with the name of its role, and the phases of the waves.

    Where it is `paced`, its barriers and waits are among the operations; otherwise the compiler places them.
    """

    ops: Sequence[tuple[str, Op]]
    paced: bool = False
    phases: tuple[PhaseShift, ...] = ()


@dataclass(frozen=True)
class NamedSchedule:
    """A schedule that a spec asks for by its name.

    For kernels that sum products, `order` makes one K-step. `obstacle` says why it cannot be made for a program, and
    `slower` why it is predicted to be slower than `simple`; both return an empty text where nothing speaks against it.
    `schedule auto` takes the first schedule with a `reason` that nothing speaks against, by `position`, and gives this
    reason; a schedule without one must be asked for by its name.

    In attention-like loops, `ahead` computes the first product of the next iteration in this one.

    A schedule that `alternates` divides the waves of each SIMD into two groups: one multiplies while the other does
    everything else, so there are two waves to a SIMD; attention-like loops run ahead, too. On machines whose warpgroups
    multiply, these take turns.
    """

    name: str
    doc: str
    position: int
    order: Callable[[Program], IterationOrder]
    obstacle: Callable[[Program], str] = lambda program: ""
    slower: Callable[[Program, Target], str] = lambda program, target: ""
    reason: str = ""
    ahead: bool = False
    alternates: bool = False
