"""Harnesses: a Python script and a standalone HIP program that check a built kernel and time it.

Both compute what the equations say (`tkgen.backends.cdna.lower.reference`) from the exact inputs that the kernel gets,
print for each output the largest and mean error, the elements beyond their bound, whether there are NaNs, and the
speed; both exit with 1 where an element is wrong and with 2 where they cannot run.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm, prod

from tkgen.backends.cdna.lower.names import cpp_name
from tkgen.backends.cdna.lower.reference import (
    HOST_TYPES,
    TORCH_TYPES,
    Formula,
    element,
    host_reference,
    places,
    torch_reference,
)
from tkgen.backends.cdna.lower.render import environment
from tkgen.ir.desugar import desugared
from tkgen.ir.divided import completed, divided
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.equations import Reduce
from tkgen.ir.limits import with_all
from tkgen.ir.products import sums
from tkgen.ir.types import Program, Tensor
from tkgen.schedule import Plan
from tkgen.targets.model import round_up

# What dynamic dimensions are unless the command line says otherwise, rounded up to what fits: a product's, and others.
DYNAMIC_SIZE, DYNAMIC_PLACES = 4096, 4
MOST_ELEMENTS = 1 << 28  # of a tensor in a check of rows, whose dynamic dimensions are smaller where they are many
SAMPLES, REDUCED_SAMPLES = 2000, 16  # elements that the HIP program computes; for a reduction it needs whole rows
PYTHON_OPTIONS = frozenset({"help", "repeats", "warmup", "seed"})
CORNERS = {"row": "i / 2", "col": "i % 2"}  # which corner of the matrix sample `i` is, of the first four


def harness_python(kernel: Plan | EquationProgram, target: str) -> str:
    """A script that loads the built module, compares it with torch on the GPU and times it.

    `python NAME_check.py` runs it beside the module. Sizes known only at run time and scalars are options.
    """
    return _render("harness.py.jinja", kernel, target)


def harness_cpp(kernel: Plan | EquationProgram, target: str) -> str:
    """A HIP program that includes NAME.cpp, compares sampled elements with the CPU and times the kernel."""
    return _render("harness.cpp.jinja", kernel, target)


@dataclass(frozen=True)
class Size:
    """A dimension: `size` where it is known at build time, else `default` unless `--option` says otherwise."""

    name: str
    size: int | None
    default: int
    option: str


@dataclass(frozen=True)
class Argument:
    """A tensor of the dispatcher, in its order; `member` is its name in the argument struct."""

    name: str
    member: str
    torch_type: str
    host_type: str
    dims: tuple[str, ...]
    dynamic: tuple[bool, ...]
    contents: str  # `exact` factors of the products, `random` numbers, or `poison` that the kernel overwrites


@dataclass(frozen=True)
class Number:
    """A scalar argument; checked with `value`, which is the spec's default unless that would hide a mistake."""

    name: str
    value: float
    option: str


@dataclass(frozen=True)
class Output:
    """What a check compares: a part of a tensor, the place of an element in it, its type."""

    name: str
    label: str
    place: str
    dtype: str


@dataclass(frozen=True)
class Place:
    """Where a sample is along an axis: the variable of it, the dimension, which end of it in a corner (empty: any)."""

    name: str
    dim: str
    corner: str


@dataclass(frozen=True)
class Work:
    """What a launch does, for its speed: `products` matrices of these sizes, or without one the tensors it moves."""

    products: int
    sizes: tuple[str, ...]
    moved: tuple[str, ...]


def _render(template: str, kernel: Plan | EquationProgram, target: str) -> str:
    program = kernel if isinstance(kernel, EquationProgram) else kernel.program
    names = {d.name for d in program.dims} | {s.name for s in program.scalars}
    defaults = _row_defaults(kernel) if isinstance(kernel, EquationProgram) else _defaults(kernel)
    used = dict.fromkeys(d for t in program.arguments for d in t.dims)
    sizes = [Size(d.name, d.size, defaults[d.name], _option(d.name, names)) for d in used]
    found = program.kernel if isinstance(program, EquationProgram) else program.equations or sums(desugared(program))
    formula, at, on_host = Formula.of(found), places(found), host_reference(found)
    text = (
        environment()
        .get_template(template)
        .render(
            name=program.name,
            space=cpp_name(program.name),
            target=target,
            sizes=sizes,
            dynamic=[s for s in sizes if s.size is None],
            tensors=[_argument(program, t) for t in program.arguments],
            scalars=[Number(s.name, _check_value(s.default), _option(s.name, names)) for s in program.scalars],
            in_torch=torch_reference(found),
            on_host=on_host,
            outputs=[
                Output(s.target.tensor.name, o.label, element(s.target, at), s.target.tensor.dtype.spelling)
                for s, o in zip(formula.stores, on_host.outputs, strict=True)
            ],
            written=list(dict.fromkeys(s.target.tensor.name for s in formula.stores)),
            samples=REDUCED_SAMPLES if any(isinstance(op, Reduce) for op in formula.body) else SAMPLES,
            places=[Place(at[a.name], a.dim.name, CORNERS.get(at[a.name], "")) for a in formula.order],
            terms=None if formula.contraction is None else formula.contraction.dim.name,
            work=_work(program, formula),
        )
    )
    return text.rstrip("\n") + "\n"


def _work(program: Program | EquationProgram, formula: Formula) -> Work:
    if isinstance(program, EquationProgram):
        return Work(0, (), tuple(t.name for t in (*program.reads, *program.outputs)))
    several = [axis.dim.name for axis in formula.batch if axis != program.part]
    return Work(len(formula.sums), (program.m.name, program.n.name, program.k.name, *several), ())


def _defaults(plan: Plan) -> dict[str, int]:
    """The sizes of a check: DYNAMIC_SIZE rounded up to what the kernel takes, DYNAMIC_PLACES of an index."""
    program, unroll = plan.program, plan.shape.unroll
    units: dict[str, int] = {}
    dims = (program.m, program.n, program.k)
    for dim, unit in zip(dims, (*program.block[:2], program.block[2] * unroll), strict=True):
        units[dim.name] = lcm(units.get(dim.name, 1), unit)
    return with_all(program, {d.name: d.size or round_up(DYNAMIC_SIZE, units[d.name]) for d in dims}, DYNAMIC_PLACES)


def _row_defaults(program: EquationProgram) -> dict[str, int]:
    """The same where any size will do: as large as tensors of MOST_ELEMENTS allow."""
    size = DYNAMIC_SIZE
    while True:
        found = completed(program.dims, divided(program.kernel), {}, size)
        if size == 1 or all(prod(found[d.name] for d in t.dims) <= MOST_ELEMENTS for t in program.arguments):
            return found
        size //= 2


def _option(name: str, names: set[str]) -> str:
    """The command line option for a name of the spec, unlike the harness's own options and all others."""
    option = name
    while option in PYTHON_OPTIONS or (option != name and option in names):
        option += "_"
    return option


def _check_value(default: float | None) -> float:
    """A default of zero would hide a forgotten addend, and there may be none."""
    return default if default else 0.5


def _argument(program: Program | EquationProgram, tensor: Tensor) -> Argument:
    factor = isinstance(program, Program) and any(o.name == tensor.name for o in program.operands)
    return Argument(
        tensor.name,
        cpp_name(tensor.name),
        TORCH_TYPES[tensor.dtype],
        HOST_TYPES[tensor.dtype],
        tuple(d.name for d in tensor.dims),
        tuple(d.size is None for d in tensor.dims),
        "exact" if factor else "random" if tensor in program.reads else "poison",
    )
