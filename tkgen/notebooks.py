"""Values that a notebook shows as the HTML report does."""

from __future__ import annotations

from importlib import import_module


class Shown:
    """A value with a page in a notebook."""

    def _repr_html_(self) -> str:
        """The page. It is made by the report, which only a notebook needs."""
        return str(import_module("tkgen.report.notebook").html(self))
