"""One step of a meaning changed, so that it gives exactly what a wrong kernel stored.

A meaning, a function of torch or equations, is evaluated step by step (`tkgen.verify.ring`). It is evaluated again with
one step changed: an operand left out or taken twice, a sum without some of its terms or with some of them twice, an
operand read from another position, another constant. A change that gives the stored payloads of wrong elements, 61 bits
each, is hardly an accident.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from tkgen.ir import tensors
from tkgen.verify import ring
from tkgen.verify.cause import Cause
from tkgen.verify.compare import Judged, spread
from tkgen.verify.field import ABSENT, P, Q, image, inverse
from tkgen.verify.ring import Planes, Ring, UnsupportedError
from tkgen.verify.run import Difference, Drawn

_SECONDS = 20.0  # of CPU
_STEPS = 120  # of a meaning that has more, only the last ones are changed
_TERMS = 4096  # of a sum; longer ones are looked at in blocks
_LOOKED_AT = 4  # wrong elements whose sums are searched for terms
_LEAST = 0.5  # of the wrong elements, that a change is to give
_LIKELY = 40  # sets of terms that are tried before other positions are
_FUNCTIONS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_RESULTS = {
    "sum": "the sum", "product": "the product", "exp2": "the exponential", "max": "the maximum", "root": "the root",
    "rcp": "the reciprocal", "chosen": "the choice", "add": "the sum of two", "sub": "the difference",
    "mul": "the product of two", "div": "the quotient", "max of two": "the choice",
}  # fmt: skip


@dataclass(frozen=True)
class MeaningStep:
    """One operation of a meaning: its operands, and the line of the user's file that it comes of.

    `numbers` are those of all steps that compute the same of the same operands: they are changed together.
    """

    numbers: list[int]
    name: str
    operands: tuple[Planes, ...]
    rest: tuple[Any, ...]
    line: str


@dataclass(frozen=True)
class ChangedStep:
    """Another result of a step, and how it comes about, in words that follow `is what ... gives`."""

    step: MeaningStep
    how: str
    result: Callable[[Callable[..., Ring]], Ring]


def changed(d: Difference, tensor: tensors.Tensor, judged: Judged, known: Tensor) -> tuple[Cause, ...]:
    """The change that gives most of the wrong elements `known`, or nothing."""
    meant = [(of, of(d.drawn)[tensor.name]) for of in (d.case.meaning, *d.case.others)]
    meanings = [of for n, (of, m) in enumerate(meant) if not any(bool((m.p == x.p).all()) for _, x in meant[:n])]
    for of in meanings:  # with other constants of the same functions, which no element decided if all are wrong
        if said := _Search(d, tensor, judged, known, of, time.process_time() + _SECONDS / len(meanings)).said():
            return said
    return ()


@dataclass
class _Search:
    d: Difference
    tensor: tensors.Tensor
    judged: Judged
    known: Tensor
    meaning: Callable[[Drawn], Mapping[str, Ring]]
    until: float
    results: dict[int, str] = field(default_factory=dict)  # of steps, in words, by where they are
    constants: dict[float, None] = field(default_factory=dict)
    kept: list[Ring] = field(default_factory=list)

    def said(self) -> tuple[Cause, ...]:
        steps = self.steps()
        best: tuple[int, ChangedStep] | None = None
        total = int(self.known.sum())
        kinds = _operands, _constants, _solved, _likely, _inputs, _positions, _terms
        for change in (change for kind in kinds for s in steps for change in kind(self, s)):
            if time.process_time() > self.until:
                break
            count = self.explained(change)
            if count > (best[0] if best else 0):
                best = count, change
            if count == total:
                break
        if best is None or best[0] < _LEAST * total:
            return ()
        count, change = best
        element = self.first(change)
        at = f"{self.tensor.name}[{', '.join(map(str, element))}]"
        alike = f", as {count} of {total} wrong elements are" if total > 1 else ""
        line = f" `{change.step.line}`" if change.step.line else " the meaning"
        text = f"{at} is what{line} gives {change.how}{alike}"
        return (Cause("changed", self.tensor.name, tuple(element), text),)

    def steps(self) -> list[MeaningStep]:
        found: dict[tuple[Any, ...], MeaningStep] = {}

        def record(number: int, name: str, operation: Callable[..., Ring], operands: tuple[Any, ...]) -> Ring:
            known = tuple(x for x in operands if isinstance(x, Planes))
            rest = operands[len(known) :]
            key = name, rest, *((x.p.numpy().tobytes(), x.p.shape) for x in known)
            if key in found:
                found[key].numbers.append(number)
            else:
                found[key] = MeaningStep([number], name, known, rest, _line())
            self.constants |= {float(x.real): None for x in known if _is_constant(x)}
            made = operation(*operands)
            self.kept.append(made)
            self.results[made.p.untyped_storage().data_ptr()] = _RESULTS[name]
            return made

        with ring.watched(record):
            self.meaning(self.d.drawn)
        return [*found.values()][-_STEPS:][::-1]  # the last ones are those of which little else is made

    def evaluated(self, change: ChangedStep) -> Ring | None:
        """The output with the change; None where it does not fit what follows."""

        def change_one(number: int, name: str, operation: Callable[..., Ring], operands: tuple[Any, ...]) -> Ring:
            return change.result(operation) if number in change.step.numbers else operation(*operands)

        try:
            with ring.watched(change_one):
                return self.meaning(self.d.drawn)[self.tensor.name]
        except (RuntimeError, IndexError, ValueError, UnsupportedError):
            return None

    def matches(self, change: ChangedStep) -> Tensor | None:
        """Wrong elements that the change gives."""
        made = self.evaluated(change)
        if made is None or made.shape != self.known.shape:
            return None
        q = (made.q == self.judged.q) | (made.q < 0) | (self.judged.q < 0)
        return self.known & (made.p == self.judged.p) & q

    def explained(self, change: ChangedStep) -> int:
        found = self.matches(change)
        return 0 if found is None else int(found.sum())

    def needed(self, s: MeaningStep) -> tuple[Tensor, Tensor] | None:
        """The number that a step's result lacks at each wrong element, if each element of the output is a multiple of
        the same element of the result and something added. None where the result has another shape than the output."""
        meant = self.meaning(self.d.drawn)[self.tensor.name]
        zeros = torch.zeros(meant.shape, dtype=torch.float64)
        moved = Ring.random(zeros, torch.Generator().manual_seed(1))
        shapes = set[torch.Size]()

        def added(f: Callable[..., Ring]) -> Ring:
            result = f(*s.operands, *s.rest)
            shapes.add(result.shape)
            return ring.added(result.planes, moved.planes)

        made = self.evaluated(ChangedStep(s, "", added))
        if made is None or shapes != {meant.shape}:
            return None
        absent = bool((made.q < 0).any()) or min(meant.q.min(), self.judged.q[self.known].min()) < 0
        found = []
        for now, was, by, want, modulus in (
            (made.p, meant.p, moved.p, self.judged.p, P), (made.q, meant.q, moved.q, self.judged.q, Q)
        ):  # fmt: skip
            factor = (now - was) * inverse(by, modulus) % modulus
            off = (want - was) % modulus * inverse(factor, modulus) % modulus
            found.append(torch.where(self.known, off, 0))
        if absent:  # of powers: one field is left
            found[1] = torch.full_like(found[1], ABSENT)
        lacking = ring.given(zeros, *found).planes
        change = ChangedStep(s, "", lambda f: ring.added(f(*s.operands, *s.rest).planes, lacking))
        return (found[0], found[1]) if self.explained(change) == int(self.known.sum()) else None

    def first(self, change: ChangedStep) -> list[int]:
        found = self.matches(change)
        assert found is not None
        return [int(x) for x in found.nonzero()[0]]

    def named(self, operand: Planes, which: str) -> str:
        """An operand in words: an input, a number, or its place in the step."""
        name = self.input(operand)
        if name is not None:
            return name
        if _is_constant(operand):
            return f"{float(operand.real):.7g}"
        return self.results.get(operand.p.untyped_storage().data_ptr(), which)

    def input(self, operand: Planes) -> str | None:
        """The input that an operand is, or is a part of."""
        at = operand.p.untyped_storage().data_ptr()
        for name, numbers in self.d.drawn.rings.items():
            if numbers.p.untyped_storage().data_ptr() == at:
                return name
        return None

    def places(self, operand: Planes, index: Sequence[int | list[int]]) -> str:
        """Elements of an operand as those of the input that it is a view of: `A[0, 16..31]`; empty where it is none."""
        name = self.input(operand)
        if name is None:
            return ""
        shape = self.d.drawn.rings[name].shape
        count = self.d.drawn.rings[name].p.numel()
        numbers = torch.as_strided(torch.arange(count), operand.p.shape, operand.p.stride(), operand.p.storage_offset())
        at = torch.unravel_index(numbers[tuple(index)].flatten(), shape)
        return f"{name}[{', '.join(spread(x.unique().tolist()) for x in at)}]"


def _is_constant(operand: Planes) -> bool:
    """Return True for a number of the function's own."""
    return operand.real.dim() == 0 and int(operand.p) == int(image(operand.real, P))


