"""The state in which a kernel starts: guest memory, kernel arguments, user registers; and the core's launch record."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from tkgen.emulate import native
from tkgen.emulate.algebra import number_format
from tkgen.emulate.arguments import Arg, Buffer, Geometry, Hollow, Layout, buffers, kernarg
from tkgen.emulate.code_object import CodeObject, Kernel
from tkgen.emulate.decode import ARCHITECTURES
from tkgen.emulate.errors import EmulateError
from tkgen.emulate.hostcall import Host
from tkgen.targets import load_target

Dim = tuple[int, int, int]

# Guest addresses. The code object stands at its base; the apertures are as large as the hardware's, at addresses that
# no buffer has; buffers are apart by a guard gap, so that running past one never lands in the next.
_SHARED_BASE: Final = 1 << 48
_PRIVATE_BASE: Final = 2 << 48
_SCRATCH_BASE: Final = 0x6000_0000_0000
_KERNARG_BASE: Final = 0x5000_0000_0000
_DISPATCH_BASE: Final = 0x5800_0000_0000
_BUFFER_BASE: Final = 0x1000_0000_0000
_HOSTCALL_BASE: Final = 0x5C00_0000_0000
_GRID_BASE: Final = 0x5E00_0000_0000
_GUARD: Final = 1 << 20
_DYNAMIC_STACK: Final = 16384
_MAX_SCRATCH: Final = 1 << 27  # bytes per block
PRINTED: Final = "tkgen_printed"  # the variable in which kernels leave what they print


@dataclass(frozen=True)
class Region:
    """Host memory at a guest address; `buffer` is the caller's, or None for the code object and the arguments."""

    base: int
    data: npt.NDArray[np.uint8]
    writable: bool
    buffer: Buffer | None = None

    @property
    def hollow(self) -> bool:
        """Return True if it has addresses and no contents."""
        return self.buffer is not None and isinstance(self.buffer.data, Hollow)


@dataclass(frozen=True)
class Resident:
    """Memory that outlives a launch: buffers at their addresses, and the image of the code object, at its base."""

    buffers: Sequence[tuple[int, Buffer]]
    image: npt.NDArray[np.uint8]


@lru_cache
def _encoded(names: tuple[str, ...]) -> ctypes.Array[ctypes.c_char_p]:
    """Mnemonics for the core: those of a target are the same for each code object."""
    return (ctypes.c_char_p * len(names))(*(name.encode() for name in names))


