"""tkgen as a library: what the command line calls.

>>> import tkgen
>>> spec = tkgen.load("specs/eight_wave.tk", {"M": 256, "N": 256, "K": 192})
>>> build = spec.check().build()
>>> build.resources.vgpr, build.resources.vgpr_spills
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tkgen.backends import protocol
from tkgen.backends.registry import backend_of
from tkgen.ir.equations import Kernel
from tkgen.ir.program import of_products
from tkgen.ir.program import program as any_program
from tkgen.ir.types import Program
from tkgen.pipeline import EQUATIONS, SCHEDULE, Request, run
from tkgen.syntax import ast
from tkgen.syntax.parser import parse_path, parse_spec
from tkgen.targets import DEFAULT_TARGET, load_target

if TYPE_CHECKING:
    from tkgen.backends.cdna.spec import Spec

__all__ = [
    "DEFAULT_TARGET",
    "Spec",
    "define_value",
    "load",
    "load_equations",
    "load_products",
    "target_of",
    "write",
]


def __getattr__(name: str) -> Any:
    """Import `Spec` when it is first used: a spec for another kind of machine does not need it."""
    if name != "Spec":
        raise AttributeError(f"module 'tkgen.api' has no attribute '{name}'")
    from tkgen.backends.cdna.spec import Spec

    return Spec


def load(
    path: str | os.PathLike[str],
    defines: Mapping[str, int | None] | None = None,
    target: str | None = None,
    include_roots: Sequence[str | os.PathLike[str]] = (),
    text: str | None = None,
) -> protocol.Spec:
    """Read and type the spec at `path`, or `text` as if it stood there: of one kernel or several, for any target.

    What comes of it is of its target's back end: on an AMD GPU a `Spec`, of several
    kernels a `SequenceSpec` that has the specs of them. A `path` with line breaks is no path but the text of a spec.

    `defines` gives dimensions and parameters other values, None meaning `dynamic`. `target` defaults to the first one
    the spec names, else gfx942. Raises SpecError with every problem found, UnknownTargetError for a wrong target,
    TypeError for a define that is not an integer.
    """
    return run(_request(path, defines, target, include_roots, text), SCHEDULE)


def load_products(
    path: str | os.PathLike[str],
    defines: Mapping[str, int | None] | None = None,
    target: str | None = None,
    include_roots: Sequence[str | os.PathLike[str]] = (),
    text: str | None = None,
) -> Spec[Program]:
    """As `load`, for what needs the plan of a kernel of matrix products on an AMD GPU, and takes nothing else.

    Raises SpecError for other specs, too.
    """
    from tkgen.backends.cdna.spec import Spec
    from tkgen.schedule.plan import plan

    _check_whole(defines)
    kernel = parse_path(path, include_roots, text)
    found = any_program(kernel, defines, target)
    chosen = load_target(target or _wanted(found.targets))  # another kind of machine is said first
    program = of_products(kernel, found)
    return Spec(Path(kernel.name.span.file.name), program, chosen, dict(defines or {}), plan(program, chosen))


def load_equations(
    path: str | os.PathLike[str],
    defines: Mapping[str, int | None] | None = None,
    target: str | None = None,
    include_roots: Sequence[str | os.PathLike[str]] = (),
    text: str | None = None,
) -> tuple[Kernel, ...]:
    """Return the typed equations of each kernel of the spec at `path`. The spec needs no schedule.

    Raises SpecError as `load`.
    """
    return tuple(run(_request(path, defines, target, include_roots, text), EQUATIONS).typed())


def _request(
    path: str | os.PathLike[str],
    defines: Mapping[str, int | None] | None,
    target: str | None,
    include_roots: Sequence[str | os.PathLike[str]],
    text: str | None,
) -> Request:
    """The request of these arguments. Raises TypeError for a define that is not an integer."""
    _check_whole(defines)
    return Request(path, dict(defines or {}), target, include_roots, text)


def write(
    build: protocol.Build, directory: str | os.PathLike[str], emit: Collection[str] | None = None
) -> dict[str, Path]:
    """Write outputs of any build under `directory`, each whole or not at all; their paths by kind.

    `emit` names them, as `tkgen build --emit` does; else they are source, assembly, code object, figures and a report.

    Raises:
        ValueError: the back end of the build's target has no such output.
        SpecError: no harness can be written for it.
        ModuleUnavailableError, ToolchainError: a Python module cannot be built here, or the compiler fails.
    """
    from tkgen.build.outputs import DEFAULT_EMITS

    backend = backend_of(build.spec.target.name)
    if emit is None:
        emit = [kind for kind in DEFAULT_EMITS if kind in backend.emits]
    for kind in emit:
        if kind not in backend.emits:
            raise ValueError(f"{kind!r} is no output for {build.spec.target.name}: {', '.join(backend.emits)}")
    return backend.write(build, Path(directory), emit)


def target_of(
    path: str | os.PathLike[str],
    target: str | None = None,
    include_roots: Sequence[str | os.PathLike[str]] = (),
    text: str | None = None,
) -> str:
    """The name of the target that a spec is for: `target`, else what it says. Raises SpecError as `load`."""
    if target:
        return target
    found = parse_spec(path, include_roots, text)
    return _wanted(any_program(found.kernels[0] if isinstance(found, ast.Sequence) else found).targets)


def _wanted(named: Sequence[str]) -> str:
    """The target of a spec that names these."""
    return named[0] if named else DEFAULT_TARGET


def _check_whole(defines: Mapping[str, int | None] | None) -> None:
    """Raises TypeError for a define that is neither an integer nor None."""
    for name, value in (defines or {}).items():
        if value is not None and type(value) is not int:
            raise TypeError(f"defines: {name} is an integer, or None for `dynamic`, not {value!r}")


def define_value(text: str) -> int | float | None:
    """Return the value of a `-D` option: a size, a number for a scalar, or None for `dynamic`.

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
