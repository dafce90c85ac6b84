"""Running a kernel of a code object on the CPU.

    outcome = launch(Path("gemm.hsaco"), grid=(64, 64, 1), block=(256, 1, 1), args=[Buffer(a), Buffer(b), Buffer(c)], watch=True)
    for finding in outcome.findings:
        print(finding)
"""

from __future__ import annotations

import ctypes
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tkgen.emulate import native
from tkgen.emulate.arguments import Arg, Buffer, Geometry, Layout, buffers, kernarg
from tkgen.emulate.code_object import LOAD_BASE, CodeObject, Kernel, load
from tkgen.emulate.decode import TARGETS, Program, decode
from tkgen.emulate.errors import EmulateError
from tkgen.emulate.findings import BY_NUMBER, Access, Finding, Kind, Space
from tkgen.emulate.messages import describe


class Policy(Enum):
    """In which order the waves of a block run.

    `BARRIER`: each up to its next barrier, in turn (fast). `ROUND_ROBIN`: one instruction each. `RANDOM`: any wave, a
    few instructions at a time, from a seed. `ADVERSARIAL`: one wave, chosen anew after each barrier, falls behind as
    far as barriers let it, which turns hidden races into wrong numbers.
    """

    BARRIER = 0
    ROUND_ROBIN = 1
    RANDOM = 2
    ADVERSARIAL = 3


@dataclass(frozen=True)
class TraceRequest:
    """Ask for the instruction stream of one wave (or all) of the first block run, `limit` instructions at most."""

    wave: int | None = None
    limit: int = 1_000_000
    addresses: bool = True


@dataclass(frozen=True)
class Trace:
    """An instruction stream: parallel arrays, one row per instruction executed.

    `index` is the dword index into `program.ops`; `lanes` the row of `addresses` that holds the 64 byte addresses of a
    memory instruction (LDS offsets for LDS), or -1; inactive lanes hold 2**64 - 1. `exec` is the mask of active lanes.
    """

    wave: npt.NDArray[np.uint32]
    index: npt.NDArray[np.uint32]
    lanes: npt.NDArray[np.int64]
    exec: npt.NDArray[np.uint64]
    addresses: npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Written:
    """Bytes `begin`..`end` of a buffer that one block wrote, and the instruction that did."""

    buffer: Buffer
    block: int
    begin: int
    end: int
    address: int


@dataclass(frozen=True)
class Outcome:
    """What a launch did. `findings` is empty when nothing is wrong; `completed` is False when it had to stop."""

    findings: tuple[Finding, ...]
    completed: bool
    instructions: int
    barriers: tuple[int, ...]  # per wave of the blocks run, block by block
    counts: npt.NDArray[np.uint64] = field(repr=False)  # executions per dword of the code
    program: Program = field(repr=False)
    code: CodeObject = field(repr=False)
    kernel: Kernel = field(repr=False)
    written: tuple[Written, ...] = field(repr=False)
    trace: Trace | None = field(repr=False)

    @property
    def opcodes(self) -> Counter[str]:
        """Executions per mnemonic, counted per wave."""
        tally: Counter[str] = Counter()
        for i in np.flatnonzero(self.counts):
            tally[self.program.mnemonic(int(i))] += int(self.counts[i])
        return tally

    def address(self, index: int) -> int:
        """The address in the code object of dword `index` of the code."""
        return self.code.text[0] + 4 * index

    def unwritten(self, buffer: Buffer) -> list[tuple[int, int]]:
        """Byte ranges of `buffer` that no block wrote (needs `watch=True`)."""
        gaps = []
        at = 0
        for begin, end in sorted((w.begin, w.end) for w in self.written if w.buffer is buffer):
            if begin > at:
                gaps.append((at, begin))
            at = max(at, end)
        size = len(buffer.bytes())
        return gaps + ([(at, size)] if at < size else [])


# Guest addresses. The code object stands at LOAD_BASE; apertures as large as the hardware's, at addresses that no buffer
# has; buffers apart by a guard gap, so that running past one never lands in the next.
_SHARED_BASE: Final = 1 << 48
_PRIVATE_BASE: Final = 2 << 48
_SCRATCH_BASE: Final = 0x6000_0000_0000
_KERNARG_BASE: Final = 0x5000_0000_0000
_DISPATCH_BASE: Final = 0x5800_0000_0000
_BUFFER_BASE: Final = 0x1000_0000_0000
_GUARD: Final = 1 << 20
_DYNAMIC_STACK: Final = 16384
_LDS_LIMIT: Final = {"gfx90a": 65536, "gfx942": 65536, "gfx950": 163840}
_MAX_SCRATCH: Final = 1 << 20  # bytes per lane

Dim = tuple[int, int, int]


