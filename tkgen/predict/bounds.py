"""Seconds that no schedule of a kernel can beat, from its launch alone, before anything is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

from tkgen.backends.hopper.machine import Hopper, HopperProduct
from tkgen.backends.spec import AnySpec
from tkgen.ir.launch import Launch
from tkgen.ir.types import Program
from tkgen.predict.device import Device


def matrix_bound(program: Program, device: Device, sizes: Mapping[str, int]) -> float:
    """Launching, then the matrix units of the busiest compute unit at the peak clock.

    A compute unit gets at least the blocks divided by the compute units, rounded up; `persistent` and `stream_k` grids
    hand out tiles and K-steps instead.
    """
    launch = Launch(program, {d.name: d.size if d.size is not None else sizes[d.name] for d in program.dims})
    rows, cols, _ = program.block
    share = launch.all_tiles * launch.parts / device.product.compute_units
    busiest = share if program.grid.name == "stream_k" else float(ceil(share))
    rates = [i.flops_per_cycle for i in device.target.mfma_shapes(program.a.dtype.spelling)]
    launches = 2 if program.added else 1  # the output is cleared first where blocks add to it
    rate = max(rates) * device.target.simds_per_cu * device.product.clock_mhz * 1e6
    shared = launch.parts * (launch.matrices // max(launch.factors, 1))  # blocks that sum a part of a contraction each
    depth = launch.extents[program.k.name] / max(shared, 1)
    return launches * device.launch_seconds + busiest * 2 * rows * cols * depth / rate


def copy_bound(spec: AnySpec, device: Device, sizes: Mapping[str, int]) -> float:
    """Launching, then moving the tensors once at the copy rate."""
    return float(device.launch_seconds + spec.launch(sizes).moved_bytes / device.copy_rate)


def hopper_bound(spec: Any, product: HopperProduct, sizes: Mapping[str, int]) -> float:
    """Launching, then the matrix units of the busiest block at the peak clock, or the bytes of memory."""
    machine: Hopper = spec.target
    launch, start = spec.launch(sizes), machine.timing.launch_us * 1e-6
    if launch.program.contraction is not None:  # of a grid of output tiles
        steps = max(sum(piece.steps for piece in own) for own in launch.work)
        program, layout = launch.program, spec.layout
        depth = machine.wgmma_depth_bytes // program.a.dtype.bytes
        products = layout.consumers * layout.fragments * len(program.products)
        cycles = program.block[1] / 2 * (program.block[2] / depth) * products
        return float(start + steps * cycles / (machine.timing.max_clock_mhz * 1e6))
    return float(start + launch.moved_bytes / (product.hbm_tbps * 1e12))
