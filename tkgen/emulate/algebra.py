"""Launches over an algebra: what the payloads of buffers hold, and in which formats numbers lie in memory.

A payload is the value of a number's expression, without any rounding, in the fields Z_p and Z_q; `core/algebra.h` says
what instructions do to it. Values with the top bit are none of the fields' and mean something else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tkgen.emulate import native
from tkgen.emulate.errors import EmulateError

if TYPE_CHECKING:
    from tkgen.emulate.arguments import Buffer

P: Final = 2147481143
Q: Final = 1073740571

ABSENT: Final = 0xFFFFFFFF  # as the q value: the number has none
LOST: Final = (0xFFFFFFFF, 0xFFFFFFFF)
NEVER_WRITTEN: Final = (0xFFFFFFFE, 0xFFFFFFFE)
INFINITE: Final = ((0xFFFFFFFD, 0), (0xFFFFFFFD, 1))  # positive, negative

# `Format` of core/algebra.h, with the bits of a number.
FORMATS: Final = {
    "f32": (0, 32),
    "bf16": (1, 16),
    "f16": (2, 16),
    "fp8": (3, 8),
    "bf8": (4, 8),
    "fp8_fnuz": (5, 8),
    "bf8_fnuz": (6, 8),
    "f64": (7, 64),
    "fp4": (8, 4),
    "fp6": (9, 6),
    "bf6": (10, 6),
    "i8": (11, 8),
    "i32": (12, 32),
    "e8m0": (13, 8),
}
_NAMES: Final = {
    "float32": "f32",
    "bfloat16": "bf16",
    "float16": "f16",
    "float64": "f64",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "bf8",
    "float8_e4m3fnuz": "fp8_fnuz",
    "float8_e5m2fnuz": "bf8_fnuz",
    "int8": "i8",
    "int32": "i32",
    "float8_e8m0fnu": "e8m0",
}


@dataclass(frozen=True)
class Loss:
    """`count` numbers that an output holds lost their payload to the instruction at `address`, and why."""

    address: int
    mnemonic: str
    file: str | None
    line: int | None
    reason: str
    count: int

    def __str__(self) -> str:
        place = f" ({self.file}:{self.line})" if self.file else ""
        return f"{self.count} numbers lost at 0x{self.address:x} {self.mnemonic}{place}: {self.reason}"


def number_format(buffer: Buffer) -> int:
    """The core's number of the format of a buffer with payload; raises EmulateError where payload and data disagree."""
    assert buffer.payload is not None
    name = buffer.format or _NAMES.get(str(_type(buffer.data)).removeprefix("torch."), "")
    if name not in FORMATS:
        raise EmulateError(f"buffer {buffer.name or '?'} has a payload and needs a format: one of {', '.join(FORMATS)}")
    number, width = FORMATS[name]
    payload, size = buffer.payload, len(buffer.bytes())
    if payload.dtype != "uint32" or payload.ndim != 2 or payload.shape[1] != 2 or not payload.flags.c_contiguous:
        raise EmulateError(
            f"the payload of buffer {buffer.name or '?'} must be contiguous uint32 of shape [numbers, 2]"
        )
    if len(payload) > size * 8 // width:
        raise EmulateError(
            f"the payload of buffer {buffer.name or '?'} has {len(payload)} numbers of {width} bits, "
            f"its data {size} bytes"
        )
    return number


def _type(data: Any) -> Any:
    return getattr(data, "dtype", "")


def hashed(tag: str, x: int, field: int) -> int:
    """The core's keyed hash of a p value, modulo p (`field` 0) or q (1)."""
    return int(native.core().tk_ring_hash(tag.encode(), x, field))


def moduli() -> tuple[int, int]:
    """p and q as the core has them."""
    core = native.core()
    return int(core.tk_ring_modulus(0)), int(core.tk_ring_modulus(1))
