"""What specs of every kind have in common, for whichever machine: of one kernel or several, of products or of rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

from tkgen.diagnostics import Diagnostic, errors_first, refuse

if TYPE_CHECKING:
    from tkgen.backends.protocol import Build


class Named(Protocol):
    """A typed program, or a target: what more is known of it is each back end's own."""

    @property
    def name(self) -> str:
        """As specs say it."""


P = TypeVar("P", bound=Named, covariant=True)
T = TypeVar("T", bound=Named, covariant=True)


@dataclass(frozen=True)
class TypedSpec(ABC, Generic[P, T]):
    """A spec read from `path` with its `-D` values, typed as `program`, for `target`. What was parsed is not kept."""

    path: Path
    program: P = field(repr=False)
    target: T = field(repr=False)
    defines: Mapping[str, int | None]

    @property
    def name(self) -> str:
        """The name of the kernel, or of the sequence."""
        return self.program.name

    @abstractmethod
    def found(self) -> Iterable[Diagnostic]:
        """What the checks of its kind have to say, in any order."""

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
        """What its waves do, or other agents, as text. Raises SpecError where nothing carries it out."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The generated source."""

    @abstractmethod
    def build(self, *, cxx: str | None = None) -> Build:
        """Compile it, with the compiler `cxx` where it is given. Raises SpecError as `check`, and ToolchainError."""
