"""A built kernel as a torch operator: called like any other, traced by `torch.compile` through its fake-tensor rule.

>>> gemm = tkgen.load("specs/dynamic_sizes.tk").check().build().operator()
>>> c = gemm(a, b)                       # also torch.ops.tkgen.dynamic_sizes(a, b)
>>> torch.compile(lambda x, y: gemm(x, y).relu())(a, b)

On CPU tensors the emulator runs the machine code; on AMD GPUs the built module does.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from tkgen.ir.types import Program, Tensor
from tkgen.run import TORCH, check_sizes, emulate, scalar_values

if TYPE_CHECKING:
    from tkgen.build import Build

NAMESPACE = "tkgen"


def inputs_of(program: Program) -> list[Tensor]:
    """The tensors that an operator takes, in the order of the spec: everything the kernel reads."""
    wanted = {program.a.name, program.b.name} | {s.tensor.name for s in program.epilogue if s.tensor}
    return [t for t in program.tensors if t.name in wanted]


def extents_of(program: Program, tensors: tuple[torch.Tensor, ...]) -> dict[str, int]:
    """The size of every dimension, from the shapes of the inputs.

    Raises:
        ValueError: a tensor of another type or shape than the spec's; the message names both.
    """
    expected = inputs_of(program)
    if len(tensors) != len(expected):
        names = ", ".join(t.name for t in expected)
        raise ValueError(f"{program.name} takes {len(expected)} tensors ({names}), not {len(tensors)}")
    extents = {d.name: d.size for d in program.dims if d.size is not None}
    for spec, tensor in zip(expected, tensors, strict=True):
        if tensor.dtype is not TORCH[spec.dtype]:
            raise ValueError(f"{program.name}: {spec.name} is {spec.dtype.spelling}, not {tensor.dtype}")
        if tensor.dim() != len(spec.dims):
            raise ValueError(f"{program.name}: {spec.name} has {len(spec.dims)} dimensions, not {tensor.dim()}")
        for dim, size in zip(spec.dims, tensor.shape, strict=True):
            if extents.setdefault(dim.name, int(size)) != size:
                raise ValueError(f"{program.name}: {spec.name} has {dim.name} = {size}, expected {extents[dim.name]}")
    return extents


def run(build: Build, tensors: tuple[torch.Tensor, ...], scalars: dict[str, float]) -> torch.Tensor:
    """The kernel's output for these inputs: CPU tensors on the emulator, others on their GPU.

    Raises:
        ValueError: types, shapes or sizes that the kernel cannot do.
    """
    program, shape = build.spec.program, build.spec.plan.shape
    extents = extents_of(program, tensors)
    check_sizes(program, shape.unroll, shape.tail_iterations, extents)
    values = scalar_values(program, scalars)
    named = {t.name: tensor for t, tensor in zip(inputs_of(program), tensors, strict=True)}
    if all(t.device.type == "cpu" for t in tensors):
        return emulate(build, named, extents, values, watch=False)[0]
    out = program.accumulator.tensor
    arguments = {name: t.contiguous() for name, t in named.items()}
    result = arguments.get(out.name)
    size = [extents[d.name] for d in out.dims]
    result = torch.empty(size, dtype=TORCH[out.dtype], device=tensors[0].device) if result is None else result.clone()
    arguments[out.name] = result
    ordered = [arguments[t.name] for t in program.tensors if t.name in arguments]
    stream = torch.cuda.current_stream(tensors[0].device).cuda_stream
    _module(build).dispatch(*ordered, *values.values(), stream)
    return result


def _module(build: Build) -> Any:
    """The built Python module, made once and kept beside the caches."""
    import importlib.util
    import tempfile

    if build.spec.name not in _modules:
        folder = tempfile.mkdtemp(prefix="tkgen-module-")
        path = build.write(Path(folder), ("module",))["module"]
        found = importlib.util.spec_from_file_location(build.spec.name, path)
        assert found is not None and found.loader is not None
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
        _modules[build.spec.name] = module
    return _modules[build.spec.name]


_modules: dict[str, Any] = {}


def register(build: Build) -> Callable[..., torch.Tensor]:
    """Register `torch.ops.tkgen.NAME` for `build` and return it; the same kernel may be registered again.

    The operator takes the spec's input tensors, then its scalars with their defaults.
    """
    program = build.spec.program
    parameters = [f"Tensor {t.name}" for t in inputs_of(program)]
    for scalar in program.scalars:
        default = "" if scalar.default is None else f"={scalar.default}"
        parameters.append(f"float {scalar.name}{default}")
    count, names = len(inputs_of(program)), [s.name for s in program.scalars]

    def split(arguments: tuple[Any, ...]) -> tuple[tuple[torch.Tensor, ...], dict[str, float]]:
        return arguments[:count], dict(zip(names, arguments[count:], strict=False))

    def compute(*arguments: Any) -> torch.Tensor:
        return run(build, *split(arguments))

    def fake(*arguments: Any) -> torch.Tensor:
        tensors, _ = split(arguments)
        out = program.accumulator.tensor
        extents = {d.name: d.size for d in program.dims if d.size is not None}
        for spec, tensor in zip(inputs_of(program), tensors, strict=True):
            torch._check(tensor.dtype is TORCH[spec.dtype], lambda: f"{program.name}: a tensor has a wrong type")
            torch._check(tensor.dim() == len(spec.dims), lambda: f"{program.name}: a tensor has a wrong rank")
            for dim, size in zip(spec.dims, tensor.shape, strict=True):
                known = extents.setdefault(dim.name, size)
                torch._check(known == size, lambda: f"{program.name}: tensors differ in a dimension")
        return tensors[0].new_empty([extents[d.name] for d in out.dims], dtype=TORCH[out.dtype])

    qualified = f"{NAMESPACE}::{program.name}"
    previous = _libraries.pop(qualified, None)
    if previous is not None:
        previous._destroy()
    library = torch.library.Library(NAMESPACE, "FRAGMENT")
    library.define(f"{program.name}({', '.join(parameters)}) -> Tensor")
    library.impl(program.name, compute, "CompositeExplicitAutograd")
    torch.library.register_fake(qualified, fake, lib=library)
    _libraries[qualified] = library
    return getattr(getattr(torch.ops, NAMESPACE), program.name)  # type: ignore[no-any-return]


_libraries: dict[str, Any] = {}
