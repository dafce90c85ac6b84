"""Tensor maps for the host run: what the launch tells the driver of a tensor, in the bytes of the driver's map."""

from __future__ import annotations

import struct
from typing import Final

from tkgen.backends.hopper.launch import MAP_BYTES, MapError, TensorMap

MARK: Final = 0x70616D5F74736F68  # "host_map"


def encoded(what: TensorMap) -> bytes:
    """A map as `runtime/memory.cpp` reads it.

    Raises:
        MapError: the driver would refuse it.
    """
    if what.problems:
        raise MapError("; ".join(what.problems))

    def filled(values: tuple[int, ...], count: int) -> list[int]:
        return [*values, *(0,) * (count - len(values))]

    made = struct.pack(
        "<QQII5Q4Q5II", MARK, what.address, what.rank, what.element_bytes, *filled(what.sizes, 5),
        *filled(what.strides, 4), *filled(what.box, 5), what.swizzle,
    )  # fmt: skip
    return made.ljust(MAP_BYTES, b"\0")
