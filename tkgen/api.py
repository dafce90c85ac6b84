"""tkgen as a library: what the command line calls.

>>> import tkgen
>>> spec = tkgen.load("specs/eight_wave.tk", {"M": 256, "N": 256, "K": 192})
>>> build = spec.check().build()
>>> build.resources.vgpr, build.resources.vgpr_spills
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tkgen.backends import protocol
from tkgen.backends.cdna.spec import Spec
from tkgen.backends.registry import backend_of
from tkgen.ir.program import matrix_program
from tkgen.ir.program import program as any_program
from tkgen.schedule import plan
from tkgen.syntax import ast
from tkgen.syntax.parser import parse_path, parse_text
from tkgen.targets import load_target

__all__ = ["DEFAULT_TARGET", "Spec", "define_value", "load", "load_any", "target_of"]

DEFAULT_TARGET = "gfx942"


def load(
    path: str | os.PathLike[str],
    defines: Mapping[str, int | None] | None = None,
    target: str | None = None,
    include_roots: Sequence[str | os.PathLike[str]] = (),
    text: str | None = None,
) -> Spec:
    """Read, resolve and schedule the spec at `path`, or `text` as if it stood there.

    A `path` with line breaks is no path but the text of a spec.

    `defines` gives dimensions and parameters other values, None meaning `dynamic`. `target` defaults to the first one
    the spec names, else gfx942. Raises SpecError with every problem found, UnknownTargetError for a wrong target,
    TypeError for a define that is no whole number.
    """
    kernel = _parsed(path, defines, include_roots, text)
    program = matrix_program(kernel, defines)
    chosen = load_target(target or _wanted(program.targets))
    return Spec(Path(kernel.name.span.file.name), kernel, program, plan(program, chosen), chosen, dict(defines or {}))


def load_any(
    path: str | os.PathLike[str],
    defines: Mapping[str, int | None] | None = None,
    target: str | None = None,
    include_roots: Sequence[str | os.PathLike[str]] = (),
    text: str | None = None,
) -> protocol.Spec:
    """As `load`, for any kind of machine and any kernel: what comes of it is of the back end that its target has."""
    kernel = _parsed(path, defines, include_roots, text)
    program = any_program(kernel, defines)
    name = target or _wanted(program.targets)
    return backend_of(name).spec(Path(kernel.name.span.file.name), kernel, program, name, dict(defines or {}))


def target_of(
    path: str | os.PathLike[str],
    target: str | None = None,
    include_roots: Sequence[str | os.PathLike[str]] = (),
) -> str:
    """The name of the target that a spec is for: `target`, else what it says. Raises SpecError as `load`."""
    if target:
        return target
    return _wanted(any_program(_parsed(path, None, include_roots, None)).targets)


def _wanted(named: Sequence[str]) -> str:
    """The target of a spec that names these."""
    return named[0] if named else DEFAULT_TARGET


def _parsed(
    path: str | os.PathLike[str],
    defines: Mapping[str, int | None] | None,
    include_roots: Sequence[str | os.PathLike[str]],
    text: str | None,
) -> ast.Kernel:
    for name, value in (defines or {}).items():
        if value is not None and type(value) is not int:
            raise TypeError(f"defines: {name} is a whole number, or None for `dynamic`, not {value!r}")
    if isinstance(path, str) and "\n" in path:
        return parse_text(path, include_roots)
    return parse_path(path, include_roots, text)


def define_value(text: str) -> int | float | None:
    """What stands behind `=` in a `-D` option: a size, a number for a scalar, or None for `dynamic`.

    Raises:
        ValueError: it is none of these.
    """
    if text == "dynamic":
        return None
    if re.fullmatch(r"\d{1,12}", text, re.ASCII):
        return int(text)
    if re.fullmatch(r"-?\d{1,20}(\.\d{1,20})?([eE][+-]?\d{1,2})?", text, re.ASCII):
        return float(text)
    raise ValueError(text)
