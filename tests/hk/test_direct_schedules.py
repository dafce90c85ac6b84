"""tkgen's own schedules with direct loads: made, proven, right on the emulator."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("torch")

from tkgen import api
from tkgen.diagnostics import SpecError
from tkgen.emulate import interleavings
from tkgen.execute.launch import run

Small = Callable[..., api.Spec]


@pytest.mark.parametrize(("preset", "cols"), [("ping_pong", 128), ("auto", 256)])
def test_ping_pong(small: Small, preset: str, cols: int) -> None:
    spec = small(
        m=256, n=cols, block=f"256 x {cols} step 64", waves="waves 4 x 2", rest=f"  schedule {preset}\n"
    ).check()  # fmt: skip
    assert "ping_pong" in spec.plan.chosen
    build = spec.build().check()
    assert all(run(build, order=order).ok for order in interleavings(3))


def test_interleave(small: Small) -> None:
    spec = small(rest="  schedule interleave\n").check()
    build = spec.build().check()
    assert all(run(build, order=order).ok for order in interleavings(3))


def test_ping_pong_wants_two_buffers(small: Small) -> None:
    with pytest.raises(SpecError) as refused:
        small(m=256, n=128, block="256 x 128 step 64", waves="waves 4 x 2", buffers=3, rest="  schedule ping_pong\n")
    assert "two LDS buffers" in refused.value.diagnostics[0].message
