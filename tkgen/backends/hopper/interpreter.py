"""Kernels for Hopper without a GPU: their schedules carried out on torch (`model`, `loop_model`, `row_model`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tkgen.backends import protocol
from tkgen.backends.hopper.loop_model import run_loop
from tkgen.backends.hopper.loop_spec import HopperLoopSpec
from tkgen.backends.hopper.model import run_products
from tkgen.backends.hopper.row_model import run_rows
from tkgen.backends.hopper.row_spec import HopperRowSpec
from tkgen.backends.hopper.schedule import MACHINE
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.ir.launch import Launch
from tkgen.proof.execution import Order, orders
from tkgen.rows.launch import RowLaunch

if TYPE_CHECKING:
    from tkgen.execute.kernels import AnyLaunch


class HopperInterpreter:
    """The model of the schedules of `sm_90a`."""

    caption = "the model of the schedule, not the machine code"

    def orders(self, count: int) -> tuple[Order, ...]:
        """`count` orders of a block's warps and of what they start."""
        return tuple(orders(count, [stream.name for stream in MACHINE.streams]))

    def run(
        self, spec: protocol.Spec, launch: AnyLaunch, inputs: Mapping[str, Tensor], scalars: Mapping[str, float],
        order: Order, progress: Callable[[int, int], None] | None = None,
    ) -> protocol.Modelled:  # fmt: skip
        """One launch of a checked spec."""
        with one_thread():
            if isinstance(spec, HopperLoopSpec):
                assert isinstance(launch, RowLaunch)
                return run_loop(spec.layout, launch, inputs, scalars, order, progress)
            if isinstance(spec, HopperRowSpec):
                assert isinstance(launch, RowLaunch)
                return run_rows(spec.rows, spec.lanes, launch, inputs, scalars, order, progress)
            assert isinstance(spec, HopperSpec) and isinstance(launch, Launch)
            return run_products(spec.layout, launch, inputs, scalars, order, progress)


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch with one thread: tiles are so small that several wait for each other longer than they work."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