def _line() -> str:
    """The line of the function's file that is evaluated: the innermost one that is no library's."""
    for frame in reversed(traceback.extract_stack(limit=60)):
        if "/tkgen/" not in frame.filename and "/torch/" not in frame.filename and frame.line:
            text = frame.line.strip().rpartition("return ")[2]
            return text if "meaning(" not in text and "main(" not in text else ""
    return ""


# ---------------------------------------------------------------- changes


def _of(s: MeaningStep, how: str, operands: tuple[Planes, ...]) -> ChangedStep:
    """The step with other operands."""
    return ChangedStep(s, how, lambda f: f(*operands, *s.rest))


def _instead(s: MeaningStep, how: str, result: Planes) -> ChangedStep:
    """This in the place of the step's result."""
    return ChangedStep(s, how, lambda _: Ring(result))


def _with(s: MeaningStep, how: str, more: Planes) -> ChangedStep:
    """The step's result and this."""
    return ChangedStep(s, how, lambda f: ring.added(f(*s.operands, *s.rest).planes, more))


def _operands(search: _Search, s: MeaningStep) -> Iterator[ChangedStep]:
    """An operand left out, taken twice, or with another sign; a step left out."""
    if s.name in ("add", "sub", "mul", "div"):
        a, b = s.operands
        sign = _FUNCTIONS[s.name]
        first, second = search.named(a, "the first operand"), search.named(b, "the second operand")
        whole = torch.broadcast_shapes(a.real.shape, b.real.shape)
        one, other = (x.each(lambda t: t.expand(whole)) for x in (a, b))
        yield ChangedStep(s, f"without `{sign} {second}`", lambda _: Ring(one))
        if s.name in ("add", "mul"):
            yield ChangedStep(s, f"without `{first} {sign}`", lambda _: Ring(other))
            yield ChangedStep(s, f"with `{sign} {first}` twice", lambda f: f(f(a, b).planes, a))
        yield ChangedStep(s, f"with `{sign} {second}` twice", lambda f: f(f(a, b).planes, b))
        swaps = {"add": ring.subtracted, "sub": ring.added, "mul": ring.quotient, "div": ring.product}
        turned = {"add": "-", "sub": "+", "mul": "/", "div": "*"}[s.name]
        yield ChangedStep(
            s, f"with `{turned} {second}` in the place of `{sign} {second}`", lambda _: swaps[s.name](a, b)
        )
        for c in search.constants if s.name in ("add", "sub") else ():
            scaled = ring.product(b, ring.planes(c)).planes
            yield _of(s, f"with `{sign} {second} * {c:.7g}`", (a, scaled))
        if s.name in ("sub", "div"):
            yield ChangedStep(s, f"with both sides of `{sign} {second}` exchanged", lambda f: f(b, a))
    elif s.name in ("rcp", "exp2", "max of two", "min of two", "root", "chosen"):
        words = {"rcp": "one through", "exp2": "the power", "root": "the root"}.get(s.name, "the choice")
        shape = torch.broadcast_shapes(*(x.real.shape for x in s.operands))
        for x in s.operands if s.name != "chosen" else s.operands[1:]:
            if x.real.dim():
                yield _instead(s, f"without {words}", x.each(lambda t: t.expand(shape)))
    elif s.name in ("max", "min"):
        (at, least), end = s.rest, "smallest" if s.name == "max" else "largest"
        yield ChangedStep(
            s, f"with the {end} in the place of its {s.name}imum", lambda f: f(*s.operands, at, not least)
        )


