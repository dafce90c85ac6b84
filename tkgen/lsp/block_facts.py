"""Facts of a kernel on any machine, from its equations and the footprint of a block: types, tiles, bytes, registers."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tkgen.ir.equation_text import axis_text, value_text
from tkgen.ir.equations import Axis, AxisKind, Kernel, Value, walk, writes
from tkgen.ir.launch import Launch
from tkgen.ir.types import Program, Tensor
from tkgen.lsp.analysis import KernelFacts
from tkgen.remap import RemapError
from tkgen.syntax import ast
from tkgen.tile.scheduled import Footprint

SHOWN_TILES = 4


def hint(node: object, known: KernelFacts) -> str:
    """The derived value worth showing after a statement all the time; empty where there is none."""
    kernel, block = known.equations, known.footprint
    match node:
        case ast.Kernel() if block is not None:
            computing = [role for role in block.registers if role.computes]
            needed = max(computing, key=lambda role: role.needs, default=None)
            registers = f"about {needed.needs} of {needed.budget} registers, " if needed else ""
            return f"{registers}{block.used:,} of {block.capacity:,} B {block.memory}"
        case ast.Accumulate() if block is not None:
            held = _held(block, "sums")
            return f"{held} registers" if held else ""
        case ast.Registers(names=names) if block is not None:
            held = sum(_held(block, f"`{n.id}`, which stays") for n in names)
            return f"{held} registers" if held else ""
        case ast.Block() if known.program is not None and known.program.steps is not None:
            return f"{known.program.steps:,} K-steps"
        case ast.Waves() if block is not None and known.waves:
            return f"{known.waves * block.wave_size} threads"
        case ast.Role(name=name) if block is not None and name.id in known.roles:
            return f"{known.roles[name.id] * block.wave_size} threads"
        case ast.Shared(names=names) if block is not None:
            mine = [b for b in block.buffers if b.name in {n.id for n in names}]
            return f"{sum(b.bytes * b.slots for b in mine):,} B {block.memory}" if mine else ""
        case ast.Over() if kernel is not None:
            counts = [_tiles(a) for a in kernel.axes if a.kind is AxisKind.PARALLEL]
            return "" if None in counts else f"{prod(c or 1 for c in counts):,} tiles"
        case ast.Each(name=name) if kernel is not None:
            axis = next((a for a in kernel.axes if a.name == name.id), None)
            count = axis and _tiles(axis)
            bounded = axis is not None and (axis.since or axis.until)
            return f"{'at most ' if bounded else ''}{count:,} tiles" if count else ""
        case ast.Equation(target=ast.Name()) if kernel is not None:
            found = defined(node, kernel)
            return value_text(found) if found is not None else ""
    return ""


def of_statement(node: object, known: KernelFacts) -> list[str]:
    """List the consequences of a statement."""
    kernel, block = known.equations, known.footprint
    match node:
        case ast.Kernel() if block is not None:
            return [*_of_block(block), *_of_registers(block)]
        case ast.Shared(names=names) if block is not None:
            return [
                *_of_buffers(block, {n.id for n in names}),
                f"{block.memory}: {block.used:,} of {block.capacity:,} B",
            ]
        case ast.Role(name=name):
            return of_name(name.id, known)
        case ast.Block() | ast.Grid() | ast.Tail() if known.program is not None and block is not None:
            steps = hint(node, known)
            return [*of_launch(known.program, known.threads), *([steps] if steps else [])]
        case ast.Remap() if known.program is not None:
            return list(of_remap(known.program))
        case ast.Load(names=names) if block is not None:
            return list(_of_buffers(block, {n.id for n in names}))
        case ast.Over(axes=axes):
            return [line for axis in axes for line in of_name(axis.name.id, known)]
        case ast.Each(name=name):
            return of_name(name.id, known)
        case ast.Equation(target=ast.Name()) if kernel is not None:
            found = defined(node, kernel)
            return [value_text(found)] if found is not None else []
    line = hint(node, known)
    return [line] if line else []


def of_name(name: str, known: KernelFacts) -> list[str]:
    """Describe a dimension, a tensor, a scalar, a role, an axis, or the values of a name in their order."""
    kernel, block = known.equations, known.footprint
    if block is not None and name in known.roles:
        lines = [f"{known.roles[name]} waves, {known.roles[name] * block.wave_size} threads"]
        return [*lines, *_of_registers(block, name)]
    if kernel is None:
        return []
    for axis in kernel.axes:
        if axis.name == name and axis.kind is not AxisKind.WHOLE:
            count = _tiles(axis)
            tiles = "" if count is None else f": {count:,} tile{'' if count == 1 else 's'}"
            return [f"{axis_text(axis)}{tiles}"]
    for tensor in kernel.tensors:
        if tensor.name == name:
            buffers = _of_buffers(block, {name}) if block is not None else ()
            return [shape_text(tensor), *buffers]
        if dim := next((d for d in tensor.dims if d.name == name), None):
            return [f"{name} = {'dynamic' if dim.size is None else f'{dim.size:,}'}"]
    for scalar in kernel.scalars:
        if scalar.name == name:
            default = scalar.default
            passed = "must be passed at launch" if default is None else f"{default:g} unless passed at launch"
            return [f"{scalar.dtype.spelling}, {passed}"]
    values = dict.fromkeys(value_text(v) for op in walk(kernel.body) for v in writes(op) if v.name == name)
    return [*values] or of_size(name, known)


def of_size(name: str, known: KernelFacts) -> list[str]:
    """The value of a dimension or parameter."""
    if name not in known.sizes:
        return []
    size = known.sizes[name]
    return [f"{name} = {'dynamic' if size is None else f'{size:,}'}"]


def defined(node: ast.Equation, kernel: Kernel) -> Value | None:
    """The value that an equation gives its name."""
    span = node.value.span
    assert isinstance(node.target, ast.Name)
    mine = (
        value for op in walk(kernel.body) for value in writes(op)
        if value.name == node.target.id and value.span is not None and value.span.start == span.start
    )  # fmt: skip
    return next(mine, None)


def of_launch(program: Program, threads: int) -> list[str]:
    """The grid of output tiles and the blocks that compute it, with their number of threads."""
    launch = Launch.known(program)
    if launch is None or program.kernel.groups is not None:  # groups' rows decide
        return [f"{threads} threads per block"]
    rows, cols = launch.tile_grid
    tiles = " x ".join(map(str, (*launch.batch, rows, cols))) + f" = {launch.all_tiles:,} output tiles"
    match program.grid.name:
        case "persistent" | "stream_k":
            each = launch.all_tiles / launch.blocks
            return [f"{tiles}, {launch.blocks:,} blocks of {threads} threads, {each:.1f} tiles each"]
        case "split_k":
            parts = f"{launch.parts} blocks of {threads} threads each"
            return [f"{tiles}, {parts} = {launch.blocks:,} blocks, their sums added in memory"]
    return [f"{tiles}, one block of {threads} threads each"]


def of_remap(program: Program) -> Iterator[str]:
    """The tiles of the first blocks."""
    launch = Launch.known(program)
    if launch is None or program.kernel.groups is not None:
        return
    rows, cols = launch.tile_grid
    try:
        first = [launch.remap.place(i, rows, cols) for i in range(min(SHOWN_TILES, launch.matrix_tiles))]
    except (RemapError, ValueError):
        return
    yield "the first blocks compute the tiles " + ", ".join(f"({r}, {c})" for r, c in first) + f" of {rows} x {cols}"


def shape_text(tensor: Tensor) -> str:
    """`4,096 x 128 bf16: 524,288 elements, 1,048,576 B`."""
    text = " x ".join("dynamic" if size is None else f"{size:,}" for size in tensor.shape)
    count = None if None in tensor.shape else prod(size or 1 for size in tensor.shape)
    more = "" if count is None else f": {count:,} elements, {tensor.dtype.sized(count):,} B"
    return f"{text} {tensor.dtype.spelling}{more}"


def _tiles(axis: Axis) -> int | None:
    """Tiles of an axis; None where groups or the launch decide."""
    if axis.dim.size is None or axis.within is not None:
        return None
    return -(-axis.dim.size // (axis.tile or 1))


def _of_block(block: Footprint) -> Iterator[str]:
    yield f"{block.memory}: {block.used:,} of {block.capacity:,} B"
    yield f"{block.resident} block{'s' if block.resident != 1 else ''} on a compute unit"
    yield f"{block.ownership.output}: {block.ownership.how}"


def _of_registers(block: Footprint, role: str = "") -> Iterator[str]:
    for r in block.registers:
        if role in ("", r.role):
            fullest = max(r.moments, key=lambda moment: sum(s.registers for s in moment.shares), default=None)
            shares = ", ".join(f"{s.what} {s.registers}" for s in fullest.shares) if fullest else ""
            most = f"; most of them at `{fullest.text}`: {shares}" if fullest and shares else ""
            yield f"{r.role}: about {r.needs} of {r.budget} registers of a lane{most}"


def _held(block: Footprint, what: str) -> int:
    """The most registers of a lane that shares with such a beginning have at a moment."""
    moments = (moment for role in block.registers for moment in role.moments)
    return max((sum(s.registers for s in m.shares if s.what.startswith(what)) for m in moments), default=0)


def _of_buffers(block: Footprint, names: set[str]) -> Iterator[str]:
    for b in block.buffers:
        if b.name in names:
            shape = f"{b.shape}, " if b.shape else ""
            yield f"{b.name} in {block.memory}: {shape}{b.slots} x {b.bytes:,} B"
