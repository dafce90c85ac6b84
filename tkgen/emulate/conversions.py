"""The conversions of C's `printf`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

SIGNED, UNSIGNED, FLOAT, POINTER = range(4)  # what a value is
LONGEST: Final = 4096  # bytes of a string
_CONVERSION: Final = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d*)(?:\.(?P<digits>\*|\d*))?(?P<size>hh|h|ll|l|j|z|t|L)?(?P<letter>[a-zA-Z%])"
)
_BITS: Final = {"hh": 8, "h": 16, "l": 64, "ll": 64, "j": 64, "z": 64, "t": 64}

# The next value for a conversion letter, and what it is; raises StopIteration where there is none.
Take = Callable[[str], tuple[int, int | float | str]]


def formatted(text: str, take: Take) -> str:
    """The text with the values in it, as C has it; a conversion without a value stays as it is written."""

    def one(m: re.Match[str]) -> str:
        if m["letter"] == "%":
            return "%"
        try:
            width = str(int(take("d")[1])) if m["width"] == "*" else m["width"]
            digits = str(int(take("d")[1])) if m["digits"] == "*" else m["digits"]
            kind, value = take(m["letter"])
        except StopIteration:
            return m[0]
        if max(abs(int(width or 0)), int(digits or 0)) > LONGEST:
            return m[0]
        shape = f"{m['flags']}{width}" + (f".{digits}" if digits is not None and not digits.startswith("-") else "")
        return _converted(m["letter"], m["size"] or "", shape, kind, value) or m[0]

    return _CONVERSION.sub(one, text)


def _converted(letter: str, size: str, shape: str, kind: int, value: int | float | str) -> str:
    """One value; nothing where no such conversion is known."""
    if letter == "s" or isinstance(value, str):
        return f"%{shape}s" % value
    if letter in "diouxXc" and kind != FLOAT:
        bits = _BITS.get(size, 32)
        number = int(value) & (1 << bits) - 1
        if letter in "di" and number >> bits - 1:
            number -= 1 << bits
        if letter == "c":
            return f"%{shape}s" % chr(number & 255)
        return f"%{shape}{'d' if letter == 'u' else letter}" % number
    if letter in "eEfFgG":
        return f"%{shape}{letter}" % float(value) if kind == FLOAT else f"(no float: {value})"
    if letter == "a":
        return float(value).hex()
    if letter == "p":
        return f"%{shape}s" % hex(int(value))
    return f"(no integer: {value})" if letter in "diouxXc" else ""
