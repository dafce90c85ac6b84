"""libamdhip64 called through ctypes: memory, code objects, launches and events of one GPU, without HIP's headers.

Names and constants are those of HIP's public headers (`hip/hip_runtime_api.h`, `hip/driver_types.h`). The same calls
reach the stand-in of `tkgen.emulate.runtime`.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tkgen.toolchain.hip import rocm_roots

Dim = tuple[int, int, int]
Bytes = npt.NDArray[np.uint8]

_HIP: Final = re.compile(r"^hip\b[^=]*=\s*['\"]\d", re.MULTILINE)
LIBRARY: Final = "libamdhip64.so"
_VERSIONS: Final = ("", ".7", ".6", ".5")
_TO_DEVICE, _TO_HOST = 1, 2  # hipMemcpyKind
_BUFFER, _SIZE, _END = 1, 2, 3  # HIP_LAUNCH_PARAM_*
_CLOCK, _MEMORY_CLOCK, _BUS_BITS, _L2_BYTES, _UNITS = 5, 60, 59, 19, 63  # hipDeviceAttribute_t
_WALL_CLOCK = 10017
_USUAL_TICKS_KHZ = 100_000  # of s_memrealtime, where HIP does not say
STAND_IN: Final = b"tkgen-emulator-0"
"""The identifier (hipDeviceGetUuid) of the stand-in's GPU."""

ROCM_INSTALL: Final = "install ROCm 6 or later: https://rocm.docs.amd.com (package `rocm-hip-runtime`)"
DRIVER_INSTALL: Final = (
    "the amdgpu driver must be loaded (`rocminfo` lists the GPU), and the user must be in the groups `render` and "
    "`video`"
)


