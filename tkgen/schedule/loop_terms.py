"""The terms that the steps of a loop of equations store, beside those that the equations mean.

A tile of registers is a term for each row of its base tiles, so that a step may compute a part of an operation. An
operation by elements takes the same row of its arguments. A row of a product takes that row of the moving operand and
all of the other one, and a reduction takes all. If a step leaves an operation out, the value of the iteration before
remains: another term.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import cache

from tkgen.ir.equation_text import access_text, op_text
from tkgen.ir.equations import (
    Argument,
    Constant,
    Convert,
    Coordinate,
    Extent,
    Load,
    Loop,
    Map,
    Op,
    Product,
    Store,
    Value,
    When,
    reads,
    writes,
)
from tkgen.proof.terms import Term, Terms
from tkgen.schedule.loop_loads import changes
from tkgen.schedule.loop_program import product_of, ring_number, ring_of
from tkgen.schedule.loop_tiles import Moving, extent
from tkgen.schedule.loops import VOTES, LoopMap
from tkgen.tile.ops import Copy, Equations, Fetch, Read, Share, SharedLoad, SharedStore, Vote, Write
from tkgen.tile.program import Node, Role

Rows = tuple[Term, ...]  # of a tile: of each row of base tiles; of anything else: one


def unlike(m: LoopMap, wave: Role) -> str | None:
    """Describe an operation that is executed twice in an iteration, or a store whose term differs from the equations.

    On terms an operation could be repeated; in registers a sum is changed where it stands.
    """
    done = Counter(
        (n, row)
        for step in wave.tiles.body
        if isinstance(step, Equations)
        for n in range(step.first, step.last)
        for row in rows_of(m, m.loop.body[n], step)
    )
    if (twice := next((n for (n, _), times in done.items() if times > 1), None)) is not None:
        times = max(count for (n, _), count in done.items() if n == twice)
        return f"`{op_text(m.loop.body[twice])}` is executed {times} times in an iteration"
    terms, most = Terms(), 2 * max(ring.buffers for ring in m.moving) + 1
    all_meant, all_found = (_Run(m, wave, terms, scheduled).stores(most) for scheduled in (False, True))
    for passes, (meant, found) in enumerate(zip(all_meant, all_found, strict=True), 1):
        for name, term in meant.items():
            if found.get(name) != term:
                return f"after {passes} iterations {name} is not the value of the equations"
        if extra := found.keys() - meant.keys():
            return f"after {passes} iterations {min(extra)} is added, which is not in the equations"
    return None


def height(m: LoopMap, value: Value) -> int:
    """Rows of base tiles of a value; 1 of what is no tile of a wave."""
    rows = m.rows(value)
    return 1 if rows is None or m.split not in value.axes else extent(rows) // m.side


def rows_of(m: LoopMap, op: Op, step: Equations) -> range:
    """The rows of base tiles of an operation's result that a step makes."""
    count = height(m, writes(op)[0]) if writes(op) else 1
    return range(step.part * count // step.parts, (step.part + 1) * count // step.parts)


class _Run:
    """The equations on terms: with the steps of a wave, or without."""

    def __init__(self, m: LoopMap, wave: Role, terms: Terms, scheduled: bool):
        self.m, self.wave, self.terms, self.scheduled = m, wave, terms, scheduled
        self.values: dict[Value, Rows] = {}
        self.lds: dict[tuple[int, int], Term] = {}
        self.staged: dict[int, Term] = {}
        self.read: dict[Product, Term] = {}
        self.next: dict[Value, Rows] = {}
        self.found: dict[str, Term] = {}
        self.rings = {ring.access: n for n, ring in enumerate(m.moving)}
        self.multiplied = {x.product: x for x in m.multiplications}
        self.outside = {x.product for x in m.outside}

    def stores(self, most: int) -> Iterator[dict[str, Term]]:
        """The term of each store after 1, 2, ... iterations: those that are common are executed once."""
        body = self.m.kernel.body
        at = next(n for n, op in enumerate(body) if isinstance(op, Loop))
        loop = body[at]
        assert isinstance(loop, Loop)
        self._straight(body[:at])
        self._begin(loop)
        for number in range(most):
            self._iteration(loop, number)
            ended = self._copy()
            ended._straight(body[at + 1 :])
            yield ended.found

    def _copy(self) -> _Run:
        """Another run that has come as far."""
        made = copy(self)
        made.values, made.next, made.read = {**self.values}, {**self.next}, {**self.read}
        made.lds, made.staged, made.found = {**self.lds}, {**self.staged}, {**self.found}
        return made

    def _straight(self, body: Sequence[Op]) -> None:
        """Operations outside of the loop."""
        for op in body:
            if op in self.m.combined and self.scheduled:
                for step in self.wave.behind:
                    if isinstance(step, SharedStore | SharedLoad) and self.m.combined[step.number] == op:
                        self._step(step, 0)
            else:
                self._op(op, 0)

    def _begin(self, loop: Loop) -> None:
        for carry in loop.carries:
            self.values[carry.inside] = self._rows(carry.initial, carry.inside)
        m = self.m
        for load in (*m.held, *m.numbers_loaded, *m.columns_loaded) if self.scheduled else ():
            self._op(load, 0)
        for step in self.wave.before if self.scheduled else ():
            self._step(step, 0)

    def _iteration(self, loop: Loop, number: int) -> None:
        values = self.values
        if self.scheduled:
            steps = self.wave.tiles.body
            begin = 1 if self.m.loads_of_iterations else 0
            for step in steps[:begin]:
                self._step(step, number)
            for op in loop.body:  # what is worked out wherever it is used
                number_alone = isinstance(op, Map | Convert) and not op.result.axes
                if number_alone or isinstance(op, Argument | Constant | Coordinate | Extent):
                    self._op(op, number)
            for step in steps[begin:]:
                self._step(step, number)
        else:
            for op in loop.body:
                self._op(op, number)
        values.update(self.next)
        self.next.clear()
        ends = [self._made(carry.update) for carry in loop.carries]
        for carry, end in zip(loop.carries, ends, strict=True):
            values[carry.inside] = values[carry.result] = end

    def _step(self, step: Node, number: int) -> None:
        match step:
            case Fetch() | Copy() | Write() | Read():
                self._move(step, ring_of(step), number + step.offset)
            case Equations(first=first, last=last, ahead=ahead):
                now = dict(self.values)
                for value in (v for op in self.m.loop.body[first:last] for v in writes(op) if ahead):
                    self.values[value] = self.next.get(value, ())  # of the next pass another part may be done
                for op in self.m.loop.body[first:last]:
                    self._op(op, number + ahead, rows_of(self.m, op, step))
                if ahead:  # this pass still has its own
                    self.next |= {v: self._made(v) for op in self.m.loop.body[first:last] for v in writes(op)}
                    self.values |= {v: now.get(v, (self.terms.unknown(),)) for v in self.next}
            case Vote(number=which):
                ring = len(self.m.moving) + which
                self.lds[ring, number % VOTES] = self._whole(self.m.votes[which].condition)
            case Share(number=which):
                ring = len(self.m.moving) + len(self.m.votes) + which
                self.lds[ring, number % VOTES] = self._whole(self.m.exchanges[which].given)
            case SharedStore(number=which, to=to):
                self.lds[ring_number(to), 0] = self._whole(self.m.combined[which].argument)
            case SharedLoad(number=which, source=source):
                op, parts = self.m.combined[which], self.lds.get((ring_number(source), 0), self.terms.unknown())
                self.values[op.result] = (self.terms.of(_formula(op), parts),)

    def _move(self, step: Fetch | Copy | Write | Read, ring: int, item: int) -> None:
        moving = self.m.moving[ring]
        slot = ring, item % moving.buffers
        match step:
            case Fetch():
                self.staged[ring] = self._brought(moving, item)
            case Copy():
                self.lds[slot] = self._brought(moving, item)
            case Write():
                self.lds[slot] = self.staged.get(ring, self.terms.unknown())
            case Read():
                product = self.m.multiplications[product_of(step)].product
                self.read[product] = self.lds.get(slot, self.terms.unknown())

    def _brought(self, ring: Moving, number: int) -> Term:
        return self.terms.leaf(access_text(ring.access), number)

    # ------------------------------------------------------------ values

    def _made(self, value: Value) -> Rows:
        """Return the term of a value; of one that no step has computed, a term that equals nothing else."""
        return self.values.get(value) or (self.terms.unknown(),)

    def _whole(self, value: Value) -> Term:
        found = self._made(value)
        return found[0] if len(found) == 1 else self.terms.of("rows", *found)

    def _rows(self, value: Value, like: Value) -> Rows:
        """A value as rows of a tile such as `like` is: what is no tile is the same in each."""
        found, count = self._made(value), height(self.m, like)
        return found if len(found) == count else tuple(self._row(value, row) for row in range(count))

    def _row(self, value: Value, row: int) -> Term:
        """Return the term of a value that row `row` of another value reads: of a vector along the rows its part."""
        found = self._made(value)
        if len(found) > 1:
            return found[row]
        return found[0] if self.m.rows(value) is None else self.terms.of("row", self.terms.leaf(row), found[0])

    def _put(self, value: Value, made: Mapping[int, Term]) -> None:
        before = self.values.get(value, ())
        count = height(self.m, value)
        kept = before if len(before) == count else [self.terms.unknown() for _ in range(count)]
        self.values[value] = tuple(made.get(row, kept[row]) for row in range(count))

    def _op(self, op: Op, number: int, rows: Sequence[int] | None = None) -> None:
        terms, values = self.terms, self.values
        match op:
            case Store() if op in self.m.loop.body:
                self.found[f"{access_text(op.target)} of pass {number}"] = self._whole(op.value)
            case Store():
                self.found[access_text(op.target)] = self._whole(op.value)
            case Product() if op in self.outside:
                values[op.result] = (terms.of(_formula(op), *(self._whole(v) for v in reads(op))),)
            case Product() if op not in self.multiplied:
                self._exchanged(op, number)
            case Product():
                self._product(op, number, rows)
            case Load(source=source) if source in self.rings and self.scheduled:
                moves = self.m.moving[self.rings[source]]
                values.pop(op.result, None)
                if moves.cols is None:  # a vector is read where it is loaded
                    slot = self.rings[source], number % moves.buffers
                    values[op.result] = (self.lds.get(slot, terms.unknown()),)
            case Load(source=source):
                changing = source in self.rings or changes(source, self.m.loop.axis)
                values[op.result] = (terms.leaf(access_text(source), number if changing else 0),)
            case Constant() | Coordinate() | Extent():
                values[op.result] = (terms.leaf(_formula(op), number),)
            case When(condition=condition):
                self._choose(op, condition, number)
            case Loop():
                raise AssertionError("a loop inside this loop has no schedule")
            case Map() | Convert():
                like = op.result
                made = {
                    row: terms.of(_formula(op), *(self._row(v, row) for v in reads(op)))
                    for row in (range(height(self.m, like)) if rows is None else rows)
                }
                self._put(like, made)
            case _:
                values[op.result] = (terms.of(_formula(op), *(self._whole(v) for v in reads(op))),)

    def _exchanged(self, op: Product, number: int) -> None:
        """A product of what all waves gave: of what stands in LDS."""
        m = self.m
        which = next(n for n, x in enumerate(m.exchanges) if x.product == op)
        given = self._whole(op.left)
        if self.scheduled:
            given = self.lds.get((len(m.moving) + len(m.votes) + which, number % VOTES), self.terms.unknown())
        self.values[op.result] = (self.terms.of(_formula(op), given, self._whole(op.right)),)

    def _product(self, op: Product, number: int, rows: Sequence[int] | None) -> None:
        """A product reads the ring's tile where it stands, or what was read of it."""
        terms, values, x = self.terms, self.values, self.multiplied[op]
        tiles: dict[Value, Term] = {}
        if self.scheduled:
            for ring in x.rings:
                slot = self.rings[ring.access], number % ring.buffers
                found = self.read.get(op) if ring.direct else self.lds.get(slot)
                value = next(v for v in reads(op) if (v == x.held) == (ring == x.held_ring))
                tiles[value] = terms.unknown() if found is None else found
        factors = [self._whole(v) if v in values else tiles.get(v, terms.unknown()) for v in reads(op)]
        made = {
            row: terms.of(_formula(op), terms.leaf(row), *factors)
            for row in (range(height(self.m, op.result)) if rows is None else rows)
        }
        self._put(op.result, made)

    def _choose(self, op: When, condition: Value, number: int) -> None:
        taken = self._whole(condition)
        if self.scheduled:
            ring = len(self.m.moving) + self.m.votes.index(op)
            taken = self.lds.get((ring, number % VOTES), self.terms.unknown())
        for inner in op.body:
            self._op(inner, number)
        for c in op.chosen:
            both = zip(self._rows(c.update, c.result), self._rows(c.otherwise, c.result), strict=True)
            self.values[c.result] = tuple(self.terms.of("when any", taken, *pair) for pair in both)


@cache
def _formula(op: Op) -> str:
    """Return the text of an operation without the names of its values."""
    text = op_text(op)
    names: Mapping[str, str] = {str(v): f"%{n}" for n, v in enumerate((*reads(op), *writes(op)))}
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, names[name])
    return text