def _constants(search: _Search, s: MeaningStep) -> Iterator[ChangedStep]:
    """Another number in the place of a constant; something added to a sum."""
    for number, x in enumerate(s.operands):
        if not _is_constant(x):
            continue
        c = float(x.real)
        others = [0.0, 1.0, -c, c + 1, c - 1, c * c, *(c * f for f in (2, 0.5, 4, 0.25, 10, 0.1, 100, 0.01, 8, 16, 32))]
        others += [1 / c, abs(c) ** 0.5, abs(c) ** -0.5] if c else []
        others += [0.0625, 0.125, 0.25, 0.5, 2.0, 4.0, 8.0]  # one through the roots of usual sizes, above all
        for value in others:
            if value == c:
                continue
            made = ring.planes(value)
            new = (*s.operands[:number], made, *s.operands[number + 1 :])
            yield _of(s, f"with {value:.7g} in the place of {c:.7g}", new)
    if s.name in ("sum", "product"):
        for value in (1.0, -1.0):
            yield _with(s, f"with {value:+g} in its sum", ring.planes(value))


def _summed(s: MeaningStep) -> tuple[int, int] | None:
    """The dimension along which a step sums its first operand, and its size."""
    if s.name not in ("sum", "product"):
        return None
    dims = s.operands[0].real.dim()
    at = s.rest[0] % dims if s.name == "sum" else dims - 1
    count = s.operands[0].real.shape[at]
    return (at, count) if 1 < count <= _TERMS else None


