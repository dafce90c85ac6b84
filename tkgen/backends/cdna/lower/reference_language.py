"""The language of a reference, torch or C++: what it must say of the equations, and the formula that it says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tkgen.ir.equation_text import access_text
from tkgen.ir.equations import Access, Axis, Kernel, Op, Reduce, Scan, Sort, Store, Value, walk, writes
from tkgen.ir.functions import Function
from tkgen.ir.products import Sum, Sums
from tkgen.ir.types import DType

TORCH_TYPES = {
    DType.BF16: "bfloat16", DType.F16: "float16", DType.F32: "float32", DType.E4M3FN: "float8_e4m3fn",
    DType.E4M3FNUZ: "float8_e4m3fnuz", DType.E5M2: "float8_e5m2", DType.E5M2FNUZ: "float8_e5m2fnuz",
    DType.E8M0: "float8_e8m0fnu", DType.I4: "uint8", DType.U4: "uint8", DType.I8: "int8", DType.I32: "int32",
    DType.E2M1: "uint8", DType.E2M3: "uint8", DType.E3M2: "uint8",
}  # fmt: skip
HOST_TYPES = {
    DType.BF16: "brain", DType.F16: "_Float16", DType.F32: "float", DType.E4M3FN: "eight<3, false>",
    DType.E4M3FNUZ: "eight<3, true>", DType.E5M2: "eight<2, false>", DType.E5M2FNUZ: "eight<2, true>",
    DType.E8M0: "power", DType.I4: "uint8_t", DType.U4: "uint8_t", DType.I8: "int8_t", DType.I32: "int",
    DType.E2M1: "uint8_t", DType.E2M3: "uint8_t", DType.E3M2: "uint8_t",
}  # fmt: skip
# Bits of the exponent and of the fraction, and the bias: `FORMATS` of `tkgen.mx`, which needs torch.
PACKED_FLOATS = {DType.E2M1: (2, 1, 1), DType.E2M3: (2, 3, 1), DType.E3M2: (3, 2, 3)}

Names = Mapping[int, str]
"""The variable of each value, by its number."""


@dataclass(frozen=True)
class Formula:
    """Formula of a reference: sums of products, where there are some, and the values computed from them.

    `order` are the directions of every value; `batch` those of them that say which matrix, and `contraction` is summed.
    """

    order: tuple[Axis, ...]
    body: tuple[Op, ...]
    sums: tuple[Sum, ...] = ()
    batch: tuple[Axis, ...] = ()
    contraction: Axis | None = None

    @classmethod
    def of(cls, found: Sums | Kernel) -> Formula:
        """Of a kernel of products, or of one without."""
        if isinstance(found, Kernel):
            return cls(found.axes, found.body)
        order = (*found.batch, found.rows, found.cols)
        return cls(order, found.epilogue, found.sums, found.batch, found.contraction)

    @property
    def stores(self) -> tuple[Store, ...]:
        """The stores, in order."""
        return tuple(op for op in walk(self.body) if isinstance(op, Store))

    def label(self, target: Access) -> str:
        """The name of a store in a report: its tensor, or its position there where others store to it, too.

        Stores to computed positions of a tensor are compared together.
        """
        several = Counter(s.target.tensor.name for s in self.stores)[target.tensor.name] > 1
        return access_text(target) if several and not target.computed else target.tensor.name

    @property
    def values(self) -> tuple[Value, ...]:
        """Everything that is made, in order."""
        return (*(s.result for s in self.sums), *(v for op in walk(self.body) for v in writes(op)))


@dataclass(frozen=True)
class Reference:
    """Lines that define values, the outputs in order, and the functions that the lines call."""

    lines: tuple[str, ...]
    outputs: tuple[Output, ...]
    helpers: tuple[str, ...]
    extents: tuple[str, ...] = ()  # of a value with all directions, in torch


@dataclass(frozen=True)
class Output:
    """Result of a store: its tensor, the variable of its value, its name in a report.

    In torch `index` picks the part of the tensor that is stored (empty for all of it), `shaped` brings a value with a
    direction for each axis, of the extents `whole`, to the form of that part.
    """

    tensor: str
    value: str
    label: str
    index: str = ""
    shaped: str = ""


class Language(ABC):
    """Syntax of a reference in one language."""

    def __init__(self, formula: Formula, names: Names, exact: bool):
        self.formula, self.names, self.exact = formula, names, exact

    @abstractmethod
    def defined(self, name: str, value: str) -> str:
        """A line that gives a value its name."""

    @abstractmethod
    def certain(self, number: str) -> str:
        """A value without an error."""

    @abstractmethod
    def constant(self, value: float) -> str:
        """A number as the kernel has it."""

    @abstractmethod
    def integer(self, value: int) -> str:
        """An integer beside coordinates."""

    @abstractmethod
    def scalar(self, name: str) -> str:
        """A scalar argument."""

    @abstractmethod
    def element(self, source: Access) -> str:
        """The numbers of a tensor."""

    def before(self, source: Access) -> Iterator[str]:
        """Lines that the numbers of a tensor need before them."""
        yield from ()

    @abstractmethod
    def coordinate(self, axis: Axis) -> str:
        """The places along an axis."""

    @abstractmethod
    def length(self, axis: Axis) -> str:
        """The number of positions of an axis."""

    @abstractmethod
    def rounded(self, dtype: DType) -> str:
        """`a`, rounded to a type."""

    @abstractmethod
    def called(self, parameters: str, body: str | Function, off: str, given: Sequence[str]) -> str:
        """A function of these values, which is `off` so much itself."""

    @abstractmethod
    def summed(self, s: Sum, name: str) -> Iterable[str]:
        """Lines that define a sum of products."""

    @abstractmethod
    def reduced(self, op: Reduce, name: str) -> Iterable[str]:
        """Lines that define a reduction."""

    @abstractmethod
    def scanned(self, op: Scan, name: str) -> Iterable[str]:
        """Lines that define a scan."""

    @abstractmethod
    def in_order(self, op: Sort, name: str) -> Iterable[str]:
        """Lines that define elements in order, or their positions."""
