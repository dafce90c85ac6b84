"""A spec of one kernel for Hopper: laid out, proven, generated, modelled, compiled, each as its ops ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Self

from tkgen.backends.form import KernelSpec, form_of
from tkgen.backends.hopper.form import HopperForm
from tkgen.backends.hopper.launch import Boxes
from tkgen.backends.hopper.machine import Hopper
from tkgen.backends.hopper.neighbours import ALONE, Neighbours
from tkgen.backends.protocol import Modelled
from tkgen.backends.spec import K
from tkgen.backends.stages import Compiling
from tkgen.diagnostics import Diagnostic
from tkgen.ir.launch import Launch
from tkgen.ir.types import ACCESS_BYTES
from tkgen.proof.execution import Order

if TYPE_CHECKING:
    from torch import Tensor

    from tkgen.backends.hopper.build import CudaBuild
    from tkgen.backends.hopper.toolchain import Figures


@dataclass(frozen=True)
class HopperSpec(KernelSpec[K, Hopper], Generic[K]):
    """A spec read from `path` with its `-D` values, typed, for a Hopper GPU; in a sequence with kernels `beside` it."""

    beside: Neighbours = ALONE

    @cached_property
    def form(self) -> HopperForm:
        """The form that its ops choose."""
        form: HopperForm = form_of(self.program, "hopper")
        return form

    # ------------------------------------------------------------ a block

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return int(self.layout.threads)

    @property
    def dynamic_bytes(self) -> int:
        """Bytes of shared memory that the launch asks for, of tiles."""
        return self.layout.dynamic_bytes if self.form.copies else 0

    @property
    def moved_registers(self) -> tuple[int, int] | None:
        """Registers of a producer's and of a consumer's thread, where warpgroups hand some on."""
        return self.layout.moved_registers if self.form.copies else None

    @property
    def boxes(self) -> Boxes | None:
        """The boxes that the copy engine moves; None without any."""
        return self.layout if self.form.copies else None

    @property
    def single(self) -> frozenset[str]:
        """Tensors that the copy engine moves and that threads read, too."""
        return self.form.single(self)

    def aligned_bytes(self, tensor: str) -> int:
        """The divisor of the first byte of a tensor that the copy engine does not move."""
        return ACCESS_BYTES if tensor in self.form.filled(self) else self.form.aligned_bytes

    def blocks(self, launch: Launch[Any]) -> int:
        """Blocks of a launch."""
        return self.form.blocks(launch)

    @property
    def one_matrix(self) -> dict[str, int]:
        """Sizes of a batch of one, where a model of the schedule takes long for each matrix."""
        return self.form.one_matrix(self)

    # ------------------------------------------------------------ what is known of it

    def measured(self, figures: Figures, remarks: str) -> list[Diagnostic]:
        """Diagnostics of its machine code: spills, and ptxas' remarks that it broke a promise."""
        from tkgen.backends.hopper.checks import check_figures

        return check_figures(self.form.judged(self), self.program.allow, figures, remarks, *self.form.room(self))

    def facts(self) -> dict[str, object]:
        """Its plan, as plain data."""
        sizes = {d.name: d.size for d in self.program.dims}
        return {"sizes": sizes, **self.form.facts(self), "proof": self.form.proof}

    def modelled(
        self, launch: Launch[Any], inputs: Mapping[str, Tensor], scalars: Mapping[str, float], order: Order,
        progress: Callable[[int, int], None] | None = None,
    ) -> Modelled:  # fmt: skip
        """A launch of the model of its schedule."""
        return self.form.modelled(self, launch, inputs, scalars, order, progress)

    def compiled(self, compiling: Compiling) -> CudaBuild[Self]:
        """Compile to a cubin, with nvcc, against the embedded headers. Nothing watches it.

        Raises:
            SpecError: the machine code spills or lost what the source promises.
            ToolchainError: there is no nvcc, or it fails.
        """
        from tkgen.backends.hopper.build import CudaBuild, compiled

        return CudaBuild(*compiled(self.text, self.name, self.target, compiling.cxx), self).check()
