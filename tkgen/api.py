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
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tkgen import checks
from tkgen.backends.cdna.lower import Source, lower
from tkgen.diagnostics import Diagnostic, Severity, SpecError
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.program import matrix_program
from tkgen.ir.program import program as any_program
from tkgen.ir.types import Program
from tkgen.rows.spec import RowSpec
from tkgen.schedule import Plan, plan
from tkgen.syntax import ast
from tkgen.syntax.parser import parse_path, parse_text
from tkgen.targets import Target, hopper_names, load_target

if TYPE_CHECKING:
    from tkgen.backends.hopper.spec import HopperSpec
    from tkgen.build import Build

DEFAULT_TARGET = "gfx942"


@dataclass(frozen=True)
class Spec:
    """A spec read from `path` with its `-D` values, resolved and scheduled for `target`."""

    path: Path
    kernel: ast.Kernel = field(repr=False)
    program: Program = field(repr=False)
    plan: Plan = field(repr=False)
    target: Target = field(repr=False)
    defines: Mapping[str, int | None]

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.program.name

    @cached_property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Everything the checks have to say: errors, then warnings."""
        found = checks.check(self.plan, self.target)
        return tuple(sorted(found, key=lambda d: d.severity is not Severity.ERROR))

    def check(self) -> Spec:
        """This spec, proven. Raises SpecError with every diagnostic where one is an error."""
        if any(d.severity is Severity.ERROR for d in self.diagnostics):
            raise SpecError(list(self.diagnostics))
        return self

    @cached_property
    def source(self) -> Source:
        """The generated C++."""
        return lower(self.plan, self.target.name, str(self.path))

    def build(
        self,
        *,
        cxx: str | None = None,
        kittens: Path | None = None,
        log: Path | None = None,
        machine_check: bool = True,
    ) -> Build:
        """Compile to a code object and watch it, unless `machine_check` says not to (see `tkgen.machine_check`).

        Raises:
            SpecError: as `check`; or the compiled code races, does not wait, or leaves its memory.
            ToolchainError: the compiler fails.
        """
        from tkgen.build.compiling import compiled, watched
        from tkgen.toolchain.discover import find_compiler

        self.check()
        built = compiled(self, find_compiler(self.target, cxx), kittens=kittens, log=log)
        if not machine_check:
            return built
        built = watched(built)
        if built.machine_check.diagnostics:
            raise SpecError(list(built.machine_check.diagnostics))
        return built


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
    kernel, program, name = _resolved(path, defines, target, include_roots, text)
    chosen = load_target(name)
    return Spec(Path(kernel.name.span.file.name), kernel, program, plan(program), chosen, dict(defines or {}))


def load_any(
    path: str | os.PathLike[str],
    defines: Mapping[str, int | None] | None = None,
    target: str | None = None,
    include_roots: Sequence[str | os.PathLike[str]] = (),
    text: str | None = None,
) -> Spec | HopperSpec | RowSpec:
    """As `load`, for any family of GPUs and any kernel: what comes of a spec for Hopper is a `HopperSpec`, of equations
    without matrix products a `RowSpec`."""
    kernel = _parsed(path, defines, include_roots, text)
    typed = any_program(kernel, defines)
    if isinstance(typed, EquationProgram):
        wanted = load_target(target or (typed.targets[0] if typed.targets else DEFAULT_TARGET))
        return RowSpec(Path(kernel.name.span.file.name), kernel, typed, wanted, dict(defines or {}))
    kernel, program, name = _resolved(path, defines, target, include_roots, text)
    if name not in hopper_names():
        return load(path, defines, name, include_roots, text)
    from tkgen.backends.hopper.machine import load_hopper
    from tkgen.backends.hopper.spec import HopperSpec

    file = Path(kernel.name.span.file.name)
    return HopperSpec(file, kernel, program, load_hopper(name), dict(defines or {}))


def target_of(
    path: str | os.PathLike[str],
    target: str | None = None,
    include_roots: Sequence[str | os.PathLike[str]] = (),
) -> str:
    """The name of the target that a spec is for: `target`, else what it says. Raises SpecError as `load`."""
    if target:
        return target
    typed = any_program(_parsed(path, None, include_roots, None))
    return typed.targets[0] if typed.targets else DEFAULT_TARGET


def _resolved(
    path: str | os.PathLike[str],
    defines: Mapping[str, int | None] | None,
    target: str | None,
    include_roots: Sequence[str | os.PathLike[str]],
    text: str | None,
) -> tuple[ast.Kernel, Program, str]:
    """A spec's kernel, its typed program, and the name of the target it is for."""
    kernel = _parsed(path, defines, include_roots, text)
    program = matrix_program(kernel, defines)
    return kernel, program, target or (program.targets[0] if program.targets else DEFAULT_TARGET)


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
