"""One program that runs on the emulated GPU: the messages of `runtime/`, tkgen's libamdhip64.

The program and this process share the GPU's memory, a sparse file that the program made: a pointer of the program means
the same to its kernels. Messages are a number, a size and little-endian values without gaps (`Message` in
`runtime/runtime.h`).
"""

from __future__ import annotations

import mmap
import os
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from tkgen.emulate import bundle
from tkgen.emulate.arguments import Arg, Buffer, Bytes
from tkgen.emulate.code_object import BROKEN, CodeObject, Kernel, load
from tkgen.emulate.decode import TARGETS
from tkgen.emulate.errors import EmulateError
from tkgen.emulate.guest import Dim, Resident
from tkgen.targets import load_target
from tkgen.targets.model import round_up
from tkgen.toolchain.metadata import read_resources

_HELLO, _LOAD, _LAUNCH, _OCCUPANCY = range(1, 5)
_INVALID_IMAGE, _NO_BINARY = 200, 209  # hipError_t
_IMAGES: Final = 1 << 36  # bytes at the end of the shared memory, for code objects (IMAGE_BYTES in runtime.h)
_IMAGE_GAP: Final = 1 << 20


class Kind(IntEnum):
    """Kinds of memory (`Kind` in runtime.h)."""

    DEVICE = 0
    HOST = 1
    MANAGED = 2
    REGISTERED = 3
    IMAGE = 4


@dataclass(frozen=True)
class Allocation:
    """Memory that kernels can access: its address, its offset in the shared file, and its number."""

    base: int
    size: int
    offset: int
    kind: Kind
    number: int

    @property
    def name(self) -> str:
        """Its name in findings where no argument of the kernel points to it."""
        made = {Kind.DEVICE: "device memory", Kind.HOST: "host memory", Kind.MANAGED: "managed memory"}
        return f"{made.get(self.kind, 'registered memory')} {self.number}"


@dataclass(frozen=True)
class Module:
    """A code object and its image in the shared memory."""

    code: CodeObject
    image: npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Launch:
    """A launch that the program asks for."""

    module: Module
    kernel: Kernel
    grid: Dim
    block: Dim
    lds_bytes: int
    arguments: bytes
    memory: tuple[Allocation, ...]
    cooperative: bool
    shared: Shared

    def args(self) -> list[Arg]:
        """The arguments, each as the bytes that it has."""
        explicit = self.kernel.explicit_arguments
        return [Bytes(self.arguments[a.offset : a.offset + a.size]) for a in explicit]

    def blocks_per_cu(self) -> int:
        """Blocks of the launch that one CU holds."""
        return blocks_per_cu(self.module, self.kernel, self.block[0] * self.block[1] * self.block[2], self.lds_bytes)

    def resident(self) -> Resident:
        """The memory as it is now, named after the arguments that point to it."""
        names: dict[int, str] = {}
        for argument in self.kernel.explicit_arguments:
            if argument.size == 8:
                (value,) = struct.unpack_from("<Q", self.arguments, argument.offset)
                found = next((a for a in self.memory if 0 <= value - a.base < a.size), None)
                if found is not None and not argument.name.startswith("#"):
                    names.setdefault(found.number, argument.name.removesuffix(".coerce"))
        buffers = [
            (a.base, Buffer(self.shared.part(a.offset, a.size), names.get(a.number, a.name)))
            for a in self.memory
            if a.kind is not Kind.IMAGE
        ]
        return Resident(buffers, self.module.image)


@dataclass(frozen=True)
class Result:
    """The text that a launch printed, and why the program must end, if it must; its predicted time, if there is one."""

    printed: str = ""
    stopped: str = ""
    seconds: float | None = None


Launcher = Callable[[Launch], Result]


