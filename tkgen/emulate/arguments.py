"""Kernel arguments: buffers, scalars, structs by value, raw bytes, and the kernarg segment they are laid out in.

args = [Struct([Buffer(a), Buffer(b), Scalar("i32", 192)]), Buffer(c), Scalar("f32", 1.0)]
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tkgen.emulate.code_object import Argument, Kernel
from tkgen.emulate.errors import EmulateError

# struct format, size (which is also the alignment in C on amdgcn).
_SCALARS: Final = {
    "i8": ("b", 1),
    "u8": ("B", 1),
    "i16": ("h", 2),
    "u16": ("H", 2),
    "i32": ("i", 4),
    "u32": ("I", 4),
    "i64": ("q", 8),
    "u64": ("Q", 8),
    "bf16": ("bf16", 2),
    "f16": ("e", 2),
    "f32": ("f", 4),
    "f64": ("d", 8),
    "ptr": ("Q", 8),
}


@dataclass(frozen=True)
class Hollow:
    """`size` bytes with addresses and no contents: they take no memory, and what is loaded from them is unknown."""

    size: int


@dataclass(frozen=True, eq=False)
class Buffer:
    """Memory on the device: a numpy array or torch tensor, contiguous, on the CPU; the kernel writes into it.

    With `Hollow` data the launch is without data: see `launch`.

    `writable=False` makes a store into it a finding. `name` appears in findings.

    `payload`, of launches over an algebra: what each number is in two finite fields (`algebra`), uint32 of shape
    [numbers, 2] in memory order; what the kernel stores is written into it. `format` is that of the numbers, where the
    element type of `data` does not say it: f32, bf16, f16, f64, fp8, bf8, fp8_fnuz, bf8_fnuz, fp4, fp6, bf6.
    """

    data: Any
    name: str = ""
    writable: bool = True
    payload: npt.NDArray[np.uint32] | None = None
    format: str = ""

    def bytes(self) -> npt.NDArray[np.uint8]:
        """The same memory as bytes."""
        data = self.data
        if isinstance(data, Hollow):
            return np.broadcast_to(np.zeros(1, np.uint8), (data.size,))
        if not isinstance(data, np.ndarray):
            data = _from_torch(data)
        if not data.flags.c_contiguous:
            raise EmulateError(f"buffer {self.name or '?'} is not contiguous")
        if self.writable and not data.flags.writeable:
            raise EmulateError(f"buffer {self.name or '?'} is read-only memory; pass writable=False")
        flat: npt.NDArray[np.uint8] = data.reshape(-1).view(np.uint8)
        return flat


def _from_torch(tensor: Any) -> npt.NDArray[Any]:
    try:
        import torch
    except ImportError:
        torch = None  # type: ignore[assignment]
    if torch is None or not isinstance(tensor, torch.Tensor):
        raise EmulateError(f"a buffer is a numpy array or a torch tensor, not {type(tensor).__name__}")
    if tensor.device.type != "cpu":
        raise EmulateError("the emulator takes tensors on the CPU")
    if not tensor.is_contiguous():
        raise EmulateError("a tensor passed to the emulator must be contiguous")
    if not tensor.numel():  # which torch gives no stride that bytes could have
        return np.zeros(0, np.uint8)
    array: npt.NDArray[Any] = tensor.detach().view(-1).view(torch.uint8).numpy()
    return array


@dataclass(frozen=True)
class Scalar:
    """A number of type `kind`: i8 u8 i16 u16 i32 u32 i64 u64 bf16 f16 f32 f64, or `ptr` for a raw address."""

    kind: str
    value: int | float
    name: str = ""


@dataclass(frozen=True)
class Bytes:
    """Raw bytes with an alignment."""

    data: bytes
    alignment: int = 1


@dataclass(frozen=True)
class Struct:
    """A struct passed by value, laid out as C does; it may hold pointers to buffers and further structs.

    `otherwise` are the same fields as other headers lay them out: they are taken where a kernel's argument has their
    size.
    """

    fields: Sequence[Arg]
    alignment: int = 1
    otherwise: Sequence[Arg] = ()


Arg = Buffer | Scalar | Struct | Bytes


@dataclass
class Layout:
    """Collects the buffers of an argument list, each with its address, and turns arguments into bytes."""

    placed: list[tuple[Buffer, int]] = field(default_factory=list)

    def alignment(self, arg: Arg) -> int:
        """In bytes, as C on amdgcn has it."""
        match arg:
            case Buffer():
                return 8
            case Scalar(kind):
                return _scalar(kind)[1]
            case Bytes(_, alignment):
                return alignment
            case Struct(fields, alignment):
                return max([alignment, *(self.alignment(f) for f in fields)])

    def encode(self, arg: Arg) -> bytes:
        """The bytes of one argument."""
        match arg:
            case Buffer():
                return struct.pack("<Q", next(at for buffer, at in self.placed if buffer is arg))
            case Scalar(kind, value):
                return _encode_scalar(kind, value)
            case Bytes(data):
                return data
            case Struct(fields):
                out = b""
                for f in fields:
                    out = _pad(out, self.alignment(f)) + self.encode(f)
                return _pad(out, self.alignment(arg))


def _scalar(kind: str) -> tuple[str, int]:
    if kind not in _SCALARS:
        raise EmulateError(f"no scalar type {kind!r}; known are {', '.join(_SCALARS)}")
    return _SCALARS[kind]


def _encode_scalar(kind: str, value: int | float) -> bytes:
    code = _scalar(kind)[0]
    try:
        if kind == "bf16":
            return _bf16(value)
        return struct.pack(f"<{code}", value if kind.startswith("f") else int(value))
    except (struct.error, OverflowError) as error:
        raise EmulateError(f"{value} does not fit the scalar type {kind}") from error


def _bf16(value: float) -> bytes:
    """To nearest even, as conversions of torch do."""
    if value != value:
        return b"\xc0\x7f"
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return struct.pack("<H", bits + 0x7FFF + (bits >> 16 & 1) >> 16)


def _pad(data: bytes, alignment: int) -> bytes:
    return data + bytes(-len(data) % alignment)


def buffers(args: Sequence[Arg]) -> list[Buffer]:
    """All buffers in order of appearance, each once."""
    found: list[Buffer] = []

    def walk(arg: Arg) -> None:
        if isinstance(arg, Buffer):
            if not any(known is arg for known in found):
                found.append(arg)
        elif isinstance(arg, Struct):
            for f in arg.fields:
                walk(f)

    for arg in args:
        walk(arg)
    return found


@dataclass(frozen=True)
class Geometry:
    """The facts about a launch in the implicit arguments of a kernel."""

    grid: tuple[int, int, int]  # blocks
    block: tuple[int, int, int]  # threads
    dynamic_lds: int
    shared_base: int
    private_base: int
    hostcall: int = 0  # address of the buffer for calls of the host
    grid_information: int = 0  # of a cooperative launch: address of what grid.sync() uses


def kernarg(kernel: Kernel, args: Sequence[Arg], layout: Layout, geometry: Geometry) -> bytes:
    """The kernarg segment: the arguments at the offsets of the metadata, and the hidden ones."""
    expected = kernel.explicit_arguments
    if kernel.arguments and len(args) != len(expected):
        raise EmulateError(
            f"{kernel.name} takes {len(expected)} arguments ({_listed(expected)}), {len(args)} were given"
        )
    out = bytearray(kernel.kernarg_bytes)
    if not kernel.arguments:  # no metadata: in order, as C lays them out
        packed = layout.encode(Struct(list(args)))
        out[: len(packed)] = packed
        return bytes(out)
    for arg, place in zip(args, expected, strict=True):
        data = layout.encode(arg)
        if isinstance(arg, Struct) and arg.otherwise and len(data) != place.size:
            other = layout.encode(Struct(arg.otherwise, arg.alignment))
            data = other if len(other) == place.size else data
        if place.kind != "by_value" and len(data) != place.size:
            raise EmulateError(f"argument {place.name} of {kernel.name} is a pointer of 8 bytes, not {len(data)} bytes")
        if len(data) > place.size:
            raise EmulateError(f"argument {place.name} of {kernel.name} has {place.size} bytes, {len(data)} were given")
        if isinstance(arg, Struct) and len(data) != place.size:
            raise EmulateError(
                f"argument {place.name} of {kernel.name} has {place.size} bytes, the struct given {len(data)}"
            )
        out[place.offset : place.offset + len(data)] = data
    for place in kernel.arguments:
        value = _hidden(place.kind, geometry)
        if value is not None:
            if not 0 <= place.offset <= len(out) - place.size or value.bit_length() > 8 * place.size:
                raise EmulateError(f"the metadata of {kernel.name} is damaged: {place.kind} of {place.size} bytes")
            out[place.offset : place.offset + place.size] = value.to_bytes(place.size, "little")
    return bytes(out)


def _listed(arguments: Sequence[Argument]) -> str:
    return ", ".join(f"{a.name}: {a.size} bytes" for a in arguments) or "none"


def _hidden(kind: str, g: Geometry) -> int | None:
    """Value of an implicit argument (AMDGPUUsage, "Code object V5 metadata"); those not modelled are zero."""
    for axis, letter in enumerate("xyz"):
        if kind == f"hidden_block_count_{letter}":
            return g.grid[axis]
        if kind == f"hidden_group_size_{letter}":
            return g.block[axis]
    match kind:
        case "hidden_grid_dims":
            return 3 if g.grid[2] * g.block[2] > 1 else 2 if g.grid[1] * g.block[1] > 1 else 1
        case "hidden_dynamic_lds_size":
            return g.dynamic_lds
        case "hidden_private_base":
            return g.private_base >> 32
        case "hidden_shared_base":
            return g.shared_base >> 32
        case "hidden_hostcall_buffer":
            return g.hostcall
        case "hidden_multigrid_sync_arg":
            return g.grid_information
    return None
