"""The file of a kernel of equations: its arguments, constants and launch, whatever the body does (`rows`, `loops`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from tkgen.backends.cdna.lower.elements import word_of
from tkgen.backends.cdna.lower.model import Check, Constant, FileModel, GlobalTensor, Offsets, ScalarMember, Zeroed
from tkgen.backends.cdna.lower.names import as_given, comment_text, cpp_name, outside
from tkgen.backends.cdna.lower.origins import Origins, Source
from tkgen.backends.cdna.lower.places import BlockPlaces, in_bytes, origin
from tkgen.backends.cdna.lower.render import environment, file_of, tidy
from tkgen.ir.divided import divided
from tkgen.ir.equations import Kernel, Map, accesses, walk
from tkgen.ir.functions import CDNA, helpers
from tkgen.ir.limits import BUFFER_BYTES, LAUNCH_THREADS
from tkgen.ir.tensors import GLOBAL_DIMENSIONS
from tkgen.ir.types import Tensor
from tkgen.schedule.rows import far, reach_bytes
from tkgen.targets import Target


class Layout(Protocol):
    """Layout of a kernel's tiles over waves."""

    @property
    def kernel(self) -> Kernel:
        """The equations."""

    @property
    def waves(self) -> int:
        """Waves of a block."""

    @property
    def threads(self) -> int:
        """Threads of a block."""

    def largest(self, dim: str) -> int:
        """The largest size of a dimension known only at run time."""

    def waves_per_simd(self, target: Target) -> int:
        """The number of waves that fit on a SIMD by their registers."""

    def describe(self) -> str:
        """It in one line."""


@dataclass(frozen=True)
class EquationModel(FileModel):
    """Text of the template around the kernel's body: its types, the C++ of functions that the equations call."""

    types: tuple[str, ...]
    functions: tuple[str, ...]
    groups: tuple[Offsets, ...]
    zeroed: tuple[Zeroed, ...]  # outputs that must be set before the launch, as blocks combine values in them


