"""What specs of one kernel for CDNA have in common, whatever it computes: generated C++, and how it is built."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tkgen.backends.cdna.lower.origins import Source
from tkgen.backends.spec import P, TypedSpec
from tkgen.targets import Target

if TYPE_CHECKING:
    from tkgen.build.model import Compiled

B = TypeVar("B", bound="Compiled", covariant=True)


@dataclass(frozen=True)
class KernelSpec(TypedSpec[P, Target], Generic[P, B]):
    """A spec of one kernel, of which a `B` is built."""

    @abstractmethod
    def generated(self, alone: bool) -> Source:
        """The C++ of the kernel; without the file around it where it is not `alone` there."""

    @property
    def decides(self) -> bool:
        """Whether what its waves do depends on data."""
        return False

    @property
    def planned(self) -> Any:
        """What a harness for it is made from."""
        return self.program

    @cached_property
    def source(self) -> Source:
        """The generated C++."""
        return self.generated(alone=True)

    @cached_property
    def namespace(self) -> Source:
        """The same without the file around it, as it stands among other kernels."""
        return self.generated(alone=False)

    @property
    def text(self) -> str:
        """The text of it."""
        return self.source.text

    @property
    @abstractmethod
    def kind(self) -> type[B]:
        """What is built of it."""

    def build(
        self,
        *,
        cxx: str | None = None,
        kittens: Path | None = None,
        log: Path | None = None,
        machine_check: bool = True,
    ) -> B:
        """Compile to a code object and watch it, unless `machine_check` says not to (see `tkgen.machine_check`).

        Raises:
            SpecError: as `check`; or the compiled code races, does not wait, or leaves its memory.
            ToolchainError: the compiler fails.
        """
        from tkgen.build.compiling import build

        return build(self, cxx=cxx, kittens=kittens, log=log, machine_check=machine_check)
