"""Where the waves of a block spend their time, instruction by instruction: what a prediction says, looked at closely.

>>> found = profile(tkgen.load("specs/ping_pong.tk").build())
>>> found.recording.spent[0][412]  # cycles of wave 0 from the issue of the instruction at dword 412 to its next one
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tkgen.predict.events import Recording
from tkgen.predict.model import Prediction, device_of, model_of
from tkgen.predict.workload import Workload

if TYPE_CHECKING:
    from tkgen.build import Build


@dataclass(frozen=True)
class Profile:
    """A prediction and the run of a full CU behind it. Instructions are named by their address in dwords."""

    prediction: Prediction
    recording: Recording


def profile(build: Build, sizes: Mapping[str, int] | None = None, product: str | None = None) -> Profile:
    """As `predict`, with every event of a full CU. Raises as `predict` does."""
    target = build.spec.target
    model = model_of(Workload.of(build, sizes), target, device_of(target, product))
    return Profile(model.prediction(what_if=True), model.recording())
