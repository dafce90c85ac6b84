"""A launch of a sequence: its kernels at the same sizes, one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tkgen.execute.arguments import launched
from tkgen.ir.launch import Launch, Sizing
from tkgen.rows.launch import RowLaunch, row_launch
from tkgen.rows.spec import RowSpec
from tkgen.sequence.program import SequenceProgram

if TYPE_CHECKING:
    from tkgen.sequence.spec import SequenceSpec


@dataclass(frozen=True)
class SequenceLaunch(Sizing):
    """The launches of the kernels of `program`, in order, at the same sizes."""

    program: SequenceProgram = field(repr=False)
    launches: tuple[Launch | RowLaunch, ...]

    @property
    def blocks(self) -> int:
        """The blocks of all launches."""
        return sum(launch.blocks for launch in self.launches)


def sequence_launch(spec: SequenceSpec, given: Mapping[str, int] | None = None) -> SequenceLaunch:
    """The launch at the spec's own sizes, `given` ones for dynamic dimensions.

    Raises:
        SizeError: a dynamic dimension without a size, or a size that one of the kernels cannot do.
    """
    launches = tuple(
        row_launch(k.program, k.layout, given) if isinstance(k, RowSpec) else launched(k, given) for k in spec.kernels
    )
    extents = {name: size for launch in launches for name, size in launch.extents.items()}
    return SequenceLaunch(spec.program, extents, launches)
