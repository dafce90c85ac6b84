"""The definition of a remap: its name, its parameters and the one function that defines its arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from tkgen.remap.expr import Expr, Program


@dataclass(frozen=True)
class Grid:
    """The output tiles of the launch as expressions: `rows` x `cols`, `tiles` in all."""

    rows: Expr
    cols: Expr
    tiles: Expr


@dataclass(frozen=True)
class Parameter:
    """An integer argument in `minimum`..`maximum`; one that is not `required` may be left out."""

    name: str
    doc: str
    minimum: int
    maximum: int
    required: bool = True


Arguments = Mapping[str, int]


@dataclass(frozen=True)
class RemapSpec:
    """A remap as the language offers it; positional arguments go to `parameters` in their order."""

    name: str
    doc: str
    source: str
    parameters: tuple[Parameter, ...]

    kind: ClassVar[str] = ""

    @property
    def signature(self) -> str:
        """The remap as it is written, such as `xcd(n, chunk)`."""
        names = ", ".join(p.name for p in self.parameters)
        return f"{self.name}({names})" if names else self.name


@dataclass(frozen=True)
class Permutation(RemapSpec):
    """Renumbers the linear index: a bijection of [0, tiles) onto itself."""

    define: Callable[[Program, Expr, Grid, Arguments], Expr]

    kind: ClassVar[str] = "permutation"


@dataclass(frozen=True)
class Placement(RemapSpec):
    """Turns the linear index into a (row, col): a bijection of [0, tiles) onto the grid."""

    define: Callable[[Program, Expr, Grid, Arguments], tuple[Expr, Expr]]

    kind: ClassVar[str] = "placement"
