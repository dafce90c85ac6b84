"""The engine clock: the peak where little of the chip multiplies, what the power limit leaves otherwise.

AMD publishes the clock at which a dense GEMM of high efficiency runs for seconds (`Product.sustained`). Power grows
with the share of the time in which matrix units work, and with a power of the clock (`Timing.power_exponent`, from
two products of the same silicon). So at matrix utilisation u, averaged over the chip and the kernel,

    clock = sustained clock * (u of the published measurement / u) ^ (1 / exponent), at most the peak clock.

No kernel of ours enters this.
"""

from __future__ import annotations

from dataclasses import dataclass

from tkgen.targets import Target
from tkgen.targets.model import Product


@dataclass(frozen=True)
class Clock:
    """An engine clock and why it is that: `limit` is "peak", "power" or "unknown" (no published sustained clock)."""

    mhz: float
    limit: str


def engine_clock(target: Target, product: Product, dtype: str, utilisation: float) -> Clock:
    """The clock at which a kernel runs whose matrix units work `utilisation` (0..1) of the time, all SIMDs counted."""
    published = product.sustained(dtype)
    if published is None or target.timing is None:
        return Clock(product.clock_mhz, "unknown")
    tflops, mhz = published
    reference = tflops / (target.peak_tflops(dtype, product) * mhz / product.clock_mhz)
    if utilisation <= 0:
        return Clock(product.clock_mhz, "peak")
    clock = mhz * (reference / utilisation) ** (1 / target.timing.power_exponent)
    return Clock(product.clock_mhz, "peak") if clock >= product.clock_mhz else Clock(clock, "power")