def _solved(search: _Search, s: MeaningStep) -> Iterator[ChangedStep]:
    """The terms that a sum lacks or has twice, found from what its result lacks."""
    along = _summed(s)
    needed = search.needed(s) if along is not None else None
    if along is None or needed is None:
        return
    at, count = along
    sets = list(_sets(count))
    inside = torch.zeros(len(sets), count, dtype=torch.int64)
    for row, chosen in zip(inside, sets, strict=True):
        row[chosen] = 1
    places = search.known.nonzero()
    for place in places[torch.linspace(0, len(places) - 1, min(_LOOKED_AT, len(places))).long()].tolist():
        hits = torch.ones(2, len(sets), dtype=torch.bool)
        for plane, modulus, lacking in (("p", P, needed[0]), ("q", Q, needed[1])):
            sums = inside @ _row(s, at, place, plane, modulus) % modulus
            off = lacking[tuple(place)]
            if off != ABSENT:
                hits &= torch.stack([sums == -off % modulus, sums == off])
        for twice, number in hits.nonzero().tolist():
            yield _without(search, s, at, sets[number], twice=bool(twice))


def _row(s: MeaningStep, at: int, place: Sequence[int], plane: str, modulus: int) -> Tensor:
    """The terms of one element of a sum, in a field."""
    a: Tensor = getattr(s.operands[0], plane)
    if s.name == "sum":
        return a.movedim(at, -1)[tuple(place)]
    b: Tensor = getattr(s.operands[1], plane)
    return a[tuple(place[:-1])] * b.movedim(-2, -1)[(*place[:-2], place[-1])] % modulus


def _likely(search: _Search, s: MeaningStep) -> Iterator[ChangedStep]:
    """The first of these."""
    yield from islice(_terms(search, s), 2 * _LIKELY)


def _terms(search: _Search, s: MeaningStep) -> Iterator[ChangedStep]:
    """A sum without some of its terms, or with some of them twice."""
    along = _summed(s)
    for chosen in _sets(along[1]) if along is not None else ():
        for twice in (False, True):
            yield _without(search, s, along[0] if along else 0, chosen, twice)


def _without(search: _Search, s: MeaningStep, at: int, chosen: list[int], twice: bool) -> ChangedStep:
    """A sum without these terms, or with them twice."""
    a = s.operands[0]
    scale = torch.ones(a.real.shape[at], dtype=torch.float64)
    scale[chosen] = 2.0 if twice else 0.0
    shaped = ring.plain(scale.reshape([-1 if d == at else 1 for d in range(a.real.dim())])).planes

    def result(f: Callable[..., Ring]) -> Ring:
        return f(ring.product(a, shaped).planes, *s.operands[1:], *s.rest)

    return ChangedStep(s, f"{'with twice' if twice else 'without'} {_these(search, s, at, chosen)}", result)


