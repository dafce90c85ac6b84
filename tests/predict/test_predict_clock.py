"""The clock that power leaves."""

from __future__ import annotations

import pytest

from tkgen.predict.device import engine_clock
from tkgen.targets import load_target

TARGET = load_target("gfx942")
MI300X, MI325X = (TARGET.product_named(n) for n in ("MI300X", "MI325X"))


@pytest.mark.parametrize("product", [MI300X, MI325X], ids=lambda p: p.name)
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_the_published_measurement_is_met(product: object, dtype: str) -> None:
    tflops, mhz = product.sustained(dtype)  # type: ignore[attr-defined]
    utilisation = tflops / (TARGET.peak_tflops(dtype, product) * mhz / 2100)  # type: ignore[arg-type]
    clock = engine_clock(TARGET, product, dtype, utilisation)  # type: ignore[arg-type]
    assert clock.mhz == pytest.approx(mhz) and clock.limit == "power"


def test_less_work_gets_more_clock_up_to_the_peak() -> None:
    clocks = [engine_clock(TARGET, MI325X, "bf16", u / 20).mhz for u in range(21)]
    assert clocks == sorted(clocks, reverse=True)
    assert clocks[0] == clocks[2] == 2100 and clocks[20] < 1431


def test_more_work_is_never_slower() -> None:
    rates = [u / 20 * engine_clock(TARGET, MI325X, "bf16", u / 20).mhz for u in range(1, 21)]
    assert rates == sorted(rates)


def test_the_exponent_links_the_two_products() -> None:
    """The MI300X at its 750 W and the MI325X at its 1000 W obey one law, both measured on the same inputs."""
    assert TARGET.timing is not None
    assert (1447 / 1207) ** TARGET.timing.power_exponent == pytest.approx(1000 / 750, rel=0.01)


def test_where_nothing_is_published_it_says_so() -> None:
    new = load_target("gfx950")
    assert engine_clock(new, new.product, "bf16", 1.0).limit == "unknown"
    assert engine_clock(TARGET, MI325X, "f32", 1.0).limit == "unknown"
