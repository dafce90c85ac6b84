"""The names that `-D NAME=VALUE` options may give values."""

from __future__ import annotations

from collections.abc import Iterable

from tkgen.diagnostics import Diagnostic, Fix, Label
from tkgen.diagnostics.suggest import suggestion
from tkgen.syntax import ast


def unknown_defines(kernel: ast.Kernel, given: Iterable[str]) -> list[Diagnostic]:
    """An error E210 for each of the given names that is no dimension and no parameter of the kernel."""
    names = ast.bound(kernel)
    return [
        Diagnostic(
            "E210",
            f"-D {name} sets nothing in kernel `{kernel.name.id}`{suggestion(name, names)}",
            primary=Label(kernel.name.span, "no dimension or parameter of that name"),
            notes=(f"it has {', '.join(sorted(names)) or 'none'}",),
            fix=Fix("leave it out, or name one of these"),
        )
        for name in given
        if name not in names
    ]
