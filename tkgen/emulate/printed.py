"""The output of kernels: the records that `printf` of the stand-ins for HIP's headers leaves in the code object's
memory.

The buffer is a variable of the code object, `tkgen_printed`. It holds the number of used words, then records of three
words each: the number of values and the address of the format, then for each value its kind and its 64 bits. Real HIP
calls the host instead, which does not exist here.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from tkgen.emulate.conversions import FLOAT, LONGEST, SIGNED, Take, formatted
from tkgen.emulate.guest import PRINTED, Guest


def printed(guest: Guest) -> str:
    """All that the blocks of a launch printed, in the order in which they did."""
    variable = guest.code.variable(PRINTED)
    if variable is None:
        return ""
    region = guest.region_below(guest.code.base + variable.start)
    if region is None:
        return ""
    data = region.data[guest.code.base + variable.start - region.base :]
    words = np.frombuffer(data[: len(data) // 4 * 4].tobytes(), "<u4")
    used, at, text = int(words[0]) if len(words) else 0, 1, list[str]()
    while at <= used and at < len(words) and words[at]:
        record = words[at : at + int(words[at])].tobytes()
        if len(record) % 12:  # a variable of somebody else's that is called so
            return ""
        (_, place), *values = (_value(record[i : i + 12]) for i in range(0, len(record), 12))
        text.append(formatted(_string(guest, int(place)), _taken(values, guest)))
        at += len(record) // 4
    lost = "" if at > used else "\n(more was printed than there is room for)\n"
    return "".join(text) + lost


def _value(data: bytes) -> tuple[int, int | float]:
    (kind,) = struct.unpack_from("<I", data)
    number: int | float
    (number,) = struct.unpack_from({SIGNED: "<q", FLOAT: "<d"}.get(kind, "<Q"), data, 4)
    return kind, number


def _string(guest: Guest, address: int) -> str:
    region = guest.region_below(address)
    if region is None or not 0 <= address - region.base < len(region.data):
        return "(null)" if not address else f"(no string at 0x{address:x})"
    data = region.data[address - region.base :][:LONGEST].tobytes()
    return data.split(b"\0", 1)[0].decode("utf-8", "replace")


def _taken(values: Sequence[tuple[int, int | float]], guest: Guest) -> Take:
    """Gives one value after the other; for a string, which is an address, its text."""
    left = iter(values)

    def take(letter: str) -> tuple[int, int | float | str]:
        kind, value = next(left)
        return (kind, _string(guest, int(value))) if letter == "s" else (kind, value)

    return take
