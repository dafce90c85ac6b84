"""From the text of a spec to all its diagnostics, the way `tkgen check` goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import tkgen.api
from tkgen.diagnostics import Diagnostic, SpecError


def diagnose(
    path: Path, defines: Mapping[str, int | None] | None = None, target: str | None = None
) -> tuple[Diagnostic, ...]:
    """Errors and warnings of the spec at `path`."""
    try:
        return tkgen.api.load(path, defines, target).diagnostics
    except SpecError as error:
        return tuple(error.diagnostics)


def options(words: Sequence[str]) -> tuple[dict[str, int | None], str | None]:
    """`-D` values and the target of an example's or a corpus file's command line."""
    defines: dict[str, int | None] = {}
    target = None
    for word in words:
        name, _, value = word.removeprefix("-D").partition("=")
        if word.startswith("target="):
            target = value
        elif value:
            defines[name] = None if value == "dynamic" else int(value)
    return defines, target