class Shared:
    """The memory that the program shares."""

    def __init__(self, file: int, base: int, size: int):
        self.file, self.base = file, base
        self.map = mmap.mmap(file, size)
        self.all = np.frombuffer(self.map, dtype=np.uint8)

    def part(self, offset: int, size: int) -> npt.NDArray[np.uint8]:
        """A part of it, in place."""
        return self.all[offset : offset + size]

    def written(self, offset: int, size: int) -> list[tuple[int, bytes]]:
        """The parts that were ever written, with their places: the others are zeros and take no memory."""
        found, at, end = [], offset, offset + size
        while at < end:
            try:
                begin = os.lseek(self.file, at, os.SEEK_DATA)
            except OSError:
                break  # nothing behind
            stop = min(os.lseek(self.file, begin, os.SEEK_HOLE), end)
            if begin >= end:
                break
            found.append((begin, self.all[begin:stop].tobytes()))
            at = stop
        return found


class Reader:
    """Values of a message, one after the other."""

    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def get(self, layout: str) -> tuple[int, ...]:
        """As `struct` has them."""
        values = struct.unpack_from(f"<{layout}", self.data, self.at)
        self.at += struct.calcsize(f"<{layout}")
        return values

    def one(self, layout: str) -> int:
        """A single one."""
        return self.get(layout)[0]

    def bytes(self) -> bytes:
        """Bytes, after their number."""
        size = self.one("Q")
        self.at += size
        return self.data[self.at - size : self.at]


def _text(text: str | bytes) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data)) + data


