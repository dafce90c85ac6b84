"""A launch on a Hopper GPU that is prepared once: a call then writes addresses and scalars, and launches.

Everything that follows from shapes, strides and types is worked out when the launch is prepared: the grid, the argument
with its tensor maps, which inputs the kernel cannot take as they lie. Each call writes to its own buffer, so threads
may call one prepared launch at the same time.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import torch
from torch import Tensor

from tkgen.backends.hopper import launch as hopper
from tkgen.ir.launch import Launch
from tkgen.ir.rounding import TORCH
from tkgen.ir.sizing import Sizing
from tkgen.ir.types import ACCESS_BYTES
from tkgen.toolchain.compiler import ToolchainError

if TYPE_CHECKING:
    from tkgen.backends.hopper.build import CudaBuild
    from tkgen.backends.hopper.spec import HopperSpec
    from tkgen.backends.protocol import Build
    from tkgen.ir import tensors

WORD = 8  # bytes of an address
MAP_ALIGNMENT = 64  # of what the driver changes a tensor map in
NO_CONTEXT = 201  # CUDA_ERROR_INVALID_CONTEXT: this thread has not used the GPU yet
DriverCall = Callable[..., int]


class Driver(Protocol):
    """Functions of the CUDA driver that a prepared launch needs."""

    launch: DriverCall
    """`cuLaunchKernelEx`, with arguments of ctypes' types."""
    replace: DriverCall
    """`cuTensorMapReplaceAddress`."""
    stream: Callable[[int], int]
    """Torch's current stream of a device, by its index."""
    current: Callable[[], int]
    """The index of the calling thread's current device."""

    def function(self, build: CudaBuild[HopperSpec[Any]], device: torch.device) -> int:
        """The kernel, loaded on that device."""

    def map(self, layout: hopper.Boxes, tensor: tensors.Tensor, data: Tensor, end: bool) -> bytes:
        """The tensor map of an input or output, or of its `end`.

        Raises MapError where the copy engine cannot move it.
        """

    def enter(self, device: torch.device) -> None:
        """Make the context of the device current in the calling thread."""


class Cuda:
    """The CUDA driver, its two calls of each launch without anything between them and the library."""

    def __init__(self) -> None:
        try:
            library = ctypes.CDLL("libcuda.so.1")
            self.launch: DriverCall = library.cuLaunchKernelEx
            self.replace: DriverCall = library.cuTensorMapReplaceAddress
        except (OSError, AttributeError) as error:
            raise ToolchainError(f"no CUDA driver that these kernels can use: {error}") from None
        current = torch.cuda.current_stream
        self.stream: Callable[[int], int] = getattr(  # what compiled code of torch and Triton's launcher call
            torch._C, "_cuda_getCurrentRawStream", lambda index: current(index).cuda_stream
        )
        self.current: Callable[[], int] = getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device)
        self._functions: dict[tuple[bytes, int | None], int] = {}

    def function(self, build: CudaBuild[HopperSpec[Any]], device: torch.device) -> int:
        """The kernel; its module stays loaded as long as the process."""
        key = build.cubin, device.index
        if key not in self._functions:
            with torch.cuda.device(device):
                self.enter(device)
                self._functions[key] = int(hopper.function(hopper.driver(), build))
        return self._functions[key]

    def map(self, layout: hopper.Boxes, tensor: tensors.Tensor, data: Tensor, end: bool) -> bytes:
        """The driver's own encoding."""
        return hopper.tensor_map(layout, tensor, data, end)

    def enter(self, device: torch.device) -> None:
        """Make the device's primary context current, which a thread's first use of torch's runtime does."""
        driver = hopper.driver()
        _, handle = driver.cuDeviceGet(device.index)
        _, context = driver.cuDevicePrimaryCtxRetain(handle)
        driver.cuCtxSetCurrent(context)


_simulated: Driver | None = None
forgotten: list[Callable[[], None]] = []
"""Functions that forget prepared launches, called when another driver takes over."""


@cache
def _cuda() -> Driver:
    return Cuda()


def takes(device: torch.device) -> bool:
    """Return True if tensors of that device are launched on."""
    return device.type == "cuda" or _simulated is not None


