"""The common part of specs of every kind, for any machine, of one kernel or of several."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeAlias, TypeVar

from tkgen.backends.stages import Compiling, built
from tkgen.diagnostics import Diagnostic, errors_first, refuse
from tkgen.ir.kernel_program import KernelProgram
from tkgen.ir.sizing import Sizing, Taking
from tkgen.ir.types import Dim
from tkgen.notebooks import Shown

if TYPE_CHECKING:
    from tkgen.backends.protocol import Build


class Named(Protocol):
    """A target: what more is known of it is each back end's own."""

    @property
    def name(self) -> str:
        """As specs say it."""


class Typed(Taking, Named, Protocol):
    """The typed program of a kernel, or of several."""

    @property
    def header(self) -> str:
        """The comment at the head of the spec."""


P = TypeVar("P", bound=Typed, covariant=True)
K = TypeVar("K", bound=KernelProgram, covariant=True)
T = TypeVar("T", bound=Named, covariant=True)


@dataclass(frozen=True)
class TypedSpec(Shown, ABC, Generic[P, T]):
    """A spec read from `path` with its `-D` values, typed as `program`, for `target`. The parsed tree is not kept."""

    path: Path
    program: P = field(repr=False)
    target: T = field(repr=False)
    defines: Mapping[str, int | None]

    @property
    def name(self) -> str:
        """The name of the kernel, or of the sequence."""
        return self.program.name

    @property
    def kernels(self) -> tuple[AnySpec, ...]:
        """The specs of its kernels, in order: itself alone, where it has one."""
        return (self,)

    @abstractmethod
    def found(self) -> Iterable[Diagnostic]:
        """The diagnostics of the checks of its kind, in any order."""

    @cached_property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Everything there is to say before it is compiled: errors, then warnings."""
        return errors_first(self.found())

    def check(self) -> Self:
        """This spec, proven. Raises SpecError with every diagnostic where one is an error."""
        refuse(self.diagnostics)
        return self

    @property
    @abstractmethod
    def scheduled(self) -> str:
        """The schedule of its waves, or other agents, as text. Raises SpecError where it has none."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The generated source."""

    @abstractmethod
    def launch(self, given: Mapping[str, int] | None = None) -> Sizing:
        """The launch at the spec's own sizes, `given` ones for dynamic dimensions.

        Raises:
            SizeError: a dynamic dimension without a size, or a size that a kernel cannot do.
        """

    @abstractmethod
    def size_cases(self) -> Iterator[dict[str, int]]:
        """Sizes worth trying, by the names of dimensions; those that are left out are the spec's own."""

    @property
    def one_matrix(self) -> dict[str, int]:
        """Sizes of a batch of one, where a model of the schedule takes long for each matrix."""
        return {}

    @property
    def places(self) -> set[Dim]:
        """The dimensions that may be empty, for which a launch does no work."""
        return set()

    @property
    def divides(self) -> bool:
        """Return True if these are multiples that sizes of other kernels in a sequence have to follow."""
        return False

    @property
    def plan(self) -> Any:
        """The plan of its K-steps, where something was planned: what reports show of one."""
        return None

    def fitting(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """`sizes`, those changed that the kernel cannot do."""
        return dict(sizes)

    @abstractmethod
    def compiled(self, compiling: Compiling) -> Build:
        """The stage `compile` of the generated source.

        Raises:
            SpecError: the machine code breaks what the spec promises.
            ToolchainError: there is no compiler, or it fails.
        """

    def build(
        self,
        *,
        cxx: str | None = None,
        kittens: Path | None = None,
        log: Path | None = None,
        machine_check: bool = True,
    ) -> Build:
        """Run the stages up to machine code: a `Build`. It is watched if `machine_check` says so and something can.

        `cxx` is the compiler, `kittens` a ThunderKittens checkout to compile against, `log` a file for its words.

        Raises:
            SpecError: as `check`, or the machine code breaks what the spec promises.
            ToolchainError: there is no compiler, or it fails.
        """
        return built(self, Compiling(cxx, kittens, log, machine_check))


AnySpec: TypeAlias = TypedSpec[Any, Any]
"""Any spec, of which only what all have in common is known."""