def launch(
    code: CodeObject | Path | str | bytes,
    *,
    args: Sequence[Arg],
    grid: Dim,
    block: Dim,
    kernel: str | None = None,
    lds_bytes: int = 0,
    blocks: Iterable[int] | None = None,
    policy: Policy = Policy.BARRIER,
    seed: int = 0,
    watch: bool = False,
    poison: bool = False,
    budget: int = 200_000_000,
    workers: int = 1,
    trace: TraceRequest | None = None,
) -> Outcome:
    """Run `kernel` on `grid` blocks of `block` threads and return what happened; buffers are written in place.

    `lds_bytes` is the dynamic LDS in addition to the static one. `blocks` restricts the run to some linear block ids.
    `watch` turns the referee on. `poison` delays every memory access until its wave waits for it, and fills the
    destination with NaNs until then. `budget` bounds the instructions of one block (counted per wave). `workers`
    threads share the blocks. Raises EmulateError when the launch cannot start.
    """
    loaded = load(code)
    chosen = loaded.kernel(kernel)
    setup = _Setup(loaded, chosen, args, grid, block, lds_bytes)
    record = setup.record
    record.policy, record.seed, record.watch, record.poison = policy.value, seed, int(watch), int(poison)
    record.budget = budget
    record.trace_wave = -1
    if trace is not None:
        record.trace_wave = -2 if trace.wave is None else trace.wave
        record.trace_limit, record.trace_lanes = trace.limit, int(trace.addresses)
    total = grid[0] * grid[1] * grid[2]
    ids = list(range(total)) if blocks is None else list(blocks)
    if any(not 0 <= b < total for b in ids):
        raise EmulateError(f"the grid has blocks 0..{total - 1}")
    workers = max(1, min(workers, len(ids)))
    with ThreadPoolExecutor(workers) as pool:
        parts = list(pool.map(lambda i: _run(record, ids[i::workers]), range(workers)))
    return _outcome(setup, parts)


@dataclass
class _Part:
    """The raw results of one worker."""

    stopped: bool
    instructions: int
    counts: npt.NDArray[np.uint64]
    findings: list[native.RawFinding]
    barriers: list[int]
    intervals: npt.NDArray[Any]
    trace: Trace


_INTERVAL: Final = np.dtype(
    [("region", "<u4"), ("block", "<u4"), ("index", "<u4"), ("writes", "<u4"), ("begin", "<u8"), ("end", "<u8")]
)
_TRACE: Final = np.dtype([("wave", "<u4"), ("index", "<u4"), ("lanes", "<i8"), ("exec", "<u8")])


