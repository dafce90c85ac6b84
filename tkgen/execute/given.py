"""`-D` values by what they give: sizes that the code is built for, sizes of a launch, scalars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tkgen.api import Spec, load_products
from tkgen.execute.arguments import SizeError
from tkgen.ir.types import Dim, ScalarArg


@dataclass(frozen=True)
class Given:
    """A spec loaded with the `-D` values that its code is built for, and those that a launch takes.

    `extents` are the sizes of dynamic dimensions; `own` says that no value changes the code.
    """

    spec: Spec
    extents: dict[str, int]
    scalars: dict[str, float]

    @property
    def own(self) -> bool:
        """Whether this is the code of the spec as it stands."""
        return not self.spec.defines


def given(path: Path, defines: Mapping[str, float | None], target: str | None, roots: Sequence[Path]) -> Given:
    """The spec at `path` with `-D` values, told apart by what they give.

    Raises:
        SpecError: the spec is wrong, or a value gives nothing that is there.
        SizeError: a size that is no whole number, or a `dynamic` scalar.
    """
    split = Values.of(load_products(path, None, target, roots).program, defines)
    return Given(load_products(path, split.static, target, roots), split.extents, split.scalars)


class Sized(Protocol):
    """What takes `-D` values: a kernel, or several."""

    @property
    def dims(self) -> Sequence[Dim]:
        """Its dimensions."""

    @property
    def scalars(self) -> Sequence[ScalarArg]:
        """Its scalar arguments."""


@dataclass(frozen=True)
class Values:
    """`-D` values told apart: those that the code is built for, sizes of dynamic dimensions, scalars."""

    static: dict[str, int | None]
    extents: dict[str, int]
    scalars: dict[str, float]

    @classmethod
    def of(cls, program: Sized, defines: Mapping[str, float | None]) -> Values:
        """What `defines` gives `program`. Raises SizeError as `given`."""
        dynamic, scalars = {d.name for d in program.dims if d.size is None}, {s.name for s in program.scalars}
        found = cls({}, {}, {})
        for name, value in defines.items():
            if name in scalars and value is not None:
                found.scalars[name] = float(value)
            elif name in scalars:
                raise SizeError(f"{name} is a scalar: its value is a number, not `dynamic`")
            elif isinstance(value, float):
                raise SizeError(f"{name} = {value}: sizes are whole numbers, other numbers are for scalars")
            elif name in dynamic and value is not None:
                found.extents[name] = value
            else:
                found.static[name] = value
        return found
