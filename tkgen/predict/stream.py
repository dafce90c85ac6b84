"""The instruction streams of one block, wave by wave, from its machine code and a run on the emulator.

The emulator executes the first iterations of the main loop of one block. From its trace come each wave's path (roles
and phases take different ones), and the addresses of every LDS and memory access: from these the cycles that LDS spends
on it with its bank conflicts, and the 64-byte pieces of global memory it touches. The code after the loop is followed
statically, so that the cost does not grow with K.

>>> waves = block_streams(workload, target)
>>> waves[0].body, waves[0].passes
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tkgen.backends.cdna.kittens.layout import lane_groups
from tkgen.emulate import Outcome
from tkgen.emulate.decode import Encoding, Flag, Program
from tkgen.predict.prediction import PredictError
from tkgen.predict.workload import Workload
from tkgen.targets import Target


class Unit(IntEnum):
    """The unit that executes an instruction; instructions from `WAIT` to `END` are handled where they are fetched."""

    VALU = 0
    MFMA = 1
    SALU = 2
    SMEM = 3
    LDS = 4
    VMEM = 5
    FLAT = 6
    BRANCH = 7
    WAIT = 8
    BARRIER = 9
    PRIORITY = 10
    NOP = 11
    END = 12


@dataclass(frozen=True, slots=True)
class Instruction:
    """One executed instruction as the timing model sees it.

    `cycles` is the time of its pipe, `lds_cycles` that of the LDS banks and `lds_bytes` what it moves from or to LDS;
    `bytes` is what it moves from or to global memory in `pieces` of 64 bytes. `vector` and `lgkm` are the counts a
    wait waits for, None where it does not look. `value` is the priority or the number of idle slots. `reads` and
    `writes` name the results of matrix instructions: registers whose readers must wait.
    """

    unit: Unit
    cycles: int = 4
    lds_cycles: int = 0
    lds_bytes: int = 0
    bytes: int = 0
    pieces: int = 0
    is_store: bool = False
    vector: int | None = None
    lgkm: int | None = None
    value: int = 0
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    flops: int = 0
    address: int = 0


@dataclass(frozen=True)
class WaveStream:
    """The instructions that one wave executes: `prologue`, then `body` `passes` times, then `epilogue`."""

    prologue: tuple[Instruction, ...]
    body: tuple[Instruction, ...]
    passes: int
    epilogue: tuple[Instruction, ...]

    def total(self, field: str) -> int:
        """The sum of a number of `Instruction` over the whole stream."""
        parts = ((self.prologue, 1), (self.body, self.passes), (self.epilogue, 1))
        return sum(n * sum(getattr(i, field) for i in part) for part, n in parts)


_MAX_TRACE: Final = 400_000
_INACTIVE: Final = np.uint64(2**64 - 1)


def block_streams(workload: Workload, target: Target) -> tuple[WaveStream, ...]:
    """The stream of every wave of block 0.

    Raises:
        PredictError: the code has no shape that can be extrapolated.
        ToolchainError: the emulator cannot start it.
    """
    return _with_passes(looped(workload.run, workload.name, workload.waves, target), workload)


def looped(run: Callable[[int], Outcome], name: str, waves: int, target: Target) -> list[WaveStream]:
    """The stream of every wave of the block that `run` traces, so many instructions of it; without passes.

    Raises PredictError where the code has no shape that can be extrapolated.
    """
    trace = None
    limit = 6000
    while trace is None:
        outcome = run(limit)
        ways = paths(outcome, waves)
        if all(_complete(outcome.program, p) or _loop(p) is not None for p in ways):
            trace = outcome
        elif limit >= _MAX_TRACE or outcome.completed:
            raise PredictError(f"no loop repeats within the first {limit} instructions of {name}")
        limit *= 3
    decoder = _Decoder(trace, target)
    cut = [_cut(trace.program, p) for p in ways]
    streams = []
    for wave, (prologue, body, epilogue) in enumerate(cut):
        parts = [tuple(decoder.instruction(wave, i) for i in part) for part in (prologue, body, epilogue)]
        streams.append(WaveStream(parts[0], parts[1], 0, parts[2]))
    return streams


def decoder(outcome: Outcome, target: Target) -> Callable[[int, int], Instruction]:
    """The instruction at a dword as a wave executes it, from a run with a trace."""
    return _Decoder(outcome, target).instruction


def paths(outcome: Outcome, waves: int) -> list[list[int]]:
    """Per wave the dword indices it executed, in order."""
    assert outcome.trace is not None
    order = np.argsort(outcome.trace.wave, kind="stable")
    counts = np.bincount(outcome.trace.wave, minlength=waves)
    parts = np.split(outcome.trace.index[order], np.cumsum(counts)[:-1])
    return [p.tolist() for p in parts]


def _complete(program: Program, path: Sequence[int]) -> bool:
    return bool(path) and program.mnemonic(path[-1]) == "s_endpgm"


def _loop(path: Sequence[int]) -> int | None:
    """Find the header of the K loop: of backward jumps taken at least twice, the one with the longest iterations."""
    arrivals: dict[int, list[int]] = {}
    for position in range(1, len(path)):
        if path[position] <= path[position - 1]:
            arrivals.setdefault(path[position], []).append(position)
    periods = {header: (at[-1] - at[0]) / (len(at) - 1) for header, at in arrivals.items() if len(at) > 1}
    return max(periods, key=lambda header: periods[header], default=None)


def _cut(program: Program, path: list[int]) -> tuple[list[int], list[int], list[int]]:
    """Prologue, one iteration of the loop, epilogue of one wave."""
    header = _loop(path)
    if header is None:
        return path, [], []
    at = [
        p
        for p in range(len(path))
        if path[p] == header and (p == 0 or path[p - 1] >= header or p == path.index(header))
    ]
    body = path[at[1] : at[2]] if len(at) > 2 else path[at[0] : at[1]]
    if _complete(program, path):
        last = at[-1]
        rest = path[last:]
        # The last pass runs through the loop like the others; behind it is the epilogue.
        end = max((i for i, p in enumerate(rest) if p in set(body)), default=-1) + 1
        return path[: at[0]], body, rest[end:]
    return path[: at[0]], body, _behind(program, body)


def _behind(program: Program, body: Sequence[int]) -> list[int]:
    """The straight way from the loop to the end of the kernel: forward branches that depend on something not taken."""
    inside = set(body)
    here = max(inside)
    here += int(program.ops[here]["size"]) // 4
    way: list[int] = []
    seen: set[int] = set()
    while here < len(program.ops) and here not in seen:
        seen.add(here)
        way.append(here)
        name = program.mnemonic(here)
        if name == "s_endpgm":
            break
        target = here + 1 + _signed(int(program.ops[here]["offset"]))
        here = target if name == "s_branch" else here + int(program.ops[here]["size"]) // 4
    return way


def _signed(value: int) -> int:
    value &= 0xFFFF
    return value - 0x10000 if value & 0x8000 else value


def _with_passes(streams: Sequence[WaveStream], workload: Workload) -> tuple[WaveStream, ...]:
    """Trip counts: multiplying waves from the product's flops, the others from the barriers all waves share."""
    multiplying = [s for s in streams if any(i.flops for i in (*s.body, *s.prologue))]
    if not multiplying:
        raise PredictError(f"{workload.name} has no matrix instructions: there is nothing to predict")
    share = workload.flops_per_piece / len(multiplying)
    counted: dict[int, int] = {}
    for i, s in enumerate(streams):
        flops = sum(x.flops for x in s.body)
        if flops:
            rest = sum(x.flops for x in (*s.prologue, *s.epilogue))
            counted[i] = max(round((share - rest) / flops), 0)
    meetings = {_barriers(streams[i], n) for i, n in counted.items()} or {max(_barriers(s, 0) for s in streams)}
    for i, s in enumerate(streams):
        per_pass = sum(x.unit is Unit.BARRIER for x in s.body)
        if i not in counted:
            counted[i] = round((max(meetings) - _barriers(s, 0)) / per_pass) if per_pass else 0
    return tuple(WaveStream(s.prologue, s.body, counted[i], s.epilogue) for i, s in enumerate(streams))