@contextmanager
def simulated(driver: Driver) -> Iterator[None]:
    """Within it, CPU tensors are launched on through `driver`: what a launch costs and passes, without a GPU."""
    global _simulated
    before, _simulated = _simulated, driver
    for forget in forgotten:
        forget()
    try:
        yield
    finally:
        _simulated = before
        for forget in forgotten:
            forget()


_Names: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Made:
    """An output: how it is allocated, and which input it begins as a copy of, if it is read, too."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    start: float | None  # of all elements, where stores combine values with them
    copied: int | None

    def allocate(self, given: Sequence[Tensor], device: torch.device) -> Tensor:
        """Memory for it."""
        if self.copied is not None:
            return given[self.copied].detach().clone(memory_format=torch.contiguous_format)
        made = torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device=device)
        return self.begin(made, given)

    def begin(self, made: Tensor, given: Sequence[Tensor]) -> Tensor:
        """The output in memory that is there, with the numbers that a launch begins with."""
        if self.copied is not None:
            return made.copy_(given[self.copied].detach())
        return made if self.start is None else made.fill_(self.start)

    def of(self, shape: Sequence[int]) -> Made:
        """The same numbers in another shape."""
        return replace(self, shape=tuple(shape), strides=_contiguous(shape))


@dataclass(frozen=True, slots=True)
class Slot:
    """Position in the argument of a tensor's address, the `at`th input or output, and of its tensor map, if any.

    No bit of `mask` may be set in the address. The map begins `before` bytes in front of it.
    """

    at: int
    word: int
    mask: int
    map: int | None
    before: int = 0


class LaunchAttribute(ctypes.Structure):
    """`CUlaunchAttribute` (cuda.h)."""

    _fields_ = (("id", ctypes.c_int), ("padding", ctypes.c_int), ("value", ctypes.c_uint64 * 8))


class LaunchConfig(ctypes.Structure):
    """`CUlaunchConfig` (cuda.h)."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(LaunchAttribute)), ("count", ctypes.c_uint),
    )  # fmt: skip


EARLY = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION (cuda.h)


class Held:
    """The argument of one call at a time, and what the driver is called with.

    A kernel that is launched `early` begins while the one before it ends.
    """

    def __init__(
        self, argument: bytes, function: int, blocks: int, threads: int, shared: int, early: bool = False
    ) -> None:
        room = ctypes.create_string_buffer(len(argument) + MAP_ALIGNMENT)
        skipped = -ctypes.addressof(room) % MAP_ALIGNMENT
        whole = memoryview(room).cast("B")[skipped : skipped + len(argument)]
        whole[:] = argument
        self.address = ctypes.addressof(room) + skipped
        self.words, self.floats = whole.cast("Q"), whole.cast("f")
        self.pointers = (ctypes.c_void_p * 1)(self.address)
        attribute = LaunchAttribute(EARLY, 0, (1,))
        self.config = LaunchConfig(
            (blocks, 1, 1), (threads, 1, 1), shared, None, ctypes.pointer(attribute), int(early)
        )  # fmt: skip
        pointer = ctypes.c_void_p
        self.called = (
            pointer(ctypes.addressof(self.config)), pointer(function), pointer(ctypes.addressof(self.pointers)),
            pointer(0),
        )  # fmt: skip


