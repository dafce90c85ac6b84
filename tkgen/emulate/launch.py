"""Running a kernel of a code object on the CPU.

args = [Buffer(a), Buffer(b), Buffer(c)]
outcome = launch(Path("gemm.hsaco"), grid=(64, 64, 1), block=(256, 1, 1), args=args, watch=True)
for finding in outcome.findings:
    print(finding)
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

import numpy as np

from tkgen.emulate import native
from tkgen.emulate.arguments import Arg
from tkgen.emulate.code_object import CodeObject, load
from tkgen.emulate.errors import EmulateError
from tkgen.emulate.guest import Dim, Guest, Resident
from tkgen.emulate.outcome import Outcome, Part, Trace, collect


class Policy(Enum):
    """In which order the waves of a block run.

    `BARRIER`: each up to its next barrier, in turn (fast). `ROUND_ROBIN`: one instruction each. `RANDOM`: any wave, a
    few instructions at a time, from a seed. `ADVERSARIAL`: one wave, chosen anew after each barrier, is delayed as
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


def launch(
    code: CodeObject | Path | str | bytes,
    *,
    args: Sequence[Arg],
    grid: Dim,
    block: Dim,
    kernel: str | None = None,
    lds_bytes: int = 0,
    blocks: Iterable[int] | None = None,
    beyond: int = 0,
    policy: Policy = Policy.BARRIER,
    seed: int = 0,
    watch: bool = False,
    poison: bool = False,
    budget: int = 200_000_000,
    every_pass: bool = False,
    first_finding: bool = False,
    algebra: bool = False,
    workers: int = 1,
    trace: TraceRequest | None = None,
    progress: Callable[[int], None] | None = None,
    resident: Resident | None = None,
    cooperative: bool = False,
) -> Outcome:
    """Run `kernel` on `grid` blocks of `block` threads and return what happened; buffers are written in place.

    `lds_bytes` is the dynamic LDS in addition to the static one. `blocks` restricts the run to some linear block ids;
    in a grid of one dimension they may go beyond its end, up to the number `beyond`, of which the kernel is not told.
    `watch` turns the referee on. `poison` delays every memory access until its wave waits for it, and fills the
    destination with NaNs until then. `budget` bounds the instructions of one block (counted per wave). With
    `first_finding` a worker stops at the instruction with its first finding, for callers who ask only whether there is
    one. `workers` threads share the blocks; `progress` is told, by one of them at a time, how many blocks are done.
    Raises EmulateError when the launch cannot start.

    Where a buffer is `Hollow` the launch is without data: control flow, addresses, waits and barriers are followed, and
    arithmetic on what is loaded from such buffers, or from LDS, is left out. That none of them depends on data is
    checked as it runs: a branch that does stops the launch with a finding, DATA_DEPENDENT. Iterations of a loop that
    begin as one before did are not watched again, unless `every_pass` says so: what they add up to is the same
    (core/repetition.h).

    `algebra` follows numbers in two finite fields, from the payloads of buffers to those of others (`algebra`).

    `resident` is memory that stays where it is from one launch to the next, variables of the code object included.

    Blocks of a `cooperative` launch may wait for one another: all are under way at once, on one thread.
    """
    loaded = load(code)
    chosen = loaded.kernel(kernel)
    guest = Guest(loaded, chosen, args, grid, block, lds_bytes, resident, cooperative)
    record = guest.record
    record.policy, record.seed, record.watch, record.poison = policy.value, seed, int(watch), int(poison)
    record.budget = budget
    record.every_pass, record.first_finding = int(every_pass), int(first_finding)
    record.algebra = int(algebra)
    record.trace_wave = -1
    if trace is not None:
        record.trace_wave = -2 if trace.wave is None else trace.wave
        record.trace_limit, record.trace_lanes = trace.limit, int(trace.addresses)
    if beyond > grid[0] and grid[1:] == (1, 1):
        record.grid[0] = beyond
    total = record.grid[0] * grid[1] * grid[2]
    ids = list(range(grid[0] * grid[1] * grid[2])) if blocks is None else list(blocks)
    if any(not 0 <= b < total for b in ids):
        raise EmulateError(f"the grid has blocks 0..{total - 1}")
    parts = _shared(record, ids, max(1, min(workers, len(ids))), _counter(progress), cooperative)
    if guest.host is not None and guest.host.refused:
        raise EmulateError(f"{chosen.name}: {guest.host.refused}")
    return collect(guest, parts)


_INTERVAL: Final = np.dtype(native.Interval)
_RELEASE: Final = np.dtype(native.Release)
_KNOWN: Final = np.dtype(native.Known)
_SPAN: Final = np.dtype(native.RegisterSpan)
_TRACE: Final = np.dtype(native.TraceEntry)


