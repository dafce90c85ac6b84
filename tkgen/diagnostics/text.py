"""Text of messages: numbers with their nouns; text from files made safe to show, and its width."""

from __future__ import annotations

import unicodedata


def escape(text: str) -> str:
    """The text with every control, formatting and unpaired surrogate character written as `\\x1b` or `\\u202e`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if plain(c) else escaped(c) for c in text)


def plain(character: str) -> bool:
    """Return True if a character shows as itself and does nothing else to a terminal."""
    return unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp")


def escaped(character: str) -> str:
    """A character as its escape sequence in Python's notation."""
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def columns(text: str) -> int:
    """How many terminal columns printable text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in ("W", "F") else 1 for c in text
    )


def count_text(number: int, what: str) -> str:
    """`1 barrier`, `2 barriers`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