def _sets(count: int) -> Iterator[list[int]]:
    """Terms of a sum that are likely to be lost together: halves, tiles, ends, one of each tile; larger ones first."""
    sizes = [g for g in (1 << n for n in range(count.bit_length())) if g < count]
    seen: set[tuple[int, ...]] = set()

    def once(terms: Sequence[int]) -> Iterator[list[int]]:
        if terms and len(terms) < count and tuple(terms) not in seen:
            seen.add(tuple(terms))
            yield list(terms)

    for g in reversed(sizes):
        for first in range(0, count, g) if count // g <= 64 or g == 1 else ():
            yield from once(range(first, min(first + g, count)))
        yield from once(range(count % g and count - count % g, count) if count % g else ())
    for g in reversed(sizes[1:]):  # the same part of every tile
        for h in (1 << n for n in reversed(range(g.bit_length() - 1))):
            for r in range(0, g, h) if g <= 64 else ():
                yield from once([x for x in range(count) if r <= x % g < r + h])
    for n in range(2, min(count, 64)):  # ends of any length
        yield from once(range(count - n, count))
        yield from once(range(n))
    for g in sizes:  # all but the first block of it
        yield from once(range(g, count))


def _these(search: _Search, s: MeaningStep, at: int, chosen: list[int]) -> str:
    """The terms in words, as elements of inputs where the operands are such."""
    terms = f"term{'s' if len(chosen) > 1 else ''} {spread(chosen)} of its sum"
    if s.name == "sum":
        index = [chosen if d == at else 0 for d in range(s.operands[0].real.dim())]
        where = search.places(s.operands[0], index)
        return terms + (f", such as {where}" if where else "")
    a, b = s.operands
    left = search.places(a, [*[0] * (a.real.dim() - 1), chosen])
    right = search.places(b, [*[0] * (b.real.dim() - 2), chosen, 0])
    where = f"{left} * {right}" if left and right else left or right
    return terms + (f", such as {where}" if where else "")


def _inputs(search: _Search, s: MeaningStep) -> Iterator[ChangedStep]:
    """An input that is read from another position."""
    yield from _positions(search, s, inputs=True)


def _positions(search: _Search, s: MeaningStep, inputs: bool = False) -> Iterator[ChangedStep]:
    """An operand, one of the `inputs` or a result, that is read from another position."""
    for number, x in enumerate(s.operands):
        if (search.input(x) is None) == inputs:
            continue
        name = search.named(x, f"operand {number + 1} of {s.name}")
        for moved, words in _moves(x.real.shape):
            new = (*s.operands[:number], x.each(moved), *s.operands[number + 1 :])
            yield _of(s, f"with {name} {words}", new)


def _moves(shape: Sequence[int]) -> Iterator[tuple[Callable[[Tensor], Tensor], str]]:
    """Permutations of the elements of a tensor of this shape, with words for each."""
    for d, n in enumerate(shape):
        of, places = f"along dimension {d}", torch.arange(n)
        near = [g for g in (2, 4, 8, 16, 32, 64) if g < n]
        for far in (1, -1, *near, *(-g for g in near)) if n > 1 else ():
            yield partial(torch.roll, shifts=-far, dims=d), f"{far:+d} {of}"
        if n % 2 == 0:
            yield partial(_at, dim=d, index=places ^ 1), f"at the neighbour {of} (pairs exchanged)"
        if n > 1:
            yield partial(torch.flip, dims=(d,)), f"backwards {of}"
        for g in (16, 32, 8, 4):
            if n % g == 0 and 1 < n // g <= 8:
                yield from _blocks(d, n, g)
        for i in (0, n - 1) if n > 1 else ():
            yield partial(_at, dim=d, index=torch.full_like(places, i)), f"{i} everywhere {of}"
    if len(shape) == 1:
        yield partial(torch.unsqueeze, dim=1), "by rows in the place of by columns"
    for d in range(len(shape) - 1):
        if shape[d] == shape[d + 1] > 1:
            yield partial(torch.transpose, dim0=d, dim1=d + 1), f"with dimensions {d} and {d + 1} exchanged"
    for far in (1, -1) if len(shape) > 1 and shape[-1] > 1 else ():
        yield partial(torch.roll, shifts=-far), f"{far:+d} in memory"  # as a tensor of one dimension


def _blocks(dim: int, size: int, block: int) -> Iterator[tuple[Callable[[Tensor], Tensor], str]]:
    """One block along a dimension in the place of another."""
    places = torch.arange(size)
    for i in range(0, size, block):
        for j in range(0, size, block):
            if i != j:
                at = places.clone()
                at[j : j + block] = places[i : i + block]
                words = f"{i}..{i + block - 1} in the place of {j}..{j + block - 1} along dimension {dim}"
                yield partial(_at, dim=dim, index=at), words


def _at(t: Tensor, dim: int, index: Tensor) -> Tensor:
    """The elements at these positions along a dimension."""
    return t.index_select(dim, index)
