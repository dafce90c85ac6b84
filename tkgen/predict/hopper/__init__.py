"""Predicted times of kernels on Hopper GPUs, from the schedule, the machine code, and numbers of the target's file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tkgen.backends.form import by_ops
from tkgen.backends.hopper.toolchain import find_nvcc
from tkgen.execute.arguments import SizeError
from tkgen.packages import install_line
from tkgen.predict.hopper.iterations import IterationModel
from tkgen.predict.hopper.model import HopperModel
from tkgen.predict.hopper.throughput import ThroughputModel
from tkgen.predict.hopper.tiles import TileModel
from tkgen.predict.prediction import PredictError
from tkgen.toolchain.compiler import ToolchainError


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
    found: Callable[..., HopperModel] = by_ops(build.spec.program, TileModel, IterationModel, ThroughputModel)
    try:
        return found(build, sizes, device)
    except SizeError as error:
        raise PredictError(str(error)) from None


def check_tools(cxx: str | None) -> None:
    """Raises ToolchainError where nothing compiles, or disassembles what was compiled."""
    if find_nvcc(cxx).disassembler is None:
        raise ToolchainError(f"a prediction reads the machine code, and there is no cuobjdump; {install_line('cuda')}")
