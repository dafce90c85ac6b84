"""A spec with `-D` values told apart by what they give: sizes of the code, sizes of a launch, scalars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tkgen.api import load
from tkgen.backends.registry import backend_of
from tkgen.backends.spec import AnySpec
from tkgen.execute.arguments import SizeError, scalar_values
from tkgen.ir.sizing import Sizing
from tkgen.ir.types import Dim, ScalarArg
from tkgen.syntax.tree import MAX_INT


@dataclass(frozen=True)
class Chosen:
    """A checked spec with the `-D` values that its code is built for, its launch, and its scalars.

    `extents` are the sizes of dynamic dimensions.
    """

    spec: AnySpec
    launch: Sizing
    extents: dict[str, int]
    scalars: dict[str, float]


@dataclass(frozen=True)
class Asked:
    """The spec at `path` with `-D` values, for the target, else its own; its includes may reach `roots`."""

    path: Path
    defines: Mapping[str, float | None] = field(default_factory=dict)
    target: str | None = None
    roots: Sequence[Path] = ()

    def load(self, defines: Mapping[str, int | None] | None = None) -> AnySpec:
        """The spec with these values alone. Raises as `tkgen.load`."""
        return load(self.path, defines, self.target, self.roots)

    def chosen(self) -> Chosen:
        """The spec for whichever target, checked, and its launch.

        Raises:
            SpecError: the spec is wrong, or a value gives nothing that is there.
            SizeError: a size that the kernel cannot do, or a scalar without a value.
        """
        spec, values = self.valued()
        launch = spec.check().launch(values.extents)
        return Chosen(spec, launch, values.extents, scalar_values(launch.program, values.scalars))

    def valued(self) -> tuple[AnySpec, Values]:
        """The spec with the `-D` values that its code is built for, and all of them told apart.

        Raises:
            SpecError: the spec is wrong, or a value gives nothing that is there.
            SizeError: a size that is not an integer, or a `dynamic` scalar.
        """
        values = Values.of(self.load().program, self.defines)
        return self.load(values.static), values


def emulated(spec: AnySpec) -> AnySpec:
    """The spec, where it is one that the emulator runs. Raises SizeError for another."""
    if not backend_of(spec.target.name).emulated:
        raise SizeError("the referee runs kernels for AMD's GPUs")
    return spec


class Sized(Protocol):
    """A program that takes `-D` values: one kernel, or several."""

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
        """Return the values that `defines` gives `program`. Raises SizeError as `valued`."""
        dynamic, scalars = {d.name for d in program.dims if d.size is None}, {s.name for s in program.scalars}
        found = cls({}, {}, {})
        for name, value in defines.items():
            if name in scalars and value is not None:
                found.scalars[name] = float(value)
            elif name in scalars:
                raise SizeError(f"{name} is a scalar: its value is a number, not `dynamic`")
            elif isinstance(value, float):
                raise SizeError(
                    f"{name} = {value:g}: sizes are integers from 1 to {MAX_INT}; only scalars can be other numbers"
                )
            elif name in dynamic and value is not None:
                found.extents[name] = value
            else:
                found.static[name] = value
        return found
