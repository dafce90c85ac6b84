"""Harnesses: a Python script and a standalone HIP program that check a built kernel and time it.

Both compute what the equations say (`tkgen.backends.cdna.lower.reference`) from the exact inputs that the kernel gets,
print for each output the largest and mean error, the elements beyond their bound, whether there are NaNs, and the
speed; both exit with 1 where an element is wrong and with 2 where they cannot run.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

from tkgen.backends.cdna.lower.kernel import kernel_model
from tkgen.backends.cdna.lower.model import KernelModel
from tkgen.backends.cdna.lower.names import cpp_name
from tkgen.backends.cdna.lower.reference import (
    HOST_TYPES,
    TORCH_TYPES,
    element,
    host_reference,
    places,
    torch_reference,
)
from tkgen.backends.cdna.lower.render import environment
from tkgen.ir.desugar import desugared
from tkgen.ir.products import sums
from tkgen.ir.types import Dim, Program, Tensor
from tkgen.schedule import Plan

DYNAMIC_SIZE = 4096  # what a dynamic dimension is unless the command line says otherwise, rounded up to what fits
SAMPLES, REDUCED_SAMPLES = 2000, 16  # elements that the HIP program computes; for a reduction it needs whole rows
PYTHON_OPTIONS = frozenset({"help", "repeats", "warmup", "seed"})


def harness_python(plan: Plan, target: str) -> str:
    """A script that loads the built module, compares it with torch on the GPU and times it.

    `python NAME_check.py` runs it beside the module. Sizes known only at run time and scalars are options.
    """
    return _render("harness.py.jinja", plan, target)


def harness_cpp(plan: Plan, target: str) -> str:
    """A HIP program that includes NAME.cpp, compares sampled elements with the CPU and times the kernel."""
    return _render("harness.cpp.jinja", plan, target)


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
    """What a check compares: a part of a tensor, the place of element (row, col) in it, its type."""

    name: str
    label: str
    place: str
    dtype: str


def _render(template: str, plan: Plan, target: str) -> str:
    program, model = plan.program, kernel_model(plan, target)
    names = {d.name for d in program.dims} | {s.name for s in program.scalars}
    sizes = [_size(plan, dim, names) for dim in _used_dims(program, model)]
    found = program.equations or sums(desugared(program))
    at, on_host = places(found), host_reference(found)
    text = (
        environment()
        .get_template(template)
        .render(
            name=model.module,
            space=model.name,
            target=target,
            sizes=sizes,
            dynamic=[s for s in sizes if s.size is None],
            tensors=[_argument(program, t) for t in _tensors(program, model)],
            scalars=[Number(s.name, _check_value(s.default), _option(s.name, names)) for s in program.scalars],
            in_torch=torch_reference(found),
            on_host=on_host,
            outputs=[
                Output(s.target.tensor.name, o.label, element(s.target, at), s.target.tensor.dtype.spelling)
                for s, o in zip(found.stores, on_host.outputs, strict=True)
            ],
            written=list(dict.fromkeys(s.target.tensor.name for s in found.stores)),
            samples=REDUCED_SAMPLES if found.rounds else SAMPLES,
            batch=[(at[axis.name], axis.dim.name) for axis in found.batch],
            multiplied=[axis.dim.name for axis in found.batch if axis != program.part],
            products=len(found.sums),
            m=program.m.name,
            n=program.n.name,
            k=program.k.name,
        )
    )
    return text.rstrip("\n") + "\n"


def _tensors(program: Program, model: KernelModel) -> list[Tensor]:
    """The tensors of the argument struct in its order."""
    by_member = {cpp_name(t.name): t for t in program.tensors}
    return [by_member[t.name] for t in model.tensors]


def _used_dims(program: Program, model: KernelModel) -> list[Dim]:
    return list(dict.fromkeys(d for t in _tensors(program, model) for d in t.dims))


def _size(plan: Plan, dim: Dim, names: set[str]) -> Size:
    return Size(dim.name, dim.size, _default(plan, dim), _option(dim.name, names))


def _default(plan: Plan, dim: Dim) -> int:
    """The size that a dynamic dimension has in a check: DYNAMIC_SIZE, rounded up to what the kernel takes."""
    program = plan.program
    if dim.size is not None:
        return dim.size
    multiple = 1
    for axis, each in enumerate((program.m, program.n, program.k)):
        if dim == each:
            multiple = lcm(multiple, program.block[axis] * (plan.shape.unroll if axis == 2 else 1))
    return -(-DYNAMIC_SIZE // multiple) * multiple


def _option(name: str, names: set[str]) -> str:
    """The command line option for a name of the spec, unlike the harness's own options and all others."""
    option = name
    while option in PYTHON_OPTIONS or (option != name and option in names):
        option += "_"
    return option


def _check_value(default: float | None) -> float:
    """A default of zero would hide a forgotten addend, and there may be none."""
    return default if default else 0.5


def _argument(program: Program, tensor: Tensor) -> Argument:
    factor = any(o.name == tensor.name for o in program.operands)
    return Argument(
        tensor.name,
        cpp_name(tensor.name),
        TORCH_TYPES[tensor.dtype],
        HOST_TYPES[tensor.dtype],
        tuple(d.name for d in tensor.dims),
        tuple(d.size is None for d in tensor.dims),
        "exact" if factor else "random" if tensor in program.reads else "poison",
    )
