"""The arguments of a kernel: element types, named extents, tensors, scalars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import lcm

from tkgen.ir.hashing import hashed_once
from tkgen.source import Span


class DType(Enum):
    """Element types: (spec name, C++ name in ThunderKittens, bits, suffix of the tile aliases).

    The 8-bit floats are named as torch does: those that end in `fn` or in nothing are OCP's (OFP8, revision 1.0), the
    `fnuz` ones have no infinity, no negative zero, and one NaN, 0x80. C++ has one type for both encodings, which is the
    target's own. `e8m0` is a power of two, by its exponent: a scale of OCP's Microscaling formats (MX, revision 1.0),
    whose floats of less than 8 bits are `e2m1`, `e2m3` and `e3m2`. Where elements have less than a byte, or parts of
    one, memory holds, and C++ counts, the bytes.
    """

    BF16 = ("bf16", "bf16", 16, "bf")
    F16 = ("f16", "half", 16, "hf")
    F32 = ("f32", "float", 32, "fl")
    E4M3FN = ("e4m3fn", "fp8e4m3", 8, "fp8e4m3")
    E4M3FNUZ = ("e4m3fnuz", "fp8e4m3", 8, "fp8e4m3")
    E5M2 = ("e5m2", "fp8e5m2", 8, "fp8e5m2")
    E5M2FNUZ = ("e5m2fnuz", "fp8e5m2", 8, "fp8e5m2")
    E8M0 = ("e8m0", "e8m0", 8, "e8m0")
    I4 = ("i4", "i4x2", 4, "i4x2")
    U4 = ("u4", "u4x2", 4, "u4x2")
    E2M1 = ("e2m1", "fp4e2m1", 4, "fp4e2m1")
    E2M3 = ("e2m3", "fp6e2m3", 6, "fp6e2m3")
    E3M2 = ("e3m2", "fp6e3m2", 6, "fp6e3m2")
    I8 = ("i8", "int8_t", 8, "i8")
    I32 = ("i32", "int", 32, "i32")

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
    def packed(self) -> bool:
        """True if bytes hold several elements, or parts of them."""
        return self.bits % 8 != 0

    @property
    def bytes(self) -> int:
        """Bytes of what memory is counted in: of one element, or 1 where bytes hold several."""
        return 1 if self.packed else self.bits // 8

    def sized(self, elements: int) -> int:
        """Bytes of so many neighbours."""
        return -(-elements * self.bits // 8)

    def elements(self, size: int) -> int:
        """Return the number of elements in this many bytes."""
        return size * 8 // self.bits

    def unit(self, size: int) -> int:
        """The fewest neighbours that take a whole number of times so many bytes."""
        return lcm(size * 8, self.bits) // self.bits

    def stored(self, shape: Sequence[int]) -> list[int]:
        """The shape of a tensor of `shape` elements, in what memory is counted in."""
        return [*shape[:-1], self.sized(shape[-1])] if self.packed and shape else list(shape)

    def counted(self, stored: Sequence[int]) -> list[int]:
        """The shape in elements of a tensor that memory holds as `stored`: the other way round."""
        return [*stored[:-1], self.elements(stored[-1])] if self.packed and stored else list(stored)

    @property
    def suffix(self) -> str:
        """`bf` of `rt_bf`, `st_bf`."""
        return str(self.value[3])

    @property
    def largest(self) -> float:
        """The largest finite number (OFP8 and MX, both revision 1.0, and the CDNA3 ISA guide for fnuz)."""
        floats = {"bf16": (2 - 2**-7) * 2.0**127, "f16": 65504.0, "f32": (2 - 2**-23) * 2.0**127, "e4m3fn": 448.0,
                  "e4m3fnuz": 240.0, "e5m2": 57344.0, "e5m2fnuz": 57344.0, "e8m0": 2.0**127,
                  "e2m1": 6.0, "e2m3": 7.5, "e3m2": 28.0}  # fmt: skip
        return float(self.range[1]) if self.whole else floats[self.spelling]

    @property
    def range(self) -> tuple[int, int]:
        """The least and the largest of the integers that it holds."""
        assert self.whole
        if self is DType.U4:
            return 0, 2**self.bits - 1
        return -(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1

    @property
    def whole(self) -> bool:
        """True if its numbers are whole ones."""
        return self in (DType.I4, DType.U4, DType.I8, DType.I32)

    @property
    def encoded(self) -> bool:
        """True if it is a float of 8 bits: one whose encoding is not the same on all targets."""
        return self.bits == 8 and not self.whole and self is not DType.E8M0

    @property
    def in_blocks(self) -> bool:
        """True if it is a float of less than 8 bits: those are factors of products, in blocks that have scales."""
        return self in (DType.E2M1, DType.E2M3, DType.E3M2)

    @property
    def sums(self) -> DType:
        """The type in which matrix instructions add the products of such values."""
        return DType.I32 if self.whole else DType.F32


DTYPE_NAMES = {d.spelling: d for d in DType} | {"fp16": DType.F16, "fp32": DType.F32}
OWN_ENCODING = ("fp8", "bf8")  # names of the target's own e4m3 and e5m2, as its instructions have them


GLOBAL_DIMENSIONS = 4  # of ThunderKittens' global layouts; of a tensor with more the first ones are one there


@hashed_once
@dataclass(frozen=True)
class Dim:
    """A named extent; `size` is None when it is known only at run time."""

    name: str
    size: int | None
    span: Span = field(compare=False, repr=False)


@hashed_once
@dataclass(frozen=True)
class Tensor:
    """A row-major tensor in global memory, of one to six dimensions."""

    name: str
    dtype: DType
    dims: tuple[Dim, ...]
    span: Span = field(compare=False, repr=False)
    interleaved: bool = False  # of 4 bits, in the order of `tkgen.packing`
    declared: tuple[Dim, ...] = ()  # what the spec declares, where `dims` has neighbours of these flattened to one

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Sizes in elements; None where dynamic."""
        return tuple(d.size for d in self.dims)

    @property
    def given(self) -> tuple[Dim, ...]:
        """The dimensions of a tensor that a caller passes: those that the spec declares."""
        return self.declared or self.dims


@hashed_once
@dataclass(frozen=True)
class ScalarArg:
    """A number passed at launch."""

    name: str
    dtype: DType
    default: float | None
    span: Span = field(compare=False, repr=False)
