"""What the library and its commands need of a kind of machine: a `Backend`, and the specs and builds that it makes.

A back end is a folder beside this file and its place in `tkgen/backends/registry.py`. What more it has - a plan that is
proven, an emulator, predictions - is asked of its own classes by those who show it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

from tkgen.diagnostics import Diagnostic
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.types import Program
from tkgen.syntax import ast

if TYPE_CHECKING:
    import torch

    from tkgen.execute.kernels import AnyLaunch


class Machine(Protocol):
    """A target: what is known of it is each back end's own."""

    @property
    def name(self) -> str:
        """As specs and options say it."""


class Spec(Protocol):
    """A spec read from `path` with its `-D` values, for a target."""

    @property
    def name(self) -> str:
        """The kernel's name."""

    @property
    def path(self) -> Path:
        """The file it was read from."""

    @property
    def target(self) -> Machine:
        """What it is for."""

    @property
    def defines(self) -> Mapping[str, int | None]:
        """The `-D` values."""

    @property
    def diagnostics(self) -> Sequence[Diagnostic]:
        """Everything there is to say before it is compiled: errors, then warnings."""

    @property
    def text(self) -> str:
        """The generated source."""

    def check(self) -> Self:
        """This spec. Raises SpecError with every diagnostic where one is an error."""

    def build(self, *, cxx: str | None = None) -> Build:
        """Compile it, with the compiler `cxx` where it is given. Its machine code is watched where it is emulated.

        Raises:
            SpecError: as `check`, or the machine code is wrong.
            ToolchainError: there is no compiler, or it fails.
        """


class Build(Protocol):
    """A compiled spec."""

    @property
    def diagnostics(self) -> Sequence[Diagnostic]:
        """What there is to say of the spec and of the machine code."""

    @property
    def unwatched(self) -> str:
        """Why the machine code was not watched although it should have been; empty where it was."""

    def check(self) -> Self:
        """This build. Raises SpecError where the machine code breaks what was promised."""

    def report(self) -> dict[str, object]:
        """All figures as plain data."""

    def line(self) -> str:
        """The figures in one line."""


class Backend(Protocol):
    """One kind of machine."""

    @property
    def functions(self) -> str:
        """Whose C++ of functions its code has: a key of `tkgen.ir.functions.Function.cpp`."""

    @property
    def suffix(self) -> str:
        """Of files of generated source, without a dot."""

    @property
    def emits(self) -> Collection[str]:
        """What of `tkgen build --emit` it can write."""

    @property
    def own_headers(self) -> str:
        """Why it compiles against no ThunderKittens checkout (`--kittens`); empty where it does."""

    @property
    def emulated(self) -> bool:
        """Whether its machine code runs without a GPU, and builds watch it."""

    def targets(self) -> tuple[str, ...]:
        """The names of its targets, sorted."""

    def described(self, target: str) -> str:
        """A sentence or two about one of them."""

    def spec(
        self, path: Path, kernel: ast.Kernel, program: Program | EquationProgram, target: str,
        defines: Mapping[str, int | None],
    ) -> Spec:  # fmt: skip
        """A typed kernel for one of its targets.

        Raises:
            SpecError: there is no schedule for it.
            UnknownTargetError: no such target, or none for kernels of its kind.
        """

    def produce(
        self, spec: Spec, directory: Path, emit: Collection[str], *, cxx: str | None, kittens: Path | None, watch: bool
    ) -> tuple[Build, dict[str, Path]]:
        """Build one of its specs and write what is asked for: the build, and the paths.

        Raises:
            SpecError: the spec is wrong, or its machine code is.
            ToolchainError: there is no compiler, or it fails.
        """

    def need_gpu(self) -> None:
        """Raises ToolchainError where torch has no such GPU here."""

    def launcher(
        self, spec: Spec, launch: AnyLaunch, tensors: Mapping[str, torch.Tensor], scalars: Mapping[str, float],
        cxx: str | None,
    ) -> Callable[[], None]:  # fmt: skip
        """What launches a kernel, or all of a sequence, on these tensors of the GPU: what is read, what is written.

        Raises:
            SpecError, ToolchainError: as `produce`.
        """
