"""Shipped specs that carry a running maximum give torch's numbers where parts of a row, or all of it, are -inf.

A maximum that started at -inf made NaN of a row whose first tile was -inf: `exp(m - n)` of two -inf. On an H100 a
product less a product was one fused instruction, whose rounding is left where both are the same: of scores beyond 1e9
all was NaN; `tests/hopper/maxima_on_gpu.py` has these there.
"""

from __future__ import annotations

import pytest
from maxima import SPECS, target_of, wrong

# One of each family by default.
QUICK = {
    "specs/rows/long_softmax.tk", "specs/hopper/h100_long_softmax.tk", "specs/attention/attention.tk",
    "specs/attention/attention_decode.tk",
}  # fmt: skip


def test_none_is_missed() -> None:
    assert len(SPECS) == 28 and SPECS.keys() > QUICK
    assert {target_of(name) for name in SPECS} == {"gfx942", "gfx950", "sm_90a"}


@pytest.mark.parametrize("kind", ["-inf", "large"])
@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in SPECS])
def test_torchs_numbers(name: str, kind: str) -> None:
    assert not wrong(name, kind)


@pytest.mark.parametrize("kind", ["-inf", pytest.param("large", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name",
    [n if "long" in n else pytest.param(n, marks=pytest.mark.slow) for n in SPECS if target_of(n) == "sm_90a"],
)
def test_torchs_numbers_of_the_code_for_hopper(name: str, kind: str) -> None:
    """The C++ on the host."""
    assert not wrong(name, kind, "host")
