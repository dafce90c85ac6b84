"""A GPU as the models of machine code see it: what its file says of its timing, and a core's share of its memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tkgen.predict.prediction import PredictError, Prediction
from tkgen.predict.timing import Memory
from tkgen.predict.workload import Launched
from tkgen.targets import Target, load_target, target_names
from tkgen.targets.model import Product, Timing


@dataclass(frozen=True)
class Device:
    """A product of a target of which there is timing data."""

    target: Target
    product: Product
    timing: Timing

    @classmethod
    def of(cls, target: Target, product: str | None = None) -> Device:
        """The device called `product`, else the first of the target's file.

        Raises:
            PredictError: there is no timing data for the target.
            UnknownTargetError: it has no such product.
        """
        if target.timing is None:
            known = " and ".join(name for name in target_names() if load_target(name).timing)
            raise PredictError(
                f"{target.name} cannot be predicted: its file has no latencies and bandwidths; {known} have"
            )
        return cls(target, target.product_named(product) if product else target.product, target.timing)

    @property
    def copy_rate(self) -> float:
        """Bytes a second that streams reach."""
        return self.product.hbm_tbps * self.timing.hbm_efficiency * 1e12

    @property
    def launch_seconds(self) -> float:
        """The overhead of a launch."""
        return self.timing.launch_us * 1e-6

    def prediction(
        self, w: Launched, clock: Clock, *, seconds: float, launch_seconds: float, moved: float, **more: Any
    ) -> Prediction:
        """The prediction of a launch that takes `seconds`, `launch_seconds` of them to start, and must move bytes."""
        known = {"blocks": w.blocks, "clock_mhz": clock.mhz, "clock_limit": clock.limit, **more}
        return Prediction(
            kernel=w.name, target=self.target.name, product=self.product.name, sizes=w.sizes, seconds=seconds,
            launch_seconds=launch_seconds, gbps=moved / seconds / 1e9, share_of_copy=moved / seconds / self.copy_rate,
            upper_bound=clock.limit == "unknown", resident=w.blocks_per_cu, **known,
        )  # fmt: skip

    def memory(
        self, hertz: float, active: int, per_xcd: int, waits: tuple[float, float], beyond: tuple[float, float],
        footprint: int,
    ) -> Memory:  # fmt: skip
        """Latency and rates of a core's share, in cycles of this clock, where `active` cores are, `per_xcd` of a die.

        Of the loads, a share of `waits` is waited for until the last-level cache has it, and until HBM has. Of the
        bytes that blocks ask of the L2, a share of `beyond` goes to these. `footprint` are the bytes of all tensors.
        """
        t = self.timing
        latency = t.l2_latency_ns * 1e-9 * self.product.clock_mhz * 1e6
        latency += waits[0] * (t.llc_latency_ns - t.l2_latency_ns) * 1e-9 * hertz
        latency += waits[1] * (t.hbm_latency_ns - t.llc_latency_ns) * 1e-9 * hertz
        llc, hbm = t.llc_tbps * 1e12 / hertz / active, self.copy_rate / hertz / active
        rates = {"L2": min(t.l1_bytes_per_clock, t.l2_bytes_per_clock / per_xcd)}
        shares = {"LLC": (llc, beyond[0]), "HBM": (hbm, beyond[1])}
        rates |= {level: rate / share for level, (rate, share) in shares.items() if share}
        narrowest = min(rates, key=lambda level: rates[level])
        fits = self.target.llc_bytes >= footprint
        return Memory(latency, rates[narrowest], min(t.l1_bytes_per_clock, llc if fits else hbm), narrowest)


def check_fits(workload: Launched) -> None:
    """Raises PredictError where no block fits a core."""
    if workload.blocks_per_cu == 0:
        raise PredictError(f"no block of {workload.name} fits on a compute unit")


@dataclass(frozen=True)
class Clock:
    """An engine clock and why it is that: `limit` is "peak", "power" or "unknown" (no published sustained clock)."""

    mhz: float
    limit: str


def engine_clock(target: Target, product: Product, dtype: str, utilisation: float) -> Clock:
    """The clock at which a kernel runs whose matrix units work `utilisation` (0..1) of the time, all SIMDs counted.

    It is the peak where little of the chip multiplies, and what the power limit leaves otherwise. AMD publishes the
    clock at which a dense GEMM of high efficiency runs for seconds (`Product.sustained`). Power grows with the share of
    the time in which matrix units work, and with a power of the clock (`Timing.power_exponent`, from two products of
    the same silicon). So at matrix utilisation u, averaged over the chip and the kernel,

        clock = sustained clock * (u of the published measurement / u) ^ (1 / exponent), at most the peak clock.

    No kernel of ours enters this.
    """
    published = product.sustained(dtype)
    if published is None or target.timing is None:
        return Clock(product.clock_mhz, "unknown")
    tflops, mhz = published
    reference = tflops / (target.peak_tflops(dtype, product) * mhz / product.clock_mhz)
    if utilisation <= 0:
        return Clock(product.clock_mhz, "peak")
    clock = mhz * (reference / utilisation) ** (1 / target.timing.power_exponent)
    return Clock(product.clock_mhz, "peak") if clock >= product.clock_mhz else Clock(clock, "power")