@dataclass
class Session:
    """Serves one process of the program over its socket until that closes.

    `target` is the GPU; None for the one that the first code object is compiled for. `launch` runs kernels.
    """

    connection: socket.socket
    target: str | None
    launch: Launcher
    modules: list[Module] = field(default_factory=list)

    def serve(self) -> None:
        """Until the program ends."""
        _, files, _, _ = socket.recv_fds(self.connection, 1, 1)
        if not files:
            return
        while header := self._receive(16):
            what, _, size = struct.unpack("<IIQ", header)
            body = self._receive(size)
            if len(body) != size:
                return
            status, answer = self._answer(what, Reader(body), files[0])
            try:
                self.connection.sendall(struct.pack("<iIQ", status, 0, len(answer)) + answer)
            except ConnectionError:
                return  # the program was killed

    def _receive(self, size: int) -> bytes:
        """`size` bytes, fewer where the program has ended."""
        data = bytearray()
        while len(data) < size:
            try:
                part = self.connection.recv(min(size - len(data), 1 << 20))
            except ConnectionError:
                break
            if not part:
                break
            data += part
        return bytes(data)

    def _answer(self, what: int, message: Reader, file: int) -> tuple[int, bytes]:
        match what:
            case _ if what == _HELLO:
                base, size = message.get("QQ")
                self.shared = Shared(file, base, size)
                self.image_at = base + size - _IMAGES
                return 0, self._device(message.bytes())
            case _ if what == _LOAD:
                return self._load(message.bytes())
            case _ if what == _LAUNCH:
                result = self._launch(message)
                seconds = -1.0 if result.seconds is None else result.seconds
                return int(bool(result.stopped)), _text(result.printed) + _text(result.stopped) + struct.pack(
                    "<d", seconds
                )
            case _ if what == _OCCUPANCY:
                return 0, struct.pack("<i", self._occupancy(message))
        raise AssertionError(f"message {what}")

    # ------------------------------------------------------------ what is asked

    def _device(self, first: bytes) -> bytes:
        """The GPU, as `Device` of runtime.h has it; `first` is the first code that the program has, or nothing."""
        if self.target is None:
            self.target = chosen_target(first)
        target = load_target(self.target)
        product = target.product
        memory_clock = product.hbm_tbps * 1e12 * 8 / product.hbm_bits / 2 / 1e3  # double data rate
        return (
            _text(f"AMD Instinct {product.name}")
            + _text(target.name)
            + struct.pack(
                "<12Q",
                product.hbm_bytes,
                product.compute_units,
                product.clock_mhz * 1000,
                product.hbm_bits,
                int(memory_clock),
                target.lds_bytes_per_cu,
                target.lds_bytes_per_block,
                target.l2_bytes_per_xcd,
                target.registers_per_lane * target.wave_size * target.simds_per_cu,
                target.max_waves_per_simd * target.simds_per_cu,
                target.max_threads_per_block,
                target.wave_size,
            )
        )

    def _load(self, data: bytes) -> tuple[int, bytes]:
        try:
            code = load(data, target=self.target, base=self.image_at)
        except EmulateError as error:
            return _NO_BINARY if "has no code for" in str(error) else _INVALID_IMAGE, _text(str(error))
        if code.target != self.target:
            return _NO_BINARY, _text(f"the code object is for {code.target}; the GPU is {self.target}")
        image = self.shared.part(self.image_at - self.shared.base, len(code.image))
        image[:] = np.frombuffer(code.image, np.uint8)
        self.modules.append(Module(code, image))
        out = struct.pack("<IQQ", len(self.modules) - 1, code.base, len(code.image))
        self.image_at = round_up(self.image_at + len(code.image), _IMAGE_GAP) + _IMAGE_GAP
        out += struct.pack("<I", len(code.kernels))
        for kernel in code.kernels:
            explicit, d = kernel.explicit_arguments, kernel.descriptor
            out += _text(kernel.name) + struct.pack("<QI", kernel.kernarg_bytes, len(explicit))
            out += b"".join(struct.pack("<II", a.offset, a.size) for a in explicit)
            registers = int(kernel.metadata.get(".vgpr_count", 0))
            out += struct.pack("<4Q", d.group_bytes, d.private_bytes, registers, kernel.most_threads)
        out += struct.pack("<I", len(code.variables))
        for variable, place in code.variables.items():
            out += _text(variable) + struct.pack("<QQ", code.base + place.start, len(place))
        return 0, out

    def _launch(self, message: Reader) -> Result:
        number, kernel, cooperative, *extents = message.get("9I")
        lds, arguments = message.one("Q"), message.bytes()
        memory = []
        for _ in range(message.one("I")):
            base, size, offset, kind, count = message.get("QQQII")
            memory.append(Allocation(base, size, offset, Kind(kind), count))
        module = self.modules[number]
        x, y, z, *block = extents
        launch = Launch(
            module,
            module.code.kernels[kernel],
            (x, y, z),
            (block[0], block[1], block[2]),
            lds,
            arguments,
            tuple(memory),
            bool(cooperative),
            self.shared,
        )
        try:
            return self.launch(launch)
        except EmulateError as error:
            return Result(stopped=f"{launch.kernel.name}: {error}")

    def _occupancy(self, message: Reader) -> int:
        """Blocks of a kernel that one CU holds."""
        number, which = message.get("II")
        threads, lds = message.get("QQ")
        module = self.modules[number]
        return blocks_per_cu(module, module.code.kernels[which], threads, lds)


def blocks_per_cu(module: Module, kernel: Kernel, threads: int, lds_bytes: int) -> int:
    """Blocks of so many threads, with so much dynamic LDS, that one CU holds."""
    target, resources = load_target(module.code.target), read_resources(module.code.elf)[kernel.name]
    waves = round_up(threads, target.wave_size) // target.wave_size
    lds = kernel.descriptor.group_bytes + lds_bytes
    return target.occupancy(resources.vgpr, lds, waves, resources.agpr).blocks_per_cu


def chosen_target(data: bytes) -> str:
    """The GPU to emulate for a program whose first code this is: gfx942 where it has that, else what it has."""
    try:
        known = bundle.targets(data, "the program's code")
    except (EmulateError, *BROKEN):
        known = []
    usable = [gpu for gpu in known if gpu in TARGETS]
    return "gfx942" if "gfx942" in usable or not usable else usable[0]
