"""Predicted times of kernels on Hopper GPUs, from the schedule, the machine code, and numbers of the target's file.

>>> p = predict_hopper(tkgen.load("specs/hopper/h100_lcf.tk").build())
>>> p.tflops, p.limiter
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from tkgen.backends.hopper.build import CudaBuild
from tkgen.backends.hopper.loop_spec import HopperLoopBuild
from tkgen.backends.hopper.row_spec import HopperRowBuild
from tkgen.backends.hopper.spec import HopperBuild
from tkgen.execute.arguments import SizeError
from tkgen.packages import install_line
from tkgen.predict.hopper.loops import LoopModel
from tkgen.predict.hopper.model import HopperPrediction
from tkgen.predict.hopper.products import ProductModel
from tkgen.predict.hopper.rows import RowModel
from tkgen.predict.workload import PredictError

HopperModel: TypeAlias = ProductModel | LoopModel | RowModel


def hopper_model(build: CudaBuild, sizes: Mapping[str, int] | None = None, product: str | None = None) -> HopperModel:
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
        if isinstance(build, HopperLoopBuild):
            return LoopModel(build, sizes, device)
        if isinstance(build, HopperRowBuild):
            return RowModel(build, sizes, device)
        assert isinstance(build, HopperBuild)
        return ProductModel(build, sizes, device)
    except SizeError as error:
        raise PredictError(str(error)) from None


def predict_hopper(
    build: CudaBuild, sizes: Mapping[str, int] | None = None, product: str | None = None
) -> HopperPrediction:
    """The predicted time of a build. Raises as `hopper_model`."""
    return hopper_model(build, sizes, product).prediction()


__all__ = ["HopperModel", "HopperPrediction", "hopper_model", "predict_hopper"]
