"""Kernels of others: a code object or a C++ source, its launch as `tkgen sanitize` takes it, and what it means.

Its meaning is a spec, or a torch function that takes the kernel's tensors by the names of its parameters and returns
the expected outputs, in their order. Buffers are named in `--arg` (`A:bf16[256,64]=randn`), else as the kernel's
parameters are. Outputs are those marked `:out`; where none is, those that the launch changes.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tkgen import sanitize
from tkgen.api import define_value, load_equations
from tkgen.emulate import Arg, Buffer, Interleaving, Scalar, Struct
from tkgen.emulate import launch as emulate
from tkgen.execute.launch import Payload
from tkgen.ir import rounding, tensors
from tkgen.ir.types import DType
from tkgen.sanitize import ArgumentError, Output
from tkgen.sanitize.arguments import SMALL, function_of, named
from tkgen.source import SourceFile, Span
from tkgen.verify import payloads, ring
from tkgen.verify.degree import degree
from tkgen.verify.diagnose import explained
from tkgen.verify.meaning import meant
from tkgen.verify.ring import Ring
from tkgen.verify.run import Case, Drawn, Stored, Sum, Verdict, verified
from tkgen.verify.terms import factors

_NOWHERE = Span(SourceFile("", ""), 0, 0)
_TYPES = {torch_type: dtype for dtype, torch_type in rounding.TORCH.items() if not dtype.packed}


@dataclass(frozen=True)
class Request:
    """The user's request: the kernel and its launch, and its meaning, a spec or FILE.py:FUNCTION."""

    kernel: sanitize.Request
    against: Path | None
    reference: str


@dataclass(frozen=True)
class Meaning:
    """The meaning of a kernel; `degree` and `sums` as of `Case`."""

    of: Callable[[Drawn], Mapping[str, Ring]]
    degree: int | None = None
    sums: Callable[[Drawn], Sequence[Sum]] | None = None


def verified_file(request: Request, draws: int = 2, schedules: int = 2) -> Verdict:
    """The verdict on a kernel beside a spec or a function of torch.

    Raises:
        ArgumentError: options are missing or wrong, or names do not fit.
        SpecError, ToolchainError, EmulateError, OSError: files are wrong.
        UnsupportedError: the function has what the algebra has not.
    """
    ((subject, launch),) = sanitize.prepare(request.kernel)
    seed = request.kernel.seed
    kernel = subject.code.kernel(launch.kernel)

    def arguments(of: int) -> list[Arg]:
        return named(launch.arguments.of(of), kernel)

    first = arguments(seed)
    _check_names(_buffers(first))
    outputs = _outputs(subject, launch, first)
    scalars = dict(_scalars(first))

    def draw(of: int) -> Drawn:
        buffers = {b.name: b for b in _buffers(arguments(of))}
        memory = {name: values(b) for name, b in buffers.items()}
        generator = torch.Generator().manual_seed(of)
        read = {name for name, t in memory.items() if not _is_output(buffers[name]) or _varies(t)}
        given = {name: t for name, t in memory.items() if t.is_floating_point() and name in read}
        rings = {
            name: Ring.random(t.double(), generator) if _varies(t) else ring.plain(t.double())
            for name, t in given.items()
        }
        return Drawn(memory, rings)

    def machine(drawn: Drawn, order: Interleaving) -> Stored:
        words = {name: payloads.packed(numbers) for name, numbers in drawn.rings.items()}
        args = [_with_payloads(arg, drawn.memory, words) for arg in arguments(0)]
        outcome = emulate(
            subject.code, args=args, grid=launch.grid, block=launch.block, kernel=launch.kernel,
            lds_bytes=launch.lds_bytes, policy=order.policy, seed=order.seed, algebra=True,
        )  # fmt: skip
        found = {b.name: b for b in _buffers(args)}
        left = {name: b.payload for name, b in found.items() if b.payload is not None}
        memory = {name: values(b) for name, b in found.items()}
        return Stored(memory, left, outcome.lost, outcome.findings, outcome.instructions, outcome.printed)

    inputs = {b.name: values(b) for b in _buffers(first)}
    means = _meaning(request, inputs, scalars, outputs)
    note = " ".join(_shown(b, inputs[b.name]) for b in _buffers(first))

    def by_clang(drawn: Drawn) -> Mapping[str, Ring]:
        with ring.split_constants():
            return means.of(drawn)

    case = Case(f"{request.kernel.path.name}: {kernel.name}", {}, outputs, draw, machine, means.of, means.degree, note,
                means.sums, (by_clang,))  # fmt: skip
    return verified(case, draws, schedules, seed, explained)


