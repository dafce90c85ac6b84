"""Predicted times of the launches of any program, from the machine code that the emulator executes for it.

Nothing is known of a launch but its instructions and addresses: not how its blocks share data. One compute unit runs
the instructions of the first block, as a stream of blocks (`throughput`), with lines in the L2. The launch takes at
least as long as HBM needs for what blocks touch, each byte of an allocation once. A block that is longer than
`MOST_INSTRUCTIONS` is followed so far; its time is extended to the instructions of an average block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tkgen.emulate import EmulateError, Outcome, TraceRequest
from tkgen.emulate.session import Launch
from tkgen.predict.device import Device
from tkgen.predict.kernels import l2_memory
from tkgen.predict.prediction import PredictError
from tkgen.predict.stream import Instruction, Unit, WaveStream, decoder, paths
from tkgen.predict.throughput import StreamedUnit
from tkgen.predict.timing import Machine
from tkgen.targets import Target, load_target
from tkgen.targets.model import LINE_BYTES

MOST_INSTRUCTIONS = 40_000  # of all waves of the first block
_IN_LDS = 4  # bit of an access in a trace (TkTraceEntry in emulate/core/abi.h)


@dataclass
class Times:
    """Predicts each launch of a program, equal ones once (`tkgen emulate --times`)."""

    known: dict[tuple[object, ...], float] = field(default_factory=dict)

    def request(self, what: Launch) -> TraceRequest | None:
        """The trace that a prediction of this launch needs."""
        return None if _key(what) in self.known else TraceRequest(limit=MOST_INSTRUCTIONS)

    def seconds(self, what: Launch, outcome: Outcome) -> float:
        """The time of a launch. Raises EmulateError where it cannot be predicted."""
        key = _key(what)
        if key not in self.known:
            try:
                self.known[key] = predicted_seconds(what, outcome)
            except PredictError as error:
                raise EmulateError(f"its time cannot be predicted, leave out --times: {error}") from error
        return self.known[key]


def _key(what: Launch) -> tuple[object, ...]:
    return (id(what.module), what.kernel.name, what.grid, what.block, what.lds_bytes, what.arguments)


def predicted_seconds(what: Launch, outcome: Outcome) -> float:
    """The time of a launch from its run with a trace. Raises PredictError where the target has no timing data."""
    target = load_target(what.module.code.target)
    device = Device.of(target)
    resident = what.blocks_per_cu()
    if resident == 0:
        raise PredictError(f"no block of {what.kernel.name} fits on a compute unit")
    threads = what.block[0] * what.block[1] * what.block[2]
    streams = first_block(outcome, -(-threads // target.wave_size), target)
    blocks = what.grid[0] * what.grid[1] * what.grid[2]
    hertz = device.product.clock_mhz * 1e6
    lines, held = _footprint(what, outcome)
    machine, path = Machine.of(target, l2_memory(device)), float(device.timing.l1_bytes_per_clock)

    def cycles(count: int) -> float:
        unit = StreamedUnit(streams, resident, machine, count, float(lines), path)
        unit.run()
        return float(unit.end)

    each = -(-blocks // device.product.compute_units)
    some, more = min(each, 2 * resident), min(each, 4 * resident)
    end = cycles(some)
    if more > some:
        last = cycles(more)
        end = last + (last - end) / (more - some) * (each - more)
    followed = sum(len(stream.prologue) for stream in streams)
    longer = max(1.0, outcome.instructions / blocks / followed)
    return device.launch_seconds + max(end * longer / hertz, min(lines * blocks, held) / device.copy_rate)


def first_block(outcome: Outcome, waves: int, target: Target) -> tuple[WaveStream, ...]:
    """The instructions of each wave of the first block; of one that the trace cuts off, to a barrier of all waves."""
    decode = decoder(outcome, target)
    found: list[list[Instruction]] = []
    for wave, path in enumerate(paths(outcome, waves)):
        found.append([])
        for index in path:
            found[-1].append(decode(wave, index))
            if found[-1][-1].unit is Unit.END:
                break  # the trace goes on with the next block
    if not all(stream and stream[-1].unit is Unit.END for stream in found):
        found = _to_a_barrier(found)
    return tuple(WaveStream(tuple(stream), (), 0, ()) for stream in found)


def _to_a_barrier(streams: Sequence[list[Instruction]]) -> list[list[Instruction]]:
    barriers = [[i for i, x in enumerate(stream) if x.unit is Unit.BARRIER] for stream in streams]
    fewest = min(map(len, barriers))
    if not fewest:
        return list(streams)
    return [stream[: at[fewest - 1] + 1] for stream, at in zip(streams, barriers, strict=True)]


def _footprint(what: Launch, outcome: Outcome) -> tuple[int, int]:
    """Bytes of the lines that the traced block touches, and those of the allocations that they are in."""
    assert outcome.trace is not None
    rows = outcome.trace.rows
    used = outcome.trace.lanes[(outcome.trace.lanes >= 0) & (rows["access"] & _IN_LDS == 0)]
    addresses = (
        np.unique(outcome.trace.addresses[used] // LINE_BYTES) * LINE_BYTES if len(used) else np.zeros(0, np.uint64)
    )
    counted = held = 0
    for allocation in what.memory:
        first, end = allocation.base // LINE_BYTES * LINE_BYTES, allocation.base + allocation.size
        inside = int(((addresses >= first) & (addresses < end)).sum())
        counted += inside * LINE_BYTES
        held += allocation.size if inside else 0
    return counted, held
