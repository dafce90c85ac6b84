"""Kernels that sum products step by step on Hopper: producer and consumers hand on tiles through a ring of stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from tkgen.backends.hopper.checks import check
from tkgen.backends.hopper.form import HopperForm
from tkgen.backends.hopper.launch import PAIR_BYTES
from tkgen.backends.hopper.layout import Layout
from tkgen.backends.hopper.lowering import lower
from tkgen.backends.hopper.schedule import scheduled
from tkgen.backends.protocol import Modelled
from tkgen.checks.words import statement
from tkgen.execute.arguments import launched
from tkgen.ir.equations import Load
from tkgen.ir.limits import product_sizes, requirements
from tkgen.targets.model import round_up

if TYPE_CHECKING:
    from tkgen.backends.hopper.spec import HopperSpec
    from tkgen.backends.hopper.toolchain import Figures
    from tkgen.tile.scheduled import Footprint


def _size_cases(spec: HopperSpec[Any]) -> Iterator[dict[str, int]]:
    """Steps around one and two turns of the ring, several tiles of a block, ragged ones."""
    program, stages = spec.program, spec.layout.stages
    parts = program.parts or 1
    bm, bn, bk = program.block
    counts = sorted({1, max(stages - 1, 1), stages, stages + 1, 2 * stages + 1})
    bk *= parts  # blocks that add to a tile have as many steps
    sizes = partial(product_sizes, program, steps=parts)
    yield from (sizes(bm, bn, count * bk) for count in counts)
    blocks = program.grid.count if program.grid.name == "persistent" else 3
    yield sizes(2 * bm, (blocks // 2 + 1) * bn, 3 * bk)
    if program.part is not None and program.tail == "masked":  # most parts have nothing
        yield sizes(bm, bn, program.block[2])
    if program.tail == "masked":
        least = bk - program.block[2] + 1
        for case in (sizes(bm + 1, 2 * bn - 5, counts[-1] * bk - 3), sizes(1, 1, least)):
            yield _fitting(spec, case)


def _fitting(spec: HopperSpec[Any], sizes: Mapping[str, int]) -> dict[str, int]:
    """`sizes` with rows that the copy engine can move."""
    return {name: round_up(size, _chunk(spec, name)) for name, size in sizes.items()}


def _chunk(spec: HopperSpec[Any], dim: str) -> int:
    """The divisor that a size must have: rows that the copy engine moves are a multiple of 16 bytes."""
    rows = [a.tensor.dtype.bytes for a in spec.layout.moved.values() if a.tensor.dims[-1].name == dim]
    return spec.target.stride_alignment // min(rows) if rows else 1


def _facts(spec: HopperSpec[Any]) -> dict[str, object]:
    layout = spec.layout
    return {
        "block": list(spec.program.block), "consumers": layout.consumers, "stages": layout.stages,
        "store_buffers": layout.store_buffers, "moved_registers": layout.moved_registers,
    }  # fmt: skip


def _words(spec: HopperSpec[Any], figures: Figures) -> str:
    from tkgen.backends.hopper.toolchain import matrix_opcode

    opcode = matrix_opcode(spec.program.a.dtype)
    products = "" if figures.products is None else f", {figures.products} {opcode}"
    return f"{spec.layout.stages} stages{products}"


def _modelled(spec: HopperSpec[Any], *launch: Any) -> Modelled:
    from tkgen.backends.hopper.model import run_products

    return run_products(spec.layout, *launch)


def _footprint(spec: HopperSpec[Any]) -> Footprint:
    from tkgen.backends.hopper.footprint import staged_footprint  # no check needs it

    return staged_footprint(spec.layout)


STAGED = HopperForm(
    layout=lambda spec: Layout(spec.program, spec.target),
    check=lambda spec: check(spec.program, spec.target),
    tiles=lambda spec: scheduled(spec.layout),
    footprint=_footprint,
    source=lambda spec: lower(spec.program, spec.target, str(spec.path), spec.beside),
    launch=lambda spec, given: launched(spec.program, requirements(spec.program, 1, 0), given),  # each step is a pass
    size_cases=_size_cases,
    fitting=_fitting,
    facts=_facts,
    words=_words,
    modelled=_modelled,
    aligned_bytes=PAIR_BYTES,  # what epilogues read together
    single=lambda spec: frozenset(op.source.tensor.name for op in spec.program.equations.epilogue
                                  if isinstance(op, Load)),
    filled=lambda spec: frozenset(spec.layout.filled),
    lets_next=lambda spec: spec.program.grid.name not in ("persistent", "stream_k") and not spec.layout.ragged,
    judged=lambda spec: statement(spec.program, "accumulate"),  # the sums, which take the registers
)  # fmt: skip