def _counter(progress: Callable[[int], None] | None) -> Callable[[], None]:
    """A call for each block that is done, from any thread."""
    lock, count = threading.Lock(), itertools.count(1)

    def one_more() -> None:
        if progress is not None:
            with lock:
                progress(next(count))

    return one_more


def _shared(
    record: native.Launch, ids: list[int], workers: int, done: Callable[[], None], cooperative: bool
) -> list[Part]:
    """The blocks `ids`, shared by so many threads, or all under way at once."""
    cancel = ctypes.c_int32(0)
    record.cancel = ctypes.addressof(cancel)
    record.flags = native.core().tk_flags_new()
    try:
        with ThreadPoolExecutor(workers) as pool:
            try:
                if cooperative:
                    return pool.submit(_run_together, record, ids, done).result()
                return list(pool.map(lambda i: _run(record, ids[i::workers], done), range(workers)))
            except BaseException:  # an interrupt, above all: the pool waits for its threads
                cancel.value = 1
                raise
    finally:
        native.core().tk_flags_free(record.flags)


def _losses(handle: int) -> list[tuple[int, str, int]]:
    """Dword index, reason and count of what was lost."""
    count = native.u64()
    rows = native.core().tk_losses(handle, ctypes.byref(count))
    return [(rows[i].index, rows[i].reason.decode(), rows[i].count) for i in range(count.value)]


def _run(record: native.Launch, ids: list[int], done: Callable[[], None]) -> Part:
    core = native.core()
    handle = core.tk_new(ctypes.byref(record))
    try:
        stopped = 0
        for block in ids:
            stopped = core.tk_run(handle, (native.u64 * 1)(block), 1)
            if stopped:
                break
            done()
        return _part(record, handle, bool(stopped))
    finally:
        core.tk_free(handle)


def _run_together(record: native.Launch, ids: list[int], done: Callable[[], None]) -> list[Part]:
    """All blocks at once, a part for each."""
    core = native.core()
    handles = [core.tk_new(ctypes.byref(record)) for _ in ids]
    try:
        count = len(ids)
        stopped = core.tk_run_together((native.ptr * count)(*handles), (native.u64 * count)(*ids), count)
        for _ in ids:
            done()
        return [_part(record, handle, bool(stopped)) for handle in handles]
    finally:
        for handle in handles:
            core.tk_free(handle)


def _part(record: native.Launch, handle: int, stopped: bool) -> Part:
    """The results of a handle, copied."""
    core = native.core()

    def table(name: str, size: int) -> bytes:
        count = native.u64()
        pointer = getattr(core, f"tk_{name}")(handle, ctypes.byref(count))
        return ctypes.string_at(pointer, count.value * size) if count.value else b""

    raw = table("findings", ctypes.sizeof(native.RawFinding))
    size = ctypes.sizeof(native.RawFinding)
    entries = np.frombuffer(table("trace", _TRACE.itemsize), dtype=_TRACE)
    return Part(
        stopped,
        int(core.tk_instructions(handle)),
        bool(core.tk_block_dependent(handle)),
        np.frombuffer(ctypes.string_at(core.tk_counts(handle), 8 * record.op_count), dtype=np.uint64),
        np.frombuffer(table("executed_by", 8), dtype=np.uint64),
        [native.RawFinding.from_buffer_copy(raw, i) for i in range(0, len(raw), size)],
        list(np.frombuffer(table("barriers", 4), dtype=np.uint32).tolist()),
        np.frombuffer(table("intervals", _INTERVAL.itemsize), dtype=_INTERVAL),
        np.frombuffer(table("releases", _RELEASE.itemsize), dtype=_RELEASE),
        np.frombuffer(table("known", _KNOWN.itemsize), dtype=_KNOWN),
        _losses(handle),
        Trace(
            entries["wave"],
            entries["index"],
            np.where(entries["lanes"] >= 0, entries["lanes"] // 64, -1),
            entries["exec"],
            np.frombuffer(table("trace_lanes", 8), dtype=np.uint64).reshape(-1, 64),
            np.frombuffer(table("spans", _SPAN.itemsize), dtype=_SPAN),
            entries,
        ),
    )


@dataclass(frozen=True)
class Interleaving:
    """An order of the waves to try: a policy and the seed of its choices."""

    policy: Policy = Policy.BARRIER
    seed: int = 0

    def __str__(self) -> str:
        return self.policy.name.lower().replace("_", " ") + (f" {self.seed}" if self.policy is Policy.RANDOM else "")


def interleavings(count: int) -> Iterator[Interleaving]:
    """`count` of them: to the next barrier, round robin, adversarial, then random and adversarial ones by seed."""
    fixed = [Interleaving(), Interleaving(Policy.ROUND_ROBIN), Interleaving(Policy.ADVERSARIAL)]
    yield from fixed[:count]
    for number in range(count - len(fixed)):
        yield Interleaving((Policy.RANDOM, Policy.ADVERSARIAL)[number % 3 == 2], number + 1)