def _run(record: native.Launch, ids: list[int]) -> _Part:
    core = native.core()
    handle = core.tk_new(ctypes.byref(record))
    try:
        stopped = core.tk_run(handle, (native.u64 * len(ids))(*ids), len(ids))

        def table(name: str, size: int) -> bytes:
            count = native.u64()
            pointer = getattr(core, f"tk_{name}")(handle, ctypes.byref(count))
            return ctypes.string_at(pointer, count.value * size) if count.value else b""

        raw = table("findings", ctypes.sizeof(native.RawFinding))
        size = ctypes.sizeof(native.RawFinding)
        entries = np.frombuffer(table("trace", _TRACE.itemsize), dtype=_TRACE)
        return _Part(
            bool(stopped),
            int(core.tk_instructions(handle)),
            np.frombuffer(ctypes.string_at(core.tk_counts(handle), 8 * record.op_count), dtype=np.uint64),
            [native.RawFinding.from_buffer_copy(raw, i) for i in range(0, len(raw), size)],
            list(np.frombuffer(table("barriers", 4), dtype=np.uint32).tolist()),
            np.frombuffer(table("intervals", _INTERVAL.itemsize), dtype=_INTERVAL),
            Trace(
                entries["wave"],
                entries["index"],
                np.where(entries["lanes"] >= 0, entries["lanes"] // 64, -1),
                entries["exec"],
                np.frombuffer(table("trace_lanes", 8), dtype=np.uint64).reshape(-1, 64),
            ),
        )
    finally:
        core.tk_free(handle)


class _Setup:
    """Guest memory, registers and the launch record; keeps what the record points to alive."""

    def __init__(self, code: CodeObject, kernel: Kernel, args: Sequence[Arg], grid: Dim, block: Dim, dynamic_lds: int):
        self.code, self.kernel = code, kernel
        self.program = decode(code.code, code.target)
        self._check(grid, block, dynamic_lds)
        self.record = native.Launch()
        self.regions: list[tuple[int, npt.NDArray[np.uint8], bool, Buffer | None]] = []
        self.names = (ctypes.c_char_p * len(self.program.names))(*(n.encode() for n in self.program.names))
        self.scratch = self._scratch()
        self._place(args, Geometry(grid, block, dynamic_lds, _SHARED_BASE, _PRIVATE_BASE))
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
        if lds > _LDS_LIMIT[self.code.target]:
            raise EmulateError(f"{lds} bytes of LDS, but {self.code.target} has {_LDS_LIMIT[self.code.target]} per block")
        if self.kernel.descriptor.properties & 1 << 10:
            raise EmulateError(f"{self.kernel.name} is compiled for waves of 32, which CDNA does not have")
        if self.kernel.descriptor.rsrc1 >> 12 & 15:
            raise EmulateError(f"{self.kernel.name} starts in a rounding mode other than to nearest even")
        entry = self.kernel.entry - self.code.text[0]
        if not 0 <= entry < self.code.text[1] or entry % 4:
            raise EmulateError(f"the entry of {self.kernel.name} is outside of the code")

    def _scratch(self) -> int:
        size = self.kernel.descriptor.private_bytes
        if self.kernel.dynamic_stack:
            size += _DYNAMIC_STACK
        if size > _MAX_SCRATCH:
            raise EmulateError(f"{self.kernel.name} wants {size} bytes of scratch per lane; the emulator gives {_MAX_SCRATCH}")
        return (size + 15) // 16 * 16

    def _place(self, args: Sequence[Arg], geometry: Geometry) -> None:
        layout = Layout()
        at = _BUFFER_BASE
        for buffer in buffers(args):
            data = buffer.bytes()
            layout.addresses[id(buffer)] = at
            if len(data):
                self.regions.append((at, data, buffer.writable, buffer))
            at += (len(data) + 2 * _GUARD - 1) // _GUARD * _GUARD
        arguments = kernarg(self.kernel, args, layout, geometry)
        self.arguments = np.frombuffer(arguments + bytes(-len(arguments) % 4), dtype=np.uint8)
        if len(self.arguments):
            self.regions.append((_KERNARG_BASE, self.arguments, False, None))
        self.regions.append((_DISPATCH_BASE, np.frombuffer(self._dispatch_packet(geometry), dtype=np.uint8), False, None))
        image = np.frombuffer(self.code.image, dtype=np.uint8).copy()
        for address, size, writable in self.code.segments:
            self.regions.append((LOAD_BASE + address, image[address : address + size], writable, None))
        self.regions.sort(key=lambda r: r[0])

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
            LOAD_BASE,
            _KERNARG_BASE,
            0,
            0,
        )

    def _fill(self, grid: Dim, block: Dim, dynamic_lds: int) -> None:
        r, d = self.record, self.kernel.descriptor
        ops = self.program.ops
        r.ops, r.op_count = ops.ctypes.data, len(ops)
        r.text_base = LOAD_BASE + self.code.text[0]
        # A kernel with preloaded arguments has a 256-byte prologue for firmware that cannot preload.
        r.entry = (self.kernel.entry - self.code.text[0] + (256 if d.preload_length else 0)) // 4
        r.names, r.name_count = self.names, len(self.program.names)
        self.region_table = (native.Region * len(self.regions))()
        for i, (base, data, writable, _) in enumerate(self.regions):
            self.region_table[i] = native.Region(base, len(data), data.ctypes.data, int(writable), i)
        r.regions, r.region_count = self.region_table, len(self.regions)
        r.shared_base, r.private_base = _SHARED_BASE, _PRIVATE_BASE
        r.target = TARGETS.index(self.code.target)
        r.grid[:], r.block[:] = grid, block
        r.lds_bytes = d.group_bytes + dynamic_lds
        r.scratch_bytes = self.scratch
        registers = self._user_registers()
        r.user_sgpr_count = len(registers)
        r.user_sgprs[: len(registers)] = registers
        r.block_id_enable = d.rsrc2 >> 7 & 7
        r.block_info_enable = d.rsrc2 >> 10 & 1
        # gfx90a gets its wave's scratch offset in a register; from gfx942 on the hardware keeps it (architected flat scratch).
        r.scratch_offset_enable = int(self.code.target == "gfx90a" and d.rsrc2 & 1)
        r.scratch_base = _SCRATCH_BASE if self.code.target == "gfx90a" else 0
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

    def region_of(self, address: int) -> tuple[int, npt.NDArray[np.uint8], bool, Buffer | None] | None:
        """The region at or nearest below a guest address."""
        below = [r for r in self.regions if r[0] <= address]
        return below[-1] if below else None


