"""Launches of generated kernels on the CPU: memory, the argument, an order, what came out."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from tkgen.backends.hopper.host.library import library
from tkgen.backends.hopper.host.maps import encoded
from tkgen.backends.hopper.launch import argument, described, members
from tkgen.backends.hopper.layout import launched_registers
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.backends.protocol import Modelled
from tkgen.ir.launch import Launch
from tkgen.ir.rounding import TORCH
from tkgen.ir.tensors import Tensor as Declared
from tkgen.proof.execution import Order

Told = Callable[[int, int], None]

AGENTS: Final = {"turn": 0, "first": 1, "last": 2, "random": 3}
STREAMS: Final = {"copies": 1, "products": 2, "stores": 4}
REPORT_BYTES: Final = 1 << 14
ALIGNMENT: Final = 16  # of a tensor's first byte, as little as the copy engine takes
LIMIT: Final = 600.0  # seconds for a launch
SHORT: Final = 1.0  # seconds after which a launch tells of its blocks


class _TensorMemory(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("first", ctypes.c_uint64), ("bytes", ctypes.c_uint64))


class _Request(ctypes.Structure):
    """`request` of `include/tkgen_host.h`."""

    _fields_ = (
        ("argument", ctypes.c_void_p),
        ("grid", ctypes.c_uint32),
        ("threads", ctypes.c_uint32),
        ("cluster", ctypes.c_uint32),
        ("dynamic_bytes", ctypes.c_uint32),
        ("registers", ctypes.c_uint32),
        ("agents", ctypes.c_uint32),
        ("early", ctypes.c_uint32),
        ("seed", ctypes.c_uint64),
        ("report", ctypes.c_void_p),
        ("report_bytes", ctypes.c_uint64),
        ("progress", ctypes.c_void_p),
        ("tensors", ctypes.c_void_p),
        ("tensor_count", ctypes.c_uint64),
        ("limit", ctypes.c_double),
    )


@dataclass(frozen=True)
class Shape:
    """Blocks and threads of a launch, and the dynamic shared memory of a block."""

    blocks: int
    threads: int
    dynamic_bytes: int


def shape_of(spec: HopperSpec[Any], launch: Launch[Any]) -> Shape:
    """As `tkgen.backends.hopper.launch` launches it on a GPU."""
    return Shape(spec.blocks(launch), spec.threads, spec.dynamic_bytes)


def run(
    spec: HopperSpec[Any], launch: Launch[Any], inputs: Mapping[str, Tensor], scalars: Mapping[str, float],
    order: Order, progress: Told | None = None, text: str | None = None, limit: float = LIMIT,
) -> Modelled:  # fmt: skip
    """One launch of the spec's C++, or of `text` in its place, on tensors of the CPU.

    Outputs hold NaN before it, or what stores combine values with.

    Raises:
        ToolchainError: no compiler here, or the C++ does not compile.
        MapError: the copy engine could not move a tensor.
    """
    loaded = library(text if text is not None else spec.text)
    shape, program = shape_of(spec, launch), launch.program
    with _memory(loaded, launch, inputs, program.starts) as tensors:
        boxes = spec.boxes
        maps = members(boxes, program, tensors, lambda *of: encoded(described(*of)))
        whole = argument(maps, tensors, [scalars[s.name] for s in program.scalars], spec.target.map_alignment)
        findings, steps = _launched(loaded, spec, shape, whole, tensors, order, progress, limit)
        outputs = {t.name: tensors[t.name].clone() for t in program.outputs}
    return Modelled(outputs, findings, steps)


def _launched(
    loaded: ctypes.CDLL, spec: HopperSpec[Any], shape: Shape, whole: bytes, tensors: Mapping[str, Tensor],
    order: Order, progress: Told | None, limit: float,
) -> tuple[tuple[str, ...], int]:  # fmt: skip
    """Faults seen in a launch, and the number of its steps."""
    expected = loaded.tkgen_host_argument_bytes()
    if expected != len(whole):
        return (f"the argument of the kernel has {expected} bytes, but the launch passes {len(whole)}",), 0
    if shape.threads > loaded.tkgen_host_threads():
        bound = loaded.tkgen_host_threads()
        return (f"the kernel is for at most {bound} threads, but the launch has {shape.threads}",), 0
    cluster = loaded.tkgen_host_cluster()
    if shape.blocks % cluster:
        return (f"{shape.blocks} blocks are not a multiple of the cluster of {cluster}",), 0
    named = [(name, t.data_ptr(), t.numel() * t.element_size()) for name, t in tensors.items()]
    memories = (_TensorMemory * len(named))(*(_TensorMemory(name.encode(), *place) for name, *place in named))
    held = ctypes.create_string_buffer(whole, len(whole) + 64)
    aligned = -(-ctypes.addressof(held) // 64) * 64
    ctypes.memmove(aligned, whole, len(whole))
    report = loaded.tkgen_host_map(REPORT_BYTES, 64)
    counts = loaded.tkgen_host_map(16, 16)
    early = sum(bit for stream, bit in STREAMS.items() if order.early is None or stream in order.early)
    if order.agents == "random":
        early = 0
    request = _Request(
        aligned, shape.blocks, shape.threads, cluster, shape.dynamic_bytes,
        launched_registers(spec.target, shape.threads), AGENTS[order.agents], early, order.seed, report, REPORT_BYTES,
        counts, ctypes.addressof(memories), len(named), limit,
    )  # fmt: skip
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64)

    start, last = time.monotonic(), 0

    def told(done: int) -> int:
        nonlocal last
        if progress is not None and done > last and time.monotonic() - start > SHORT:
            last = min(done, shape.blocks)
            progress(last, shape.blocks)
        return 0

    try:
        status = loaded.tkgen_host_run(ctypes.byref(request), kind(told))
        lines = ctypes.string_at(report).decode(errors="replace").splitlines()
        steps = ctypes.cast(counts, ctypes.POINTER(ctypes.c_uint64))[1]
    finally:
        loaded.tkgen_host_unmap(report, REPORT_BYTES, 64)
        loaded.tkgen_host_unmap(counts, 16, 16)
    if progress is not None:
        progress(shape.blocks, shape.blocks)
    if status and not lines:
        lines = [f"the launch ends with an error (status {status})"]
    return tuple(lines), steps


@contextmanager
def _memory(
    loaded: ctypes.CDLL, launch: Launch[Any], inputs: Mapping[str, Tensor], starts: Mapping[str, float]
) -> Iterator[dict[str, Tensor]]:
    """All tensors of a launch in memory that its process shares; after each, nothing may be touched."""
    places: list[tuple[int, int]] = []
    tensors: dict[str, Tensor] = {}

    def placed(tensor: Declared) -> Tensor:
        dtype, shape = TORCH[tensor.dtype], launch.shape(tensor)
        count = 1
        for size in shape:
            count *= size
        size = count * dtype.itemsize
        place = loaded.tkgen_host_map(max(size, ALIGNMENT), ALIGNMENT)
        if not place:
            raise MemoryError(f"no memory for `{tensor.name}`, {size} bytes")
        places.append((place, max(size, ALIGNMENT)))
        buffer = (ctypes.c_uint8 * max(size, ALIGNMENT)).from_address(place)
        return torch.frombuffer(buffer, dtype=torch.uint8)[:size].view(dtype).view(shape)

    try:
        for tensor in launch.program.arguments:
            tensors[tensor.name] = placed(tensor)
            if tensor.name in inputs:
                tensors[tensor.name].copy_(inputs[tensor.name].reshape(tensors[tensor.name].shape))
            elif tensor.name in starts:
                tensors[tensor.name].fill_(starts[tensor.name])
            else:
                tensors[tensor.name].view(torch.uint8).fill_(0xFF)
        yield tensors
    finally:
        tensors.clear()
        for place, size in places:
            loaded.tkgen_host_unmap(place, size, ALIGNMENT)
