"""What a kernel's arguments are: element types, named extents, tensors, scalars."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from tkgen.source import Span


class DType(Enum):
    """Element types: (spec name, C++ name in ThunderKittens, bits, suffix of the tile aliases)."""

    BF16 = ("bf16", "bf16", 16, "bf")
    F16 = ("f16", "half", 16, "hf")
    F32 = ("f32", "float", 32, "fl")
    I32 = ("i32", "int", 32, "")  # places in other tensors; no tiles are made of it

    @property
    def spelling(self) -> str:
        """The name in a spec."""
        return str(self.value[0])

    @property
    def cpp(self) -> str:
        """The ThunderKittens C++ type."""
        return str(self.value[1])

    @property
    def bits(self) -> int:
        """Bits of one element."""
        return int(self.value[2])

    @property
    def bytes(self) -> int:
        """Bytes of one element that has a whole number of them."""
        assert self.bits % 8 == 0
        return self.bits // 8

    @property
    def suffix(self) -> str:
        """`bf` of `rt_bf`, `st_bf`."""
        return str(self.value[3])


DTYPE_NAMES = {d.spelling: d for d in DType} | {"fp16": DType.F16, "fp32": DType.F32}


@dataclass(frozen=True)
class Dim:
    """A named extent; `size` is None when it is known only at run time."""

    name: str
    size: int | None
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True)
class Tensor:
    """A row-major tensor in global memory, one or two dimensions."""

    name: str
    dtype: DType
    dims: tuple[Dim, ...]
    span: Span = field(compare=False, repr=False)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Sizes in elements; None where dynamic."""
        return tuple(d.size for d in self.dims)


@dataclass(frozen=True)
class ScalarArg:
    """A number passed at launch."""

    name: str
    dtype: DType
    default: float | None
    span: Span = field(compare=False, repr=False)
