"""Predicted times of kernels on Hopper GPUs, from the schedule, the machine code, and numbers of the target's file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tkgen.backends.hopper.loop_spec import HopperLoopSpec
from tkgen.backends.hopper.row_spec import HopperRowSpec
from tkgen.execute.arguments import SizeError
from tkgen.packages import install_line
from tkgen.predict.hopper.iterations import IterationModel
from tkgen.predict.hopper.model import HopperModel
from tkgen.predict.hopper.throughput import ThroughputModel
from tkgen.predict.hopper.tiles import TileModel
from tkgen.predict.prediction import PredictError


def model(build: Any, sizes: Mapping[str, int] | None, product: str | None) -> HopperModel:
    """The model of a build on a product of its target (the first without a name).

    Raises:
        PredictError: nothing disassembles its machine code, or the kernel cannot do the sizes.
        UnknownTargetError: there is no such product.
    """
    machine = build.spec.target
    device = machine.product_named(product) if product else machine.product
    if not build.sass:
        raise PredictError(
            "a prediction reads the machine code, and nothing here disassembles it: no cuobjdump beside nvcc or on "
            f"PATH; {install_line('cuda')}"
        )
    try:
        match build.spec:
            case HopperLoopSpec():
                return IterationModel(build, sizes, device)
            case HopperRowSpec():
                return ThroughputModel(build, sizes, device)
            case _:
                return TileModel(build, sizes, device)
    except SizeError as error:
        raise PredictError(str(error)) from None
