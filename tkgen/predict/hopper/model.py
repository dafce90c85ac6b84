"""Common parts of all predictions for a Hopper GPU: the description of a kernel, and the clock that the power allows.

**The clock.** A board has so many watts. Some of them go whatever runs, some for each byte that memory moves; the rest
is what matrix units and the issue of instructions take, which grows with how much of the time they work and with a
power of the clock. The clock is the highest at which all of it fits, at most the board's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from tkgen.backends.hopper.machine import Hopper, HopperProduct, HopperTiming
from tkgen.backends.spec import TypedSpec
from tkgen.ir.launch import Launch
from tkgen.predict.hopper.sass import Code
from tkgen.predict.prediction import PredictError, Prediction, WhatIf

if TYPE_CHECKING:
    from tkgen.predict.events import Recording


NEVER = 1e9  # times what is there
CHANGES = {
    "products": ("matrix instructions that take no time", {"matrix_efficiency": NEVER}, {}),
    "memory": (
        "global memory with no latency and unlimited bandwidth",
        {
            "hbm_latency_ns": 0.0,
            "load_latency_ns": 0.0,
            "copy_latency_ns": 0.0,
            "l2_tbps": NEVER,
            "request_cycles": 0.0,
        },
        {"hbm_tbps": NEVER},
    ),
    "instructions": ("vector and scalar instructions that take no time", {"lone_cycles": 0.0}, {}),
    "launch": ("no launch overhead", {"launch_us": 0.0, "early_launch_us": 0.0}, {}),
    "power": ("no limit of power", {"power_limit_w": NEVER}, {}),
}  # the meaning of each costing nothing: numbers of the machine, and of the product, that it has then


class HopperModel(ABC):
    """A build at sizes on a device."""

    spec: TypedSpec[Any, Hopper]
    machine: Hopper
    product: HopperProduct
    timing: HopperTiming
    repeated: Sequence[tuple[Code, float]] = ()  # loops of the machine code, and how often a tile executes each

    @abstractmethod
    def predicted(self) -> Prediction:
        """The time of one launch, and where it goes."""

    def prediction(self, what_if: bool = True) -> Prediction:
        """The time of one launch, where it goes, and what would change it."""
        found = self.predicted()
        if not what_if:
            return found
        changes = []
        for name, (change, timing, product) in CHANGES.items():
            seconds = min(self._with(timing, product).predicted().seconds, found.seconds)
            changes.append(WhatIf(change, name, seconds, found.seconds / seconds))
        return replace(found, what_if=tuple(sorted(changes, key=lambda x: x.seconds)))

    def _with(self, timing: Mapping[str, float], product: Mapping[str, float]) -> Self:
        """The same model on a machine with other numbers."""
        other = copy(self)
        for name in [n for n in vars(other) if isinstance(getattr(type(self), n, None), cached_property)]:
            delattr(other, name)
        numbers: tuple[Any, ...] = timing, product
        other.timing, other.product = replace(self.timing, **numbers[0]), replace(self.product, **numbers[1])
        other.machine = replace(self.machine, timing=other.timing)
        return other

    def recording(self) -> Recording:
        """Raises PredictError: there is none."""
        name, target = self.spec.name, self.spec.target.name
        raise PredictError(f"there is no trace of {name}: nothing follows machine code for {target}")


@dataclass(frozen=True)
class Work:
    """The work of a launch for the whole chip: cycles of matrix units and of issuing, bytes of memory.

    Cycles are means over the SMs, of an SM with all its sub-partitions, at most those of the launch.
    """

    matrix_cycles: float
    issue_cycles: float
    memory_bytes: float


@dataclass(frozen=True)
class Settled:
    """Seconds of a launch after its start, the clock in Hz that they are at, and the one that these seconds allow."""

    seconds: float
    hertz: float
    allowed: float
    held: str


def settled(machine: Hopper, start: float, busy: Callable[[float], float], work: Callable[[float], Work]) -> Settled:
    """The clock and the time, each as the other leaves it: `busy` seconds and `work` at a clock, after `start`."""
    found = Settled(0.0, 0.0, machine.timing.max_clock_mhz * 1e6, "peak")
    for _ in range(3):
        hertz = found.allowed
        seconds = busy(hertz)
        found = Settled(seconds, hertz, *clock(machine, work(hertz), seconds * hertz, start))
    return found


def clock(machine: Hopper, work: Work, cycles: float, fixed_seconds: float) -> tuple[float, str]:
    """The clock in Hz, and what holds it, of a launch that takes `cycles` of it and so many seconds beside them."""
    t = machine.timing

    def watts(hertz: float) -> float:
        seconds = cycles / hertz + fixed_seconds
        busy: float = t.matrix_w * work.matrix_cycles + t.vector_w * work.issue_cycles
        moving: float = busy / (seconds * hertz) * (hertz / (t.power_clock_mhz * 1e6)) ** t.power_exponent
        return float(t.idle_w) + t.memory_pj_per_byte * 1e-12 * work.memory_bytes / seconds + moving

    low, high = 0.1 * t.max_clock_mhz * 1e6, t.max_clock_mhz * 1e6
    if watts(high) <= t.power_limit_w:
        return high, "peak"
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if watts(middle) <= t.power_limit_w else (low, middle)
    return low, "power"


def moved_bytes(launch: Launch[Any]) -> int:
    """Of all tensors of a launch, each once."""
    return sum(map(launch.bytes, (*launch.program.reads, *launch.program.outputs)))


def prediction(
    spec: TypedSpec[Any, Hopper], launch: Launch[Any], product: HopperProduct,
    at: Settled, parts: Mapping[str, float], *, start: float, flops: float = 0.0, blocks_per_sm: int = 1,
    peak: float | None = None,
) -> Prediction:  # fmt: skip
    """The prediction of a launch that takes `start` and what has settled; `parts` of both are seconds.

    `peak` is that of the products, TFLOP/s, where it is another than that of 16-bit factors. Numbers that the data
    sheet of the product lacks were measured on another one.
    """
    seconds = start + at.seconds
    tflops, gbps = flops / seconds / 1e12, moved_bytes(launch) / seconds / 1e9
    measured_on = f"{product.name} with its own rate of memory; all else as measured on an {product.timed_as}"
    return Prediction(
        kernel=spec.name,
        target=spec.target.name,
        product=product.name,
        sizes=tuple(launch.extents.items()),
        seconds=seconds,
        launch_seconds=parts["launch"],
        tflops=tflops if flops else None,
        share_of_peak=tflops / (peak or product.peak_tflops) if flops else None,
        gbps=gbps,
        share_of_copy=gbps / (product.hbm_tbps * spec.target.timing.copy_efficiency * 1e3),
        memory_bound=not flops,
        limiter=max(parts, key=lambda part: parts[part]),
        clock_mhz=at.allowed / 1e6,
        clock_limit=at.held,
        blocks=launch.blocks,
        resident=blocks_per_sm,
        core="SM",
        parts=parts,
        notes=() if product.timed_as == product.name else (measured_on,),
    )


def read_rate(machine: Hopper, product: HopperProduct, read_bytes: float, written_bytes: float) -> float:
    """Bytes a second that memory moves of a mixture of reads and writes: between those of reads and of a copy."""
    t, total = machine.timing, read_bytes + written_bytes
    writes = min(2 * written_bytes / total, 1.0) if total else 0.0
    share = t.read_efficiency + (t.copy_efficiency - t.read_efficiency) * writes
    return product.hbm_tbps * 1e12 * share
