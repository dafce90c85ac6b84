"""The cost of an iteration of the main loop of any kernel, and what it would be with other waits and barriers.

Of a foreign kernel only the machine code is known: not how its blocks share the caches, nor how often its loop runs. So
the model simulates one compute unit as `iterations` does, with as many blocks on it as fit, for some iterations. All
reads come from the last-level cache, at one unit's share of its bandwidth. The result tells little about the speed of
the kernel, and much about the cost of a wait or a barrier in it.

>>> cost = LoopCost.of(run, "gemm", waves=4, blocks=2, target=load_target("gfx942")) >>> cost.cycles(),
cost.cycles({address: replacement})
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tkgen.emulate import Outcome
from tkgen.predict.device import Device
from tkgen.predict.prediction import PredictError
from tkgen.predict.stream import Instruction, WaveStream, looped
from tkgen.predict.timing import MEASURED_PASSES, WARM_PASSES, BusyUnit, Machine, Memory
from tkgen.targets import Target

_PASSES = WARM_PASSES + 2 * MEASURED_PASSES + 1


@dataclass(frozen=True)
class LoopCost:
    """The streams of a block's waves, `blocks` of them on a compute unit."""

    streams: tuple[WaveStream, ...]
    blocks: int
    machine: Machine

    @classmethod
    def of(cls, run: Callable[[int], Outcome], name: str, waves: int, blocks: int, target: Target) -> LoopCost:
        """From `run`, which traces so many instructions of a block, all waves of it.

        Raises PredictError where the target has no timing data, no block fits, or the code has no shape to extrapolate.
        """
        device = Device.of(target)
        if blocks == 0:
            raise PredictError(f"no block of {name} fits on a compute unit")
        streams = looped(run, name, waves, target)
        passing = tuple(replace(s, passes=_PASSES if s.body else 0) for s in streams)
        return cls(passing, blocks, Machine.of(target, l2_memory(device)))

    def cycles(self, changed: Mapping[int, Instruction] | None = None) -> float:
        """Cycles of an iteration of the loop, of the whole where there is none; `changed`: instructions by dword
        index."""
        streams = [_with(s, changed) for s in self.streams] if changed else self.streams
        unit = BusyUnit(streams, self.blocks, self.machine)
        unit.run()
        return unit.result().pass_cycles


def _with(stream: WaveStream, changed: Mapping[int, Instruction]) -> WaveStream:
    parts = (stream.prologue, stream.body, stream.epilogue)
    prologue, body, epilogue = (tuple(changed.get(x.address, x) for x in part) for part in parts)
    return WaveStream(prologue, body, stream.passes, epilogue)


def l2_memory(device: Device) -> Memory:
    """Global memory as one of all compute units sees it, all of them reading what is in the last-level cache."""
    timing, product = device.timing, device.product
    hertz = product.clock_mhz * 1e6
    per_xcd = -(-product.compute_units // product.xcds)
    of_llc = timing.llc_tbps * 1e12 / hertz / product.compute_units
    rate = min(timing.l1_bytes_per_clock, timing.l2_bytes_per_clock / per_xcd)
    return Memory(timing.llc_latency_ns * 1e-9 * hertz, rate, min(timing.l1_bytes_per_clock, of_llc))
