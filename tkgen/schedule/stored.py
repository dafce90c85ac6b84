"""What wave programs store, as terms (`tkgen.proof.terms`), beside what the sums of products mean.

The waves are run a barrier at a time, which is one interleaving; LDS buffers, staging registers, register tiles and
sums hold terms. Where nothing races, every other interleaving stores the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tkgen.ir.ops import Action, WaveProgram
from tkgen.ir.types import Program
from tkgen.proof.terms import Term, Terms
from tkgen.schedule.epochs import Event, trace
from tkgen.schedule.instructions import slot_of

Fragment = tuple[int, int]


@dataclass(frozen=True)
class Wrong:
    """Fragment `fragment` of output tile `tile` of the waves of `wave`: stored `times` times.

    `product` is the one whose sum is not what it means: some summands `missing`, as (K-step, slice), or `extra` ones,
    how many; None where the number of times is what is wrong.
    """

    wave: WaveProgram
    tile: int
    fragment: Fragment
    times: int
    product: str | None = None
    missing: tuple[tuple[int, int], ...] = ()
    extra: int = 0


def wrong_stores(
    program: Program, waves: Sequence[WaveProgram], passes: int, unroll: int, steps: int, tiles: int = 1
) -> list[Wrong]:
    """The fragments that do not come out as they should; arguments as of `epochs.conflicts`."""
    last_phase = max(w.phase for w in waves)
    terms = Terms()
    lds: dict[tuple[str, int], Term] = {}
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
        if wave.program.role in multiplying
        for tile in range(1 + max((e.tile for part in epochs for e in part), default=0))
        for wrong in meant.compare(wave, tile)
    ]


def _epochs(events: Sequence[Event]) -> list[list[Event]]:
    """What a wave executes between barriers."""
    parts: list[list[Event]] = [[] for _ in range(1 + max((e.begin for e in events), default=0))]
    for e in events:
        parts[e.begin].append(e)
    return parts


class _Wave:
    """The registers of a wave, and what it has stored: (tile, fragment) -> the sums of each time, by product."""

    def __init__(self, program: Program, wave: WaveProgram, terms: Terms, lds: dict[tuple[str, int], Term]):
        self.kernel, self.program, self.terms, self.lds = program, wave, terms, lds
        self.staged: dict[str, Term] = {}
        self.tiles: dict[tuple[str, int, int], Term] = {}  # (operand, fragment, register buffer)
        self.sums: dict[tuple[str, int, int], Counter[Term]] = {}  # (product, fragment): summands
        self.stored: dict[tuple[int, Fragment], list[dict[str, Term]]] = {}

    def execute(self, event: Event) -> None:
        op, terms = event.op, self.terms
        place = (op.operand, slot_of(op, event.step, self.kernel.operand(op.operand).buffers) if _moves(event) else 0)
        match op.action:
            case Action.LOAD | Action.COPY:
                self.lds[place] = terms.leaf(op.operand, event.tile, event.step)
            case Action.FETCH:
                self.staged[op.operand] = terms.leaf(op.operand, event.tile, event.step)
            case Action.WRITE:
                self.lds[place] = self.staged.get(op.operand, terms.unknown())
            case Action.READ:
                held = self.lds.get(place, terms.unknown())
                for fragment in op.rows or op.cols:
                    for t in op.slices:
                        self.tiles[op.operand, fragment, self._buffer(event, t)] = terms.of((fragment, t), held)
            case Action.ZERO:
                for product in self.kernel.products:
                    self.sums |= {(product.name, i, j): Counter() for i in op.rows for j in op.cols}
            case Action.MULTIPLY:
                self._multiply(event)
            case Action.STORE:
                for i, j in ((i, j) for i in op.rows for j in op.cols):
                    sums = {p.name: terms.sum(self._sum(p.name, i, j)) for p in self.kernel.products}
                    self.stored.setdefault((event.tile, (i, j)), []).append(sums)
            case _:
                pass

    def _multiply(self, event: Event) -> None:
        op, product = event.op, self.kernel.product_of(event.op.product)
        for t in op.slices:
            rows, cols = (
                {f: self._held(operand.name, f, self._buffer(event, t)) for f in fragments}
                for operand, fragments in self.kernel.consumed(op)
            )
            for i, row in rows.items():
                for j, col in cols.items():
                    self._sum(product.name, i, j)[self.terms.of("product", row, col)] += 1

    def _buffer(self, event: Event, t: int) -> int:
        return (event.step * self.kernel.slices + t) % self.kernel.register_buffers

    def _held(self, *place: str | int) -> Term:
        return self.tiles.setdefault(place, self.terms.unknown())  # type: ignore[arg-type]

    def _sum(self, product: str, i: int, j: int) -> Counter[Term]:
        return self.sums.setdefault((product, i, j), Counter([self.terms.unknown()]))


def _moves(event: Event) -> bool:
    return event.op.writes_lds or event.op.action is Action.READ


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
        left, right = (o.name for o in self.program.product_of(product).factors)
        i, j = fragment
        return {
            self.terms.of("product", self._part(left, tile, s, i, t), self._part(right, tile, s, j, t)): (s, t)
            for s in range(self.steps)
            for t in range(self.program.slices)
        }

    def _part(self, operand: str, tile: int, step: int, fragment: int, t: int) -> Term:
        return self.terms.of((fragment, t), self.terms.leaf(operand, tile, step))
