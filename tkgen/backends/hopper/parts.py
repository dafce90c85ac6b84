"""Operands, products and outputs of a kernel, as its C++ has them."""

from __future__ import annotations

from dataclasses import dataclass

from tkgen.backends.cdna.lower.origins import Origins
from tkgen.backends.hopper import streamed
from tkgen.backends.hopper.epilogue import Element, Scaling
from tkgen.ir.equations import Store
from tkgen.source import Span


@dataclass(frozen=True)
class Factor:
    """An operand in shared memory: its tile of a step, and the arguments that bring it there."""

    name: str
    type: str
    part: str  # of which each block of a cluster copies one, if the tile is common to them
    parts: str  # how many of them a stage has: of each consumer, of each 64 rows; one where empty
    coord: str
    axis: str
    comment: str
    origin: Origins
    filled: streamed.Filled | None = None
    whole: str = ""  # of the rows of all consumers, where these are one copy, as the tensor may end within
    boxes: str = ""  # what is copied of it then


@dataclass(frozen=True)
class ProductModel:
    """One product: its sums, what it multiplies, how these lie."""

    sums: str
    left: str
    right: str
    layouts: str
    scaling: Scaling | None  # of a step's products, before they are added
    step: str  # the sums of these
    suffix: str  # of what the kernel has for each product that is scaled, where there are several
    equation: str  # what ends the lines of its equation


@dataclass(frozen=True)
class Output:
    """Output of the sums: the type and number of its panels, the number that leave before them, their target."""

    name: str
    type: str
    bytes: str  # of the registers that it is converted to before, if it is
    comment: str
    panels: str
    before: str
    epilogue: Element | None
    sum: int  # which is stored as it is, without an epilogue
    coord: str
    axis: str
    chunks: str
    origin: Origins
    span: Span | None
    whole: bool = False  # integers, which are stored as they are
    scattered: Store | None = None  # to computed positions, from registers
    width: int = 0  # columns of a panel

    @property
    def rows(self) -> str:
        """The rows of a panel, in C++."""
        return "64" if self.scattered else f"{self.name}_tile::rows"

    @property
    def cols(self) -> str:
        """The columns of a panel, in C++."""
        return str(self.width) if self.scattered else f"{self.name}_tile::cols"
