"""The host run as one of the back end's executors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from tkgen.backends import protocol
from tkgen.backends.hopper.host.run import run
from tkgen.backends.hopper.interpreter import HopperInterpreter
from tkgen.backends.hopper.launch import MapError
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.execute.arguments import SizeError
from tkgen.ir.launch import Launch
from tkgen.proof.execution import Order


class HostExecutor(HopperInterpreter):
    """The generated C++ of `sm_90a`, compiled for the CPU and executed there."""

    caption = "the generated C++ on the CPU, not the machine code"

    def run(
        self, spec: protocol.Spec, launch: Launch[Any], inputs: Mapping[str, Tensor], scalars: Mapping[str, float],
        order: Order, progress: Callable[[int, int], None] | None = None,
    ) -> protocol.Modelled:  # fmt: skip
        """One launch of a checked kernel.

        Raises:
            ToolchainError: no C++ compiler here, or the C++ does not compile.
            SizeError: the copy engine could not move a tensor of these sizes.
        """
        assert isinstance(spec, HopperSpec)
        try:
            return run(spec, launch, inputs, scalars, order, progress)
        except MapError as error:
            raise SizeError(str(error)) from error