# ---------------------------------------------------------------- arguments


def _buffers(args: Sequence[Arg]) -> list[Buffer]:
    found: list[Buffer] = []
    for arg in args:
        if isinstance(arg, Buffer):
            found.append(arg)
        elif isinstance(arg, Struct):
            found += _buffers(list(arg.fields))
    return found


def _check_names(buffers: Sequence[Buffer]) -> None:
    """Raises ArgumentError where two buffers are called the same."""
    for name, count in Counter(b.name for b in buffers).items():
        if count > 1:
            raise ArgumentError(f"{count} buffers are called {name}: give each a different name, NAME:TYPE[...]")


def _scalars(args: Sequence[Arg]) -> Iterator[tuple[str, float]]:
    """Numbers that have names, those in structs, too."""
    for arg in args:
        if isinstance(arg, Struct):
            yield from _scalars(list(arg.fields))
        elif isinstance(arg, Scalar) and arg.name and arg.kind != "ptr":
            yield arg.name, arg.value


def values(buffer: Buffer) -> Tensor:
    """Return the contents of a buffer as a tensor of its type; it shares the memory where it can."""
    data = buffer.data
    if isinstance(data, Tensor):
        return data
    if buffer.format == "bf16":
        return torch.from_numpy(data.view(np.int16)).view(torch.bfloat16)
    if buffer.format in SMALL:
        return torch.from_numpy(data).view(getattr(torch, SMALL[buffer.format]))
    signed = {np.dtype(np.uint16): np.int16, np.dtype(np.uint32): np.int32, np.dtype(np.uint64): np.int64}
    return torch.from_numpy(data.view(signed.get(data.dtype, data.dtype)))


def _is_output(buffer: Buffer) -> bool:
    return isinstance(buffer, Output)


def _shown(buffer: Buffer, held: Tensor) -> str:
    """A buffer in the verdict: its shape, and where an input is one number everywhere, which: little depends on it."""
    everywhere = held.numel() > 1 and not (_is_output(buffer) or _varies(held))
    return f"{buffer.name}[{'x'.join(map(str, held.shape))}]" + (
        f" = {held.flatten()[0].item():g}" if everywhere else ""
    )


def _varies(values: Tensor) -> bool:
    """True if a buffer holds more than one number: what is zero everywhere is zero, and NaN everywhere nothing."""
    numbers = values if values.element_size() > 1 else values.float()
    if values.numel() < 2 or bool(numbers.isnan().all()):
        return False
    return bool((numbers != numbers.flatten()[0]).any())


def _with_payloads(arg: Arg, memory: Mapping[str, Tensor], words: dict[str, Payload]) -> Arg:
    """The same argument over a copy of this memory, with payloads."""
    if isinstance(arg, Struct):
        return replace(arg, fields=[_with_payloads(f, memory, words) for f in arg.fields])
    if not isinstance(arg, Buffer):
        return arg
    tensor = memory[arg.name].clone()
    if not tensor.is_floating_point() and not (_is_output(arg) and tensor.dtype is torch.int8):
        return replace(arg, data=tensor, format="")
    if arg.name not in words:
        words[arg.name] = payloads.empty(tensor.shape, zeros=False)
    return replace(arg, data=tensor, format="", payload=words[arg.name])


