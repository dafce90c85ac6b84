"""A spec of one kernel for CDNA: laid out, scheduled, proven, generated, compiled, each as its ops ask for."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

from tkgen.backends.cdna.form import CdnaForm
from tkgen.backends.cdna.fused import FUSED
from tkgen.backends.cdna.lanes import LANES
from tkgen.backends.cdna.lower.origins import Source
from tkgen.backends.cdna.staged import STAGED
from tkgen.backends.form import KernelSpec, by_ops
from tkgen.backends.spec import K
from tkgen.schedule import Plan
from tkgen.targets import Target

if TYPE_CHECKING:
    from tkgen.build.model import Build


@dataclass(frozen=True)
class Spec(KernelSpec[K, Target], Generic[K]):
    """A spec read from `path` with its `-D` values, typed, for `target`.

    `fixed_plan` is a plan to take instead of the one that is found.
    """

    fixed_plan: Plan | None = field(default=None, repr=False)

    @cached_property
    def form(self) -> CdnaForm:
        """What its ops decide."""
        return by_ops(self.program, STAGED, FUSED, LANES)

    @cached_property
    def schedule(self) -> Any:
        """What its waves do. Raises SpecError where there is no schedule."""
        return self.fixed_plan or self.form.schedule(self)

    @property
    def plan(self) -> Any:
        """The schedule, where it has K-steps; else None."""
        return None if self.program.contraction is None else self.schedule

    @property
    def decides(self) -> bool:
        """Whether what its waves do depends on data."""
        return self.form.decides(self)

    @cached_property
    def namespace(self) -> Source:
        """The C++ without the file around it, as it stands among other kernels."""
        return self.form.namespace(self)

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
        from tkgen.build.compiling import build

        return build(self, cxx=cxx, kittens=kittens, log=log, machine_check=machine_check)
