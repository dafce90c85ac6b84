"""A canvas for SVG: collects elements with everything escaped, and makes files of pictures."""

from __future__ import annotations

from functools import cache
from importlib import resources
from xml.sax.saxutils import escape as xml_escape

from tkgen.diagnostics.text import escape

Attribute = str | float | None
CHARACTER = 6.7  # width of a character of the 11 px monospace text


class Canvas:
    """Collects SVG elements; every attribute and text is escaped on its way in."""

    def __init__(self, width: float, height: float, title: str):
        self.width, self.height, self.title = width, height, title
        self.parts: list[str] = []

    def add(self, tag: str, text: str | None = None, tip: str = "", **attributes: Attribute) -> None:
        """An element with attributes (`class_` and `data_x` become `class`, `data-x`), its text and a tooltip."""
        inner = f"<title>{safe(tip)}</title>" if tip else ""
        inner += safe(text) if text is not None else ""
        body = f">{inner}</{tag}>" if inner else "/>"
        self.parts.append(f"<{tag}{_attributes(attributes)}{body}")

    def rect(
        self, x: float, y: float, width: float, height: float, class_: str, tip: str = "", **more: Attribute
    ) -> None:
        """A rectangle."""
        self.add("rect", None, tip, x=x, y=y, width=max(width, 0), height=max(height, 0), class_=class_, **more)

    def text(self, x: float, y: float, text: str, class_: str = "", **more: Attribute) -> None:
        """A text whose baseline starts at (x, y)."""
        self.add("text", text, "", x=x, y=y, class_=class_ or None, **more)

    def line(self, x1: float, y1: float, x2: float, y2: float, class_: str, **more: Attribute) -> None:
        """A straight line."""
        self.add("line", None, "", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_, **more)

    def path(self, d: str, class_: str, tip: str = "", **more: Attribute) -> None:
        """A path."""
        self.add("path", None, tip, d=d, class_=class_, **more)

    def open(self, **attributes: Attribute) -> None:
        """Begin a group."""
        self.parts.append(f"<g{_attributes(attributes)}>")

    def close(self) -> None:
        """End the innermost group."""
        self.parts.append("</g>")

    def svg(self) -> str:
        """The picture."""
        size = f'width="{number(self.width)}" height="{number(self.height)}"'
        box = f'viewBox="0 0 {number(self.width)} {number(self.height)}"'
        what = f'class="pic" role="img" aria-label="{safe(self.title)}"'
        return f'<svg xmlns="http://www.w3.org/2000/svg" {what} {size} {box}>{"".join(self.parts)}</svg>'


def safe(text: str) -> str:
    """Text for XML and HTML, in an element or an attribute; control characters as escape sequences."""
    return xml_escape(escape(text), {'"': "&quot;", "'": "&#39;"})


def _attributes(attributes: dict[str, Attribute]) -> str:
    parts = []
    for key, value in attributes.items():
        if value is not None:
            shown = number(value) if isinstance(value, int | float) else str(value)
            parts.append(f' {key.rstrip("_").replace("_", "-")}="{safe(shown)}"')
    return "".join(parts)


def number(value: float) -> str:
    """A number as SVG wants it, to a hundredth."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def fit(text: str, width: float) -> dict[str, Attribute]:
    """Squeezes a text that would be wider than `width`."""
    return {"textLength": width, "lengthAdjust": "spacingAndGlyphs"} if len(text) * CHARACTER > width else {}


@cache
def style(name: str) -> str:
    """A style sheet of the templates folder."""
    return (resources.files("tkgen.report") / "templates" / name).read_text(encoding="utf-8")


HATCH = (
    '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<line x1="0" y1="0" x2="0" y2="6" class="hatch"/></pattern></defs>'
)
"""The fill of class `hatched`, to be defined once in a document."""


def standalone(picture: str) -> str:
    """A picture as a separate file: it follows the viewer's light or dark preference and has a background."""
    dark = f"@media (prefers-color-scheme: dark) {{ {style('pictures-dark.css')} }}"
    sheet = f"<style>{style('pictures.css')}{dark} .pic {{ background: var(--panel); }}</style>"
    head, _, rest = picture.partition(">")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{head}>{sheet}{HATCH}{rest}\n'