def _outputs(subject: sanitize.Subject, launch: sanitize.Launch, args: Sequence[Arg]) -> tuple[tensors.Tensor, ...]:
    """The buffers that are outputs: those said to be, else those that a launch changes."""
    buffers = _buffers(args)
    found: list[Buffer] = [b for b in buffers if isinstance(b, Output)]
    if not found:
        before = {b.name: b.bytes().copy() for b in buffers}
        emulate(
            subject.code, args=args, grid=launch.grid, block=launch.block, kernel=launch.kernel,
            lds_bytes=launch.lds_bytes,
        )  # fmt: skip
        found = [b for b in buffers if not np.array_equal(before[b.name], b.bytes())]
    if not found:
        raise ArgumentError("the launch changes no buffer, so there is nothing to compare; mark outputs with `:out`")
    if not any(len(b.bytes()) for b in found):
        raise ArgumentError(f"{', '.join(b.name for b in found)} has no elements: nothing to compare")
    return tuple(_declared(b) for b in found)


def _declared(buffer: Buffer) -> tensors.Tensor:
    tensor = values(buffer)
    dtype = _TYPES.get(tensor.dtype, DType.I32 if not tensor.is_floating_point() else DType.F32)
    names = ("rows", "columns") if tensor.dim() == 2 else tuple(f"dimension {d}" for d in range(tensor.dim()))
    dims = tuple(tensors.Dim(name, size, _NOWHERE) for name, size in zip(names, tensor.shape, strict=True))
    return tensors.Tensor(buffer.name, dtype, dims, _NOWHERE)


# ---------------------------------------------------------------- what it means


def _meaning(
    request: Request, inputs: Mapping[str, Tensor], scalars: Mapping[str, float], outputs: Sequence[tensors.Tensor]
) -> Meaning:
    if request.against is not None:
        return _of_spec(request, request.against, inputs, scalars, outputs)
    return Meaning(_of_function(function_of(request.reference), request.reference, scalars, outputs))


def _of_spec(
    request: Request, path: Path, inputs: Mapping[str, Tensor], scalars: Mapping[str, float],
    outputs: Sequence[tensors.Tensor],
) -> Meaning:  # fmt: skip
    """The equations of a spec, at the sizes of the buffers called as its tensors; it need say no more."""
    own = load_equations(path, None, request.kernel.target, request.kernel.include_dirs)
    arguments = {t.name: t for kernel in own for t in (*kernel.inputs, *kernel.outputs)}
    missing = [name for name in arguments if name not in inputs]
    if missing:
        raise ArgumentError(
            f"there is no buffer {missing[0]}; the buffers are {', '.join(inputs)}: use the names of the spec"
        )
    sizes: dict[str, int] = {}
    said = _numbers(request.kernel.defines or {})
    for name, value in said.items():
        sizes |= {name: value} if isinstance(value, int) else {}
    along: dict[tensors.Dim, tuple[int, str]] = {}  # how far, and in which tensor
    for name, tensor in arguments.items():
        shape = tensor.dtype.counted(inputs[name].shape)
        if len(shape) != len(tensor.dims):
            raise ArgumentError(f"{name} has {len(tensor.dims)} dimensions in the spec, not {len(shape)}")
        for d, size in zip(tensor.dims, shape, strict=True):
            if d in along and along[d][0] != size:
                raise ArgumentError(f"{d.name} is {size} in {name}, and {along[d][0]} in {along[d][1]}")
            along[d] = size, name
        _check_kind(tensor, inputs[name])
    sizes |= {d.name: size for d, (size, _) in along.items() if d.size != size}
    static = {d.name for t in arguments.values() for d in t.dims if d.size is not None}
    fixed = {n: s for n, s in sizes.items() if n in static}
    kernels = load_equations(path, fixed, request.kernel.target, request.kernel.include_dirs)
    defaults = {s.name: s.default for kernel in kernels for s in kernel.scalars}
    known = defaults | dict(scalars) | {n: v for n, v in said.items() if n in defaults}
    given = {name: float(value) for name, value in known.items() if value is not None}
    if lacking := [name for name in defaults if name not in given]:
        raise ArgumentError(f"scalar {lacking[0]} has no default: give it a value, such as -D {lacking[0]}=0.5")
    wanted = {t.name for kernel in kernels for t in kernel.inputs}

    def meaning(drawn: Drawn) -> Mapping[str, Ring]:
        memory = {name: t for name, t in drawn.memory.items() if name in wanted}
        rings = {name: t for name, t in drawn.rings.items() if name in wanted}
        found = meant(kernels, memory, rings, given, sizes)
        lacking = [t.name for t in outputs if t.name not in found]
        if lacking:
            raise ArgumentError(f"the spec does not write {lacking[0]}: mark its outputs with `:out`")
        return found

    def sums(drawn: Drawn) -> Sequence[Sum]:
        return factors(kernels[0], drawn, given, sizes) if len(kernels) == 1 else ()

    return Meaning(meaning, degree(kernels), sums)


