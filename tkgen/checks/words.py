"""Words and places that several families of checks use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tkgen.ir.equation_text import axis_text
from tkgen.ir.types import Program
from tkgen.source import Span
from tkgen.tile.ops import Move, Store, indices
from tkgen.tile.program import Op


def waves_text(waves: Sequence[int]) -> str:
    """`wave 3`, `waves 0..3` or `waves 0, 2`."""
    if len(waves) == 1:
        return f"wave {waves[0]}"
    if list(waves) == list(range(waves[0], waves[-1] + 1)):
        return f"waves {waves[0]}..{waves[-1]}"
    return "waves " + ", ".join(map(str, waves))


def names_text(names: Sequence[str]) -> str:
    """`A`, or `A` and `B`, in backquotes."""
    return " and ".join(f"`{n}`" for n in dict.fromkeys(names))


def part_text(program: Program, name: str, part: int) -> str:
    """`fragments 0..1 of `: what a part of the tiles of that name holds; nothing where they move whole."""
    operand = next((o for o in program.operands if o.name == name), None)
    if operand is None:
        return ""
    along, across = operand.parts
    named = []
    for what, number, count, pieces in (
        ("fragment", part // across, operand.fragments, along),
        ("slice", part % across, operand.slices, across),
    ):
        if pieces > 1:
            size = count // pieces
            values = tuple(range(number * size, (number + 1) * size))
            named.append(f"{what}{'s' if size > 1 else ''} {indices(values)} of ")
    return "".join(named)


def place(program: Program, op: Op | None) -> Span:
    """Return the place of an operation in the spec; of one that tkgen placed, the nearest
    statement that asks for it.
    """
    if op is not None and op.span is not None:
        return op.span
    if isinstance(op, Move):
        return program.operand(op.operand).span
    if isinstance(op, Store) and "store" in program.spans:
        return program.spans["store"]
    return program.spans["schedule" if op is None and "schedule" in program.spans else "accumulate"]


def statement(program: Program, name: str) -> Span:
    """The first statement of that kind, or the kernel's name where there is none."""
    return program.spans.get(name, program.spans["kernel"])


def block_text(program: Program, block: tuple[int, int, int]) -> str:
    """Write another block as the spec does: by its clause, or by the axes that have other tiles."""
    if program.spans["block"].text.startswith("block"):
        return f"`block {block[0]} x {block[1]} step {block[2]}`"
    axes = (program.equations.rows, program.equations.cols, program.equations.contraction)
    changed = [axis_text(replace(a, tile=size)) for a, size in zip(axes, block, strict=True) if a.tile != size]
    return ", ".join(f"`{text}`" for text in changed)
