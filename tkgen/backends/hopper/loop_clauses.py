"""The clauses of a spec around a loop of matmuls on Hopper: rows, waves, roles, buffers, the order of tiles."""

from __future__ import annotations

from collections.abc import Sequence

from tkgen.backends.hopper.machine import Hopper
from tkgen.checks.blocks import tiled
from tkgen.diagnostics import Edit
from tkgen.diagnostics.edits import without_option, without_statement
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.equations import Access, Axis, Kernel, Load, Loop, Product, Reduce, accesses, reads, walk
from tkgen.ir.tensors import Tensor
from tkgen.ir.types import Via
from tkgen.remap import Remap, RemapCall, compose
from tkgen.schedule.loop_tiles import LoopError, extent


def split_axis(program: EquationProgram, loop: Loop) -> Axis:
    """The axis whose rows the warpgroups divide. Raises LoopError unless there is one, which alone bounds the loop."""
    tiled = [a for a in program.parallel if a.tile is not None]
    if len(tiled) != 1 or any(bound.axis != tiled[0].name for bound in loop.axis.bounds):
        raise LoopError("one axis of `over` must have tiles, which the warpgroups divide; only this axis can bound "
                        "the loop",
                        loop.axis.span)  # fmt: skip
    return tiled[0]


def rows_of_warps(program: EquationProgram, kernel: Kernel, split: Axis, machine: Hopper) -> None:
    """Raises LoopError where the waves of a spec are not those that rows of wgmma need."""
    warps = machine.warpgroup_warps
    padded = extent(split) < machine.wgmma_rows and program.waves <= warps
    if padded:
        _padded(program, kernel, split)
    else:
        _whole_rows(kernel, split, machine)
    if program.waves_along != split or (not padded and (program.waves % warps or extent(split) != program.waves * 16)):
        said = program.spans.get("waves")
        raise LoopError(
            f"a warpgroup of {warps} warps has {machine.wgmma_rows} rows of `{split.name}`: {extent(split)} of them "
            f"want `waves {extent(split) // 16} along {split.name}`", said or split.span,
            f"write `waves {extent(split) // 16} along {split.name}`, or remove the line",
            (*_whole_groups(split, machine), *(without_statement(said) if said else ())),
        )  # fmt: skip


def checked_roles(program: EquationProgram, factors: Sequence[Access], moving: Sequence[Access], warps: int) -> None:
    """Raises LoopError for roles other than a warpgroup that loads the factors of products and those that multiply."""
    roles, names = program.roles, {access.tensor.name for access in factors}
    if not roles:
        return
    loading = [role for role in roles if role.loads]
    if len(roles) != 2 or len(loading) != 1:
        raise LoopError(f"one role must load and the others multiply, not {len(roles)} roles, of which "
                        f"{len(loading)} load",
                        roles[-1].span, "write `load` with all operands of products in one of the roles")  # fmt: skip
    (loads,) = loading
    needed = {access.tensor.name for access in moving}
    if not needed <= set(loads.loads) <= names:
        raise LoopError(f"role `{loads.name}` loads {', '.join(loads.loads)}", loads.loads_span,
                        f"write `load {', '.join(sorted(needed))}`")  # fmt: skip
    if len(loads.waves) != warps or loads.first % warps:
        raise LoopError(f"one warpgroup must load: {warps} waves, starting at a multiple of {warps}", loads.span,
                        f"give `{loads.name}` waves 0..{warps - 1}")  # fmt: skip


def _padded(program: EquationProgram, kernel: Kernel, split: Axis) -> None:
    """Raises LoopError for a tile of fewer rows than a product has that cannot be padded."""
    if split.within is not None:
        raise LoopError(f"tiles of {extent(split)} rows of a group of `{split.name}` cannot be padded to the 64 rows "
                        "of a product", split.span, f"use tiles of 64: `over {split.name} ... by 64`",
                        tiled(split.span, 64) if split.span else ())  # fmt: skip
    columns = [op for op in walk(kernel.body) if isinstance(op, Reduce) and op.axis == split]
    if columns:
        raise LoopError(f"columns of a tile of {extent(split)} rows, padded to 64, cannot be reduced",
                        columns[0].result.span, "use tiles of 64")  # fmt: skip


def _whole_rows(kernel: Kernel, split: Axis, machine: Hopper) -> None:
    """Raises LoopError for tiles of too few rows which no fix may make larger: all of them share an index."""
    sharing = any(i.axis == split and i.divisor > 1 for access in accesses(kernel) for i in access.indices)
    if sharing and extent(split) % machine.wgmma_rows:
        raise LoopError(f"a product has {machine.wgmma_rows} rows on Hopper; tiles of `{split.name}` have "
                        f"{extent(split)}, the number that shares one index", split.span, "make more of them share "
                                                                                          "it")  # fmt: skip


def order_of_tiles(program: EquationProgram) -> Remap | None:
    """The order of the tiles, where the spec says one."""
    stages = [RemapCall(s.name, dict(s.keywords), s.positional) for s in program.remap]
    return compose(stages) if stages else None


def buffers_of(program: EquationProgram, tensor: Tensor) -> int:
    """Buffers of a tensor whose tiles change in the loop. Raises LoopError unless the copy engine is to load it."""
    staging = next((s for s in program.shared if s.tensor == tensor), None)
    if staging is None or staging.via is not Via.DIRECT:
        raise LoopError(f"`{tensor.name}` is loaded by the copy engine", staging.span if staging else tensor.span,
                        f"remove `via {staging.via.value}`" if staging else f"write `shared {tensor.name}`",
                        without_option(staging.span, "via") if staging else ())  # fmt: skip
    return staging.buffers


def _whole_groups(split: Axis, machine: Hopper) -> tuple[Edit, ...]:
    """Give an axis that consumers divide a tile of whole warpgroups."""
    tile, rows = split.tile or 0, machine.wgmma_rows
    if split.span is None or tile % rows == 0:
        return ()
    return tuple(tiled(split.span, max(tile // rows, 1) * rows))


def paging(kernel: Kernel) -> frozenset[Tensor]:
    """The tensors that list pages and are used for nothing else, as lanes would read them."""
    indices = [i for access in accesses(kernel) for i in access.indices if i.through is not None]
    others = {i.through.tensor for i in indices if i.through is not None and not i.of_page}
    others |= {op.source.tensor for op in walk(kernel.body) if isinstance(op, Load)}
    return frozenset(i.through.tensor for i in indices if i.through is not None) - others


def read_by_lanes(kernel: Kernel, tensor: Tensor) -> bool:
    """Return True if a tensor is neither a factor of a product nor stored to."""
    multiplied = {v for op in walk(kernel.body) if isinstance(op, Product) for v in reads(op)}
    factors = {op.source.tensor for op in walk(kernel.body) if isinstance(op, Load) and op.result in multiplied}
    return tensor not in factors and tensor not in kernel.outputs
