"""Where the waves of a block spend their time, instruction by instruction: what a prediction says, looked at closely.

>>> prediction, waves = profile(tkgen.load("specs/ping_pong.tk").build())
>>> waves[0][412]  # cycles of wave 0 from the issue of the instruction at dword 412 to that of its next one
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tkgen.predict.model import Prediction, device_of, model_of
from tkgen.predict.workload import Workload

if TYPE_CHECKING:
    from tkgen.build import Build


def profile(
    build: Build, sizes: Mapping[str, int] | None = None, product: str | None = None
) -> tuple[Prediction, tuple[Mapping[int, float], ...]]:
    """As `predict`, and for each wave of a block the cycles from an instruction's issue to that of its next one.

    Instructions are named by their address in the kernel, in dwords. Those of the loop count for one steady pass on a
    full CU, the others for the one time they run. Raises as `predict` does.
    """
    target = build.spec.target
    model = model_of(Workload.of(build, sizes), target, device_of(target, product))
    return model.prediction(what_if=True), tuple(model.by_instruction())
