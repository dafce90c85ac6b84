"""An overview of a spec's text as plain data, without a compiler: the playground shows it.

>>> found = overview(Path("specs/eight_wave.tk").read_text(), "eight_wave.tk")
>>> found["proven"], [kernel["name"] for kernel in found["kernels"]]
(True, ['eight_wave'])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tkgen.api import load, load_equations
from tkgen.diagnostics import Diagnostic, Severity, SpecError
from tkgen.diagnostics.fixes import edited
from tkgen.diagnostics.later import with_later
from tkgen.diagnostics.machine import to_json
from tkgen.diagnostics.render import render_text
from tkgen.ir.equation_text import to_text
from tkgen.report.canvas import standalone
from tkgen.report.svg import equation_picture
from tkgen.source import Span

Json = dict[str, Any]
T = TypeVar("T")


def overview(text: str, name: str, target: str | None = None) -> Json:
    """Check a spec and return its diagnostics, equations, schedule and C++, each as far as it can be made.

    Args:
        text: the spec; `include` finds files beside `name`.
        name: the path that diagnostics print.
        target: for which GPU; None means the one that the spec names, else the default.

    Returns:
        `proven`; `target`; `diagnostics`, each as `tkgen check --json` has it, with `rendered`, and where its fix is
        edits of this text `fixed`, the text with the fix made; `kernels`, each with `name`, `equations` and `picture`
        (SVG of the dataflow); `schedule` and `source` (generated C++) of the whole spec. A part that cannot be made
        is empty.

    Raises:
        UnknownTargetError: no GPU has the name `target`.
    """
    found: Json = {"proven": False, "target": target or "", "schedule": "", "source": ""}
    try:
        spec = load(name, None, target, text=text)
    except SpecError as error:
        diagnostics = tuple(with_later(error.diagnostics, text, lambda new: _errors(new, name, target)))
        kernels = _made(lambda: load_equations(name, None, target, text=text)) or ()
    else:
        diagnostics = spec.diagnostics
        kernels = tuple(kernel.program.kernel for kernel in spec.kernels)
        proven = all(each.severity is not Severity.ERROR for each in diagnostics)
        found["proven"], found["target"] = proven, spec.target.name
        found["schedule"] = _made(lambda: spec.scheduled) or ""
        found["source"] = (proven and _made(lambda: spec.text)) or ""
    found["kernels"] = [
        {"name": kernel.name, "equations": to_text(kernel), "picture": standalone(equation_picture(kernel, _line))}
        for kernel in kernels
    ]
    found["diagnostics"] = [_diagnostic(each, text) for each in diagnostics]
    return found


def _line(span: Span | None) -> int:
    return span.line if span else 0


def _errors(text: str, name: str, target: str | None) -> Sequence[Diagnostic]:
    """The findings of a text."""
    try:
        return load(name, None, target, text=text).diagnostics
    except SpecError as error:
        return error.diagnostics


def _made(make: Callable[[], T]) -> T | None:
    """The result of `make`, or None where the spec has errors: `diagnostics` holds those."""
    try:
        return make()
    except SpecError:
        return None


def _diagnostic(diagnostic: Diagnostic, text: str) -> Json:
    edits = diagnostic.fix.edits if diagnostic.fix else ()
    here = edits and all(edit.span.file.text == text for edit in edits)
    return {
        **to_json(diagnostic),
        "rendered": render_text([diagnostic]),
        "fixed": edited(text, edits) if here else None,
    }
