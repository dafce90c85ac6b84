"""A launch of several kernels: theirs at the same sizes, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tkgen.ir.launch import Launch
from tkgen.ir.sizing import Sizing
from tkgen.ir.types import Tensor
from tkgen.sequence.program import SequenceProgram


@dataclass(frozen=True)
class SequenceLaunch(Sizing):
    """The launches of the kernels of `program`, in order, at the same sizes."""

    program: SequenceProgram = field(repr=False)
    kernels: tuple[Launch[Any], ...]

    @property
    def launches(self) -> tuple[Launch[Any], ...]:
        """The launches of its kernels."""
        return self.kernels

    def with_launches(self, launches: Sequence[Launch[Any]]) -> SequenceLaunch:
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


def launch_in_order(program: SequenceProgram, kernels: Sequence[Launch[Any]]) -> SequenceLaunch:
    """The launches of several kernels as one."""
    extents = {name: size for launch in kernels for name, size in launch.extents.items()}
    return SequenceLaunch(program, extents, tuple(kernels))
