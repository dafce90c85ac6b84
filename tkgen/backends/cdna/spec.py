"""A spec of one kernel for CDNA: laid out, scheduled, proven, generated, compiled, each as its ops ask for."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic

from tkgen.backends.cdna.form import CdnaForm
from tkgen.backends.cdna.lower.origins import Source
from tkgen.backends.form import KernelSpec, form_of
from tkgen.backends.spec import K
from tkgen.backends.stages import Compiling
from tkgen.targets import Target

if TYPE_CHECKING:
    from tkgen.build.model import Build
    from tkgen.schedule.plan import Plan


@dataclass(frozen=True)
class Spec(KernelSpec[K, Target], Generic[K]):
    """A spec read from `path` with its `-D` values, typed, for `target`.

    `fixed_plan` is a plan to take instead of the one that is found.
    """

    fixed_plan: Plan | None = field(default=None, repr=False)

    @cached_property
    def form(self) -> CdnaForm:
        """The form that its ops choose."""
        form: CdnaForm = form_of(self.program, "cdna")
        return form

    @cached_property
    def schedule(self) -> Any:
        """The schedule of its waves. Raises SpecError if there is none."""
        return self.fixed_plan or self.form.schedule(self)

    @property
    def plan(self) -> Any:
        """The schedule, where it has K-steps; else None."""
        return None if self.program.contraction is None else self.schedule

    @property
    def decides(self) -> bool:
        """Return True if the steps of its waves depend on data."""
        return self.form.decides(self)

    @cached_property
    def namespace(self) -> Source:
        """The C++ without the file around it, to be placed next to other kernels."""
        return self.form.namespace(self)

    def compiled(self, compiling: Compiling) -> Build:
        """Compile to a code object and watch it (see `tkgen.machine_check`).

        Raises:
            SpecError: the compiled code races, does not wait, or leaves its memory.
            ToolchainError: the compiler fails.
        """
        from tkgen.build.compiling import compiled_and_watched

        return compiled_and_watched(self, compiling)
