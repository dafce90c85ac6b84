"""The contents of the registers of one wave: it multiplies what it has read, and every product is summed and stored.

The wave's trace is traversed once. Its own operations alone, in its own order, decide the contents of staging
registers, register tiles and sums; other waves do not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tkgen.ir.types import Program
from tkgen.schedule.traces import Conflict, Event, parts_of, register_tiles
from tkgen.tile.ops import Fetch, Multiply, OfSums, Read, Store, Take, Write, Zero
from tkgen.tile.program import Control, Role

_Register = tuple[str, int, int]  # operand, fragment, register buffer
_Sum = tuple[str, int, int]  # product, fragment row, fragment column


def within_wave(program: Program, wave: Role, events: Sequence[Event], steps: int) -> list[Conflict]:
    """Registers hold what is multiplied, every product is summed once, every fragment zeroed and stored once.

    `events` are the trace of the wave; a tile has `steps` K-steps.
    """
    walk = _Walk(program, wave, steps)
    for event in events:
        walk.follow(event)
    role = next(r for r in program.roles if r.name == wave.name)
    if role.multiplies:
        walk.end(1 + max((e.tile for e in events), default=0))
    return walk.found


class _Walk:
    """The registers of a wave, and what was wrong with them so far."""

    def __init__(self, program: Program, wave: Role, steps: int):
        self.program = program
        self.me = (wave.waves[0], wave.waves[0])
        self.products = [p.name for p in program.products]
        self.wanted = {(s, t) for s in range(steps) for t in range(program.slices)}  # what a sum is of
        self.found: list[Conflict] = []
        self.staged: dict[tuple[str, int], Event] = {}  # the last fetch of each part of an operand
        self.unwritten: set[tuple[str, int]] = set()  # parts whose last fetch is not yet in LDS
        self.holds: dict[_Register, tuple[int, int, int]] = {}  # tile, step, slice
        self.filler: dict[_Register, Event] = {}
        self.sums: dict[_Sum, set[tuple[int, int]]] = {}
        self.finished: set[_Sum] = set()  # stored since they were zeroed
        self.stored: dict[int, list[tuple[int, int]]] = {}  # by output tile

    def follow(self, e: Event) -> None:
        """One more operation."""
        match e.op:
            case Control():
                pass
            case Fetch() as op:
                self._fetch(e, op)
            case Write() as op:
                self._write(e, op)
            case Read() | Take() as op:
                buffer = self.program.operand(op.operand).register_buffer
                for name, fragment, step, t in register_tiles(op.target, e.step):
                    at = (name, fragment, buffer(step, t))
                    self.holds[at], self.filler[at] = (e.tile, e.step_of(op.source), t), e
            case Zero() as op:
                for f in self._all_sums(op):
                    self._clear(f)
            case Multiply() as op:
                self._factors(e, op)
                self._sum(e, op)
            case Store() as op:
                self._store(e, op)

    def _wrong(
        self,
        kind: str,
        name: str,
        first: Event | None,
        e: Event | None,
        how: str = "",
        where: tuple[int, ...] = (),
    ) -> None:
        self.found.append(Conflict(kind, name, first, e, self.me, how, where=where))

    # ------------------------------------------------------------ staging registers

    def _fetch(self, e: Event, op: Fetch) -> None:
        for at in ((op.operand, part) for part in parts_of(self.program, op.target)):
            previous = self.staged.get(at)
            if previous and at in self.unwritten and (previous.tile, previous.step) != (e.tile, e.step):
                self._wrong("staging", op.operand, previous, e, "overwritten")
            self.staged[at] = e
            self.unwritten.add(at)

    def _write(self, e: Event, op: Write) -> None:
        for at in ((op.operand, part) for part in parts_of(self.program, op.source)):
            source = self.staged.get(at)
            if source is None or (source.tile, source.step) != (e.tile, e.step_of(op.target)):
                self._wrong("staging", op.operand, source, e, "other step")
            self.unwritten.discard(at)

    # ------------------------------------------------------------ register tiles and sums

    def _factors(self, e: Event, op: Multiply) -> None:
        """The register tiles that a multiply takes hold what it is written for."""
        for t in op.slices:
            for operand, fragments in self.program.consumed(op):
                slot = operand.register_buffer(e.step, t)
                for fragment in fragments:
                    at = (operand.name, fragment, slot)
                    if self.holds.get(at) != (e.tile, e.step, t):
                        self._wrong("register", operand.name, self.filler.get(at), e, where=(fragment, t))

    def _sum(self, e: Event, op: Multiply) -> None:
        """Each product goes once into a sum that was zeroed and is not stored."""
        product = self.program.product_of(op.product).name
        for t in op.slices:
            for i, j in ((i, j) for i in op.rows for j in op.cols):
                f = (product, i, j)
                if f not in self.sums or f in self.finished:
                    self._wrong("zero", op.product, None, e, where=(i, j))
                    self._clear(f)
                elif (e.step, t) in self.sums[f]:
                    self._wrong("products", op.product, None, e, "twice", (i, j, e.step, t))
                self.sums[f].add((e.step, t))

    def _clear(self, f: _Sum) -> None:
        self.sums[f] = set()
        self.finished.discard(f)

    def _all_sums(self, op: OfSums) -> Iterable[_Sum]:
        """The sums that an operation on fragments touches, of all products."""
        return ((p, i, j) for i in op.rows for j in op.cols for p in self.products)

    def _store(self, e: Event, op: Store) -> None:
        for f in self._all_sums(op):
            missing = self.wanted - self.sums.get(f, set())
            self.finished.add(f)
            if missing:
                name = f[0] if len(self.products) > 1 else ""
                self._wrong("products", name, None, e, "missing", (*f[1:], *min(missing)))
        self.stored.setdefault(e.tile, []).extend((i, j) for i in op.rows for j in op.cols)

    def end(self, tiles: int) -> None:
        """Each fragment of so many output tiles is stored once."""
        rows, cols = self.program.accumulator.fragments
        for tile in range(tiles):
            for i, j in ((i, j) for i in range(rows) for j in range(cols)):
                times = self.stored.get(tile, []).count((i, j))
                if times != 1:
                    self._wrong("stores", "", None, None, where=(i, j, times))
