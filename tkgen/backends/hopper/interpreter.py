"""Kernels for Hopper without a GPU: their schedules executed on torch (`model`, `loop_model`, `row_model`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from tkgen.backends import protocol
from tkgen.backends.hopper.schedule import MACHINE
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.ir.launch import Launch
from tkgen.proof.execution import Order, orders


class HopperInterpreter:
    """The model of the schedules of `sm_90a`."""

    caption = "the model of the schedule, not the machine code"

    def orders(self, count: int) -> tuple[Order, ...]:
        """`count` orders of a block's warps and of what they start."""
        return tuple(orders(count, [stream.name for stream in MACHINE.streams]))

    def run(
        self, spec: protocol.Spec, launch: Launch[Any], inputs: Mapping[str, Tensor], scalars: Mapping[str, float],
        order: Order, progress: Callable[[int, int], None] | None = None,
    ) -> protocol.Modelled:  # fmt: skip
        """One launch of a checked kernel."""
        assert isinstance(spec, HopperSpec)
        with one_thread():
            return spec.modelled(launch, inputs, scalars, order, progress)


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch with one thread: tiles are so small that several wait for each other longer than they work."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
