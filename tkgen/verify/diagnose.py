"""The likely cause of wrong results: guesses, each of which explains the wrong values exactly.

A wrong element is known in both fields, 61 bits, so a guess that gives exactly that value is hardly an accident. The
guesses in order: the element holds the value of another one; it is zero; it is the right value times a power of two, or
times a value that is given; a sum of products lacks, doubles or mixes up a range of its terms; the meaning gives it
with one step changed (`tkgen.verify.changes`). If none of these explains it, the kernel is launched again with other
payloads in a part of an input. The result shows on which parts it depends, and the meaning shows on which parts it
should (`tkgen.verify.probe`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tkgen.ir import tensors
from tkgen.verify import field
from tkgen.verify.cause import Cause
from tkgen.verify.changes import changed
from tkgen.verify.compare import Judged
from tkgen.verify.field import P, Q
from tkgen.verify.probe import probed
from tkgen.verify.ring import Ring
from tkgen.verify.run import Difference, Sum

_LOOKED_AT = 32  # wrong elements of an output
_GIVEN = 1 << 20  # numbers of inputs among which a factor is looked for


def explained(d: Difference) -> tuple[Cause, ...]:
    """Causes of the first output that is wrong."""
    for tensor in d.case.outputs:
        judged = d.judged[tensor.name]
        known = judged.wrong & ~judged.lost & ~judged.missing
        if not bool(judged.wrong.any()):
            continue
        if not bool(known.any()) or tensor.name not in d.meant or bool((judged.p[known] < 0).any()):
            return ()
        look = _Look(d, tensor, judged, known)
        for guess in (look.elsewhere, look.zero, look.multiple, look.terms):
            if said := guess():
                return said
        if said := changed(d, tensor, judged, known):
            return said
        return probed(d, tensor, tuple(known.nonzero()[0].tolist()))
    return ()


@dataclass(frozen=True)
class _Look:
    """One output that is wrong."""

    d: Difference
    tensor: tensors.Tensor
    judged: Judged
    known: Tensor

    @property
    def meant(self) -> Ring:
        return self.d.meant[self.tensor.name]

    def some(self) -> Tensor:
        """Wrong elements, spread over all of them; an index of each dimension in a row."""
        places = self.known.nonzero()
        return places[torch.linspace(0, len(places) - 1, min(_LOOKED_AT, len(places))).long()]

    def at(self, place: Sequence[int]) -> str:
        return f"{self.tensor.name}[{', '.join(map(str, place))}]"

    def cause(self, kind: str, place: Sequence[int], text: str, **more: Any) -> tuple[Cause]:
        """The cause of a kind, of which the element at `place` is an example; the text goes on after its name."""
        return (Cause(kind, self.tensor.name, tuple(place), f"{self.at(place)} {text}", **more),)

    def elsewhere(self) -> tuple[Cause, ...]:
        """Elements that hold what belongs to others."""
        owners: dict[tuple[int, int], int] = {}
        p, q = self.meant.p.flatten().tolist(), self.meant.q.flatten().tolist()
        for number, key in enumerate(zip(p, q, strict=True)):
            owners.setdefault(key, number)
        found = []
        for place in self.some().tolist():
            key = int(self.judged.p[tuple(place)]), int(self.judged.q[tuple(place)])
            owner = owners.get(key)
            if owner is None or key == (0, 0):
                return ()
            found.append((place, [int(x) for x in torch.unravel_index(torch.tensor(owner), self.meant.shape)]))
        place, owner_place = found[0]
        far = {tuple(b - a for a, b in zip(one, other, strict=True)) for one, other in found}
        more = f", and so on, each {_offset(far.pop())}" if len(far) == 1 and len(found) > 1 else ""
        said = f"holds what belongs to {self.at(owner_place)}{more}"
        return self.cause("moved", place, said, owner=tuple(owner_place))

    def zero(self) -> tuple[Cause, ...]:
        places = self.some()
        if all(not self.judged.p[tuple(x)] and not self.judged.q[tuple(x)].clamp(min=0) for x in places.tolist()):
            return self.cause("zero", places[0].tolist(), "is zero: nothing was added to it")
        return ()

    def multiple(self) -> tuple[Cause, ...]:
        """A factor that is a power of two, or a number of an input."""
        places = self.some().tolist()
        factors = {self._factor(tuple(x)) for x in places}
        named = {n: f"2^{n}" if n not in (0, 1) else str(2**n) for n in range(-16, 17) if n}
        for sign, before in ((1, ""), (-1, "-")):
            for n, text in named.items():
                if factors == {_image(sign * 2.0**n)}:
                    said = f"is {before}{text} times what was meant, as all that are wrong are"
                    return self.cause("scaled", places[0], said, factor=sign * 2.0**n)
        if factors == {_image(-1.0)}:
            return self.cause("scaled", places[0], "has the other sign, as all that are wrong have", factor=-1.0)
        place, first = places[0], self._factor(tuple(places[0]))
        for name, numbers in self.d.drawn.rings.items():
            if numbers.numel() > _GIVEN:
                continue
            for sign, word in ((1, "once too often"), (-1, "missing")):
                wanted = first[0] if sign > 0 else int(field.inverse(torch.tensor(first[0]), P))
                if bool((hit := numbers.p == wanted).any()):
                    index = hit.nonzero()[0].tolist()
                    text = f"{self.at(place)}: the factor {name}[{', '.join(map(str, index))}] is {word}"
                    where = tuple((i, i) for i in index)
                    return (Cause("factor", self.tensor.name, tuple(place), text, name, where),)
        return ()

    def _factor(self, place: tuple[int, ...]) -> tuple[int, int]:
        """By what the number found is a multiple of the one meant, in both fields."""
        found = []
        for have, want, modulus in ((self.judged.p, self.meant.p, P), (self.judged.q, self.meant.q, Q)):
            a, b = have[place], want[place]
            known = a >= 0 and b > 0
            found.append(int(a * field.inverse(b, modulus) % modulus) if known else -1)
        return found[0], found[1]

    def terms(self) -> tuple[Cause, ...]:
        """Terms of a sum of products that are missing, doubled or mixed up."""
        sums = self.d.case.sums(self.d.drawn) if self.d.case.sums is not None else ()
        places = [tuple(x) for x in self.some().tolist()]
        for s in sums:
            if s.output != self.tensor.name:
                continue
            found = [(x, _guess(s, x, self._off(x))) for x in places[:8]]
            said = [(x, g) for x, g in found if g]
            if said:
                first, guess = said[0]
                alike = sum(g is not None and g.kind == guess.kind and g.range == guess.range for _, g in found)
                rest = f" (and {alike - 1} more of {len(found)} that were checked)" if alike > 1 else ""
                kind = {"lacks": "lacks", "has twice": "twice", "mixes": "mixed"}[guess.kind]
                return self.cause(kind, first, f"{guess.text}{rest}", where=(guess.range,))
        return ()

    def _off(self, place: tuple[int, ...]) -> tuple[int, int]:
        """Return the difference between the stored and the right value, in both fields."""
        return (
            int((self.judged.p[place] - self.meant.p[place]) % P),
            int((self.judged.q[place] - self.meant.q[place]) % Q) if self.judged.q[place] >= 0 else -1,
        )


def _offset(far: tuple[int, ...]) -> str:
    return f"[{', '.join(f'{x:+d}' for x in far)}] from it"


def _image(value: float) -> tuple[int, int]:
    number = torch.tensor(value, dtype=torch.float64)
    return int(field.image(number, P)), int(field.image(number, Q))


# ---------------------------------------------------------------- sums of products


@dataclass(frozen=True)
class _Guess:
    kind: str
    range: tuple[int, int]
    text: str


def _guess(s: Sum, place: tuple[int, ...], off: tuple[int, int]) -> _Guess | None:
    """Find terms of one element that explain its error."""
    for scale in s.scales(place):
        wanted = [o * int(field.inverse(torch.tensor(c), m)) % m for o, c, m in zip(off, scale, (P, Q), strict=True)]
        left, right = s.rows(place)
        terms = [left[i] * right[i] % m for i, m in enumerate((P, Q))]
        for sign, kind in ((-1, "lacks"), (1, "has twice")):
            target = [w * sign % m for w, m in zip(wanted, (P, Q), strict=True)]
            if (found := _range(terms, target)) is not None:
                return _Guess(kind, found, f"{kind} {s.text(place, found, found)}")
        if mixed := _mixed(s, place, left, right, wanted):
            return mixed
    return None


def _range(terms: Sequence[Tensor], wanted: Sequence[int]) -> tuple[int, int] | None:
    """The shortest run of terms that add up to this in both fields: its first and its last."""
    sums = [torch.cat([torch.zeros(1, dtype=torch.int64), t.cumsum(0) % m]) for t, m in zip(terms, (P, Q), strict=True)]
    known = wanted[1] >= 0
    key = sums[0] * 2**30 + (sums[1] if known else 0)
    ends = (sums[0] + wanted[0]) % P * 2**30 + ((sums[1] + wanted[1]) % Q if known else 0)
    where: dict[int, list[int]] = {}
    for place, k in enumerate(key.tolist()):
        where.setdefault(k, []).append(place)
    best: tuple[int, int] | None = None
    for begin, k in enumerate(ends.tolist()):
        for end in where.get(k, ()):
            if end > begin and (best is None or end - begin < best[1] - best[0] + 1):
                best = begin, end - 1
    return best


def _mixed(
    s: Sum, place: tuple[int, ...], left: Sequence[Tensor], right: Sequence[Tensor], wanted: Sequence[int]
) -> _Guess | None:
    """Two runs of one factor exchanged, or one in the place of the other: runs of 64 down to 4 terms."""
    n = len(left[0])
    for size in (64, 32, 16, 8, 4):
        count = n // size
        if count < 2 or count > 512:
            continue
        crossed = [
            field.multiplied(a[: count * size].reshape(count, size), b[: count * size].reshape(count, size).T, m)
            for a, b, m in zip(left, right, (P, Q), strict=True)
        ]
        own = [c.diagonal() for c in crossed]
        # terms of run i, of which the left (or right) factor is that of run j
        for side, other in (("left", [c.T for c in crossed]), ("right", crossed)):
            off = [(o - d[:, None]) % m for o, d, m in zip(other, own, (P, Q), strict=True)]
            if (hit := _hit(off, wanted)) is not None:
                i, j = hit
                used, with_ = (j, i) if side == "left" else (i, j)
                text = s.text(place, _run(used, size), _run(with_, size))
                return _Guess("mixes", (i * size, j * size), f"has {text}, in place of {s.along(_run(i, size))}")
        both = [(c + c.T - d[:, None] - d[None, :]) % m for c, d, m in zip(crossed, own, (P, Q), strict=True)]
        if (hit := _hit(both, wanted)) is not None:
            i, j = hit
            text = f"multiplies {s.along(_run(i, size))} of one operand with {s.along(_run(j, size))} of the other"
            return _Guess("mixes", (i * size, j * size), f"{text}, and the reverse")
    return None


def _run(number: int, size: int) -> tuple[int, int]:
    return number * size, number * size + size - 1


def _hit(off: Sequence[Tensor], wanted: Sequence[int]) -> tuple[int, int] | None:
    mask = off[0] == wanted[0]
    if wanted[1] >= 0:
        mask = mask & (off[1] == wanted[1])
    mask.fill_diagonal_(False)
    places = mask.nonzero()
    return (int(places[0, 0]), int(places[0, 1])) if len(places) else None
