"""A spec for Hopper: loaded, checked, generated, compiled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

from tkgen.backends.hopper.build import CudaBuild, compiled
from tkgen.backends.hopper.checks import check, check_figures
from tkgen.backends.hopper.layout import Layout
from tkgen.backends.hopper.lowering import lower
from tkgen.backends.hopper.machine import Hopper
from tkgen.backends.hopper.schedule import scheduled
from tkgen.backends.hopper.toolchain import MATRIX
from tkgen.backends.spec import TypedSpec
from tkgen.checks.words import statement
from tkgen.diagnostics import Diagnostic
from tkgen.ir.limits import Requirement, product_sizes, requirements
from tkgen.ir.types import Program
from tkgen.targets.model import round_up


@dataclass(frozen=True)
class HopperSpec(TypedSpec[Program, Hopper]):
    """A spec read from `path` with its `-D` values, resolved for a Hopper GPU."""

    @cached_property
    def layout(self) -> Layout:
        """How its tiles lie in a block."""
        return Layout(self.program, self.target)

    def found(self) -> Iterable[Diagnostic]:
        """What the checks say."""
        return check(self.program, self.target)

    @property
    def scheduled(self) -> str:
        """What its producer and consumers do, as text."""
        return scheduled(self.layout)

    @cached_property
    def text(self) -> str:
        """The generated CUDA C++."""
        return lower(self.program, self.target, str(self.path))

    @property
    def requirements(self) -> list[Requirement]:
        """What dynamic sizes must be: any number of K-steps is one pass."""
        return requirements(self.program, 1, 0)

    def size_cases(self) -> Iterator[dict[str, int]]:
        """Sizes worth trying: steps around one and two turns of the ring, several tiles of a block, ragged ones."""
        program, stages = self.program, self.layout.stages
        parts = program.grid.count if program.grid.name == "split_k" else 1
        bm, bn, bk = program.block
        counts = sorted({1, max(stages - 1, 1), stages, stages + 1, 2 * stages + 1})
        bk *= parts  # blocks that add to a tile have as many steps
        sizes = partial(product_sizes, program, steps=parts)
        yield from (sizes(bm, bn, count * bk) for count in counts)
        blocks = program.grid.count if program.grid.name == "persistent" else 3
        yield sizes(2 * bm, (blocks // 2 + 1) * bn, 3 * bk)
        if program.tail == "masked":
            least = bk - program.block[2] + 1
            for case in (sizes(bm + 1, 2 * bn - 5, counts[-1] * bk - 3), sizes(1, 1, least)):
                yield {name: round_up(size, self._chunk(name)) for name, size in case.items()}

    def _chunk(self, dim: str) -> int:
        """What a size must be a multiple of: rows that the copy engine moves are whole numbers of 16 bytes."""
        rows = [a.tensor.dtype.bytes for a in self.layout.moved.values() if a.tensor.dims[-1].name == dim]
        return self.target.stride_alignment // min(rows) if rows else 1

    def build(self, *, cxx: str | None = None) -> HopperBuild:
        """Compile to a cubin, with the nvcc `cxx` where it is given.

        Raises:
            SpecError: as `check`, or the machine code spills or lost what the source promises.
            ToolchainError: there is no nvcc, or it fails.
        """
        self.check()
        return HopperBuild(*compiled(self.text, self.name, self.target, cxx), self).check()


@dataclass(frozen=True)
class HopperBuild(CudaBuild):
    """A compiled spec: the cubin and the figures read from it."""

    spec: HopperSpec

    def measured(self) -> list[Diagnostic]:
        """Spills, and promises that ptxas says it could not keep."""
        return check_figures(statement(self.spec.program, "accumulate"), self.spec.program.allow, self.figures,
                             self.remarks)  # fmt: skip

    @property
    def dynamic_bytes(self) -> int:
        """Of tiles."""
        return self.spec.layout.dynamic_bytes

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.spec.layout.threads

    def facts(self) -> dict[str, object]:
        """Its layout."""
        spec, layout = self.spec, self.spec.layout
        return {
            "sizes": {d.name: d.size for d in spec.program.dims},
            "block": list(spec.program.block),
            "consumers": layout.consumers,
            "stages": layout.stages,
            "store_buffers": layout.store_buffers,
            "moved_registers": layout.moved_registers,
            "proof": "the plan; its machine code is tested on the GPU",
        }

    @property
    def moved_registers(self) -> tuple[int, int] | None:
        """Those of producer and consumers."""
        return self.spec.layout.moved_registers

    def words(self) -> str:
        """Stages, and matrix instructions."""
        opcode = MATRIX[self.spec.program.a.dtype.bits == 8]
        products = "" if self.figures.products is None else f", {self.figures.products} {opcode}"
        return f"{self.spec.layout.stages} stages{products}"
