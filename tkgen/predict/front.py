"""The way in: the prediction of any build, for any machine, of one kernel or of several.

Which model stands behind it is each machine's own to say (`MACHINES`), by what the kernel does.

>>> p = predict(tkgen.load("specs/ping_pong.tk").build(), product="MI325X")
>>> p.tflops, p.limiter
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tkgen.backends.hopper.machine import load_hopper
from tkgen.ir.products import has_products
from tkgen.ir.types import Program
from tkgen.predict import hopper
from tkgen.predict.device import Device
from tkgen.predict.events import Recording
from tkgen.predict.iterations import IterationModel, Iterations
from tkgen.predict.prediction import Model, Prediction, several
from tkgen.predict.throughput import ThroughputModel, Transfer
from tkgen.predict.tiles import TileModel
from tkgen.predict.workload import Workload
from tkgen.targets import Target, hopper_names, load_target, target_names

if TYPE_CHECKING:
    from tkgen.backends import protocol


def predict(
    build: protocol.Build, sizes: Mapping[str, int] | None = None, product: str | None = None, *, what_if: bool = True
) -> Prediction:
    """Predict the time of `build` on a product of its target (the first of the target's file without a name).

    `sizes` gives the dynamic dimensions. Of several kernels, what would change the time is not asked.

    Raises:
        PredictError: the target has no timing data, the code has no shape that can be extrapolated, or a kernel cannot
            do the sizes.
        UnknownTargetError: the target has no such product.
    """
    return predicted(build, models(build, sizes, product), sizes, what_if=what_if)


def predict_workload(
    workload: Workload, target: Target, product: str | None = None, *, what_if: bool = True
) -> Prediction:
    """Predict any compiled matrix product, however it was made. See `predict`."""
    return TileModel(workload, Device.of(target, product)).prediction(what_if)


def models(
    build: protocol.Build, sizes: Mapping[str, int] | None = None, product: str | None = None
) -> tuple[Model, ...]:
    """The model of each kernel of a build, in order. Raises as `predict`."""
    return tuple(_machine(kernel.spec.target.name).model(kernel, sizes, product) for kernel in build.kernels)


def predicted(
    build: protocol.Build, known: Sequence[Model], sizes: Mapping[str, int] | None = None, *, what_if: bool = True
) -> Prediction:
    """The prediction of a build by its `models`."""
    if build.kernels[0] is build:
        return known[0].prediction(what_if)
    spec: Any = build.spec
    extents = {d.name: d.size if d.size is not None else (sizes or {})[d.name] for d in spec.program.dims}
    return several(spec.name, extents, [m.prediction(False) for m in known])


def check_device(target: str, product: str | None = None) -> None:
    """Raises PredictError where nothing is predicted for a target, UnknownTargetError: it has no such product."""
    _machine(target).check(target, product)


@dataclass(frozen=True)
class Profile:
    """A prediction and the run of a full CU behind it. Instructions are named by their address in dwords.

    >>> found = profile(tkgen.load("specs/ping_pong.tk").build())
    >>> found.recording.spent[0][412]  # cycles of wave 0 from the issue of the instruction at dword 412 to its next one
    """

    prediction: Prediction
    recording: Recording


def profile(build: protocol.Build, sizes: Mapping[str, int] | None = None, product: str | None = None) -> Profile:
    """As `predict` of one kernel, with every event of a full CU. Raises as `predict` does."""
    (model,) = models(build, sizes, product)
    return Profile(model.prediction(), model.recording())


# ---------------------------------------------------------------- the machines


@dataclass(frozen=True)
class Machine:
    """A kind of machine: the names of its targets, the model of a build, whether a product can be predicted for."""

    targets: Callable[[], Sequence[str]]
    model: Callable[[Any, Mapping[str, int] | None, str | None], Model]
    check: Callable[[str, str | None], object]


def _followed(build: Any, sizes: Mapping[str, int] | None, product: str | None) -> Model:
    """The model of a build whose machine code the emulator follows."""
    program, device = build.spec.program, Device.of(build.spec.target, product)
    if isinstance(program, Program):  # a grid of output tiles
        return TileModel(Workload.of(build, sizes), device)
    if has_products(program.kernel):  # in a loop
        return IterationModel(Iterations.of(build, sizes), device)
    return ThroughputModel(Transfer.of(build, sizes), device)


def _check_followed(target: str, product: str | None) -> None:
    Device.of(load_target(target), product)


def _check_hopper(target: str, product: str | None) -> None:
    if product:
        load_hopper(target).product_named(product)


MACHINES = (
    Machine(target_names, _followed, _check_followed),
    Machine(hopper_names, hopper.model, _check_hopper),
)


def _machine(target: str) -> Machine:
    """The machine of a target; of one that nothing knows the first, which says so when it is loaded."""
    return next((m for m in MACHINES if target in m.targets()), MACHINES[0])