def _barriers(stream: WaveStream, passes: int) -> int:
    once = sum(x.unit is Unit.BARRIER for x in (*stream.prologue, *stream.epilogue))
    return once + passes * sum(x.unit is Unit.BARRIER for x in stream.body)


_TRANSCENDENTAL: Final = re.compile(r"v_(exp|log|rcp|rsq|sqrt|sin|cos)_")
_SIZE: Final = re.compile(r"(?:b|u|i|f)(8|16|32|64|96|128)(?=_|$)")
_DWORDS: Final = re.compile(r"dword(?:x(\d+))?(?=_|$)")
_MATRIX: Final = re.compile(r"v_s?mfma\w*?_(\d+)x(\d+)x(\d+)(?:_\db)?_?(bf16|f16|f32|xf32|f64|fp8|bf8|i8|f8f6f4)?")


class _Decoder:
    """Machine instructions -> `Instruction`, each once per wave and place."""

    def __init__(self, outcome: Outcome, target: Target):
        assert outcome.trace is not None
        self.program, self.target = outcome.program, target
        self.names: dict[int, str] = {}
        self.made: dict[tuple[int, int], Instruction] = {}
        self.patterns: dict[tuple[str, bytes], int] = {}
        trace = outcome.trace
        rows = np.flatnonzero(trace.lanes >= 0)
        # The last execution of an instruction by a wave: the first may stand in a prologue that runs half empty.
        self.rows = dict(zip(zip(trace.wave[rows].tolist(), trace.index[rows].tolist(), strict=True),
                             trace.lanes[rows].tolist(), strict=True))  # fmt: skip
        self.addresses = trace.addresses
        self.results = self._matrix_results(np.unique(trace.index).tolist())

    def _matrix_results(self, places: Sequence[int]) -> set[int]:
        """Registers that some matrix instruction writes and another instruction reads."""
        return {r for i in places if self.program.ops[i]["encoding"] == Encoding.MFMA for r in self._destination(i)}

    def _destination(self, i: int) -> range:
        match = _MATRIX.match(self.program.mnemonic(i))
        first = int(self.program.ops[i]["dst"])
        m, n = (int(match[1]), int(match[2])) if match else (16, 16)
        return range(first, first + max(m * n // 64, 1))

    def instruction(self, wave: int, i: int) -> Instruction:
        """The instruction at dword `i` as `wave` executes it."""
        found = self.made.get((wave, i))
        if found is None:
            found = self.made[wave, i] = self._decode(wave, i)
        return found

    def _decode(self, wave: int, i: int) -> Instruction:
        op = self.program.ops[i]
        name = self.program.mnemonic(i)
        encoding = Encoding(int(op["encoding"]))
        match encoding:
            case Encoding.SOPP:
                return self._control(name, int(op["offset"]), i)
            case Encoding.SMEM:
                is_load = "load" in name
                return Instruction(Unit.SMEM if is_load else Unit.SALU, address=i)
            case Encoding.SOP1 | Encoding.SOP2 | Encoding.SOPC | Encoding.SOPK:
                return Instruction(Unit.BRANCH if "pc" in name else Unit.SALU, address=i)
            case Encoding.MFMA:
                return self._matrix(op, name, i)
            case Encoding.DS:
                return Instruction(
                    Unit.LDS,
                    lds_cycles=self._lds_cycles(wave, i, name),
                    lds_bytes=self._lds_bytes(wave, i, name),
                    is_store="write" in name,
                    reads=self._results_read(op, (1, 2)),
                    address=i,
                )
            case Encoding.MUBUF | Encoding.MTBUF | Encoding.GLOBAL | Encoding.FLAT | Encoding.SCRATCH:
                return self._memory(wave, i, op, name, encoding)
        cycles = self._timing.transcendental_cycles if _TRANSCENDENTAL.match(name) else self._timing.valu_cycles
        return Instruction(Unit.VALU, cycles, reads=self._results_read(op, (0, 1, 2)), address=i)

    @property
    def _timing(self) -> Any:
        return self.target.timing

    def _results_read(self, op: Any, positions: Sequence[int]) -> tuple[int, ...]:
        return tuple(r for r in (int(op["src"][p]) for p in positions) if r in self.results)

    def _control(self, name: str, value: int, i: int) -> Instruction:
        value &= 0xFFFF
        if name == "s_waitcnt":
            vector, lgkm = value & 15 | value >> 10 & 48, value >> 8 & 15
            return Instruction(
                Unit.WAIT, vector=vector if vector < 63 else None, lgkm=lgkm if lgkm < 15 else None, address=i
            )
        if name == "s_nop":
            return Instruction(Unit.NOP, value=value & 15, address=i)
        if name == "s_sleep":
            return Instruction(Unit.NOP, value=16 * (value & 127), address=i)
        units = {"s_barrier": Unit.BARRIER, "s_setprio": Unit.PRIORITY, "s_endpgm": Unit.END}
        if name.startswith(("s_branch", "s_cbranch")):
            return Instruction(Unit.BRANCH, address=i)
        return Instruction(units.get(name, Unit.NOP), value=value & 3 if name == "s_setprio" else 0, address=i)

    def _matrix(self, op: Any, name: str, i: int) -> Instruction:
        match = _MATRIX.match(name)
        if match is None:
            raise PredictError(f"the matrix instruction {name} is not known")
        m, n, k = int(match[1]), int(match[2]), int(match[3])
        flops = 2 * m * n * k
        dtype = match[4] or "bf16"
        # An 8-bit factor, format 0 or 1, halves the rate of f8f6f4 (LLVM SISchedule.td, GFX950).
        slow = not name.endswith("f8f6f4") or min(int(op["cbsz"]), int(op["blgp"])) < 2
        named = [x for x in self.target.mfmas if x.instruction == name]
        named.sort(key=lambda x: x.cycles, reverse=slow)
        known = named[0] if named else self.target.mfma(dtype, m, n, k)
        rates = [x.flops_per_cycle for x in self.target.mfma_shapes(dtype) or self.target.mfma_shapes("bf16")]
        writes = tuple(self._destination(i))
        accumulator = int(op["src"][2])
        reads = self._results_read(op, (0, 1))
        if accumulator in self.results and accumulator != writes[0]:
            reads += (accumulator,)
        return Instruction(
            Unit.MFMA,
            known.cycles if known else round(flops / max(rates)),
            reads=reads,
            writes=writes,
            flops=flops,
            address=i,
        )

    def _lane_addresses(self, wave: int, i: int) -> npt.NDArray[np.uint64] | None:
        row = self.rows.get((wave, i))
        return None if row is None else self.addresses[row]

    def _lds_bytes(self, wave: int, i: int, name: str) -> int:
        lanes = self._lane_addresses(wave, i)
        active = 64 if lanes is None else int((lanes != _INACTIVE).sum())
        return active * _bytes(name) * (2 if "read2" in name or "write2" in name else 1)

    def _lds_cycles(self, wave: int, i: int, name: str) -> int:
        """Cycles the LDS works on it: per group of lanes as many as the busiest bank has words."""
        lanes = self._lane_addresses(wave, i)
        two = "read2" in name or "write2" in name
        if not name.startswith(("ds_read", "ds_write")):
            return 2  # permutes and swizzles: a half wave each cycle
        size = _bytes(name)
        if lanes is None:
            return max(64 * size // self.target.lds_read_bytes_per_clock, 1) * (2 if two else 1)
        kind = f"ds_{'read' if 'read' in name else 'write'}_b{8 * max(size, 4)}"
        active = lanes != _INACTIVE
        base = lanes[active].min() if active.any() else np.uint64(0)
        pattern = np.where(active, lanes - (base - base % np.uint64(256)), _INACTIVE)
        key = (kind, pattern.tobytes())
        if key not in self.patterns:
            self.patterns[key] = lds_cycles(kind, pattern, size, self.target)
        return self.patterns[key] * (2 if two else 1)

    def _memory(self, wave: int, i: int, op: Any, name: str, encoding: Encoding) -> Instruction:
        is_store = "store" in name or "atomic" in name
        size = _bytes(name)
        lanes = self._lane_addresses(wave, i)
        active = lanes[lanes != _INACTIVE] if lanes is not None else None
        reads = self._results_read(op, (1,)) if is_store else ()
        if encoding is Encoding.FLAT and active is not None and len(active) and int(active[0]) >> 48 == 1:
            cycles = lds_cycles(f"ds_read_b{8 * max(size, 4)}", lanes, size, self.target)  # type: ignore[arg-type]
            return Instruction(
                Unit.FLAT, lds_cycles=cycles, lds_bytes=len(active) * size, is_store=is_store, reads=reads, address=i
            )
        moved = (64 if active is None else len(active)) * size
        pieces = -(-moved // 64)
        if active is not None and len(active):
            first, last = active >> np.uint64(6), (active + np.uint64(size - 1)) >> np.uint64(6)
            pieces = len(np.unique(np.concatenate([first, last])))
        to_lds = bool(op["flags"] & Flag.LDS) or "_lds_" in name
        return Instruction(
            Unit.VMEM,
            max(4, pieces),
            lds_cycles=max(moved // self.target.lds_write_bytes_per_clock, 1) if to_lds else 0,
            bytes=moved,
            pieces=pieces,
            is_store=is_store,
            reads=reads,
            address=i,
        )


def _bytes(name: str) -> int:
    """Bytes per lane of a memory instruction, from its name."""
    if match := _DWORDS.search(name):
        return 4 * int(match[1] or 1)
    if match := _SIZE.search(name):
        return int(match[1]) // 8
    return 1 if "byte" in name else 2 if "short" in name else 4


def lds_cycles(kind: str, addresses: npt.NDArray[np.uint64], size: int, target: Target) -> int:
    """Cycles that LDS takes for one access: `addresses` holds 64 bytes addresses, all ones for a lane that is off.

    Lanes are served in groups that fill all banks at most once; lanes that want the same word share it, others that
    meet in a bank wait for each other. `kind` names the instruction as `kittens.layout.lane_groups` does.
    """
    groups = lane_groups(kind)  # type: ignore[arg-type]
    if target.lds_banks > 32 and "read" in kind:  # which lanes CDNA4 serves together is not published: neighbours
        together = min(target.lds_banks * 4 // max(size, 4), 64)
        groups = [list(range(first, first + together)) for first in range(0, 64, together)]
    total = 0
    for group in groups:
        lanes = addresses[group]
        lanes = lanes[lanes != _INACTIVE]
        if not len(lanes):
            continue
        words = np.unique(np.concatenate([lanes // np.uint64(4) + np.uint64(w) for w in range(max(size // 4, 1))]))
        total += int(np.bincount((words % np.uint64(target.lds_banks)).astype(np.intp)).max())
    return max(total, 1)
