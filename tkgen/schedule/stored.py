"""The terms (`tkgen.proof.terms`) that wave programs store, beside those that the sums of products mean.

The waves are run a barrier at a time, which is one interleaving; LDS buffers, staging registers, register tiles and
sums hold terms. Where nothing races, every other interleaving stores the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tkgen.ir.types import Operand, Program
from tkgen.proof.terms import Term, Terms
from tkgen.schedule.traces import Event, trace
from tkgen.tile.ops import READS, Fetch, Move, Multiply, Store, Write, Zero
from tkgen.tile.program import Role

Fragment = tuple[int, int]
_Place = tuple[str, int, int]  # operand, LDS buffer, part


@dataclass(frozen=True)
class Wrong:
    """Fragment `fragment` of output tile `tile` of the waves of `wave`: stored `times` times.

    `product` is the one whose sum is not what it means: some summands `missing`, as (K-step, slice), or `extra` ones,
    how many; None where the number of times is what is wrong.
    """

    wave: Role
    tile: int
    fragment: Fragment
    times: int
    product: str | None = None
    missing: tuple[tuple[int, int], ...] = ()
    extra: int = 0


def wrong_stores(
    program: Program, waves: Sequence[Role], passes: int, unroll: int, steps: int, tiles: int = 1
) -> list[Wrong]:
    """The fragments that do not come out as they should; arguments as of `epochs.conflicts`."""
    last_phase = max(w.phase for w in waves)
    terms = Terms()
    lds: dict[_Place, Term] = {}
    running = [_Wave(program, w, terms, lds) for w in waves]
    parts = [_epochs(trace(program, w, passes, unroll, steps, tiles, last_phase)) for w in waves]
    for number in range(max(map(len, parts))):
        for wave, epochs in zip(running, parts, strict=True):
            for event in epochs[number] if number < len(epochs) else ():
                wave.execute(event)
    meant = _Meaning(program, terms, steps)
    multiplying = {r.name for r in program.roles if r.multiplies}
    return [
        wrong
        for wave, epochs in zip(running, parts, strict=True)
        if wave.program.name in multiplying
        for tile in range(1 + max((e.tile for part in epochs for e in part), default=0))
        for wrong in meant.compare(wave, tile)
    ]


def _epochs(events: Sequence[Event]) -> list[list[Event]]:
    """Return the events of a wave between barriers."""
    parts: list[list[Event]] = [[] for _ in range(1 + max((e.begin for e in events), default=0))]
    for e in events:
        parts[e.begin].append(e)
    return parts


class _Wave:
    """The registers of a wave, and what it has stored: (tile, fragment) -> the sums of each time, by product."""

    def __init__(self, program: Program, wave: Role, terms: Terms, lds: dict[_Place, Term]):
        self.kernel, self.program, self.terms, self.lds = program, wave, terms, lds
        self.staged: dict[tuple[str, int], Term] = {}  # (operand, part)
        self.tiles: dict[tuple[str, int, int], Term] = {}  # (operand, fragment, register buffer)
        self.sums: dict[tuple[str, int, int], Counter[Term]] = {}  # (product, fragment): summands
        self.stored: dict[tuple[int, Fragment], list[dict[str, Term]]] = {}

    def execute(self, event: Event) -> None:
        op, terms = event.op, self.terms
        match op:
            case Move():
                self._move(event, op, self.kernel.operand(op.operand))
            case Zero():
                for product in self.kernel.products:
                    self.sums |= {(product.name, i, j): Counter() for i in op.rows for j in op.cols}
            case Multiply():
                self._multiply(event, op)
            case Store():
                for i, j in ((i, j) for i in op.rows for j in op.cols):
                    sums = {p.name: terms.sum(self._sum(p.name, i, j)) for p in self.kernel.products}
                    self.stored.setdefault((event.tile, (i, j)), []).append(sums)
            case _:
                pass

    def _move(self, event: Event, op: Move, operand: Operand) -> None:
        terms = self.terms
        slot = event.step_of(op.shared) % operand.buffers if op.shared else 0
        if isinstance(op, READS):
            for fragment in op.tile.fragments:
                for t in op.tile.slices:
                    part = operand.part(fragment, t)
                    if op.shared:
                        held = self.lds.get((op.operand, slot, part), terms.unknown())
                    else:
                        held = terms.leaf(op.operand, event.tile, event.step_of(op.source), part)
                    self.tiles[op.operand, fragment, operand.register_buffer(event.step, t)] = terms.of(
                        (fragment, t), held
                    )
            return
        for part in operand.parts_of(op.tile):
            brought = terms.leaf(op.operand, event.tile, event.step, part)
            if isinstance(op, Fetch):
                self.staged[op.operand, part] = brought
            elif isinstance(op, Write):
                self.lds[op.operand, slot, part] = self.staged.get((op.operand, part), terms.unknown())
            else:
                self.lds[op.operand, slot, part] = brought

    def _multiply(self, event: Event, op: Multiply) -> None:
        product = self.kernel.product_of(op.product)
        for t in op.slices:
            rows, cols = (
                {f: self._held(operand.name, f, operand.register_buffer(event.step, t)) for f in fragments}
                for operand, fragments in self.kernel.consumed(op)
            )
            for i, row in rows.items():
                for j, col in cols.items():
                    self._sum(product.name, i, j)[self.terms.of("product", row, col)] += 1

    def _held(self, *place: str | int) -> Term:
        return self.tiles.setdefault(place, self.terms.unknown())  # type: ignore[arg-type]

    def _sum(self, product: str, i: int, j: int) -> Counter[Term]:
        return self.sums.setdefault((product, i, j), Counter([self.terms.unknown()]))


class _Meaning:
    """The sums as they should be: over all K-steps and slices, left fragment times right fragment."""

    def __init__(self, program: Program, terms: Terms, steps: int):
        self.program, self.terms, self.steps = program, terms, steps

    def compare(self, wave: _Wave, tile: int) -> Iterator[Wrong]:
        rows, cols = self.program.accumulator.fragments
        for fragment in ((i, j) for i in range(rows) for j in range(cols)):
            stored = wave.stored.get((tile, fragment), [])
            if len(stored) != 1:
                yield Wrong(wave.program, tile, fragment, len(stored))
            for product, term in (pair for sums in stored for pair in sums.items()):
                summands = self._summands(product, tile, fragment)
                if term != self.terms.sum(list(summands)):
                    found = Counter(self.terms.summands(term))
                    missing = tuple(where for summand, where in summands.items() if not found[summand])
                    extra = (found - Counter(list(summands))).total()
                    yield Wrong(wave.program, tile, fragment, len(stored), product, missing, extra)

    def _summands(self, product: str, tile: int, fragment: Fragment) -> dict[Term, tuple[int, int]]:
        """The products of a sum, with their K-step and slice."""
        left, right = self.program.product_of(product).factors
        i, j = fragment
        return {
            self.terms.of("product", self._part(left, tile, s, i, t), self._part(right, tile, s, j, t)): (s, t)
            for s in range(self.steps)
            for t in range(self.program.slices)
        }

    def _part(self, operand: Operand, tile: int, step: int, fragment: int, t: int) -> Term:
        brought = self.terms.leaf(operand.name, tile, step, operand.part(fragment, t))
        return self.terms.of((fragment, t), brought)