class HipError(Exception):
    """A call of HIP failed, or there is no HIP to call; `install` says how to get what is missing."""

    def __init__(self, message: str, install: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.install = install


@dataclass(frozen=True)
class HipDevice:
    """The GPU: marketing name, target (gfx942), and what HIP says of it. Clocks in MHz, sizes in bytes."""

    name: str
    target: str
    compute_units: int
    memory_bytes: int
    clock_mhz: float
    memory_clock_mhz: float
    bus_bits: int
    l2_bytes: int
    ticks_mhz: float  # of s_memrealtime
    runtime: str
    stand_in: bool


class HipMemory:
    """An allocation of device memory; freed with the object."""

    def __init__(self, hip: Hip, size: int) -> None:
        self.size = size
        self._hip, pointer = hip, ctypes.c_void_p()
        hip.call("hipMalloc", ctypes.byref(pointer), ctypes.c_size_t(max(size, 1)))
        self.address = pointer.value or 0

    def write(self, data: Bytes) -> None:
        """Copy bytes to its beginning."""
        if data.nbytes:
            source = np.ascontiguousarray(data)
            at = ctypes.c_void_p(source.ctypes.data)
            self._hip.call("hipMemcpy", ctypes.c_void_p(self.address), at, ctypes.c_size_t(source.nbytes), _TO_DEVICE)

    def read(self) -> Bytes:
        """All of its bytes."""
        found = np.empty(self.size, np.uint8)
        if self.size:
            at = ctypes.c_void_p(found.ctypes.data)
            self._hip.call("hipMemcpy", at, ctypes.c_void_p(self.address), ctypes.c_size_t(self.size), _TO_HOST)
        return found

    def fill(self, byte: int) -> None:
        """Set every byte."""
        self._hip.call("hipMemset", ctypes.c_void_p(self.address), byte, ctypes.c_size_t(self.size))

    def free(self) -> None:
        """Give it back; it must not be used afterwards."""
        if self.address:
            self._hip.library.hipFree(ctypes.c_void_p(self.address))
            self.address = 0

    def __del__(self) -> None:
        self.free()


class HipFunction:
    """A kernel of a loaded code object."""

    def __init__(self, hip: Hip, hsaco: bytes, name: str) -> None:
        self._hip, self.name = hip, name
        module, self.handle = ctypes.c_void_p(), ctypes.c_void_p()
        hip.call("hipModuleLoadData", ctypes.byref(module), ctypes.c_char_p(hsaco))
        hip.call("hipModuleGetFunction", ctypes.byref(self.handle), module, ctypes.c_char_p(name.encode()))

    def launch(self, grid: Dim, block: Dim, arguments: bytes, stream: int = 0) -> None:
        """Start it on blocks of threads with its explicit arguments, laid out as the code object says."""
        given = ctypes.create_string_buffer(arguments, max(len(arguments), 1))
        size = ctypes.c_size_t(len(arguments))
        extra = (ctypes.c_void_p * 5)(_BUFFER, ctypes.addressof(given), _SIZE, ctypes.addressof(size), _END)
        extents = [ctypes.c_uint(n) for n in (*grid, *block)]
        no_lds, no_list = ctypes.c_uint(0), ctypes.c_void_p()
        self._hip.call(
            "hipModuleLaunchKernel", self.handle, *extents, no_lds, ctypes.c_void_p(stream), no_list, extra
        )  # fmt: skip


class Hip:
    """The library and its first GPU.

    Raises:
        HipError: there is no library or no GPU, with what to install.
    """

    def __init__(self) -> None:
        self.library = _loaded()
        count = ctypes.c_int()
        status = self.library.hipGetDeviceCount(ctypes.byref(count))
        if status or not count.value:
            raise HipError(f"libamdhip64 is here, but finds no AMD GPU ({self.error(status)})", DRIVER_INSTALL)
        self.device = self._device()

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function. Raises HipError where its status is not success."""
        status = getattr(self.library, name)(*arguments)
        if status:
            raise HipError(f"{name} failed: {self.error(status)}")

    def error(self, status: int) -> str:
        """HIP's name of an error."""
        named = self.library.hipGetErrorName
        named.restype = ctypes.c_char_p
        return (named(status) or b"").decode() or f"status {status}"

    def allocate(self, data: Bytes | int) -> HipMemory:
        """HipDevice memory with these bytes, or of a size, with any contents."""
        if isinstance(data, int):
            return HipMemory(self, data)
        made = HipMemory(self, data.nbytes)
        made.write(data.reshape(-1).view(np.uint8))
        return made

    def function(self, hsaco: bytes, name: str) -> HipFunction:
        """A kernel of a code object, loaded."""
        return HipFunction(self, hsaco, name)

    def synchronize(self) -> None:
        """Wait for everything that was started. Raises HipError where some of it failed."""
        self.call("hipDeviceSynchronize")

    @contextmanager
    def timed(self, stream: int = 0) -> Iterator[list[float]]:
        """Yield a list that has the seconds between both ends of the block afterwards, by events."""
        begin, end = ctypes.c_void_p(), ctypes.c_void_p()
        found: list[float] = []
        for event in (begin, end):
            self.call("hipEventCreate", ctypes.byref(event))
        try:
            self.call("hipEventRecord", begin, ctypes.c_void_p(stream))
            yield found
            self.call("hipEventRecord", end, ctypes.c_void_p(stream))
            self.call("hipEventSynchronize", end)
            milliseconds = ctypes.c_float()
            self.call("hipEventElapsedTime", ctypes.byref(milliseconds), begin, end)
            found.append(milliseconds.value / 1e3)
        finally:
            for event in (begin, end):
                self.library.hipEventDestroy(event)

    def _attribute(self, number: int) -> int:
        value = ctypes.c_int()
        status = self.library.hipDeviceGetAttribute(ctypes.byref(value), number, 0)
        return 0 if status else value.value

    def _device(self) -> HipDevice:
        name, total = ctypes.create_string_buffer(256), ctypes.c_size_t()
        self.call("hipDeviceGetName", name, 256, 0)
        self.call("hipDeviceTotalMem", ctypes.byref(total), 0)
        ticks = self._attribute(_WALL_CLOCK)
        version, identifier = ctypes.c_int(), ctypes.create_string_buffer(16)
        self.call("hipRuntimeGetVersion", ctypes.byref(version))
        same = not self.library.hipDeviceGetUuid(identifier, 0) and identifier.raw == STAND_IN
        return HipDevice(
            name=name.value.decode(errors="replace").strip(),
            target=self._target(),
            compute_units=self._attribute(_UNITS),
            memory_bytes=total.value,
            clock_mhz=self._attribute(_CLOCK) / 1e3,
            memory_clock_mhz=self._attribute(_MEMORY_CLOCK) / 1e3,
            bus_bits=self._attribute(_BUS_BITS),
            l2_bytes=self._attribute(_L2_BYTES),
            ticks_mhz=(ticks if ticks > 1000 else _USUAL_TICKS_KHZ) / 1e3,
            runtime=f"{version.value // 10_000_000}.{version.value // 100_000 % 100}",
            stand_in=same,
        )

    def _target(self) -> str:
        """The target's name, found in the properties by its form: where it is differs between versions of HIP."""
        properties = ctypes.create_string_buffer(1 << 14)
        name = "hipGetDevicePropertiesR0600"
        self.call(name if hasattr(self.library, name) else "hipGetDeviceProperties", properties, 0)
        found = re.search(rb"gfx[0-9a-f]{3,5}", properties.raw)
        if found is None:
            raise HipError("HIP does not say which GPU this is (no gcnArchName in its properties)")
        return found[0].decode()


def _loaded() -> ctypes.CDLL:
    """The library: the one that torch has loaded, so that both see the same memory, else the first that there is."""
    roots = [Path(os.environ[name]) for name in ("ROCM_PATH", "HIP_PATH") if os.environ.get(name)]
    names = [*torch_library(), *(LIBRARY + version for version in _VERSIONS)]
    names += [str(root / "lib" / LIBRARY) for root in (*roots, *rocm_roots(Path("/")))]
    return _first(names)


def _first(names: Sequence[str]) -> ctypes.CDLL:
    """The first library of these names that there is. Raises HipError if there is none."""
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise HipError("no ROCm here: libamdhip64 was not found", ROCM_INSTALL)


def torch_library() -> list[str]:
    """The libamdhip64 that a ROCm build of torch has loaded; none where torch has no ROCm."""
    if rocm_torch() is None:
        return []
    mapped = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    return re.findall(r"\S*/libamdhip64\S*", mapped)[:1]


def rocm_torch() -> Any | None:
    """The module torch, where it is a ROCm build that has a GPU; None elsewhere."""
    found = importlib.util.find_spec("torch")
    versions = Path(found.origin).with_name("version.py") if found and found.origin else None
    if versions is None or not versions.is_file() or not _HIP.search(versions.read_text(encoding="utf-8")):
        return None  # known without importing it, which takes seconds
    import torch

    return torch if torch.version.hip and torch.cuda.is_available() else None