@dataclass(slots=True)
class Prepared:
    """A kernel for tensors of one signature: called with its inputs and scalars, it returns its outputs."""

    name: str
    driver: Driver
    device: torch.device
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    made: tuple[Made, ...]
    copied: tuple[int, ...]  # the inputs that the kernel cannot take as they lie
    scalars: int  # where they begin, in words of 4 bytes
    fresh: Callable[[], Held]
    free: list[Held] = field(default_factory=list)

    def __call__(
        self, given: Sequence[Tensor], scalars: Sequence[float], into: Sequence[Tensor] = ()
    ) -> tuple[Tensor, ...]:
        """Launch the kernel on torch's current stream; outputs are the tensors of `into`, if there are some.

        Raises:
            ToolchainError: the driver refuses the launch.
        """
        device, driver = self.device, self.driver
        index = device.index
        if index is not None and driver.current() != index:
            with torch.cuda.device(device):
                return self(given, scalars, into)
        if into:
            outputs = [made.begin(output, given) for made, output in zip(self.made, into, strict=True)]
        else:
            outputs = [made.allocate(given, device) for made in self.made]
        self.start(given, outputs, scalars)
        return tuple(outputs)

    def start(self, given: Sequence[Tensor], outputs: Sequence[Tensor], scalars: Sequence[float]) -> None:
        """Launch the kernel with these outputs. Raises ToolchainError as a call."""
        device, driver = self.device, self.driver
        index = device.index
        if self.copied:
            given = [t.contiguous() if n in self.copied else t for n, t in enumerate(given)]
        try:
            held = self.free.pop()
        except IndexError:
            held = self.fresh()
        words = held.words
        kept = []  # copies, until the launch is in the stream: memory that is freed then is reused after it
        for slots, found in ((self.inputs, given), (self.outputs, outputs)):
            for slot in slots:
                address = found[slot.at].data_ptr()
                if address & slot.mask:
                    kept.append(_aligned(found[slot.at]))
                    address = kept[-1].data_ptr()
                if words[slot.word] != address:
                    words[slot.word] = address
                    if slot.map is not None:
                        moved = ctypes.c_void_p(address - slot.before)
                        driver.replace(ctypes.c_void_p(held.address + slot.map), moved)
        if scalars:
            floats = held.floats
            for place, value in enumerate(scalars, self.scalars):
                floats[place] = value
        held.config.stream = driver.stream(index or 0)
        status = driver.launch(*held.called)
        if status == NO_CONTEXT:
            driver.enter(device)
            status = driver.launch(*held.called)
        self.free.append(held)
        if status:
            raise ToolchainError(f"launching {self.name}: error {status} of the CUDA driver")


@dataclass(slots=True)
class InOrder:
    """Several kernels for tensors of one signature: called with all inputs and scalars, it returns the outputs.

    What is between the kernels is memory of each call, as the outputs are.
    """

    device: torch.device
    names: tuple[str, ...]  # of the inputs
    made: Mapping[str, Made]  # all that is written
    scalars: tuple[str, ...]
    kernels: tuple[tuple[Prepared, _Names, _Names, tuple[tuple[str, float], ...], _Names], ...]
    outputs: tuple[str, ...]

    def __call__(
        self, given: Sequence[Tensor], scalars: Sequence[float], into: Sequence[Tensor] = ()
    ) -> tuple[Tensor, ...]:
        """Launch the kernels on torch's current stream. Raises ToolchainError as `Prepared`."""
        memory = dict(zip(self.names, given, strict=True))
        there = dict(zip(self.outputs, into, strict=True)) if into else {}
        memory |= {
            name: made.begin(there[name], given) if name in there else made.allocate(given, self.device)
            for name, made in self.made.items()
        }
        values = dict(zip(self.scalars, scalars, strict=True))
        with torch.cuda.device(self.device) if self.device.type == "cuda" else nullcontext():
            for prepared, inputs, outputs, starts, named in self.kernels:
                for name, start in starts:
                    memory[name].fill_(start)
                prepared.start([memory[n] for n in inputs], [memory[n] for n in outputs], [values[n] for n in named])
        return tuple(memory[name] for name in self.outputs)


def prepare(build: Build, launch: Sizing, given: Mapping[str, Tensor]) -> Prepared | InOrder:
    """The launch of `build` for inputs like these, by name, in the order in which it will be called with them.

    Raises:
        MapError: sizes for which the copy engine cannot move a tensor.
        ToolchainError: there is no driver, or it refuses the kernel.
    """
    (first, *others) = zip(build.kernels, launch.launches, strict=True)
    if not others and first[1] is launch:
        return _prepare(*first, given)
    device, places = next(iter(given.values())).device, {name: n for n, name in enumerate(given)}
    made = {t.name: _made(launch, t, places.get(t.name)) for t in launch.written}
    like = {name: torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=device) for name, t in given.items()}
    like |= {name: each.allocate(list(given.values()), device) for name, each in made.items()}
    kernels = []
    for kernel, one in zip(build.kernels, launch.launches, strict=True):
        program = one.program
        inputs = tuple(t.name for t in program.reads)
        found = _prepare(kernel, one, {name: like[name] for name in inputs})
        names = tuple(t.name for t in program.outputs), tuple(sorted(program.starts.items()))
        kernels.append((found, inputs, *names, tuple(s.name for s in program.scalars)))
    scalars = tuple(s.name for s in launch.program.scalars)
    outputs = tuple(t.name for t in launch.program.outputs)
    return InOrder(device, tuple(given), made, scalars, tuple(kernels), outputs)


