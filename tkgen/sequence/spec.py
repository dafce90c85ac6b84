"""A spec of several kernels: each as if it stood alone, what becomes of tensors between them, the generated file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import lcm
from typing import TYPE_CHECKING, Any, Generic

from tkgen.backends.cdna.lower.origins import Source
from tkgen.backends.spec import AnySpec, T, TypedSpec
from tkgen.backends.stages import Compiling
from tkgen.diagnostics import Diagnostic, Fix, Label, SpecError, distinct
from tkgen.ir.equations import Store
from tkgen.ir.launch import Launch
from tkgen.ir.sizing import Sizing
from tkgen.ir.types import Tensor
from tkgen.sequence.program import SequenceProgram, covered, meaning_of

if TYPE_CHECKING:
    from tkgen.sequence.build import SequenceBuild


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


FAR = 4  # times a size that two kernels ask for, beyond which no common multiple is tried


@dataclass(frozen=True)
class SequenceSpec(TypedSpec[SequenceProgram, T], Generic[T]):
    """A spec read from `path` with its `-D` values: its kernels in order, typed and scheduled for `target`.

    `joined` makes the file of all of them.
    """

    parts: tuple[AnySpec, ...] = field(repr=False)
    joined: Callable[[SequenceSpec[T]], Source] = field(repr=False, compare=False)

    @property
    def kernels(self) -> tuple[AnySpec, ...]:
        """The specs of its kernels."""
        return self.parts

    # ------------------------------------------------------------ what there is to say

    def found(self) -> Iterable[Diagnostic]:
        """The diagnostics of each kernel, and of the tensors between them."""
        forms = list(self._other_forms())
        between = forms or self._unwritten()
        return distinct([*between, *(d for kernel in self.kernels for d in kernel.diagnostics)])

    def _other_forms(self) -> Iterator[Diagnostic]:
        """E230 where kernels see one tensor in different forms: with dimensions flattened, and as it is declared."""
        seen: dict[str, tuple[Tensor, Label]] = {}
        for p in self.program.kernels:
            for tensor in p.arguments:
                here = Label(p.spans["kernel"], "in this kernel")
                before, where = seen.setdefault(tensor.name, (tensor, here))
                if before.dims != tensor.dims:
                    message = f"two kernels see `{tensor.name}` in different forms, one of them along a flattened axis"
                    fix = "index it along the same flattened axis in both, or launch the kernels one by one"
                    yield Diagnostic("E230", message, here, (where, Label(tensor.span, "declared here")), fix=Fix(fix))

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

    # ------------------------------------------------------------ launches

    def launch(self, given: Mapping[str, int] | None = None) -> SequenceLaunch:
        """The launch of each kernel, at the spec's own sizes, `given` ones for dynamic dimensions. Raises SizeError."""
        return launch_in_order(self.program, [one for k in self.kernels for one in k.launch(given).launches])

    def size_cases(self) -> Iterator[dict[str, int]]:
        """Those of the kernels that divide sizes, together; where there is none, those of the others."""
        dividing = [list(k.size_cases()) for k in self.kernels if k.divides]
        others = [list(k.size_cases()) for k in self.kernels if not k.divides]
        first, rest = (dividing, others) if dividing else (others, [])
        for number in range(max(map(len, first))):
            found: dict[str, int] = {}
            for each in first:
                for name, size in each[number % len(each)].items():
                    found[name] = _common(found.get(name, size), size)
            for each in rest:
                found = each[number % len(each)] | found
            for kernel in self.kernels:
                found = kernel.fitting(found)
            yield found

    # ------------------------------------------------------------ code

    @property
    def scheduled(self) -> str:
        """The schedule of each kernel as text."""
        return "\n\n".join(k.scheduled.rstrip("\n") for k in self.kernels)

    @cached_property
    def source(self) -> Source:
        """The generated C++: every kernel in its own namespace, and one function that launches them in order."""
        return self.joined(self)

    @property
    def text(self) -> str:
        """The text of it."""
        return self.source.text

    def compiled(self, compiling: Compiling) -> SequenceBuild:
        """Compile every kernel, as one alone.

        Raises:
            SpecError: compiled code breaks what was promised.
            ToolchainError: the compiler fails.
        """
        from tkgen.sequence.build import SequenceBuild

        built, problems, kept = list[Any](), list[Diagnostic](), compiling.kept
        for kernel in self.kernels:
            stem = kept and kept.with_name(f"{kept.name}.{kernel.name}")
            try:
                built.append(kernel.compiled(replace(compiling, kept=stem)))
            except SpecError as error:
                problems += error.diagnostics
        if problems:
            raise SpecError(distinct(problems))
        return SequenceBuild(self, tuple(built))


def _common(one: int, other: int) -> int:
    """A size that suits two kernels: a multiple of both, or the larger one where that is far away."""
    multiple = lcm(one, other)
    return multiple if multiple <= FAR * max(one, other) else max(one, other)
