"""Character offsets and the protocol's positions: lines and code units of the encoding the client speaks."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

_LINE_END = re.compile(r"\r\n|\n|\r")  # the protocol's line ends, and no others


@dataclass(frozen=True)
class Positions:
    """The lines of a text. `encoding` is utf-8, utf-16 (the protocol's default) or utf-32."""

    text: str
    encoding: str = "utf-16"

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(match.end() for match in _LINE_END.finditer(self.text))]

    def at(self, offset: int) -> tuple[int, int]:
        """The 0-based (line, code unit) of a character offset."""
        offset = min(max(offset, 0), len(self.text))
        line = bisect_right(self._starts, offset) - 1
        return line, self._units(self.text[self._starts[line] : offset])

    def offset(self, line: int, unit: int) -> int:
        """The character offset of a position; past the end of its line or of the text it is that end."""
        if line >= len(self._starts):
            return len(self.text)
        start = self._starts[line]
        end = self._starts[line + 1] if line + 1 < len(self._starts) else len(self.text)
        content = self.text[start:end].rstrip("\r\n")
        if content.isascii():
            return start + min(unit, len(content))
        for i, character in enumerate(content):
            unit -= self._units(character)
            if unit < 0:
                return start + i
        return start + len(content)

    def _units(self, text: str) -> int:
        if text.isascii() or self.encoding == "utf-32":
            return len(text)
        if self.encoding == "utf-8":
            return len(text.encode(errors="surrogatepass"))
        return len(text) + sum(c > "\uffff" for c in text)
