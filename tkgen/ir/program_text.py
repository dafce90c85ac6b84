"""A typed program as text: what stands between resolution and scheduling; a line a clause, defaults included."""

from __future__ import annotations

from collections.abc import Iterator

from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.equation_text import to_text as equations_text
from tkgen.ir.types import Operand, Program, Role, role_text


def to_text(program: Program | EquationProgram) -> str:
    """The text of a program of either kind."""
    lines = _lines(program) if isinstance(program, Program) else _of_rows(program)
    return "\n".join(lines) + "\n"


def _lines(p: Program) -> Iterator[str]:
    rows, cols, step = p.block
    yield f"program {p.name}  block {rows} x {cols} step {step}  waves {p.waves}"
    steps = "dynamic" if p.steps is None else str(p.steps)
    grid = f"{p.grid.name} {p.grid.count or ''}".rstrip()
    yield f"  grid {grid}  K-steps {steps}  tail {p.tail or 'none'}"
    yield from (f"  batch {axis.name} in {axis.dim.name}" for axis in p.batch)
    for stage in p.remap:
        given = [*map(str, stage.positional), *(f"{name} = {value}" for name, value in stage.keywords)]
        yield f"  remap {stage.name}({', '.join(given)})"
    yield from (f"  operand {_operand(o)}" for o in p.operands)
    for product in p.products:
        yield f"  product {product.name} = {product.left.name} x {product.right.name}  {product.layouts}"
    sums = p.accumulator
    order = "interleaved" if sums.interleaved else "blocked"
    yield (f"  sums {_by(sums.fragments)} of {_by(sums.tile)} {sums.dtype.spelling}  {order}  mfma {_by(sums.mfma)}  "
           f"registers {p.sum_registers}")  # fmt: skip
    yield from (f"  role {_role(r)}" for r in p.roles)
    yield from (f"  phase waves {s.first}..{s.last} by {s.barriers}" for s in p.phases)


def _of_rows(p: EquationProgram) -> Iterator[str]:
    along = p.waves_along.name if p.waves_along else "elements"
    yield f"program {p.name}  waves {p.waves} along {along}  blocks {' x '.join(map(str, p.blocks))}"
    yield from (f"  shared {s.tensor.name}  in {s.buffers} buffers via {s.via.value}" for s in p.shared)
    yield equations_text(p.kernel).rstrip("\n")


def _by(sides: tuple[int, int]) -> str:
    return f"{sides[0]} x {sides[1]}"


def _operand(o: Operand) -> str:
    way = f"in {o.buffers} buffers via {o.via.value}" if o.via else "past LDS"
    shared = f"{o.tensor.dtype.spelling} {_by(o.lds_shape)} {way}"
    shape = f"{_by(o.register_shape)} {o.register_layout}"
    tiles = f"{o.fragments} register tiles of {shape} in {o.register_buffers} buffers"
    return f"{o.name} {o.side.value}  {shared}  {tiles}, {o.slices} slices"


def _role(r: Role) -> str:
    said = [role_text(r.name, r.waves)]
    if r.shape:
        said.append(f"multiplies as {_by(r.shape)}")
    if r.loads:
        said.append(f"loads {', '.join(r.loads)} by {r.group}")
    if r.multiplies:
        said.append("stores")
    if r.schedule:
        said.append(f"schedule {r.schedule.preset or f'of {len(r.schedule.clusters)} clusters'}")
    return "  ".join(said)
