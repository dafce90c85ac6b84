"""What specs of one kernel for Hopper have in common, whatever it computes: how it is launched, modelled and built."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self

from tkgen.backends.cdna.lower.origins import Source
from tkgen.backends.hopper.build import CudaBuild, compiled
from tkgen.backends.hopper.checks import check_figures
from tkgen.backends.hopper.launch import Boxes
from tkgen.backends.hopper.machine import Hopper
from tkgen.backends.hopper.toolchain import Figures
from tkgen.backends.protocol import Modelled
from tkgen.backends.spec import K, TypedSpec
from tkgen.diagnostics import Diagnostic
from tkgen.ir.launch import Launch
from tkgen.ir.types import ACCESS_BYTES
from tkgen.proof.execution import Order
from tkgen.source import Span

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class HopperKernel(TypedSpec[K, Hopper], Generic[K]):
    """A spec of one kernel for a Hopper GPU."""

    @cached_property
    @abstractmethod
    def source(self) -> Source:
        """The generated CUDA C++."""

    @property
    def text(self) -> str:
        """The text of it."""
        return self.source.text

    # ------------------------------------------------------------ a block

    @property
    @abstractmethod
    def threads(self) -> int:
        """Threads of a block."""

    @property
    def dynamic_bytes(self) -> int:
        """Bytes of shared memory that the launch asks for."""
        return 0

    @property
    def moved_registers(self) -> tuple[int, int] | None:
        """Registers of a producer's and of a consumer's thread, where warpgroups hand some on."""
        return None

    @property
    def boxes(self) -> Boxes | None:
        """What the copy engine moves, where it moves anything."""
        return None

    @property
    def aligned_bytes(self) -> int:
        """What the first byte of a tensor that threads read themselves is a multiple of."""
        return ACCESS_BYTES

    @property
    def single(self) -> frozenset[str]:
        """Tensors that the copy engine moves and that threads read, too."""
        return frozenset()

    def blocks(self, launch: Launch[Any]) -> int:
        """Blocks of a launch."""
        return launch.blocks

    # ------------------------------------------------------------ what is known of it

    @property
    def judged(self) -> Span:
        """Where what is said of its machine code belongs."""
        return self.program.spans["kernel"]

    def measured(self, figures: Figures, remarks: str) -> list[Diagnostic]:
        """What its machine code breaks: spills, and promises that ptxas says it could not keep."""
        return check_figures(self.judged, self.program.allow, figures, remarks)

    @abstractmethod
    def facts(self) -> dict[str, object]:
        """Its plan, as plain data."""

    @abstractmethod
    def words(self, figures: Figures) -> str:
        """The same in words."""

    @abstractmethod
    def modelled(
        self, launch: Launch[Any], inputs: Mapping[str, Tensor], scalars: Mapping[str, float], order: Order,
        progress: Callable[[int, int], None] | None = None,
    ) -> Modelled:  # fmt: skip
        """A launch of the model of its schedule."""

    def build(
        self,
        *,
        cxx: str | None = None,
        kittens: Path | None = None,
        log: Path | None = None,
        machine_check: bool = True,
    ) -> CudaBuild[Self]:
        """Compile to a cubin, with the nvcc `cxx` where it is given, against the embedded headers.

        Raises:
            SpecError: as `check`, or the machine code spills or lost what the source promises.
            ToolchainError: there is no nvcc, or it fails.
        """
        self.check()
        return CudaBuild(*compiled(self.text, self.name, self.target, cxx), self).check()