class Lowering(ABC):
    """The C++ of a kernel of equations."""

    def __init__(self, layout: Layout, places: BlockPlaces, back_end: str = CDNA):
        self.layout, self.kernel, self.places, self.back_end = layout, layout.kernel, places, back_end

    @abstractmethod
    def body(self) -> Iterator[str]:
        """The statements of the kernel."""

    def types(self) -> Iterator[str]:
        """The declarations of types that its statements name."""
        yield from ()

    def constants(self) -> Iterator[Constant]:
        """The numbers that its statements name."""
        for dim in self.places.dims.values():
            if dim.size is not None:
                yield Constant(f"DIM_{dim.name}", str(dim.size), origin=origin(dim.span))
        yield Constant("THREADS", f"{self.layout.waves} * WARP_THREADS", f"{self.layout.waves} waves")

    def checks(self) -> Iterator[Check]:
        """Sizes known at run time are as `execute.arguments.launched_in` wants them, and the same in all tensors."""
        dynamic = {name: dim for name, dim in self.places.dims.items() if dim.size is None}
        for name, dim in dynamic.items():
            size = f"g.{self.places.member(name)}"
            most = self.layout.largest(name)
            message = f"{name} must be from 1 to {most}"
            yield Check(outside(size, 1, most), message, origin(dim.span))
            for tensor in self.places.tensors:
                for here in self.places.members(tensor, name):
                    if f"g.{here}" != size:
                        message = f"{tensor.name} and its partners differ in {name}"
                        yield Check(f"{as_given(f'g.{here}')} != {as_given(size)}", message, origin(dim.span))
        for d in (d for d in divided(self.kernel) if d.dynamic):
            large, small = (f"g.{self.places.member(dim.name)}" for dim in (d.large, d.small))
            wrong = f"{small} != ({large} + {d.count} - 1) / {d.count}"
            wrong += "" if d.by_tile else f" || {large} % {d.count} != 0"
            message = f"{d.small.name} must be {d.large.name} / {d.count}{', rounded up' * d.by_tile}"
            yield Check(wrong, message, origin(d.small.span))
        if dynamic:
            most = LAUNCH_THREADS // self.layout.threads
            blocks = f"uint64_t(1) * {self.places.tiles('g.')}"
            yield Check(f"{blocks} > {most}", f"there must be at most {most} blocks", self.grid_origin)
        for access in dict.fromkeys(accesses(self.kernel)):
            if not reach_bytes(access):
                terms = [" * ".join([f"uint64_t({places})", *(self.places.extent(d, "g.") for d in within)])
                         for places, within in far(access) if places]  # fmt: skip
                spanned = f"({' + '.join(terms)} + 1) * {access.tensor.dtype.bytes}"
                message = f"a tile of {access.tensor.name} spans more than {BUFFER_BYTES} bytes"
                yield Check(f"{spanned} > {BUFFER_BYTES}", message, origin(access.tensor.span))

    def _zeroed(self) -> Iterator[Zeroed]:
        for tensor in (t for t in self.kernel.outputs if t.name in self.kernel.starts):
            first, *rest = (self.places.extent(dim, "g.") for dim in tensor.dims)
            word = word_of(self.kernel.starts[tensor.name], tensor.dtype)
            yield Zeroed(cpp_name(tensor.name), " * ".join([f"size_t({first})", *rest]), word)

    @property
    def grid_origin(self) -> Origins:
        """Lines of the spec that set the number of blocks."""
        return origin(next((a.span for a in self.kernel.axes if a.span), None))

    def source(
        self, target: Target, header: Sequence[str] = (), spec: str = "", occupancy: int | None = None,
        alone: bool = True,
    ) -> Source:  # fmt: skip
        """The generated file: `header` are lines of comment, `spec` is the path that its comments name.

        `occupancy` is how many waves are to share a SIMD, where the spec says so. Not `alone`, it is a namespace of a
        file.
        """
        model, body = self.made(target.name, occupancy or self.layout.waves_per_simd(target), header, spec)
        remark = self.places.marks.remark
        text = environment().get_template("equations.cpp.jinja").render(m=model, alone=alone, body=body, remark=remark)
        if alone:
            text = file_of(text, model, bool(model.groups))
        return self.places.marks.source(tidy(text).rstrip("\n") + "\n")

    def made(self, target: str, waves: int, header: Sequence[str], spec: str) -> tuple[EquationModel, str]:
        """The template's model for a target and a number of waves per SIMD to compile for, and the kernel's body."""
        body, kernel = "\n".join(self.body()), self.kernel
        file = EquationModel(
            name=cpp_name(kernel.name),
            module=kernel.name,
            header=(*map(comment_text, header), self.layout.describe()),
            spec=comment_text(spec),
            target=target,
            constants=tuple(self.constants()),
            tensors=tuple(map(_tensor, self.places.tensors)),
            scalars=tuple(ScalarMember(cpp_name(s.name), s.dtype.cpp, origin(s.span)) for s in kernel.scalars),
            grid=self.places.grid(),
            grid_origin=self.grid_origin,
            waves_per_simd=waves,
            checks=tuple(self.checks()),
            types=tuple(self.types()),
            functions=helpers({op.function for op in walk(kernel.body) if isinstance(op, Map)}, self.back_end),
            groups=tuple(self.places.offsets()),
            zeroed=tuple(self._zeroed()),
        )
        return file, body


def _tensor(tensor: Tensor) -> GlobalTensor:
    extents = [f"DIM_{d.name}" if d.size is not None else "-1" for d in tensor.dims]
    extents[-1:] = [f"{e} {in_bytes(tensor)}" if tensor.dtype.packed else e for e in extents[-1:]]
    extents = [" * ".join(extents[:-3]), *extents[-3:]] if len(extents) > GLOBAL_DIMENSIONS else extents
    batch, depth, rows, cols = *["1"] * (4 - len(extents)), *extents
    return GlobalTensor(cpp_name(tensor.name), tensor.dtype.cpp, (batch, depth, rows, cols), origin(tensor.span))
