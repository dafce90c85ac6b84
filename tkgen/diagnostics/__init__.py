"""Diagnostics of a spec: the data (`model`), the long explanations (`explain`), the rendering (`render`)."""

from tkgen.diagnostics.errors import SpecError, refuse
from tkgen.diagnostics.model import Diagnostic, Edit, Fix, InterleavedStep, Label, Severity, distinct, errors_first

__all__ = [
    "Diagnostic", "Edit", "Fix", "InterleavedStep", "Label", "Severity", "SpecError", "distinct", "errors_first",
    "refuse",
]  # fmt: skip
