"""What can be wrong with what waves execute."""

from __future__ import annotations

from dataclasses import dataclass

from tkgen.schedule.traces import Event


@dataclass(frozen=True)
class Conflict:
    """Two operations that the sequential meaning orders and the program does not.

    `kind`: RAW, WAR, WAW (LDS), `unwritten` (a read of a tile nobody loads), `register` (a multiply of a tile that its
    registers do not hold), `staging`, `zero`, `products` (a fragment does not get every product once), `stores`,
    `barriers` (waves that pass different numbers of barriers). `first` must come before `second`; `waves` are one wave
    of each. `part` is that of the tile, for LDS.

    `how`: `wait` where the first is complete too late although a barrier follows, of staging registers `overwritten` or
    `other step`, of products `twice` or `missing`. `where`: of `barriers` the number that each wave passes, of
    `register` a fragment and a slice, of `zero` row and column of a fragment, of `products` these, K-step and slice, of
    `stores` these and how often.
    """

    kind: str
    operand: str
    first: Event | None
    second: Event | None
    waves: tuple[int, int]
    how: str = ""
    part: int = 0
    where: tuple[int, ...] = ()
