"""A launch of several kernels: theirs at the same sizes, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tkgen.ir.launch import OneLaunch, Sizing
from tkgen.ir.types import Tensor
from tkgen.sequence.program import SequenceProgram


@dataclass(frozen=True)
class SequenceLaunch(Sizing):
    """The launches of the kernels of `program`, in order, at the same sizes."""

    program: SequenceProgram = field(repr=False)
    kernels: tuple[OneLaunch, ...]

    @property
    def launches(self) -> tuple[OneLaunch, ...]:
        """The launches of its kernels."""
        return self.kernels

    def with_launches(self, launches: Sequence[OneLaunch]) -> SequenceLaunch:
        """The same with other launches."""
        return replace(self, kernels=tuple(launches))

    @property
    def written(self) -> tuple[Tensor, ...]:
        """The outputs, and the tensors between its kernels."""
        return (*self.program.outputs, *self.program.between)

    def first(self, count: int) -> SequenceLaunch:
        """The launch of the first `count` kernels."""
        program = replace(self.program, kernels=self.program.kernels[:count])
        return replace(self, program=program, kernels=self.kernels[:count])


def launch_in_order(program: SequenceProgram, kernels: Sequence[OneLaunch]) -> SequenceLaunch:
    """The launches of several kernels as one."""
    extents = {name: size for launch in kernels for name, size in launch.extents.items()}
    return SequenceLaunch(program, extents, tuple(kernels))
