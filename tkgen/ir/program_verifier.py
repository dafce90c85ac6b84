"""The invariants of every `Program`, on which scheduling and lowering rely.

`verify(program, "resolve")` raises `Broken` (see `tkgen.ir.verifier`): a mistake of tkgen, never of a spec. The rules:

    names      tensors, dimensions and scalars have a name each; operands and outputs are tensors of the kernel
    products   each factor is an operand of its side, and each operand a factor
    tiles      an operand's tile is a side of the block times the K-step; slices divide the K-step, alike for
               all operands, parts divide fragments and slices, buffers are positive; past LDS there are none
    fragments  the waves' fragments of sums cover the block, each once; an operand's are as many and as large
    waves      the roles' waves are those of the block, each once; one role multiplies; a load is of an operand in LDS
    written    an operation of a schedule names operands, products, fragments and slices that there are
    axes       the tiles of equations are the block

`fits` is the rule `written` for one operation; `tkgen.schedule.verifier` holds a plan to it, too.
"""

from __future__ import annotations

from math import prod

from tkgen.ir.reductions import RING
from tkgen.ir.types import Program, Side
from tkgen.ir.verifier import Broken
from tkgen.tile.ops import Fetch, Move
from tkgen.tile.program import Op, Region, Space


def verify(program: Program, stage: str) -> Program:
    """The program itself, if all rules hold of it; raises Broken else."""
    rules = {
        "names": _names, "products": _products, "tiles": _tiles, "fragments": _fragments, "waves": _waves,
        "written": _written, "axes": _axes,
    }  # fmt: skip
    for rule, wrong in rules.items():
        where = wrong(program)
        if where:
            raise Broken(program.name, stage, rule, where)
    return program


def _names(p: Program) -> str:
    for named in (p.tensors, p.dims, p.scalars):
        names = [each.name for each in named]
        if len(set(names)) != len(names):
            return ", ".join(names)
    known = {t.name for t in p.tensors}
    used = [*(o.name for o in p.operands), *(s.target.tensor.name for s in p.equations.stores)]
    return next((name for name in used if name not in known), "")


def _products(p: Program) -> str:
    for product in p.products:
        if product.left.side is not Side.A or product.right.side is not Side.B:
            return product.name
        if not set(product.factors) <= set(p.operands):
            return product.name
    used = {factor for product in p.products for factor in product.factors}
    return next((o.name for o in p.operands if o not in used), "")


def _tiles(p: Program) -> str:
    for o in p.operands:
        extent = p.block[0 if o.side is Side.A else 1]
        if (o.extent, o.step) != (extent, p.block[2]) or o.step % o.slice or o.register_buffers < 1:
            return o.name
        if (o.buffers > 0) is not o.shared or (o.part_count > 1 and not o.shared):
            return o.name
        if o.slice != p.operands[0].slice or o.register_buffers % o.together:
            return o.name
        if o.fragments % o.parts[0] or o.slices % o.parts[1]:
            return o.name
    return ""


def _fragments(p: Program) -> str:
    sums, shape = p.accumulator, p.compute.shape
    assert shape is not None
    for axis in (0, 1):
        if sums.fragments[axis] * sums.tile[axis] * shape[axis] != p.block[axis]:
            return f"{sums.tensor.name}, axis {axis}"
    for o in p.operands:
        axis = 0 if o.side is Side.A else 1
        if (o.fragments, o.fragment_extent) != (sums.fragments[axis], sums.tile[axis]):
            return o.name
    return ""


def _waves(p: Program) -> str:
    waves = [wave for role in p.roles for wave in role.waves]
    if sorted(waves) != list(range(p.waves)):
        return f"waves {waves}"
    multiplying = [r for r in p.roles if r.shape is not None]
    if len(multiplying) != 1 or prod(multiplying[0].shape or ()) != len(multiplying[0].waves):
        return ", ".join(r.name for r in multiplying)
    operands = {o.name for o in p.shared}
    return next((f"{r.name} loads {name}" for r in p.roles for name in r.loads if name not in operands), "")


def _written(p: Program) -> str:
    schedules = [role.schedule for role in p.roles if role.schedule]
    ops = (op for schedule in schedules for cluster in schedule.clusters for op in cluster.ops)
    return next((str(op) for op in ops if not fits(p, op)), "")


def fits(p: Program, op: Op) -> bool:
    """Return True if everything that an operation names exists, and a move keeps the position of its tile."""
    if not all(_there(p, access) for access in (*op.reads, *op.writes)):
        return False
    if not isinstance(op, Move):
        return True
    past_lds = op.shared is None and not isinstance(op, Fetch)
    kept = (op.source.ahead, op.source.box) == (op.target.ahead, op.target.box)
    return kept and past_lds is not p.operand(op.operand).shared


def _there(p: Program, access: Region) -> bool:
    """Return True if the tile that an access names, and all of its box, exists."""
    counts = {o.name: (o.fragments, o.slices) for o in p.operands}
    if access.space is Space.SUMS:
        counts = dict.fromkeys(["", *(product.name for product in p.products)], p.accumulator.fragments)
    if access.name not in counts:
        also = {Space.GLOBAL: {t.name for t in p.tensors}, Space.SHARED: {RING}}
        return access.name in also.get(access.space, ())
    return all(0 <= n < count for box, count in zip(access.box, counts[access.name], strict=True) for n in box)


def _axes(p: Program) -> str:
    axes = (p.equations.rows, p.equations.cols, p.equations.contraction)
    return next((a.name for a, size in zip(axes, p.block, strict=True) if a.tile not in (None, size)), "")
