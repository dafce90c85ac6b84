"""Several typed kernels in order, as one: what is given to them, what is between them, what they leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod

from tkgen.ir.affine import apart
from tkgen.ir.coverage import cover_all
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.equations import Access, Kernel, Store, Update
from tkgen.ir.types import Dim, Program, ScalarArg, Tensor


def meaning_of(program: Program | EquationProgram) -> Kernel:
    """The equations of a kernel."""
    return program.kernel


def covered(tensor: Tensor, stores: Sequence[Store]) -> bool:
    """Return True if stores write every element: along a dimension all of it, or each of its places by its number.

    An element to which nothing is added holds what the launch has set it to.
    """
    if any(store.update is not Update.SET for store in stores):
        return True
    if not cover_all(tensor, [store.target for store in stores if store.target.computed]):
        return False
    places = [[i.at if i.is_constant else None for i in store.target.indices] for store in stores]
    numbered = [n for n in range(len(tensor.dims)) if any(p[n] is not None for p in places)]
    sizes = [tensor.dims[n].size or 0 for n in numbered]
    cells = {
        cell
        for p in places
        for cell in product(*(range(s) if p[n] is None else (p[n],) for n, s in zip(numbered, sizes, strict=True)))
    }
    return len(cells) == prod(sizes)


def overlap(one: Access, other: Access) -> bool:
    """True if two accesses touch the same elements: of the same tensor, unless a dimension has two numbers there."""
    return one.tensor.name == other.tensor.name and not apart(one, other)


@dataclass(frozen=True)
class SequenceProgram:
    """The programs of a sequence; `declared` are the names of its tensors in the order of the spec."""

    name: str
    header: str
    kernels: tuple[Program | EquationProgram, ...] = field(repr=False)
    declared: tuple[str, ...]

    @cached_property
    def arguments(self) -> tuple[Tensor, ...]:
        """The tensors that the launch of all takes, in the order of the spec: whatever a kernel reads or writes."""
        used = {t.name: t for p in self.kernels for t in (*p.reads, *p.outputs)}
        return tuple(used[name] for name in self.declared if name in used)

    @cached_property
    def reads(self) -> tuple[Tensor, ...]:
        """The inputs of the sequence: tensors that a kernel reads before any kernel writes them."""
        found: set[str] = set()
        written: set[str] = set()
        for p in self.kernels:
            found |= {t.name for t in p.reads} - written
            written |= {t.name for t in p.outputs}
        return tuple(t for t in self.arguments if t.name in found)

    @cached_property
    def between(self) -> tuple[Tensor, ...]:
        """The tensors that one kernel writes for a later one, and that nobody gives: the memory between them."""
        found: set[str] = set()
        given = {t.name for t in self.reads}
        written: set[str] = set()
        for p in self.kernels:
            found |= {t.name for t in p.reads if t.name in written and t.name not in given}
            written |= {t.name for t in p.outputs}
        return tuple(t for t in self.arguments if t.name in found)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The outputs of the sequence: tensors that are written, except those between its kernels."""
        written = {t.name for p in self.kernels for t in p.outputs} - {t.name for t in self.between}
        return tuple(t for t in self.arguments if t.name in written)

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The dimensions of all kernels."""
        return tuple({d.name: d for p in self.kernels for d in p.dims}.values())

    @property
    def scalars(self) -> tuple[ScalarArg, ...]:
        """The scalars of all kernels."""
        return tuple({s.name: s for p in self.kernels for s in p.scalars}.values())

    @property
    def added(self) -> frozenset[str]:
        """The outputs that must be set before the launch: none, the launch of a kernel that adds sees to it."""
        return frozenset()

    @property
    def starts(self) -> Mapping[str, float]:
        """The number that each of them must be set to."""
        return {}