def _check_kind(tensor: tensors.Tensor, memory: Tensor) -> None:
    """Raises ArgumentError where a buffer holds floats and the spec has integers, or the other way round."""
    if memory.is_floating_point() != rounding.TORCH[tensor.dtype].is_floating_point:
        held = str(memory.dtype).removeprefix("torch.")
        raise ArgumentError(f"{tensor.name} is {tensor.dtype.spelling} in the spec: a buffer of {held} does not fit")


def _numbers(defines: Mapping[str, str]) -> dict[str, float]:
    """Those of the `-D` that are numbers: a source may have any macros."""
    found: dict[str, float] = {}
    for name, text in defines.items():
        with suppress(ValueError):
            value = define_value(text)
            found |= {} if value is None else {name: value}
    return found


def _of_function(
    function: Callable[..., Any], place: str, scalars: Mapping[str, float], outputs: Sequence[tensors.Tensor]
) -> Callable[[Drawn], Mapping[str, Ring]]:
    """A function of torch, called with tensors and scalars by the names of its parameters."""
    parameters = inspect.signature(function).parameters

    def meaning(drawn: Drawn) -> Mapping[str, Ring]:
        known: dict[str, Any] = {**drawn.memory, **drawn.rings, **scalars}
        written = {t.name for t in outputs}
        unnamed = [name for name in known if name.startswith("argument ") and name not in written]
        unnamed.sort(key=lambda name: int(name.split()[1]))
        by_place = dict(zip(parameters, unnamed, strict=False)) if not parameters.keys() & known.keys() else {}
        given = {}
        for name, parameter in parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise ArgumentError(f"{place} takes `{parameter}`: its parameters are to have names of their own")
            if by_place.get(name, name) in known:
                given[name] = known[by_place.get(name, name)]
            elif parameter.default is inspect.Parameter.empty:
                raise ArgumentError(f"{place} takes `{name}`, and there are {', '.join(known)}: name the buffers so")
        with ring.numbers_of(t.dtype for t in drawn.memory.values()):
            result = function(**given)
        results = list(result) if isinstance(result, tuple | list) else [result]
        if isinstance(result, dict):
            results = [result.get(t.name) for t in outputs]
        if len(results) != len(outputs):
            listed = ", ".join(t.name for t in outputs)
            raise ArgumentError(f"{place} returns {len(results)} tensors, the kernel writes {len(outputs)}: {listed}")
        return {t.name: _fitting(t, r, place) for t, r in zip(outputs, results, strict=True)}

    return meaning


def _fitting(tensor: tensors.Tensor, result: Any, place: str) -> Ring:
    """Return the result of a function for an output, in its shape."""
    if not isinstance(result, Tensor):
        raise ArgumentError(f"{place} returns no tensor for {tensor.name}")
    shape = [d.size or 0 for d in tensor.dims]
    if result.numel() != int(np.prod(shape)):
        raise ArgumentError(f"{place} returns {list(result.shape)} for {tensor.name}, which is {shape}")
    found = ring.numeric(result).each(lambda t: t.reshape(shape))
    return ring.stored(found, tensor.dtype) if tensor.dtype.whole else Ring(found)
