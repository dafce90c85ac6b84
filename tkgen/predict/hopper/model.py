"""What is the same of all predictions for a Hopper GPU: what is said of a kernel, and the clock that the power leaves.

**The clock.** A board has so many watts. Some of them go whatever runs, some for each byte that memory moves; the rest
is what matrix units and the issue of instructions take, which grows with how much of the time they work and with a
power of the clock. The clock is the highest at which all of it fits, at most the board's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

from tkgen.backends.hopper.machine import Hopper, HopperProduct
from tkgen.backends.spec import TypedSpec
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.launch import Launch
from tkgen.ir.types import Program
from tkgen.rows.launch import RowLaunch


@dataclass(frozen=True)
class HopperPrediction:
    """The time of one launch, back to back with others, on cold tensors; where it goes.

    `parts` adds up to `seconds`. `tflops` is of the products, 0 without any; `gbps` counts every byte of the tensors
    once, `share_of_copy` beside what a copy reaches. `clock_limit` says what holds the clock: "power" or "peak".
    What no data sheet says of the product was measured on `timed_as`, which may be another.
    """

    kernel: str
    target: str
    product: str
    timed_as: str
    sizes: tuple[tuple[str, int], ...]
    seconds: float
    tflops: float
    share_of_peak: float
    gbps: float
    share_of_copy: float
    limiter: str
    clock_mhz: float
    clock_limit: str
    blocks: int
    blocks_per_sm: int
    parts: Mapping[str, float]

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        return asdict(self) | {"sizes": dict(self.sizes)}

    def text(self) -> str:
        """For people: the rate, the clock, where the time goes."""
        sizes = " ".join(f"{name}={size}" for name, size in self.sizes)
        copy = f"{self.gbps:.0f} GB/s, {self.share_of_copy:.0%} of what a copy reaches"
        rate = f"{self.tflops:.0f} TFLOP/s, {self.share_of_peak:.0%} of peak" if self.tflops else copy
        held = {"power": "held by power", "peak": "the peak"}[self.clock_limit]
        parts = sorted(self.parts.items(), key=lambda part: -part[1])
        where = ", ".join(f"{name} {part / self.seconds:.0%}" for name, part in parts if part >= 0.005 * self.seconds)
        assumed = f"\n{self.product} with its own rate of memory; all else as measured on an {self.timed_as}"
        return (f"{self.kernel} {sizes} on {self.product}: {self.seconds * 1e6:.1f} us predicted, {rate}, "
                f"limited by {self.limiter}\n"
                f"{self.blocks} blocks, {self.blocks_per_sm} per SM; {self.clock_mhz:.0f} MHz ({held}); "
                f"{where}{assumed if self.timed_as != self.product else ''}")  # fmt: skip


@dataclass(frozen=True)
class Work:
    """What a launch asks of the chip, over all of it: cycles of matrix units and of issuing, bytes of memory.

    Cycles are means over the SMs, of an SM with all its sub-partitions, at most those of the launch.
    """

    matrix_cycles: float
    issue_cycles: float
    memory_bytes: float


@dataclass(frozen=True)
class Settled:
    """Seconds of a launch behind its start, the clock in Hz that they are at, and the one that these seconds allow."""

    seconds: float
    hertz: float
    allowed: float
    held: str


def settled(machine: Hopper, start: float, busy: Callable[[float], float], work: Callable[[float], Work]) -> Settled:
    """The clock and the time, each as the other leaves it: `busy` seconds and `work` at a clock, behind `start`."""
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


def moved_bytes(launch: Launch | RowLaunch) -> int:
    """Of all tensors of a launch, each once."""
    return sum(map(launch.bytes, (*launch.program.reads, *launch.program.outputs)))


def prediction(
    spec: TypedSpec[Program | EquationProgram, Hopper], launch: Launch | RowLaunch, product: HopperProduct,
    at: Settled, parts: Mapping[str, float], *, start: float, flops: float = 0.0, blocks_per_sm: int = 1,
    peak: float | None = None,
) -> HopperPrediction:  # fmt: skip
    """What is said of a launch that takes `start` and what has settled, of which `parts` are what.

    `peak` is that of the products, TFLOP/s, where it is another than that of 16-bit factors.
    """
    seconds = start + at.seconds
    tflops, gbps = flops / seconds / 1e12, moved_bytes(launch) / seconds / 1e9
    return HopperPrediction(
        kernel=spec.name,
        target=spec.target.name,
        product=product.name,
        timed_as=product.timed_as,
        sizes=tuple(launch.extents.items()),
        seconds=seconds,
        tflops=tflops,
        share_of_peak=tflops / (peak or product.peak_tflops),
        gbps=gbps,
        share_of_copy=gbps / (product.hbm_tbps * spec.target.timing.copy_efficiency * 1e3),
        limiter=max(parts, key=lambda part: parts[part]),
        clock_mhz=at.allowed / 1e6,
        clock_limit=at.held,
        blocks=launch.blocks,
        blocks_per_sm=blocks_per_sm,
        parts=parts,
    )


def read_rate(machine: Hopper, product: HopperProduct, read_bytes: float, written_bytes: float) -> float:
    """Bytes a second that memory moves of a mixture of reads and writes: between those of reads and of a copy."""
    t, total = machine.timing, read_bytes + written_bytes
    writes = min(2 * written_bytes / total, 1.0) if total else 0.0
    share = t.read_efficiency + (t.copy_efficiency - t.read_efficiency) * writes
    return product.hbm_tbps * 1e12 * share