def _outcome(setup: _Setup, parts: list[_Part]) -> Outcome:
    intervals = np.concatenate([p.intervals for p in parts])
    found = _Findings(setup)
    for part in parts:
        for raw in part.findings:
            found.add(raw)
    found.between_blocks(intervals)
    written = []
    for row in intervals[intervals["writes"] != 0]:
        base, _, _, buffer = setup.regions[row["region"]]
        if buffer is not None:
            address = setup.code.text[0] + 4 * int(row["index"])
            written.append(Written(buffer, int(row["block"]), int(row["begin"]) - base, int(row["end"]) - base, address))
    return Outcome(
        tuple(found.findings),
        not any(p.stopped for p in parts),
        sum(p.instructions for p in parts),
        tuple(b for p in parts for b in p.barriers),
        np.sum([p.counts for p in parts], axis=0, dtype=np.uint64),
        setup.program,
        setup.code,
        setup.kernel,
        tuple(written),
        parts[0].trace if setup.record.trace_wave != -1 else None,
    )


class _Findings:
    """Turns the core's records into findings, each pair of instructions once over all workers."""

    def __init__(self, setup: _Setup):
        self.setup = setup
        self.findings: list[Finding] = []
        self.seen: set[tuple[int, int, int]] = set()

    def access(self, p: native.Party, access: str | None = None) -> Access:
        code, program = self.setup.code, self.setup.program
        index = min(p.index, len(program.ops) - 1)
        address = code.text[0] + 4 * index
        line = code.line(address)
        return Access(
            p.wave,
            address,
            program.text(index),
            line[0] if line else None,
            line[1] if line else None,
            p.instance,
            p.epoch,
            None if p.done == 0xFFFF_FFFF else p.done,
            access or ("reads", "writes", "updates")[min(p.writes, 2)],
        )

    def add(self, raw: native.RawFinding) -> None:
        key = (raw.kind, raw.a.index, raw.b.index)
        if key in self.seen:
            return
        self.seen.add(key)
        space = (Space.LDS, Space.GLOBAL, Space.SCRATCH, Space.VGPR, Space.SGPR)[raw.space]
        self.make(
            BY_NUMBER[raw.kind],
            (raw.block[0], raw.block[1], raw.block[2]),
            self.access(raw.a),
            self.access(raw.b) if raw.b.index != 0xFFFF_FFFF else None,
            space,
            raw.address,
            fatal=bool(raw.fatal),
            size=raw.size,
            lane=raw.lane,
            count=raw.count,
        )

    def make(
        self,
        kind: Kind,
        block: Dim,
        first: Access,
        second: Access | None,
        space: Space,
        address: int,
        *,
        fatal: bool = False,
        size: int = 0,
        lane: int = 0,
        count: int = 1,
    ) -> None:
        offset, buffer = address, None
        if space is Space.GLOBAL:
            region = self.setup.region_of(address)
            if region is not None:
                offset = address - region[0]
                given = [r[3] for r in self.setup.regions if r[3] is not None]
                mine = region[3]
                if mine is not None:
                    buffer = mine.name or f"buffer {next(i for i, g in enumerate(given) if g is mine)}"
                else:
                    buffer = "the code object" if region[0] >= LOAD_BASE else "the kernel arguments"
        message = describe(kind, first, second, space, offset, buffer, size, lane, self.setup.record)
        self.findings.append(Finding(kind, message, fatal, block, first, second, space, offset, buffer, size, lane, count))

    def between_blocks(self, intervals: npt.NDArray[Any]) -> None:
        """Blocks are never ordered: what one writes, another may not touch but by atomics."""
        for region in np.unique(intervals["region"][intervals["writes"] != 0]):
            rows = np.sort(intervals[intervals["region"] == region], order=["begin", "end"])
            reach: dict[int, Any] = {}  # per kind of access, the interval that reaches furthest
            for row in rows:
                for other in reach.values():
                    plain = row["writes"] == 1 or other["writes"] == 1 or row["writes"] != other["writes"]
                    conflict = plain and (row["writes"] or other["writes"])
                    if other["end"] > row["begin"] and other["block"] != row["block"] and conflict:
                        self._block_race(row, other)
                furthest = reach.get(int(row["writes"]))
                if furthest is None or row["end"] > furthest["end"]:
                    reach[int(row["writes"])] = row

    def _block_race(self, a: Any, b: Any) -> None:
        key = (Kind.BLOCK_RACE.value.__hash__(), int(a["index"]), int(b["index"]))
        if key in self.seen:
            return
        self.seen.add(key)
        names = ("reads", "writes", "updates")
        grid = self.setup.record.grid
        linear = int(a["block"])
        block = (linear % grid[0], linear // grid[0] % grid[1], linear // grid[0] // grid[1])

        def party(row: Any) -> Access:
            return self.access(native.Party(0, int(row["index"]), 0, 0, 0, int(row["writes"])), names[min(int(row["writes"]), 2)])

        self.make(Kind.BLOCK_RACE, block, party(a), party(b), Space.GLOBAL, int(a["begin"]), size=int(a["end"] - a["begin"]))
