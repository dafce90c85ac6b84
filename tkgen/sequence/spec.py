"""A spec of several kernels: each as if it stood alone, what becomes of tensors between them, the generated file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tkgen.backends.cdna.lower.origins import Source, joined
from tkgen.backends.cdna.lower.sequence import sequence_parts
from tkgen.backends.spec import TypedSpec
from tkgen.diagnostics import Diagnostic, Fix, Label, distinct
from tkgen.ir.equations import Store
from tkgen.rows.spec import RowSpec
from tkgen.sequence.program import SequenceProgram, covered, meaning_of
from tkgen.targets import Target

if TYPE_CHECKING:
    from tkgen.backends.cdna.spec import Spec
    from tkgen.sequence.build import SequenceBuild


@dataclass(frozen=True)
class SequenceSpec(TypedSpec[SequenceProgram, Target]):
    """A spec read from `path` with its `-D` values: its `kernels` in order, typed and scheduled for `target`."""

    kernels: tuple[Spec | RowSpec, ...] = field(repr=False)

    # ------------------------------------------------------------ what there is to say

    def found(self) -> Iterable[Diagnostic]:
        """What the checks say of each kernel, and of the tensors between them."""
        return distinct([*self._unwritten(), *(d for kernel in self.kernels for d in kernel.diagnostics)])

    def _unwritten(self) -> Iterator[Diagnostic]:
        """E231 where a kernel reads what only a later one writes, or more than those before it write."""
        stores: dict[str, list[Store]] = {}
        last = {t.name: n for n, p in enumerate(self.program.kernels) for t in p.outputs}
        for number, p in enumerate(self.program.kernels):
            own = {t.name for t in p.outputs}
            for tensor in p.reads:
                label = Label(p.spans["kernel"], f"reads `{tensor.name}`")
                if (
                    tensor.name in stores
                    and tensor in self.program.between
                    and not covered(tensor, stores[tensor.name])
                ):
                    places = tuple(Label(s.span, "writes a part of it") for s in stores[tensor.name] if s.span)
                    message = f"`{tensor.name}` is read, but the kernels before write a part of it alone"
                    yield Diagnostic("E231", message, label, places, fix=Fix("let them write all of it"))
                if last.get(tensor.name, -1) > number and tensor.name not in stores and tensor.name not in own:
                    writer = self.program.kernels[last[tensor.name]]
                    message = f"`{tensor.name}` is read before a kernel of the sequence writes it"
                    fix = Fix(f"move `{writer.name}` up, or let it write another tensor")
                    yield Diagnostic("E231", message, label, (Label(writer.spans["kernel"], "writes it"),), fix=fix)
            for store in meaning_of(p).stores:
                stores.setdefault(store.target.tensor.name, []).append(store)

    # ------------------------------------------------------------ code

    @property
    def scheduled(self) -> str:
        """What the waves of each kernel do, as text."""
        return "\n\n".join(k.scheduled.rstrip("\n") for k in self.kernels)

    @cached_property
    def source(self) -> Source:
        """The generated C++: every kernel in a namespace of its own, and one `dispatch` that launches them in order."""
        head, tail = sequence_parts(
            self.name,
            self.program.header.splitlines(),
            self.path.name,
            self.target.name,
            [(k.program, k.namespace) for k in self.kernels],
            self.program.arguments,
            self.program.between,
        )
        return joined([head, *(part for k in self.kernels for part in (k.namespace, "\n")), tail])

    @property
    def text(self) -> str:
        """The text of it."""
        return self.source.text

    def build(
        self,
        *,
        cxx: str | None = None,
        kittens: Path | None = None,
        log: Path | None = None,
        machine_check: bool = True,
    ) -> SequenceBuild:
        """Compile every kernel to a code object and watch it, unless `machine_check` says not to.

        Raises:
            SpecError: as `check`; or compiled code races, does not wait, or leaves its memory.
            ToolchainError: the compiler fails.
        """
        from tkgen.sequence.build import SequenceBuild

        self.check()
        built = [k.build(cxx=cxx, kittens=kittens, log=log, machine_check=machine_check) for k in self.kernels]
        return SequenceBuild(self, tuple(built))
