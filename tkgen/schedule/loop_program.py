"""The steps of a wave of a loop of equations as data: `tkgen.schedule.loop_steps` says what they are for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tkgen.schedule.loops import LoopMap

PRIORITIES = (0, 1)  # of s_setprio: of a wave that computes, and of one that multiplies


@dataclass(frozen=True)
class Fetch:
    """Global memory to registers, or LDS: this wave's part of the tile of ring `ring`, `ahead` passes further on."""

    ring: int
    ahead: int


@dataclass(frozen=True)
class Write:
    """What was fetched, to LDS."""

    ring: int
    ahead: int


@dataclass(frozen=True)
class Read:
    """The tile of ring `ring`, `ahead` passes further on, to registers, for a later multiplication, `number`."""

    number: int
    ring: int
    ahead: int = 0


@dataclass(frozen=True)
class Compute:
    """Operations `first` to `last` - 1 of the loop's body.

    The last one may be a product, the first one a condition: they read `rings`. `ahead`: of the pass after this one,
    which then finds them done. `part`: of `parts` equal ones along the rows of their tiles.
    """

    first: int
    last: int
    rings: tuple[int, ...] = ()
    ahead: int = 0
    part: int = 0
    parts: int = 1


@dataclass(frozen=True)
class Vote:
    """What this wave says to condition `number`, to ring `ring` of LDS, for the others."""

    number: int
    ring: int


@dataclass(frozen=True)
class Give:
    """What this wave has of the tile of exchange `number`, to ring `ring` of LDS, for the others."""

    number: int
    ring: int


@dataclass(frozen=True)
class Meet:
    """All waves meet, once this wave's accesses to LDS are complete; `landed`: and its direct loads, too.

    `idle`: it has accessed nothing there since the last meeting, so there is nothing to wait for.
    """

    landed: bool = False
    idle: bool = False


@dataclass(frozen=True)
class Priority:
    """The wave's from here on, before those of other waves of its SIMD."""

    level: int


@dataclass(frozen=True)
class Fence:
    """The compiler moves no instruction across."""


@dataclass(frozen=True)
class Mix:
    """A wish for the order of instructions around it: each of `pattern` so many, in turn, so many `times`."""

    pattern: tuple[tuple[str, int], ...]
    times: int


Step = Fetch | Write | Read | Compute | Vote | Give | Meet | Priority | Fence | Mix


@dataclass(frozen=True)
class LoopSteps:
    """The steps of a wave: before the loop, and in a pass of it.

    Waves from number `map.late` on meet the others once more before the loop, and those once more behind it.
    """

    map: LoopMap
    prologue: tuple[Step, ...]
    body: tuple[Step, ...]

    @property
    def meetings(self) -> int:
        """Meetings of a pass."""
        return sum(isinstance(step, Meet) for step in self.body)


def touches(m: LoopMap, step: Step) -> Iterator[tuple[int, bool, int]]:
    """(ring, whether it is written, ahead) of what a step does with LDS."""
    match step:
        case Fetch(ring=ring, ahead=ahead) if m.moving[ring].direct:
            yield ring, True, ahead
        case Write(ring=ring, ahead=ahead):
            yield ring, True, ahead
        case Vote(ring=ring) | Give(ring=ring):
            yield ring, True, 0
        case Read(ring=ring, ahead=ahead):
            yield ring, False, ahead
        case Compute(rings=rings, ahead=ahead):
            yield from ((ring, False, ahead) for ring in rings)
