"""A built kernel as a torch operator: called like any other, traced by `torch.compile` through its fake-tensor rule.

>>> gemm = tkgen.operator(tkgen.load("specs/dynamic_sizes.tk").check().build())
>>> c = gemm(a, b)                       # also torch.ops.tkgen.dynamic_sizes(a, b)
>>> torch.compile(lambda x, y: gemm(x, y).relu())(a, b)

CPU tensors: the emulator runs the machine code, and for sm_90a the CPU runs the generated C++. AMD GPUs: the built
module, which takes CPU tensors within `through_hip`. Hopper GPUs: the CUDA driver. Of a sequence all kernels are
launched, in order; each call allocates the memory between them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from keyword import iskeyword
from types import MappingProxyType
from typing import Any, TypeAlias

import torch

from tkgen import mx
from tkgen.backends import protocol
from tkgen.backends.cdna import launch as gpu
from tkgen.backends.hopper import prepared as hopper
from tkgen.backends.hopper.prepared import takes as taken
from tkgen.backends.registry import backend_of
from tkgen.execute.arguments import scalar_values
from tkgen.execute.launch import computed, memory
from tkgen.execute.modelled import in_order
from tkgen.execute.registered import define
from tkgen.ir.divided import divided
from tkgen.ir.rounding import TORCH
from tkgen.ir.segments import problem
from tkgen.ir.sizing import Sizing
from tkgen.ir.tensors import Dim, Tensor
from tkgen.proof.execution import Order

NAMESPACE = "tkgen"
NO_SIZES: Mapping[str, int] = MappingProxyType({})
MOST_PREPARED = 4096  # launches of a build: sizes that change with every call do not fill the memory
STORED = {dtype: mx.FORMATS[dtype.spelling].stored for dtype in TORCH if dtype.in_blocks}  # beside plain bytes

Prepared: TypeAlias = Callable[..., tuple[torch.Tensor, ...]]
"""Called with inputs of one signature, and scalars, it returns the outputs; it writes them to a third argument, dense
tensors that share no memory with the inputs, if it has one.
"""


def _ours(build: protocol.Build) -> protocol.Build:
    """The build, where it is one that can be called. Raises TypeError for another."""
    if not isinstance(getattr(build, "code", None), bytes):
        raise TypeError(f"this needs a built kernel, not {type(build).__name__}")
    return build


def launch_of(build: protocol.Build, tensors: Sequence[torch.Tensor], sizes: Mapping[str, int] = NO_SIZES) -> Sizing:
    """The launch at the sizes that the inputs have, real or fake ones, and at `sizes` of dimensions that no input has.

    Raises:
        TypeError: something that is no tensor.
        ValueError: a tensor of another type or shape than the spec's, or sizes that the kernel cannot do.
    """
    program = build.spec.program
    expected = program.reads
    if len(tensors) != len(expected):
        names = ", ".join(t.name for t in expected)
        raise ValueError(f"{program.name} takes {len(expected)} tensors ({names}), not {len(tensors)}")
    empty = {dim for each in build.spec.kernels for dim in each.places}
    known = {d.name: d.size for d in program.dims if d.size is not None} | dict(sizes)
    extents = sizes_of(program.name, list(zip(expected, tensors, strict=True)), empty, known)
    for kernel in build.spec.kernels:
        for found in divided(kernel.program.kernel):
            if found.large.name in extents:  # an output alone may have the smaller dimension
                extents.setdefault(found.small.name, found.of(extents[found.large.name]))
    return build.spec.launch(extents)


def sizes_of(
    name: str, tensors: Sequence[tuple[Tensor, torch.Tensor]], empty: Collection[Dim], known: Mapping[str, int]
) -> dict[str, int]:
    """The sizes of dimensions: `known` ones, and those that tensors have. Dimensions of `empty` may be 0.

    Raises TypeError and ValueError as `launch_of`, in the name of the kernel.
    """
    extents = dict(known)
    first: dict[str, str] = {}  # the tensor that has a size, as a message says it
    for spec, tensor in tensors:
        dims = [d.name for d in spec.given]
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name}: {spec.name} is a torch tensor, not {type(tensor).__name__}")
        if tensor.layout is not torch.strided:
            raise ValueError(f"{name}: {spec.name} is a dense tensor, not {tensor.layout}")
        if tensor.dtype not in (TORCH[spec.dtype], STORED.get(spec.dtype)):
            raise ValueError(f"{name}: {spec.name} is {spec.dtype.spelling}, not {tensor.dtype}")
        if tensor.dim() != len(spec.given):
            shapes = f"it is [{', '.join(dims)}], not {[*tensor.shape]}"
            raise ValueError(f"{name}: {spec.name} has {len(dims)} dimensions, not {tensor.dim()}: {shapes}")
        sizes = [*spec.dtype.counted(tensor.shape)]
        shown = f"{spec.name} is [{', '.join(dims)}] = {sizes}"
        for dim, size in zip(spec.given, sizes, strict=True):
            if extents.setdefault(dim.name, size) != size:
                shapes = "".join(f"{other}, " for other in [first.get(dim.name)] if other) + shown
                raise ValueError(f"{name}: {spec.name} has {dim.name} = {size}, expected {extents[dim.name]}: {shapes}")
            if size == 0 and dim not in empty:
                raise ValueError(f"{name}: {spec.name} has {dim.name} = 0, but this dimension cannot be empty")
            first.setdefault(dim.name, shown)
    return extents


def run(build: protocol.Build, /, *tensors: torch.Tensor, **scalars: float) -> torch.Tensor | tuple[torch.Tensor, ...]:
    """The kernel's output, or outputs, for input tensors in the spec's order; on the emulator for CPU tensors, or
    by the generated C++ on the CPU.

    Raises:
        TypeError: something that is no tensor, a scalar that the kernel does not have, a build for another machine.
        ValueError: types, shapes, sizes or devices that the kernel cannot do.
    """
    build = _ours(build)
    program = build.spec.program
    if unknown := sorted(scalars.keys() - {s.name for s in program.scalars}):
        names = [s.name for s in program.scalars]
        takes = f"its scalars are {', '.join(names)}" if names else "it has none"
        raise TypeError(f"{program.name} has no scalar {unknown[0]}: {takes}")
    return _alone(prepared(build, tensors)(tensors, tuple(scalar_values(program, scalars).values())))


def prepared(build: protocol.Build, tensors: Sequence[torch.Tensor], sizes: Mapping[str, int] = NO_SIZES) -> Prepared:
    """Return the function that computes the outputs of a build from such inputs and scalars, made once a signature.

    `sizes` has those of dimensions that no input has.

    Raises:
        TypeError: something that is no tensor, a build for another machine.
        ValueError: types, shapes, sizes or devices that the kernel cannot do.
    """
    known = _prepared.get(id(build))
    if known is None:
        known = _prepared[id(build)] = {}
        weakref.finalize(build, _prepared.pop, id(build), None).atexit = False
    key = signature(tensors)
    if key is not None and sizes:
        key = (*key, *sizes.items())
    found = known.get(key) if key is not None else None
    if found is None:
        found = _prepare(_ours(build), tensors, sizes)
        if len(known) >= MOST_PREPARED:
            known.clear()
        if key is not None:
            known[key] = found
    return found


def signature(tensors: Sequence[torch.Tensor]) -> tuple[object, ...] | None:
    """Return everything that decides how a launch is prepared, None if a value is no dense tensor."""
    try:
        return tuple([part for t in tensors for part in (t.shape, t.stride(), t.dtype, t.device)])
    except (AttributeError, RuntimeError):
        return None


def _prepare(build: protocol.Build, tensors: Sequence[torch.Tensor], sizes: Mapping[str, int]) -> Prepared:
    """The launch of a build for inputs of this signature. Raises as `prepared`."""
    program = build.spec.program
    launch = launch_of(build, tensors, sizes)
    devices = {t.device for t in tensors}
    if len(devices) > 1 or next(iter(devices)).type not in ("cpu", "cuda"):
        places = ", ".join(sorted(map(str, devices)))
        raise ValueError(f"{program.name}: all tensors must be on the CPU or on one GPU, not on {places}")
    names = [t.name for t in program.reads]
    stored = {n: TORCH[t.dtype] for n, t in enumerate(program.reads) if t.dtype in STORED}
    outputs = {t.name: STORED.get(t.dtype) for t in program.outputs}
    flattened = [launch.shape(t) if t.declared else None for t in program.reads]
    flat_outputs = {t.name: t for t in program.outputs if t.declared}
    shapes = {name: launch.given(t) for name, t in flat_outputs.items()}
    scalars = [s.name for s in program.scalars]
    on_gpu = taken(tensors[0].device) or gpu.takes(tensors[0].device)
    kept = weakref.ref(build)  # who calls has it: what is prepared ends with it

    def named(given: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
        plain = [t.detach().view(stored[n]) if n in stored else t.detach() for n, t in enumerate(given)]
        flat = [t if shape is None else t.reshape(shape) for t, shape in zip(plain, flattened, strict=True)]
        return dict(zip(names, flat, strict=True))

    def compute(
        given: Sequence[torch.Tensor], values: Sequence[float], into: Sequence[torch.Tensor] = ()
    ) -> tuple[torch.Tensor, ...]:
        found: Mapping[str, torch.Tensor] = named(given)
        numbers, build = dict(zip(scalars, values, strict=True)), kept()
        assert build is not None
        if on_gpu:
            named_into = dict(zip(outputs, into, strict=True)) if into else {}
            named_into |= {n: named_into[n].view(launch.shape(t)) for n, t in flat_outputs.items() if n in named_into}
            found = memory(launch, found, into=named_into)
            gpu.launcher(build, found, numbers)()
        else:
            _check_places(launch, found)
            found = _on_cpu(build, launch, found, numbers)
        results = tuple(found[name].view(kind) if kind else found[name] for name, kind in outputs.items())
        results = tuple(r.view(shapes[n]) if n in shapes else r for n, r in zip(outputs, results, strict=True))
        return results if on_gpu or not into else tuple(t.copy_(r) for t, r in zip(into, results, strict=True))

    if on_gpu and backend_of(build.spec.target.name).interpreter is not None:
        assert not any(outputs.values())
        return hopper.prepare(build, launch, named(tensors))
    return compute


def _on_cpu(
    build: protocol.Build, launch: Sizing, named: Mapping[str, torch.Tensor], scalars: Mapping[str, float]
) -> Mapping[str, torch.Tensor]:
    """Run the machine code on the emulator, or by the back end's first executor. Raises RuntimeError where that
    cannot go on.
    """
    executors = [*backend_of(build.spec.target.name).executors.values()]
    if not executors:
        return computed(build, launch, named, scalars)
    inputs = {name: t.contiguous() for name, t in named.items()}
    made = in_order(executors[0], build.spec, launch, inputs, scalars, Order())
    if made.findings:
        raise RuntimeError(f"{build.spec.name}: {'; '.join(made.findings)}")
    return made.outputs


def _identity(build: protocol.Build) -> tuple[object, ...]:
    """Return everything that decides the results: the machine code, and the sizes that grids are made from."""
    return (*(k.code for k in build.kernels), *(d.size for d in build.spec.program.dims))


def _check_places(launch: Sizing, named: Mapping[str, torch.Tensor]) -> None:
    """Raises ValueError for offsets that decrease or leave the rows, lengths beyond them, and pages that are none.

    On a GPU nobody waits for them to look: the kernel itself stays within bounds, whatever they hold.
    """
    for of in launch.launches:
        program = of.program
        ragged = program.kernel.offsets.items()
        offsets = {t: (a.dim, a.within is not None and a.within.lengths) for t, a in ragged}
        for table in (t for t in program.kernel.tables if t.name in named):
            _check_table(program.name, table.name, named[table.name], of.extents[program.kernel.held[table].name])
        for tensor, (dim, lengths) in offsets.items():
            values = named[tensor.name].tolist() if tensor.name in named else []
            if lie := problem(values, of.extents[dim.name], lengths):
                raise ValueError(f"{program.name}: {tensor.name}{lie}")


def _check_table(kernel: str, name: str, pages: torch.Tensor, count: int) -> None:
    """Raises ValueError for a table that lists another page than one of `count`; -1 says that there is none."""
    lies = ((pages < -1) | (pages >= count)).nonzero().tolist()
    if lies:
        at, lie = ", ".join(map(str, lies[0])), int(pages[tuple(lies[0])])
        raise ValueError(f"{kernel}: {name}[{at}] is {lie}, and pages are 0 to {count - 1}, or -1 for none")


def _alone(results: tuple[torch.Tensor, ...]) -> torch.Tensor | tuple[torch.Tensor, ...]:
    """Return the one result of an operator, or all as a tuple."""
    return results[0] if len(results) == 1 else results


def operator(build: protocol.Build, name: str | None = None) -> Callable[..., torch.Tensor]:
    """Register `torch.ops.tkgen.NAME` for `build` and return it; NAME is the kernel's own unless given.

    The operator takes the spec's input tensors, then its scalars with their defaults; a name that is a keyword of
    Python gets an underscore. It has no gradient. The same machine code may be registered again.

    Raises:
        ValueError: another kernel has this name already, or it is no identifier.
        TypeError: a build for another machine.
    """
    build = _ours(build)
    program = build.spec.program
    name = name or program.name
    if not name.isidentifier() or iskeyword(name):
        raise ValueError(f"`{name}` cannot name an operator: pass another as `name`")
    if name in _registered:
        if _registered[name] != _identity(build):
            raise ValueError(f"torch.ops.{NAMESPACE}.{name} is already another kernel: rename this one, or pass `name`")
        return _operator(name)
    parameters = [f"Tensor {parameter(t.name)}" for t in program.reads]
    for scalar in program.scalars:
        default = "" if scalar.default is None else f"={scalar.default}"
        parameters.append(f"float {parameter(scalar.name)}{default}")
    count, alone = len(program.reads), len(program.outputs) == 1
    defaults = tuple(s.default for s in program.scalars)

    def compute(*arguments: Any) -> torch.Tensor | tuple[torch.Tensor, ...]:
        tensors, scalars = arguments[:count], arguments[count:]
        found = prepared(build, tensors)(tensors, scalars + defaults[len(scalars) :])  # torch leaves defaults out
        return found[0] if alone else found

    def fake(*arguments: Any) -> torch.Tensor | tuple[torch.Tensor, ...]:
        first: torch.Tensor = arguments[0]
        launch = launch_of(build, arguments[:count])
        types = {t: STORED.get(t.dtype, TORCH[t.dtype]) for t in program.outputs}
        return _alone(tuple(first.new_empty(launch.given(t), dtype=kind) for t, kind in types.items()))

    returned = ", ".join("Tensor" for _ in program.outputs)
    returned = returned if alone else f"({returned})"
    define(f"{NAMESPACE}::{name}({', '.join(parameters)}) -> {returned}", compute, fake)
    _registered[name] = _identity(build)
    return _operator(name)


def parameter(name: str) -> str:
    """Return a name that torch and Python accept for a parameter named `name` in a spec."""
    return f"{name}_" if iskeyword(name.rstrip("_")) else name


def _operator(name: str) -> Callable[..., torch.Tensor]:
    return getattr(getattr(torch.ops, NAMESPACE), name)  # type: ignore[no-any-return]


_registered: dict[str, tuple[object, ...]] = {}
_prepared: dict[int, dict[object, Prepared]] = {}  # by the identity of a build, until that is no more


@contextmanager
def through_hip() -> Iterator[None]:
    """Within it, CPU tensors are computed by the AMD GPU that HIP finds: for a torch that is not built for ROCm.

    The target is that of `tkgen.ops.emulated`, or of the build, and the GPU must be one of it. Each launch copies its
    tensors to memory that the GPU and the CPU share.
    """
    _forget_all()
    try:
        with gpu.through_hip():
            yield
    finally:
        _forget_all()


def _forget_all() -> None:
    for forget in hopper.forgotten:
        forget()


def _forget() -> None:
    for known in list(_prepared.values()):
        known.clear()


hopper.forgotten.append(_forget)
