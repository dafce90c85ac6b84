"""On which inputs a wrong element depends: asked of the machine code by launching it again.

The numbers stay, so that every comparison is decided as before; payloads of a part of one input are others. Where the
machine's result changes and what is meant does not, or the other way round, that part is divided further.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import torch

from tkgen.ir import tensors
from tkgen.verify import payloads
from tkgen.verify.cause import Cause
from tkgen.verify.compare import spread
from tkgen.verify.ring import Planes, Ring
from tkgen.verify.run import Difference

Told = tuple[bool, bool]  # whether the machine's result depends on something, and whether the meant one does
MACHINE, MEANING, BOTH = (True, False), (False, True), (True, True)
_PARTS = 8  # into which a dimension is divided at a time
_LAUNCHES, _SECONDS = 60, 30.0


def probed(d: Difference, tensor: tensors.Tensor, place: tuple[int, ...]) -> tuple[Cause, ...]:
    """The cause: what an element depends on and should not, or should and does not."""
    return _Probe(d, tensor, place).said()


class _Probe:
    def __init__(self, d: Difference, tensor: tensors.Tensor, place: tuple[int, ...]):
        self.d, self.tensor, self.place = d, tensor, place
        self.left, self.until = _LAUNCHES, time.monotonic() + _SECONDS
        self.known = self.machine(d.drawn.rings), int(d.meant[tensor.name].p[place])

    def said(self) -> tuple[Cause, ...]:
        at = f"{self.tensor.name}[{', '.join(map(str, self.place))}]"
        depends: list[str] = []
        for name, numbers in self.d.drawn.rings.items():
            box = [range(size) for size in numbers.shape]
            told = self.changed(name, box)
            for dim in reversed(range(len(box))) if told == BOTH else ():
                if (found := self.differing(name, box, dim, box[dim])) is not None:
                    told, box[dim] = found
                    break
            if told in (MACHINE, MEANING):
                sizes = zip(box, numbers.shape, strict=True)
                where = ", ".join(spread(list(r)) if len(r) < n else "*" for r, n in sizes)
                what = "depends on" if told == MACHINE else "does not depend on"
                text = f"{at} {what} {name}[{where}], and should{' not' if told == MACHINE else ''}"
                kind, part = "depends" if told == MACHINE else "independent", tuple((r.start, r.stop - 1) for r in box)
                return (Cause(kind, self.tensor.name, self.place, text, name, part),)
            depends += [name] if told == BOTH else []
        if self.spent:
            return ()
        if not depends:
            text = f"{at} depends on no input, as it should, and is another number"
            return (Cause("constant", self.tensor.name, self.place, text),)
        listed = ", ".join(depends)
        text = f"{at} depends on all of {listed} that it should: in another way, or by another constant"
        return (Cause("function", self.tensor.name, self.place, text),)

    @property
    def spent(self) -> bool:
        """True if enough was asked."""
        return self.left <= 0 or time.monotonic() > self.until

    def differing(self, name: str, box: list[range], dim: int, within: range) -> tuple[Told, range] | None:
        """Of the places along a dimension, a run on which one result depends and the other does not."""
        if len(within) == 1 or self.spent:
            return None
        parts = list(_divided(within))
        told = [self.changed(name, [*box[:dim], part, *box[dim + 1 :]]) for part in parts]
        for kind in (MEANING, MACHINE):
            if kind not in told:
                continue
            first = last = told.index(kind)
            while last + 1 < len(told) and told[last + 1] == kind:
                last += 1
            run = range(parts[first].start, parts[last].stop)
            # where the run begins and ends, in the parts beside it, in which both depend on something
            if first and told[first - 1] == BOTH:
                near = self.differing(name, box, dim, parts[first - 1])
                run = range(near[1].start, run.stop) if near and near[1].stop == run.start else run
            if last + 1 < len(told) and told[last + 1] == BOTH:
                near = self.differing(name, box, dim, parts[last + 1])
                run = range(run.start, near[1].stop) if near and near[1].start == run.stop else run
            return kind, run
        for part, result in zip(parts, told, strict=True):
            if result == BOTH and (found := self.differing(name, box, dim, part)) is not None:
                return found
        return None

    def changed(self, name: str, box: list[range]) -> Told:
        """Return whether the stored and the right result change when this part of an input does."""
        self.left -= 1
        numbers = self.d.drawn.rings[name].planes
        inside = torch.zeros(numbers.p.shape, dtype=torch.bool)
        inside[tuple(slice(r.start, r.stop) for r in box)] = True
        other = Ring.random(numbers.real, torch.Generator().manual_seed(12345 + self.left)).planes
        p, q = torch.where(inside, other.p, numbers.p), torch.where(inside, other.q, numbers.q)
        rings = {**self.d.drawn.rings, name: Ring(Planes(numbers.real, numbers.error, numbers.unsure, p, q))}
        drawn = replace(self.d.drawn, rings=rings)
        meant = int(self.d.case.meaning(drawn)[self.tensor.name].p[self.place])
        return self.machine(rings) != self.known[0], meant != self.known[1]

    def machine(self, rings: object) -> int:
        stored = self.d.case.machine(replace(self.d.drawn, rings=rings), self.d.order)  # type: ignore[arg-type]
        shape = self.d.meant[self.tensor.name].shape
        return int(payloads.unpacked(stored.payloads[self.tensor.name], shape)[0][self.place])


def _divided(places: range) -> Iterator[range]:
    step = -(-len(places) // _PARTS)
    for first in range(places.start, places.stop, step):
        yield range(first, min(first + step, places.stop))
