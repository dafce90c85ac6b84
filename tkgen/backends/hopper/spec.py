"""A spec for Hopper: loaded, checked, generated, compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from tkgen.backends.cdna.lower.origins import Source
from tkgen.backends.hopper.checks import check
from tkgen.backends.hopper.kernel_spec import HopperKernel
from tkgen.backends.hopper.launch import PAIR_BYTES
from tkgen.backends.hopper.layout import Layout
from tkgen.backends.hopper.lowering import lower
from tkgen.backends.hopper.schedule import scheduled
from tkgen.backends.hopper.toolchain import MATRIX, Figures
from tkgen.backends.protocol import Modelled
from tkgen.checks.words import statement
from tkgen.diagnostics import Diagnostic
from tkgen.execute.arguments import launched
from tkgen.ir.equations import Load
from tkgen.ir.launch import Launch
from tkgen.ir.limits import Requirement, places_of, product_sizes, requirements
from tkgen.ir.types import Dim, Program
from tkgen.proof.execution import Order
from tkgen.source import Span
from tkgen.targets.model import round_up

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class HopperSpec(HopperKernel[Program]):
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
    def source(self) -> Source:
        """The generated CUDA C++."""
        return lower(self.program, self.target, str(self.path))

    @property
    def requirements(self) -> list[Requirement]:
        """What dynamic sizes must be: any number of K-steps is one pass."""
        return requirements(self.program, 1, 0)

    def launch(self, given: Mapping[str, int] | None = None) -> Launch[Program]:
        """The launch at the spec's own sizes, `given` ones for dynamic dimensions. Raises SizeError."""
        return launched(self, given)

    @property
    def places(self) -> set[Dim]:
        """The dynamic dimensions that blocks take one place of."""
        return places_of(self.program)

    @property
    def divides(self) -> bool:
        """Sizes are multiples of its block and steps."""
        return True

    def fitting(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """`sizes` with rows that the copy engine can move."""
        return {name: round_up(size, self._chunk(name)) for name, size in sizes.items()}

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
                yield self.fitting(case)

    def _chunk(self, dim: str) -> int:
        """What a size must be a multiple of: rows that the copy engine moves are whole numbers of 16 bytes."""
        rows = [a.tensor.dtype.bytes for a in self.layout.moved.values() if a.tensor.dims[-1].name == dim]
        return self.target.stride_alignment // min(rows) if rows else 1

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.layout.threads

    @property
    def dynamic_bytes(self) -> int:
        """Of tiles."""
        return self.layout.dynamic_bytes

    @property
    def moved_registers(self) -> tuple[int, int] | None:
        """Those of producer and consumers."""
        return self.layout.moved_registers

    @property
    def boxes(self) -> Layout:
        """Tiles of operands and outputs."""
        return self.layout

    @property
    def aligned_bytes(self) -> int:
        """What epilogues read together."""
        return PAIR_BYTES

    @property
    def single(self) -> frozenset[str]:
        """What the epilogue reads."""
        return frozenset(op.source.tensor.name for op in self.layout.equations.epilogue if isinstance(op, Load))

    @property
    def judged(self) -> Span:
        """At the sums, which take the registers."""
        return statement(self.program, "accumulate")

    def facts(self) -> dict[str, object]:
        """Its layout."""
        layout = self.layout
        return {
            "sizes": {d.name: d.size for d in self.program.dims},
            "block": list(self.program.block),
            "consumers": layout.consumers,
            "stages": layout.stages,
            "store_buffers": layout.store_buffers,
            "moved_registers": layout.moved_registers,
            "proof": "the plan; its machine code is tested on the GPU",
        }

    def words(self, figures: Figures) -> str:
        """Stages, and matrix instructions."""
        opcode = MATRIX[self.program.a.dtype.bits == 8]
        products = "" if figures.products is None else f", {figures.products} {opcode}"
        return f"{self.layout.stages} stages{products}"

    def modelled(
        self, launch: Launch[Any], inputs: Mapping[str, Tensor], scalars: Mapping[str, float], order: Order,
        progress: Callable[[int, int], None] | None = None,
    ) -> Modelled:  # fmt: skip
        """The model of producer and consumers."""
        from tkgen.backends.hopper.model import run_products

        return run_products(self.layout, launch, inputs, scalars, order, progress)
