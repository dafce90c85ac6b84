"""Edits that make a spec written for another kind of machine one for Hopper: what fixes of its diagnostics do.

A spec that names no instruction, no grid of waves and no way of tiles gets Hopper's own (`tkgen.ir.resolve`), as it
gets those of any other machine. So most edits leave out what is another machine's; the rest choose a block that fits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

from tkgen.backends.hopper.layout import Layout, launched_registers, moved_registers
from tkgen.backends.hopper.machine import Hopper
from tkgen.checks.blocks import resized
from tkgen.diagnostics import Edit
from tkgen.diagnostics.edits import body_of, indentation, lines_of, replaced, without_statement
from tkgen.ir.equations import Axis
from tkgen.ir.types import Program
from tkgen.source import Span

WORKING_REGISTERS = 32
"""Registers of a consumer thread beside its sums: with fewer, ptxas takes no 64 x 192 for three consumers."""
MOST_CONSUMERS = 3


def by_all(span: Span) -> tuple[Edit, ...]:
    """Leave out of a `load` line how many waves do it together."""
    found = re.search(r"\s+by\b", span.text)
    return () if found is None else (replaced(span, found.start(), len(span.text), ""),)


def through_shared(span: Span) -> tuple[Edit, ...]:
    """Have tensors of a `registers` line go through shared memory."""
    names = re.match(r"registers\s+((?:\w+\s*,\s*)*\w+)", span.text)
    return () if names is None else (replaced(span, 0, len(span.text), f"shared {names[1]}"),)


def fitted(program: Program, machine: Hopper) -> tuple[Edit, ...]:
    """Leave waves, roles and tiles of sums to the target, and choose a block that it has room for."""
    edits = list(without_statement(program.spans["waves"])) if "waves" in program.spans else []
    for role in program.roles:
        edits += _flattened(role.span)
    sums = program.accumulator.span
    if sums.text.startswith("accumulate") and (tile := re.search(r"\s+tile\b", sums.text)):
        begin, (_, end) = sums.start + tile.start(), lines_of(sums)  # a comment behind it is about the tiles
        edits.append(Edit(Span(sums.file, begin, end - sums.file.text[:end].endswith("\n")), ""))
    return (*edits, *resized(program, _block(program, machine)))


def _flattened(span: Span) -> Iterator[Edit]:
    """Move the body of a role into the kernel, without the lines that say who loads; `span` is its name."""
    begin, end = lines_of(span)
    header = span.file.text[begin:end]
    if not header.lstrip().startswith("role "):
        return  # a role that the target has chosen
    yield Edit(Span(span.file, begin, end), "")
    body, depth = list(body_of(Span(span.file, begin + indentation(header), end - 1))), indentation(header)
    inner = min((indentation(line) for _, line in body if line.strip()), default=depth)
    for at, line in body:
        if line.lstrip().startswith("load "):
            yield Edit(Span(span.file, at, at + len(line)), "")
        elif line.strip():
            yield Edit(Span(span.file, at, at + inner - depth), "")


def _block(program: Program, machine: Hopper) -> tuple[int, int, int]:
    """The largest block within the program's that wgmma takes and that fits; the program's where none does."""
    panel, layout = machine.swizzle_bytes // program.a.dtype.bytes, Layout(program, machine)
    step = max(min(program.block[2], machine.max_box) // panel, 1) * panel
    wide = max(machine.swizzle_bytes // out.dtype.bytes for out in program.outputs)

    def divides(axis: Axis, tile: int) -> bool:
        return program.tail is not None or axis.dim.size is None or axis.within is not None or not axis.dim.size % tile

    def fits(rows: int, cols: int) -> bool:
        consumers = rows // machine.wgmma_rows
        threads = (consumers + 1) * machine.warpgroup_threads
        sums, most = cols // 2 * len(program.products), launched_registers(machine, threads)
        if layout.scaled:
            moved = moved_registers(machine, threads, consumers, layout.producer_registers)
            sums, most = 3 * sums, moved[1] if moved else most
        stage = sum(o.dtype.bytes * step * (rows if o.side.name == "A" else cols) for o in program.operands)
        shared = 2 * (stage + consumers * machine.wgmma_rows * machine.swizzle_bytes) + machine.tile_alignment
        return sums + WORKING_REGISTERS <= most and shared <= machine.shared_bytes_per_block

    equations = program.equations
    rows = [n * machine.wgmma_rows for n in range(1, MOST_CONSUMERS + 1)]
    sides = [
        (r, c) for r, c in product(rows, machine.wgmma_columns)
        if r <= max(program.block[0], rows[0]) and c <= max(program.block[1], machine.wgmma_columns[0], wide)
        and c % wide == 0 and divides(equations.rows, r) and divides(equations.cols, c) and fits(r, c)
    ]  # fmt: skip
    return (*max(sides, key=lambda s: (s[0] * s[1], s[1])), step) if sides else program.block
