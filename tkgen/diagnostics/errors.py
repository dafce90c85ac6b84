"""The exception that carries diagnostics."""

from __future__ import annotations

from collections.abc import Sequence

from tkgen.diagnostics.model import Diagnostic, Severity


class SpecError(Exception):
    """Raised where a stage cannot go on; `diagnostics` has every one found so far.

    Its text is that of `tkgen check`, so that a traceback, a notebook and pytest show the lines of the spec.
    """

    def __init__(self, diagnostics: list[Diagnostic] | Diagnostic):
        self.diagnostics = [diagnostics] if isinstance(diagnostics, Diagnostic) else list(diagnostics)
        super().__init__(self.diagnostics)

    @property
    def sentences(self) -> str:
        """The code and the sentence of each diagnostic, in one line."""
        return "; ".join(f"{d.code}: {d.message}" for d in self.diagnostics)

    def __str__(self) -> str:
        from tkgen.diagnostics.render import render_text  # which a program that catches this never needs

        return render_text(self.diagnostics).rstrip("\n")

    def __repr__(self) -> str:
        return f"SpecError({self.sentences})"


SpecError.__module__ = "tkgen"  # as tracebacks name it


def refuse(found: Sequence[Diagnostic]) -> None:
    """Raises SpecError with all that was found where one of it is an error."""
    if any(d.severity is Severity.ERROR for d in found):
        raise SpecError(list(found))