def _prepare(build: CudaBuild[HopperSpec[Any]], launch: Launch[Any], given: Mapping[str, Tensor]) -> Prepared:
    """The launch of one kernel for inputs like these, by name, in the order in which it will be called with them.

    Raises:
        MapError: sizes for which the copy engine cannot move a tensor.
        ToolchainError: there is no driver, or it refuses the kernel.
    """
    driver, program = _simulated or _cuda(), launch.program
    spec = build.spec
    layout = spec.boxes
    moved = layout.moved if layout is not None else {}
    device, places = next(iter(given.values())).device, {name: n for n, name in enumerate(given)}
    like = {name: torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=device) for name, t in given.items()}
    strided = _strided(spec, like)
    copied = tuple(n for n, (name, t) in enumerate(given.items()) if name not in strided and not t.is_contiguous())
    like = {name: t if name in strided else t.contiguous() for name, t in like.items()}
    made = tuple(_made(launch, tensor, places.get(tensor.name)) for tensor in program.outputs)
    written = [each.allocate(list(like.values()), device) for each in made]
    named = like | {t.name: data for t, data in zip(program.outputs, written, strict=True)}
    maps = hopper.members(layout, program, named, driver.map)
    argument = hopper.argument(maps, named, [0.0] * len(program.scalars), spec.target.map_alignment)

    def slots(at: int, tensor: tensors.Tensor) -> Iterator[Slot]:
        is_moved = tensor.name in moved
        aligned = ACCESS_BYTES if is_moved else spec.aligned_bytes(tensor.name)
        before = hopper.described(layout, tensor, named[tensor.name]).before if layout and is_moved else 0
        for number, member in enumerate(maps):
            if member.tensor == tensor and not (layout and hopper.unread(layout, member, named[member.name])):
                begin = number * hopper.GLOBAL_BYTES
                word = (begin + hopper.MAP_BYTES) // WORD
                yield Slot(at, word, aligned - 1, begin if is_moved else None, before)

    called = driver.function(build, device), spec.blocks(launch), build.threads, build.dynamic_bytes, spec.beside.before
    outside = {t.name for t in program.outputs}
    return Prepared(
        spec.name, driver, device,
        tuple(slot for t in program.reads if t.name not in outside for slot in slots(places[t.name], t)),
        tuple(slot for n, t in enumerate(program.outputs) for slot in slots(n, t)),
        made, copied, len(maps) * hopper.GLOBAL_BYTES // 4,
        lambda: Held(argument, *called),
    )  # fmt: skip


def _strided(spec: HopperSpec[Any], given: Mapping[str, Tensor]) -> frozenset[str]:
    """The inputs whose strides the copy engine takes, whatever they are, and that nothing else reads."""
    layout, found = spec.boxes, set[str]()
    if layout is None:
        return frozenset()
    for name, access in layout.moved.items():
        if (
            name in given
            and name not in spec.single
            and not hopper.described(layout, access.tensor, given[name]).problems
        ):
            found.add(name)
    return frozenset(found)


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple([math.prod(shape[n + 1 :]) for n in range(len(shape))])


def _aligned(tensor: Tensor) -> Tensor:
    """A copy with the same strides."""
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def _made(launch: Sizing, tensor: tensors.Tensor, copied: int | None) -> Made:
    shape = launch.shape(tensor)
    start = launch.program.starts.get(tensor.name) if copied is None else None
    return Made(tuple(shape), _contiguous(shape), TORCH[tensor.dtype], start, copied)