class Guest:
    """One launch, prepared; keeps what its record points to alive."""

    def __init__(
        self,
        code: CodeObject,
        kernel: Kernel,
        args: Sequence[Arg],
        grid: Dim,
        block: Dim,
        dynamic_lds: int,
        resident: Resident | None = None,
        cooperative: bool = False,
    ):
        self.code, self.kernel = code, kernel
        self.resident = resident or Resident((), np.frombuffer(code.image, dtype=np.uint8).copy())
        self.program = code.program
        self._check(grid, block, dynamic_lds)
        self.record = native.Launch()
        self.regions: list[Region] = []
        self.names = _encoded(tuple(self.program.names))
        self.scratch = self._scratch(block)
        calls = any(argument.kind == "hidden_hostcall_buffer" for argument in kernel.arguments)
        self.host = Host(_HOSTCALL_BASE) if calls else None
        hostcall = _HOSTCALL_BASE if self.host is not None else 0
        if cooperative:
            self.regions.append(Region(_GRID_BASE, np.frombuffer(_grid_information(grid), dtype=np.uint8), True))
        at = _GRID_BASE if cooperative else 0
        self._place(args, Geometry(grid, block, dynamic_lds, _SHARED_BASE, _PRIVATE_BASE, hostcall, at))
        self._fill(grid, block, dynamic_lds)

    def _check(self, grid: Dim, block: Dim, dynamic_lds: int) -> None:
        threads = block[0] * block[1] * block[2]
        limit = self.kernel.most_threads
        if any(n < 1 for n in (*grid, *block)) or any(n >= 1 << 31 for n in grid):
            raise EmulateError(f"grid {grid} and block {block} must be positive")
        if threads > min(limit, 1024):
            raise EmulateError(f"{self.kernel.name} is compiled for at most {limit} threads per block, not {threads}")
        if dynamic_lds < 0:
            raise EmulateError("lds_bytes must not be negative")
        lds = self.kernel.descriptor.group_bytes + dynamic_lds
        most = load_target(self.code.target).lds_bytes_per_block
        if lds > most:
            raise EmulateError(f"{lds} bytes of LDS, but {self.code.target} has {most} per block")
        if self.kernel.descriptor.properties & 1 << 10:
            raise EmulateError(f"{self.kernel.name} is compiled for waves of 32, which CDNA does not have")
        if self.kernel.descriptor.rsrc1 >> 12 & 15:
            raise EmulateError(f"{self.kernel.name} starts in a rounding mode other than to nearest even")
        entry = self.kernel.entry - self.code.text[0]
        if not 0 <= entry <= self.code.text[1] - 4 or entry % 4:
            raise EmulateError(f"the entry of {self.kernel.name} is outside of the code")

    def _scratch(self, block: Dim) -> int:
        size = self.kernel.descriptor.private_bytes
        if self.kernel.dynamic_stack:
            size += _DYNAMIC_STACK
        threads = (block[0] * block[1] * block[2] + 63) // 64 * 64
        if size * threads > _MAX_SCRATCH:
            raise EmulateError(
                f"{self.kernel.name} wants {size} bytes of scratch per lane; the emulator gives a block "
                f"{_MAX_SCRATCH >> 20} MiB"
            )
        return (size + 15) // 16 * 16

    def _place(self, args: Sequence[Arg], geometry: Geometry) -> None:
        layout = Layout()
        at = _BUFFER_BASE
        for buffer in buffers(args):
            data = buffer.bytes()
            layout.placed.append((buffer, at))
            if len(data):
                self.regions.append(Region(at, data, buffer.writable, buffer))
            at += (len(data) + 2 * _GUARD - 1) // _GUARD * _GUARD
        for address, buffer in self.resident.buffers:
            self.regions.append(Region(address, buffer.bytes(), buffer.writable, buffer))
        arguments = kernarg(self.kernel, args, layout, geometry)
        # Aligned to 16 bytes, which code may read at once, behind the last argument, too (AMDGPULowerKernelArguments).
        self.arguments = np.frombuffer(arguments + bytes(-len(arguments) % 16), dtype=np.uint8)
        if len(self.arguments):
            self.regions.append(Region(_KERNARG_BASE, self.arguments, False))
        packet = np.frombuffer(self._dispatch_packet(geometry), dtype=np.uint8)
        self.regions.append(Region(_DISPATCH_BASE, packet, False))
        if self.host is not None:
            self.regions.append(Region(_HOSTCALL_BASE, self.host.memory, True))
        for address, size, writable in self.code.segments:
            data = self.resident.image[address : address + size]
            self.regions.append(Region(self.code.base + address, data, writable))
        self.regions.sort(key=lambda r: r.base)

    def _dispatch_packet(self, g: Geometry) -> bytes:
        """hsa_kernel_dispatch_packet_t."""
        threads = [g.grid[i] * g.block[i] & 0xFFFF_FFFF for i in range(3)]
        return struct.pack(
            "<HHHHHHIIIIIQQQQ",
            0,
            3,
            *g.block,
            0,
            *threads,
            self.kernel.descriptor.private_bytes,
            self.kernel.descriptor.group_bytes + g.dynamic_lds,
            self.code.base,
            _KERNARG_BASE,
            0,
            0,
        )

    def _fill(self, grid: Dim, block: Dim, dynamic_lds: int) -> None:
        r, d = self.record, self.kernel.descriptor
        ops = self.program.ops
        r.ops, r.op_count = ops.ctypes.data_as(ctypes.POINTER(native.Op)), len(ops)
        r.text_base = self.code.base + self.code.text[0]
        # A kernel with preloaded arguments has a 256-byte prologue for firmware that cannot preload.
        r.entry = (self.kernel.entry - self.code.text[0] + (256 if d.preload_length else 0)) // 4
        r.names, r.name_count = self.names, len(self.program.names)
        self.region_table = (native.Region * len(self.regions))()
        for i, region in enumerate(self.regions):
            data = region.data
            host = None if region.hollow else data.ctypes.data
            self.region_table[i] = native.Region(region.base, len(data), host, int(region.writable), i)
            if region.buffer is not None and region.buffer.payload is not None:
                row, payload = self.region_table[i], region.buffer.payload
                row.format, row.payload, row.elements = number_format(region.buffer), payload.ctypes.data, len(payload)
        r.dataless = int(any(region.hollow for region in self.regions))
        r.regions, r.region_count = self.region_table, len(self.regions)
        r.shared_base, r.private_base = _SHARED_BASE, _PRIVATE_BASE
        if (printed := self.code.variable(PRINTED)) is not None:
            r.printed_base, r.printed_bytes = self.code.base + printed.start, len(printed)
        if self.host is not None:
            r.host_base, r.host_bytes, r.interrupt = _HOSTCALL_BASE, len(self.host.memory), self.host.interrupt
        architecture = load_target(self.code.target).architecture
        r.target = ARCHITECTURES.index(architecture)
        r.grid[:], r.block[:] = grid, block
        r.lds_bytes = d.group_bytes + dynamic_lds
        r.split = d.rsrc3 >> 16 & 1  # TG_SPLIT
        r.scratch_bytes = self.scratch
        registers = self._user_registers()
        r.user_sgpr_count = len(registers)
        r.user_sgprs[: len(registers)] = registers
        r.block_id_enable = d.rsrc2 >> 7 & 7
        r.block_info_enable = d.rsrc2 >> 10 & 1
        # A wave of CDNA2 gets its scratch offset in a register; from CDNA3 on the hardware keeps it ("architected flat
        # scratch").
        r.scratch_offset_enable = int(architecture == "CDNA2" and d.rsrc2 & 1)
        r.scratch_base = _SCRATCH_BASE if architecture == "CDNA2" else 0
        # MODE: rounding 0..3, subnormals 4..7, DX10 clamp 8, IEEE 9, FP16 overflow 23.
        r.mode = d.rsrc1 >> 12 & 0xFF | (d.rsrc1 >> 21 & 1) << 8 | (d.rsrc1 >> 23 & 1) << 9 | (d.rsrc1 >> 26 & 1) << 23

    def _user_registers(self) -> list[int]:
        """The user SGPRs that the descriptor asks for, in its fixed order, then preloaded arguments."""
        d = self.kernel.descriptor

        def wide(value: int) -> list[int]:
            return [value & 0xFFFF_FFFF, value >> 32]

        # The scratch descriptor: swizzled by lane, dwords interleaved over 64 lanes.
        size = self.scratch * 64 & 0xFFFF_FFFF
        fields = (
            (0, [*wide(_SCRATCH_BASE | 1 << 63), 0xFFFF_FFFF, 1 << 23 | 3 << 21 | 1 << 19]),
            (1, wide(_DISPATCH_BASE)),
            (2, wide(0)),
            (3, wide(_KERNARG_BASE)),
            (4, wide(0)),
            (5, [size, self.scratch]),
            (6, [self.scratch]),
        )
        out = [v for bit, values in fields if d.properties >> bit & 1 for v in values]
        if d.preload_length:
            begin = 4 * d.preload_offset
            data = self.arguments.tobytes()[begin : begin + 4 * d.preload_length]
            data += bytes(4 * d.preload_length - len(data))
            out += struct.unpack(f"<{d.preload_length}I", data)
        count = d.rsrc2 >> 1 & 31
        if len(out) > 32 or count > 32:
            raise EmulateError(f"{self.kernel.name} asks for more user registers than there are")
        return (out + [0] * count)[: max(count, len(out))]

    def region_below(self, address: int) -> Region | None:
        """The region that holds a guest address, or the nearest one below it."""
        below = [r for r in self.regions if r.base <= address]
        return below[-1] if below else None


def _grid_information(grid: Dim) -> bytearray:
    """The data of grid.sync(), `mg_info` of ockl/src/cg.cl in ROCm 5 to 7: a counter at 32, the blocks at 40."""
    return bytearray(struct.pack("<QIIQQIII4x", 0, 0, 0, 0, 0, 0, 0, grid[0] * grid[1] * grid[2]))
