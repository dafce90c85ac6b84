"""What kernels print: the records that `printf` of the stand-ins for HIP's headers leaves in the code object's memory.

The buffer is a variable of the code object, `tkgen_printed`: words used, then records of three words each - how many
there are and the address of the format, then for each value what it is and its 64 bits. Real HIP calls the host
instead, which is not there.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

import numpy as np

from tkgen.emulate.guest import PRINTED, Guest

_SIGNED, _UNSIGNED, _FLOAT, _POINTER = range(4)
_LONGEST = 4096  # bytes of a string
_CONVERSION = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d*)(?:\.(?P<digits>\*|\d*))?(?P<size>hh|h|ll|l|j|z|t|L)?(?P<letter>[a-zA-Z%])"
)
_BITS = {"hh": 8, "h": 16, "l": 64, "ll": 64, "j": 64, "z": 64, "t": 64}


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
        text.append(_formatted(_string(guest, int(place)), values, guest))
        at += len(record) // 4
    lost = "" if at > used else "\n(more was printed than there is room for)\n"
    return "".join(text) + lost


def _value(data: bytes) -> tuple[int, int | float]:
    (kind,) = struct.unpack_from("<I", data)
    number: int | float
    (number,) = struct.unpack_from({_SIGNED: "<q", _FLOAT: "<d"}.get(kind, "<Q"), data, 4)
    return kind, number


def _string(guest: Guest, address: int) -> str:
    region = guest.region_below(address)
    if region is None or not 0 <= address - region.base < len(region.data):
        return "(null)" if not address else f"(no string at 0x{address:x})"
    data = region.data[address - region.base :][:_LONGEST].tobytes()
    return data.split(b"\0", 1)[0].decode("utf-8", "replace")


def _formatted(text: str, values: list[tuple[int, int | float]], guest: Guest) -> str:
    """The text with the values in it, as C has it; what has no value stays as it is written."""
    left: Iterator[tuple[int, int | float]] = iter(values)

    def one(m: re.Match[str]) -> str:
        if m["letter"] == "%":
            return "%"
        try:
            width = str(int(next(left)[1])) if m["width"] == "*" else m["width"]
            digits = str(int(next(left)[1])) if m["digits"] == "*" else m["digits"]
            kind, value = next(left)
        except StopIteration:
            return m[0]
        if max(abs(int(width or 0)), int(digits or 0)) > _LONGEST:
            return m[0]
        shape = f"{m['flags']}{width}" + (f".{digits}" if digits is not None and not digits.startswith("-") else "")
        return _converted(m["letter"], m["size"] or "", shape, kind, value, guest) or m[0]

    return _CONVERSION.sub(one, text)


def _converted(letter: str, size: str, shape: str, kind: int, value: int | float, guest: Guest) -> str:
    """One value; nothing where no such conversion is known."""
    if letter in "diouxXc" and kind != _FLOAT:
        bits = _BITS.get(size, 32)
        number = int(value) & (1 << bits) - 1
        if letter in "di" and number >> bits - 1:
            number -= 1 << bits
        if letter == "c":
            return f"%{shape}s" % chr(number & 255)
        return f"%{shape}{'d' if letter == 'u' else letter}" % number
    if letter in "eEfFgG":
        return f"%{shape}{letter}" % float(value) if kind == _FLOAT else f"(no float: {value})"
    if letter == "a":
        return float(value).hex()
    if letter == "s":
        return f"%{shape}s" % _string(guest, int(value))
    if letter == "p":
        return f"%{shape}s" % hex(int(value))
    return f"(no whole number: {value})" if letter in "diouxXc" else ""
