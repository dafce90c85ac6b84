"""The files that Triton leaves beside a code object in its cache: its launch, and the names of its parameters.

`NAME.json` gives the waves of a block and its LDS. The first line of the function in `NAME.ttir` has the parameters as
the launcher passes them: constexprs are gone, a tensor descriptor is a pointer, extents and strides. After them the
code object has pointers to Triton's own scratch memory (Triton 3.9, `backends/amd/driver.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tkgen.emulate import Arg, Buffer, CodeObject, Kernel, Scalar
from tkgen.sanitize.arguments import ArgumentError, Descriptor

_SCALARS = {
    "i1": "u8", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64",
    "f16": "f16", "bf16": "bf16", "f32": "f32", "f64": "f64",
}  # fmt: skip
# What a pointer points to, by the names of numpy and torch; of others nothing is known.
_ELEMENTS = {
    "bfloat16": "bf16", "float16": "f16", "float32": "f32", "float64": "f64",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
}  # fmt: skip
_PARAMETER = re.compile(
    r"%(?P<name>[\w.$]+): (?P<type>!?[\w.]+)(?:<(?P<element>\w+)[^%]*?>)?(?: \{(?P<attributes>[^}]*)\})?"
)
_SPARE = 2  # pointers to scratch memory: the kernel's, the profiler's


@dataclass(frozen=True)
class Parameter:
    """A parameter as the launcher passes it; `element` is what a pointer points to, `divisor` what Triton took for
    granted of an integer."""

    name: str
    type: str
    element: str
    divisor: int


@dataclass(frozen=True)
class Compiled:
    """The launch of a kernel of Triton's: threads of a block, LDS and scratch of it in bytes, parameters."""

    threads: int
    lds_bytes: int
    scratch_bytes: int
    parameters: tuple[Parameter, ...]


def beside(path: Path) -> Compiled | None:
    """Read the files beside the code object at `path`; None if it is not in a cache of Triton. Raises OSError."""
    facts = path.with_suffix(".json")
    if not facts.is_file():
        return None
    try:
        found = json.loads(facts.read_text("utf-8"))
        threads = int(found["num_warps"]) * int(found.get("warp_size", 64))
        scratch = int(found.get("global_scratch_size", 0)) + int(found.get("profile_scratch_size", 0))
        lds = int(found["shared"])
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    text = path.with_suffix(".ttir")
    header = text.read_text("utf-8", "replace") if text.is_file() else ""
    return Compiled(threads, lds, scratch, _parameters(header))


def _parameters(text: str) -> tuple[Parameter, ...]:
    head = re.search(r"tt\.func public @[^\n]*", text)
    if head is None:
        return ()
    found = []
    for m in _PARAMETER.finditer(head[0]):
        divisor = re.search(r"tt\.divisibility = (\d+)", m["attributes"] or "")
        name = re.sub(r"(\.(?:shape|stride)\.\d+)_\d+$", r"\1", m["name"])
        found.append(Parameter(name, m["type"], m["element"] or "", int(divisor[1]) if divisor else 1))
    return tuple(found)


def named(code: CodeObject, compiled: Compiled) -> CodeObject:
    """The code object with the names of the parameters, where their number fits."""

    def renamed(kernel: Kernel) -> Kernel:
        explicit = kernel.explicit_arguments
        if not 0 <= len(explicit) - len(compiled.parameters) <= _SPARE:
            return kernel
        names = [p.name for p in compiled.parameters]
        names += ["scratch", "profile scratch"][: len(explicit) - len(names)]
        known = {a.offset: name for a, name in zip(explicit, names, strict=True) if a.name.startswith("#")}
        arguments = tuple(
            a if a.kind.startswith("hidden_") else replace(a, name=known.get(a.offset, a.name))
            for a in kernel.arguments
        )
        return replace(kernel, arguments=arguments)

    return replace(code, kernels=tuple(map(renamed, code.kernels)))


def fitted(args: Sequence[Arg | Descriptor], kernel: Kernel, compiled: Compiled | None) -> list[Arg]:
    """The arguments as the kernel takes them: descriptors taken apart, and scratch memory that is not used.

    Raises:
        ArgumentError: a descriptor stands where none is taken, a number is none that Triton compiled for.
    """
    parameters = compiled.parameters if compiled else ()
    found: list[Arg] = []
    for arg in args:
        if isinstance(arg, Descriptor):
            found += _taken_apart(arg, parameters, len(found))
        else:
            found.append(arg)
    for given, parameter in zip(found, parameters, strict=False):
        _check(given, parameter)
    spare = len(kernel.explicit_arguments) - len(found)
    if compiled and parameters and len(found) == len(parameters) and 0 < spare <= _SPARE:
        if compiled.scratch_bytes:
            raise ArgumentError(
                f"{kernel.name} takes {compiled.scratch_bytes} bytes of scratch memory for each block: give buffers "
                f"for its last {spare} arguments"
            )
        found += [Scalar("ptr", 0)] * spare
    return found


def _check(given: Arg, parameter: Parameter) -> None:
    """Raises ArgumentError where Triton compiled for something else."""
    name, divisor = parameter.name, parameter.divisor
    if isinstance(given, Scalar) and divisor > 1 and given.value % divisor:
        raise ArgumentError(f"{name} is {given.value}; Triton compiled this code for multiples of {divisor}")
    if isinstance(given, Buffer):
        dtype = str(given.data.dtype).removeprefix("torch.").removeprefix("u")
        held = "bf16" if given.format == "bf16" else _ELEMENTS.get(dtype, "")
        if held and parameter.element in _ELEMENTS.values() and parameter.element != held:
            raise ArgumentError(f"{name} points to {parameter.element}, but a buffer of {held} was given")


def _taken_apart(given: Descriptor, parameters: Sequence[Parameter], at: int) -> list[Arg]:
    """A descriptor as the parameters that the function has for it: those called after its pointer."""
    if not parameters:
        raise ArgumentError("desc(...) needs the .ttir that Triton leaves beside a code object")
    first = parameters[at].name if at < len(parameters) else ""
    parts = []
    for p in parameters[at + 1 :]:
        if not p.name.startswith(f"{first}."):
            break
        parts.append(p)
    if not parts:
        raise ArgumentError(
            f"desc(...) is given for parameter {at + 1}, {first or 'which does not exist'}, which is not a descriptor"
        )
    extents = given.extents
    strides = [1] * len(extents)
    for d in reversed(range(len(extents) - 1)):
        strides[d] = strides[d + 1] * extents[d + 1]
    found: list[Arg] = [replace(given.buffer, name=given.buffer.name or first)]
    for part in parts:
        m = re.fullmatch(r".*\.(shape|stride)\.(\d+)", part.name)
        if m and int(m[2]) >= len(extents):
            raise ArgumentError(f"{first} has {int(m[2]) + 1} dimensions or more, {list(extents)} were given")
        value = 0 if m is None else (extents if m[1] == "shape" else strides)[int(m[2])]
        found.append(Scalar(_SCALARS.get(part.type, "i64"), value))
    return found
